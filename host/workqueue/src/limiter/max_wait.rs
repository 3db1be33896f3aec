//! [`WithMaxWait`]: another limiter, with an upper bound.
//!
//! Invariant: only the answer is bounded; what the other limiter reserves is not. Chosen by the owner of a
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

impl<L: RateLimiter> RateLimiter for WithMaxWait<L> {
    fn when(&self, failures: u32) -> Duration {
        self.limiter.when(failures).min(self.max)
    }

    fn when_all(&self, failures: &[u32]) -> Vec<Duration> {
        self.limiter.when_all(failures).into_iter().map(|delay| delay.min(self.max)).collect()
    }

    fn clear(&self) {
        self.limiter.clear();
    }
}
