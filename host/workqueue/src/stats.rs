//! [`QueueStats`]: the figures behind the `workqueue_*` metrics.
//!
//! Invariant: a snapshot is taken under one lock, so its figures belong to one moment. Read by the host when metrics
//! are scraped; a queue without a name keeps only counters.

use std::time::Duration;

use crate::clock::Nanos;
use crate::{Histogram, Priority};

/// A snapshot of one queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct QueueStats {
    /// Keys ready to be handed out (`workqueue_depth`); excludes `delayed` and `processing`.
    pub depth: usize,
    /// The same by priority, the highest first, as controller-runtime labels it; without priorities that have none.
    pub depths: Vec<(Priority, usize)>,
    /// Keys that wait for a deadline. A key may be delayed and ready or processing at once.
    pub delayed: usize,
    /// Keys handed out and not yet given back.
    pub processing: usize,
    /// Adds that made a key need a run, since creation (`workqueue_adds_total`); an add that merged into a run that
    /// was waiting already is not counted.
    pub adds: u64,
    /// Calls of `add_after` and `add_rate_limited` accepted since creation (`workqueue_retries_total`).
    pub retries: u64,
    /// From the first add of a run (for a delayed key: from its deadline) until it was handed out
    /// (`workqueue_queue_duration_seconds`). This and what follows is measured by queues with a name only.
    pub queue_duration: Histogram,
    /// From there until it was given back (`workqueue_work_duration_seconds`).
    pub work_duration: Histogram,
    /// Sum of how long the keys in processing have been so (`workqueue_unfinished_work_seconds`).
    pub unfinished_work: Duration,
    /// The longest of them (`workqueue_longest_running_processor_seconds`).
    pub longest_running: Duration,
}

/// Measurements of a queue with a name.
#[derive(Debug, Default)]
pub(crate) struct Measures {
    pub(crate) queue_duration: Histogram,
    pub(crate) work_duration: Histogram,
    /// The keys in processing; each slot has its position here.
    pub(crate) running: Vec<RunningKey>,
}

/// A key in processing.
#[derive(Debug)]
pub(crate) struct RunningKey {
    pub(crate) slot: u32,
    /// Since when it has been dirty again, if it is.
    pub(crate) dirty_since: Option<Nanos>,
}
