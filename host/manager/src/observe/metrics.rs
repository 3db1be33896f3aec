//! [`Metrics`]: what `/metrics` shows, under the names that dashboards of controller-runtime and client-go know.
//!
//! Nothing is held for a scrape: the numbers of a plugin are atomics in one place ([`PluginMetrics`]), and they and the
//! figures that others keep anyway (queues, informers, process) are read when a scrape comes. A plugin's series go with it.
//! Labels call a run of a plugin elsewhere than at home `PLUGIN@CLUSTER`, and it has the label `cluster` too.

pub(crate) mod atomics;
mod clusters;
pub(crate) mod cpu;
pub(crate) mod election;
pub(crate) mod events;
pub(crate) mod exec;
pub(crate) mod guest;
pub(crate) mod http;
pub(crate) mod informers;
mod labels;
pub(crate) mod of_plugin;
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
use pilothouse_executor::Group;
use pilothouse_object::ObjectKey;
use pilothouse_workqueue::Queue;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::dispatch::reasons::Reasons;
use crate::imports::guest_events::PluginEvents;
use crate::leader_election::LeaderElection;
use crate::lifecycle::plugin::Plugin;
use crate::manager::Cluster;
use crate::observe::heartbeat;
use crate::observe::host_events::HostEvents;
use crate::observe::metrics::cpu::{Account, Accounts, HostTime};
use crate::observe::metrics::events::AllEvents;
use crate::observe::metrics::exec::ExecMetrics;
use crate::observe::metrics::guest::AllGuestMetrics;
use crate::observe::metrics::labels::{ClusterLabel, RunLabels};
use crate::observe::metrics::of_plugin::AllPluginMetrics;
pub(crate) use crate::observe::metrics::of_plugin::PluginMetrics;
use crate::observe::metrics::queues::Queues;
use crate::observe::metrics::rest::RestMetrics;

/// All metrics of a host; a cheap clone.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Mutex<Registry>,
    plugins: AllPluginMetrics,
    queues: Queues,
    accounts: Accounts,
    events: AllEvents,
    guests: AllGuestMetrics,
    remembered: Family<RunLabels, Gauge>,
    io_stalls: Histogram,
    rest: RestMetrics,
    exec: ExecMetrics,
}

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
        let mut registry = Registry::default();
        let plugins = AllPluginMetrics::default();
        let queues = Queues::default();
        let accounts = Accounts::default();
        let events = AllEvents::default();
        let guests = AllGuestMetrics::default();
        let remembered = Family::default();
        registry.register(
            "pilothouse_standby_remembered_keys",
            "Keys of recent deletions, which a standby keeps for the start of its term",
            remembered.clone(),
        );
        let io_stalls = Histogram::new(heartbeat::STALLS.iter().copied());
        registry.register_with_unit(
            "pilothouse_io_stall",
            "How late tasks of the runtime of watches ran, sampled every 10 ms",
            Unit::Seconds,
            io_stalls.clone(),
        );
        let rest = RestMetrics::register(&mut registry);
        let exec = ExecMetrics::new();
        exec.register(&mut registry);
        of_plugin::register(&mut registry, &plugins);
        queues::register(&mut registry, &queues);
        cpu::register(&mut registry, &accounts);
        registry.register_collector(events::of_plugins(Arc::clone(&events)));
        registry.register_collector(Box::new(guests.clone()));
        registry.register_collector(Box::new(process::ProcessCollector));
        let registry = Mutex::new(registry);
        Self(Arc::new(Inner {
            registry,
            plugins,
            queues,
            accounts,
            events,
            guests,
            remembered,
            io_stalls,
            rest,
            exec,
        }))
    }

    /// Measures how late the tasks of the runtime are that polls this, for ever.
    pub fn watch_this_runtime(&self) -> impl Future<Output = ()> + Send + use<> {
        heartbeat::beat(self.0.io_stalls.clone())
    }

    /// Shows the informers of clusters too, and whether those beside the home cluster answer.
    pub(crate) fn watch_clusters<'a>(&self, clusters: impl Iterator<Item = &'a Arc<Cluster>>) {
        let clusters: Vec<_> = clusters.cloned().collect();
        let factories = clusters.iter().map(|cluster| (cluster.name(), cluster.loader.factory.clone()));
        self.watch_informers(factories);
        let others = clusters.iter().filter(|cluster| cluster.name().is_some()).cloned().collect();
        self.0.registry.lock().register_collector(clusters::clusters(others));
    }

    /// Shows the informers of these factories, each with the name of its cluster.
    fn watch_informers<'a>(&self, factories: impl Iterator<Item = (Option<&'a str>, SharedInformerFactory)>) {
        let factories = factories.map(|(name, factory)| (ClusterLabel(name.map(Arc::from)), factory));
        self.0.registry.lock().register_collector(informers::informers(factories.collect()));
    }

    /// Shows the plugins that `all` answers too.
    pub(crate) fn watch_plugins(&self, all: impl Fn() -> Vec<Arc<Plugin>> + Clone + Send + Sync + 'static) {
        plugins::register(&mut self.0.registry.lock(), all);
    }

    /// Shows how this host takes part with others too; nothing without an election.
    pub(crate) fn watch_election(&self, leader: &LeaderElection) {
        let collectors = election::collectors(leader);
        let mut registry = self.0.registry.lock();
        collectors.into_iter().for_each(|collector| registry.register_collector(collector));
    }

    /// The numbers of a plugin: those of its name, where a plugin comes after another one.
    pub(crate) fn plugin(
        &self,
        name: &Arc<str>,
        queue: &Queue<ObjectKey, Reasons>,
        group: &Group,
    ) -> Arc<PluginMetrics> {
        let m = &self.0;
        m.queues.lock().insert(name.to_string(), queue.clone());
        let host_time = m.account(name, group);
        let new = || Arc::new(PluginMetrics::new(host_time, m.guests.of(name)));
        Arc::clone(m.plugins.lock().entry(Arc::clone(name)).or_insert_with(new))
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
        self.0.remembered.get_or_create(&RunLabels::new("plugin", name)).clone()
    }

    /// Drops a plugin's series.
    pub(crate) fn remove(&self, name: &str) {
        let m = &self.0;
        m.plugins.lock().remove(name);
        m.queues.lock().remove(name);
        m.accounts.lock().remove(name);
        m.events.lock().remove(name);
        m.guests.remove(name);
        m.remembered.remove(&RunLabels::new("plugin", name));
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
    use pilothouse_engine::{FaultKind, HttpObserver as _, HttpResult};
    use pilothouse_executor::Executor;

    use super::*;

    #[tokio::test]
    async fn a_plugin_s_series_have_the_names_dashboards_know_and_go_with_it() {
        let metrics = Metrics::new();
        let queue = Queue::builder().name("p").build();
        let plugin = metrics.plugin(&"p".into(), &queue, &Executor::on_current_runtime().group());
        plugin.success.inc();
        plugin.fault(FaultKind::Cpu);
        plugin.reconcile_time.observe(0.1);
        plugin.read_waits.observe(0.1);
        plugin.read_timeouts.inc();
        plugin.request(HttpResult::Status(429));
        plugin.moved(3, 4);
        plugin.worked(Duration::from_secs(1));
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
