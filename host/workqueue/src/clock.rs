//! Time as the queue keeps it: nanoseconds since the queue was made.
//!
//! Invariant: comes from tokio's clock, so that a test which pauses tokio's clock pauses the queue. A `u64` is half of
//! an `Instant`, and every waiting key holds two or three. Called by `shared`, `state` and the futures.

use std::time::Duration;

use tokio::time::Instant;

/// Nanoseconds since the queue was made; 584 years fit.
pub(crate) type Nanos = u64;

/// Longest delay that is kept as asked; tokio's timers take no more than about this. 30 years.
const LONGEST_DELAY: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// Holds the moment from which a queue counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    epoch: Instant,
}

impl Clock {
    /// Starts counting now.
    pub(crate) fn start() -> Self {
        Self { epoch: Instant::now() }
    }

    /// Reads the clock; about 20 ns, by far the dearest single step of an add or a get.
    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        nanos(Instant::now().duration_since(self.epoch))
    }

    /// The moment `at` as tokio counts it.
    #[inline]
    pub(crate) fn instant(&self, at: Nanos) -> Instant {
        self.epoch + Duration::from_nanos(at)
    }
}

/// The deadline of a delay that begins at `now`.
pub(crate) fn deadline(now: Nanos, delay: Duration) -> Nanos {
    now.saturating_add(nanos(delay.min(LONGEST_DELAY)))
}

fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
