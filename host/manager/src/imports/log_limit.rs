//! [`LogLimit`]: how much one generation of a plugin may log, so that none can fill the disk or drown the others.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::imports::token_bucket::TokenBucket;

/// Lines a second, on average and at once.
const RATE: f64 = 1000.0;
const BURST: f64 = 5000.0;
/// How often the number of dropped lines is logged.
const LOG_DROPPED_EVERY: Duration = Duration::from_secs(10);

/// A token bucket for log lines.
#[derive(Debug)]
pub(crate) struct LogLimit(Mutex<Lines>);

#[derive(Debug)]
struct Lines {
    bucket: TokenBucket,
    dropped: u64,
    told: Option<Instant>,
}

impl Default for LogLimit {
    fn default() -> Self {
        Self(Mutex::new(Lines { bucket: TokenBucket::new(RATE, BURST), dropped: 0, told: None }))
    }
}

impl LogLimit {
    /// Whether one more line may be written now.
    pub(crate) fn allows(&self, plugin: &str) -> bool {
        let (allowed, dropped) = self.0.lock().take(Instant::now());
        if let Some(dropped) = dropped {
            tracing::warn!(
                event = "plugin_log_dropped",
                plugin,
                dropped,
                "the plugin exceeds {RATE} log lines per second: lines dropped"
            );
        }
        allowed
    }
}

impl Lines {
    /// Whether a line may be written, and how many dropped lines to log.
    fn take(&mut self, now: Instant) -> (bool, Option<u64>) {
        let allowed = self.bucket.take(now);
        if !allowed {
            self.dropped += 1;
        }
        let due = self.dropped > 0
            && self.told.is_none_or(|told| now.saturating_duration_since(told) >= LOG_DROPPED_EVERY);
        if due {
            self.told = Some(now);
            return (allowed, Some(std::mem::take(&mut self.dropped)));
        }
        (allowed, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_told_of_now_and_then() {
        let start = Instant::now();
        let mut lines = Lines { bucket: TokenBucket::new(RATE, BURST), dropped: 0, told: None };
        let outcomes: Vec<_> = (0..6000).map(|_| lines.take(start)).collect();
        assert_eq!(outcomes.iter().filter(|(allowed, _)| *allowed).count(), 5000);
        assert_eq!(outcomes.iter().filter_map(|(_, told)| *told).collect::<Vec<_>>(), [1]);
        let later = start + Duration::from_secs(11);
        assert_eq!(lines.take(later), (true, Some(999)));
    }
}
