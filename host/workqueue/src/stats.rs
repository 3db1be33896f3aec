//! [`QueueStats`]: the figures behind the `workqueue_*` metrics.
//!
//! Invariant: a snapshot is taken under one lock, so its figures belong to one moment. Read by the host when metrics
//! are scraped; the queue itself keeps only counters and the times it needs anyway.

use std::time::Duration;

/// A snapshot of one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct QueueStats {
    /// Keys ready to be handed out (`workqueue_depth`); excludes `delayed` and `processing`.
    pub depth: usize,
    /// Keys that wait for a deadline. A key may be delayed and ready or processing at once.
    pub delayed: usize,
    /// Keys handed out and not yet given back.
    pub processing: usize,
    /// Adds that made a key need a run, since creation (`workqueue_adds_total`); an add that merged into a run that
    /// was waiting already is not counted.
    pub adds: u64,
    /// Calls of `add_after` and `add_rate_limited` accepted since creation (`workqueue_retries_total`).
    pub retries: u64,
    /// Sum of how long the keys in processing have been so (`workqueue_unfinished_work_seconds`).
    pub unfinished_work: Duration,
    /// The longest of them (`workqueue_longest_running_processor_seconds`).
    pub longest_running: Duration,
}
