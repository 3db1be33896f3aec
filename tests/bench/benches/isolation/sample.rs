//! [`Sample`]: what one measurement gives.

use pilothouse_bench::median;
use pilothouse_tests::metrics::Metrics;

/// The histogram of long polls, one for each informer.
const POLLS: &str = "pilothouse_informer_long_polls_seconds_bucket";
/// The histogram of how late the heartbeat of the runtime `io` is.
const STALLS: &str = "pilothouse_io_stall_seconds_bucket";

/// One measurement of the neighbour and of the host.
#[derive(Debug)]
pub(crate) struct Sample {
    /// Milliseconds from an API write to the start of its reconcile.
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// The bucket of the heartbeat's lateness that 99.9 % of the beats are in, in milliseconds.
    pub(crate) stall_ms: f64,
    /// The bucket of the CPU time of the longest poll of an informer's task, in milliseconds; 0 when none took a millisecond.
    pub(crate) poll_ms: f64,
    /// Resident memory of the host at the end.
    pub(crate) rss_mib: f64,
    /// Bytes of log a second.
    pub(crate) log_kib_s: f64,
}

/// The middle of one figure of some samples.
pub(crate) fn median_of(samples: &[Sample], figure: fn(&Sample) -> f64) -> f64 {
    median(&mut samples.iter().map(figure).collect::<Vec<_>>())
}

/// The observations of a histogram between two readings, by upper bound: those within each, the last one being all.
fn spread(name: &str, before: Option<&Metrics>, after: &Metrics) -> Vec<(f64, f64)> {
    let count = |page: &Metrics, bound: &str| page.sum(name, &[("le", bound)]).unwrap_or_default();
    let mut bounds: Vec<(f64, f64)> = Vec::new();
    for text in after.matching(name, &[]).filter_map(|(labels, _)| labels.get("le")) {
        let Ok(bound) = text.parse() else { continue };
        // One for each informer.
        if bounds.iter().all(|(known, _)| *known != bound) {
            bounds.push((bound, count(after, text) - before.map_or(0.0, |before| count(before, text))));
        }
    }
    bounds.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    bounds
}

/// The upper bound of the bucket that holds this share of the heartbeats between two readings, in milliseconds. NaN when there
/// are none.
pub(crate) fn stall_ms(before: &Metrics, after: &Metrics, share: f64) -> f64 {
    let bounds = spread(STALLS, Some(before), after);
    let all = bounds.last().map_or(0.0, |(_, beats)| *beats);
    let within = bounds.iter().find(|(_, beats)| all > 0.0 && *beats >= all * share);
    within.map_or(f64::NAN, |(bound, _)| bound * 1e3)
}

/// The upper bound of the bucket of the longest poll between two readings, or before the second, in milliseconds. 0 when no
/// poll was long.
pub(crate) fn longest_poll_ms(before: Option<&Metrics>, after: &Metrics) -> f64 {
    let bounds = spread(POLLS, before, after);
    let all = bounds.last().map_or(0.0, |(_, polls)| *polls);
    let holds_all = bounds.iter().find(|(_, polls)| all > 0.0 && *polls >= all);
    holds_all.map_or(0.0, |(bound, _)| bound * 1e3)
}
