//! The work queue of a [`World`](super::World): keys that wait, with priorities, delays and failure counts.

use std::collections::BTreeMap;

use crate::{Key, Reasons};

/// The delays of the host's default rate limiter, in milliseconds.
const BASE: u64 = 5;
const LONGEST: u64 = 1_000_000;

/// The delay after so many failures.
pub(super) fn backoff(failures: u32) -> u64 {
    BASE.saturating_mul(1 << failures.min(30)).min(LONGEST)
}

#[derive(Default)]
pub(super) struct WorkQueue {
    ready: Vec<Waiting>,
    /// When the key becomes ready, and why.
    delayed: BTreeMap<Key, (u64, Reasons)>,
    failures: BTreeMap<Key, u32>,
}

/// A key that is ready.
pub(super) struct Waiting {
    pub(super) key: Key,
    pub(super) reasons: Reasons,
    pub(super) priority: i32,
}

impl WorkQueue {
    pub(super) fn add(&mut self, key: &Key, reasons: Reasons, priority: i32) {
        match self.ready.iter_mut().find(|waiting| waiting.key == *key) {
            Some(waiting) => {
                waiting.reasons = waiting.reasons.with(reasons);
                waiting.priority = waiting.priority.max(priority);
            }
            None => self.ready.push(Waiting { key: key.clone(), reasons, priority }),
        }
    }

    /// Adds a key at a time. Of several times the earliest applies.
    pub(super) fn add_at(&mut self, key: &Key, due: u64, reasons: Reasons) {
        let (own, why) = self.delayed.entry(key.clone()).or_insert((due, reasons));
        *own = (*own).min(due);
        *why = why.with(reasons);
    }

    /// Adds a key after the delay of its failures, and counts one more.
    pub(super) fn add_rate_limited(&mut self, key: &Key, now: u64, at_least: u64) {
        let failures = self.failures.entry(key.clone()).or_default();
        let delay = backoff(*failures).max(at_least);
        *failures += 1;
        self.add_at(key, now.saturating_add(delay), Reasons::REQUEUED);
    }

    pub(super) fn forget(&mut self, key: &Key) {
        self.failures.remove(key);
    }

    pub(super) fn failures(&self, key: &Key) -> u32 {
        self.failures.get(key).copied().unwrap_or_default()
    }

    /// Takes the keys that are ready, those of the highest priority first.
    pub(super) fn take(&mut self, now: u64, count: usize) -> Vec<Waiting> {
        let due: Vec<Key> =
            self.delayed.iter().filter(|(_, (due, _))| *due <= now).map(|(key, _)| key.clone()).collect();
        for key in due {
            if let Some((_, reasons)) = self.delayed.remove(&key) {
                self.add(&key, reasons, 0);
            }
        }
        self.ready.sort_by_key(|waiting| std::cmp::Reverse(waiting.priority));
        let rest = self.ready.split_off(self.ready.len().min(count));
        std::mem::replace(&mut self.ready, rest)
    }

    pub(super) fn len(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn keys(&self) -> Vec<Key> {
        self.ready.iter().map(|waiting| waiting.key.clone()).collect()
    }

    /// The keys that wait for a time, and how long they do.
    pub(super) fn delays(&self, now: u64) -> Vec<(Key, u64)> {
        self.delayed.iter().map(|(key, (due, _))| (key.clone(), due.saturating_sub(now))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::namespaced("default", name)
    }

    fn names(taken: &[Waiting]) -> Vec<&str> {
        taken.iter().map(|waiting| &*waiting.key.name).collect()
    }

    #[test]
    fn a_key_waits_once_with_all_reasons_and_the_highest_priority() {
        let mut queue = WorkQueue::default();
        queue.add(&key("low"), Reasons::OWNED, -100);
        queue.add(&key("a"), Reasons::ADDED, 0);
        queue.add(&key("low"), Reasons::UPDATED, 5);
        queue.add(&key("low"), Reasons::UPDATED, -100);
        let taken = queue.take(0, 10);
        assert_eq!(names(&taken), ["low", "a"]);
        assert_eq!((taken[0].reasons, taken[0].priority), (Reasons::OWNED.with(Reasons::UPDATED), 5));
    }

    #[test]
    fn of_several_times_the_earliest_applies_and_failures_wait_as_long_as_they_ask_for() {
        let mut queue = WorkQueue::default();
        queue.add_at(&key("a"), 20, Reasons::REQUEUED);
        queue.add_at(&key("a"), 10, Reasons::MANUAL);
        queue.add_at(&key("a"), 30, Reasons::REQUEUED);
        assert_eq!(queue.delays(4), [(key("a"), 6)]);
        assert_eq!(names(&queue.take(9, 10)), [""; 0]);
        let taken = queue.take(10, 10);
        assert_eq!(taken[0].reasons, Reasons::REQUEUED.with(Reasons::MANUAL));

        queue.add_rate_limited(&key("b"), 0, 7);
        assert_eq!(queue.delays(0), [(key("b"), 7)]);
        assert_eq!(queue.take(7, 1).len(), 1);
        queue.add_rate_limited(&key("b"), 0, 7);
        assert_eq!((queue.delays(0), queue.failures(&key("b"))), (vec![(key("b"), 10)], 2));
    }
}
