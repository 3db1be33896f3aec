//! Sets of fields that were written under another schema.
//!
//! Where a type has become atomic since, whoever owned fields below it owns the whole. Where one has become granular,
//! nothing changes: the owner of the whole owns that path.

use super::path::Element;
use super::set::{Node, Set};
use super::types::{Atom, TypeRef};

/// The set in the terms of the type; `None` if it stays as it is.
pub(super) fn reconcile(root: TypeRef<'_>, set: &Set) -> Option<Set> {
    let atom = root.atoms().first();
    let mut changed = false;
    let nodes: Vec<Node> = set
        .nodes()
        .iter()
        .map(|node| {
            let below = place_of(atom, &node.element).and_then(|place| reconcile_node(place, node));
            changed |= below.is_some();
            below.unwrap_or_else(|| node.clone())
        })
        .collect();
    changed.then(|| Set::from_nodes(nodes))
}

fn place_of<'a>(atom: Atom<'a>, element: &Element) -> Option<TypeRef<'a>> {
    match (atom, element) {
        (Atom::Map(map), _) if map.is_deduced() => None,
        (Atom::Map(map), Element::Field(name)) => map.field(name),
        (Atom::Map(map), _) => map.entries(),
        (Atom::List(list), _) => Some(list.items),
        (Atom::Scalar(_), _) => None,
    }
}

fn reconcile_node(place: TypeRef<'_>, node: &Node) -> Option<Node> {
    if node.below.is_empty() {
        return None;
    }
    let is_atomic = match place.atoms().first() {
        Atom::Map(map) => map.is_atomic && !map.is_deduced(),
        Atom::List(list) => list.is_atomic(),
        Atom::Scalar(_) => false,
    };
    if is_atomic {
        return Some(Node::leaf(node.element.clone()));
    }
    let below = reconcile(place, &node.below)?;
    Some(Node { element: node.element.clone(), is_member: node.is_member, below })
}
