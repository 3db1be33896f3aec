//! A thread of the executor: takes the next task, polls it once, and charges its group the CPU time of the thread.
//!
//! The thread's CPU clock is read once per poll, at its end: the next poll begins there, unless the thread slept in between.
//! So a group also pays for taking its task.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use async_task::Runnable;
#[cfg(not(feature = "shuttle"))]
use rustix::time::{ClockId, clock_gettime};

use crate::executor::{Next, Polled, Shared};
use crate::fair_queue::{GroupId, Nanos};
use crate::slice;

/// Why a thread polls no more tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The executor is closed.
    Closed,
    /// There was no task for a while.
    Idle,
}

/// Starts a thread that runs `body`, and starts its own successor when it ends for want of tasks.
pub(crate) fn start<B>(name: Arc<str>, shared: Arc<Shared>, body: B) -> io::Result<()>
where
    B: Fn(&Shared) -> Ended + Clone + Send + 'static,
{
    spawn(&Arc::clone(&name), move || {
        while body(&shared) == Ended::Idle {
            if start(Arc::clone(&name), Arc::clone(&shared), body.clone()).is_ok() {
                return;
            }
            // The system starts no thread: this one goes on.
        }
    })
}

/// Polls tasks until the executor is closed, or none came for `idle` after the last one. A thread that has polled none waits for
/// as long as it takes: its end would give nothing back.
pub(crate) fn run(shared: &Shared, idle: Duration) -> Ended {
    let mut began = cpu_clock();
    let mut last = None;
    let mut limit = None;
    loop {
        match shared.next(last.take(), limit) {
            Next::Task { group, runnable, has_slept } => {
                if has_slept {
                    began = cpu_clock();
                }
                last = Some(poll(group, runnable, &mut began));
                limit = Some(idle);
            }
            Next::Idle => return Ended::Idle,
            Next::Closed => return Ended::Closed,
        }
    }
}

/// Polls a task once. A panic ends that task only: `async-task` drops its future.
pub(crate) fn poll(group: GroupId, runnable: Runnable, began: &mut Nanos) -> Polled {
    slice::begin();
    let panicked = catch_unwind(AssertUnwindSafe(|| runnable.run())).is_err();
    let now = cpu_clock();
    let used = now.saturating_sub(std::mem::replace(began, now));
    Polled { group, used, panicked }
}

/// CPU time of this thread.
#[cfg(not(feature = "shuttle"))]
#[allow(clippy::cast_sign_loss, reason = "the clock counts from the start of the thread")]
pub(crate) fn cpu_clock() -> Nanos {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A clock that stands still: an explored test must be repeatable.
#[cfg(feature = "shuttle")]
pub(crate) fn cpu_clock() -> Nanos {
    0
}

#[cfg(not(feature = "shuttle"))]
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body).map(drop)
}

#[cfg(feature = "shuttle")]
pub(crate) fn spawn(_: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    shuttle::thread::spawn(body);
    Ok(())
}
