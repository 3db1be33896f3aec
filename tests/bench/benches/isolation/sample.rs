//! [`Sample`]: what one measurement gives.

use pilothouse_bench::median;
use pilothouse_tests::metrics::Metrics;

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
    /// Resident memory of the host at the end.
    pub(crate) rss_mib: f64,
    /// Bytes of log a second.
    pub(crate) log_kib_s: f64,
}

/// The middle of one figure of some samples.
pub(crate) fn median_of(samples: &[Sample], figure: fn(&Sample) -> f64) -> f64 {
    median(&mut samples.iter().map(figure).collect::<Vec<_>>())
}

/// The upper bound of the bucket that holds this share of the heartbeats between two readings, in milliseconds. NaN when there
/// are none.
pub(crate) fn stall_ms(before: &Metrics, after: &Metrics, share: f64) -> f64 {
    let count = |page: &Metrics, bound: &str| page.sum(STALLS, &[("le", bound)]).unwrap_or_default();
    let all = count(after, "+Inf") - count(before, "+Inf");
    let mut bounds: Vec<(f64, f64)> = after
        .matching(STALLS, &[])
        .filter_map(|(labels, _)| labels.get("le"))
        .filter_map(|bound| Some((bound.parse().ok()?, count(after, bound) - count(before, bound))))
        .collect();
    bounds.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let within = bounds.iter().find(|(_, beats)| all > 0.0 && *beats >= all * share);
    within.map_or(f64::NAN, |(bound, _)| bound * 1e3)
}
