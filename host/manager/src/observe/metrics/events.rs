//! [`EventCollector`]: what became of the events that plugins recorded, and [`HostEventCollector`]: of those of the host, read when
//! a scrape comes. A plugin's series go with it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use crate::imports::guest_events::{EventCounts, PluginEvents};
use crate::observe::host_events::HostEvents;

/// The events by their plugins.
pub(crate) type AllEvents = Arc<Mutex<BTreeMap<String, Arc<PluginEvents>>>>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    plugin: String,
    result: &'static str,
}

/// Reads the counts of all plugins.
pub(crate) struct EventCollector(pub(crate) AllEvents);

/// Reads the counts of the host's own events.
pub(crate) struct HostEventCollector(pub(crate) HostEvents);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultOnly {
    result: &'static str,
}

/// How often each of these became of events.
fn results(counts: &EventCounts) -> [(&'static str, u64); 7] {
    let EventCounts { refused, over_quota, recorder, sink } = counts;
    [
        ("sent", sink.sent),
        ("aggregated", sink.aggregated),
        ("filtered", sink.filtered),
        ("dropped", recorder.dropped + sink.dropped),
        ("failed", sink.failed),
        ("refused", *refused),
        ("over_quota", *over_quota),
    ]
}

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
            for (result, value) in results(&counts) {
                let labels = Labels { plugin: plugin.clone(), result };
                ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for HostEventCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostEventCollector").finish_non_exhaustive()
    }
}

impl Collector for HostEventCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(counts) = self.0.counts() else { return Ok(()) };
        let mut family = encoder.encode_descriptor(
            "pilothouse_host_events",
            "Kubernetes Events of the host about plugins, by what became of them; those under way are in none",
            None,
            MetricType::Counter,
        )?;
        // Nothing is refused, and there is no quota.
        for (result, value) in results(&counts).into_iter().take(5) {
            ConstCounter::new(value).encode(family.encode_family(&ResultOnly { result })?)?;
        }
        Ok(())
    }
}
