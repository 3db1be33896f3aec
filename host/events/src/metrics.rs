//! [`RecorderMetrics`], [`SinkMetrics`]: the outcomes of events, readable at any time.
//!
//! Invariant: each event that a recorder is given counts in [`RecorderCounts::received`] once, and unless it was dropped there, once
//! in [`SinkCounts::received`] of each sink; and there it ends up in exactly one of `sent`, `aggregated`, `filtered`, `dropped` and
//! `failed`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::log_gate::LogGate;

/// The counters of recorders.
#[derive(Debug, Default)]
pub struct RecorderMetrics {
    pub(crate) received: Counter,
    pub(crate) dropped: Counter,
}

/// The values of [`RecorderMetrics`] at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecorderCounts {
    /// Events that recorders were given.
    pub received: u64,
    /// Events that found the incoming queue full, or the broadcaster shut down.
    pub dropped: u64,
}

/// The counters of one sink.
#[derive(Debug, Default)]
pub struct SinkMetrics {
    pub(crate) taken: Counter,
    /// Belongs to the watcher, whose queue was full.
    missed: Arc<AtomicU64>,
    pub(crate) abandoned: Counter,
    pub(crate) aggregated: Counter,
    pub(crate) filtered: Counter,
    pub(crate) sent: Counter,
    pub(crate) failed: Counter,
    pub(crate) retries: Counter,
    pub(crate) series_writes: Counter,
    pub(crate) series_failures: Counter,
    pub(crate) series_lost: Counter,
    pub(crate) drop_log: LogGate,
    pub(crate) failure_log: LogGate,
}

/// The values of [`SinkMetrics`] at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SinkCounts {
    /// Events that were distributed to this sink.
    pub received: u64,
    /// Written: created, or counted on the server.
    pub sent: u64,
    /// Counted into another event: written as part of a combined one, or counted in a series that is written later.
    pub aggregated: u64,
    /// Held back by the spam filter.
    pub filtered: u64,
    /// Found the sink's queue full, or were left when the deadline of a shutdown passed.
    pub dropped: u64,
    /// Refused by the sink, or not written after the last try.
    pub failed: u64,
    /// Tries after the first; not events.
    pub retries: u64,
    /// Writes that stand for no event of their own: series that were refreshed or finished.
    pub series_writes: u64,
    /// Such writes that failed; not events.
    pub series_failures: u64,
    /// Of the `aggregated` occurrences, those that were never written: the series was refused, or left the cache or the
    /// process too early.
    pub series_lost: u64,
}

impl RecorderMetrics {
    /// The counts now.
    #[must_use]
    pub fn counts(&self) -> RecorderCounts {
        RecorderCounts { received: self.received.get(), dropped: self.dropped.get() }
    }
}

impl SinkMetrics {
    pub(crate) fn new(missed: Arc<AtomicU64>) -> Self {
        Self { missed, ..Self::default() }
    }

    /// Counts an event of which a key or message function has panicked.
    pub(crate) fn function_panicked(&self) {
        self.failed.increment();
        if let Some(failed) = self.failure_log.pass() {
            tracing::error!(
                event = "event_handler_panicked",
                failed,
                "an event is not written: a key or message function of the correlator has panicked"
            );
        }
    }

    /// The counts now. Events that are under way are in `received` only.
    #[must_use]
    pub fn counts(&self) -> SinkCounts {
        let missed = self.missed.load(Ordering::Relaxed);
        SinkCounts {
            received: self.taken.get() + missed,
            sent: self.sent.get(),
            aggregated: self.aggregated.get(),
            filtered: self.filtered.get(),
            dropped: missed + self.abandoned.get(),
            failed: self.failed.get(),
            retries: self.retries.get(),
            series_writes: self.series_writes.get(),
            series_failures: self.series_failures.get(),
            series_lost: self.series_lost.get(),
        }
    }
}

impl SinkCounts {
    /// Events that were received and of which the end is not known yet.
    #[must_use]
    pub fn pending(&self) -> u64 {
        let ended = self.sent + self.aggregated + self.filtered + self.dropped + self.failed;
        self.received.saturating_sub(ended)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn increment(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
