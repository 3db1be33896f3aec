//! [`LogLimit`]: how much one plugin may log, so that none can fill the disk or drown the others.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pilothouse_plugin::Limits;

use crate::imports::token_bucket::TokenBucket;

/// Lines a second, on average and at once.
const LINES: f64 = 1000.0;
const BURST_LINES: f64 = 5000.0;
/// The burst of bytes: so many seconds at the rate, and at least this many, so that a line of any length can be written.
const BURST_SECONDS: f64 = 4.0;
const LEAST_BURST: f64 = 64.0 * 1024.0;
/// Bytes of a line beside the guest's texts: time, level, plugin, key.
const LINE_BYTES: usize = 128;
/// How often the number of dropped lines is logged.
const LOG_DROPPED_EVERY: Duration = Duration::from_secs(10);

/// Limits the log lines of one plugin and their bytes; shared by its generations.
#[derive(Debug)]
pub(crate) struct LogLimit(Mutex<LogBudget>);

#[derive(Debug)]
struct LogBudget {
    lines: TokenBucket,
    bytes: TokenBucket,
    bytes_per_second: usize,
    dropped: u64,
    logged: Option<Instant>,
}

impl Default for LogLimit {
    fn default() -> Self {
        Self(Mutex::new(LogBudget::new(Limits::default().log_bytes)))
    }
}

impl LogLimit {
    /// Sets the bytes per second (`limits.logBytes`).
    pub(crate) fn change(&self, bytes_per_second: usize) {
        let mut budget = self.0.lock();
        if budget.bytes_per_second != bytes_per_second {
            let (rate, burst) = byte_rate(bytes_per_second);
            budget.bytes.change(rate, burst);
            budget.bytes_per_second = bytes_per_second;
        }
    }

    /// Whether one more line with so many bytes of the guest may be written now.
    pub(crate) fn allows(&self, plugin: &str, bytes: usize) -> bool {
        let (allowed, dropped) = self.0.lock().take(bytes, Instant::now());
        if let Some(dropped) = dropped {
            tracing::warn!(
                event = "plugin_log_dropped",
                plugin,
                dropped,
                "the plugin exceeds {LINES} log lines or limits.logBytes per second: lines dropped"
            );
        }
        allowed
    }
}

fn byte_rate(bytes_per_second: usize) -> (f64, f64) {
    let rate = bytes_per_second as f64;
    (rate, (rate * BURST_SECONDS).max(LEAST_BURST))
}

impl LogBudget {
    fn new(bytes_per_second: usize) -> Self {
        let (rate, burst) = byte_rate(bytes_per_second);
        Self {
            lines: TokenBucket::new(LINES, BURST_LINES),
            bytes: TokenBucket::new(rate, burst),
            bytes_per_second,
            dropped: 0,
            logged: None,
        }
    }

    /// Whether a line may be written, and how many dropped lines to log.
    fn take(&mut self, bytes: usize, now: Instant) -> (bool, Option<u64>) {
        let cost = (bytes + LINE_BYTES) as f64;
        let allowed = self.lines.has(1.0, now) && self.bytes.has(cost, now);
        if allowed {
            self.lines.spend(1.0);
            self.bytes.spend(cost);
        } else {
            self.dropped += 1;
        }
        let due = self.dropped > 0
            && self.logged.is_none_or(|logged| now.saturating_duration_since(logged) >= LOG_DROPPED_EVERY);
        if due {
            self.logged = Some(now);
            return (allowed, Some(std::mem::take(&mut self.dropped)));
        }
        (allowed, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_lines_is_cut_and_logged_now_and_then() {
        let start = Instant::now();
        let mut budget = LogBudget::new(usize::MAX);
        let outcomes: Vec<_> = (0..6000).map(|_| budget.take(0, start)).collect();
        assert_eq!(outcomes.iter().filter(|(allowed, _)| *allowed).count(), 5000);
        assert_eq!(outcomes.iter().filter_map(|(_, dropped)| *dropped).collect::<Vec<_>>(), [1]);
        let later = start + Duration::from_secs(11);
        assert_eq!(budget.take(0, later), (true, Some(999)));
    }

    #[test]
    fn few_large_lines_are_cut_by_their_bytes_and_small_ones_go_on() {
        let start = Instant::now();
        let mut budget = LogBudget::new(1 << 20);
        let large = (520 << 10) - LINE_BYTES;
        let written = |budget: &mut LogBudget, at| (0..100).filter(|_| budget.take(large, at).0).count();
        assert_eq!(written(&mut budget, start), 7, "four seconds' worth at once");
        assert!(budget.take(100, start).0, "a small line still fits");
        assert_eq!(written(&mut budget, start + Duration::from_secs(10)), 7);
    }

    #[test]
    fn another_rate_gives_no_bytes_at_once() {
        let limit = LogLimit::default();
        let mut lines = 0;
        while limit.allows("p", 8 << 10) {
            lines += 1;
        }
        assert!(lines >= 500, "{lines}");
        limit.change(64 << 20);
        limit.change(1 << 20);
        assert!(!limit.allows("p", 4 << 20));
    }
}
