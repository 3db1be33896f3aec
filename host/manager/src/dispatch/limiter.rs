//! [`PluginLimiter`]: the rate limiter of a plugin's queue, replaceable while the queue lives on over reloads.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use pilothouse_object::ObjectKey;
use pilothouse_workqueue::{
    BucketRateLimiter, ItemExponentialFailureRateLimiter, MaxOfRateLimiter, RateLimiter,
};

/// A rate limiter that a new generation may replace; a cheap clone.
#[derive(Clone)]
pub(crate) struct PluginLimiter(Arc<RwLock<Box<dyn RateLimiter<ObjectKey>>>>);

impl PluginLimiter {
    /// Failures counted so far are forgotten.
    pub(crate) fn replace(&self, settings: &pilothouse_plugin::RateLimiter) {
        *self.0.write() = build(settings);
    }
}

impl Default for PluginLimiter {
    fn default() -> Self {
        Self(Arc::new(RwLock::new(build(&pilothouse_plugin::RateLimiter::default()))))
    }
}

/// A limiter with these settings.
pub(crate) fn build(settings: &pilothouse_plugin::RateLimiter) -> Box<dyn RateLimiter<ObjectKey>> {
    let item = Box::new(ItemExponentialFailureRateLimiter::new(settings.base_delay, settings.max_delay));
    match settings.bucket {
        None => item,
        Some(bucket) => {
            let all = Box::new(BucketRateLimiter::new(bucket.qps, bucket.burst));
            Box::new(MaxOfRateLimiter::new([item as Box<dyn RateLimiter<ObjectKey>>, all]))
        }
    }
}

impl RateLimiter<ObjectKey> for PluginLimiter {
    fn when(&self, key: &ObjectKey) -> Duration {
        self.0.read().when(key)
    }

    fn when_all(&self, keys: &[&ObjectKey]) -> Vec<Duration> {
        self.0.read().when_all(keys)
    }

    fn forget(&self, key: &ObjectKey) {
        self.0.read().forget(key);
    }

    fn num_requeues(&self, key: &ObjectKey) -> u32 {
        self.0.read().num_requeues(key)
    }

    fn clear(&self) {
        self.0.read().clear();
    }
}
