//! [`LogOnly`]: the imports of a guest that describes itself. It has its log, its configuration and the names of its clusters,
//! and nothing else: a version that may still be refused changes nothing, reads nothing and sends nothing.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_object::{Gvk, Object, ObjectKey};

use super::{
    CacheImports, CacheQuery, CallContext, ClientCall, ClientFuture, ClientImports, ConfigImports,
    EventImports, GuestEvent, GuestMetric, HostImports, HttpImports, LogImports, LogLevel, MetricImports,
    MetricSpec, ObjectCursor, QueueImports, Refusal, System, SystemImports,
};

/// Refuses all but the log and the configuration of these imports.
pub struct LogOnly {
    host: Arc<dyn HostImports>,
}

impl LogOnly {
    /// The imports in `describe`.
    #[must_use]
    pub fn new(host: Arc<dyn HostImports>) -> Self {
        Self { host }
    }
}

fn refused(what: &str) -> Refusal {
    Refusal::unavailable(format_args!(
        "{what} in describe: it has the log and the configuration; do this in reconcile or in a handler"
    ))
}

impl std::fmt::Debug for LogOnly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogOnly").finish_non_exhaustive()
    }
}

impl ConfigImports for LogOnly {
    fn config(&self) -> Arc<[u8]> {
        self.host.config()
    }
}

impl LogImports for LogOnly {
    fn host_time(&self, time: Duration) {
        self.host.host_time(time);
    }

    fn log_enabled(&self, level: LogLevel) -> bool {
        self.host.log_enabled(level)
    }

    fn log(&self, context: &CallContext, level: LogLevel, message: &str, fields: &[(String, String)]) {
        self.host.log(context, level, message, fields);
    }
}

impl CacheImports for LogOnly {
    fn cache_get(&self, _: &Gvk, _: &ObjectKey) -> Result<Option<Object>, Refusal> {
        Err(refused("the cache cannot be read"))
    }

    fn cache_list(&self, _: &Gvk, _: CacheQuery<'_>) -> Result<Box<dyn ObjectCursor>, Refusal> {
        Err(refused("the cache cannot be read"))
    }

    fn cache_index_values(
        &self,
        _: &Gvk,
        _: &str,
        _: &mut dyn FnMut(Option<&str>) -> ControlFlow<()>,
    ) -> Result<(), Refusal> {
        Err(refused("the cache cannot be read"))
    }
}

impl ClientImports for LogOnly {
    fn clusters(&self) -> Arc<[String]> {
        self.host.clusters()
    }

    fn client(&self, _: ClientCall) -> ClientFuture {
        Box::pin(std::future::ready(Err(refused("no live calls").into())))
    }
}

impl EventImports for LogOnly {
    fn record_event(&self, _: &CallContext, _: GuestEvent) -> Result<(), Refusal> {
        Err(refused("no Events can be recorded"))
    }
}

impl MetricImports for LogOnly {
    fn metric_declare(&self, _: MetricSpec) -> Result<Arc<dyn GuestMetric>, Refusal> {
        Err(refused("no metrics can be declared"))
    }
}

/// Without a client every request is denied.
impl HttpImports for LogOnly {}

impl SystemImports for LogOnly {
    fn system(&self) -> Option<Arc<dyn System>> {
        self.host.system()
    }
}

impl QueueImports for LogOnly {
    fn queue_room(&self, _: &[ObjectKey]) -> Result<(), Refusal> {
        Err(refused("no keys can be queued"))
    }

    // No key can be added, so there is nothing to forget or to delay.
    fn queue_add(&self, _: Vec<ObjectKey>, _: i32) {}

    fn queue_add_after(&self, _: ObjectKey, _: Duration) {}
}
