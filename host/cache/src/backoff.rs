//! [`Backoff`]: how long to wait before trying again.
//!
//! Delays double from the first to the cap and are drawn from [d, 2d), so that many callers that failed together do not
//! come back together. It starts over only when something has gone well since the last failure *and* that failure lies
//! some time back: a server that fails steadily, or answers lists and refuses watches, is never asked faster for it.

use std::time::Duration;

use tokio::time::Instant;

/// Delays between tries.
#[derive(Debug)]
pub struct Backoff {
    first: Duration,
    cap: Duration,
    reset_after: Duration,
    next: Duration,
    last_failure: Option<Instant>,
    success_since: bool,
}

impl Backoff {
    /// Delays from `first`, doubling to `cap`; back to `first` after success and `reset_after` without a failure.
    #[must_use]
    pub fn new(first: Duration, cap: Duration, reset_after: Duration) -> Self {
        Self { first, cap, reset_after, next: first, last_failure: None, success_since: false }
    }

    /// The reflector's: 0.8 s, doubling to 30 s, back after 2 min.
    #[must_use]
    pub fn reflector() -> Self {
        Self::new(Duration::from_millis(800), Duration::from_secs(30), Duration::from_secs(120))
    }

    /// Something went well.
    pub fn success(&mut self) {
        self.success_since = true;
    }

    /// Something failed: how long to wait.
    pub fn failure(&mut self) -> Duration {
        let now = Instant::now();
        let quiet = self.last_failure.is_none_or(|last| now - last >= self.reset_after);
        if self.success_since && quiet {
            self.next = self.first;
        }
        self.success_since = false;
        self.last_failure = Some(now);
        let delay = self.next;
        self.next = (delay * 2).min(self.cap);
        delay.mul_f64(1.0 + rand::random::<f64>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_double_from_800_ms_to_30_s_and_are_drawn_from_d_to_2d() {
        let mut backoff = Backoff::reflector();
        let first = [0.8, 1.6, 3.2, 6.4, 12.8, 25.6];
        // client-go counts 38 steps; there is no end to ours either.
        for expected in first.into_iter().chain([30.0; 40]) {
            let delay = backoff.failure().as_secs_f64();
            assert!((expected..expected * 2.0).contains(&delay), "{delay} for {expected}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn steady_failure_never_resets_however_long_each_try_takes() {
        let mut backoff = Backoff::reflector();
        for _ in 0..10 {
            backoff.failure();
            tokio::time::advance(Duration::from_secs(600)).await;
        }
        assert!(backoff.failure() >= Duration::from_secs(30));
    }

    #[tokio::test(start_paused = true)]
    async fn success_resets_only_after_two_minutes_without_a_failure() {
        let mut backoff = Backoff::reflector();
        for _ in 0..10 {
            backoff.failure();
            backoff.success();
            tokio::time::advance(Duration::from_secs(60)).await;
        }
        assert!(backoff.failure() >= Duration::from_secs(30));
        backoff.success();
        tokio::time::advance(Duration::from_secs(120)).await;
        assert!(backoff.failure() < Duration::from_millis(1600));
    }
}
