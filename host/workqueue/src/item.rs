//! [`Item`]: a key as a worker receives it.
//!
//! Invariant: as long as it is not given back with `Queue::done`, no other item of that key is handed out. Made by the
//! queue's state, consumed by workers.

use std::time::Duration;

use crate::Priority;
use crate::clock::Nanos;
use crate::slots::NIL;

/// A key handed out for processing, with the merged payloads of its adds.
///
/// Its holder must give it to [`Queue::done`](crate::Queue::done) or [`Queue::finish`](crate::Queue::finish) when the work is
/// over, however it ended; until then the key is not handed out again and a drain does not end. It cannot be cloned, so it cannot be given back twice.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Item<K, M = ()> {
    /// The key to process.
    pub key: K,
    /// The merged payloads of the adds of this run.
    pub payload: M,
    /// The priority at which it waited; a retry is usually added with the same.
    pub priority: Priority,
    pub(crate) failures: u32,
    pub(crate) waited: Nanos,
    /// The slot of the key, unless slots were compacted since; [`NIL`] once it is finished.
    pub(crate) slot: u32,
}

impl<K, M> Item<K, M> {
    /// How often the key had failed when it was handed out, as [`Queue::num_requeues`](crate::Queue::num_requeues) said then.
    #[must_use]
    pub fn num_requeues(&self) -> u32 {
        self.failures
    }

    /// Whether it was given back by [`Queue::finish`](crate::Queue::finish).
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.slot == NIL
    }

    /// From the first add of this run (for a delayed key: from its deadline) until it was handed out; what
    /// `workqueue_queue_duration_seconds` observes. Zero for a queue without a name, which measures nothing.
    #[must_use]
    pub fn queued_for(&self) -> Duration {
        Duration::from_nanos(self.waited)
    }
}
