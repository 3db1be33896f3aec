//! [`Metrics`]: what `/metrics` shows, under the names that dashboards of controller-runtime and client-go know.
//!
//! Hot counters are handles taken once for each plugin. Figures that others keep anyway (queues, informers, process) are
//! read when a scrape comes, so they cost nothing in between. A plugin's series go with it.

pub(crate) mod cpu;
pub(crate) mod election;
pub(crate) mod events;
pub(crate) mod exec;
pub(crate) mod families;
pub(crate) mod guest;
pub(crate) mod http;
pub(crate) mod informers;
pub(crate) mod plugins;
mod process;
pub(crate) mod queues;
pub(crate) mod rest;
pub(crate) mod scraped;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_cache::SharedInformerFactory;
use pilothouse_client::{ExecPluginEvent, ObservedRequest, RequestObserver};
use pilothouse_election::ElectionStatus;
use pilothouse_engine::FaultKind;
use pilothouse_executor::Group;
use pilothouse_object::ObjectKey;
use pilothouse_workqueue::Queue;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::dispatch::reasons::Reasons;
use crate::imports::guest_events::PluginEvents;
use crate::lifecycle::plugin::Plugin;
use crate::observe::denials::Denied;
use crate::observe::heartbeat;
use crate::observe::host_events::HostEvents;
use crate::observe::metrics::cpu::{Account, Accounts, HostTime};
use crate::observe::metrics::events::AllEvents;
use crate::observe::metrics::exec::ExecMetrics;
use crate::observe::metrics::families::{PluginFamilies, Removals};
use crate::observe::metrics::guest::{AllGuestMetrics, GuestMetrics};
use crate::observe::metrics::http::{HttpMetrics, PluginHttpMetrics};
use crate::observe::metrics::queues::Queues;
use crate::observe::metrics::rest::RestMetrics;
use crate::observe::warnings::DataLimit;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Controller {
    controller: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerResult {
    controller: String,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginFault {
    plugin: String,
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginName {
    plugin: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginDenial {
    plugin: String,
    what: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginLimit {
    plugin: String,
    limit: &'static str,
}

/// How a histogram is divided.
#[derive(Clone, Copy)]
pub(crate) struct Buckets(pub(crate) &'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// Seconds; controller-runtime's buckets.
const RECONCILE: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0,
];
/// Seconds.
const WAKE: &[f64] = &[2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 5e-2, 0.1, 1.0];
/// Seconds, up to the longest wait.
const CATCH_UP: &[f64] = &[0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0];

/// All metrics of a host; a cheap clone.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Mutex<Registry>,
    removals: Removals,
    queues: Queues,
    accounts: Accounts,
    events: AllEvents,
    guests: AllGuestMetrics,
    reconciles: Family<ControllerResult, Counter>,
    errors: Family<Controller, Counter>,
    terminal: Family<Controller, Counter>,
    reconcile_time: Family<Controller, Histogram, Buckets>,
    active_workers: Family<Controller, Gauge>,
    max_concurrent: Family<Controller, Gauge>,
    faults: Family<PluginFault, Counter>,
    limits_exceeded: Family<PluginLimit, Counter>,
    denied: Family<PluginDenial, Counter>,
    generation: Family<Controller, Gauge>,
    quarantined: Family<PluginName, Gauge>,
    quarantines: Family<PluginName, Counter>,
    rollbacks: Family<PluginName, Counter>,
    panics: Family<PluginName, Counter>,
    handled: Family<Controller, Counter>,
    failed_events: Family<Controller, Counter>,
    instantiations: Family<Controller, Counter>,
    instantiate_time: Family<Controller, Histogram, Buckets>,
    read_waits: Family<PluginName, Histogram, Buckets>,
    read_timeouts: Family<PluginName, Counter>,
    remembered: Family<PluginName, Gauge>,
    io_stalls: Histogram,
    http: HttpMetrics,
    rest: RestMetrics,
    exec: ExecMetrics,
}

/// One plugin's handles.
#[derive(Clone)]
pub(crate) struct PluginMetrics {
    plugin: String,
    faults: Family<PluginFault, Counter>,
    pub(crate) success: Counter,
    pub(crate) error: Counter,
    pub(crate) requeue: Counter,
    pub(crate) requeue_after: Counter,
    pub(crate) errors: Counter,
    pub(crate) terminal: Counter,
    pub(crate) reconcile_time: Histogram,
    pub(crate) active_workers: Gauge,
    pub(crate) max_concurrent: Gauge,
    /// Objects beyond a data limit, in the order of [`DataLimit::ALL`].
    pub(crate) limits_exceeded: [Counter; 3],
    /// What the guest was denied, in the order of [`Denied::ALL`].
    pub(crate) denied: [Counter; 5],
    pub(crate) generation: Gauge,
    /// Quarantines begun or extended, and rollbacks.
    pub(crate) quarantines: Counter,
    pub(crate) rollbacks: Counter,
    /// Panics of the host in tasks of the plugin.
    pub(crate) panics: Counter,
    pub(crate) handled: Counter,
    pub(crate) failed_events: Counter,
    pub(crate) instantiations: Counter,
    pub(crate) instantiate_time: Histogram,
    /// Waits of reconciles for the cache to show the plugin's own writes, and those that were in vain.
    pub(crate) read_waits: Histogram,
    pub(crate) read_timeouts: Counter,
    /// Time that the host works for the plugin.
    pub(crate) host_time: HostTime,
    /// Requests of the guest over `wasi:http`.
    pub(crate) http: PluginHttpMetrics,
    /// What the guest declares itself.
    pub(crate) guest: Arc<GuestMetrics>,
}

impl PluginMetrics {
    pub(crate) fn fault(&self, kind: FaultKind) {
        let labels = PluginFault { plugin: self.plugin.clone(), kind: kind.as_str() };
        self.faults.get_or_create(&labels).inc();
    }

    /// Number of faults of this kind.
    pub(crate) fn faults(&self, kind: FaultKind) -> u64 {
        let labels = PluginFault { plugin: self.plugin.clone(), kind: kind.as_str() };
        self.faults.get_or_create(&labels).get()
    }
}

const RESULTS: [&str; 4] = ["success", "error", "requeue", "requeue_after"];
pub(super) const FAULTS: [FaultKind; 10] = [
    FaultKind::Trap,
    FaultKind::Cpu,
    FaultKind::Deadline,
    FaultKind::Waiting,
    FaultKind::Memory,
    FaultKind::Limit,
    FaultKind::Instantiate,
    FaultKind::HostBusy,
    FaultKind::CodeUnavailable,
    FaultKind::Answer,
];

impl Inner {
    /// The account of a plugin: the one of its name, where a plugin comes after another one.
    fn account(&self, name: &str, group: &Group) -> HostTime {
        let mut accounts = self.accounts.lock();
        let account = accounts.entry(name.to_owned()).or_insert_with(|| Account {
            group: group.clone(),
            host: HostTime::default(),
            shown: Arc::default(),
        });
        account.group = group.clone();
        account.host.clone()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        fn controller(name: &str) -> Vec<Controller> {
            vec![Controller { controller: name.to_owned() }]
        }
        fn plugin(name: &str) -> Vec<PluginName> {
            vec![PluginName { plugin: name.to_owned() }]
        }
        fn results(name: &str) -> Vec<ControllerResult> {
            RESULTS.map(|result| ControllerResult { controller: name.to_owned(), result }).into()
        }
        fn faults(name: &str) -> Vec<PluginFault> {
            FAULTS.map(|kind| PluginFault { plugin: name.to_owned(), kind: kind.as_str() }).into()
        }
        fn limits(name: &str) -> Vec<PluginLimit> {
            DataLimit::ALL.map(|limit| PluginLimit { plugin: name.to_owned(), limit: limit.name() }).into()
        }
        fn denials(name: &str) -> Vec<PluginDenial> {
            Denied::ALL.map(|what| PluginDenial { plugin: name.to_owned(), what: what.name() }).into()
        }
        let mut families = PluginFamilies::new();
        let f = &mut families;
        let queues = Queues::default();
        let accounts = Accounts::default();
        let events = AllEvents::default();
        let guests = AllGuestMetrics::default();
        let reconciles = f.family("controller_runtime_reconcile", "Reconciles by result", results);
        let errors = f.family("controller_runtime_reconcile_errors", "Reconciles that failed", controller);
        let terminal = f.family(
            "controller_runtime_terminal_reconcile_errors",
            "Reconciles that failed with a terminal error",
            controller,
        );
        let reconcile_time = f.seconds(
            "controller_runtime_reconcile_time",
            "Duration of a reconcile",
            Buckets(RECONCILE),
            controller,
        );
        let active_workers = f.family("controller_runtime_active_workers", "Running reconciles", controller);
        let max_concurrent = f.family(
            "controller_runtime_max_concurrent_reconciles",
            "Maximum of concurrent reconciles",
            controller,
        );
        let faults = f.family("pilothouse_guest_faults", "Calls that ended in a fault of the plugin", faults);
        let limits_exceeded = f.family(
            "pilothouse_data_limit_exceeded",
            "Times that an object of the cluster exceeded a data limit of the plugin",
            limits,
        );
        let denied = f.family(
            "pilothouse_denied",
            "Calls and reads of the plugin that its manifest or its ServiceAccount does not allow",
            denials,
        );
        let generation =
            f.family("pilothouse_plugin_generation", "Number of the running generation", controller);
        let quarantined =
            f.family("pilothouse_plugin_quarantined", "Whether the plugin is in quarantine", plugin);
        let quarantines =
            f.family("pilothouse_plugin_quarantines", "Quarantines that began or were extended", plugin);
        let rollbacks = f.family("pilothouse_plugin_rollbacks", "Rollbacks to an earlier generation", plugin);
        let panics = f.family(
            "pilothouse_plugin_task_panics",
            "Panics of the host in a task of the plugin, which are bugs of the host",
            plugin,
        );
        let handled = f.family("pilothouse_events_handled", "Events given to event handlers", controller);
        let failed_events = f.family(
            "pilothouse_events_failed",
            "Events that event handlers answered with a failure",
            controller,
        );
        let instantiations = f.family("pilothouse_instantiations", "Instances made", controller);
        let instantiate_time = f.seconds(
            "pilothouse_instantiate_time",
            "Time to make an instance, mapping an unloaded component included",
            Buckets(WAKE),
            controller,
        );
        let read_waits = f.seconds(
            "pilothouse_reads_after_writes_wait",
            "Time that reconciles waited for the cache to show the plugin's own writes",
            Buckets(CATCH_UP),
            plugin,
        );
        let read_timeouts = f.family(
            "pilothouse_reads_after_writes_timeouts",
            "Reconciles that started although the cache did not show the plugin's own writes",
            plugin,
        );
        let remembered = f.family(
            "pilothouse_standby_remembered_keys",
            "Keys of recent deletions, which a standby keeps for the start of its term",
            plugin,
        );
        let io_stalls = Histogram::new(heartbeat::STALLS.iter().copied());
        f.registry().register_with_unit(
            "pilothouse_io_stall",
            "How late tasks of the runtime of watches ran, sampled every 10 ms",
            Unit::Seconds,
            io_stalls.clone(),
        );
        let http = HttpMetrics::register(f);
        let rest = RestMetrics::register(f.registry());
        let exec = ExecMetrics::new();
        exec.register(f.registry());
        queues::register(f.registry(), &queues);
        cpu::register(f.registry(), &accounts);
        f.registry().register_collector(events::of_plugins(Arc::clone(&events)));
        f.registry().register_collector(Box::new(guests.clone()));
        f.registry().register_collector(Box::new(process::ProcessCollector));
        let (registry, removals) = families.finish();
        Self(Arc::new(Inner {
            registry: Mutex::new(registry),
            removals,
            queues,
            accounts,
            events,
            guests,
            reconciles,
            errors,
            terminal,
            reconcile_time,
            active_workers,
            max_concurrent,
            faults,
            limits_exceeded,
            denied,
            generation,
            quarantined,
            quarantines,
            rollbacks,
            panics,
            handled,
            failed_events,
            instantiations,
            instantiate_time,
            read_waits,
            read_timeouts,
            remembered,
            io_stalls,
            http,
            rest,
            exec,
        }))
    }

    /// Measures how late the tasks of the runtime are that polls this, for ever.
    pub fn watch_this_runtime(&self) -> impl Future<Output = ()> + Send + use<> {
        heartbeat::beat(self.0.io_stalls.clone())
    }

    /// Shows the informers of a factory too.
    pub(crate) fn watch_informers(&self, factory: SharedInformerFactory) {
        self.0.registry.lock().register_collector(informers::informers(factory));
    }

    /// Shows the plugins that `all` answers too.
    pub(crate) fn watch_plugins(&self, all: impl Fn() -> Vec<Arc<Plugin>> + Clone + Send + Sync + 'static) {
        plugins::register(&mut self.0.registry.lock(), all);
    }

    /// Shows an election too.
    pub(crate) fn watch_election(&self, election: ElectionStatus) {
        self.0.registry.lock().register_collector(election::election(election));
    }

    pub(crate) fn plugin(
        &self,
        name: &str,
        queue: &Queue<ObjectKey, Reasons>,
        group: &Group,
    ) -> PluginMetrics {
        let m = &self.0;
        m.queues.lock().insert(name.to_owned(), queue.clone());
        let host_time = m.account(name, group);
        let controller = Controller { controller: name.to_owned() };
        let plugin = PluginName { plugin: name.to_owned() };
        let result = |result| {
            m.reconciles.get_or_create(&ControllerResult { controller: name.to_owned(), result }).clone()
        };
        PluginMetrics {
            plugin: name.to_owned(),
            faults: m.faults.clone(),
            success: result(RESULTS[0]),
            error: result(RESULTS[1]),
            requeue: result(RESULTS[2]),
            requeue_after: result(RESULTS[3]),
            errors: m.errors.get_or_create(&controller).clone(),
            terminal: m.terminal.get_or_create(&controller).clone(),
            reconcile_time: m.reconcile_time.get_or_create(&controller).clone(),
            active_workers: m.active_workers.get_or_create(&controller).clone(),
            max_concurrent: m.max_concurrent.get_or_create(&controller).clone(),
            limits_exceeded: DataLimit::ALL.map(|limit| {
                let labels = PluginLimit { plugin: name.to_owned(), limit: limit.name() };
                m.limits_exceeded.get_or_create(&labels).clone()
            }),
            denied: Denied::ALL.map(|what| {
                let labels = PluginDenial { plugin: name.to_owned(), what: what.name() };
                m.denied.get_or_create(&labels).clone()
            }),
            generation: m.generation.get_or_create(&controller).clone(),
            quarantines: m.quarantines.get_or_create(&plugin).clone(),
            rollbacks: m.rollbacks.get_or_create(&plugin).clone(),
            panics: m.panics.get_or_create(&plugin).clone(),
            handled: m.handled.get_or_create(&controller).clone(),
            failed_events: m.failed_events.get_or_create(&controller).clone(),
            instantiations: m.instantiations.get_or_create(&controller).clone(),
            instantiate_time: m.instantiate_time.get_or_create(&controller).clone(),
            read_waits: m.read_waits.get_or_create(&plugin).clone(),
            read_timeouts: m.read_timeouts.get_or_create(&plugin).clone(),
            http: m.http.plugin(name, host_time.clone()),
            host_time,
            guest: m.guests.of(name),
        }
    }

    /// Shows what becomes of the host's own events.
    pub(crate) fn watch_host_events(&self, events: HostEvents) {
        self.0.registry.lock().register_collector(events::of_the_host(events));
    }

    /// Shows what becomes of a plugin's events.
    pub(crate) fn watch_events(&self, name: &str, events: Arc<PluginEvents>) {
        self.0.events.lock().insert(name.to_owned(), events);
    }

    /// Keys that a plugin of a standby remembers.
    pub(crate) fn remembered(&self, name: &str) -> Gauge {
        self.0.remembered.get_or_create(&PluginName { plugin: name.to_owned() }).clone()
    }

    /// Whether a plugin is in quarantine.
    pub(crate) fn quarantined(&self, name: &str) -> Gauge {
        self.0.quarantined.get_or_create(&PluginName { plugin: name.to_owned() }).clone()
    }

    /// Drops a plugin's series.
    pub(crate) fn remove(&self, name: &str) {
        let m = &self.0;
        m.queues.lock().remove(name);
        m.accounts.lock().remove(name);
        m.events.lock().remove(name);
        m.guests.remove(name);
        m.removals.remove(name);
    }

    /// The Prometheus (OpenMetrics) text.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.0.registry.lock());
        text
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl RequestObserver for Metrics {
    fn request(&self, request: &ObservedRequest<'_>) {
        self.0.rest.request(request);
    }

    fn rate_limited(&self, method: &str, host: &str, waited: Duration) {
        self.0.rest.rate_limited(method, host, waited);
    }

    fn retried(&self, method: &str, host: &str, code: u16) {
        self.0.rest.retried(method, host, code);
    }

    fn exec_plugin(&self, event: &ExecPluginEvent) {
        self.0.exec.observe(event);
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_engine::{HttpObserver as _, HttpResult};
    use pilothouse_executor::Executor;

    use super::*;

    #[tokio::test]
    async fn a_plugin_s_series_have_the_names_dashboards_know_and_go_with_it() {
        let metrics = Metrics::new();
        let queue = Queue::builder().name("p").build();
        let plugin = metrics.plugin("p", &queue, &Executor::on_current_runtime().group());
        plugin.success.inc();
        plugin.fault(FaultKind::Cpu);
        plugin.reconcile_time.observe(0.1);
        plugin.read_waits.observe(0.1);
        plugin.read_timeouts.inc();
        plugin.http.request(HttpResult::Status(429));
        plugin.http.moved(3, 4);
        plugin.http.worked(Duration::from_secs(1));
        plugin.host_time.add_imports(Duration::from_secs(2));
        plugin.host_time.add_elsewhere(Duration::from_secs(3));
        queue.add("a".parse().unwrap());
        queue.add("b".parse().unwrap());
        queue.try_get().unwrap();
        let text = metrics.encode();
        for line in [
            "controller_runtime_reconcile_total{controller=\"p\",result=\"success\"} 1",
            "controller_runtime_reconcile_time_seconds_count{controller=\"p\"} 1",
            "workqueue_depth{name=\"p\",controller=\"p\",priority=\"0\"} 1",
            "workqueue_adds_total{name=\"p\",controller=\"p\"} 2",
            "workqueue_retries_total{name=\"p\",controller=\"p\"} 0",
            "workqueue_delayed{name=\"p\",controller=\"p\"} 0",
            "workqueue_queue_duration_seconds_count{name=\"p\",controller=\"p\"} 1",
            "workqueue_queue_duration_seconds_bucket{le=\"+Inf\",name=\"p\",controller=\"p\"} 1",
            "workqueue_work_duration_seconds_count{name=\"p\",controller=\"p\"} 0",
            "workqueue_longest_running_processor_seconds{name=\"p\",controller=\"p\"}",
            "pilothouse_reads_after_writes_wait_seconds_count{plugin=\"p\"} 1",
            "pilothouse_reads_after_writes_timeouts_total{plugin=\"p\"} 1",
            "pilothouse_guest_http_requests_total{plugin=\"p\",result=\"4xx\"} 1",
            "pilothouse_guest_http_sent_bytes_total{plugin=\"p\"} 3",
            "pilothouse_guest_http_received_bytes_total{plugin=\"p\"} 4",
            "pilothouse_guest_faults_total{plugin=\"p\",kind=\"cpu\"} 1",
            "pilothouse_plugin_cpu_seconds_total{plugin=\"p\",part=\"guest\"} 0.0",
            "pilothouse_plugin_cpu_seconds_total{plugin=\"p\",part=\"host\"} 6.0",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        metrics.remove("p");
        let left = metrics.encode();
        assert!(!left.contains("\"p\""), "{left}");
    }
}
