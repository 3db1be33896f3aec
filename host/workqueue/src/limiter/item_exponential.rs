//! [`ItemExponentialFailureRateLimiter`]: each failure of a key doubles its delay.
//!
//! Invariant: the n-th failure since the key was forgotten (from 0) waits min(base · 2ⁿ, max), whatever n is. One half
//! of the default limiter.

use std::time::Duration;

use super::{FOREVER, RateLimiter};

/// Waits `base · 2ⁿ`, `max` at most, where n is the number of failures of the key before this one.
#[derive(Debug, Clone, Copy)]
pub struct ItemExponentialFailureRateLimiter {
    base: Duration,
    max: Duration,
}

impl ItemExponentialFailureRateLimiter {
    /// The first failure of a key waits `base`, none waits longer than `max`.
    #[must_use]
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max }
    }
}

impl RateLimiter for ItemExponentialFailureRateLimiter {
    fn when(&self, failures: u32) -> Duration {
        let exponent = i32::try_from(failures).unwrap_or(i32::MAX);
        // In floating point, as client-go has it: a large exponent gives infinity instead of a wrapped delay.
        let nanos = self.base.as_nanos() as f64 * 2_f64.powi(exponent);
        if nanos > FOREVER.as_nanos() as f64 {
            return self.max;
        }
        // Zero times infinity is no number, which the conversion takes for zero: a base of zero never waits.
        Duration::from_nanos(nanos as u64).min(self.max)
    }
}
