//! Outcomes of the Kubernetes Events that plugins and the host recorded. A plugin's series go with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::EncodeLabelSet;

use super::labels::RunLabels;
use super::scraped::{Figure, Scraped, Value};
use crate::imports::guest_events::{EventCounts, PluginEvents};
use crate::observe::host_events::HostEvents;

/// The events by their plugins.
pub(crate) type AllEvents = Arc<Mutex<BTreeMap<String, Arc<PluginEvents>>>>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    result: &'static str,
}

static OF_PLUGINS: [Figure<u64>; 1] = [Figure {
    name: "pilothouse_plugin_events",
    help: "Kubernetes Events that plugins recorded, by outcome; pending ones are not counted",
    value: Value::Counter(|count| *count),
}];

static OF_THE_HOST: [Figure<u64>; 1] = [Figure {
    name: "pilothouse_host_events",
    help: "Kubernetes Events of the host about plugins, by outcome; pending ones are not counted",
    value: Value::Counter(|count| *count),
}];

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

/// Events of all plugins.
pub(crate) fn of_plugins(events: AllEvents) -> Box<dyn Collector> {
    Scraped::new(&OF_PLUGINS, move || {
        let all: Vec<_> =
            events.lock().iter().map(|(name, events)| (name.clone(), events.counts())).collect();
        let of_plugin = |(plugin, counts): (String, EventCounts)| {
            let plugin = RunLabels::new("plugin", plugin);
            results(&counts).map(|(result, count)| ((plugin.clone(), [("result", result)]), count))
        };
        all.into_iter().flat_map(of_plugin).collect()
    })
}

/// The host's own events.
pub(crate) fn of_the_host(events: HostEvents) -> Box<dyn Collector> {
    Scraped::new(&OF_THE_HOST, move || {
        let Some(counts) = events.counts() else { return Vec::new() };
        // Nothing is refused, and there is no quota.
        let some = results(&counts).into_iter().take(5);
        some.map(|(result, count)| (Outcome { result }, count)).collect()
    })
}
