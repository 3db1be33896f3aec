//! Merging an applied configuration into an object.
//!
//! What the configuration does not name stays. Nothing is removed here.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::path::Element;
use super::types::{Atom, List, MapType, TypeRef};

/// The live object with the configuration merged into it; both have passed [`super::check`], the configuration without
/// duplicates.
pub(super) fn merge(root: TypeRef<'_>, live: &Value, config: &Value) -> Value {
    values(root, Some(live), Some(config)).unwrap_or_default()
}

/// `None` where nothing is left, such as a list without elements that had some.
fn values(place: TypeRef<'_>, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    let kept = || config.or(live).cloned();
    match place.atoms().of(config.or(live)) {
        Atom::Scalar(_) => kept(),
        Atom::List(list) => {
            let (left, right) = (array(live), array(config));
            // The difference between empty and null is one of a leaf.
            if list.is_atomic() || left.is_empty() && right.is_empty() {
                return kept();
            }
            let merged = elements(list, left, right);
            (!merged.is_empty()).then_some(Value::Array(merged))
        }
        Atom::Map(map) => {
            let (left, right) = (live.and_then(Value::as_object), config.and_then(Value::as_object));
            if map.is_atomic || left.is_none_or(Map::is_empty) && right.is_none_or(Map::is_empty) {
                return kept();
            }
            let merged = entries(map, left, right);
            (!merged.is_empty()).then_some(Value::Object(merged))
        }
    }
}

fn array(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn entries(
    map: MapType<'_>,
    live: Option<&Map<String, Value>>,
    config: Option<&Map<String, Value>>,
) -> Map<String, Value> {
    let mut merged = Map::new();
    let mut entry = |name: &String, left: Option<&Value>, right: Option<&Value>| {
        if let Some(value) = map.field(name).and_then(|place| values(place, left, right)) {
            merged.insert(name.clone(), value);
        }
    };
    for (name, left) in live.into_iter().flatten() {
        entry(name, Some(left), config.and_then(|config| config.get(name)));
    }
    for (name, right) in config.into_iter().flatten() {
        if live.is_none_or(|live| !live.contains_key(name)) {
            entry(name, None, Some(right));
        }
    }
    merged
}

/// The elements of a list, each with the number that stands for its key.
struct Keyed<'v>(Vec<(usize, &'v Value)>);

/// What is known of a key.
#[derive(Default)]
struct Key<'v> {
    /// The one element of the live list, or null where it has several: duplicates are not merged.
    live: Option<&'v Value>,
    config: Option<&'v Value>,
    is_merged: bool,
}

fn keyed<'v>(list: List<'_>, values: &'v [Value], numbers: &mut BTreeMap<Element, usize>) -> Keyed<'v> {
    let number = |value: &'v Value| {
        let element = list.element(value).ok()?;
        let next = numbers.len();
        Some((*numbers.entry(element).or_insert(next), value))
    };
    Keyed(values.iter().filter_map(number).collect())
}

/// The elements of both lists. Those of the configuration keep their order among each other, and so do those that only the
/// live list has; where the two orders meet, an element of the live list goes first.
fn elements(list: List<'_>, live: &[Value], config: &[Value]) -> Vec<Value> {
    const SEVERAL: &Value = &Value::Null;
    let mut numbers = BTreeMap::new();
    let (live, config) = (keyed(list, live, &mut numbers).0, keyed(list, config, &mut numbers).0);
    let mut keys: Vec<Key<'_>> = Vec::new();
    keys.resize_with(numbers.len(), Key::default);
    for (key, value) in &live {
        keys[*key].live = Some(if keys[*key].live.is_some() { SEVERAL } else { value });
    }
    for (key, value) in &config {
        keys[*key].config = Some(value);
    }
    let shared: Vec<usize> =
        config.iter().map(|(key, _)| *key).filter(|key| keys[*key].live.is_some()).collect();
    let mut shared = shared.into_iter();
    let mut next_shared = shared.next();
    let mut merged = Vec::with_capacity(live.len().max(config.len()));
    let (mut left, mut right) = (live.iter().peekable(), config.iter().peekable());
    while left.peek().is_some() || right.peek().is_some() {
        if let (Some((l, _)), Some((r, _))) = (left.peek(), right.peek()) {
            if l == r {
                keys[*l].is_merged = true;
                merged.extend(values(list.items, keys[*l].live, keys[*l].config));
                left.next();
                right.next();
                next_shared = shared.next();
                continue;
            }
            if keys[*l].config.is_some() && next_shared.is_some_and(|next| next != *l) {
                // The turn of another shared element comes first.
                left.next();
                continue;
            }
        }
        if let Some((l, value)) = left.peek() {
            if keys[*l].config.is_none() {
                merged.extend(values(list.items, Some(value), None));
                left.next();
                continue;
            }
            if keys[*l].is_merged {
                left.next();
            }
        }
        if let Some((r, _)) = right.next() {
            keys[*r].is_merged = true;
            merged.extend(values(list.items, keys[*r].live, keys[*r].config));
            if next_shared == Some(*r) {
                next_shared = shared.next();
            }
        }
    }
    merged
}
