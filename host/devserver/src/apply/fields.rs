//! The set of fields that an object has: what an applier owns.

use serde_json::Value;

use super::path::Element;
use super::set::{Node, Set};
use super::types::{Atom, List, TypeRef};

/// The paths of all leaves of an object that [`super::check`] has let pass, and of elements and entries.
pub(super) fn of(root: TypeRef<'_>, object: &Value) -> Set {
    below(root, object).1
}

/// Whether the value is a leaf, and what is below it.
fn below(place: TypeRef<'_>, value: &Value) -> (bool, Set) {
    match (place.atoms().of(Some(value)), value) {
        (Atom::Scalar(_), _) => (true, Set::default()),
        (Atom::List(list), _) if list.is_atomic() => (true, Set::default()),
        (Atom::Map(map), _) if map.is_atomic => (true, Set::default()),
        (Atom::List(list), Value::Array(elements)) => (false, elements_of(list, elements)),
        (Atom::Map(map), Value::Object(object)) => {
            let nodes = object.iter().filter_map(|(name, value)| {
                let described = map.described(name);
                let (is_leaf, below) = below(described.or(map.entries())?, value);
                let is_empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                let is_member = is_leaf || is_empty || described.is_none();
                Some(Node { element: Element::field(name), is_member, below })
            });
            (false, Set::from_nodes(nodes.collect()))
        }
        _ => (false, Set::default()),
    }
}

/// Of elements with the same key, the key alone.
fn elements_of(list: List<'_>, elements: &[Value]) -> Set {
    let keyed = elements.iter().filter_map(|value| Some((list.element(value).ok()?, value)));
    let mut keyed: Vec<(Element, &Value)> = keyed.collect();
    keyed.sort_by(|a, b| a.0.cmp(&b.0));
    let nodes = keyed.chunk_by(|a, b| a.0 == b.0).filter_map(|same| {
        let (element, value) = same.first()?;
        let below = if same.len() == 1 { below(list.items, value).1 } else { Set::default() };
        Some(Node { element: element.clone(), is_member: true, below })
    });
    Set::from_nodes(nodes.collect())
}
