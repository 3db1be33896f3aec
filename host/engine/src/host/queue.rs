//! [`QueueImports`]: the interface `queue`.

use std::time::Duration;

use pilothouse_object::ObjectKey;

/// The plugin's own work queue.
pub trait QueueImports {
    /// Whether the plugin may put the key into its queue.
    ///
    /// # Errors
    /// Why not, for people, when the queue holds as many others as it may.
    fn queue_room(&self, _key: &ObjectKey) -> Result<(), String> {
        Err("this host has no queue".to_owned())
    }
    /// Adds a key to the plugin's queue.
    fn queue_add(&self, _key: ObjectKey) {}
    /// Adds a key after a delay.
    fn queue_add_after(&self, _key: ObjectKey, _delay: Duration) {}
    /// Adds a key after the rate limiter's delay.
    fn queue_add_rate_limited(&self, _key: ObjectKey) {}
    /// Forgets a key's failures.
    fn queue_forget(&self, _key: &ObjectKey) {}
    /// Failures of a key.
    fn queue_num_requeues(&self, _key: &ObjectKey) -> u32 {
        0
    }
    /// Keys that wait.
    fn queue_len(&self) -> usize {
        0
    }
}
