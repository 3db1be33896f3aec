//! [`Executor`], its [`Group`]s, and the mutex around the queue of ready tasks.
//!
//! Invariants:
//! - no task is dropped and no waker is called under the mutex: both run foreign code, which may schedule tasks;
//! - while a task can be taken and a thread sleeps, a thread has been notified that has not looked since (`notified`); so no
//!   task waits for a thread without need;
//! - a thread that ends because it had nothing to poll has started its successor.
//!
//! An allocator keeps freed memory for the thread that asked for it, and looks at what other threads have freed when that thread
//! asks again. An idle thread does not, so it would keep what a burst of tasks has left. The end of a thread gives all of it
//! back.
//!
//! `schedule` is called by wakers on any thread, `next` by the executor's own threads (`thread`) or its task (`driver`).

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_task::Runnable;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::fair_queue::{FairQueue, GroupId, Nanos};
use crate::join_handle::JoinHandle;
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::thread::Ended;
use crate::{driver, thread};

/// Time without a task after which a thread ends, and another takes its place: short beside the pauses of an idle host, and long
/// beside the 50 µs that a new thread costs.
const IDLE: Duration = Duration::from_secs(5);

/// Runs tasks of groups; a cheap handle.
#[derive(Clone)]
pub struct Executor {
    shared: Arc<Shared>,
}

/// The threads of an executor. They end when this is dropped, each after the poll that it is in; tasks that are not over are
/// dropped when they are woken.
#[derive(Debug)]
#[must_use]
pub struct Threads {
    executor: Executor,
}

/// Tasks that share what their group gets. A clone is of the same group.
#[derive(Clone)]
pub struct Group {
    member: Arc<Member>,
}

/// What the handles, the threads and the wakers share.
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) sleep: Sleep,
}

/// How those wait who poll tasks.
pub(crate) enum Sleep {
    /// Threads, on a condition variable.
    Threads(Condvar),
    /// One task of a tokio runtime.
    Task(Notify),
}

struct State {
    queue: FairQueue<Runnable>,
    /// Threads that wait.
    sleeping: usize,
    /// Notifications that no thread has woken up for yet.
    notified: usize,
    is_closed: bool,
}

/// Removes the group when the last handle and the last task are gone.
struct Member {
    shared: Arc<Shared>,
    id: GroupId,
}

impl Executor {
    /// Starts `threads` threads with this name. The runtime's handle is entered on each, so tasks may use tokio's timers,
    /// sockets and `spawn_blocking`, which that runtime drives.
    ///
    /// One group has at most `threads - 1` tasks polled at once, if there are two or more threads.
    ///
    /// # Errors
    /// When the system starts no more threads.
    pub fn start(name: &str, threads: NonZeroUsize, runtime: &Handle) -> std::io::Result<(Self, Threads)> {
        let runtime = runtime.clone();
        Self::launch(name, threads, move |shared| {
            let _runtime = runtime.enter();
            thread::run(shared, IDLE)
        })
    }

    /// Threads whose interleavings a test explores; without a tokio runtime.
    #[cfg(feature = "shuttle")]
    #[must_use]
    pub fn start_explored(threads: NonZeroUsize) -> (Self, Threads) {
        Self::launch("", threads, |shared| thread::run(shared, IDLE)).unwrap()
    }

    fn launch<B>(name: &str, threads: NonZeroUsize, body: B) -> std::io::Result<(Self, Threads)>
    where
        B: Fn(&Shared) -> Ended + Clone + Send + 'static,
    {
        let executor = Self::new(threads.get() - 1, Sleep::Threads(Condvar::default()));
        let guard = Threads { executor: executor.clone() };
        for _ in 0..threads.get() {
            thread::start(name.into(), Arc::clone(&executor.shared), body.clone())?;
        }
        Ok((executor, guard))
    }

    /// An executor without threads: one task of the current tokio runtime polls. For tests, which may pause tokio's clock.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn on_current_runtime() -> Self {
        let executor = Self::new(1, Sleep::Task(Notify::new()));
        tokio::spawn(driver::run(Arc::clone(&executor.shared)));
        executor
    }

    fn new(limit: usize, sleep: Sleep) -> Self {
        let state = State { queue: FairQueue::new(limit), sleeping: 0, notified: 0, is_closed: false };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), sleep }) }
    }

    /// Adds a group.
    #[must_use]
    pub fn group(&self) -> Group {
        let id = self.shared.state.lock().queue.add_group();
        Group { member: Arc::new(Member { shared: Arc::clone(&self.shared), id }) }
    }
}

impl Group {
    /// Starts a task. It goes on when the handle is dropped.
    ///
    /// A panic ends the task alone: its future is dropped, and its handle answers `None`.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let member = Arc::clone(&self.member);
        let (runnable, task) =
            async_task::spawn(future, move |runnable| member.shared.schedule(member.id, runnable));
        runnable.schedule();
        JoinHandle::new(task)
    }

    /// Gives the group another weight than 100: of two groups that always have tasks, one of twice the weight gets twice the
    /// CPU time.
    pub fn set_weight(&self, weight: u32) {
        self.member.shared.state.lock().queue.set_weight(self.member.id, weight);
    }

    /// CPU time of all polls of its tasks.
    #[must_use]
    pub fn cpu_time(&self) -> Duration {
        Duration::from_nanos(self.member.shared.state.lock().queue.used(self.member.id))
    }

    /// Number of tasks that a panic ended.
    #[must_use]
    pub fn panics(&self) -> u64 {
        self.member.shared.state.lock().queue.panics(self.member.id)
    }
}

impl Shared {
    /// Adds a task that was woken.
    fn schedule(&self, id: GroupId, runnable: Runnable) {
        let mut state = self.state.lock();
        if state.is_closed {
            drop(state);
            drop(runnable);
            return;
        }
        state.queue.push(id, runnable);
        self.notify(state);
    }

    /// Wakes a thread if there is a task for one more; unlocks.
    fn notify(&self, mut state: MutexGuard<'_, State>) {
        let is_wanted = state.wants_thread();
        state.notified += usize::from(is_wanted);
        drop(state);
        match &self.sleep {
            Sleep::Threads(condvar) if is_wanted => condvar.notify_one(),
            Sleep::Threads(_) => {}
            Sleep::Task(notify) => notify.notify_one(),
        }
    }

    /// Takes the next task, if any.
    pub(crate) fn try_next(&self) -> Option<(GroupId, Runnable)> {
        self.state.lock().queue.take()
    }

    /// Waits for the next task, for `idle` at most. `last` is the task before, with its charge.
    pub(crate) fn next(&self, last: Option<Polled>, idle: Option<Duration>) -> Next {
        let Sleep::Threads(condvar) = &self.sleep else { return Next::Closed };
        let mut state = self.state.lock();
        if let Some(last) = last {
            state.charge(last);
        }
        let mut has_slept = false;
        loop {
            if state.is_closed {
                return Next::Closed;
            }
            if let Some((group, runnable)) = state.queue.take() {
                self.notify(state);
                return Next::Task { group, runnable, has_slept };
            }
            has_slept = true;
            let mut is_idle = false;
            state.sleeping += 1;
            while state.notified == 0 && !state.is_closed && !is_idle {
                (state, is_idle) = condvar.wait(state, idle);
            }
            state.sleeping -= 1;
            if state.notified > 0 {
                state.notified -= 1;
            } else if is_idle && !state.is_closed {
                return Next::Idle;
            }
        }
    }

    /// Charges a task that was taken by [`try_next`](Self::try_next).
    pub(crate) fn charge(&self, polled: Polled) {
        self.state.lock().charge(polled);
    }

    fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let tasks = state.queue.drain();
        drop(state);
        if let Sleep::Threads(condvar) = &self.sleep {
            condvar.notify_all();
        }
        drop(tasks);
    }
}

/// A poll that is over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Polled {
    pub(crate) group: GroupId,
    pub(crate) used: Nanos,
    pub(crate) panicked: bool,
}

/// What a thread does next.
pub(crate) enum Next {
    /// Polls this task.
    Task { group: GroupId, runnable: Runnable, has_slept: bool },
    /// Ends, since there was nothing to poll.
    Idle,
    /// Ends with the executor.
    Closed,
}

impl State {
    fn charge(&mut self, Polled { group, used, panicked }: Polled) {
        self.queue.charge(group, used, panicked);
    }

    /// Whether a thread sleeps, is not notified yet, and would find a task.
    fn wants_thread(&self) -> bool {
        self.sleeping > self.notified && self.queue.eligible() > self.notified
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // A task holds its member, so none is ready.
        let ready = self.shared.state.lock().queue.remove_group(self.id);
        drop(ready);
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.executor.shared.close();
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").finish_non_exhaustive()
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("id", &self.member.id).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
