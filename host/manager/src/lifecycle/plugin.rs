//! [`Plugin`]: what lives on over the generations of one plugin: its name, queue, workers, counters and state.
//!
//! Invariants: at most one generation is current; every call runs on the generation that was current when it began; all
//! generations share the queue, so one key is never reconciled twice at once. Workers and pumps are tasks of the guest
//! runtime, counted in `tasks`, and end when `stopping` is cancelled and their present call is over; live writes are
//! counted there as well, for they may outlive their call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use pilothouse_object::ObjectKey;
use pilothouse_workqueue::{Item, Queue};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::dispatch::leadership_gate::LeadershipGate;
use crate::dispatch::limiter::PluginLimiter;
use crate::dispatch::reasons::Reasons;
use crate::dispatch::tombstones::RotationSchedule;
use crate::dispatch::worker;
use crate::dispatch::writes::Writes;
use crate::imports::guest_events::PluginEvents;
use crate::leader_election::LeaderElection;
use crate::lifecycle::config_sources::Unusable;
use crate::lifecycle::generation::Generation;
use crate::observe::host_events::{HostEvents, Reporter};
use crate::observe::metrics::{Metrics, PluginMetrics};
use crate::observe::status::{PluginState, PluginStatus};

/// Faults in a row, without one good call between, after which a plugin is quarantined.
const FAULTS_TO_QUARANTINE: u32 = 10;
/// First and longest quarantine; each fault after it doubles the time.
const QUARANTINE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// How often a standby looks whether its memory may turn, while each key is to be kept.
const LOOKS: u32 = 8;

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
    /// What the host is called in events.
    pub(crate) host: Arc<str>,
    pub(crate) host_events: HostEvents,
}

/// What lives on over the generations of one plugin.
pub(crate) struct Plugin {
    pub(crate) name: Arc<str>,
    pub(crate) queue: Queue<ObjectKey, Reasons>,
    /// What changes of watched objects go through to the queue.
    pub(crate) gate: Arc<LeadershipGate>,
    pub(crate) limiter: PluginLimiter,
    pub(crate) metrics: PluginMetrics,
    pub(crate) writes: Arc<Writes>,
    /// What its guests record.
    pub(crate) events: Arc<PluginEvents>,
    /// What the host tells of it.
    pub(crate) reporter: Arc<Reporter>,
    pub(crate) tasks: TaskTracker,
    pub(crate) stopping: CancellationToken,
    /// Whether the host may call guests.
    pub(crate) election: LeaderElection,
    /// How long an instance is kept warm without a call.
    pub(crate) idle_ttl: Duration,
    guests: Handle,
    current: ArcSwapOption<Generation>,
    /// Numbers handed out to generations, those that failed to load included.
    last_number: AtomicU64,
    /// The plugin that had this name before, until its calls have ended.
    predecessor: Mutex<Option<Arc<Self>>>,
    workers: AtomicU32,
    /// Workers that wait for a key.
    standing_by: AtomicU32,
    worker_zero: AtomicBool,
    calls: AtomicU64,
    faults_in_a_row: AtomicU32,
    /// Woken when a load ends, well or badly, or the plugin stops.
    released: Notify,
    condition: Mutex<Condition>,
    /// Held while one generation takes over from another, or while the plugin is retired.
    handover: Mutex<()>,
}

/// A generation took over.
pub(crate) struct Switched {
    /// Number of the one before, if there was one.
    pub(crate) before: Option<u64>,
}

#[derive(Default)]
struct Condition {
    loading: bool,
    digest: String,
    last_error: Option<String>,
    /// Why the files in the directory cannot be used; outlives what else happens until they change.
    file_error: Option<String>,
    /// Why what `spec.configFrom` names cannot be used; outlives what else happens until it can, or the files change.
    config_error: Option<String>,
    quarantined_until: Option<Instant>,
}

impl Plugin {
    /// A new plugin; `predecessor` had the name before and may still have calls in flight.
    pub(crate) fn new(
        name: &str,
        home: &HostContext,
        metrics: &Metrics,
        predecessor: Option<Arc<Self>>,
    ) -> Arc<Self> {
        let HostContext { guests, io, election, idle_ttl, host, host_events } = home.clone();
        let limiter = PluginLimiter::default();
        let queue = Queue::builder().name(name).rate_limiter(limiter.clone()).build();
        let name = Arc::from(name);
        let standby = !election.was_elected();
        let gate = if standby {
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
            stopping: CancellationToken::new(),
            election,
            idle_ttl,
            guests,
            current: ArcSwapOption::empty(),
            last_number: AtomicU64::new(predecessor.as_ref().map_or(0, |p| p.last_number.load(Relaxed))),
            predecessor: Mutex::new(predecessor),
            workers: AtomicU32::new(0),
            standing_by: AtomicU32::new(0),
            worker_zero: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            faults_in_a_row: AtomicU32::new(0),
            released: Notify::new(),
            condition: Mutex::default(),
            handover: Mutex::default(),
        });
        if standby {
            plugin.spawn(stand_by(Arc::clone(&plugin)));
        }
        plugin
    }

    /// The memory of what went away turns if it is `due`, and whatever has grown too large.
    fn turn(&self, due: bool) {
        if due {
            self.gate.rotate();
        }
        if let Some(generation) = self.current() {
            generation.turn(due);
        }
    }

    /// The host begins to work: opens the gate, then adds what is remembered, then what the caches show. A change goes
    /// through the open gate or is in the cache by then; a generation that takes over later adds what is its own.
    fn take_over(&self) {
        let _handover = self.handover.lock();
        let began = Instant::now();
        let Some(remembered) = self.gate.open() else { return };
        let shown = self.current().map_or(0, |generation| generation.add_all());
        tracing::info!(plugin = &*self.name, remembered, shown, took = ?began.elapsed(), "keys queued at the start of the term");
    }

    /// A number for a new generation.
    pub(crate) fn next_number(&self) -> u64 {
        self.last_number.fetch_add(1, Relaxed) + 1
    }

    pub(crate) fn current(&self) -> Option<Arc<Generation>> {
        self.current.load_full()
    }

    /// Makes a generation the current one and feeds it in place of the one before, whose number is given back. Calls in
    /// flight end on theirs; keys in backoff are tried at once. Nothing happens when `cancelled` says so by now, or when the
    /// plugin is being removed.
    pub(crate) fn switch(
        self: &Arc<Self>,
        next: Arc<Generation>,
        io: &Handle,
        cancelled: &CancellationToken,
    ) -> Option<Switched> {
        let _handover = self.handover.lock();
        if cancelled.is_cancelled() || self.stopping.is_cancelled() {
            return None;
        }
        self.metrics.max_concurrent.set(i64::from(next.max_concurrent));
        self.metrics.generation.set(i64::try_from(next.number).unwrap_or(i64::MAX));
        self.limiter.replace(&next.description.rate_limiter);
        self.events.speak_as(next.number, next.imports.api_calls.client.clone(), next.event_qps);
        let before = self.current.swap(Some(Arc::clone(&next)));
        // A note that the one before still makes of what only it watched is lost with it.
        self.writes.watch_only(&next.imports.caches().map(|(id, _)| id).collect::<Vec<_>>());
        {
            let mut condition = self.condition.lock();
            condition.loading = false;
            condition.digest = next.code.digest().to_owned();
            condition.last_error = None;
            condition.quarantined_until = None;
        }
        self.faults_in_a_row.store(0, Relaxed);
        self.queue.release_backoff();
        next.start(self, before.as_ref(), io);
        // Last: a pump that rests finds out when it wakes that it has been replaced.
        self.released.notify_waiters();
        Some(Switched { before: before.map(|generation| generation.number) })
    }

    /// Ends the plugin: no new calls, nothing feeds it any more; calls in flight go on.
    pub(crate) fn retire(&self) {
        let _handover = self.handover.lock();
        self.stopping.cancel();
        self.queue.shut_down();
        self.released.notify_waiters();
        if let Some(generation) = self.current.swap(None) {
            generation.stop();
        }
        self.tasks.close();
    }

    /// Starts the worker that waits for keys, unless it runs already.
    pub(crate) fn start_workers(self: &Arc<Self>) {
        if !self.worker_zero.swap(true, Relaxed) {
            self.workers.fetch_add(1, Relaxed);
            self.spawn(worker::wait_for_keys(Arc::clone(self)));
        }
    }

    /// Waits for a key; who does so is counted as standing by.
    pub(crate) async fn next_key(&self) -> Option<Item<ObjectKey, Reasons>> {
        struct StandingBy<'a>(&'a AtomicU32);
        impl Drop for StandingBy<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Relaxed);
            }
        }
        self.standing_by.fetch_add(1, Relaxed);
        let _counted = StandingBy(&self.standing_by);
        self.queue.get().await
    }

    /// A worker is about to call: starts one more to stand by for keys that come meanwhile, unless one does or the
    /// generation's limit is reached.
    pub(crate) fn reinforce(self: &Arc<Self>, max: u32) {
        let running = self.workers.load(Relaxed);
        if running >= max || self.standing_by.load(Relaxed) > 0 {
            return;
        }
        if self.workers.compare_exchange(running, running + 1, Relaxed, Relaxed).is_ok() {
            self.spawn(worker::help(Arc::clone(self)));
        }
    }

    pub(crate) fn worker_left(&self) {
        self.workers.fetch_sub(1, Relaxed);
    }

    pub(crate) fn workers(&self) -> u32 {
        self.workers.load(Relaxed)
    }

    /// Runs a task of this plugin on the guest runtime.
    pub(crate) fn spawn<F>(&self, task: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.tasks.spawn_on(task, &self.guests)
    }

    pub(crate) fn count_call(&self) {
        self.calls.fetch_add(1, Relaxed);
    }

    /// A call came back with an answer, good or bad.
    pub(crate) fn answered(&self) {
        // Read first: the line is shared between workers and nearly always zero.
        if self.faults_in_a_row.load(Relaxed) != 0 {
            self.faults_in_a_row.store(0, Relaxed);
            self.condition.lock().quarantined_until = None;
        }
    }

    /// A call faulted; after many in a row the plugin rests for a while.
    pub(crate) fn faulted(&self, error: &str) {
        let faults = self.faults_in_a_row.fetch_add(1, Relaxed) + 1;
        let rest = faults.checked_sub(FAULTS_TO_QUARANTINE).map(|beyond| {
            let doublings = beyond.min(16);
            QUARANTINE.0.saturating_mul(1 << doublings).min(QUARANTINE.1)
        });
        {
            let mut condition = self.condition.lock();
            condition.last_error = Some(error.to_owned());
            if let Some(rest) = rest {
                condition.quarantined_until = Some(Instant::now() + rest);
            }
        }
        if let Some(rest) = rest {
            self.reporter.quarantined(faults, rest, error);
            tracing::warn!(
                plugin = &*self.name,
                "plugin quarantined after {faults} faults in a row; next call in {rest:?}, or at once with a new version"
            );
        }
    }

    /// Waits out a quarantine, if there is one; a new generation or the end of the plugin ends it at once.
    pub(crate) async fn quarantine_pause(&self) {
        if self.faults_in_a_row.load(Relaxed) < FAULTS_TO_QUARANTINE {
            return;
        }
        loop {
            let released = self.released.notified();
            let until = self.condition.lock().quarantined_until;
            let Some(until) = until.filter(|until| *until > Instant::now()) else { return };
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                () = released => {}
                () = self.stopping.cancelled() => return,
            }
        }
    }

    /// A load began.
    pub(crate) fn set_loading(&self) {
        let mut condition = self.condition.lock();
        condition.loading = true;
        condition.file_error = None;
        condition.config_error = None;
    }

    /// The configuration cannot be had; the generation before, if any, goes on. Nothing happens when `cancelled` says that the
    /// files have changed by now.
    pub(crate) fn config_broken(&self, error: Unusable, cancelled: &CancellationToken) {
        {
            let mut condition = self.condition.lock();
            // Under the lock: what a change of the files takes back must not come after it.
            if cancelled.is_cancelled() {
                return;
            }
            condition.loading &= error.waits;
            self.reporter.failed(&error.message, self.current().map(|generation| generation.number));
            condition.config_error = Some(error.message);
        }
        self.released.notify_waiters();
    }

    /// The configuration can be had, and whether a load begins with it; `cancelled` as above.
    pub(crate) fn config_there(&self, loads: bool, cancelled: &CancellationToken) {
        let mut condition = self.condition.lock();
        if !cancelled.is_cancelled() {
            condition.loading |= loads;
            condition.config_error = None;
        }
    }

    /// The files cannot be used; the generation before, if any, goes on.
    pub(crate) fn files_broken(&self, error: String) {
        self.reporter.failed(&error, self.current().map(|generation| generation.number));
        self.condition.lock().file_error = Some(error);
        self.released.notify_waiters();
    }

    /// Waits until no call of a removed plugin of the same name is under way: its keys are ours now.
    pub(crate) async fn await_predecessor(&self) {
        let predecessor = self.predecessor.lock().clone();
        if let Some(predecessor) = predecessor {
            predecessor.ended().await;
            *self.predecessor.lock() = None;
        }
    }

    /// Waits until nothing of this plugin, which was retired, is under way any more, nor of those that had its name before.
    pub(crate) async fn ended(self: &Arc<Self>) {
        let mut next = Some(Arc::clone(self));
        while let Some(plugin) = next {
            plugin.tasks.wait().await;
            next = plugin.predecessor.lock().clone();
        }
    }

    /// Waits until the plugin has a generation, or was found not to be loadable, or is removed.
    pub(crate) async fn loaded(&self) {
        loop {
            let released = self.released.notified();
            // One that waits for its configuration may wait for long, and is no reason for the host not to be ready.
            let waits = self.condition.lock().config_error.is_some();
            if waits || self.status().state != PluginState::Loading {
                return;
            }
            released.await;
        }
    }

    /// What stands in the way of the load under way, or of the running generation.
    pub(crate) fn set_error(&self, error: Option<String>) {
        self.condition.lock().last_error = error;
    }

    /// A load failed; the generation before, if any, goes on.
    pub(crate) fn load_failed(&self, error: String) {
        self.reporter.failed(&error, self.current().map(|generation| generation.number));
        {
            let mut condition = self.condition.lock();
            condition.loading = false;
            condition.last_error = Some(error);
        }
        self.released.notify_waiters();
    }

    /// How the plugin fares.
    pub(crate) fn status(&self) -> PluginStatus {
        let current = self.current();
        let condition = self.condition.lock();
        let state = if self.stopping.is_cancelled() {
            PluginState::Draining
        } else if condition.quarantined_until.is_some_and(|until| until > Instant::now()) {
            PluginState::Quarantined
        } else if current.is_some() {
            PluginState::Running
        } else if condition.loading {
            PluginState::Loading
        } else {
            PluginState::Failed
        };
        PluginStatus {
            name: self.name.to_string(),
            generation: current.as_ref().map_or(0, |g| g.number),
            digest: condition.digest.clone(),
            state,
            last_error: [&condition.file_error, &condition.config_error, &condition.last_error]
                .into_iter()
                .find_map(Clone::clone),
            calls: self.calls.load(Relaxed),
            queue_depth: self.queue.len(),
        }
    }
}

/// Keeps the memory of a plugin short while the host stands by, and fills the queue when the term begins.
async fn stand_by(plugin: Arc<Plugin>) {
    let keep = plugin.election.tombstone_lifetime();
    let mut turns = RotationSchedule::new(keep);
    let look = keep / LOOKS;
    loop {
        tokio::select! {
            biased;
            () = plugin.stopping.cancelled() => return,
            () = plugin.election.wait_until_elected() => break,
            () = tokio::time::sleep(look) => plugin.turn(turns.is_due(plugin.election.leader_at_work())),
        }
    }
    // Caches may be large.
    let _ = tokio::task::spawn_blocking(move || plugin.take_over()).await;
}

#[cfg(test)]
mod tests;
