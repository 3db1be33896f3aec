//! [`Imports`]: what a component has while it describes itself outside a host: its configuration, and a log on standard error.

use std::sync::Arc;

use pilothouse_engine::{
    CacheImports, CallContext, ClientImports, ConfigImports, EventImports, HttpImports, LogImports, LogLevel,
    MetricImports, QueueImports, SystemImports,
};
use pilothouse_plugin::printable;

/// The imports of `describe`. What the default methods refuse, a host refuses in `describe` as well.
pub(super) struct Imports {
    /// JSON.
    pub(super) config: Arc<[u8]>,
}

impl CacheImports for Imports {}
impl ClientImports for Imports {}
impl EventImports for Imports {}
impl HttpImports for Imports {}
impl MetricImports for Imports {}
impl QueueImports for Imports {}
impl SystemImports for Imports {}

impl ConfigImports for Imports {
    fn config(&self) -> Arc<[u8]> {
        Arc::clone(&self.config)
    }
}

impl LogImports for Imports {
    fn log_enabled(&self, level: LogLevel) -> bool {
        level >= LogLevel::Info
    }

    fn log(&self, _: &CallContext, level: LogLevel, message: &str, fields: &[(String, String)]) {
        let fields: String = fields.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        let text = printable(&format!("{message}{fields}"));
        match level {
            LogLevel::Error => tracing::error!(target: "guest", "{text}"),
            LogLevel::Warn => tracing::warn!(target: "guest", "{text}"),
            LogLevel::Info => tracing::info!(target: "guest", "{text}"),
            LogLevel::Debug | LogLevel::Trace => tracing::debug!(target: "guest", "{text}"),
        }
    }
}
