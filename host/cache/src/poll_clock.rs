//! [`timed`]: the CPU time of the polls of an informer's task, for which the other tasks of its thread wait.
//!
//! Reading the CPU clock of a thread is a system call, and most polls take microseconds. So only polls that take [`LONG`] by
//! the wall clock are measured. Their CPU time is compared with a reading of the same thread that is at most [`MARK_AGE`]
//! older than the poll: a figure is too large by that at most. Work done [`aside`](crate::aside) delays nobody and is left
//! out.

use std::cell::Cell;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Shorter polls are not measured.
const LONG: Duration = Duration::from_millis(1);

/// A thread reads its CPU clock before a poll when the last reading is older.
const MARK_AGE: Duration = Duration::from_millis(2);

thread_local! {
    /// The last reading of the CPU clock, and when it was.
    static MARK: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) };
    /// CPU time of work that was done aside.
    static ASIDE: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(now.tv_sec).unwrap_or_default(),
        u32::try_from(now.tv_nsec).unwrap_or_default(),
    )
}

/// Runs a poll; if it was long, `long` gets its CPU time.
pub(crate) fn timed<T>(poll: impl FnOnce() -> T, long: impl FnOnce(Duration)) -> T {
    let began = Instant::now();
    let mark = MARK.get().filter(|(at, _)| began.saturating_duration_since(*at) <= MARK_AGE);
    let (_, before) = mark.unwrap_or_else(|| {
        let mark = (began, cpu_time());
        MARK.set(Some(mark));
        mark
    });
    let aside = ASIDE.get();
    let outcome = poll();
    if began.elapsed() >= LONG {
        long(cpu_time().saturating_sub(before).saturating_sub(ASIDE.get() - aside));
    }
    outcome
}

/// Runs work that delays no other task of the thread.
pub(crate) fn left_out<T>(work: impl FnOnce() -> T) -> T {
    let before = cpu_time();
    let outcome = work();
    ASIDE.set(ASIDE.get() + cpu_time().saturating_sub(before));
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burn(time: Duration) {
        let before = cpu_time();
        while cpu_time() - before < time {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn long_polls_are_measured_without_what_was_done_aside() {
        let measured = Cell::new(None);
        let poll = |work: &dyn Fn()| {
            measured.set(None);
            timed(work, |time| measured.set(Some(time)));
            measured.get()
        };
        let long = poll(&|| burn(LONG * 5)).expect("a long poll");
        assert!(long >= LONG * 5, "{long:?}");
        // Whatever else this thread did, it is not more than 2 ms before the poll.
        let aside = poll(&|| left_out(|| burn(LONG * 20))).expect("it took long");
        assert!(aside < LONG * 20, "{aside:?}");
        // A thread that waits for its turn uses no CPU time.
        let waiting = poll(&|| std::thread::sleep(LONG * 20)).expect("it took long");
        assert!(waiting < LONG * 20, "{waiting:?}");
    }
}
