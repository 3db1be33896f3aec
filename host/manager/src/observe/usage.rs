//! [`Usage`]: what a plugin has done and what it uses, as `/plugins?usage=true`, `/plugins/NAME` and `pilothouse top` show it.
//!
//! Counters begin with the plugin and only grow, so two answers of one host give rates: the difference of a counter over that
//! of [`UsageList::seconds`]. A host that was started again has another [`UsageList::started`].

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::lifecycle::plugin::Plugin;
use crate::manager::Manager;
use crate::observe::metrics::scraped::Spread;
use crate::observe::status::{ElectionView, PluginStatus};

/// What a plugin has done, and what it uses.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Reconciles that ended, with any result.
    pub reconciles: u64,
    /// Events given to event handlers.
    pub events: u64,
    /// Reconciles and events that failed or faulted.
    pub failures: u64,
    /// Duration of calls for reconciles; a call of a batch plugin has many keys.
    pub reconcile_time: DurationSpread,
    /// CPU time of its calls since it was added.
    pub cpu_seconds: f64,
    /// Guest memory of its instances, in bytes.
    pub memory_bytes: u64,
    /// Instances of its component.
    pub instances: usize,
    /// Instances that are in a call, or about to be.
    pub in_flight: usize,
    /// Keys that wait for a time, as after a failure.
    pub queue_delayed: usize,
}

/// How durations are spread over the buckets of a histogram.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DurationSpread {
    /// Their sum, in seconds.
    pub sum: f64,
    /// The upper bound in seconds and the number of durations of each bucket, from the first bucket to the last that has any.
    /// The last one may have no upper bound.
    pub buckets: Vec<(Option<f64>, u64)>,
}

impl From<Spread> for DurationSpread {
    fn from(Spread { sum, buckets, .. }: Spread) -> Self {
        let used = buckets.iter().rposition(|(_, count)| *count > 0).map_or(0, |last| last + 1);
        let bound = |bound: f64| Some(bound).filter(|bound| bound.is_finite());
        let buckets = buckets.into_iter().take(used).map(|(upper, count)| (bound(upper), count));
        Self { sum, buckets: buckets.collect() }
    }
}

/// The answer of `/plugins?usage=true`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UsageList {
    /// When the host was started (RFC 3339).
    pub started: String,
    /// Seconds since then.
    pub seconds: f64,
    /// All plugins, by name.
    pub plugins: Vec<PluginUsage>,
    /// The election that this host takes part in; absent without `--leader-elect`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub election: Option<ElectionView>,
}

/// A plugin, with what it has done and uses.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PluginUsage {
    /// What the list of all plugins shows of it.
    #[serde(flatten)]
    pub status: PluginStatus,
    /// What it has done, and what it uses.
    #[serde(flatten)]
    pub usage: Usage,
}

impl Manager {
    /// The plugins as `/plugins?usage=true` shows them.
    #[must_use]
    pub fn usage(&self) -> UsageList {
        let (started, since) = self.started();
        let usage = |plugin: &Arc<Plugin>| PluginUsage { status: plugin.status(), usage: plugin.usage() };
        UsageList {
            started: started.to_string(),
            seconds: since.elapsed().as_secs_f64(),
            plugins: self.plugins().iter().map(usage).collect(),
            election: self.election(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::metrics::PluginMetrics;

    #[test]
    fn buckets_end_with_the_last_that_has_any_and_what_is_above_all_bounds_has_none() {
        let metrics = PluginMetrics::of_test();
        let spread = |metrics: &PluginMetrics| DurationSpread::from(metrics.reconcile_time.spread());
        assert_eq!(spread(&metrics), DurationSpread::default());
        metrics.reconcile_time.observe(0.001);
        metrics.reconcile_time.observe(0.02);
        let some = spread(&metrics);
        assert_eq!(some.buckets, [(Some(0.005), 1), (Some(0.01), 0), (Some(0.025), 1)]);
        assert!((some.sum - 0.021).abs() < 1e-9, "{}", some.sum);
        metrics.reconcile_time.observe(1e6);
        assert_eq!(spread(&metrics).buckets.last(), Some(&(None, 1)));
    }

    /// A host of another version may show less.
    #[test]
    fn a_plugin_s_usage_is_read_back_and_what_is_absent_is_none() {
        let text = r#"{"name":"p","generation":1,"digest":"","state":"running","lastError":null,"calls":3,"queueDepth":1,
            "reconciles":2,"reconcileTime":{"sum":0.5,"buckets":[[0.005,1],[null,1]]},"memoryBytes":7}"#;
        let read: PluginUsage = serde_json::from_str(text).unwrap();
        assert_eq!((read.status.name.as_str(), read.usage.reconciles, read.usage.memory_bytes), ("p", 2, 7));
        assert_eq!(read.usage.reconcile_time.buckets, [(Some(0.005), 1), (None, 1)]);
        assert_eq!((read.usage.events, read.usage.in_flight), (0, 0));
        let again: PluginUsage = serde_json::from_value(serde_json::to_value(&read).unwrap()).unwrap();
        assert_eq!(again.usage, read.usage);
    }
}
