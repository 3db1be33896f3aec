//! The rate limiter of a plugin's queue and of its failed events, from the settings of its manifest.

use pilothouse_workqueue::{
    BucketRateLimiter, ItemExponentialFailureRateLimiter, MaxOfRateLimiter, RateLimiter,
};

/// A limiter with these settings.
pub(crate) fn build(settings: &pilothouse_plugin::RateLimiter) -> Box<dyn RateLimiter> {
    let item = Box::new(ItemExponentialFailureRateLimiter::new(settings.base_delay, settings.max_delay));
    match settings.bucket {
        None => item,
        Some(bucket) => {
            let all = Box::new(BucketRateLimiter::new(bucket.qps, bucket.burst));
            Box::new(MaxOfRateLimiter::new([item as Box<dyn RateLimiter>, all]))
        }
    }
}
