//! How often each key failed.
//!
//! Invariants: a key without failures has no entry; the map gives its memory back when few or no keys are left.
//! Called by the two limiters that count per key.

use std::hash::Hash;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use parking_lot::Mutex;

/// Below this capacity memory is not worth giving back.
const KEEP: usize = 3;

/// Holds the number of failures of each key that has any.
#[derive(Debug)]
pub(super) struct Failures<K> {
    counts: Mutex<HashMap<K, u32, RandomState>>,
}

impl<K: Clone + Eq + Hash> Failures<K> {
    pub(super) fn new() -> Self {
        Self { counts: Mutex::new(HashMap::default()) }
    }

    /// Counts a failure; returns how many there were before.
    pub(super) fn count(&self, key: &K) -> u32 {
        let mut counts = self.counts.lock();
        let Some(count) = counts.get_mut(key) else {
            counts.insert(key.clone(), 1);
            return 0;
        };
        let before = *count;
        *count = before.saturating_add(1);
        before
    }

    pub(super) fn get(&self, key: &K) -> u32 {
        self.counts.lock().get(key).copied().unwrap_or(0)
    }

    pub(super) fn forget(&self, key: &K) {
        let mut counts = self.counts.lock();
        if counts.remove(key).is_some() && counts.capacity() > KEEP && counts.len() * 8 <= counts.capacity() {
            let room = counts.len() * 2;
            counts.shrink_to(room);
        }
    }

    pub(super) fn clear(&self) {
        let mut counts = self.counts.lock();
        counts.clear();
        counts.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_failures_is_released_when_keys_are_forgotten() {
        let failures = Failures::new();
        for key in 0..10_000 {
            failures.count(&key);
        }
        for key in 0..9_990 {
            failures.forget(&key);
        }
        assert!(failures.counts.lock().capacity() < 100, "few keys are left");
        for key in 9_990..10_000 {
            assert_eq!(failures.get(&key), 1);
            failures.forget(&key);
        }
        assert!(failures.counts.lock().capacity() <= KEEP, "no key is left");
    }

    #[test]
    fn a_count_stops_at_the_largest_number() {
        let failures = Failures::new();
        failures.counts.lock().insert("key", u32::MAX);
        assert_eq!(failures.count(&"key"), u32::MAX);
        assert_eq!(failures.get(&"key"), u32::MAX);
    }
}
