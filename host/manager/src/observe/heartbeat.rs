//! [`beat`]: measures how late tasks of a runtime are. A task that wants to run every 10 ms waits, like all others, for what
//! holds the threads of its runtime; so its lateness is the delay of a watch event at that moment.

use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;
use tokio::time::{Instant, sleep_until};

/// Time between two beats.
pub(crate) const PERIOD: Duration = Duration::from_millis(10);

/// Upper bounds in seconds. Timers have a resolution of a millisecond, so a quiet runtime is within the first two.
pub(crate) const STALLS: &[f64] = &[0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0];

/// Beats on the current runtime for ever.
pub(crate) async fn beat(stalls: Histogram) {
    let mut due = Instant::now() + PERIOD;
    loop {
        sleep_until(due).await;
        let now = Instant::now();
        stalls.observe((now - due).as_secs_f64());
        // Not in a burst after a stall, whose length has been counted.
        due = now + PERIOD;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::metrics::Metrics;

    /// The beats that were at most so late.
    fn within(metrics: &Metrics, bound: &str) -> u64 {
        let text = metrics.encode();
        let name = format!("pilothouse_io_stall_seconds_bucket{{le=\"{bound}\"}} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&*name));
        value.unwrap_or_else(|| panic!("{name} is not in\n{text}")).parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_thread_that_is_held_is_one_late_beat_of_that_length() {
        let metrics = Metrics::new();
        let beating = tokio::spawn(metrics.watch_this_runtime());
        tokio::time::sleep(PERIOD * 50).await;
        let beats = within(&metrics, "+Inf");
        assert!((45..=50).contains(&beats), "{beats} beats");
        assert_eq!(within(&metrics, "0.002"), beats, "no beat was late");
        // No task runs meanwhile: `advance` moves the clock without a poll in between.
        tokio::time::advance(PERIOD * 15).await;
        tokio::time::sleep(PERIOD * 2).await;
        assert_eq!(within(&metrics, "0.1"), within(&metrics, "+Inf") - 1);
        assert_eq!(within(&metrics, "0.2"), within(&metrics, "+Inf"));
        beating.abort();
    }
}
