//! [`LogLimit`]: how much one generation of a plugin may log, so that none can fill the disk or drown the others.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Lines a second, on average and at once.
const RATE: f64 = 1000.0;
const BURST: f64 = 5000.0;
/// How often the number of dropped lines is told.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// A token bucket for log lines.
#[derive(Debug)]
pub(crate) struct LogLimit(Mutex<Bucket>);

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    filled: Instant,
    dropped: u64,
    told: Option<Instant>,
}

impl Default for LogLimit {
    fn default() -> Self {
        Self(Mutex::new(Bucket { tokens: BURST, filled: Instant::now(), dropped: 0, told: None }))
    }
}

impl LogLimit {
    /// Whether one more line may be written now.
    pub(crate) fn allows(&self, plugin: &str) -> bool {
        let (allowed, dropped) = self.0.lock().take(Instant::now());
        if let Some(dropped) = dropped {
            tracing::warn!(plugin, dropped, "the plugin logs more than {RATE} lines a second: lines dropped");
        }
        allowed
    }
}

impl Bucket {
    /// Whether a line may be written, and how many dropped lines to tell of.
    fn take(&mut self, now: Instant) -> (bool, Option<u64>) {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + passed * RATE).min(BURST);
        self.filled = now;
        let allowed = self.tokens >= 1.0;
        if allowed {
            self.tokens -= 1.0;
        } else {
            self.dropped += 1;
        }
        let due = self.dropped > 0
            && self.told.is_none_or(|told| now.saturating_duration_since(told) >= TELL_EVERY);
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
        let mut bucket = Bucket { tokens: BURST, filled: start, dropped: 0, told: None };
        let outcomes: Vec<_> = (0..6000).map(|_| bucket.take(start)).collect();
        assert_eq!(outcomes.iter().filter(|(allowed, _)| *allowed).count(), 5000);
        assert_eq!(outcomes.iter().filter_map(|(_, told)| *told).collect::<Vec<_>>(), [1]);
        let later = start + Duration::from_secs(11);
        assert_eq!(bucket.take(later), (true, Some(999)));
    }

    #[test]
    fn the_bucket_fills_again() {
        let start = Instant::now();
        let mut bucket = Bucket { tokens: 0.0, filled: start, dropped: 0, told: None };
        assert!(!bucket.take(start).0);
        assert!(bucket.take(start + Duration::from_millis(2)).0);
    }
}
