//! [`Pace`]: the rate of the requests of one generation of a plugin. Requests take turns; those beyond the burst wait.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Bursts are the requests of so many seconds.
const BURST: f64 = 2.0;

/// Turns at a rate.
pub(super) struct Pace {
    interval: Duration,
    burst: Duration,
    /// When the next turn is, unless nobody took one for long.
    next: Mutex<Instant>,
}

impl Pace {
    /// So many turns a second on average. The first ones, and those after a pause, come at once.
    pub(super) fn new(per_second: f64) -> Self {
        let interval = Duration::from_secs_f64(1.0 / per_second);
        // One turn at least comes at once.
        let burst = Duration::from_secs_f64(BURST).max(interval);
        let now = Instant::now();
        Self { interval, burst, next: Mutex::new(now.checked_sub(burst).unwrap_or(now)) }
    }

    /// Takes the next turn and returns its time. None if that is later than `until`: no turn is taken then, so a request that
    /// is given up delays no other.
    pub(super) fn turn(&self, now: Instant, until: Instant) -> Option<Instant> {
        let mut next = self.next.lock();
        let earliest = now.checked_sub(self.burst).unwrap_or(now);
        let turn = (*next).max(earliest) + self.interval;
        if turn > until.max(now) {
            return None;
        }
        *next = turn;
        Some(turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Turns that come at once, and whether a later one is refused.
    fn at_once(pace: &Pace, now: Instant) -> usize {
        (0..1000).take_while(|_| pace.turn(now, now).is_some()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_comes_at_once_and_then_the_rate() {
        let pace = Pace::new(10.0);
        let start = Instant::now();
        assert_eq!(at_once(&pace, start), 20);
        assert_eq!(at_once(&pace, start + SECOND), 10);
        assert_eq!(at_once(&pace, start + SECOND * 100), 20);
        // Waiting ones come one after the other.
        let now = start + SECOND * 100;
        let waits: Vec<_> =
            (0..3).map(|_| (pace.turn(now, now + SECOND).unwrap() - now).as_millis()).collect();
        assert_eq!(waits, [100, 200, 300]);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_give_up_delay_nobody() {
        let pace = Pace::new(0.5);
        let start = Instant::now();
        assert_eq!(at_once(&pace, start), 1);
        for _ in 0..1000 {
            assert!(pace.turn(start, start + SECOND).is_none());
        }
        assert_eq!(pace.turn(start, start + SECOND * 2), Some(start + SECOND * 2));
    }
}
