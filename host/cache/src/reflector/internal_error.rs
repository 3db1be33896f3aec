//! [`InternalErrorRetry`]: for how long watches that the server ends with `InternalError` are opened again.
//!
//! client-go's `retryWithDeadline`: a window begins with the first such error, and with one that comes a minute or more
//! after the last; within it a watch goes on without a list.

use std::time::Duration;

use tokio::time::Instant;

/// An error so long after the one before begins a new window.
const MIN_RESET_PERIOD: Duration = Duration::from_secs(60);

/// Whether another watch is worth a try after an `InternalError`.
#[derive(Debug)]
pub(super) struct InternalErrorRetry {
    window: Duration,
    /// When the first and the last error of this window came.
    errors: Option<(Instant, Instant)>,
}

impl InternalErrorRetry {
    pub(super) fn new(window: Duration) -> Self {
        Self { window, errors: None }
    }

    /// Another such error came: whether to go on without a list.
    pub(super) fn retry(&mut self) -> bool {
        let now = Instant::now();
        let first = match self.errors {
            Some((first, last)) if now - last < MIN_RESET_PERIOD => first,
            _ => now,
        };
        let within = !self.window.is_zero() && now - first <= self.window;
        self.errors = within.then_some((first, now));
        within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Errors a second apart until one leads to a list; before the error `quiet_before` a minute passes.
    async fn retries(window: u64, quiet_before: Option<u32>) -> u32 {
        let mut retry = InternalErrorRetry::new(Duration::from_secs(window));
        for count in 0..1000 {
            let quiet = quiet_before == Some(count + 1);
            tokio::time::advance(Duration::from_secs(if quiet { 60 } else { 1 })).await;
            if !retry.retry() {
                return count;
            }
        }
        panic!("there is no end to it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_of_30_s_has_31_retries_a_second_apart_and_a_quiet_minute_begins_another() {
        assert_eq!(retries(0, None).await, 0);
        assert_eq!(retries(30, None).await, 31);
        assert_eq!(retries(30, Some(10)).await, 40);
    }
}
