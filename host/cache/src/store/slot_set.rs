//! [`SlotSet`]: the numbers of the slots that have a value in an index; persistent like the arrays beside it.
//!
//! Most values have few objects: those are a sorted list, copied whole by a change. Above [`MANY`] it becomes a bitmap
//! in a persistent array, which a change copies 256 bytes of.

use std::sync::Arc;

use super::array::Array;

/// Above this a change of the list would copy more than 16 KB; below it a bitmap of few bits would be mostly holes.
const MANY: usize = 4096;

/// Numbers of slots, each once.
#[derive(Clone)]
pub(crate) enum SlotSet {
    /// Sorted.
    Few(Arc<Vec<u32>>),
    Many {
        words: Array<u64, 32>,
        count: usize,
        /// No member lies at or above it.
        end: usize,
    },
}

impl SlotSet {
    pub(super) fn one(slot: u32) -> Self {
        Self::Few(Arc::new(vec![slot]))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Few(slots) => slots.len(),
            Self::Many { count, .. } => *count,
        }
    }

    #[cfg(test)]
    pub(super) fn contains(&self, slot: u32) -> bool {
        match self {
            Self::Few(slots) => slots.binary_search(&slot).is_ok(),
            Self::Many { words, .. } => {
                words.get(slot as usize / 64).is_some_and(|word| word >> (slot % 64) & 1 == 1)
            }
        }
    }

    pub(super) fn insert(&mut self, slot: u32) {
        match self {
            Self::Few(slots) => {
                let Err(at) = slots.binary_search(&slot) else { return };
                Arc::make_mut(slots).insert(at, slot);
                if slots.len() > MANY {
                    let mut many = Self::Many { words: Array::default(), count: 0, end: 0 };
                    slots.iter().for_each(|slot| many.insert(*slot));
                    *self = many;
                }
            }
            Self::Many { words, count, end } => {
                let word = words.get_mut(slot as usize / 64);
                let bit = 1 << (slot % 64);
                *count += usize::from(*word & bit == 0);
                *word |= bit;
                *end = (*end).max(slot as usize + 1);
            }
        }
    }

    pub(super) fn remove(&mut self, slot: u32) {
        match self {
            Self::Few(slots) => {
                if let Ok(at) = slots.binary_search(&slot) {
                    Arc::make_mut(slots).remove(at);
                }
            }
            Self::Many { words, count, .. } => {
                let word = words.get_mut(slot as usize / 64);
                let bit = 1 << (slot % 64);
                *count -= usize::from(*word & bit != 0);
                *word &= !bit;
                // Half, so that a set around the border does not change its form all the time.
                if *count <= MANY / 2 {
                    *self = Self::Few(Arc::new(self.iter().collect()));
                }
            }
        }
    }

    /// The smallest member that is not below `from`.
    pub(crate) fn next_from(&self, from: u32) -> Option<u32> {
        match self {
            Self::Few(slots) => slots.get(slots.partition_point(|slot| *slot < from)).copied(),
            Self::Many { words, end, .. } => {
                let mut at = from as usize;
                while at < *end {
                    let rest = words.get(at / 64).map_or(0, |word| word >> (at % 64));
                    if rest != 0 {
                        return u32::try_from(at + rest.trailing_zeros() as usize).ok();
                    }
                    at = (at / 64 + 1) * 64;
                }
                None
            }
        }
    }

    /// The members, ascending.
    pub(crate) fn iter(&self) -> Members<'_> {
        match self {
            Self::Few(slots) => Members::Few(slots.iter()),
            Self::Many { .. } => Members::Many { set: self, next: Some(0) },
        }
    }
}

/// Iterates over a set.
pub(crate) enum Members<'a> {
    Few(std::slice::Iter<'a, u32>),
    Many { set: &'a SlotSet, next: Option<u32> },
}

impl Iterator for Members<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        match self {
            Self::Few(slots) => slots.next().copied(),
            Self::Many { set, next } => {
                let found = next.take().and_then(|from| set.next_from(from))?;
                *next = found.checked_add(1);
                Some(found)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Across the border between the two forms, in both directions, the set holds what a plain set holds.
        #[test]
        fn both_forms_hold_the_same(seed in 0_u32..1000, step in 1_u32..5, removed in 0_usize..6000) {
            let mut set = SlotSet::one(seed);
            let mut model = BTreeSet::from([seed]);
            for n in 0..5000_u32 {
                let slot = (seed + n * step) % 9000;
                set.insert(slot);
                model.insert(slot);
            }
            let kept = set.clone();
            let all: Vec<u32> = model.iter().copied().collect();
            prop_assert_eq!(kept.iter().collect::<Vec<_>>(), all.clone());
            for slot in all.iter().take(removed) {
                set.remove(*slot);
                model.remove(slot);
            }
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(set.len(), model.len());
            prop_assert_eq!(kept.len(), all.len());
            for from in [0, seed, 4096, 8999] {
                prop_assert_eq!(set.next_from(from), model.range(from..).next().copied());
                prop_assert_eq!(set.contains(from), model.contains(&from));
            }
        }
    }
}
