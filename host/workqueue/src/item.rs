//! [`Item`]: a key as a worker receives it.
//!
//! Invariant: as long as its key is not given back with `Queue::done`, no other item of that key is handed out.
//! Made by the queue's state, consumed by workers.

use std::time::Duration;

use tokio::time::Instant;

use crate::Priority;

/// A key handed out for processing, with what its adds brought along.
///
/// Whoever holds it must call [`Queue::done`](crate::Queue::done) with its key when the work is over, however it
/// ended; until then the key is not handed out again and a drain does not end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Item<K, M = ()> {
    /// The key to process.
    pub key: K,
    /// What the adds of this run brought, merged.
    pub payload: M,
    /// The class the key was taken from; a retry is usually added with the same.
    pub priority: Priority,
    /// From the first add of this run (for a delayed key: from its deadline) to now: an observation for
    /// `workqueue_queue_duration_seconds`.
    pub queued_for: Duration,
    /// When the key was handed out; `started.elapsed()` after the work is an observation for
    /// `workqueue_work_duration_seconds`.
    pub started: Instant,
}
