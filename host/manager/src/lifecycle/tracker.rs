//! [`StateTracker`]: shares the [`LifecycleState`] of a plugin between its tasks, and wakes those that wait for a change.
//!
//! Invariants: `state` is the only truth; `awaits_answer` repeats one bit of it, so that the answer to a call costs one load
//! of an atomic, and `stopping` is cancelled right before the state becomes `Draining`. `is_stopping` says the same as
//! `stopping`, whose own answer takes a lock. The lock of the state is held for a few instructions, and never across an `await`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use parking_lot::Mutex;
use pilothouse_object::ObjectKey;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::lifecycle::quarantine::{Admission, Quarantined};
use crate::lifecycle::rollback::Rollback;
use crate::lifecycle::state::{CallKind, Faults, LifecycleState, StateView};

/// The state of a plugin, shared by its tasks.
#[derive(Default)]
pub(crate) struct StateTracker {
    state: Mutex<LifecycleState>,
    awaits_answer: AtomicBool,
    /// Wakes pauses of a quarantine, waits for a state, and waits for a rollback.
    changed: Notify,
    stopping: CancellationToken,
    is_stopping: AtomicBool,
}

/// The permission for one call or one round of calls. Held until its outcome is recorded: the probe of a quarantine that
/// is dropped without an outcome, as with its task, is followed by another one.
#[must_use]
#[derive(Default)]
pub(crate) struct CallPermit(Option<Probe>);

struct Probe {
    tracker: Arc<StateTracker>,
    kind: CallKind,
    number: u64,
}

impl CallPermit {
    /// Whether this is the only call that a quarantine lets through: it is for one key.
    pub(crate) fn is_probe(&self) -> bool {
        self.0.is_some()
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let (kind, number) = (self.kind, self.number);
        self.tracker.update(|state| state.quarantine_mut(kind).end_probe(number, Instant::now()));
    }
}

impl StateTracker {
    /// Changes the state, and wakes the tasks that wait for a change.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut LifecycleState) -> R) -> R {
        let result = self.update_quietly(change);
        self.wake_waiters();
        result
    }

    /// Changes the state; the caller wakes the tasks that wait for a change later, or has no need to.
    pub(crate) fn update_quietly<R>(&self, change: impl FnOnce(&mut LifecycleState) -> R) -> R {
        let mut state = self.state.lock();
        let result = change(&mut state);
        self.awaits_answer.store(state.awaits_answer(), Relaxed);
        result
    }

    /// Wakes the tasks that wait for a change.
    pub(crate) fn wake_waiters(&self) {
        self.changed.notify_waiters();
    }

    /// Changes the state unless `cancelled`. A caller that cancels first and then changes the state is not overwritten.
    pub(crate) fn update_unless(
        &self,
        cancelled: &CancellationToken,
        change: impl FnOnce(&mut LifecycleState),
    ) {
        self.update(|state| {
            if !cancelled.is_cancelled() {
                change(state);
            }
        });
    }

    /// Changes the state of a plugin that is to run no more calls.
    pub(crate) fn retire(&self) {
        // First: a task that the token wakes finds it set.
        self.is_stopping.store(true, Release);
        self.stopping.cancel();
        self.update(LifecycleState::retired);
    }

    /// Calls for these keys were answered.
    pub(crate) fn record_answer<'a>(
        &self,
        kind: CallKind,
        generation: u64,
        keys: impl IntoIterator<Item = &'a ObjectKey>,
    ) {
        // Read first: workers share the cache line, and nearly always there is nothing to change.
        if self.awaits_answer.load(Relaxed) {
            self.update(|state| state.record_answer(kind, generation, keys, Instant::now()));
        }
    }

    /// A round of calls faulted; a quarantine begins after faults of several keys.
    pub(crate) fn record_faults(&self, faults: &Faults<'_>) -> Option<Quarantined> {
        self.update(|state| state.record_faults(faults, Instant::now()))
    }

    /// Waits until a call may begin: over the pause of an operator or of a quarantine, and over a probe that another call
    /// makes. A new generation ends both at once, but for the pause of an operator, and so does the end of the plugin. `before_wait` runs before each wait.
    pub(crate) async fn admit(self: &Arc<Self>, kind: CallKind, mut before_wait: impl FnMut()) -> CallPermit {
        loop {
            // A waiter from here on, so no change is missed.
            let changed = self.changed.notified();
            let admission = match self.awaits_answer.load(Relaxed) {
                true => self.state.lock().admit(kind, Instant::now()),
                false => Admission::Call,
            };
            match admission {
                Admission::Call => return CallPermit(None),
                Admission::Probe(number) => {
                    return CallPermit(Some(Probe { tracker: Arc::clone(self), kind, number }));
                }
                Admission::Wait(until) => {
                    before_wait();
                    if !self.wait(until, changed).await {
                        return CallPermit(None);
                    }
                }
            }
        }
    }

    /// Whether the last call for a key faulted.
    pub(crate) fn is_failing(&self, kind: CallKind, key: &ObjectKey) -> bool {
        self.state.lock().quarantine_mut(kind).is_failing(key)
    }

    /// Waits until [`admit`](Self::admit) would not wait. `before_wait` runs before each wait.
    pub(crate) async fn quarantine_over(&self, kind: CallKind, mut before_wait: impl FnMut()) {
        while self.awaits_answer.load(Relaxed) {
            let changed = self.changed.notified();
            let Some(until) = self.state.lock().blocked(kind, Instant::now()) else { return };
            before_wait();
            if !self.wait(until, changed).await {
                return;
            }
        }
    }

    /// Waits for a change or a time. `false` when the plugin ends.
    async fn wait(&self, until: Option<Instant>, changed: impl Future<Output = ()>) -> bool {
        let time = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = time => true,
            () = changed => true,
            () = self.stopping.cancelled() => false,
        }
    }

    /// Waits for a state.
    pub(crate) async fn wait_until(&self, holds: impl Fn(&LifecycleState) -> bool) {
        loop {
            let changed = self.changed.notified();
            if holds(&self.state.lock()) {
                return;
            }
            changed.await;
        }
    }

    /// Waits until a rollback is wanted, and takes it. Without one: none when no probation is under way, unless `for_ever`.
    /// Cancel-safe.
    pub(crate) async fn rollback_wanted(&self, for_ever: bool) -> Option<Rollback> {
        loop {
            let changed = self.changed.notified();
            {
                let mut state = self.state.lock();
                if let Some(rollback) = state.take_rollback() {
                    return Some(rollback);
                }
                if !for_ever && !state.is_on_probation() {
                    return None;
                }
            }
            changed.await;
        }
    }

    /// Whether an operator has paused the plugin.
    pub(crate) fn is_paused(&self) -> bool {
        self.state.lock().is_paused()
    }

    /// Whether the plugin is in quarantine.
    pub(crate) fn is_quarantined(&self) -> bool {
        self.state.lock().is_quarantined()
    }

    /// Cancelled when the plugin is to run no more calls.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Whether the plugin is to run no more calls.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Acquire)
    }

    /// The state as `/plugins` shows it.
    pub(crate) fn view(&self) -> StateView {
        self.state.lock().view(Instant::now())
    }
}
