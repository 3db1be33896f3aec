//! [`QueueImports`]: the host side of the interface `queue`.

use std::time::Duration;

use pilothouse_object::ObjectKey;

use super::Refusal;

/// The plugin's own work queue.
pub trait QueueImports {
    /// Checks whether the queue has room for the keys.
    ///
    /// # Errors
    /// When the queue would become longer than its limit. Keys that it contains are not counted.
    fn queue_room(&self, _keys: &[ObjectKey]) -> Result<(), Refusal> {
        Err(Refusal::unavailable("this host has no queue"))
    }
    /// Adds keys to the queue. Those of a higher priority come first; 0 is the usual one.
    fn queue_add(&self, _keys: Vec<ObjectKey>, _priority: i32) {}
    /// Adds a key to the queue after a delay.
    fn queue_add_after(&self, _key: ObjectKey, _delay: Duration) {}
    /// Adds a key to the queue after the rate limiter's delay for it.
    fn queue_add_rate_limited(&self, _key: ObjectKey) {}
    /// Resets the failure count of a key in the rate limiter.
    fn queue_forget(&self, _key: &ObjectKey) {}
    /// Failure count of a key in the rate limiter.
    fn queue_num_requeues(&self, _key: &ObjectKey) -> u32 {
        0
    }
    /// Number of keys that are ready to be processed.
    fn queue_len(&self) -> usize {
        0
    }
}
