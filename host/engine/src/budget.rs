//! The CPU budget of a call: time that the guest's own code ran, sampled at each epoch tick.
//!
//! The epoch callback fires once per tick while guest code runs. It charges what the thread's CPU clock says was used
//! since the slice began, then yields to the scheduler, and a new slice begins when the guest is resumed, perhaps on
//! another thread. An import that waits for the host ends the slice before and begins one after, so waiting is free,
//! and neither time taken by other tasks nor by other processes is charged to the guest.
//!
//! The clock of a thread costs a system call, so a call that ends within its first tick never reads it: the first slice costs
//! the wall time since the call began. Only one that lasted longer is held against the clock, since a machine that stood
//! still for a while is not the guest's doing: each thread reads its clock now and then ([`Mark`]), and no slice costs more than
//! the thread has used since.
//!
//! Imports of WASI wait as well, in code that is not ours: whenever a call's future has nothing to do, the slice ends too
//! ([`Budget::metered`]). Nothing else would be right, since the guest may be resumed on another thread with a clock of its own.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::engine::TICK;

/// Shared between the epoch callback, the imports and the caller of one instance.
#[derive(Debug)]
pub(crate) struct Budget {
    origin: Instant,
    limit: AtomicI64,
    used: AtomicI64,
    /// Thread CPU time at which the slice began; `UNREAD` in a call's first slice, `WAITING` while the host works, `SUSPENDED`
    /// while the call's future waits in an import that does not end the slice itself.
    slice: AtomicI64,
    /// When the call began, since `origin`.
    began: AtomicI64,
    exceeded: AtomicBool,
}

/// How old a thread's mark may be when a call begins, and how long a first slice may last unquestioned.
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

/// When a thread last read its CPU clock, and what that said.
#[derive(Clone, Copy)]
struct Mark {
    at: Instant,
    cpu: i64,
}

thread_local! {
    static MARK: Cell<Option<Mark>> = const { Cell::new(None) };
}

impl Mark {
    /// Reads the clock, unless that was done a moment ago.
    fn renew(now: Instant) {
        let recent = |mark: Mark| now.saturating_duration_since(mark.at) <= MARK_AGE;
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

    /// A call begins at `now`, on this thread.
    pub(crate) fn begin(&self, now: Instant, limit: Duration) {
        Mark::renew(now);
        self.limit.store(nanos(limit), Relaxed);
        self.used.store(0, Relaxed);
        self.slice.store(UNREAD, Relaxed);
        self.began.store(nanos(now.saturating_duration_since(self.origin)), Relaxed);
        self.exceeded.store(false, Relaxed);
    }

    /// Charges the running slice. Called on the thread that runs the guest.
    fn charge(&self) {
        let slice = self.slice.load(Relaxed);
        let cost = match slice {
            WAITING | SUSPENDED => 0,
            UNREAD => {
                let passed = nanos(self.origin.elapsed()) - self.began.load(Relaxed);
                if passed <= nanos(MARK_AGE) { passed } else { passed.min(Mark::used_since()) }
            }
            start => thread_cpu() - start,
        };
        self.used.fetch_add(cost.max(0), Relaxed);
    }

    /// The guest is resumed on this thread.
    pub(crate) fn resume(&self) {
        self.slice.store(thread_cpu(), Relaxed);
    }

    /// The guest waits for the host from here until [`resume`](Self::resume).
    pub(crate) fn wait(&self) {
        self.charge();
        self.slice.store(WAITING, Relaxed);
    }

    /// Runs a call, which is not charged while it waits for something.
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

    /// A tick passed while guest code runs: whether the guest may go on.
    pub(crate) fn tick(&self) -> bool {
        self.charge();
        self.slice.store(WAITING, Relaxed);
        let within = self.used.load(Relaxed) <= self.limit.load(Relaxed);
        self.exceeded.store(!within, Relaxed);
        within
    }

    /// Whether the last call was stopped for its CPU use.
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
        // The call began long ago and has not ticked since, as after a suspended process went on.
        let began = Instant::now().checked_sub(Duration::from_secs(5)).expect("the clock began before");
        let budget = Budget { origin: began, ..Arc::into_inner(Budget::new()).unwrap() };
        budget.begin(began, Duration::from_secs(1));
        assert!(budget.tick(), "five seconds of standing still were charged");
        // Nothing ticks while an import works.
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
