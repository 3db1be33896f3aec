//! [`InformerMetrics`]: the figures of one informer, read at once.
//!
//! Plain numbers under client-go's names: the host puts them into whatever it exports. They live in the informer and go
//! with it, so there is nothing to unregister.

use std::sync::Arc;

/// How measured values are spread: counts by upper bound, as Prometheus' histograms.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One for each bound, and one for what is above all of them.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    /// Seconds that a list takes.
    pub(crate) const LIST_SECONDS: &[f64] =
        &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];
    /// Seconds that a watch lasts: servers end them after 5 to 10 minutes.
    pub(crate) const WATCH_SECONDS: &[f64] =
        &[1.0, 5.0, 15.0, 60.0, 180.0, 300.0, 450.0, 600.0, 1800.0, 3600.0];
    /// Objects or events.
    pub(crate) const ITEMS: &[f64] = &[0.0, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6];
    /// Seconds; client-go's range for `informer_processing_latency_seconds`.
    pub(crate) const PROCESSING_SECONDS: &[f64] =
        &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

    /// Seconds of CPU time of a poll.
    pub(crate) const POLL_SECONDS: &[f64] = &[0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0];

    pub(crate) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    pub(crate) fn observe(&mut self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket] += 1;
        self.sum += value;
    }

    /// How many values there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// Upper bounds, each with the number of values above the bound before and not above it; the last bound is infinite.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        self.bounds.iter().copied().chain([f64::INFINITY]).zip(self.counts.iter().copied())
    }
}

/// The figures of one informer. Those named `_total` grow from its start.
#[derive(Debug, Clone, Default)]
pub struct InformerMetrics {
    /// Lists begun. A streaming list is a watch.
    pub reflector_lists_total: u64,
    /// Panics that ended the work of the informer, after which it began anew.
    pub informer_restarts_total: u64,
    /// Wake-ups of its task in a factory. A follower's task is woken by its own listeners alone.
    pub informer_wakeups_total: u64,
    /// CPU time of those polls of its task that took a millisecond or longer.
    pub informer_long_polls_seconds: Histogram,
    /// Lists that failed.
    pub reflector_list_failures_total: u64,
    /// Pages asked for.
    pub reflector_list_pages_total: u64,
    /// How long lists took, with all their pages; failed ones too.
    pub reflector_list_duration_seconds: Histogram,
    /// Objects in each list.
    pub reflector_items_per_list: Histogram,
    /// Watches begun.
    pub reflector_watches_total: u64,
    /// Watches that ended within a second without an event.
    pub reflector_short_watches_total: u64,
    /// Watches that could not be opened or broke.
    pub reflector_watch_failures_total: u64,
    /// How long watches lasted.
    pub reflector_watch_duration_seconds: Histogram,
    /// Events of each watch, bookmarks included, until it ended.
    pub reflector_items_per_watch: Histogram,
    /// Events of all watches, bookmarks not counted.
    pub reflector_items_watched_total: u64,
    /// Bookmarks of all watches.
    pub reflector_bookmarks_total: u64,
    /// Events of all watches that could not be decoded and were skipped.
    pub reflector_skipped_events_total: u64,
    /// Objects passed over because the transform failed.
    pub reflector_transform_errors_total: u64,
    /// Streaming lists that differed from a list of their version ([`ReflectorOptions::check_watch_lists`]).
    ///
    /// [`ReflectorOptions::check_watch_lists`]: crate::ReflectorOptions::check_watch_lists
    pub reflector_inconsistent_watch_lists_total: u64,
    /// The version that the next watch or list goes on from.
    pub reflector_last_resource_version: Arc<str>,
    /// Deltas between the reflector and the store.
    pub informer_queued_items: usize,
    /// How long a batch of deltas, or a list, took to reach the store and be told to the listeners.
    pub informer_processing_latency_seconds: Histogram,
    /// The version up to which the store is complete.
    pub informer_store_resource_version: Arc<str>,
    /// Objects in the store.
    pub objects: usize,
    /// Listeners.
    pub listeners: usize,
    /// Changes that listeners hold and have not dealt with, over all of them.
    pub listener_depth: usize,
    /// Calls of listeners, for changes and for initial objects.
    pub notifications_total: u64,
    /// Calls of listeners that panicked.
    pub listener_panics_total: u64,
    /// Resyncs.
    pub resyncs_total: u64,
}

/// A resource version as the value of a gauge: its last 15 digits, which a 64-bit float holds exactly; 0 for a version
/// that is no number.
#[must_use]
pub fn resource_version_gauge(version: &str) -> i64 {
    let digits = version.len().min(15);
    version
        .get(version.len() - digits..)
        .filter(|_| version.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_cut_to_its_last_15_digits() {
        for (version, gauge) in [
            ("", 0),
            ("abc", 0),
            ("-1", 0),
            ("12", 12),
            ("123456789012345", 123_456_789_012_345),
            ("9123456789012345", 123_456_789_012_345),
            ("99999999999999999999999999", 999_999_999_999_999),
        ] {
            assert_eq!(resource_version_gauge(version), gauge, "{version}");
        }
    }

    #[test]
    fn a_value_counts_below_the_bound_that_it_equals() {
        let mut histogram = Histogram::new(&[1.0, 5.0]);
        [0.5, 1.0, 3.0, 9.0].into_iter().for_each(|value| histogram.observe(value));
        assert_eq!(histogram.buckets().collect::<Vec<_>>(), [(1.0, 2), (5.0, 1), (f64::INFINITY, 1)]);
        assert_eq!((histogram.count(), histogram.sum()), (4, 13.5));
    }
}
