//! The CPU budget of a call: the CPU time of the thread that runs it, sampled at each epoch tick.
//!
//! The epoch callback runs once per tick while guest code runs. It charges the CPU time that the thread used since the
//! slice began, then yields to the scheduler. A new slice begins when the guest is resumed, possibly on another thread.
//! The slice also ends whenever the future of a call is pending ([`Budget::metered`]): an import waits for the host, and
//! the guest may be resumed on another thread, whose CPU clock is not comparable. So waiting is not charged, and neither
//! is the time of other tasks and processes; the work of an import before and after its wait is.
//!
//! A part of that time is the host's, in imports; it is shown apart. Imports are many and short, so it is measured as elapsed
//! time from the entry of an import to its end, without the waits. Copying arguments and answers, and WASI, count as the
//! guest's: wasmtime's call hook would see these as well, and costs each call 6 % of its time.
//!
//! Reading a thread's CPU clock is a system call, so a call that ends within its first tick never reads it: its first
//! slice is charged the wall time since the call began. A longer first slice is compared with the CPU clock, because a
//! suspended machine must not be charged to the guest: each thread records its clock regularly ([`ClockMark`]), and no
//! slice is charged more than the thread has used since that record.

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
    /// The thread's CPU time when the slice began; `UNREAD` in the first slice of a call, `SUSPENDED` while no slice
    /// runs.
    slice: AtomicI64,
    /// Start of the call, relative to `origin`.
    began: AtomicI64,
    exceeded: AtomicBool,
    /// Time of the imports of the call.
    host: AtomicI64,
    /// When the running import began or was resumed, relative to `origin`; `IN_GUEST` while guest code runs, `SUSPENDED`
    /// while the import waits.
    import: AtomicI64,
}

/// Maximum age of a thread's mark when a call begins, and maximum length of a first slice that is charged by wall time
/// alone.
const MARK_AGE: Duration = TICK.saturating_mul(2);

const UNREAD: i64 = -1;
const SUSPENDED: i64 = -2;
const IN_GUEST: i64 = -3;

fn nanos(d: Duration) -> i64 {
    i64::try_from(d.as_nanos()).unwrap_or(i64::MAX)
}

fn thread_cpu() -> i64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

/// The error with which an import ends a call that has used up its budget; the fault names the limit.
pub(crate) fn used_up() -> wasmtime::Error {
    wasmtime::Error::msg("CPU budget")
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
            host: AtomicI64::new(0),
            import: AtomicI64::new(IN_GUEST),
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
        self.host.store(0, Relaxed);
        self.import.store(IN_GUEST, Relaxed);
    }

    /// The guest calls an import.
    pub(crate) fn import_begins(&self) {
        self.import.store(self.elapsed(), Relaxed);
    }

    /// The import returns to the guest.
    pub(crate) fn import_ends(&self) {
        self.charge_import(IN_GUEST);
    }

    fn charge_import(&self, next: i64) {
        let began = self.import.swap(next, Relaxed);
        if began >= 0 {
            self.host.fetch_add(self.elapsed() - began, Relaxed);
        }
    }

    /// The time of the imports of the last call so far.
    pub(crate) fn host_time(&self) -> Duration {
        Duration::from_nanos(self.host.load(Relaxed).max(0).unsigned_abs())
    }

    fn elapsed(&self) -> i64 {
        nanos(self.origin.elapsed())
    }

    /// The cost of the running slice until now. Must be called on the thread that runs the guest.
    fn cost(&self) -> i64 {
        match self.slice.load(Relaxed) {
            SUSPENDED => 0,
            UNREAD => {
                let passed = self.elapsed() - self.began.load(Relaxed);
                if passed <= nanos(MARK_AGE) { passed } else { passed.min(ClockMark::used_since()) }
            }
            start => (thread_cpu() - start).max(0),
        }
    }

    /// Charges the running slice and ends it.
    fn suspend(&self) {
        self.used.fetch_add(self.cost(), Relaxed);
        self.slice.store(SUSPENDED, Relaxed);
    }

    /// Runs the future of a call: begins a slice when the future is polled, and ends it when the future is pending.
    pub(crate) async fn metered<F: Future>(&self, call: F) -> F::Output {
        let mut call = pin!(call);
        std::future::poll_fn(|cx| {
            if self.slice.load(Relaxed) == SUSPENDED {
                self.slice.store(thread_cpu(), Relaxed);
            }
            if self.import.load(Relaxed) == SUSPENDED {
                self.import_begins();
            }
            let polled = call.as_mut().poll(cx);
            if polled.is_pending() {
                self.suspend();
                if self.import.load(Relaxed) != IN_GUEST {
                    self.charge_import(SUSPENDED);
                }
            }
            polled
        })
        .await
    }

    /// Whether the call is still within its budget. For imports whose work is a loop, since no tick comes meanwhile.
    pub(crate) fn has_left(&self) -> bool {
        let within = self.used.load(Relaxed) + self.cost() <= self.limit.load(Relaxed);
        self.exceeded.store(!within, Relaxed);
        within
    }

    /// [`has_left`](Self::has_left) as an error, with which the call ends.
    pub(crate) fn check(&self) -> wasmtime::Result<()> {
        if self.has_left() { Ok(()) } else { Err(used_up()) }
    }

    /// Called at each epoch tick while guest code runs: charges and ends the slice, since the guest yields then. Returns
    /// `false` when the budget is exceeded and the guest must be interrupted.
    pub(crate) fn tick(&self) -> bool {
        self.suspend();
        let within = self.used.load(Relaxed) <= self.limit.load(Relaxed);
        self.exceeded.store(!within, Relaxed);
        within
    }

    /// The CPU time charged to the last call so far.
    pub(crate) fn used(&self) -> Duration {
        Duration::from_nanos(self.used.load(Relaxed).max(0).unsigned_abs())
    }

    /// Whether the last call was interrupted because it exceeded its budget.
    pub(crate) fn exceeded(&self) -> bool {
        self.exceeded.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn burn(d: Duration) {
        let start = thread_cpu();
        while thread_cpu() - start < nanos(d) {
            std::hint::spin_loop();
        }
    }

    /// Polls once, as the runtime does.
    fn poll<F: Future>(call: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        call.poll(&mut Context::from_waker(Waker::noop()))
    }

    /// A call that waits once and then burns `after`.
    async fn wait_once_and_burn(after: Duration) {
        let mut waited = false;
        std::future::poll_fn(|_| {
            if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        burn(after);
    }

    #[test]
    fn waiting_is_not_charged_and_running_is() {
        for (after, within) in [(Duration::ZERO, true), (Duration::from_millis(60), false)] {
            let budget = Budget::new();
            budget.begin(Instant::now(), Duration::from_millis(40));
            let mut call = pin!(budget.metered(wait_once_and_burn(after)));
            assert!(poll(call.as_mut()).is_pending());
            burn(Duration::from_millis(60));
            assert!(poll(call).is_ready());
            assert_eq!(budget.has_left(), within);
            assert_eq!(budget.tick(), within);
            assert_eq!(budget.exceeded(), !within);
        }
    }

    #[test]
    fn the_time_of_imports_is_counted_apart_and_their_waits_are_not() {
        let budget = Budget::new();
        budget.begin(Instant::now(), Duration::from_secs(10));
        let own = Arc::clone(&budget);
        let mut call = pin!(budget.metered(async move {
            burn(Duration::from_millis(40));
            own.import_begins();
            wait_once_and_burn(Duration::from_millis(5)).await;
            own.import_ends();
            burn(Duration::from_millis(40));
        }));
        assert!(poll(call.as_mut()).is_pending());
        let before = budget.host_time();
        burn(Duration::from_millis(40));
        assert_eq!(budget.host_time(), before, "a wait was counted");
        let began = Instant::now();
        assert!(poll(call).is_ready());
        let (host, took) = (budget.host_time() - before, began.elapsed());
        assert!(host >= Duration::from_millis(5), "{host:?}");
        assert!(host <= took.saturating_sub(Duration::from_millis(40)), "{host:?} of {took:?}");
        budget.begin(Instant::now(), Duration::from_secs(10));
        assert_eq!(budget.host_time(), Duration::ZERO);
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
