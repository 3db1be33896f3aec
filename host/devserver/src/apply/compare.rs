//! What a write changes: the fields that it adds, modifies and removes.

use serde_json::{Map, Value};

use super::path::Element;
use super::set::{Node, Set};
use super::types::{Atom, List, MapType, TypeRef};
use super::value;

/// The changes from one object to another; no path is in more than one of the sets.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) removed: Set,
    pub(super) modified: Set,
    pub(super) added: Set,
}

impl Comparison {
    /// Without the fields of a set, and without all below them.
    pub(super) fn without(&self, ignored: &Set) -> Self {
        Self {
            removed: self.removed.recursive_difference(ignored),
            modified: self.modified.recursive_difference(ignored),
            added: self.added.recursive_difference(ignored),
        }
    }

    /// What the new object has that the old one had not, or had otherwise.
    pub(super) fn written(&self) -> Set {
        self.modified.union(&self.added)
    }
}

/// Compares two objects that [`super::check`] has let pass.
pub(super) fn compare(root: TypeRef<'_>, old: &Value, new: &Value) -> Comparison {
    let mut changes = Changes::default();
    let mut here = Here::default();
    values(root, Some(old), Some(new), &mut here, &mut changes);
    changes.into_sets()
}

/// The changes below a place.
#[derive(Default)]
struct Changes {
    removed: Vec<Node>,
    modified: Vec<Node>,
    added: Vec<Node>,
}

impl Changes {
    fn into_sets(self) -> Comparison {
        Comparison {
            removed: Set::from_nodes(self.removed),
            modified: Set::from_nodes(self.modified),
            added: Set::from_nodes(self.added),
        }
    }

    /// Adds a place with the changes below it.
    fn add(&mut self, element: impl FnOnce() -> Element, here: &Here, below: Self) {
        let is_unchanged = !(here.removed || here.modified || here.added);
        let has_none = below.removed.is_empty() && below.modified.is_empty() && below.added.is_empty();
        if is_unchanged && has_none {
            return;
        }
        let (element, below) = (element(), below.into_sets());
        for (into, is_member, below) in [
            (&mut self.removed, here.removed, below.removed),
            (&mut self.modified, here.modified, below.modified),
            (&mut self.added, here.added, below.added),
        ] {
            if is_member || !below.is_empty() {
                into.push(Node { element: element.clone(), is_member, below });
            }
        }
    }
}

/// The changes of a place itself.
#[derive(Default)]
struct Here {
    removed: bool,
    modified: bool,
    added: bool,
}

impl Here {
    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, _) => self.added = true,
            (_, None) => self.removed = true,
            (Some(old), Some(new)) => self.modified |= value::compare(old, new).is_ne(),
        }
    }
}

/// At least one of the values is there.
fn values(
    place: TypeRef<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    here: &mut Here,
    changes: &mut Changes,
) {
    let atoms = place.atoms();
    match (old, new) {
        (Some(old), Some(new)) => {
            if !atoms.are_alike(old, new) {
                as_atom(atoms.of(Some(old)), Some(old), Some(new), here, changes);
            }
            as_atom(atoms.of(Some(new)), Some(old), Some(new), here, changes);
        }
        _ => {
            as_atom(atoms.of(new.or(old)), old, new, here, changes);
            here.added |= old.is_none();
            here.removed |= new.is_none();
        }
    }
}

fn as_atom(atom: Atom<'_>, old: Option<&Value>, new: Option<&Value>, here: &mut Here, changes: &mut Changes) {
    match atom {
        Atom::Scalar(_) => here.leaf(old, new),
        Atom::List(list) => {
            let (left, right) = (elements(old), elements(new));
            // The difference between empty and null is one of a leaf.
            if list.is_atomic() || left.is_empty() && right.is_empty() {
                here.leaf(old, new);
            } else if left != right {
                list_elements(list, left, right, changes);
            }
        }
        Atom::Map(map) => {
            let (left, right) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
            if map.is_atomic || left.is_none_or(Map::is_empty) && right.is_none_or(Map::is_empty) {
                here.leaf(old, new);
            } else {
                map_entries(map, left, right, changes);
            }
        }
    }
}

fn elements(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn map_entries(
    map: MapType<'_>,
    old: Option<&Map<String, Value>>,
    new: Option<&Map<String, Value>>,
    changes: &mut Changes,
) {
    let mut entry = |name: &str, left: Option<&Value>, right: Option<&Value>| {
        let Some(place) = map.field(name) else { return };
        let (mut here, mut below) = (Here::default(), Changes::default());
        values(place, left, right, &mut here, &mut below);
        changes.add(|| Element::field(name), &here, below);
    };
    for (name, left) in old.into_iter().flatten() {
        entry(name, Some(left), new.and_then(|new| new.get(name)));
    }
    for (name, right) in new.into_iter().flatten() {
        if old.is_none_or(|old| !old.contains_key(name)) {
            entry(name, None, Some(right));
        }
    }
}

/// Elements of one key, of the old and of the new list.
#[derive(Default)]
struct Same<'v> {
    old: Vec<&'v Value>,
    new: Vec<&'v Value>,
}

fn list_elements(list: List<'_>, old: &[Value], new: &[Value], changes: &mut Changes) {
    let mut by_key = std::collections::BTreeMap::<Element, Same<'_>>::new();
    for value in old {
        if let Ok(element) = list.element(value) {
            by_key.entry(element).or_default().old.push(value);
        }
    }
    for value in new {
        if let Ok(element) = list.element(value) {
            by_key.entry(element).or_default().new.push(value);
        }
    }
    for (element, same) in by_key {
        let (mut here, mut below) = (Here::default(), Changes::default());
        let mut one = |old, new| values(list.items, old, new, &mut here, &mut below);
        match (&same.old[..], &same.new[..]) {
            ([] | [_], [] | [_]) => one(same.old.first().copied(), same.new.first().copied()),
            // Several of the same key are one leaf.
            ([_, _, ..], [_, _, ..]) => {
                let are_equal = same.old.len() == same.new.len()
                    && same.old.iter().zip(&same.new).all(|(l, r)| value::compare(l, r).is_eq());
                here.modified = !are_equal;
            }
            ([_, _, ..], rest) => {
                if let Some(first) = rest.first() {
                    one(None, Some(first));
                }
                here.removed = true;
            }
            (rest, [_, _, ..]) => {
                if let Some(first) = rest.first() {
                    one(Some(first), None);
                }
                here.added = true;
            }
        }
        changes.add(|| element, &here, below);
    }
}
