//! [`Array`]: a persistent array; a copy costs one reference count, and after that a change copies the few nodes on its
//! way (256 bytes each) unless nobody else holds them any more.
//!
//! The tables of the store are made of it, so that readers keep a whole state while the writer makes the next one.
//! Places that were never written hold `T::default()` and cost nothing.
//!
//! Invariant: a place below `LEAF << (BITS * height)` is reached by `height` branches; `height` never shrinks.

use std::sync::Arc;

/// Branches have 32 children: 256 bytes of pointers.
const BITS: u32 = 5;
const FAN_OUT: usize = 1 << BITS;

/// A persistent array of `T` in leaves of `LEAF` places, a power of two.
pub(crate) struct Array<T, const LEAF: usize> {
    root: Option<Arc<Node<T, LEAF>>>,
    height: u32,
}

#[expect(clippy::large_enum_variant, reason = "leaves are made as large as branches")]
enum Node<T, const LEAF: usize> {
    Branch([Option<Arc<Node<T, LEAF>>>; FAN_OUT]),
    Leaf([T; LEAF]),
}

impl<T, const LEAF: usize> Clone for Array<T, LEAF> {
    fn clone(&self) -> Self {
        Self { root: self.root.clone(), height: self.height }
    }
}

impl<T: Clone, const LEAF: usize> Clone for Node<T, LEAF> {
    fn clone(&self) -> Self {
        match self {
            Self::Branch(children) => Self::Branch(children.clone()),
            Self::Leaf(places) => Self::Leaf(places.clone()),
        }
    }
}

impl<T, const LEAF: usize> Default for Array<T, LEAF> {
    fn default() -> Self {
        Self { root: None, height: 0 }
    }
}

impl<T: Clone + Default, const LEAF: usize> Array<T, LEAF> {
    const LEAF_BITS: u32 = LEAF.trailing_zeros();

    fn reach(&self) -> usize {
        LEAF << (BITS * self.height)
    }

    /// What stands at a place; `None` where nothing near it was ever written.
    pub(super) fn get(&self, place: usize) -> Option<&T> {
        Some(&self.leaf(place)?[place % LEAF])
    }

    /// The leaf that a place lies in, and with it its neighbours.
    pub(super) fn leaf(&self, place: usize) -> Option<&[T; LEAF]> {
        if place >= self.reach() {
            return None;
        }
        let mut node = self.root.as_deref()?;
        let mut shift = Self::LEAF_BITS + BITS * self.height;
        loop {
            match node {
                Node::Leaf(places) => return Some(places),
                Node::Branch(children) => {
                    shift -= BITS;
                    node = children[(place >> shift) % FAN_OUT].as_deref()?;
                }
            }
        }
    }

    /// A place for writing; copies what others hold.
    pub(super) fn get_mut(&mut self, place: usize) -> &mut T {
        while place >= self.reach() {
            if let Some(root) = self.root.take() {
                let mut children = [const { None }; FAN_OUT];
                children[0] = Some(root);
                self.root = Some(Arc::new(Node::Branch(children)));
            }
            self.height += 1;
        }
        let mut shift = Self::LEAF_BITS + BITS * self.height;
        let mut node = &mut self.root;
        loop {
            let leaf = shift == Self::LEAF_BITS;
            let fresh = || {
                Arc::new(if leaf {
                    Node::Leaf(std::array::from_fn(|_| T::default()))
                } else {
                    Node::Branch([const { None }; FAN_OUT])
                })
            };
            match Arc::make_mut(node.get_or_insert_with(fresh)) {
                Node::Leaf(places) => return &mut places[place % LEAF],
                Node::Branch(children) => {
                    shift -= BITS;
                    node = &mut children[(place >> shift) % FAN_OUT];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever is written to a copy, the original keeps what it had.
        #[test]
        fn copies_do_not_see_each_others_changes(
            first in proptest::collection::vec((0_usize..40_000, 1_u64..100), 0..60),
            second in proptest::collection::vec((0_usize..40_000, 1_u64..100), 0..60),
        ) {
            let mut array = Array::<u64, 8>::default();
            let mut model = std::collections::BTreeMap::new();
            for (place, value) in first {
                *array.get_mut(place) = value;
                model.insert(place, value);
            }
            let (kept, kept_model) = (array.clone(), model.clone());
            for (place, value) in second {
                *array.get_mut(place) = value;
                model.insert(place, value);
            }
            for place in 0..40_100 {
                prop_assert_eq!(array.get(place).copied().unwrap_or_default(), model.get(&place).copied().unwrap_or_default());
                prop_assert_eq!(kept.get(place).copied().unwrap_or_default(), kept_model.get(&place).copied().unwrap_or_default());
            }
        }
    }

    #[test]
    fn what_nobody_else_holds_is_changed_in_place() {
        let mut array = Array::<u64, 8>::default();
        *array.get_mut(5) = 1;
        let before = std::ptr::from_ref(array.leaf(5).unwrap());
        *array.get_mut(6) = 2;
        assert!(std::ptr::eq(before, array.leaf(5).unwrap()));
        let _copy = array.clone();
        *array.get_mut(6) = 3;
        assert!(!std::ptr::eq(before, array.leaf(5).unwrap()));
    }
}
