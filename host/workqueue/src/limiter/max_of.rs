//! [`MaxOfRateLimiter`]: the strictest of several limiters.
//!
//! Invariant: every limiter is asked every time, so each makes its reservations. What the default limiter is made of.

use std::fmt;
use std::time::Duration;

use super::RateLimiter;

/// Waits as long as the one of its limiters that waits longest.
pub struct MaxOfRateLimiter {
    limiters: Box<[Box<dyn RateLimiter>]>,
}

impl MaxOfRateLimiter {
    /// Asks all of `limiters`. Without any, nothing waits.
    #[must_use]
    pub fn new(limiters: impl IntoIterator<Item = Box<dyn RateLimiter>>) -> Self {
        Self { limiters: limiters.into_iter().collect() }
    }
}

impl fmt::Debug for MaxOfRateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaxOfRateLimiter").field("limiters", &self.limiters.len()).finish()
    }
}

impl RateLimiter for MaxOfRateLimiter {
    fn when(&self, failures: u32) -> Duration {
        self.limiters.iter().map(|limiter| limiter.when(failures)).max().unwrap_or_default()
    }

    fn when_all(&self, failures: &[u32]) -> Vec<Duration> {
        let mut longest = vec![Duration::ZERO; failures.len()];
        for limiter in &self.limiters {
            for (longest, delay) in longest.iter_mut().zip(limiter.when_all(failures)) {
                *longest = delay.max(*longest);
            }
        }
        longest
    }

    fn clear(&self) {
        for limiter in &self.limiters {
            limiter.clear();
        }
    }
}
