//! [`Queue`]: the plugin's own work queue. Keys added here are reconciled by this plugin. For event handlers of the
//! world `controller`, and for reconcilers that queue other keys.
//!
//! # Errors
//! Adding is refused for a malformed key, and, as over a limit, for a key that is not queued yet and would make the
//! queue longer than `limits.queueDepth` of the manifest. Nothing is added then.

use std::time::Duration;

use crate::duration::milliseconds;
use crate::{Context, Key, Refusal};

/// The plugin's own work queue; see the [module](self).
#[derive(Clone, Copy)]
pub struct Queue<'call> {
    ctx: &'call Context,
}

impl<'call> Queue<'call> {
    pub(crate) fn new(ctx: &'call Context) -> Self {
        Self { ctx }
    }

    /// Adds a key. A key that is queued already is not added twice.
    ///
    /// # Errors
    /// See the [module](self).
    pub fn add(&self, key: &Key) -> Result<(), Refusal> {
        self.add_with_priority(key, 0)
    }

    /// Adds a key with a priority: keys of a higher one come first, and 0 is the usual one. Of several priorities of one
    /// key the highest counts.
    ///
    /// # Errors
    /// See the [module](self).
    pub fn add_with_priority(&self, key: &Key, priority: i32) -> Result<(), Refusal> {
        Ok(self.ctx.host().queue_add(self.ctx.cluster(), key, priority)?)
    }

    /// Adds keys, at most 16,384: all of them, or none.
    ///
    /// # Errors
    /// See the [module](self).
    pub fn add_many(&self, keys: &[Key], priority: i32) -> Result<(), Refusal> {
        Ok(self.ctx.host().queue_add_many(self.ctx.cluster(), keys, priority)?)
    }

    /// Adds a key after a delay of at most a year. If the key already has a delay, the earlier time applies.
    ///
    /// # Errors
    /// See the [module](self).
    pub fn add_after(&self, key: &Key, delay: Duration) -> Result<(), Refusal> {
        Ok(self.ctx.host().queue_add_after(self.ctx.cluster(), key, milliseconds(delay))?)
    }

    /// Adds a key after the delay of the plugin's rate limiter, and counts a failure.
    ///
    /// # Errors
    /// See the [module](self).
    pub fn add_rate_limited(&self, key: &Key) -> Result<(), Refusal> {
        Ok(self.ctx.host().queue_add_rate_limited(self.ctx.cluster(), key)?)
    }

    /// Resets the failure count of a key.
    ///
    /// # Errors
    /// When the key is malformed.
    pub fn forget(&self, key: &Key) -> Result<(), Refusal> {
        Ok(self.ctx.host().queue_forget(self.ctx.cluster(), key)?)
    }

    /// The failure count of a key: how often the plugin, or the host after a failure, added it rate-limited since the
    /// last [`forget`](Queue::forget).
    pub fn num_requeues(&self, key: &Key) -> u32 {
        self.ctx.host().queue_num_requeues(self.ctx.cluster(), key)
    }

    /// Number of keys that are ready to be reconciled, without delayed keys and keys that are being reconciled.
    #[allow(
        clippy::len_without_is_empty,
        reason = "a queue that is empty now may not be so at the next line"
    )]
    pub fn len(&self) -> u32 {
        self.ctx.host().queue_len()
    }
}
