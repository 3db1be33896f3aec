//! State and memory of the plugins, which are read when a scrape comes.

use std::sync::Arc;

use prometheus_client::registry::Registry;

use super::labels::RunLabels;
use super::scraped::{Figure, Scraped, Value};
use crate::lifecycle::plugin::Plugin;

static STATE: [Figure<()>; 1] = [Figure {
    name: "pilothouse_plugin_state",
    help: "1, with the state that the plugin is in",
    value: Value::Int(|()| 1),
}];

static QUARANTINED: [Figure<bool>; 1] = [Figure {
    name: "pilothouse_plugin_quarantined",
    help: "Whether the plugin is in quarantine",
    value: Value::Int(|is_quarantined| i64::from(*is_quarantined)),
}];

static MEMORY: [Figure<u64>; 1] = [Figure {
    name: "pilothouse_plugin_memory_bytes",
    help: "Memory of the instances of the plugin, as far as it was charged at the end of their last call",
    value: Value::Gauge(|bytes| *bytes as f64),
}];

/// The plugins that `all` answers at a scrape.
pub(crate) fn register(
    registry: &mut Registry,
    all: impl Fn() -> Vec<Arc<Plugin>> + Clone + Send + Sync + 'static,
) {
    let plugins = all.clone();
    registry.register_collector(Scraped::new(&STATE, move || {
        let row = |plugin: Arc<Plugin>| {
            let status = plugin.status();
            ((RunLabels::new("plugin", status.name), [("state", status.state.as_str())]), ())
        };
        plugins().into_iter().map(row).collect()
    }));
    let name = |plugin: &Plugin| RunLabels::new("plugin", Arc::clone(plugin.name()));
    let plugins = all.clone();
    registry.register_collector(Scraped::new(&QUARANTINED, move || {
        let row = |plugin: Arc<Plugin>| (name(&plugin), plugin.is_quarantined());
        plugins().into_iter().map(row).collect()
    }));
    registry.register_collector(Scraped::new(&MEMORY, move || {
        let row = |plugin: Arc<Plugin>| (name(&plugin), plugin.instances().used().memory);
        all().into_iter().map(row).collect()
    }));
}
