//! [`ItemExponentialFailureRateLimiter`]: each failure of a key doubles its delay.
//!
//! Invariant: the n-th failure since the key was forgotten (from 0) waits min(base · 2ⁿ, max), whatever n is. One half
//! of the default limiter.

use std::time::Duration;

use super::RateLimiter;

/// Waits `base · 2ⁿ`, `max` at most, where n is the number of failures of the key before this one.
#[derive(Debug, Clone, Copy)]
pub struct ItemExponentialFailureRateLimiter {
    /// In nanoseconds.
    base: u64,
    max: Duration,
}

impl ItemExponentialFailureRateLimiter {
    /// The first failure of a key waits `base`, none waits longer than `max`.
    #[must_use]
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base: u64::try_from(base.as_nanos()).unwrap_or(u64::MAX), max }
    }
}

impl RateLimiter for ItemExponentialFailureRateLimiter {
    fn when(&self, failures: u32) -> Duration {
        // A base of zero never waits. A delay of 2^63 ns or more is the longest: client-go does not know any such.
        match self.base {
            0 => Duration::ZERO,
            base if failures < base.leading_zeros() => Duration::from_nanos(base << failures).min(self.max),
            _ => self.max,
        }
    }
}
