//! The plugin's own work queue: keys added here are reconciled by this plugin. Used by handlers of the controller
//! world, and by reconcilers that want to wake other keys.

use std::time::Duration;

use crate::Key;
use crate::bindings::imports::queue as raw;
use crate::duration::milliseconds;

/// Adds a key; a key that waits already is not added twice. Where the queue holds as many other keys as `limits.queueDepth` of the
/// manifest allows, the call of the guest is cut here and in the next two functions.
pub fn add(key: &Key) {
    raw::add(key);
}

/// Adds a key after a delay; of several delays the earliest counts.
pub fn add_after(key: &Key, delay: Duration) {
    raw::add_after(key, milliseconds(delay));
}

/// Adds a key after the delay that the plugin's rate limiter gives, counting a failure.
pub fn add_rate_limited(key: &Key) {
    raw::add_rate_limited(key);
}

/// Forgets the key's failures.
pub fn forget(key: &Key) {
    raw::forget(key);
}

/// How often the key was added rate-limited since it was last forgotten.
pub fn num_requeues(key: &Key) -> u32 {
    raw::num_requeues(key)
}

/// How many keys wait, without the delayed ones and those being reconciled.
pub fn len() -> u32 {
    raw::len()
}
