//! [`EventCollector`]: what became of the events that plugins recorded, read when a scrape comes. A plugin's series go with it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use crate::guest_events::PluginEvents;

/// The events by their plugins.
pub(crate) type AllEvents = Arc<Mutex<BTreeMap<String, Arc<PluginEvents>>>>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    plugin: String,
    result: &'static str,
}

/// Reads the counts of all plugins.
pub(crate) struct EventCollector(pub(crate) AllEvents);

impl fmt::Debug for EventCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventCollector").finish_non_exhaustive()
    }
}

impl Collector for EventCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let all: Vec<_> =
            self.0.lock().iter().map(|(name, events)| (name.clone(), events.counts())).collect();
        let mut family = encoder.encode_descriptor(
            "pilothouse_plugin_events",
            "Kubernetes Events that guests recorded, by what became of them; those under way are in none",
            None,
            MetricType::Counter,
        )?;
        for (plugin, counts) in all {
            let sink = counts.sink;
            for (result, value) in [
                ("sent", sink.sent),
                ("aggregated", sink.aggregated),
                ("filtered", sink.filtered),
                ("dropped", counts.recorder.dropped + sink.dropped),
                ("failed", sink.failed),
                ("refused", counts.refused),
                ("over_quota", counts.over_quota),
            ] {
                let labels = Labels { plugin: plugin.clone(), result };
                ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
