//! [`Timekeeper`]: keeps the time for many queues whose keys no worker waits for.
//!
//! Without it, a worker that sleeps in `get` keeps the time of its queue. A queue with a timekeeper needs no such worker:
//! one task brings the delayed keys of all queues to readiness, and the hook of a queue starts a worker when there is a key.
//!
//! Invariants:
//! - a queue has one alarm at most: its next deadline, or an earlier moment;
//! - the mutexes of a queue and of the timekeeper are never held together;
//! - a panic at the deadline of one queue ends neither the timekeeper nor that queue.
//!
//! `set` and `leave` are called by queues (`shared`), `run` by the owner.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep_until;

use crate::clock::{Clock, Nanos, deadline};
use crate::shared::Shared;
use crate::state::State;
use crate::sync::Mutex;
use crate::{Merge, Queue, QueueBuilder};

/// Keeps the time for queues that are made with [`QueueBuilder::build_with_hook`]; a cheap handle.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use pilothouse_workqueue::{Priority, Queue, Timekeeper};
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let timekeeper = Timekeeper::new();
/// tokio::spawn({ let timekeeper = timekeeper.clone(); async move { timekeeper.run().await } });
/// let ready = Arc::new(tokio::sync::Notify::new());
/// let ring = Arc::clone(&ready);
/// let queue: Queue<&str> = Queue::builder().build_with_hook(&timekeeper, move || ring.notify_one());
/// queue.add_after("default/web", (), Priority::NORMAL, Duration::from_millis(1));
/// // No worker waits in `get`; a real hook would start one.
/// ready.notified().await;
/// assert_eq!(queue.try_get().map(|item| item.key), Some("default/web"));
/// # }
/// ```
#[derive(Clone)]
pub struct Timekeeper {
    alarms: Arc<Alarms>,
}

/// The alarms of all queues.
pub(crate) struct Alarms {
    clock: Clock,
    state: Mutex<AlarmState>,
    /// The earliest alarm changed.
    changed: Notify,
}

#[derive(Default)]
struct AlarmState {
    members: Vec<Member>,
    /// Members of queues that are gone.
    free: Vec<u32>,
    /// When to look at which member, the earliest first.
    alarms: BTreeSet<(Nanos, u32)>,
}

/// A queue, and its entry in `alarms`.
#[derive(Default)]
struct Member {
    queue: Option<Weak<dyn Timed>>,
    alarm: Option<Nanos>,
}

/// How long a queue whose alarm panicked is left alone.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// What a queue calls. A closure is a hook that only wants to know of ready keys.
pub trait QueueHook: Send + Sync + 'static {
    /// A key is ready, and no worker waits in [`Queue::get`]. The queue is not locked.
    fn ready(&self);

    /// Foreign code that runs at a deadline of the queue panicked in the task of the timekeeper, which goes on.
    fn panicked(&self, _panic: &(dyn Any + Send)) {}
}

impl<F: Fn() + Send + Sync + 'static> QueueHook for F {
    fn ready(&self) {
        self();
    }
}

/// A queue, as the timekeeper knows it.
trait Timed: Send + Sync {
    /// A deadline has come: makes a portion of the due keys ready, and sets the next alarm.
    fn alarm(&self);

    /// The alarm panicked: sets another one, and reports it.
    fn panicked(&self, panic: &(dyn Any + Send));
}

impl<K, M> Timed for Shared<K, M>
where
    K: Clone + Eq + Hash + Send,
    M: Merge + Send,
{
    fn alarm(&self) {
        self.locked(State::alarm);
    }

    fn panicked(&self, panic: &(dyn Any + Send)) {
        let Some(hook) = self.hook() else { return };
        hook.set_alarm(deadline(self.clock.now(), AFTER_PANIC));
        hook.hook.panicked(panic);
    }
}

/// A hook of a queue: what the queue calls after it unlocked.
pub(crate) struct Hook {
    hook: Box<dyn QueueHook>,
    alarms: Arc<Alarms>,
    member: u32,
}

/// What the timekeeper does next.
enum Step {
    Alarm(Arc<dyn Timed>),
    /// The queue is gone.
    Again,
    Sleep(Option<Nanos>),
}

impl Default for Timekeeper {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Timekeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.alarms.state.lock();
        f.debug_struct("Timekeeper")
            .field("queues", &(state.members.len() - state.free.len()))
            .field("alarms", &state.alarms.len())
            .finish()
    }
}

impl Timekeeper {
    /// A timekeeper without queues.
    #[must_use]
    pub fn new() -> Self {
        let alarms = Alarms {
            clock: Clock::start(),
            state: Mutex::new(AlarmState::default()),
            changed: Notify::new(),
        };
        Self { alarms: Arc::new(alarms) }
    }

    /// Keeps the time; to be run by one task, which ends when it is dropped. Of keys that come due together it makes 1,024 of
    /// one queue ready, and then lets other tasks run.
    pub async fn run(&self) {
        loop {
            // A change from here on ends the wait below.
            let changed = self.alarms.changed.notified();
            match self.alarms.step() {
                Step::Alarm(queue) => {
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| queue.alarm())) {
                        // One that panics as well has nobody to report to.
                        let _ = catch_unwind(AssertUnwindSafe(|| queue.panicked(&*panic)));
                    }
                    tokio::task::yield_now().await;
                }
                Step::Again => {}
                Step::Sleep(None) => changed.await,
                Step::Sleep(Some(at)) => tokio::select! {
                    () = changed => {}
                    () = sleep_until(self.alarms.clock.instant(at)) => {}
                },
            }
        }
    }
}

impl Hook {
    /// The queue has a ready key, and no worker waits in `get`.
    pub(crate) fn ready(&self) {
        self.hook.ready();
    }

    /// The queue must be looked at no later than `at`.
    pub(crate) fn set_alarm(&self, at: Nanos) {
        let mut state = self.alarms.state.lock();
        let alarm = &mut state.members[self.member as usize].alarm;
        // Two threads may come here in another order than they left the queue.
        if alarm.is_some_and(|before| before <= at) {
            return;
        }
        if let Some(before) = alarm.replace(at) {
            state.alarms.remove(&(before, self.member));
        }
        state.alarms.insert((at, self.member));
        let is_first = state.alarms.first() == Some(&(at, self.member));
        drop(state);
        if is_first {
            self.alarms.changed.notify_one();
        }
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        let mut state = self.alarms.state.lock();
        let member = std::mem::take(&mut state.members[self.member as usize]);
        if let Some(at) = member.alarm {
            state.alarms.remove(&(at, self.member));
        }
        state.free.push(self.member);
        if state.free.len() == state.members.len() {
            *state = AlarmState::default();
        }
    }
}

impl Alarms {
    fn step(&self) -> Step {
        let mut state = self.state.lock();
        let Some(&(at, member)) = state.alarms.first() else { return Step::Sleep(None) };
        if at > self.clock.now() {
            return Step::Sleep(Some(at));
        }
        state.alarms.pop_first();
        let member = &mut state.members[member as usize];
        member.alarm = None;
        member.queue.as_ref().and_then(Weak::upgrade).map_or(Step::Again, Step::Alarm)
    }

    #[allow(clippy::cast_possible_truncation, reason = "four billion queues do not fit in memory")]
    fn join(&self) -> u32 {
        let mut state = self.state.lock();
        state.free.pop().unwrap_or_else(|| {
            state.members.push(Member::default());
            state.members.len() as u32 - 1
        })
    }
}

impl<K, M> QueueBuilder<K, M>
where
    K: Clone + Eq + Hash + Send + 'static,
    M: Merge + Send + 'static,
{
    /// Makes a queue that calls its hook when a key becomes ready and no worker waits in [`Queue::get`], after the queue was
    /// unlocked. `timekeeper` makes its delayed keys ready.
    ///
    /// The hook usually starts a worker, which takes keys with [`Queue::try_get`] until there is none. A worker that gives
    /// keys back looks for the next one itself: [`Queue::done`] calls no hook. A worker that ends looks once more *after*
    /// it no longer counts as running; then no key is left without a worker.
    #[must_use]
    pub fn build_with_hook(self, timekeeper: &Timekeeper, hook: impl QueueHook) -> Queue<K, M> {
        let alarms = Arc::clone(&timekeeper.alarms);
        let member = alarms.join();
        let clock = alarms.clock;
        let hook = Hook { hook: Box::new(hook), alarms: Arc::clone(&alarms), member };
        let queue = self.make(clock, Some(hook));
        let timed: Weak<dyn Timed> = Arc::downgrade(&(Arc::clone(&queue.shared) as Arc<dyn Timed>));
        alarms.state.lock().members[member as usize].queue = Some(timed);
        queue
    }
}
