//! How often each key failed, and when it did last; 36 bytes a key of 16.
//!
//! Invariants:
//! - a key without failures has no entry, and `index` has the place of each entry under its key's hash;
//! - a key that has not failed for longer than `lifetime` counts as one without failures. Its entry goes when the sweep
//!   comes past. Each call that counts or forgets moves that on by two entries, so it is twice as quick as new keys are, and
//!   needs no timer;
//! - memory is given back when few or no keys are left.
//!
//! Called by the two limiters that count per key.

use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use parking_lot::Mutex;

use crate::clock::Seconds;

/// Room that is kept, so that one key which fails now and then costs no allocation.
const KEEP: usize = 1;
/// How many entries the sweep moves on with each call.
const STEP: usize = 2;
/// A key is remembered for this long at least after its last failure.
const SHORTEST_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// Holds the number of failures of each key that has any.
#[derive(Debug)]
pub(super) struct Failures<K> {
    hasher: RandomState,
    clock: Seconds,
    failing: Mutex<Failing<K>>,
}

#[derive(Debug)]
struct Failing<K> {
    entries: Vec<Failed<K>>,
    index: HashTable<u32>,
    /// Where the sweep goes on.
    swept: u32,
    /// In seconds. It never changes; it is here because here is room for it.
    lifetime: u32,
}

/// Holds what is known of one key.
#[derive(Debug)]
struct Failed<K> {
    key: K,
    times: u32,
    /// When it did last, in seconds.
    last: u32,
}

impl<K: Clone + Eq + Hash> Failures<K> {
    /// No key has failed. `longest_delay` is the longest that a failing key is made to wait: it is remembered for twice
    /// that, and for an hour at least, so that a key which fails whenever it is tried is never forgotten.
    pub(super) fn new(longest_delay: Duration) -> Self {
        let lifetime = longest_delay.saturating_mul(2).max(SHORTEST_LIFETIME).as_secs();
        let lifetime = u32::try_from(lifetime).unwrap_or(u32::MAX);
        let failing = Failing { entries: Vec::new(), index: HashTable::new(), swept: 0, lifetime };
        Self { hasher: RandomState::default(), clock: Seconds::start(), failing: Mutex::new(failing) }
    }

    /// Counts a failure; returns how many there were before.
    pub(super) fn count(&self, key: &K) -> u32 {
        let hash = self.hasher.hash_one(key);
        let now = self.clock.now();
        let mut failing = self.failing.lock();
        self.sweep(&mut failing, now);
        let Failing { entries, index, lifetime, .. } = &mut *failing;
        let entry = index.entry(
            hash,
            |&place| entries[place as usize].key == *key,
            |&place| self.hasher.hash_one(&entries[place as usize].key),
        );
        match entry {
            Entry::Occupied(place) => {
                let failed = &mut entries[*place.get() as usize];
                let before = if failed.is_over(now, *lifetime) { 0 } else { failed.times };
                (failed.times, failed.last) = (before.saturating_add(1), now);
                before
            }
            Entry::Vacant(place) => {
                place.insert(u32::try_from(entries.len()).expect("fewer than 2^32 keys fail"));
                // By an eighth: doubling would cost more than it holds at the worst.
                if entries.len() == entries.capacity() {
                    entries.reserve_exact(1 + entries.len() / 8);
                }
                entries.push(Failed { key: key.clone(), times: 1, last: now });
                0
            }
        }
    }

    pub(super) fn get(&self, key: &K) -> u32 {
        let failing = self.failing.lock();
        let Failing { entries, index, lifetime, .. } = &*failing;
        let found = index.find(self.hasher.hash_one(key), |&place| entries[place as usize].key == *key);
        let failed = found.map(|&place| &entries[place as usize]);
        let failed = failed.filter(|failed| !failed.is_over(self.clock.now(), *lifetime));
        failed.map_or(0, |failed| failed.times)
    }

    pub(super) fn forget(&self, key: &K) {
        let mut failing = self.failing.lock();
        if failing.entries.is_empty() {
            return;
        }
        self.sweep(&mut failing, self.clock.now());
        let Failing { entries, index, .. } = &mut *failing;
        let found = index.find_entry(self.hasher.hash_one(key), |&place| entries[place as usize].key == *key);
        if let Ok(entry) = found {
            let place = entry.remove().0 as usize;
            self.close_gap(&mut failing, place);
        }
    }

    pub(super) fn clear(&self) {
        let mut failing = self.failing.lock();
        failing.entries = Vec::new();
        failing.index = HashTable::new();
    }

    /// Moves the sweep on. An entry that is moved over the place where it stands waits for the next round.
    fn sweep(&self, failing: &mut Failing<K>, now: u32) {
        for _ in 0..STEP {
            if failing.swept as usize >= failing.entries.len() {
                failing.swept = 0;
            }
            let place = failing.swept as usize;
            let Some(failed) = failing.entries.get(place) else { return };
            if !failed.is_over(now, failing.lifetime) {
                failing.swept += 1;
                continue;
            }
            let hash = self.hasher.hash_one(&failed.key);
            if let Ok(entry) = failing.index.find_entry(hash, |&other| other as usize == place) {
                entry.remove();
            }
            self.close_gap(failing, place);
        }
    }

    /// Takes out an entry that `index` has no more; the last one gets its place.
    fn close_gap(&self, failing: &mut Failing<K>, place: usize) {
        let Failing { entries, index, .. } = failing;
        entries.swap_remove(place);
        if let Some(moved) = entries.get(place) {
            let hash = self.hasher.hash_one(&moved.key);
            if let Some(at) = index.find_mut(hash, |&other| other as usize == entries.len()) {
                *at = place as u32;
            }
        }
        if entries.capacity() > KEEP && entries.len() * 8 <= entries.capacity() {
            let room = entries.len() * 2;
            entries.shrink_to(room);
            index.shrink_to(room, |&place| self.hasher.hash_one(&entries[place as usize].key));
        }
    }
}

impl<K> Failed<K> {
    fn is_over(&self, now: u32, lifetime: u32) -> bool {
        now.saturating_sub(self.last) > lifetime
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::advance;

    use super::*;

    const HOUR: Duration = SHORTEST_LIFETIME;

    fn failures(keys: std::ops::Range<u32>) -> Failures<u32> {
        let failures = Failures::new(Duration::ZERO);
        keys.for_each(|key| assert_eq!(failures.count(&key), 0));
        failures
    }

    fn held<K>(failures: &Failures<K>) -> (usize, usize) {
        let failing = failures.failing.lock();
        assert_eq!(failing.index.len(), failing.entries.len());
        (failing.entries.len(), failing.entries.capacity().max(failing.index.capacity()))
    }

    #[test]
    fn an_entry_takes_24_bytes() {
        assert_eq!(size_of::<Failed<Arc<str>>>(), 24);
    }

    #[test]
    fn the_memory_of_failures_is_released_when_keys_are_forgotten() {
        let failures = failures(0..10_000);
        for key in 0..9_990 {
            failures.forget(&key);
        }
        assert!(held(&failures).1 < 100, "few keys are left");
        for key in 9_990..10_000 {
            assert_eq!(failures.get(&key), 1);
            failures.forget(&key);
        }
        assert_eq!(held(&failures), (0, 0), "no key is left");
    }

    #[test]
    fn each_key_keeps_its_count_whatever_others_are_forgotten() {
        let failures = failures(0..1_000);
        (0..1_000).step_by(3).for_each(|key| failures.forget(&key));
        (0..1_000).step_by(2).for_each(|key| {
            failures.count(&key);
        });
        for key in 0..1_000 {
            let expected = u32::from(key % 3 != 0) + u32::from(key % 2 == 0);
            assert_eq!(failures.get(&key), expected, "key {key}");
        }
        failures.clear();
        assert_eq!((held(&failures), failures.get(&1)), ((0, 0), 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_failed_long_ago_begins_anew_before_the_sweep_comes_past() {
        let failures = failures(0..100);
        advance(HOUR + Duration::from_secs(1)).await;
        assert_eq!((failures.get(&50), failures.count(&50), failures.get(&50)), (0, 0, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_failed_long_ago_make_room_for_as_many_new_ones() {
        let failures = failures(0..10_000);
        advance(HOUR + Duration::from_secs(1)).await;
        for key in 10_000..20_000 {
            failures.count(&key);
        }
        assert_eq!(held(&failures).0, 10_000, "two entries are looked at with each call");
        assert!((10_000..20_000).all(|key| failures.get(&key) == 1));
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_succeed_sweep_out_those_that_failed_long_ago() {
        let failures = failures(0..10_000);
        advance(HOUR + Duration::from_secs(1)).await;
        (20_000..25_000).for_each(|key| failures.forget(&key));
        assert_eq!(held(&failures), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn the_sweep_spares_keys_that_fail_still() {
        let failures = failures(0..1_000);
        for _ in 0..10 {
            advance(HOUR / 2).await;
            (0..1_000).filter(|key| key % 7 == 0).for_each(|key| {
                failures.count(&key);
            });
            (5_000..6_000).for_each(|key| failures.forget(&key));
        }
        assert_eq!(held(&failures).0, 143);
        assert!((0..1_000).all(|key| failures.get(&key) == if key % 7 == 0 { 11 } else { 0 }));
    }

    #[test]
    fn a_count_stops_at_the_largest_number() {
        let failures = failures(7..8);
        failures.failing.lock().entries[0].times = u32::MAX;
        assert_eq!(failures.count(&7), u32::MAX);
        assert_eq!(failures.get(&7), u32::MAX);
    }
}
