//! CPU time of plugins on the guest threads.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_executor::Group;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::registry::Registry;

use super::scraped::{Figure, Scraped, Value};

/// The shares of the guest threads by their plugins.
pub(crate) type Groups = Arc<Mutex<BTreeMap<String, Group>>>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginPart {
    plugin: String,
    part: &'static str,
}

static FIGURES: [Figure<Group>; 1] = [Figure {
    name: "pilothouse_plugin_cpu_seconds",
    help: "CPU time of a plugin: part guest is its calls, and what the host does for them on the same thread",
    value: Value::Seconds(|group| group.cpu_time().as_secs_f64()),
}];

/// CPU time of all plugins.
pub(crate) fn register(registry: &mut Registry, groups: &Groups) {
    let groups = Arc::clone(groups);
    registry.register_collector(Scraped::new(&FIGURES, move || {
        let labels = |(name, group): (&String, &Group)| {
            (PluginPart { plugin: name.clone(), part: "guest" }, group.clone())
        };
        groups.lock().iter().map(labels).collect()
    }));
}
