//! [`LifecycleState`]: the state machine of one plugin's life.
//!
//! ```text
//!                load_started                     generation_started
//!  NotLoaded ───────────────────► Loading ─────────────────────────► Running ─┐ generation_started
//!      ▲                             │                                  ▲     │ (a reload)
//!      └─────────────────────────────┘                                  └─────┘
//!         load_failed, config_failed
//!
//!  each of them ── retired ──► Draining
//! ```
//!
//! Invariants: a plugin that runs goes on running when a reload fails, so `Running` is left for `Draining` alone; nothing
//! leaves `Draining`. Quarantine is a condition of `Running` with a policy of its own. Errors of files and of the
//! configuration stay until these are usable or the files change; they go before the last error of a load or a call.
//!
//! No lock, no clock and no task in this file; [`StateTracker`](super::tracker::StateTracker) shares it between tasks.

use tokio::time::Instant;

use crate::lifecycle::quarantine::{Quarantine, Quarantined};
use crate::observe::status::PluginState;

/// The state of one plugin.
#[derive(Debug, Default)]
pub(crate) struct LifecycleState {
    phase: Phase,
    quarantine: Quarantine,
    /// Why the files in the directory are not usable.
    file_error: Option<String>,
    /// Why the sources of `spec.configFrom` are not usable.
    config_error: Option<String>,
    /// The last error of a load or a call, or the reason why a load waits.
    last_error: Option<String>,
}

#[derive(Debug, Default)]
enum Phase {
    /// No generation, and no load under way: the plugin is new, or its load failed.
    #[default]
    NotLoaded,
    /// No generation yet; the first is being loaded.
    Loading,
    /// A generation is current; another one may be loading.
    Running { number: u64, digest: String },
    /// Removed; its last calls end.
    Draining { digest: String },
}

/// A state as `/plugins` shows it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StateView {
    pub(crate) state: PluginState,
    /// Number of the current generation; 0 without one.
    pub(crate) generation: u64,
    /// Digest of the last generation's component; empty before the first.
    pub(crate) digest: String,
    pub(crate) last_error: Option<String>,
}

impl LifecycleState {
    /// A load of new files begins.
    pub(crate) fn load_started(&mut self) {
        self.await_first_generation();
        self.file_error = None;
        self.config_error = None;
    }

    /// A load failed.
    pub(crate) fn load_failed(&mut self, error: String) {
        self.give_up_first_generation();
        self.last_error = Some(error);
    }

    /// The files are not usable; a load of the files before goes on.
    pub(crate) fn files_failed(&mut self, error: String) {
        self.file_error = Some(error);
    }

    /// The configuration is not usable. With `waits` it may become usable without a change of the files.
    pub(crate) fn config_failed(&mut self, error: String, waits: bool) {
        if !waits {
            self.give_up_first_generation();
        }
        self.config_error = Some(error);
    }

    /// The configuration is usable; with `loads` a load begins with it.
    pub(crate) fn config_usable(&mut self, loads: bool) {
        if loads {
            self.await_first_generation();
        }
        self.config_error = None;
    }

    /// Sets the reason why a load waits, or an error that changes nothing else; none removes it.
    pub(crate) fn set_error(&mut self, error: Option<String>) {
        self.last_error = error;
    }

    /// A generation is current from now on.
    pub(crate) fn generation_started(&mut self, number: u64, digest: &str) {
        if matches!(self.phase, Phase::Draining { .. }) {
            return;
        }
        self.phase = Phase::Running { number, digest: digest.to_owned() };
        self.last_error = None;
        self.quarantine.reset();
    }

    /// A call was answered, well or with a failure.
    pub(crate) fn record_answer(&mut self) {
        self.quarantine.reset();
    }

    /// A call faulted; a quarantine begins after many faults in a row.
    pub(crate) fn record_fault(&mut self, error: String, now: Instant) -> Option<Quarantined> {
        self.last_error = Some(error);
        self.quarantine.record_fault(now)
    }

    /// The plugin was removed, or the host shuts down.
    pub(crate) fn retired(&mut self) {
        let digest = match std::mem::take(&mut self.phase) {
            Phase::Running { digest, .. } | Phase::Draining { digest } => digest,
            Phase::NotLoaded | Phase::Loading => String::new(),
        };
        self.phase = Phase::Draining { digest };
    }

    /// Whether no more than the first load keeps the host from being ready: it is over, or it waits for a configuration,
    /// which may take long.
    pub(crate) fn is_first_load_over(&self) -> bool {
        self.config_error.is_some() || !matches!(self.phase, Phase::Loading)
    }

    /// Number of the current generation.
    pub(crate) fn generation(&self) -> Option<u64> {
        match self.phase {
            Phase::Running { number, .. } => Some(number),
            Phase::NotLoaded | Phase::Loading | Phase::Draining { .. } => None,
        }
    }

    /// The row of faults and the quarantine.
    pub(crate) fn quarantine(&self) -> &Quarantine {
        &self.quarantine
    }

    /// The state as `/plugins` shows it.
    pub(crate) fn view(&self, now: Instant) -> StateView {
        let quarantined = self.quarantine.ends_at(now).is_some();
        let (state, digest) = match &self.phase {
            Phase::Draining { digest } => (PluginState::Draining, digest.as_str()),
            Phase::Running { digest, .. } if quarantined => (PluginState::Quarantined, digest.as_str()),
            Phase::Running { digest, .. } => (PluginState::Running, digest.as_str()),
            Phase::Loading => (PluginState::Loading, ""),
            Phase::NotLoaded => (PluginState::Failed, ""),
        };
        let errors = [&self.file_error, &self.config_error, &self.last_error];
        StateView {
            state,
            generation: self.generation().unwrap_or(0),
            digest: digest.to_owned(),
            last_error: errors.into_iter().find_map(Clone::clone),
        }
    }

    fn await_first_generation(&mut self) {
        if matches!(self.phase, Phase::NotLoaded) {
            self.phase = Phase::Loading;
        }
    }

    fn give_up_first_generation(&mut self) {
        if matches!(self.phase, Phase::Loading) {
            self.phase = Phase::NotLoaded;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::quarantine::FAULTS_TO_QUARANTINE;

    fn shown(state: &LifecycleState) -> (PluginState, u64, String, Option<String>) {
        let StateView { state, generation, digest, last_error } = state.view(Instant::now());
        (state, generation, digest, last_error)
    }

    fn running() -> LifecycleState {
        let mut state = LifecycleState::default();
        state.load_started();
        state.generation_started(1, "sha256:a");
        state
    }

    #[test]
    fn a_plugin_is_loaded_runs_and_drains() {
        let mut state = LifecycleState::default();
        state.load_started();
        assert_eq!(shown(&state), (PluginState::Loading, 0, String::new(), None));
        state.generation_started(1, "sha256:a");
        assert_eq!(shown(&state), (PluginState::Running, 1, "sha256:a".to_owned(), None));
        state.generation_started(3, "sha256:b");
        assert_eq!(shown(&state), (PluginState::Running, 3, "sha256:b".to_owned(), None));
        state.retired();
        assert_eq!(shown(&state), (PluginState::Draining, 0, "sha256:b".to_owned(), None));
    }

    #[test]
    fn a_failed_first_load_is_shown_until_new_files_are_loaded() {
        let mut state = LifecycleState::default();
        state.load_started();
        state.load_failed("no wasm".to_owned());
        assert_eq!(shown(&state).0, PluginState::Failed);
        assert_eq!(shown(&state).3.as_deref(), Some("no wasm"));
        state.load_started();
        assert_eq!(shown(&state).0, PluginState::Loading);
        state.generation_started(2, "sha256:a");
        assert_eq!(shown(&state).3, None);
    }

    #[test]
    fn a_failed_reload_leaves_the_running_generation_and_shows_its_error() {
        let mut state = running();
        state.load_started();
        assert_eq!(shown(&state).0, PluginState::Running);
        state.load_failed("describe: no".to_owned());
        let error = Some("describe: no".to_owned());
        assert_eq!(shown(&state), (PluginState::Running, 1, "sha256:a".to_owned(), error));
        assert_eq!(state.generation(), Some(1));
    }

    #[test]
    fn a_configuration_that_may_still_come_keeps_the_load_waiting_and_the_host_ready() {
        let mut state = LifecycleState::default();
        state.load_started();
        assert!(!state.is_first_load_over());
        state.config_failed("no ConfigMap".to_owned(), true);
        assert_eq!(shown(&state).0, PluginState::Loading);
        assert!(state.is_first_load_over());
        state.config_usable(true);
        assert_eq!((shown(&state).0, shown(&state).3), (PluginState::Loading, None));
        assert!(!state.is_first_load_over());
    }

    #[test]
    fn a_configuration_that_cannot_come_fails_the_load_until_it_is_usable() {
        let mut state = LifecycleState::default();
        state.load_started();
        state.config_failed("not JSON".to_owned(), false);
        assert_eq!(shown(&state).0, PluginState::Failed);
        // Usable again, with the content that was refused before.
        state.config_usable(false);
        assert_eq!(shown(&state).0, PluginState::Failed);
        state.config_usable(true);
        assert_eq!(shown(&state).0, PluginState::Loading);
    }

    #[test]
    fn errors_of_files_and_configuration_go_before_the_last_error_and_stay_over_a_new_generation() {
        let mut state = running();
        state.set_error(Some("waiting".to_owned()));
        state.config_failed("config".to_owned(), true);
        state.files_failed("files".to_owned());
        assert_eq!(shown(&state).3.as_deref(), Some("files"));
        state.generation_started(2, "sha256:b");
        assert_eq!(shown(&state).3.as_deref(), Some("files"));
        state.load_started();
        assert_eq!(shown(&state).3, None);
        state.config_failed("config".to_owned(), true);
        state.set_error(Some("fault".to_owned()));
        assert_eq!(shown(&state).3.as_deref(), Some("config"));
        state.config_usable(false);
        assert_eq!(shown(&state).3.as_deref(), Some("fault"));
    }

    #[test]
    fn broken_files_fail_a_new_plugin_and_leave_a_load_under_way_alone() {
        let mut state = LifecycleState::default();
        state.files_failed("two components".to_owned());
        assert_eq!(shown(&state).0, PluginState::Failed);
        assert!(state.is_first_load_over());
        state.load_started();
        state.files_failed("two components".to_owned());
        assert_eq!(shown(&state).0, PluginState::Loading);
    }

    #[tokio::test(start_paused = true)]
    async fn a_quarantine_is_shown_until_its_pause_is_over_an_answer_comes_or_a_generation_begins() {
        let quarantined = || {
            let mut state = running();
            for _ in 0..FAULTS_TO_QUARANTINE {
                state.record_fault("trap".to_owned(), Instant::now());
            }
            assert_eq!(shown(&state).0, PluginState::Quarantined);
            assert_eq!(shown(&state).3.as_deref(), Some("trap"));
            state
        };
        let mut answered = quarantined();
        answered.record_answer();
        assert_eq!(shown(&answered).0, PluginState::Running);
        let mut replaced = quarantined();
        replaced.generation_started(2, "sha256:b");
        assert_eq!((shown(&replaced).0, shown(&replaced).3), (PluginState::Running, None));
        let waited = quarantined();
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        assert_eq!(shown(&waited).0, PluginState::Running);
    }

    #[test]
    fn nothing_leaves_draining() {
        let mut state = running();
        state.retired();
        state.load_started();
        state.generation_started(2, "sha256:b");
        state.config_usable(true);
        state.load_failed("late".to_owned());
        state.retired();
        assert_eq!((shown(&state).0, shown(&state).1), (PluginState::Draining, 0));
        assert_eq!(shown(&state).2, "sha256:a");
    }
}
