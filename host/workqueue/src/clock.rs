//! Time as a queue keeps it: nanoseconds since the queue was made.
//!
//! Invariants: comes from tokio's clock, so that a test which pauses tokio's clock before it makes a queue pauses the
//! queue; never goes back. A `u64` is half of an `Instant`, and every key holds one. Called by `state` and the futures.
//!
//! A reading costs about 40 ns, more than anything else in an add or a get. So [`Reader::recent`] reads 32 times in each
//! tick of the coarse clock (4 ms on most machines, so 8,000 times a second), and beyond that for every 16th call: its
//! answer is exact at rates at which it matters, and at higher ones as old as 16 calls take, at most a tick.

use std::time::Duration;

use tokio::time::Instant;

/// Nanoseconds since the queue was made; 584 years fit.
pub(crate) type Nanos = u64;

/// Longest delay that is kept as asked; tokio's timers take no more than about this. 30 years.
const LONGEST_DELAY: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// Readings in one tick of the coarse clock (1 to 10 ms) that are exact.
const EXACT_READINGS: u32 = 32;
/// After those, every so many-th is. A power of two.
const EXACT_EVERY: u32 = 16;

/// Holds the moment from which a queue counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    epoch: Instant,
    /// Tokio's clock is paused, or was moved.
    paused: bool,
}

impl Clock {
    /// Starts counting now.
    pub(crate) fn start() -> Self {
        let before = std::time::Instant::now();
        let epoch = Instant::now();
        let paused = !(before..=std::time::Instant::now()).contains(&epoch.into_std());
        Self { epoch, paused }
    }

    /// Reads the clock.
    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        self.nanos(Instant::now())
    }

    /// The moment `at` as a queue counts it; zero if that was before the queue was made.
    #[inline]
    pub(crate) fn nanos(&self, at: Instant) -> Nanos {
        nanos(at.duration_since(self.epoch))
    }

    /// The moment `at` as tokio counts it.
    #[inline]
    pub(crate) fn instant(&self, at: Nanos) -> Instant {
        self.epoch + Duration::from_nanos(at)
    }
}

/// Reads the clock, but not more often than need be.
#[derive(Debug)]
pub(crate) struct Reader {
    clock: Clock,
    last: Nanos,
    /// The coarse clock when it was last seen to tick.
    tick: u64,
    /// Calls since then.
    calls: u32,
}

impl Reader {
    /// Nothing was read yet.
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, last: 0, tick: 0, calls: 0 }
    }

    /// The time now.
    #[inline]
    pub(crate) fn exact(&mut self) -> Nanos {
        self.last = self.clock.now();
        self.last
    }

    /// The time of the last reading.
    #[inline]
    pub(crate) fn last(&self) -> Nanos {
        self.last
    }

    /// The time now, of which the caller has read the clock.
    #[inline]
    pub(crate) fn at_least(&mut self, read: Nanos) -> Nanos {
        self.last = self.last.max(read);
        self.last
    }

    /// The time now, of which the caller may have read the clock; else as [`recent`](Self::recent) says.
    #[inline]
    pub(crate) fn read_or_recent(&mut self, read: Option<Nanos>) -> Nanos {
        match read {
            Some(read) => self.at_least(read),
            None => self.recent(),
        }
    }

    /// The time now, or a little ago where calls are many.
    #[inline]
    pub(crate) fn recent(&mut self) -> Nanos {
        if self.clock.paused {
            return self.exact();
        }
        let Some(tick) = coarse() else { return self.exact() };
        if tick != self.tick {
            self.tick = tick;
            self.calls = 0;
        }
        self.calls = self.calls.wrapping_add(1);
        if self.calls <= EXACT_READINGS || self.calls.is_multiple_of(EXACT_EVERY) {
            return self.exact();
        }
        self.last
    }
}

/// A clock that ticks every few milliseconds, and costs a quarter of an exact one: seconds, and 30 bits of nanoseconds.
#[cfg(target_os = "linux")]
#[inline]
#[allow(clippy::cast_sign_loss, reason = "time since the machine was started")]
fn coarse() -> Option<u64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    Some((time.tv_sec as u64) << 30 | time.tv_nsec as u64)
}

#[cfg(not(target_os = "linux"))]
fn coarse() -> Option<u64> {
    None
}

/// The deadline of a delay that begins at `now`.
#[inline]
pub(crate) fn deadline(now: Nanos, delay: Duration) -> Nanos {
    now.saturating_add(nanos(delay.min(LONGEST_DELAY)))
}

#[inline]
fn nanos(duration: Duration) -> Nanos {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_runs_is_read_now_and_then_and_never_goes_back() {
        let mut reader = Reader::new(Clock::start());
        assert!(!reader.clock.paused);
        let mut last = 0;
        let mut read = 0;
        for _ in 0..100_000 {
            let now = reader.recent();
            assert!(now >= last);
            read += u32::from(now != last);
            last = now;
        }
        assert!(read > 100, "it was read {read} times");
        #[cfg(target_os = "linux")]
        assert!(read < 50_000, "it was read {read} times");
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_is_read_each_time() {
        let mut reader = Reader::new(Clock::start());
        assert!(reader.clock.paused);
        for step in 1..200 {
            tokio::time::advance(Duration::from_micros(1)).await;
            assert_eq!(reader.recent(), step * 1000);
        }
    }
}
