//! Rate limiters: how long a key waits before it is tried again.
//!
//! Invariants: a limiter decides only how long, from how often the key has failed; the queue counts failures and keeps the
//! time. Nothing overflows, the longest delay is [`FOREVER`]. Called by the queue in `add_rate_limited`, `finish` and
//! `release_backoff`, under the queue's lock.

mod bucket;
mod item_exponential;
mod item_fast_slow;
mod max_of;
mod max_wait;

use std::time::Duration;

pub use bucket::BucketRateLimiter;
pub use item_exponential::ItemExponentialFailureRateLimiter;
pub use item_fast_slow::ItemFastSlowRateLimiter;
pub use max_of::MaxOfRateLimiter;
pub use max_wait::WithMaxWait;

/// The longest delay client-go's arithmetic knows: 2^63 - 1 ns, 292 years.
pub(crate) const FOREVER: Duration = Duration::from_nanos(i64::MAX as u64);

/// Decides how long a key waits before its next try. It must not call the queue that asks it.
pub trait RateLimiter: Send + Sync {
    /// How long a key waits that failed this many times before. A limit of all keys together counts one try.
    fn when(&self, failures: u32) -> Duration;
    /// How long each of these keys waits. They failed together, in one call say: a limit of all keys together counts one
    /// try.
    fn when_all(&self, failures: &[u32]) -> Vec<Duration> {
        failures.iter().map(|&failures| self.when(failures)).collect()
    }
    /// Forgets reservations made.
    fn clear(&self) {}
}

impl<L: RateLimiter + ?Sized> RateLimiter for Box<L> {
    fn when(&self, failures: u32) -> Duration {
        (**self).when(failures)
    }

    fn when_all(&self, failures: &[u32]) -> Vec<Duration> {
        (**self).when_all(failures)
    }

    fn clear(&self) {
        (**self).clear();
    }
}

/// Per key 1 ms doubled with each failure up to 1000 s, client-go's `DefaultItemBasedRateLimiter`.
#[must_use]
pub fn default_item_based_rate_limiter() -> ItemExponentialFailureRateLimiter {
    ItemExponentialFailureRateLimiter::new(Duration::from_millis(1), Duration::from_secs(1000))
}

/// The default of controllers: per key 5 ms doubled with each failure up to 1000 s, and for all
/// keys together 10 a second after a burst of 100; the longer of the two.
#[must_use]
pub fn default_controller_rate_limiter() -> MaxOfRateLimiter {
    MaxOfRateLimiter::new([
        Box::new(ItemExponentialFailureRateLimiter::new(Duration::from_millis(5), Duration::from_secs(1000)))
            as Box<dyn RateLimiter>,
        Box::new(BucketRateLimiter::new(10.0, 100)),
    ])
}
