//! The plugin's own work queue: keys added here are reconciled by this plugin. For event handlers of the world
//! `controller`, and for reconcilers that queue other keys.

use std::time::Duration;

use crate::Key;
use crate::bindings::imports::queue as raw;
use crate::duration::milliseconds;

/// Adds a key. A key that is queued already is not added twice.
///
/// If the queue is full (`limits.queueDepth` of the manifest) and does not contain the key, this function,
/// [`add_after`] and [`add_rate_limited`] end the current call with a fault. A malformed key ends the call with a fault
/// in all functions of this module.
pub fn add(key: &Key) {
    raw::add(key);
}

/// Adds a key after a delay. If the key already has a delay, the earlier time applies.
pub fn add_after(key: &Key, delay: Duration) {
    raw::add_after(key, milliseconds(delay));
}

/// Adds a key after the delay of the plugin's rate limiter, and counts a failure.
pub fn add_rate_limited(key: &Key) {
    raw::add_rate_limited(key);
}

/// Resets the failure count of a key.
pub fn forget(key: &Key) {
    raw::forget(key);
}

/// The failure count of a key: how often the plugin, or the host after a failure, added it rate-limited since the last
/// [`forget`].
pub fn num_requeues(key: &Key) -> u32 {
    raw::num_requeues(key)
}

/// Number of keys that are ready to be reconciled, without delayed keys and keys that are being reconciled.
pub fn len() -> u32 {
    raw::len()
}
