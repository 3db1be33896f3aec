//! [`Plugin`]: the parts of a plugin in one cluster that survive a reload: name, queue, workers, metrics, state.
//!
//! Invariants: at most one generation is current; every call runs on the generation that was current when it began; all
//! generations share the queue, so no key is reconciled twice at once. Workers and pumps are tasks on the guest threads,
//! counted in `tasks`; they end with their call when the plugin stops. Live writes are counted there as well, because a
//! write may outlive its call. `handover` is held while a generation takes over, while the plugin is retired, and while the
//! term of a standby begins; the state and `current` change under it together.

mod hooks;
mod loads;
mod terms;
mod view;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use futures_util::FutureExt as _;
use jiff::Timestamp;
use parking_lot::Mutex;
use pilothouse_engine::Fault;
use pilothouse_executor::{Executor, Group, JoinHandle, yield_after_slice};
use pilothouse_object::ObjectKey;
use pilothouse_plugin::{printable, split_run};
use pilothouse_workqueue::{Item, Queue, Timekeeper, WorkerCount};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use self::hooks::PanicReport;
use self::hooks::{WorkerHook, panic_report};

use crate::dispatch::backfill::{Backfill, FeedPace, PORTION};
use crate::dispatch::instance_pool::{InstancePool, Tenant};
use crate::dispatch::leadership_gate::LeadershipGate;
use crate::dispatch::limiter;
use crate::dispatch::reasons::Reasons;
use crate::dispatch::worker::{self, SharedBatchSize};
use crate::dispatch::writes::Writes;
use crate::imports::api_calls::WriteRoom;
use crate::imports::guest_events::PluginEvents;
use crate::imports::log_limit::LogLimit;
use crate::leader_election::LeaderElection;
use crate::lifecycle::generation::Generation;
use crate::lifecycle::load::Cause;
use crate::lifecycle::quarantine::Quarantined;
use crate::lifecycle::rollback::{Rollback, RollbackRule};
use crate::lifecycle::schedules::{PluginSchedules, Schedules};
use crate::lifecycle::standby::Standby;
use crate::lifecycle::state::{CallKind, Faults, LifecycleState};
use crate::lifecycle::tracker::{CallPermit, StateTracker};
use crate::observe::denials::Denials;
use crate::observe::host_events::{HostEvents, Reporter};
use crate::observe::metrics::{Metrics, PluginMetrics};
use crate::observe::recent_errors::RecentErrors;
use crate::observe::warnings::Warnings;

/// What the plugins of a host have in common; a cheap clone.
#[derive(Debug, Clone)]
pub(crate) struct HostContext {
    /// The threads of the guests.
    pub(crate) guests: Executor,
    /// The threads for what grows with a plugin.
    pub(crate) work: Handle,
    /// Whether the host may call guests; with shards each plugin asks for its own.
    pub(crate) election: LeaderElection,
    /// The instances of all plugins.
    pub(crate) instances: InstancePool,
    /// Keeps the time for the queues of all plugins.
    pub(crate) timekeeper: Timekeeper,
    /// The name of the host in events.
    pub(crate) host: Arc<str>,
    pub(crate) host_events: HostEvents,
    /// The schedules of all plugins.
    pub(crate) schedules: Schedules,
    /// The plugins whose term has not begun.
    pub(crate) standby: Standby,
    /// Has the newest files of the plugin of a name loaded again.
    pub(crate) reloads: mpsc::UnboundedSender<Arc<str>>,
}

/// The parts of a plugin that survive a reload.
pub(crate) struct Plugin {
    name: Arc<str>,
    queue: Queue<ObjectKey, Reasons>,
    /// Empty until the term of a standby begins.
    schedules: PluginSchedules,
    gate: Arc<LeadershipGate>,
    backfill: Backfill,
    metrics: Arc<PluginMetrics>,
    writes: Arc<Writes>,
    write_room: WriteRoom,
    events: Arc<PluginEvents>,
    log_limit: Arc<LogLimit>,
    reporter: Arc<Reporter>,
    denials: Arc<Denials>,
    errors: Mutex<RecentErrors>,
    tasks: TaskTracker,
    election: LeaderElection,
    /// Its account of instances.
    instances: Arc<Tenant>,
    /// Its share of the guest threads.
    group: Group,
    state: Arc<StateTracker>,
    current: ArcSwapOption<Generation>,
    /// The last generation whose machine code a call found lost; 0 if there is none.
    lost_code: watch::Sender<u64>,
    /// Has the newest files of the plugin of a name loaded again.
    reloads: mpsc::UnboundedSender<Arc<str>>,
    handover: Mutex<()>,
    /// Numbers handed out to generations, those that failed to load included.
    last_number: AtomicU64,
    /// The plugin that had this name before, until its calls have ended.
    predecessor: Mutex<Option<Arc<Self>>>,
    workers: Arc<WorkerCount>,
    /// Keys of a batch after calls that exceeded their deadline.
    batch_size: SharedBatchSize,
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
        let HostContext {
            guests,
            work,
            election,
            instances,
            timekeeper,
            host,
            host_events,
            schedules,
            standby,
            reloads,
        } = host.clone();
        // All runs of a plugin are in one shard: one host writes the status of its Plugin.
        let election = election.of_plugin(split_run(name).0);
        // One account for all plugins that have the name one after the other.
        let group = predecessor.as_ref().map_or_else(|| guests.group(), |before| before.group.clone());
        let name = Arc::from(name);
        let is_standby = !election.was_elected();
        let workers = Arc::new(WorkerCount::default());
        let plugin = Arc::new_cyclic(|plugin: &Weak<Self>| {
            let hook = WorkerHook {
                plugin: Weak::clone(plugin),
                workers: Arc::clone(&workers),
                panicked: panic_report(plugin, "the timer of its queue"),
            };
            let queue = Queue::builder()
                .name(Arc::clone(&name))
                .rate_limiter(limiter::build(&pilothouse_plugin::RateLimiter::default()))
                .build_with_hook(&timekeeper, hook);
            let gate = if is_standby {
                LeadershipGate::closed(&name, &queue, metrics.remembered(&name))
            } else {
                LeadershipGate::opened(&name, &queue)
            };
            let events = Arc::new(PluginEvents::new(Arc::clone(&name), host, work.clone()));
            metrics.watch_events(&name, Arc::clone(&events));
            let reporter = Arc::new(host_events.of(Arc::clone(&name)));
            let metrics_of_plugin = metrics.plugin(&name, &queue, &group);
            Self {
                events,
                log_limit: Arc::default(),
                denials: Arc::new(Denials::new(
                    Arc::clone(&name),
                    Arc::clone(&reporter),
                    Arc::clone(&metrics_of_plugin),
                )),
                reporter,
                errors: Mutex::default(),
                metrics: metrics_of_plugin,
                schedules: schedules.of(&queue, panic_report(plugin, "a schedule")),
                state: Arc::default(),
                name,
                queue,
                gate: Arc::new(gate),
                backfill: Backfill::default(),
                writes: Arc::default(),
                write_room: WriteRoom::default(),
                tasks: TaskTracker::new(),
                election,
                instances: instances.tenant(),
                group,
                current: ArcSwapOption::empty(),
                lost_code: watch::Sender::new(0),
                reloads,
                handover: Mutex::default(),
                last_number: AtomicU64::new(predecessor.as_ref().map_or(0, |p| p.last_number.load(Relaxed))),
                predecessor: Mutex::new(predecessor),
                workers,
                batch_size: SharedBatchSize::default(),
                calls: AtomicU64::new(0),
            }
        });
        if is_standby {
            standby.add(&plugin);
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

    pub(crate) fn metrics(&self) -> &Arc<PluginMetrics> {
        &self.metrics
    }

    /// The live writes that caches may not show yet.
    pub(crate) fn writes(&self) -> &Arc<Writes> {
        &self.writes
    }

    /// The log's limit, which all generations share; its rate is that of the current one.
    pub(crate) fn log_limit(&self) -> &Arc<LogLimit> {
        &self.log_limit
    }

    /// Whether a line of the host with so many bytes of the guest may be written: it counts as a line of the guest.
    pub(crate) fn may_log(&self, bytes: usize) -> bool {
        self.log_limit.allows(&self.name, bytes)
    }

    /// The Events that the guests record.
    pub(crate) fn events(&self) -> &Arc<PluginEvents> {
        &self.events
    }

    /// The Events that the host records about this plugin.
    pub(crate) fn reporter(&self) -> &Arc<Reporter> {
        &self.reporter
    }

    /// What the guests were denied.
    pub(crate) fn denials(&self) -> &Arc<Denials> {
        &self.denials
    }

    /// The warnings about a new generation: none yet.
    pub(crate) fn warnings(&self) -> Warnings {
        let (name, reporter) = (Arc::clone(&self.name), Arc::clone(&self.reporter));
        Warnings::new(name, reporter, Arc::clone(&self.metrics))
    }

    /// The room for writes in progress.
    pub(crate) fn write_room(&self) -> &WriteRoom {
        &self.write_room
    }

    /// The tasks that end before the plugin does.
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Whether the host may call this plugin.
    pub(crate) fn election(&self) -> &LeaderElection {
        &self.election
    }

    /// Its account of instances.
    pub(crate) fn instances(&self) -> &Arc<Tenant> {
        &self.instances
    }

    /// Cancelled when the plugin is to run no more calls.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        self.state.stopping()
    }

    /// Whether the plugin is to run no more calls.
    pub(crate) fn is_stopping(&self) -> bool {
        self.state.is_stopping()
    }

    /// Runs a task on the guest threads, in this plugin's share.
    pub(crate) fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.group.spawn(self.tasks.track_future(task))
    }

    /// Runs a part of a task of this plugin. None when it panicked, which is recorded.
    pub(crate) async fn guard<T>(&self, task: &str, part: impl Future<Output = T>) -> Option<T> {
        match AssertUnwindSafe(part).catch_unwind().await {
            Ok(result) => Some(result),
            Err(panic) => {
                self.task_panicked(task, &*panic);
                None
            }
        }
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

    /// Whether this generation is the current one.
    pub(crate) fn is_current(&self, generation: &Generation) -> bool {
        self.current.load().as_ref().is_some_and(|current| current.number == generation.number)
    }

    /// A call found no machine code. The newest files are loaded again, once for each generation; until then no call begins,
    /// and nobody is to blame.
    pub(crate) fn code_lost(&self, generation: &Generation, reason: &Fault) {
        let number = generation.number;
        let is_news = self.lost_code.send_if_modified(|lost| {
            let is_news = *lost < number;
            *lost = number.max(*lost);
            is_news
        });
        if is_news && self.is_current(generation) {
            self.request_reload(&reason.message);
        }
    }

    /// Has the newest files loaded again, since the machine code is lost.
    pub(crate) fn request_reload(&self, reason: &str) {
        tracing::warn!(
            event = "code_lost",
            plugin = &*self.name,
            "the machine code is lost, and the plugin is loaded again: {reason}"
        );
        // A host that ends loads nothing.
        let _ = self.reloads.send(Arc::clone(&self.name));
    }

    /// Waits until the current generation has its machine code, or the plugin stops. Cancel-safe.
    pub(crate) async fn await_code(&self) {
        let is_there = |lost: &u64| self.current().is_none_or(|current| current.number > *lost);
        if !is_there(&self.lost_code.borrow()) {
            let mut lost = self.lost_code.subscribe();
            // The sender is in `self`.
            let _ = self.stopping().run_until_cancelled(lost.wait_for(is_there)).await;
        }
    }

    /// Makes a generation the current one and feeds it in place of the one before, whose number is returned. Calls in flight
    /// end on their generation; keys in backoff are tried at once. Does nothing when `cancelled`, or when the plugin stops.
    pub(crate) fn switch(
        self: &Arc<Self>,
        next: Arc<Generation>,
        cause: Cause<'_>,
        cancelled: &CancellationToken,
    ) -> Option<Switched> {
        let _handover = self.handover.lock();
        if cancelled.is_cancelled() || self.is_stopping() {
            return None;
        }
        self.metrics.max_concurrent.set(i64::from(next.max_concurrent));
        self.metrics.generation.set(i64::try_from(next.number).unwrap_or(i64::MAX));
        self.log_limit.change(next.limits.log_bytes);
        self.queue.set_rate_limiter(limiter::build(&next.description.rate_limiter));
        let calls = &next.imports.api_calls;
        self.events.speak_as(next.number, calls.client.clone(), next.event_qps);
        let before = self.current.swap(Some(Arc::clone(&next)));
        // A write that the generation before still makes to a kind that only it watched is not tracked.
        self.writes.watch_only(&next.imports.caches().map(|(id, _)| id).collect::<Vec<_>>());
        self.state.update_quietly(|state| {
            state.generation_started(
                next.number,
                &next.version,
                &RollbackRule::of(&next.origin.manifest),
                cause,
            );
        });
        self.group.set_weight(next.cpu_weight);
        self.instances.set_generation(next.number, next.max_instances());
        self.workers.set_limit(next.max_workers());
        self.lost_code.send_modify(|_| {});
        self.queue.release_backoff();
        next.start(self, before.as_ref());
        self.set_schedules(&next);
        // After the start: a pump that wakes from a quarantine finds that it has been replaced.
        self.state.wake_waiters();
        Some(Switched { before: before.map(|generation| generation.number) })
    }

    /// Ends the plugin: it begins no new call, and nothing feeds it. Calls in flight go on.
    pub(crate) fn retire(&self) {
        let _handover = self.handover.lock();
        if let Some(generation) = self.end_calls() {
            generation.stop();
        }
        self.queue.shut_down();
    }

    /// Begins no new call; the caller holds `handover`. Returns the last generation.
    fn end_calls(&self) -> Option<Arc<Generation>> {
        self.state.retire();
        self.schedules.set(&[]);
        self.backfill.set_sweeps(Vec::new());
        self.backfill.replace(Vec::new());
        self.instances.retire();
        self.tasks.close();
        self.current.swap(None)
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
        // Those that are replaced before they ran would keep all of those before them.
        *self.predecessor.lock() = None;
    }

    // Workers and calls.

    /// Starts a worker, unless there are enough of them, or the host calls no guests.
    pub(crate) fn start_worker(self: &Arc<Self>) {
        if !self.is_stopping() && self.election.is_leader() && self.workers.try_add() {
            self.spawn(worker::run(Arc::clone(self)));
        }
    }

    /// Starts a worker if there is work: a ready key, or objects whose keys are to be added and no worker that does it.
    pub(crate) fn start_worker_if_wanted(self: &Arc<Self>) {
        if self.backfill.is_pending() && self.workers.running() == 0 {
            self.start_worker();
        } else {
            self.start_worker_if_ready();
        }
    }

    /// Starts another worker of a plugin if it may have one more and there is work for it: a ready key, or objects whose keys
    /// are to be added. A key that is always ready would keep the workers that there are from these objects.
    pub(crate) fn start_another_worker(self: &Arc<Self>) {
        if self.workers.has_room() && (self.backfill.is_pending() || !self.queue.is_empty()) {
            self.start_worker();
        }
    }

    /// Takes a key. When few keys are ready, adds keys of objects that were cached before; and at times in any case, since
    /// other keys may never become few.
    pub(crate) async fn take_key(&self, pace: &mut FeedPace) -> Option<Item<ObjectKey, Reasons>> {
        if self.backfill.is_pending() && pace.is_due(|| self.queue.len()) {
            self.feed_queue();
        }
        loop {
            if let Some(item) = self.queue.try_get() {
                return Some(item);
            }
            if !self.feed_queue() {
                return None;
            }
            // Filters may show none of these objects.
            yield_after_slice().await;
        }
    }

    fn feed_queue(&self) -> bool {
        let batch = || self.current().map_or(0, |generation| generation.batch_max());
        self.backfill.is_pending() && self.backfill.feed(PORTION.max(batch()))
    }

    /// The keys that are still to be added for objects that were cached before.
    pub(crate) fn backfill(&self) -> &Backfill {
        &self.backfill
    }

    /// Starts a worker if a key is ready for it.
    pub(crate) fn start_worker_if_ready(self: &Arc<Self>) {
        if self.workers.has_room() && !self.queue.is_empty() {
            self.start_worker();
        }
    }

    /// Keys of the next batch of a worker.
    pub(crate) fn batch_size(&self) -> &SharedBatchSize {
        &self.batch_size
    }

    /// The workers of this plugin.
    pub(crate) fn workers(&self) -> &WorkerCount {
        &self.workers
    }

    /// A call begins.
    pub(crate) fn count_call(&self) {
        self.calls.fetch_add(1, Relaxed);
    }

    /// Calls for these keys were answered, well or with failures.
    pub(crate) fn record_answer<'a>(
        &self,
        kind: CallKind,
        generation: u64,
        keys: impl IntoIterator<Item = &'a ObjectKey>,
    ) {
        self.state.record_answer(kind, generation, keys);
    }

    /// A round of calls faulted; after faults of several keys the plugin is quarantined.
    pub(crate) fn record_faults(&self, faults: &Faults<'_>) {
        let error = self.record_error(faults.error);
        let faults = Faults { error: &error, ..*faults };
        let Some(quarantined) = self.state.record_faults(&faults) else { return };
        self.metrics.quarantines.inc();
        self.reporter.quarantined(quarantined, &error);
        let Quarantined { keys, pause } = quarantined;
        tracing::warn!(
            event = "plugin_quarantined",
            plugin = &*self.name,
            "plugin quarantined after faults of {keys} different keys; one call tries it again in {pause:?}, and a new version at once"
        );
    }

    /// A call could not be answered, and that is no fault of the plugin.
    pub(crate) fn record_host_condition(&self, generation: u64, condition: &str) {
        let condition = self.record_error(condition);
        self.state.update_quietly(|state| state.record_host_condition(generation, condition));
    }

    /// Waits until a call may begin. Held until the outcome of the call is recorded. `before_wait` runs before each wait: it
    /// ends the lease of an instance, which the call that the others wait for may need.
    pub(crate) async fn quarantine_pause(&self, kind: CallKind, before_wait: impl FnMut()) -> CallPermit {
        self.state.admit(kind, before_wait).await
    }

    /// Keeps an error for the status. Errors of calls have keys, which users of the cluster choose: returns the text that may
    /// be shown.
    pub(crate) fn record_error(&self, error: &str) -> String {
        let error = printable(error);
        self.errors.lock().record(&error, Timestamp::now());
        error
    }

    /// An operator pauses the plugin: calls under way go on, and none begins. Or ends the pause.
    pub(crate) fn pause(&self, is_paused: bool) {
        self.state.update(|state| state.pause(is_paused));
    }

    /// An operator ends the quarantine; `false` if there is none.
    pub(crate) fn release(&self) -> bool {
        self.state.update(LifecycleState::release)
    }

    /// Whether the last call for a key faulted.
    pub(crate) fn is_failing(&self, kind: CallKind, key: &ObjectKey) -> bool {
        self.state.is_failing(kind, key)
    }

    /// Waits for the end of a quarantine, without a call. `before_wait` is as for
    /// [`quarantine_pause`](Self::quarantine_pause).
    pub(crate) async fn quarantine_over(&self, kind: CallKind, before_wait: impl FnMut()) {
        self.state.quarantine_over(kind, before_wait).await;
    }

    /// Waits until a rollback is wanted; none when none can be, unless `for_ever`. Cancel-safe.
    pub(crate) async fn rollback_wanted(&self, for_ever: bool) -> Option<Rollback> {
        self.state.rollback_wanted(for_ever).await
    }
}

#[cfg(test)]
mod tests;
