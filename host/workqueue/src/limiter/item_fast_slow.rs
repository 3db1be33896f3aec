//! [`ItemFastSlowRateLimiter`]: a few quick tries, then slow ones.
//!
//! Invariant: the first `attempts` failures since the key was forgotten wait `fast`, all later ones `slow`. Chosen by
//! the owner of a queue.

use std::time::Duration;

use super::RateLimiter;

/// Waits `fast` for the first `attempts` failures of a key and `slow` afterwards.
#[derive(Debug, Clone, Copy)]
pub struct ItemFastSlowRateLimiter {
    fast: Duration,
    slow: Duration,
    attempts: u32,
}

impl ItemFastSlowRateLimiter {
    /// `attempts` failures wait `fast`, the others `slow`.
    #[must_use]
    pub fn new(fast: Duration, slow: Duration, attempts: u32) -> Self {
        Self { fast, slow, attempts }
    }
}

impl RateLimiter for ItemFastSlowRateLimiter {
    fn when(&self, failures: u32) -> Duration {
        if failures < self.attempts { self.fast } else { self.slow }
    }
}
