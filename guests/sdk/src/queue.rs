//! The plugin's own work queue: keys added here are reconciled by this plugin. For event handlers of the world
//! `controller`, and for reconcilers that queue other keys.

use std::time::Duration;

use crate::Key;
use crate::bindings::imports::queue as raw;
use crate::duration::milliseconds;

/// Adds a key; a key that is queued already is not added twice. This function, [`add_after`] and [`add_rate_limited`]
/// end the current call with a fault if the queue already holds as many other keys as `limits.queueDepth` of the
/// manifest allows. Malformed keys end the call with a fault in all functions of this module.
pub fn add(key: &Key) {
    raw::add(key);
}

/// Adds a key after a delay. Of several delays the earliest applies.
pub fn add_after(key: &Key, delay: Duration) {
    raw::add_after(key, milliseconds(delay));
}

/// Adds a key after the delay of the plugin's rate limiter, and counts a failure.
pub fn add_rate_limited(key: &Key) {
    raw::add_rate_limited(key);
}

/// Resets the key's failures.
pub fn forget(key: &Key) {
    raw::forget(key);
}

/// How often the key was added rate-limited since the last [`forget`], by the plugin or by the host after a failure.
pub fn num_requeues(key: &Key) -> u32 {
    raw::num_requeues(key)
}

/// Number of keys that wait, without delayed keys and keys being reconciled.
pub fn len() -> u32 {
    raw::len()
}
