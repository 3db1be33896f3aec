//! [`BucketRateLimiter`]: so many tries a second for all keys together.
//!
//! Invariant: each `when` takes one token, into debt if need be, and waits until the debt would be paid; so tries
//! are spaced as if each had waited for its token. A reservation is kept when the key is forgotten. One half
//! of the default limiter.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{FOREVER, RateLimiter};

/// Lets `burst` tries pass at once and `rate` a second from then on, whatever their keys.
#[derive(Debug)]
pub struct BucketRateLimiter {
    rate: f64,
    burst: u32,
    bucket: Mutex<Bucket>,
}

/// Holds the tokens there were at a moment; fewer than none if reservations wait.
#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl BucketRateLimiter {
    /// A full bucket of `burst` tokens that is refilled with `rate` tokens a second.
    ///
    /// An infinite rate never waits; with a burst of 0, or a rate that is not positive once the burst is used up,
    /// every try waits for ever (292 years).
    #[must_use]
    pub fn new(rate: f64, burst: u32) -> Self {
        Self { rate, burst, bucket: Mutex::new(Bucket { tokens: f64::from(burst), at: Instant::now() }) }
    }

    fn reserve(&self) -> Duration {
        if self.rate == f64::INFINITY {
            return Duration::ZERO;
        }
        if self.burst == 0 {
            return FOREVER;
        }
        let mut bucket = self.bucket.lock();
        let now = Instant::now();
        let rate = if self.rate > 0.0 { self.rate } else { 0.0 };
        let refilled = now.saturating_duration_since(bucket.at).as_secs_f64() * rate;
        let tokens = (bucket.tokens + refilled).min(f64::from(self.burst)) - 1.0;
        if tokens < 0.0 && rate == 0.0 {
            return FOREVER;
        }
        *bucket = Bucket { tokens, at: now };
        if tokens >= 0.0 {
            return Duration::ZERO;
        }
        let nanos = -tokens / rate * 1e9;
        if nanos >= FOREVER.as_nanos() as f64 { FOREVER } else { Duration::from_nanos(nanos as u64) }
    }
}

impl RateLimiter for BucketRateLimiter {
    fn when(&self, _: u32) -> Duration {
        self.reserve()
    }

    fn when_all(&self, failures: &[u32]) -> Vec<Duration> {
        if failures.is_empty() { Vec::new() } else { vec![self.reserve(); failures.len()] }
    }

    fn clear(&self) {
        *self.bucket.lock() = Bucket { tokens: f64::from(self.burst), at: Instant::now() };
    }
}
