//! The CPU budget of a call: the CPU time of the thread that runs it, sampled at each epoch tick.
//!
//! The epoch callback runs once per tick while guest code runs. It charges the CPU time that the thread used since the
//! slice began, then yields to the scheduler. A new slice begins when the guest is resumed, possibly on another thread.
//! An import that waits for the host ends the slice before and begins one after the wait. So waiting is not charged,
//! and neither is the time of other tasks and processes.
//!
//! Reading a thread's CPU clock is a system call, so a call that ends within its first tick never reads it: its first
//! slice is charged the wall time since the call began. A longer first slice is compared with the CPU clock, because a
//! suspended machine must not be charged to the guest: each thread records its clock regularly ([`ClockMark`]), and no
//! slice is charged more than the thread has used since that record.
//!
//! Imports of WASI wait inside wasmtime's code. Therefore the slice also ends whenever the future of a call is pending
//! ([`Budget::metered`]); the guest may be resumed on another thread, whose CPU clock is not comparable.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::engine::TICK;

/// The budget of one instance; the epoch callback, the imports and the caller share it. Times are in nanoseconds.
#[derive(Debug)]
pub(crate) struct Budget {
    origin: Instant,
    limit: AtomicI64,
    used: AtomicI64,
    /// The thread's CPU time when the slice began; `UNREAD` in the first slice of a call, `WAITING` between
    /// [`wait`](Self::wait) and [`resume`](Self::resume), `SUSPENDED` while the future of the call is pending
    /// otherwise.
    slice: AtomicI64,
    /// Start of the call, relative to `origin`.
    began: AtomicI64,
    exceeded: AtomicBool,
}

/// Maximum age of a thread's mark when a call begins, and maximum length of a first slice that is charged by wall time
/// alone.
const MARK_AGE: Duration = TICK.saturating_mul(2);

const UNREAD: i64 = -1;
const WAITING: i64 = -2;
const SUSPENDED: i64 = -3;

fn nanos(d: Duration) -> i64 {
    i64::try_from(d.as_nanos()).unwrap_or(i64::MAX)
}

fn thread_cpu() -> i64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

/// The last reading of a thread's CPU clock, with its wall time.
#[derive(Clone, Copy)]
struct ClockMark {
    at: Instant,
    cpu: i64,
}

thread_local! {
    static MARK: Cell<Option<ClockMark>> = const { Cell::new(None) };
}

impl ClockMark {
    /// Reads the CPU clock of this thread, unless the mark is at most [`MARK_AGE`] old.
    fn renew(now: Instant) {
        let recent = |mark: ClockMark| now.saturating_duration_since(mark.at) <= MARK_AGE;
        if !MARK.get().is_some_and(recent) {
            MARK.set(Some(Self { at: now, cpu: thread_cpu() }));
        }
    }

    /// CPU time of this thread since the mark.
    fn used_since() -> i64 {
        MARK.get().map_or(i64::MAX, |mark| thread_cpu() - mark.cpu)
    }
}

impl Budget {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            origin: Instant::now(),
            limit: AtomicI64::new(i64::MAX),
            used: AtomicI64::new(0),
            slice: AtomicI64::new(UNREAD),
            began: AtomicI64::new(0),
            exceeded: AtomicBool::new(false),
        })
    }

    /// Starts a call at `now` on this thread, with a budget of `limit`.
    pub(crate) fn begin(&self, now: Instant, limit: Duration) {
        ClockMark::renew(now);
        self.limit.store(nanos(limit), Relaxed);
        self.used.store(0, Relaxed);
        self.slice.store(UNREAD, Relaxed);
        self.began.store(nanos(now.saturating_duration_since(self.origin)), Relaxed);
        self.exceeded.store(false, Relaxed);
    }

    /// Charges the running slice. Must be called on the thread that runs the guest.
    fn charge(&self) {
        let slice = self.slice.load(Relaxed);
        let cost = match slice {
            WAITING | SUSPENDED => 0,
            UNREAD => {
                let passed = nanos(self.origin.elapsed()) - self.began.load(Relaxed);
                if passed <= nanos(MARK_AGE) { passed } else { passed.min(ClockMark::used_since()) }
            }
            start => thread_cpu() - start,
        };
        self.used.fetch_add(cost.max(0), Relaxed);
    }

    /// Begins a slice: the guest is resumed on this thread.
    pub(crate) fn resume(&self) {
        self.slice.store(thread_cpu(), Relaxed);
    }

    /// Ends the slice: nothing is charged until [`resume`](Self::resume).
    pub(crate) fn wait(&self) {
        self.charge();
        self.slice.store(WAITING, Relaxed);
    }

    /// Runs the future of a call and ends the slice whenever the future is pending.
    pub(crate) async fn metered<F: Future>(self: Arc<Self>, call: F) -> F::Output {
        let mut call = pin!(call);
        std::future::poll_fn(|cx| {
            if self.slice.load(Relaxed) == SUSPENDED {
                self.resume();
            }
            let polled = call.as_mut().poll(cx);
            if polled.is_pending() && self.slice.load(Relaxed) != WAITING {
                self.charge();
                self.slice.store(SUSPENDED, Relaxed);
            }
            polled
        })
        .await
    }

    /// Called at each epoch tick while guest code runs: charges and ends the slice. Returns `false` when the budget is
    /// exceeded and the guest must be interrupted.
    pub(crate) fn tick(&self) -> bool {
        self.charge();
        self.slice.store(WAITING, Relaxed);
        let within = self.used.load(Relaxed) <= self.limit.load(Relaxed);
        self.exceeded.store(!within, Relaxed);
        within
    }

    /// Whether the last call was interrupted because it exceeded its budget.
    pub(crate) fn exceeded(&self) -> bool {
        self.exceeded.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burn(d: Duration) {
        let start = thread_cpu();
        while thread_cpu() - start < nanos(d) {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn waiting_is_not_charged_and_running_is() {
        let budget = Budget::new();
        budget.begin(Instant::now(), Duration::from_millis(40));
        budget.wait();
        burn(Duration::from_millis(60));
        budget.resume();
        assert!(budget.tick(), "what the host burnt was charged");
        budget.resume();
        burn(Duration::from_millis(60));
        assert!(!budget.tick());
        assert!(budget.exceeded());
    }

    #[test]
    fn a_machine_that_stood_still_is_not_charged_and_work_is() {
        // The call began long ago and had no tick since, as after the process was suspended.
        let began = Instant::now().checked_sub(Duration::from_secs(5)).expect("the clock began before");
        let budget = Budget { origin: began, ..Arc::into_inner(Budget::new()).unwrap() };
        budget.begin(began, Duration::from_secs(1));
        assert!(budget.tick(), "five seconds of standing still were charged");
        // No tick occurs while an import runs.
        budget.begin(Instant::now(), MARK_AGE * 2);
        burn(MARK_AGE * 3);
        assert!(!budget.tick(), "work in the first slice was not charged");
    }

    #[test]
    fn a_new_call_begins_with_a_full_budget() {
        let budget = Budget::new();
        budget.begin(Instant::now(), Duration::from_millis(1));
        burn(Duration::from_millis(3));
        assert!(!budget.tick());
        budget.begin(Instant::now(), Duration::from_secs(1));
        assert!(budget.tick());
    }
}
