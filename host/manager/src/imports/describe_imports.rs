//! [`DescribeImports`]: the imports of a guest that describes itself. It has its log and its configuration and nothing else:
//! a version that may still be refused changes nothing, reads nothing and sends nothing.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_engine::{
    CacheImports, CacheQuery, CallContext, ClientCall, ClientFuture, ClientImports, ConfigImports,
    EventImports, GuestEvent, GuestMetric, HttpImports, LogImports, LogLevel, MetricImports, MetricSpec,
    ObjectCursor, QueueImports, Refusal, SystemImports,
};
use pilothouse_object::{Gvk, Object, ObjectKey};

use crate::imports::plugin_imports::PluginImports;

/// Refuses all but the log and the configuration of these imports.
pub(crate) struct DescribeImports(pub(crate) Arc<PluginImports>);

fn refused(what: &str) -> Refusal {
    Refusal::unavailable(format_args!(
        "{what} in describe: it has the log and the configuration; do this in reconcile or in a handler"
    ))
}

impl ConfigImports for DescribeImports {
    fn config(&self) -> Arc<[u8]> {
        self.0.config()
    }
}

impl LogImports for DescribeImports {
    fn host_time(&self, time: Duration) {
        LogImports::host_time(&*self.0, time);
    }

    fn log_enabled(&self, level: LogLevel) -> bool {
        self.0.log_enabled(level)
    }

    fn log(&self, context: &CallContext, level: LogLevel, message: &str, fields: &[(String, String)]) {
        self.0.log(context, level, message, fields);
    }
}

impl CacheImports for DescribeImports {
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

impl ClientImports for DescribeImports {
    fn client(&self, _: ClientCall) -> ClientFuture {
        Box::pin(std::future::ready(Err(refused("no live calls").into())))
    }
}

impl EventImports for DescribeImports {
    fn record_event(&self, _: &CallContext, _: GuestEvent) -> Result<(), Refusal> {
        Err(refused("no Events can be recorded"))
    }
}

impl MetricImports for DescribeImports {
    fn metric_declare(&self, _: MetricSpec) -> Result<Arc<dyn GuestMetric>, Refusal> {
        Err(refused("no metrics can be declared"))
    }
}

/// Without a client every request is denied.
impl HttpImports for DescribeImports {}

impl SystemImports for DescribeImports {}

impl QueueImports for DescribeImports {
    fn queue_room(&self, _: &[ObjectKey]) -> Result<(), Refusal> {
        Err(refused("no keys can be queued"))
    }

    // No key can be added, so there is nothing to forget or to delay.
    fn queue_add(&self, _: Vec<ObjectKey>, _: i32) {}

    fn queue_add_after(&self, _: ObjectKey, _: Duration) {}
}
