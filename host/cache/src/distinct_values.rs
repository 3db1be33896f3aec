//! [`DistinctValues`]: gathers the index values of an object, each once, and compares them with those that a store holds.
//!
//! Invariant: as long as what was found is the beginning of what is held, nothing is allocated. Most updates keep all values.
//! [`IndexFn`](crate::IndexFn) calls this.

use std::collections::HashSet;
use std::sync::Arc;

use foldhash::fast::RandomState;

/// Values that are compared with each other one by one; above so many a hash set finds duplicates.
pub(crate) const MOST_SCANNED: usize = 16;

pub(crate) struct DistinctValues<H> {
    /// The values of the store, each once.
    held: H,
    /// So many of them were found, in their order, and nothing else.
    same: usize,
    /// All that was found, once that is not so.
    values: Option<Vec<Arc<str>>>,
    /// The same, above [`MOST_SCANNED`].
    set: HashSet<Arc<str>, RandomState>,
}

impl<'a, H: Iterator<Item = &'a Arc<str>> + Clone> DistinctValues<H> {
    pub(crate) fn new(held: H) -> Self {
        Self { held, same: 0, values: None, set: HashSet::default() }
    }

    /// The number of values found.
    pub(crate) fn len(&self) -> usize {
        self.values.as_ref().map_or(self.same, Vec::len)
    }

    /// Takes a value in, unless it was found before.
    pub(crate) fn add(&mut self, value: &str) {
        if self.values.is_none() && self.same < MOST_SCANNED {
            if self.held.clone().take(self.same).any(|found| **found == *value) {
                return;
            }
            if self.held.clone().nth(self.same).is_some_and(|next| **next == *value) {
                self.same += 1;
                return;
            }
        }
        let values = self.values.get_or_insert_with(|| self.held.clone().take(self.same).cloned().collect());
        if values.len() < MOST_SCANNED {
            if !values.iter().any(|found| **found == *value) {
                values.push(value.into());
            }
            return;
        }
        if self.set.is_empty() {
            self.set.extend(values.iter().cloned());
        }
        if !self.set.contains(value) {
            let value: Arc<str> = value.into();
            self.set.insert(value.clone());
            values.push(value);
        }
    }

    /// Forgets all values.
    pub(crate) fn clear(&mut self) {
        self.values = Some(Vec::new());
    }

    /// The values in the order in which they were found; `None` when they are those held.
    pub(crate) fn changed(self) -> Option<Vec<Arc<str>>> {
        match self.values {
            Some(values) => (!self.held.eq(&values)).then_some(values),
            None if self.held.clone().nth(self.same).is_none() => None,
            None => Some(self.held.take(self.same).cloned().collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn distinct(values: &[u8]) -> Vec<Arc<str>> {
        let mut seen = HashSet::new();
        values.iter().filter(|value| seen.insert(**value)).map(|value| value.to_string().into()).collect()
    }

    /// Values of which many begin as others do.
    fn values() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let value = || prop_oneof![3 => 0..4_u8, 2 => 0..60_u8];
        let value_lists = |most| prop::collection::vec(value(), 0..most);
        (value_lists(40), value_lists(6), value_lists(6)).prop_map(|(mut one, more, other)| {
            let two = [&one[..one.len().saturating_sub(other.len() % 3)], &other].concat();
            one.extend(more);
            (one, two)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn values_come_once_and_only_when_they_are_not_those_held((held, found) in values()) {
            let (held, wanted) = (distinct(&held), distinct(&found));
            let mut values = DistinctValues::new(held.iter());
            found.iter().for_each(|value| values.add(&value.to_string()));
            prop_assert_eq!(values.len(), wanted.len());
            prop_assert_eq!(values.changed(), (held != wanted).then_some(wanted));
        }

        #[test]
        fn values_that_are_forgotten_are_a_change_of_any_that_are_held((held, found) in values()) {
            let held = distinct(&held);
            let mut values = DistinctValues::new(held.iter());
            found.iter().for_each(|value| values.add(&value.to_string()));
            values.clear();
            prop_assert_eq!(values.changed(), (!held.is_empty()).then(Vec::new));
        }
    }

    #[test]
    fn the_values_held_are_not_copied() {
        let held = distinct(&[1, 2, 3]);
        let mut values = DistinctValues::new(held.iter());
        ["1", "1", "2", "4"].iter().for_each(|value| values.add(value));
        let values = values.changed().unwrap();
        assert!(Arc::ptr_eq(&values[0], &held[0]) && Arc::ptr_eq(&values[1], &held[1]));
    }
}
