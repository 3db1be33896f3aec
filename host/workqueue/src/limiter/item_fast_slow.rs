//! [`ItemFastSlowRateLimiter`]: a few quick tries, then slow ones.
//!
//! Invariant: the first `attempts` failures since the key was forgotten wait `fast`, all later ones `slow`. Chosen by
//! the owner of a queue.

use std::hash::Hash;
use std::time::Duration;

use super::{RateLimiter, failures::Failures};

/// Waits `fast` for the first `attempts` failures of a key and `slow` afterwards.
#[derive(Debug)]
pub struct ItemFastSlowRateLimiter<K> {
    failures: Failures<K>,
    fast: Duration,
    slow: Duration,
    attempts: u32,
}

impl<K: Clone + Eq + Hash> ItemFastSlowRateLimiter<K> {
    /// `attempts` failures wait `fast`, the others `slow`. A key that does not fail for twice the longer of them, or an
    /// hour if that is longer, is forgotten.
    #[must_use]
    pub fn new(fast: Duration, slow: Duration, attempts: u32) -> Self {
        Self { failures: Failures::new(fast.max(slow)), fast, slow, attempts }
    }
}

impl<K: Clone + Eq + Hash + Send> RateLimiter<K> for ItemFastSlowRateLimiter<K> {
    fn when(&self, key: &K) -> Duration {
        if self.failures.count(key) < self.attempts { self.fast } else { self.slow }
    }

    fn forget(&self, key: &K) {
        self.failures.forget(key);
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.failures.get(key)
    }

    fn clear(&self) {
        self.failures.clear();
    }
}
