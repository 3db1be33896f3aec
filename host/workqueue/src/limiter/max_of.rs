//! [`MaxOfRateLimiter`]: the strictest of several limiters.
//!
//! Invariant: every limiter is asked every time, so each keeps its own count. What the default limiter is made of.

use std::fmt;
use std::time::Duration;

use super::RateLimiter;

/// Waits as long as the one of its limiters that waits longest.
pub struct MaxOfRateLimiter<K> {
    limiters: Box<[Box<dyn RateLimiter<K>>]>,
}

impl<K> MaxOfRateLimiter<K> {
    /// Asks all of `limiters`. Without any, nothing waits.
    #[must_use]
    pub fn new(limiters: impl IntoIterator<Item = Box<dyn RateLimiter<K>>>) -> Self {
        Self { limiters: limiters.into_iter().collect() }
    }
}

impl<K> fmt::Debug for MaxOfRateLimiter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaxOfRateLimiter").field("limiters", &self.limiters.len()).finish()
    }
}

impl<K> RateLimiter<K> for MaxOfRateLimiter<K> {
    fn when(&self, key: &K) -> Duration {
        self.limiters.iter().map(|limiter| limiter.when(key)).max().unwrap_or_default()
    }

    fn when_all(&self, keys: &[&K]) -> Vec<Duration> {
        let mut longest = vec![Duration::ZERO; keys.len()];
        for limiter in &self.limiters {
            for (longest, delay) in longest.iter_mut().zip(limiter.when_all(keys)) {
                *longest = delay.max(*longest);
            }
        }
        longest
    }

    fn forget(&self, key: &K) {
        for limiter in &self.limiters {
            limiter.forget(key);
        }
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.limiters.iter().map(|limiter| limiter.num_requeues(key)).max().unwrap_or_default()
    }

    fn clear(&self) {
        for limiter in &self.limiters {
            limiter.clear();
        }
    }
}
