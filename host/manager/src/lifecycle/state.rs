//! [`LifecycleState`]: the state machine of one plugin's life.
//!
//! ```text
//!                load_started                     generation_started
//!  NotLoaded ───────────────────► Loading ─────────────────────────► Running ─┐ generation_started
//!      ▲                             │                                  ▲     │ (a reload, a rollback)
//!      └─────────────────────────────┘                                  └─────┘
//!         load_failed, config_failed
//!
//!  each of them ── retired ──► Draining
//! ```
//!
//! Invariants: a plugin that runs goes on running when a reload fails, so `Running` is left for `Draining` alone; nothing
//! leaves `Draining`. Quarantine and probation are conditions of `Running` with policies of their own; both belong to the
//! current generation, so calls of another one change nothing. Waiting is a condition of a load. Errors of files and of the
//! configuration stay until these are usable or the files change; they go before the last error of a load or a call, and
//! that goes before the reason why a load waits.
//!
//! No lock, no clock and no task in this file; [`StateTracker`](super::tracker::StateTracker) shares it between tasks.

use pilothouse_object::ObjectKey;
use tokio::time::Instant;

use crate::lifecycle::load::Cause;
use crate::lifecycle::probation::{Probation, Verdict};
use crate::lifecycle::quarantine::{Admission, Quarantine, Quarantined};
use crate::lifecycle::rollback::{Rollback, RollbackRule, Version};
use crate::observe::status::{PluginState, RollbackView};

/// The state of one plugin. Conditions that few plugins are in are boxed.
#[derive(Debug, Default)]
pub(crate) struct LifecycleState {
    phase: Phase,
    /// No call begins until an operator says so.
    is_paused: bool,
    reconciles: Quarantine,
    events: Quarantine,
    probation: Option<Box<Probation>>,
    /// The last generation that was good when another one replaced it.
    last_good: Option<(u64, Version)>,
    /// A rollback that is wanted and has not begun.
    rollback: Option<Box<Rollback>>,
    /// A rollback is being loaded.
    rolls_back: bool,
    /// The rollback that started the current generation.
    rolled_back: Option<Box<RollbackView>>,
    /// Why the files in the directory are not usable.
    file_error: Option<String>,
    /// Why the sources of `spec.configFrom` are not usable.
    config_error: Option<String>,
    /// The last error of a load or a call.
    last_error: Option<String>,
    /// Why calls cannot be answered, where that is no fault of the plugin.
    host_condition: Option<String>,
    load_wait: Option<LoadWait>,
}

#[derive(Debug, Default)]
enum Phase {
    /// No generation, and no load under way: the plugin is new, or its load failed.
    #[default]
    NotLoaded,
    /// No generation yet; the first is being loaded.
    Loading,
    /// A generation is current; another one may be loading.
    Running { number: u64, version: Version },
    /// Removed; its last calls end.
    Draining { digest: String },
}

/// The calls that have a quarantine of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// `reconcile` and `reconcile-many`.
    Reconcile,
    /// `on-events`.
    Event,
}

/// The faults of one round of calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Faults<'a> {
    pub(crate) kind: CallKind,
    /// The generation that was called.
    pub(crate) generation: u64,
    /// The keys that faulted.
    pub(crate) keys: &'a [ObjectKey],
    /// Whether the calls were for events that their objects are gone. No call for these keys follows.
    pub(crate) are_deleted: bool,
    /// Whether another call of the round was answered.
    pub(crate) any_answer: bool,
    /// The last fault, for the status.
    pub(crate) error: &'a str,
}

/// What a load waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoadWait {
    pub(crate) reason: String,
    /// Whether it may take so long that the host is ready without this plugin.
    pub(crate) may_be_long: bool,
    /// When it is tried again, if a time is known.
    pub(crate) next_try: Option<Instant>,
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
    pub(crate) waiting_for: Option<String>,
    /// The end of a quarantine's pause, or the next try of a load.
    pub(crate) next_try: Option<Instant>,
    pub(crate) host_condition: Option<String>,
    pub(crate) rolled_back: Option<RollbackView>,
    /// End of the pause of a quarantine.
    pub(crate) pause_ends: Option<Instant>,
    /// Number and digest of the last good generation.
    pub(crate) last_good: Option<(u64, String)>,
}

impl LifecycleState {
    /// An operator pauses the plugin, or ends the pause.
    pub(crate) fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    /// An operator ends the quarantines; `false` if there is none.
    pub(crate) fn release(&mut self) -> bool {
        let was_active = self.is_quarantined();
        self.reconciles.release();
        self.events.release();
        was_active
    }

    /// Asks for a call.
    pub(crate) fn admit(&mut self, kind: CallKind, now: Instant) -> Admission {
        if self.is_paused { Admission::Wait(None) } else { self.quarantine_mut(kind).admit(now) }
    }

    /// Whether no call may begin: until this time, or until another change.
    pub(crate) fn blocked(&mut self, kind: CallKind, now: Instant) -> Option<Option<Instant>> {
        if self.is_paused { Some(None) } else { self.quarantine_mut(kind).blocked(now) }
    }

    /// New files have come.
    pub(crate) fn files_came(&mut self) {
        self.await_first_generation();
        self.file_error = None;
    }

    /// A load of new files begins, in place of what was loaded of those before.
    pub(crate) fn load_started(&mut self) {
        self.files_came();
        self.config_error = None;
        self.load_wait = None;
        self.end_rollback();
    }

    /// A load was refused: only a change of its files or of its configuration helps.
    pub(crate) fn load_failed(&mut self, error: String) {
        self.give_up_first_generation();
        self.load_wait = None;
        self.end_rollback();
        self.last_error = Some(error);
    }

    /// The load waits; none: it goes on.
    pub(crate) fn load_waits(&mut self, wait: Option<LoadWait>) {
        self.load_wait = wait;
    }

    /// The files that came are refused.
    pub(crate) fn files_refused(&mut self, error: String) {
        self.give_up_first_generation();
        self.file_error = Some(error);
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

    /// A task of the plugin ended with a panic.
    pub(crate) fn task_panicked(&mut self, error: String) {
        self.last_error = Some(error);
    }

    /// A generation is current from now on. One that is loaded again for its rights changes nothing about the files and the
    /// configuration: what was wrong with them stays in the status. `rule` is of its manifest.
    pub(crate) fn generation_started(
        &mut self,
        number: u64,
        version: &Version,
        rule: &RollbackRule,
        cause: Cause<'_>,
    ) {
        if matches!(self.phase, Phase::Draining { .. }) {
            return;
        }
        let was_good = !self.is_on_probation() && !self.is_quarantined();
        let before = std::mem::replace(&mut self.phase, Phase::Running { number, version: version.clone() });
        if let Phase::Running { number, version } = before
            && was_good
        {
            self.last_good = Some((number, version));
        }
        let failing = self.reconciles.begin_anew().into_iter().chain(self.events.begin_anew()).collect();
        let replaces_good =
            self.last_good.as_ref().is_some_and(|(_, good)| good != version && rule.allows(good.digest()));
        self.probation = replaces_good.then(|| Box::new(Probation::new(failing)));
        self.end_rollback();
        (self.rolled_back, self.last_error) = match cause {
            Cause::Change => (None, None),
            Cause::RightsRestored => (self.rolled_back.take(), self.last_error.take()),
            Cause::Rollback(rollback) => (Some(Box::new(rollback.view())), Some(rollback.to_string())),
        };
        self.host_condition = None;
        self.load_wait = None;
    }

    /// Calls for these keys were answered, well or with failures.
    pub(crate) fn record_answer<'a>(
        &mut self,
        kind: CallKind,
        generation: u64,
        keys: impl IntoIterator<Item = &'a ObjectKey>,
        now: Instant,
    ) {
        if !self.is_current(generation) {
            return;
        }
        self.host_condition = None;
        self.quarantine_mut(kind).answered(keys);
        let verdict = self.probation.as_mut().map(|probation| probation.answered(now));
        self.end_probation(verdict, "");
    }

    /// A round of calls faulted; a quarantine begins after faults of several keys, and a rollback is wanted when the
    /// generation fails its probation.
    pub(crate) fn record_faults(&mut self, faults: &Faults<'_>, now: Instant) -> Option<Quarantined> {
        let Faults { kind, generation, keys, are_deleted, any_answer, error } = *faults;
        if !self.is_current(generation) {
            return None;
        }
        self.last_error = Some(error.to_owned());
        let verdict = self.probation.as_mut().map(|probation| probation.faulted(keys, now));
        self.end_probation(verdict, error);
        let quarantine = self.quarantine_mut(kind);
        let quarantined = if any_answer {
            keys.iter().for_each(|key| _ = quarantine.mark_failing(key));
            None
        } else {
            quarantine.faulted(keys, now)
        };
        if are_deleted {
            quarantine.forget(keys);
        }
        quarantined
    }

    /// A call could not be answered, and that is no fault of the plugin.
    pub(crate) fn record_host_condition(&mut self, generation: u64, condition: String) {
        if self.is_current(generation) {
            self.host_condition = Some(condition);
        }
    }

    fn end_probation(&mut self, verdict: Option<Verdict>, reason: &str) {
        if verdict.is_none_or(|verdict| verdict == Verdict::Open) {
            return;
        }
        self.probation = None;
        if verdict == Some(Verdict::RollBack)
            && let (Phase::Running { number, version }, Some((to, good))) = (&self.phase, &self.last_good)
        {
            self.rollback = Some(Box::new(Rollback {
                from: *number,
                digest: version.digest().to_owned(),
                to: *to,
                version: good.clone(),
                reason: reason.to_owned(),
            }));
        }
    }

    /// Takes the rollback that is wanted: its load begins.
    pub(crate) fn take_rollback(&mut self) -> Option<Rollback> {
        let rollback = self.rollback.take();
        self.rolls_back |= rollback.is_some();
        rollback.map(|rollback| *rollback)
    }

    fn end_rollback(&mut self) {
        self.rollback = None;
        self.rolls_back = false;
    }

    /// Whether the current generation may still be rolled back.
    pub(crate) fn is_on_probation(&self) -> bool {
        self.probation.is_some() || self.rollback.is_some() || self.rolls_back
    }

    /// The plugin was removed, or the host shuts down.
    pub(crate) fn retired(&mut self) {
        let digest = match std::mem::take(&mut self.phase) {
            Phase::Running { version, .. } => version.digest().to_owned(),
            Phase::Draining { digest } => digest,
            Phase::NotLoaded | Phase::Loading => String::new(),
        };
        self.phase = Phase::Draining { digest };
        self.end_rollback();
    }

    /// Whether no more than the first load keeps the host from being ready: it is over, or it waits for something that may
    /// take long.
    pub(crate) fn is_first_load_over(&self) -> bool {
        self.waits_long() || !matches!(self.phase, Phase::Loading)
    }

    /// Whether a generation is current, or none will be.
    pub(crate) fn has_run_or_ends(&self) -> bool {
        matches!(self.phase, Phase::Running { .. } | Phase::Draining { .. })
    }

    /// Number of the current generation.
    pub(crate) fn generation(&self) -> Option<u64> {
        match self.phase {
            Phase::Running { number, .. } => Some(number),
            Phase::NotLoaded | Phase::Loading | Phase::Draining { .. } => None,
        }
    }

    /// The quarantine of one sort of calls.
    pub(crate) fn quarantine_mut(&mut self, kind: CallKind) -> &mut Quarantine {
        match kind {
            CallKind::Reconcile => &mut self.reconciles,
            CallKind::Event => &mut self.events,
        }
    }

    /// Whether reconciles or event handlers are in quarantine.
    pub(crate) fn is_quarantined(&self) -> bool {
        self.reconciles.is_active() || self.events.is_active()
    }

    /// Whether an operator has paused it.
    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Whether the next answer of a call changes the state, or the next call has to ask for admission.
    pub(crate) fn awaits_answer(&self) -> bool {
        self.is_paused
            || self.probation.is_some()
            || self.host_condition.is_some()
            || self.reconciles.awaits_answer()
            || self.events.awaits_answer()
    }

    /// The state as `/plugins` shows it.
    pub(crate) fn view(&self, now: Instant) -> StateView {
        let (state, digest) = match &self.phase {
            Phase::Draining { digest } => (PluginState::Draining, digest.as_str()),
            Phase::Running { version, .. } if self.is_paused => (PluginState::Paused, version.digest()),
            Phase::Running { version, .. } if self.is_quarantined() => {
                (PluginState::Quarantined, version.digest())
            }
            Phase::Running { version, .. } => (PluginState::Running, version.digest()),
            Phase::Loading if self.waits_long() => (PluginState::Waiting, ""),
            Phase::Loading => (PluginState::Loading, ""),
            Phase::NotLoaded => (PluginState::Failed, ""),
        };
        let waiting_for = self.load_wait.as_ref().map(|wait| &wait.reason);
        let errors = [self.file_error.as_ref(), self.config_error.as_ref(), self.last_error.as_ref()];
        let quarantines = [&self.reconciles, &self.events];
        let pause_ends = quarantines.into_iter().filter_map(|quarantine| quarantine.ends_at(now)).min();
        StateView {
            state,
            generation: self.generation().unwrap_or(0),
            digest: digest.to_owned(),
            last_error: errors.into_iter().chain([waiting_for]).flatten().next().cloned(),
            waiting_for: waiting_for.cloned(),
            next_try: pause_ends.or_else(|| self.load_wait.as_ref()?.next_try),
            host_condition: self.host_condition.clone(),
            rolled_back: self.rolled_back.as_deref().cloned(),
            pause_ends,
            last_good: self.last_good.as_ref().map(|(number, good)| (*number, good.digest().to_owned())),
        }
    }

    /// Whether this generation is the current one, or there is none.
    fn is_current(&self, generation: u64) -> bool {
        self.generation().is_none_or(|current| current == generation)
    }

    fn waits_long(&self) -> bool {
        self.config_error.is_some() || self.load_wait.as_ref().is_some_and(|wait| wait.may_be_long)
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
mod tests;
