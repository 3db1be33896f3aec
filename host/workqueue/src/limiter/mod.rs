//! Rate limiters: how long a key waits before it is tried again.
//!
//! Invariants: a limiter decides only how long, it holds no timers; `when` counts one failure (or one reservation),
//! `forget` undoes all of a key's; nothing overflows, the longest delay is [`FOREVER`]. Called by the queue in
//! `add_rate_limited`, `forget`, `num_requeues` and `release_backoff`, outside the queue's lock.

mod bucket;
mod failures;
mod item_exponential;
mod item_fast_slow;
mod max_of;
mod max_wait;

use std::hash::Hash;
use std::time::Duration;

pub use bucket::BucketRateLimiter;
pub use item_exponential::ItemExponentialFailureRateLimiter;
pub use item_fast_slow::ItemFastSlowRateLimiter;
pub use max_of::MaxOfRateLimiter;
pub use max_wait::WithMaxWait;

/// The longest delay client-go's arithmetic knows: 2^63 - 1 ns, 292 years.
pub(crate) const FOREVER: Duration = Duration::from_nanos(i64::MAX as u64);

/// Decides how long a key waits before its next try. Shared by the threads that use a queue.
pub trait RateLimiter<K>: Send + Sync {
    /// Counts one more try of the key and returns how long it has to wait for it.
    fn when(&self, key: &K) -> Duration;
    /// Counts one more try of each key, and returns how long each has to wait for it. The keys failed together, in one call
    /// say: a limit of all keys together counts one try.
    fn when_all(&self, keys: &[&K]) -> Vec<Duration> {
        keys.iter().map(|key| self.when(key)).collect()
    }
    /// Forgets the key: the next `when` answers as the first did. Releases its memory.
    fn forget(&self, key: &K);
    /// How many tries of the key have been counted since it was forgotten; 0 for a limiter that does not tell keys
    /// apart.
    fn num_requeues(&self, key: &K) -> u32;
    /// Forgets everything: all keys, and reservations made.
    fn clear(&self);
}

impl<K, L: RateLimiter<K> + ?Sized> RateLimiter<K> for Box<L> {
    fn when(&self, key: &K) -> Duration {
        (**self).when(key)
    }

    fn when_all(&self, keys: &[&K]) -> Vec<Duration> {
        (**self).when_all(keys)
    }

    fn forget(&self, key: &K) {
        (**self).forget(key);
    }

    fn num_requeues(&self, key: &K) -> u32 {
        (**self).num_requeues(key)
    }

    fn clear(&self) {
        (**self).clear();
    }
}

/// Per key 1 ms doubled with each failure up to 1000 s, client-go's `DefaultItemBasedRateLimiter`.
#[must_use]
pub fn default_item_based_rate_limiter<K: Clone + Eq + Hash>() -> ItemExponentialFailureRateLimiter<K> {
    ItemExponentialFailureRateLimiter::new(Duration::from_millis(1), Duration::from_secs(1000))
}

/// The default of controllers: per key 5 ms doubled with each failure up to 1000 s, and for all
/// keys together 10 a second after a burst of 100; the longer of the two.
#[must_use]
pub fn default_controller_rate_limiter<K: Clone + Eq + Hash + Send + 'static>() -> MaxOfRateLimiter<K> {
    MaxOfRateLimiter::new([
        Box::new(ItemExponentialFailureRateLimiter::new(Duration::from_millis(5), Duration::from_secs(1000)))
            as Box<dyn RateLimiter<K>>,
        Box::new(BucketRateLimiter::new(10.0, 100)),
    ])
}
