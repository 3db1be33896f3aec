//! [`QueueImports`]: the host side of the interface `queue`.

use std::time::Duration;

use pilothouse_object::ObjectKey;

/// The plugin's own work queue.
pub trait QueueImports {
    /// Checks whether the queue has room for the key.
    ///
    /// # Errors
    /// When the queue is full and does not contain the key: a human-readable message.
    fn queue_room(&self, _key: &ObjectKey) -> Result<(), String> {
        Err("this host has no queue".to_owned())
    }
    /// Adds a key to the queue.
    fn queue_add(&self, _key: ObjectKey) {}
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
