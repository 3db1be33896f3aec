//! [`PluginFamilies`]: counters, gauges and histograms with a series for each plugin. One call registers a metric and says which
//! series of it are a plugin's, so that none is left behind when the plugin goes.

use std::fmt::Debug;
use std::hash::Hash;

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::Buckets;

/// Removes the series of the plugin of this name from one family.
type Removal = Box<dyn Fn(&str) + Send + Sync>;

/// Registers metrics of plugins, and removes a plugin's series.
pub(crate) struct PluginFamilies {
    registry: Registry,
    removals: Vec<Removal>,
}

impl PluginFamilies {
    pub(crate) fn new() -> Self {
        Self { registry: Registry::default(), removals: Vec::new() }
    }

    /// Metrics of the host itself.
    pub(crate) fn registry(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// A counter or gauge; `series` answers the labels that a plugin may have.
    pub(crate) fn family<L, M>(&mut self, name: &str, help: &str, series: fn(&str) -> Vec<L>) -> Family<L, M>
    where
        L: Clone + Debug + Hash + Eq + EncodeLabelSet + Send + Sync + 'static,
        M: Default + Debug + EncodeMetric + TypedMetric + Send + Sync + 'static,
    {
        let family = Family::default();
        self.registry.register(name, help, family.clone());
        self.remove_with(&family, series);
        family
    }

    /// A histogram of seconds.
    pub(crate) fn seconds<L>(
        &mut self,
        name: &str,
        help: &str,
        buckets: Buckets,
        series: fn(&str) -> Vec<L>,
    ) -> Family<L, Histogram, Buckets>
    where
        L: Clone + Debug + Hash + Eq + EncodeLabelSet + Send + Sync + 'static,
    {
        let family = Family::new_with_constructor(buckets);
        self.registry.register_with_unit(name, help, Unit::Seconds, family.clone());
        self.remove_with(&family, series);
        family
    }

    fn remove_with<L, M, C>(&mut self, family: &Family<L, M, C>, series: fn(&str) -> Vec<L>)
    where
        L: Clone + Hash + Eq + Send + Sync + 'static,
        M: Send + Sync + 'static,
        C: MetricConstructor<M> + Clone + Send + Sync + 'static,
    {
        let family = family.clone();
        self.removals.push(Box::new(move |plugin| {
            for labels in series(plugin) {
                family.remove(&labels);
            }
        }));
    }

    /// The registry, and what removes a plugin's series.
    pub(crate) fn finish(self) -> (Registry, Removals) {
        (self.registry, Removals(self.removals))
    }
}

/// Removes a plugin's series of all families.
pub(crate) struct Removals(Vec<Removal>);

impl Removals {
    pub(crate) fn remove(&self, plugin: &str) {
        for remove in &self.0 {
            remove(plugin);
        }
    }
}
