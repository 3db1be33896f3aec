//! [`Plugin`]: the parts of a plugin that survive a reload: name, queue, workers, metrics, state.
//!
//! Invariants: at most one generation is current; every call runs on the generation that was current when it began; all
//! generations share the queue, so no key is reconciled twice at once. Workers and pumps are tasks of the guest runtime,
//! counted in `tasks`; they end with their call when the plugin stops. Live writes are counted there as well, because a
//! write may outlive its call. `handover` is held while a generation takes over, while the plugin is retired, and while the
//! term of a standby begins; the state and `current` change under it together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use pilothouse_object::ObjectKey;
use pilothouse_workqueue::{Item, Queue};
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::dispatch::leadership_gate::LeadershipGate;
use crate::dispatch::limiter::PluginLimiter;
use crate::dispatch::reasons::Reasons;
use crate::dispatch::worker;
use crate::dispatch::worker_count::WorkerCount;
use crate::dispatch::writes::Writes;
use crate::imports::guest_events::PluginEvents;
use crate::leader_election::LeaderElection;
use crate::lifecycle::config_sources::Unusable;
use crate::lifecycle::generation::Generation;
use crate::lifecycle::standby::stand_by;
use crate::lifecycle::state::LifecycleState;
use crate::lifecycle::tracker::StateTracker;
use crate::observe::host_events::{HostEvents, Reporter};
use crate::observe::metrics::{Metrics, PluginMetrics};
use crate::observe::status::PluginStatus;

/// What the plugins of a host have in common; a cheap clone.
#[derive(Debug, Clone)]
pub(crate) struct HostContext {
    /// The runtime of the guests.
    pub(crate) guests: Handle,
    /// The runtime of the network.
    pub(crate) io: Handle,
    /// Whether the host may call guests.
    pub(crate) election: LeaderElection,
    /// How long an instance is kept warm without a call.
    pub(crate) idle_ttl: Duration,
    /// The name of the host in events.
    pub(crate) host: Arc<str>,
    pub(crate) host_events: HostEvents,
}

/// The parts of a plugin that survive a reload.
pub(crate) struct Plugin {
    name: Arc<str>,
    queue: Queue<ObjectKey, Reasons>,
    gate: Arc<LeadershipGate>,
    limiter: PluginLimiter,
    metrics: PluginMetrics,
    writes: Arc<Writes>,
    events: Arc<PluginEvents>,
    reporter: Arc<Reporter>,
    tasks: TaskTracker,
    election: LeaderElection,
    idle_ttl: Duration,
    guests: Handle,
    state: StateTracker,
    current: ArcSwapOption<Generation>,
    handover: Mutex<()>,
    /// Numbers handed out to generations, those that failed to load included.
    last_number: AtomicU64,
    /// The plugin that had this name before, until its calls have ended.
    predecessor: Mutex<Option<Arc<Self>>>,
    workers: WorkerCount,
    calls: AtomicU64,
}

/// A generation took over.
pub(crate) struct Switched {
    /// Number of the one before, if there was one.
    pub(crate) before: Option<u64>,
}

impl Plugin {
    /// A new plugin; `predecessor` had the name before and may still have calls in flight.
    pub(crate) fn new(
        name: &str,
        host: &HostContext,
        metrics: &Metrics,
        predecessor: Option<Arc<Self>>,
    ) -> Arc<Self> {
        let HostContext { guests, io, election, idle_ttl, host, host_events } = host.clone();
        let limiter = PluginLimiter::default();
        let queue = Queue::builder().name(name).rate_limiter(limiter.clone()).build();
        let name = Arc::from(name);
        let is_standby = !election.was_elected();
        let gate = if is_standby {
            LeadershipGate::closed(&name, &queue, metrics.remembered(&name))
        } else {
            LeadershipGate::opened(&name, &queue)
        };
        let events = Arc::new(PluginEvents::new(Arc::clone(&name), host, io));
        metrics.watch_events(&name, Arc::clone(&events));
        let plugin = Arc::new(Self {
            events,
            reporter: Arc::new(host_events.of(Arc::clone(&name))),
            metrics: metrics.plugin(&name, &queue),
            name,
            queue,
            gate: Arc::new(gate),
            limiter,
            writes: Arc::default(),
            tasks: TaskTracker::new(),
            election,
            idle_ttl,
            guests,
            state: StateTracker::default(),
            current: ArcSwapOption::empty(),
            handover: Mutex::default(),
            last_number: AtomicU64::new(predecessor.as_ref().map_or(0, |p| p.last_number.load(Relaxed))),
            predecessor: Mutex::new(predecessor),
            workers: WorkerCount::default(),
            calls: AtomicU64::new(0),
        });
        if is_standby {
            plugin.spawn(stand_by(Arc::clone(&plugin)));
        }
        plugin
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn queue(&self) -> &Queue<ObjectKey, Reasons> {
        &self.queue
    }

    /// The gate through which changes of watched objects reach the queue.
    pub(crate) fn gate(&self) -> &Arc<LeadershipGate> {
        &self.gate
    }

    pub(crate) fn metrics(&self) -> &PluginMetrics {
        &self.metrics
    }

    /// The live writes that caches may not show yet.
    pub(crate) fn writes(&self) -> &Arc<Writes> {
        &self.writes
    }

    /// The Events that the guests record.
    pub(crate) fn events(&self) -> &Arc<PluginEvents> {
        &self.events
    }

    /// The Events that the host records about this plugin.
    pub(crate) fn reporter(&self) -> &Arc<Reporter> {
        &self.reporter
    }

    /// The tasks that end before the plugin does.
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Whether the host may call guests.
    pub(crate) fn election(&self) -> &LeaderElection {
        &self.election
    }

    /// How long an instance is kept warm without a call.
    pub(crate) fn idle_ttl(&self) -> Duration {
        self.idle_ttl
    }

    /// Cancelled when the plugin is to run no more calls.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        self.state.stopping()
    }

    /// Whether the plugin is to run no more calls.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping().is_cancelled()
    }

    /// Runs a task of this plugin on the guest runtime.
    pub(crate) fn spawn<F>(&self, task: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.tasks.spawn_on(task, &self.guests)
    }

    // Generations.

    /// A number for a new generation.
    pub(crate) fn next_number(&self) -> u64 {
        self.last_number.fetch_add(1, Relaxed) + 1
    }

    /// The generation on which the next call runs.
    pub(crate) fn current(&self) -> Option<Arc<Generation>> {
        self.current.load_full()
    }

    /// Makes a generation the current one and feeds it in place of the one before, whose number is returned. Calls in flight
    /// end on their generation; keys in backoff are tried at once. Does nothing when `cancelled`, or when the plugin stops.
    pub(crate) fn switch(
        self: &Arc<Self>,
        next: Arc<Generation>,
        io: &Handle,
        cancelled: &CancellationToken,
    ) -> Option<Switched> {
        let _handover = self.handover.lock();
        if cancelled.is_cancelled() || self.is_stopping() {
            return None;
        }
        self.metrics.max_concurrent.set(i64::from(next.max_concurrent));
        self.metrics.generation.set(i64::try_from(next.number).unwrap_or(i64::MAX));
        self.limiter.replace(&next.description.rate_limiter);
        self.events.speak_as(next.number, next.imports.api_calls.client.clone(), next.event_qps);
        let before = self.current.swap(Some(Arc::clone(&next)));
        // A write that the generation before still makes to a kind that only it watched is not tracked.
        self.writes.watch_only(&next.imports.caches().map(|(id, _)| id).collect::<Vec<_>>());
        self.state.update_quietly(|state| state.generation_started(next.number, next.code.digest()));
        self.queue.release_backoff();
        next.start(self, before.as_ref(), io);
        // After the start: a pump that wakes from a quarantine finds that it has been replaced.
        self.state.wake_waiters();
        Some(Switched { before: before.map(|generation| generation.number) })
    }

    /// Ends the plugin: it begins no new call, and nothing feeds it. Calls in flight go on.
    pub(crate) fn retire(&self) {
        let _handover = self.handover.lock();
        self.state.retire();
        self.queue.shut_down();
        if let Some(generation) = self.current.swap(None) {
            generation.stop();
        }
        self.tasks.close();
    }

    /// The term of a standby begins: opens the gate, which queues the tombstones, then queues the keys of all cached objects.
    /// A change of an object either passes the open gate or is in the cache by then. A generation that takes over later
    /// queues its own keys.
    pub(crate) fn begin_term(&self) {
        let _handover = self.handover.lock();
        let began = Instant::now();
        let Some(remembered) = self.gate.open() else { return };
        let shown = self.current().map_or(0, |generation| generation.queue_all());
        tracing::info!(event = "leader_term_keys_queued", plugin = &*self.name, remembered, shown, took = ?began.elapsed(), "keys queued at the start of the term");
    }

    /// Drops old tombstones of a standby if that is `due`, and those of buffers that have grown too large.
    pub(crate) fn rotate_tombstones(&self, due: bool) {
        if due {
            self.gate.rotate();
        }
        if let Some(generation) = self.current() {
            generation.rotate_tombstones(due);
        }
    }

    /// Waits until no call of a removed plugin of the same name is under way: this plugin reconciles the same keys.
    pub(crate) async fn await_predecessor(&self) {
        let predecessor = self.predecessor.lock().clone();
        if let Some(predecessor) = predecessor {
            predecessor.ended().await;
            *self.predecessor.lock() = None;
        }
    }

    /// Waits for the last task of this plugin, which was retired, and of those that had its name before.
    pub(crate) async fn ended(self: &Arc<Self>) {
        let mut next = Some(Arc::clone(self));
        while let Some(plugin) = next {
            plugin.tasks.wait().await;
            next = plugin.predecessor.lock().clone();
        }
    }

    // Workers and calls.

    /// Starts the permanent worker, unless it runs already.
    pub(crate) fn start_workers(self: &Arc<Self>) {
        if self.workers.add_permanent() {
            self.spawn(worker::run_permanent(Arc::clone(self)));
        }
    }

    /// A worker is about to call: starts a helper that waits for keys meanwhile, unless a worker waits or `limit` workers run.
    pub(crate) fn start_helper(self: &Arc<Self>, limit: u32) {
        if self.workers.add_helper(limit) {
            self.spawn(worker::run_helper(Arc::clone(self)));
        }
    }

    /// Waits for a key; the worker counts as waiting.
    pub(crate) async fn next_key(&self) -> Option<Item<ObjectKey, Reasons>> {
        let _waiting = self.workers.waiting();
        self.queue.get().await
    }

    /// The workers of this plugin.
    pub(crate) fn workers(&self) -> &WorkerCount {
        &self.workers
    }

    /// A call begins.
    pub(crate) fn count_call(&self) {
        self.calls.fetch_add(1, Relaxed);
    }

    /// A call was answered, well or with a failure.
    pub(crate) fn record_answer(&self) {
        self.state.record_answer();
    }

    /// A call faulted; after many faults in a row the plugin is quarantined.
    pub(crate) fn record_fault(&self, error: &str) {
        let Some(quarantined) = self.state.record_fault(error.to_owned()) else { return };
        let (faults, pause) = (quarantined.faults, quarantined.pause);
        self.reporter.quarantined(faults, pause, error);
        tracing::warn!(
            event = "plugin_quarantined",
            plugin = &*self.name,
            "plugin quarantined after {faults} faults in a row; next call in {pause:?}, or at once with a new version"
        );
    }

    /// Waits for the end of a quarantine. A new generation ends it at once, and so does the end of the plugin.
    pub(crate) async fn quarantine_pause(&self) {
        self.state.quarantine_pause().await;
    }

    // Loads.

    /// A load of new files begins.
    pub(crate) fn load_started(&self) {
        self.state.update_quietly(LifecycleState::load_started);
    }

    /// A load failed; the generation before, if any, goes on.
    pub(crate) fn load_failed(&self, error: &str) {
        self.report_failure(error, |state| state.load_failed(error.to_owned()));
    }

    /// The files are not usable; the generation before, if any, goes on.
    pub(crate) fn files_failed(&self, error: &str) {
        self.report_failure(error, |state| state.files_failed(error.to_owned()));
    }

    /// The configuration is not usable; the generation before, if any, goes on. Does nothing when `cancelled`, which means that
    /// the files have changed.
    pub(crate) fn config_failed(&self, error: &Unusable, cancelled: &CancellationToken) {
        self.state.update_unless(cancelled, |state| {
            state.config_failed(error.message.clone(), error.waits);
            // Under the lock of the state: a load of the changed files reports after this.
            self.reporter.failed(&error.message, state.generation());
        });
    }

    /// The configuration is usable; with `loads` a load begins with it. Does nothing when `cancelled`.
    pub(crate) fn config_usable(&self, loads: bool, cancelled: &CancellationToken) {
        self.state.update_unless(cancelled, |state| state.config_usable(loads));
    }

    /// Sets the reason why a load waits, or an error that changes nothing else; none removes it.
    pub(crate) fn set_error(&self, error: Option<String>) {
        self.state.update_quietly(|state| state.set_error(error));
    }

    /// Waits for the first generation, for the failure of its load, or for the removal of the plugin.
    pub(crate) async fn first_load_over(&self) {
        self.state.first_load_over().await;
    }

    /// The plugin as `/plugins` shows it.
    pub(crate) fn status(&self) -> PluginStatus {
        let view = self.state.view();
        PluginStatus {
            name: self.name.to_string(),
            generation: view.generation,
            digest: view.digest,
            state: view.state,
            last_error: view.last_error,
            calls: self.calls.load(Relaxed),
            queue_depth: self.queue.len(),
        }
    }

    fn report_failure(&self, error: &str, change: impl FnOnce(&mut LifecycleState)) {
        let generation = self.state.update(|state| {
            change(state);
            state.generation()
        });
        self.reporter.failed(error, generation);
    }
}

#[cfg(test)]
mod tests;
