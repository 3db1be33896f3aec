//! Taking fields out of an object by a set of paths.

use serde_json::{Map, Value};

use super::path::Element;
use super::set::{Node, Set};
use super::types::{Atom, TypeRef};

/// The object without the fields and elements of a set. A map or a list that had something taken out and has nothing left
/// is null, as in the library; what defaults the object afterwards drops it.
pub(super) fn remove(root: TypeRef<'_>, object: &Value, removed: &Set) -> Value {
    if removed.is_empty() {
        return object.clone();
    }
    match (root.atoms().of(Some(object)), object) {
        (Atom::Scalar(_), _) => object.clone(),
        (Atom::List(list), Value::Array(elements)) if !list.is_atomic() => {
            let kept = elements.iter().filter_map(|value| {
                let node = list.element(value).ok().and_then(|element| removed.get(&element));
                keep(list.items, value, node)
            });
            let kept: Vec<Value> = kept.collect();
            if kept.is_empty() { Value::Null } else { kept.into() }
        }
        (Atom::Map(map), Value::Object(object)) if !map.is_atomic => {
            let kept = object.iter().filter_map(|(name, value)| {
                let node = removed.get(&Element::field(name));
                let kept = match map.field(name) {
                    Some(place) => keep(place, value, node),
                    None => Some(value.clone()),
                };
                Some((name.clone(), kept?))
            });
            let kept: Map<String, Value> = kept.collect();
            if kept.is_empty() { Value::Null } else { kept.into() }
        }
        _ => Value::Null,
    }
}

fn keep(place: TypeRef<'_>, value: &Value, node: Option<&Node>) -> Option<Value> {
    match node {
        None => Some(value.clone()),
        Some(node) if node.is_member => None,
        Some(node) => Some(remove(place, value, &node.below)),
    }
}

/// The set with the fields that lead to its paths, where the type names them. A set of fields leaves those out, and
/// comparisons of what is to be removed need them.
pub(super) fn with_parents(root: TypeRef<'_>, set: &Set) -> Set {
    below(Some(root), set)
}

fn below(place: Option<TypeRef<'_>>, set: &Set) -> Set {
    let atoms = place.map(TypeRef::atoms);
    let (map, list) = (atoms.and_then(super::types::Atoms::map), atoms.and_then(super::types::Atoms::list));
    let nodes = set.nodes().iter().map(|node| {
        let (is_described, place) = match (&node.element, map, list) {
            (Element::Field(name), Some(map), _) => {
                let described = map.described(name);
                (described.is_some(), described.or(map.entries()))
            }
            (Element::Key(_), _, Some(list)) => (false, Some(list.items)),
            _ => (false, None),
        };
        let is_member = node.is_member || is_described && !node.below.is_empty();
        Node { element: node.element.clone(), is_member, below: below(place, &node.below) }
    });
    Set::from_nodes(nodes.collect())
}
