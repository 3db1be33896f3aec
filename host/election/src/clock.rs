//! [`BootInstant`]: a point in time by a clock that goes on while the machine is suspended.
//!
//! The monotonic clock, and with it tokio's, stops while the machine is suspended; other candidates run on meanwhile. How
//! long it was stopped is the distance of `CLOCK_BOOTTIME` from `CLOCK_MONOTONIC`. `leadership` counts terms by this.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};
use tokio::time::Instant;

/// Two clocks cannot be read at the same moment: a distance that differs by less is the same.
const READING_ERROR: Duration = Duration::from_millis(10);

/// Readings of the monotonic clock, before and after the other one, that are further apart are taken again, so often at most:
/// the thread was paused in between.
const READINGS: usize = 10;

/// A point in time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BootInstant {
    /// By tokio's clock.
    pub(crate) awake: Instant,
    /// How long the machine had been suspended since it was booted.
    pub(crate) suspended: Duration,
}

impl BootInstant {
    pub(crate) fn now() -> Self {
        Self { awake: Instant::now(), suspended: suspended() }
    }

    pub(crate) fn elapsed(self) -> Duration {
        Self::now().duration_since(self)
    }

    /// The time from an earlier point on, suspension included.
    pub(crate) fn duration_since(self, earlier: Self) -> Duration {
        let suspended = self.suspended.saturating_sub(earlier.suspended);
        let suspended = if suspended < READING_ERROR { Duration::ZERO } else { suspended };
        self.awake.duration_since(earlier.awake) + suspended
    }
}

/// How long the machine has been suspended since it was booted.
fn suspended() -> Duration {
    let since_boot = |clock| {
        let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
        Duration::new(tv_sec.try_into().unwrap_or_default(), tv_nsec.try_into().unwrap_or_default())
    };
    let read = || {
        let before = since_boot(ClockId::Monotonic);
        let boot = since_boot(ClockId::Boottime);
        let apart = since_boot(ClockId::Monotonic).saturating_sub(before);
        (apart, boot.saturating_sub(before))
    };
    let (mut apart, mut suspended) = read();
    for _ in 1..READINGS {
        if apart < READING_ERROR / 2 {
            break;
        }
        (apart, suspended) = std::cmp::min((apart, suspended), read());
    }
    #[cfg(test)]
    let suspended = suspended + testing::suspended();
    suspended
}

#[cfg(test)]
pub(crate) mod testing {
    //! A machine that a test suspends.

    use std::cell::Cell;
    use std::time::Duration;

    thread_local! {
        static SUSPENDED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    /// For this thread the machine was suspended for so long.
    pub(crate) fn suspend(duration: Duration) {
        SUSPENDED.set(SUSPENDED.get() + duration);
    }

    pub(super) fn suspended() -> Duration {
        SUSPENDED.get()
    }
}
