//! [`TokenBucket`]: limits a rate, with a burst.
//!
//! For callers that do not wait for a token: they drop the work and count it.

use std::time::Instant;

/// A token bucket; full at first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenBucket {
    per_second: f64,
    burst: f64,
    tokens: f64,
    filled: Instant,
}

impl TokenBucket {
    pub(crate) fn new(per_second: f64, burst: f64) -> Self {
        Self { per_second, burst, tokens: burst, filled: Instant::now() }
    }

    /// Sets another rate; tokens in the bucket stay, up to the new burst.
    pub(crate) fn change(&mut self, per_second: f64, burst: f64) {
        self.fill(Instant::now());
        (self.per_second, self.burst) = (per_second, burst);
        self.tokens = self.tokens.min(burst);
    }

    /// Takes a token; `false` when the bucket is empty.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let one = self.has(1.0, now);
        if one {
            self.spend(1.0);
        }
        one
    }

    /// Whether the bucket has so many tokens.
    pub(crate) fn has(&mut self, tokens: f64, now: Instant) -> bool {
        self.fill(now);
        self.tokens >= tokens
    }

    /// Takes so many tokens, which [`TokenBucket::has`] has found.
    pub(crate) fn spend(&mut self, tokens: f64) {
        self.tokens -= tokens;
    }

    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + passed * self.per_second).min(self.burst);
        self.filled = self.filled.max(now);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn taken(bucket: &mut TokenBucket, at: Instant) -> usize {
        std::iter::repeat_with(|| bucket.take(at)).take(1000).filter(|taken| *taken).count()
    }

    #[test]
    fn as_many_as_the_burst_at_once_then_the_rate() {
        let mut bucket = TokenBucket::new(10.0, 50.0);
        let start = bucket.filled;
        assert_eq!(taken(&mut bucket, start), 50);
        assert_eq!(taken(&mut bucket, start + Duration::from_secs(2)), 20);
        assert_eq!(taken(&mut bucket, start + Duration::from_secs(1000)), 50);
    }

    #[test]
    fn a_clock_that_goes_back_gives_nothing() {
        let mut bucket = TokenBucket::new(10.0, 1.0);
        let start = bucket.filled;
        assert_eq!(taken(&mut bucket, start + Duration::from_secs(1)), 1);
        assert_eq!(taken(&mut bucket, start), 0);
        assert_eq!(taken(&mut bucket, start + Duration::from_secs(1)), 0);
    }

    #[test]
    fn a_change_gives_no_tokens() {
        let mut bucket = TokenBucket::new(0.0, 5.0);
        let start = bucket.filled;
        assert!(bucket.take(start));
        bucket.change(0.0, 100.0);
        assert_eq!(taken(&mut bucket, start), 4);
        bucket.change(0.0, 2.0);
        assert_eq!(taken(&mut bucket, start), 0);
    }
}
