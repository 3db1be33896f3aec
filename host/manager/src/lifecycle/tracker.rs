//! [`StateTracker`]: shares the [`LifecycleState`] of a plugin between its tasks, and wakes those that wait for a change.
//!
//! Invariants: `state` is the only truth; `has_faults` repeats one bit of it, so that the answer to a call costs one load of
//! an atomic, and `stopping` is cancelled right before the state becomes `Draining`. The lock is held for a few
//! instructions, and never across an `await`.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::lifecycle::quarantine::Quarantined;
use crate::lifecycle::state::{LifecycleState, StateView};

/// The state of a plugin, shared by its tasks.
#[derive(Default)]
pub(crate) struct StateTracker {
    state: Mutex<LifecycleState>,
    has_faults: AtomicBool,
    /// Wakes pauses of a quarantine and waits for the first load.
    changed: Notify,
    stopping: CancellationToken,
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
        self.has_faults.store(state.quarantine().has_faults(), Relaxed);
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
        self.stopping.cancel();
        self.update(LifecycleState::retired);
    }

    /// A call was answered.
    pub(crate) fn record_answer(&self) {
        // Read first: workers share the cache line, and nearly always there is nothing to reset.
        if self.has_faults.load(Relaxed) {
            self.update_quietly(LifecycleState::record_answer);
        }
    }

    /// A call faulted; a quarantine begins after many faults in a row.
    pub(crate) fn record_fault(&self, error: String) -> Option<Quarantined> {
        self.update_quietly(|state| state.record_fault(error, Instant::now()))
    }

    /// Waits for the end of a quarantine. A new generation ends it at once, and so does the end of the plugin.
    pub(crate) async fn quarantine_pause(&self) {
        if !self.has_faults.load(Relaxed) {
            return;
        }
        loop {
            let changed = self.changed.notified();
            let Some(end) = self.state.lock().quarantine().ends_at(Instant::now()) else { return };
            tokio::select! {
                () = tokio::time::sleep_until(end) => {}
                () = changed => {}
                () = self.stopping.cancelled() => return,
            }
        }
    }

    /// Waits for the first generation, for the failure of its load, or for the removal of the plugin.
    pub(crate) async fn first_load_over(&self) {
        loop {
            let changed = self.changed.notified();
            if self.state.lock().is_first_load_over() {
                return;
            }
            changed.await;
        }
    }

    /// Cancelled when the plugin is to run no more calls.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// The state as `/plugins` shows it.
    pub(crate) fn view(&self) -> StateView {
        self.state.lock().view(Instant::now())
    }
}
