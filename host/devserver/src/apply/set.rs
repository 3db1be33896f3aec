//! [`Set`]: a set of paths, as a sorted trie.
//!
//! Invariants: the nodes of a set are sorted and distinct by their element; a node is a member or has members below. Sets
//! share their nodes and are never changed in place: copying one is a count of references, and an operation copies only the
//! nodes on the way to a difference.
//!
//! A path and its parents are members apart: `a.b` may be in a set without `a`.
//!
//! Whatever the sizes of two sets, an intersection costs about the size of the smaller, and a difference that of the left
//! one: clients choose how many entries an object has, and each is compared with the same changes.

use std::sync::Arc;

use super::path::Element;

/// A set of paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Set(Option<Arc<[Node]>>);

/// A path element with what is below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(super) element: Element,
    /// The path that ends here is in the set.
    pub(super) is_member: bool,
    pub(super) below: Set,
}

impl Node {
    pub(super) fn leaf(element: Element) -> Self {
        Self { element, is_member: true, below: Set::default() }
    }

    fn is_empty(&self) -> bool {
        !self.is_member && self.below.is_empty()
    }
}

impl Set {
    /// From nodes in any order; of two with the same element, the members below the later one count.
    pub(super) fn from_nodes(mut nodes: Vec<Node>) -> Self {
        if nodes.iter().any(Node::is_empty) {
            nodes.retain(|node| !node.is_empty());
        }
        if nodes.is_empty() {
            return Self::default();
        }
        if !nodes.is_sorted_by(|a, b| a.element < b.element) {
            nodes.sort_by(|a, b| a.element.cmp(&b.element));
            nodes.dedup_by(|later, earlier| {
                let is_same = later.element == earlier.element;
                if is_same {
                    earlier.is_member |= later.is_member;
                    if !later.below.is_empty() {
                        earlier.below = std::mem::take(&mut later.below);
                    }
                }
                is_same
            });
        }
        Self(Some(nodes.into()))
    }

    /// The set of paths of field names.
    pub(crate) fn of_fields(paths: &[&[&str]]) -> Self {
        let path = |path: &&[&str]| {
            path.iter().rev().fold(Self::default(), |below, name| {
                Self::from_nodes(vec![Node {
                    is_member: below.is_empty(),
                    element: Element::field(name),
                    below,
                }])
            })
        };
        Self::union_all(paths.iter().map(path).collect())
    }

    pub(super) fn nodes(&self) -> &[Node] {
        self.0.as_deref().unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The node of an element.
    pub(super) fn get(&self, element: &Element) -> Option<&Node> {
        let nodes = self.nodes();
        nodes.binary_search_by(|node| node.element.cmp(element)).ok().and_then(|index| nodes.get(index))
    }

    /// Whether both are the same nodes in memory.
    fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(left), Some(right)) => Arc::ptr_eq(left, right),
            (None, None) => true,
            _ => false,
        }
    }

    /// The paths of both.
    pub(crate) fn union(&self, other: &Self) -> Self {
        if other.is_empty() || self.is_same(other) {
            return self.clone();
        }
        if self.is_empty() {
            return other.clone();
        }
        let (mut left, mut right) = (self.nodes().iter().peekable(), other.nodes().iter().peekable());
        let mut nodes = Vec::with_capacity(self.nodes().len().max(other.nodes().len()));
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some(l), Some(r)) => l.element.cmp(&r.element),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (None, None) => break,
            };
            let from_left = if order.is_le() { left.next() } else { None };
            let from_right = if order.is_ge() { right.next() } else { None };
            match (from_left, from_right) {
                (Some(l), Some(r)) => nodes.push(Node {
                    element: l.element.clone(),
                    is_member: l.is_member || r.is_member,
                    below: l.below.union(&r.below),
                }),
                (Some(one), None) | (None, Some(one)) => nodes.push(one.clone()),
                (None, None) => {}
            }
        }
        Self::from_nodes(nodes)
    }

    /// The union of many, in pairs: one after the other would cost the square of their number.
    pub(super) fn union_all(mut sets: Vec<Self>) -> Self {
        while sets.len() > 1 {
            sets = sets.chunks(2).map(|pair| pair.iter().fold(Self::default(), |a, b| a.union(b))).collect();
        }
        sets.pop().unwrap_or_default()
    }

    /// The paths that are in both.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        let (small, large) =
            if self.nodes().len() <= other.nodes().len() { (self, other) } else { (other, self) };
        let both = small.nodes().iter().filter_map(|node| {
            let found = large.get(&node.element)?;
            Some(Node {
                element: node.element.clone(),
                is_member: node.is_member && found.is_member,
                below: node.below.intersection(&found.below),
            })
        });
        Self::from_nodes(both.collect())
    }

    /// The paths that are not in the other; what is below a path of the other stays.
    pub(crate) fn difference(&self, other: &Self) -> Self {
        self.without(other, false)
    }

    /// The paths that are not in the other, and not below a path of the other.
    pub(crate) fn recursive_difference(&self, other: &Self) -> Self {
        self.without(other, true)
    }

    fn without(&self, other: &Self, recursive: bool) -> Self {
        if other.is_empty() || self.is_empty() {
            return self.clone();
        }
        let mut changed = false;
        let mut nodes = Vec::new();
        for (index, node) in self.nodes().iter().enumerate() {
            let kept = match other.get(&node.element) {
                None => node.clone(),
                Some(found) if recursive && found.is_member => {
                    Node { element: node.element.clone(), is_member: false, below: Self::default() }
                }
                Some(found) => Node {
                    element: node.element.clone(),
                    is_member: node.is_member && !found.is_member,
                    below: node.below.without(&found.below, recursive),
                },
            };
            let differs = kept.is_member != node.is_member || !kept.below.is_same(&node.below);
            if differs && !changed {
                changed = true;
                nodes.extend_from_slice(self.nodes().get(..index).unwrap_or_default());
            }
            if changed {
                nodes.push(kept);
            }
        }
        if changed { Self::from_nodes(nodes) } else { self.clone() }
    }

    /// Calls `each` with the text of every path: those that end at a level come before those that go on.
    pub(super) fn each_path(&self, path: &mut String, each: &mut impl FnMut(&str)) {
        for go_on in [false, true] {
            for node in self.nodes() {
                let end = path.len();
                if !go_on && node.is_member {
                    node.element.push_text(path);
                    each(path);
                } else if go_on && !node.below.is_empty() {
                    node.element.push_text(path);
                    node.below.each_path(path, each);
                }
                path.truncate(end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::apply::tests::any_set;

    type Paths = BTreeSet<Vec<Element>>;

    fn paths(set: &Set) -> Paths {
        fn walk(set: &Set, prefix: &mut Vec<Element>, into: &mut Paths) {
            for node in set.nodes() {
                prefix.push(node.element.clone());
                if node.is_member {
                    into.insert(prefix.clone());
                }
                walk(&node.below, prefix, into);
                prefix.pop();
            }
        }
        let mut into = Paths::new();
        walk(set, &mut Vec::new(), &mut into);
        into
    }

    fn is_well_formed(set: &Set) -> bool {
        set.nodes().is_sorted_by(|a, b| a.element < b.element)
            && set.nodes().iter().all(|node| !node.is_empty() && is_well_formed(&node.below))
            && set.0.as_ref().is_none_or(|nodes| !nodes.is_empty())
    }

    #[test]
    fn paths_are_told_by_levels() {
        let set = Set::of_fields(&[&["b", "c"], &["a", "b"], &["a"], &["a", "c", "d"]]);
        let mut told = Vec::new();
        set.each_path(&mut String::new(), &mut |path| told.push(path.to_owned()));
        assert_eq!(told, [".a", ".a.b", ".a.c.d", ".b.c"]);
    }

    #[test]
    fn a_difference_keeps_what_is_below_and_a_recursive_one_does_not() {
        let set = Set::of_fields(&[&["a"], &["a", "b"], &["c", "d"]]);
        let other = Set::of_fields(&[&["a"], &["c"]]);
        assert_eq!(set.difference(&other), Set::of_fields(&[&["a", "b"], &["c", "d"]]));
        assert_eq!(set.recursive_difference(&other), Set::default());
        let deep = Set::of_fields(&[&["a", "b"]]);
        assert_eq!(set.recursive_difference(&deep), Set::of_fields(&[&["a"], &["c", "d"]]));
    }

    proptest! {
        #[test]
        fn a_trie_is_a_set_of_paths(a in any_set(), b in any_set(), c in any_set()) {
            let (left, right) = (paths(&a), paths(&b));
            let both: Paths = left.union(&right).cloned().collect();
            prop_assert_eq!(paths(&a.union(&b)), both.clone());
            let all: Paths = both.union(&paths(&c)).cloned().collect();
            prop_assert_eq!(paths(&Set::union_all(vec![a.clone(), b.clone(), c])), all);
            prop_assert_eq!(paths(&a.intersection(&b)), left.intersection(&right).cloned().collect::<Paths>());
            prop_assert_eq!(paths(&a.difference(&b)), left.difference(&right).cloned().collect::<Paths>());
            let is_below = |path: &[Element]| (1..=path.len()).any(|end| right.contains(&path[..end]));
            let outside: Paths = left.iter().filter(|path| !is_below(path)).cloned().collect();
            prop_assert_eq!(paths(&a.recursive_difference(&b)), outside);
            for set in [a.union(&b), a.intersection(&b), a.difference(&b), a.recursive_difference(&b)] {
                prop_assert!(is_well_formed(&set));
            }
            prop_assert!(a.difference(&a).is_empty());
        }
    }
}
