//! [`WithMaxWait`]: another limiter, with an upper bound.
//!
//! Invariant: only the answer is bounded; what the other limiter counts or reserves is not. Chosen by the owner of a
//! queue.

use std::time::Duration;

use super::RateLimiter;

/// Waits as long as another limiter does, `max` at most.
#[derive(Debug)]
pub struct WithMaxWait<L> {
    limiter: L,
    max: Duration,
}

impl<L> WithMaxWait<L> {
    /// Bounds the answers of `limiter` by `max`.
    #[must_use]
    pub fn new(limiter: L, max: Duration) -> Self {
        Self { limiter, max }
    }
}

impl<K, L: RateLimiter<K>> RateLimiter<K> for WithMaxWait<L> {
    fn when(&self, key: &K) -> Duration {
        self.limiter.when(key).min(self.max)
    }

    fn when_all(&self, keys: &[&K]) -> Vec<Duration> {
        self.limiter.when_all(keys).into_iter().map(|delay| delay.min(self.max)).collect()
    }

    fn forget(&self, key: &K) {
        self.limiter.forget(key);
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.limiter.num_requeues(key)
    }

    fn clear(&self) {
        self.limiter.clear();
    }
}
