//! How often each key failed, and when it did last; 43 bytes a key of 16.
//!
//! Invariants:
//! - a key without failures has no entry, and `index` has the place of each entry under its key's hash;
//! - a key that has not failed for longer than `lifetime` counts as one without failures. Its entry goes when the sweep
//!   comes past. Each call that counts or forgets moves that on by two entries, so it is twice as quick as new keys are, and
//!   needs no timer;
//! - memory is given back when few or no keys are left.
//!
//! Called by the two limiters that count per key.

use std::hash::Hash;
use std::mem;
use std::time::Duration;

use foldhash::fast::RandomState;

use crate::chunks::Chunks;
use crate::clock::Seconds;
use crate::slots::{self, Hash32, NIL};
use crate::sync::Mutex;
use crate::table::Table;

/// Up to this many entries compaction is not worth its time.
const SMALL: usize = 64;
/// Entries that are kept when no key fails, so that one key that fails by turns costs no allocation.
const KEPT: usize = 4;
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
    entries: Chunks<Failed<K>>,
    index: Table,
    /// First of the free entries, which are chained by `times`.
    free: u32,
    /// Where the sweep goes on.
    swept: u32,
    /// In seconds. It never changes; it is here because here is room for it.
    lifetime: u32,
}

/// The failures of one key; an entry without a key is free.
#[derive(Debug)]
struct Failed<K> {
    key: Option<K>,
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
        let failing =
            Failing { entries: Chunks::default(), index: Table::default(), free: NIL, swept: 0, lifetime };
        Self { hasher: RandomState::default(), clock: Seconds::start(), failing: Mutex::new(failing) }
    }

    /// Counts a failure; returns how many there were before.
    pub(super) fn count(&self, key: &K) -> u32 {
        let hash = self.hash(key);
        let now = self.clock.now();
        let mut failing = self.failing.lock();
        self.sweep(&mut failing, now);
        let Some(place) = failing.find(hash, key) else {
            failing.insert(hash, Failed { key: Some(key.clone()), times: 1, last: now });
            return 0;
        };
        let lifetime = failing.lifetime;
        let failed = &mut failing.entries[place as usize];
        let before = if failed.is_over(now, lifetime) { 0 } else { failed.times };
        (failed.times, failed.last) = (before.saturating_add(1), now);
        before
    }

    pub(super) fn get(&self, key: &K) -> u32 {
        let hash = self.hash(key);
        let failing = self.failing.lock();
        let found = failing.find(hash, key).map(|place| &failing.entries[place as usize]);
        let failed = found.filter(|failed| !failed.is_over(self.clock.now(), failing.lifetime));
        failed.map_or(0, |failed| failed.times)
    }

    pub(super) fn forget(&self, key: &K) {
        let mut failing = self.failing.lock();
        if failing.index.is_empty() {
            return;
        }
        self.sweep(&mut failing, self.clock.now());
        let hash = self.hash(key);
        if let Some(place) = failing.find(hash, key) {
            failing.remove(hash, place);
        }
    }

    pub(super) fn clear(&self) {
        // Keys end when the lock is free again.
        let cleared = self.failing.lock().clear();
        drop(cleared);
    }

    fn hash(&self, key: &K) -> Hash32 {
        slots::hash(&self.hasher, key)
    }

    /// Moves the sweep on.
    fn sweep(&self, failing: &mut Failing<K>, now: u32) {
        for _ in 0..STEP {
            if failing.swept as usize >= failing.entries.len() {
                failing.swept = 0;
            }
            let place = failing.swept;
            let Some(failed) = failing.entries.get(place as usize) else { return };
            failing.swept += 1;
            if let Some(key) = failed.key.as_ref().filter(|_| failed.is_over(now, failing.lifetime)) {
                failing.remove(self.hash(key), place);
            }
        }
    }
}

impl<K: Eq> Failing<K> {
    fn find(&self, hash: Hash32, key: &K) -> Option<u32> {
        self.index.find(hash, |place| self.entries[place as usize].key.as_ref() == Some(key))
    }

    fn insert(&mut self, hash: Hash32, failed: Failed<K>) {
        let place = self.free;
        if place == NIL {
            let place = u32::try_from(self.entries.len()).ok().filter(|&place| place != NIL);
            self.entries.push(failed);
            self.index.insert(hash, place.expect("fewer than 2^32 - 1 keys fail"));
            return;
        }
        self.free = mem::replace(&mut self.entries[place as usize], failed).times;
        self.index.insert(hash, place);
    }

    fn remove(&mut self, hash: Hash32, place: u32) {
        self.index.remove(hash, place);
        let times = mem::replace(&mut self.free, place);
        self.entries[place as usize] = Failed { key: None, times, last: 0 };
        if self.index.is_empty() && self.entries.len() > KEPT {
            drop(self.clear());
        } else if self.entries.len() > SMALL && self.index.len() * 8 <= self.entries.len() {
            self.compact();
        }
    }

    fn clear(&mut self) -> (Chunks<Failed<K>>, Table) {
        self.free = NIL;
        (mem::take(&mut self.entries), mem::take(&mut self.index))
    }

    /// The entries that hold a key, and the room that as many more would need. The sweep begins anew.
    fn compact(&mut self) {
        let mut names = vec![NIL; self.entries.len()];
        let mut kept = Chunks::default();
        for (place, failed) in mem::take(&mut self.entries).into_iter().enumerate() {
            if failed.key.is_some() {
                names[place] = kept.len() as u32;
                kept.push(failed);
            }
        }
        self.index.rename(&names, kept.len() * 2);
        (self.entries, self.free, self.swept) = (kept, NIL, 0);
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
        (failing.index.len(), failing.entries.len())
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
    fn keys_that_come_and_go_beside_one_that_stays_need_no_more_memory() {
        let failures = failures(0..1);
        for key in 1..10_000 {
            failures.count(&key);
            failures.forget(&key);
        }
        assert_eq!(held(&failures), (1, 2));
    }

    #[test]
    fn keys_that_come_after_memory_was_given_back_take_the_place_of_no_other() {
        let failures = failures(0..1_000);
        (10..1_000).for_each(|key| failures.forget(&key));
        for key in 1_000..1_500 {
            assert_eq!(failures.count(&key), 0);
        }
        assert!((0..10).chain(1_000..1_500).all(|key| failures.get(&key) == 1));
        assert_eq!(held(&failures).0, 510);
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
