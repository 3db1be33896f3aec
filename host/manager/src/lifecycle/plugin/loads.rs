//! What the loads of a plugin report: their steps and failures, for the state and for Events.

use tokio_util::sync::CancellationToken;

use super::Plugin;
use crate::lifecycle::config_sources::Unusable;
use crate::lifecycle::state::{LifecycleState, LoadWait};

impl Plugin {
    /// New files have come.
    pub(crate) fn files_came(&self) {
        self.state.update_quietly(LifecycleState::files_came);
    }

    /// A load of new files begins, in place of what was loaded of those before.
    pub(crate) fn load_started(&self) {
        self.state.update_quietly(LifecycleState::load_started);
    }

    /// A load was refused; the generation before, if any, goes on. Does nothing when `cancelled`, which means that newer files
    /// are loaded.
    pub(crate) fn load_failed(&self, error: &str, cancelled: &CancellationToken) {
        self.state.update_unless(cancelled, |state| {
            self.record_error(error);
            state.load_failed(error.to_owned());
            self.reporter.failed(error, state.generation());
        });
    }

    /// A load waits; none: it goes on.
    pub(crate) fn load_waits(&self, wait: Option<LoadWait>) {
        self.state.update(|state| state.load_waits(wait));
    }

    /// The files are refused; what is loaded or runs of those before goes on. Does nothing when `cancelled`, which means that
    /// newer files have come.
    pub(crate) fn files_refused(&self, error: &str, cancelled: &CancellationToken) {
        self.state.update_unless(cancelled, |state| {
            self.record_error(error);
            state.files_refused(error.to_owned());
            self.reporter.failed(error, state.generation());
        });
    }

    /// The files are not usable; the generation before, if any, goes on.
    pub(crate) fn files_failed(&self, error: &str) {
        self.record_error(error);
        let generation = self.state.update(|state| {
            state.files_failed(error.to_owned());
            state.generation()
        });
        self.reporter.failed(error, generation);
    }

    /// The configuration is not usable; the generation before, if any, goes on. Does nothing when `cancelled`, which means that
    /// the files have changed.
    pub(crate) fn config_failed(&self, error: &Unusable, cancelled: &CancellationToken) {
        self.state.update_unless(cancelled, |state| {
            self.record_error(&error.message);
            state.config_failed(error.message.clone(), error.waits);
            // Under the lock of the state: a load of the changed files reports after this.
            self.reporter.failed(&error.message, state.generation());
        });
    }

    /// The configuration is usable; with `loads` a load begins with it. Does nothing when `cancelled`.
    pub(crate) fn config_usable(&self, loads: bool, cancelled: &CancellationToken) {
        self.state.update_unless(cancelled, |state| state.config_usable(loads));
    }

    /// Waits for the first generation, for the failure of its load, or for the removal of the plugin.
    pub(crate) async fn first_load_over(&self) {
        self.state.wait_until(LifecycleState::is_first_load_over).await;
    }

    /// Waits for the first generation, or for the end of the plugin.
    pub(crate) async fn has_run_or_ends(&self) {
        self.state.wait_until(LifecycleState::has_run_or_ends).await;
    }
}
