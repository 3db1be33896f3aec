//! [`PluginMetrics`]: the numbers of one plugin in one allocation, and the tables by which a scrape shows them.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_engine::FaultKind;
use prometheus_client::registry::Registry;

use super::atomics::{AtomicCounter, AtomicGauge, AtomicHistogram};
use super::cpu::HostTime;
use super::guest::GuestMetrics;
use super::http::{self, HttpCounters};
use super::labels::RunLabels;
use super::scraped::{Figure, Scraped, Spread, Value};
use crate::observe::denials::Denied;
use crate::observe::warnings::DataLimit;

/// Seconds; controller-runtime's buckets.
const RECONCILE: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0,
];
/// Seconds.
const WAKE: [f64; 12] = [2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 5e-2, 0.1, 1.0];
/// Seconds, up to the longest wait.
const CATCH_UP: [f64; 10] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0];

/// All kinds, in the order of their declaration.
pub(crate) const FAULTS: [FaultKind; 10] = [
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

/// The plugins by their names. Plugins that have a name one after the other have their numbers in common.
pub(crate) type AllPluginMetrics = Arc<Mutex<BTreeMap<Arc<str>, Arc<PluginMetrics>>>>;

/// The numbers of one plugin.
pub(crate) struct PluginMetrics {
    pub(crate) success: AtomicCounter,
    pub(crate) error: AtomicCounter,
    pub(crate) requeue: AtomicCounter,
    pub(crate) requeue_after: AtomicCounter,
    pub(crate) errors: AtomicCounter,
    pub(crate) terminal: AtomicCounter,
    pub(crate) reconcile_time: AtomicHistogram<{ RECONCILE.len() + 1 }>,
    pub(crate) active_workers: AtomicGauge,
    pub(crate) max_concurrent: AtomicGauge,
    /// In the order of [`FAULTS`].
    faults: [AtomicCounter; FAULTS.len()],
    /// Objects beyond a data limit, in the order of [`DataLimit::ALL`].
    pub(crate) limits_exceeded: [AtomicCounter; DataLimit::ALL.len()],
    /// What the guest was denied, in the order of [`Denied::ALL`].
    pub(crate) denied: [AtomicCounter; Denied::ALL.len()],
    pub(crate) generation: AtomicGauge,
    /// Quarantines begun or extended, and rollbacks.
    pub(crate) quarantines: AtomicCounter,
    pub(crate) rollbacks: AtomicCounter,
    /// Panics of the host in tasks of the plugin.
    pub(crate) panics: AtomicCounter,
    pub(crate) handled: AtomicCounter,
    pub(crate) failed_events: AtomicCounter,
    pub(crate) instantiations: AtomicCounter,
    pub(crate) instantiate_time: AtomicHistogram<{ WAKE.len() + 1 }>,
    /// Waits of reconciles for the cache to show the plugin's own writes, and those that were in vain.
    pub(crate) read_waits: AtomicHistogram<{ CATCH_UP.len() + 1 }>,
    pub(crate) read_timeouts: AtomicCounter,
    /// Writes that were not sent because the term of the plugin was over.
    pub(crate) late_writes: AtomicCounter,
    /// Writes that were sent in the term of the plugin and answered after it.
    pub(crate) outlived_writes: AtomicCounter,
    /// Requests of the guest over `wasi:http`.
    pub(super) http: HttpCounters,
    /// Time that the host works for the plugin.
    pub(crate) host_time: HostTime,
    /// What the guest declares itself.
    pub(crate) guest: Arc<GuestMetrics>,
}

impl PluginMetrics {
    /// Those of a plugin that no scrape shows, for tests and the benchmark of dispatch.
    #[cfg(any(test, feature = "bench"))]
    pub(crate) fn of_test() -> Arc<Self> {
        Arc::new(Self::new(HostTime::default(), Arc::default()))
    }

    pub(super) fn new(host_time: HostTime, guest: Arc<GuestMetrics>) -> Self {
        Self {
            success: AtomicCounter::default(),
            error: AtomicCounter::default(),
            requeue: AtomicCounter::default(),
            requeue_after: AtomicCounter::default(),
            errors: AtomicCounter::default(),
            terminal: AtomicCounter::default(),
            reconcile_time: AtomicHistogram::new(&RECONCILE),
            active_workers: AtomicGauge::default(),
            max_concurrent: AtomicGauge::default(),
            faults: Default::default(),
            limits_exceeded: Default::default(),
            denied: Default::default(),
            generation: AtomicGauge::default(),
            quarantines: AtomicCounter::default(),
            rollbacks: AtomicCounter::default(),
            panics: AtomicCounter::default(),
            handled: AtomicCounter::default(),
            failed_events: AtomicCounter::default(),
            instantiations: AtomicCounter::default(),
            instantiate_time: AtomicHistogram::new(&WAKE),
            read_waits: AtomicHistogram::new(&CATCH_UP),
            read_timeouts: AtomicCounter::default(),
            late_writes: AtomicCounter::default(),
            outlived_writes: AtomicCounter::default(),
            http: HttpCounters::default(),
            host_time,
            guest,
        }
    }

    pub(crate) fn fault(&self, kind: FaultKind) {
        self.faults[kind as usize].inc();
    }

    /// Number of faults of this kind.
    pub(crate) fn faults(&self, kind: FaultKind) -> u64 {
        self.faults[kind as usize].get()
    }
}

type Row = Arc<PluginMetrics>;

const fn counter(name: &'static str, help: &'static str, read: fn(&Row) -> u64) -> Figure<Row> {
    Figure { name, help, value: Value::Counter(read) }
}

const fn gauge(name: &'static str, help: &'static str, read: fn(&Row) -> i64) -> Figure<Row> {
    Figure { name, help, value: Value::Int(read) }
}

const fn histogram(name: &'static str, help: &'static str, read: fn(&Row) -> Spread) -> Figure<Row> {
    Figure { name, help, value: Value::Histogram(read) }
}

const fn parts(name: &'static str, help: &'static str) -> [Figure<u64>; 1] {
    [Figure { name, help, value: Value::Counter(|count| *count) }]
}

/// With the label `controller`.
static OF_CONTROLLER: [Figure<Row>; 10] = [
    counter("controller_runtime_reconcile_errors", "Reconciles that failed", |m| m.errors.get()),
    counter(
        "controller_runtime_terminal_reconcile_errors",
        "Reconciles that failed with a terminal error",
        |m| m.terminal.get(),
    ),
    histogram("controller_runtime_reconcile_time_seconds", "Duration of a reconcile", |m| {
        m.reconcile_time.spread()
    }),
    gauge("controller_runtime_active_workers", "Running reconciles", |m| m.active_workers.get()),
    gauge("controller_runtime_max_concurrent_reconciles", "Maximum of concurrent reconciles", |m| {
        m.max_concurrent.get()
    }),
    gauge("pilothouse_plugin_generation", "Number of the running generation", |m| m.generation.get()),
    counter("pilothouse_events_handled", "Events given to event handlers", |m| m.handled.get()),
    counter("pilothouse_events_failed", "Events that event handlers answered with a failure", |m| {
        m.failed_events.get()
    }),
    counter("pilothouse_instantiations", "Instances made", |m| m.instantiations.get()),
    histogram(
        "pilothouse_instantiate_time_seconds",
        "Time to make an instance, mapping an unloaded component included",
        |m| m.instantiate_time.spread(),
    ),
];

/// With the label `plugin`.
static OF_PLUGIN: [Figure<Row>; 7] = [
    counter("pilothouse_plugin_quarantines", "Quarantines that began or were extended", |m| {
        m.quarantines.get()
    }),
    counter("pilothouse_plugin_rollbacks", "Rollbacks to an earlier generation", |m| m.rollbacks.get()),
    counter(
        "pilothouse_plugin_task_panics",
        "Panics of the host in a task of the plugin, which are bugs of the host",
        |m| m.panics.get(),
    ),
    histogram(
        "pilothouse_reads_after_writes_wait_seconds",
        "Time that reconciles waited for the cache to show the plugin's own writes",
        |m| m.read_waits.spread(),
    ),
    counter(
        "pilothouse_reads_after_writes_timeouts",
        "Reconciles that started although the cache did not show the plugin's own writes",
        |m| m.read_timeouts.get(),
    ),
    counter("pilothouse_late_writes", "Writes that were not sent because the term was over", |m| {
        m.late_writes.get()
    }),
    counter(
        "pilothouse_writes_outlived_term",
        "Writes that were sent before the end of the term and answered after it",
        |m| m.outlived_writes.get(),
    ),
];

static RECONCILES: [Figure<u64>; 1] = parts("controller_runtime_reconcile", "Reconciles by result");
static GUEST_FAULTS: [Figure<u64>; 1] =
    parts("pilothouse_guest_faults", "Calls that ended in a fault of the plugin");
static LIMITS_EXCEEDED: [Figure<u64>; 1] = parts(
    "pilothouse_data_limit_exceeded",
    "Times that an object of the cluster exceeded a data limit of the plugin",
);
static DENIED: [Figure<u64>; 1] = parts(
    "pilothouse_denied",
    "Calls and reads of the plugin that its manifest or its ServiceAccount does not allow",
);

/// A series for each result of reconciles.
fn by_result(m: &PluginMetrics) -> Vec<(&'static str, u64)> {
    let results = [
        ("success", &m.success),
        ("error", &m.error),
        ("requeue", &m.requeue),
        ("requeue_after", &m.requeue_after),
    ];
    results.map(|(result, count)| (result, count.get())).into()
}

/// A series for each kind of fault that there was.
fn by_fault(m: &PluginMetrics) -> Vec<(&'static str, u64)> {
    let faults = FAULTS.map(|kind| (kind.as_str(), m.faults(kind)));
    faults.into_iter().filter(|(_, count)| *count > 0).collect()
}

fn by_limit(m: &PluginMetrics) -> Vec<(&'static str, u64)> {
    DataLimit::ALL.map(|limit| (limit.name(), m.limits_exceeded[limit as usize].get())).into()
}

fn by_denial(m: &PluginMetrics) -> Vec<(&'static str, u64)> {
    Denied::ALL.map(|what| (what.name(), m.denied[what as usize].get())).into()
}

/// Shows the numbers of all plugins.
pub(crate) fn register(registry: &mut Registry, all: &AllPluginMetrics) {
    for (figures, label) in [(&OF_CONTROLLER[..], "controller"), (&OF_PLUGIN[..], "plugin")] {
        let all = Arc::clone(all);
        registry.register_collector(Scraped::new(figures, move || {
            let row =
                |(name, row): (&Arc<str>, &Row)| (RunLabels::new(label, Arc::clone(name)), Arc::clone(row));
            all.lock().iter().map(row).collect()
        }));
    }
    let mut by_part = |figures: &'static [Figure<u64>], labels: [&'static str; 2], values: PartValues| {
        registry.register_collector(Scraped::new(figures, of_parts(all, labels, values)));
    };
    by_part(&RECONCILES, ["controller", "result"], by_result);
    by_part(&GUEST_FAULTS, ["plugin", "kind"], by_fault);
    by_part(&LIMITS_EXCEEDED, ["plugin", "limit"], by_limit);
    by_part(&DENIED, ["plugin", "what"], by_denial);
    by_part(&http::REQUESTS, ["plugin", "result"], |m| m.http.by_result());
    let moved = Arc::clone(all);
    registry.register_collector(Scraped::new(&http::MOVED, move || {
        let all = moved.lock();
        let rows = all.iter().filter_map(|(name, row)| Some((name, row.http.moved()?)));
        rows.map(|(name, moved)| (RunLabels::new("plugin", Arc::clone(name)), moved)).collect()
    }));
}

/// Values of one label, each with what its series shows.
type PartValues = fn(&PluginMetrics) -> Vec<(&'static str, u64)>;

/// The name of the plugin, and another label.
type PartLabels = (RunLabels, [(&'static str, &'static str); 1]);

/// The series of all plugins with another label.
fn of_parts(
    all: &AllPluginMetrics,
    [plugin, part]: [&'static str; 2],
    values: PartValues,
) -> impl Fn() -> Vec<(PartLabels, u64)> + Send + Sync + 'static {
    let all = Arc::clone(all);
    move || {
        let of_plugin = |(name, row): (&Arc<str>, &Row)| {
            let run = RunLabels::new(plugin, Arc::clone(name));
            let labels = move |(value, shown)| ((run.clone(), [(part, value)]), shown);
            values(row).into_iter().map(labels)
        };
        all.lock().iter().flat_map(of_plugin).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_place() {
        for (place, kind) in FAULTS.into_iter().enumerate() {
            assert_eq!(kind as usize, place, "{kind:?}");
        }
    }

    /// What each of a thousand plugins costs, most of which do nothing.
    #[test]
    fn the_numbers_of_a_plugin_are_one_kilobyte() {
        assert!(size_of::<PluginMetrics>() <= 1024, "{}", size_of::<PluginMetrics>());
    }
}
