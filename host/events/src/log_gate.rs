//! [`LogGate`]: one log line a minute for frequent occurrences.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Time between two lines.
const INTERVAL: Duration = Duration::from_secs(60);

/// Lets one line a minute through, and counts the occurrences in between.
#[derive(Debug, Default)]
pub(crate) struct LogGate(Mutex<Occurrences>);

#[derive(Debug, Default)]
struct Occurrences {
    logged: Option<Instant>,
    since: u64,
}

impl LogGate {
    /// Counts an occurrence. Returns how many there were since the last line, with this one, if a line is due.
    pub(crate) fn pass(&self) -> Option<u64> {
        let mut occurrences = self.0.lock();
        occurrences.since += 1;
        if occurrences.logged.is_some_and(|logged| logged.elapsed() < INTERVAL) {
            return None;
        }
        occurrences.logged = Some(Instant::now());
        Some(std::mem::take(&mut occurrences.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_line_a_minute_tells_how_many_there_were_however_old_the_process_is() {
        let gate = LogGate::default();
        let lines = |count: u32| (0..count).filter_map(|_| gate.pass()).collect::<Vec<_>>();
        assert_eq!(lines(600_000), [1]);
        tokio::time::advance(INTERVAL).await;
        assert_eq!(lines(5), [600_000]);
        tokio::time::advance(INTERVAL).await;
        assert_eq!(lines(1), [5]);
    }
}
