//! [`Rates`]: what the plugins of a host did between two answers of it. Pure: called by [`super::Top`] for each interval.

use std::cmp::Ordering;
use std::collections::HashMap;

use clap::ValueEnum;
use pilothouse_manager::{PluginState, PluginUsage, Usage, UsageList};
use serde::Serialize;

/// What all plugins did in an interval, and what they use at its end.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rates {
    /// Length of the interval.
    pub(super) seconds: f64,
    pub(super) plugins: Vec<PluginRates>,
}

/// What one plugin did in an interval, and what it uses at its end.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PluginRates {
    pub(super) name: String,
    pub(super) state: PluginState,
    pub(super) generation: u64,
    pub(super) reconciles_per_second: f64,
    pub(super) events_per_second: f64,
    pub(super) failures_per_second: f64,
    /// Mean duration of a call for a reconcile; none without a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mean_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p50_seconds: Option<Quantile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p99_seconds: Option<Quantile>,
    /// CPU time a second: 1 is one core.
    pub(super) cpu: f64,
    pub(super) memory_bytes: u64,
    pub(super) queue_ready: usize,
    pub(super) queue_delayed: usize,
    pub(super) in_flight: usize,
}

/// A quantile, as far as the buckets of a histogram say where it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Quantile {
    /// The upper bound of its bucket.
    AtMost(f64),
    /// It is in the bucket without an upper bound, above this one.
    Above(f64),
}

impl Quantile {
    fn bound(self) -> f64 {
        match self {
            Self::AtMost(bound) | Self::Above(bound) => bound,
        }
    }
}

/// A column that rows are sorted by: numbers from the greatest on, texts from A on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Column {
    /// Name of the plugin
    Name,
    /// State of the plugin
    State,
    /// Reconciles a second
    Reconciles,
    /// Events of handlers a second
    Events,
    /// Failures a second
    Failures,
    /// 99 of 100 calls for a reconcile took no longer
    P99,
    /// Share of a core
    Cpu,
    /// Memory of the instances
    Memory,
    /// Keys that are ready
    Queue,
}

/// What happened from `before` to `after`.
pub(super) fn rates(before: &UsageList, after: &UsageList) -> Rates {
    let is_same_host = before.started == after.started && before.seconds <= after.seconds;
    let (since, plugins) = if is_same_host { (before.seconds, &before.plugins[..]) } else { (0.0, &[][..]) };
    let plugins: HashMap<&str, &Usage> =
        plugins.iter().map(|plugin| (plugin.status.name.as_str(), &plugin.usage)).collect();
    let seconds = after.seconds - since;
    let none = Usage::default();
    let of_plugin = |plugin: &PluginUsage| {
        let before = plugins.get(plugin.status.name.as_str()).copied();
        let before = before.filter(|before| has_grown(before, &plugin.usage)).unwrap_or(&none);
        plugin_rates(before, plugin, seconds)
    };
    Rates { seconds, plugins: after.plugins.iter().map(of_plugin).collect() }
}

/// Whether these are the counters of one plugin; one that was removed and added again begins anew.
fn has_grown(before: &Usage, after: &Usage) -> bool {
    before.reconciles <= after.reconciles
        && before.events <= after.events
        && before.failures <= after.failures
        && before.reconcile_time.buckets.len() <= after.reconcile_time.buckets.len()
        && before.reconcile_time.buckets.iter().zip(&after.reconcile_time.buckets).all(|(b, a)| b.1 <= a.1)
}

fn plugin_rates(before: &Usage, plugin: &PluginUsage, seconds: f64) -> PluginRates {
    let PluginUsage { status, usage } = plugin;
    let per_second = |more: f64| if seconds > 0.0 { more.max(0.0) / seconds } else { 0.0 };
    let counted = |before: u64, after: u64| per_second(after.saturating_sub(before) as f64);
    let buckets: Vec<(Option<f64>, u64)> = usage
        .reconcile_time
        .buckets
        .iter()
        .enumerate()
        .map(|(place, (bound, count))| (*bound, since(before, place, *count)))
        .collect();
    let calls: u64 = buckets.iter().map(|(_, count)| count).sum();
    let time = (usage.reconcile_time.sum - before.reconcile_time.sum).max(0.0);
    PluginRates {
        name: status.name.clone(),
        state: status.state,
        generation: status.generation,
        reconciles_per_second: counted(before.reconciles, usage.reconciles),
        events_per_second: counted(before.events, usage.events),
        failures_per_second: counted(before.failures, usage.failures),
        mean_seconds: (calls > 0).then(|| time / calls as f64),
        p50_seconds: quantile(&buckets, 0.5),
        p99_seconds: quantile(&buckets, 0.99),
        cpu: per_second(usage.cpu_seconds - before.cpu_seconds),
        memory_bytes: usage.memory_bytes,
        queue_ready: status.queue_depth,
        queue_delayed: usage.queue_delayed,
        in_flight: usage.in_flight,
    }
}

/// What came into the bucket of this place since `before`. Those of a host are the same for its whole life.
fn since(before: &Usage, place: usize, count: u64) -> u64 {
    let earlier = before.reconcile_time.buckets.get(place).map_or(0, |(_, count)| *count);
    count.saturating_sub(earlier)
}

/// Where a part of all observations is at most; none without any.
fn quantile(buckets: &[(Option<f64>, u64)], part: f64) -> Option<Quantile> {
    let all: u64 = buckets.iter().map(|(_, count)| count).sum();
    let rank = (all as f64 * part).ceil();
    let (mut below, mut greatest) = (0, 0.0);
    for (bound, count) in buckets {
        below += count;
        greatest = bound.unwrap_or(greatest);
        if all > 0 && below as f64 >= rank {
            return Some(bound.map_or(Quantile::Above(greatest), Quantile::AtMost));
        }
    }
    None
}

impl Rates {
    /// Sorts the plugins by a column; those that are equal in it by their names.
    pub(super) fn sort_by(&mut self, column: Column) {
        self.plugins.sort_by(|a, b| compare(column, a, b).then_with(|| a.name.cmp(&b.name)));
    }
}

fn compare(column: Column, a: &PluginRates, b: &PluginRates) -> Ordering {
    // None is the least.
    let p99 = |rates: &PluginRates| rates.p99_seconds.map_or(-1.0, Quantile::bound);
    match column {
        Column::Name => Ordering::Equal,
        Column::State => a.state.as_str().cmp(b.state.as_str()),
        Column::Reconciles => b.reconciles_per_second.total_cmp(&a.reconciles_per_second),
        Column::Events => b.events_per_second.total_cmp(&a.events_per_second),
        Column::Failures => b.failures_per_second.total_cmp(&a.failures_per_second),
        Column::P99 => p99(b).total_cmp(&p99(a)),
        Column::Cpu => b.cpu.total_cmp(&a.cpu),
        Column::Memory => b.memory_bytes.cmp(&a.memory_bytes),
        Column::Queue => b.queue_ready.cmp(&a.queue_ready),
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_manager::DurationSpread;
    use serde_json::{Value, json};

    use super::*;

    /// An answer of a host that was started then, so many seconds later.
    fn answer(started: &str, seconds: f64, plugins: &[Value]) -> UsageList {
        let mut plugins = plugins.to_vec();
        for plugin in &mut plugins {
            let rest =
                json!({"generation": 1, "digest": "", "state": "running", "lastError": null, "calls": 0});
            for (name, value) in rest.as_object().unwrap() {
                plugin.as_object_mut().unwrap().entry(name).or_insert(value.clone());
            }
            plugin.as_object_mut().unwrap().entry("queueDepth").or_insert(json!(0));
        }
        serde_json::from_value(json!({"started": started, "seconds": seconds, "plugins": plugins})).unwrap()
    }

    #[test]
    fn rates_are_differences_over_the_time_of_the_host() {
        let before = answer(
            "a",
            10.0,
            &[json!({
                "name": "p", "reconciles": 100, "events": 4, "failures": 1, "cpuSeconds": 1.0, "memoryBytes": 5,
                "reconcileTime": {"sum": 1.0, "buckets": [[0.005, 100]]},
            })],
        );
        let after = answer(
            "a",
            14.0,
            &[json!({
                "name": "p", "reconciles": 300, "events": 6, "failures": 2, "cpuSeconds": 3.0, "memoryBytes": 7,
                "queueDepth": 8, "queueDelayed": 9, "inFlight": 2,
                "reconcileTime": {"sum": 3.0, "buckets": [[0.005, 290], [0.01, 0], [0.025, 9], [null, 1]]},
            })],
        );
        let rates = rates(&before, &after);
        assert_eq!(rates.seconds, 4.0);
        let [p] = rates.plugins.as_slice() else { panic!("{rates:?}") };
        assert_eq!((p.reconciles_per_second, p.events_per_second, p.failures_per_second), (50.0, 0.5, 0.25));
        assert_eq!((p.cpu, p.memory_bytes, p.queue_ready, p.queue_delayed, p.in_flight), (0.5, 7, 8, 9, 2));
        assert_eq!(p.mean_seconds, Some(0.01));
        // 190 of 200 calls are in the first bucket, 199 in the first three.
        assert_eq!(p.p50_seconds, Some(Quantile::AtMost(0.005)));
        assert_eq!(p.p99_seconds, Some(Quantile::AtMost(0.025)));
    }

    #[test]
    fn an_interval_without_a_call_has_no_durations_and_none_without_length_divides_by_zero() {
        let plugin =
            json!({"name": "p", "reconciles": 1, "reconcileTime": {"sum": 1.0, "buckets": [[0.005, 1]]}});
        let one = answer("a", 1.0, &[plugin]);
        let rates = rates(&one, &one);
        let p = &rates.plugins[0];
        assert_eq!((p.mean_seconds, p.p50_seconds, p.p99_seconds), (None, None, None));
        assert_eq!((p.reconciles_per_second, p.cpu), (0.0, 0.0));
    }

    #[test]
    fn a_host_or_a_plugin_that_began_anew_is_counted_from_its_beginning() {
        let plugin = |reconciles: u64| json!({"name": "p", "reconciles": reconciles, "reconcileTime": {"sum": 0.0, "buckets": [[0.005, reconciles]]}});
        let rate =
            |before: &UsageList, after: &UsageList| rates(before, after).plugins[0].reconciles_per_second;
        let before = answer("a", 10.0, &[plugin(100)]);
        // Another process, whose plugin has more already.
        assert_eq!(rate(&before, &answer("b", 20.0, &[plugin(200)])), 10.0);
        // The plugin was removed and added again, or added.
        assert_eq!(rate(&before, &answer("a", 12.0, &[plugin(50)])), 25.0);
        assert_eq!(rate(&answer("a", 10.0, &[]), &answer("a", 12.0, &[plugin(50)])), 25.0);
        // One that is gone has no row.
        assert!(rates(&before, &answer("a", 12.0, &[])).plugins.is_empty());
    }

    #[test]
    fn a_quantile_is_the_bound_of_its_bucket() {
        let buckets = [(Some(0.1), 98), (Some(0.2), 1), (None, 1)];
        let of = |part| quantile(&buckets, part);
        assert_eq!((of(0.98), of(0.99)), (Some(Quantile::AtMost(0.1)), Some(Quantile::AtMost(0.2))));
        assert_eq!(of(1.0), Some(Quantile::Above(0.2)));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[(Some(0.1), 0)], 0.5), None);
        let spread = DurationSpread { sum: 1.0, buckets: vec![(None, 1)] };
        assert_eq!(quantile(&spread.buckets, 0.5), Some(Quantile::Above(0.0)));
    }

    #[test]
    fn rows_are_sorted_from_the_greatest_on_and_texts_from_a_on() {
        let plugins = [
            json!({"name": "b", "reconciles": 10, "memoryBytes": 1}),
            json!({"name": "a", "reconciles": 10, "memoryBytes": 2, "queueDepth": 1}),
            json!({"name": "c", "reconciles": 20, "state": "failed",
                "reconcileTime": {"sum": 0.0, "buckets": [[0.005, 20]]}}),
        ];
        let mut rates = rates(&answer("a", 1.0, &[]), &answer("a", 2.0, &plugins));
        let mut order = |column| {
            rates.sort_by(column);
            rates.plugins.iter().map(|p| p.name.as_str()).collect::<String>()
        };
        assert_eq!(order(Column::Name), "abc");
        assert_eq!(order(Column::Reconciles), "cab");
        assert_eq!(order(Column::Memory), "abc");
        assert_eq!(order(Column::State), "cab");
        assert_eq!(order(Column::P99), "cab");
        assert_eq!(order(Column::Queue), "abc");
    }
}
