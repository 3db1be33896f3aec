//! [`ReplayImports`]: answers each call of an import with what the recording has at its place.

use std::future::ready;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_engine::{
    CacheImports, CacheQuery, CallContext, ClientCall, ClientFuture, ClientImports, ConfigImports,
    EventImports, GuestEvent, GuestMetric, HttpExchanges, HttpImports, LogImports, LogLevel, MetricChange,
    MetricImports, MetricSpec, ObjectCursor, QueueImports, Refusal, System, SystemImports, WaitFuture,
};
use pilothouse_object::{Gvk, Object, ObjectKey};
use serde_json::{Value, json};

use super::cursor::ReplayedCursor;
use super::exchanges::ReplayedExchanges;
use super::system::ReplayedSystem;
use super::tape::{ReplayTape, unknown};
use crate::values;

/// The imports of an instance that is replayed.
pub(super) struct ReplayImports {
    pub(super) tape: Arc<ReplayTape>,
    pub(super) config: Arc<[u8]>,
    pub(super) clusters: Arc<[String]>,
    /// The least level that is written.
    pub(super) log: Option<LogLevel>,
    pub(super) seed: u128,
}

impl ConfigImports for ReplayImports {
    fn config(&self) -> Arc<[u8]> {
        Arc::clone(&self.config)
    }
}

impl SystemImports for ReplayImports {
    fn system(&self) -> Option<Arc<dyn System>> {
        Some(Arc::new(ReplayedSystem { tape: Arc::clone(&self.tape), seed: self.seed }))
    }
}

impl HttpImports for ReplayImports {
    fn exchanges(&self) -> Option<Arc<dyn HttpExchanges>> {
        Some(Arc::new(ReplayedExchanges(Arc::clone(&self.tape))))
    }
}

impl LogImports for ReplayImports {
    fn log_enabled(&self, level: LogLevel) -> bool {
        self.log.is_some_and(|least| level >= least)
    }

    fn log(&self, _: &CallContext, level: LogLevel, message: &str, fields: &[(String, String)]) {
        if !self.tape.ignores("log") {
            self.tape.asked("log", values::log_line(level, message, fields));
        }
    }

    fn host_log(&self, _: &CallContext, _: LogLevel, _: &str) {}
}

impl CacheImports for ReplayImports {
    fn cache_get(&self, kind: &Gvk, key: &ObjectKey) -> Result<Option<Object>, Refusal> {
        self.tape.answer("cache.get", values::object_at(kind, key), values::answer_of)
    }

    fn cache_list(&self, kind: &Gvk, query: CacheQuery<'_>) -> Result<Box<dyn ObjectCursor>, Refusal> {
        let asked = self.tape.asked("cache.list", values::query(kind, &query));
        let (place, answer) = asked.ok_or_else(unknown)?;
        let cursor = |answer: &Value| ReplayedCursor::new(answer, Arc::clone(&self.tape), place);
        let cursor = values::refused_or(&answer, cursor).unwrap_or_else(|| Err(unknown()))?;
        Ok(Box::new(cursor))
    }

    fn cache_index_values(
        &self,
        kind: &Gvk,
        index: &str,
        visit: &mut dyn FnMut(Option<&str>) -> ControlFlow<()>,
    ) -> Result<(), Refusal> {
        self.tape.answer("cache.index-values", values::index(kind, index), |answer| {
            for value in answer.get("values")?.as_array()? {
                if visit(value.as_str()).is_break() {
                    break;
                }
            }
            Some(())
        })
    }

    fn cache_wait_for_writes(&self, _: Duration) -> WaitFuture {
        let waited =
            self.tape.answer("cache.wait-for-writes", Value::Null, |answer| answer.get("waited")?.as_bool());
        Box::pin(ready(waited.unwrap_or_default()))
    }
}

impl ClientImports for ReplayImports {
    fn clusters(&self) -> Arc<[String]> {
        Arc::clone(&self.clusters)
    }

    fn client(&self, call: ClientCall) -> ClientFuture {
        let (op, args) = values::client_args(&call);
        let answer = self.tape.asked(op, args).and_then(|(_, answer)| values::client_result(&answer));
        Box::pin(ready(answer.unwrap_or_else(|| Err(unknown().into()))))
    }
}

impl EventImports for ReplayImports {
    fn record_event(&self, _: &CallContext, event: GuestEvent) -> Result<(), Refusal> {
        self.tape.unit("events.record", values::guest_event(&event))
    }
}

impl MetricImports for ReplayImports {
    fn metric_declare(&self, spec: MetricSpec) -> Result<Arc<dyn GuestMetric>, Refusal> {
        if !self.tape.ignores("metrics.declare") {
            self.tape.unit("metrics.declare", values::metric_spec(&spec))?;
        }
        Ok(Arc::new(ReplayedMetric { name: spec.name, tape: Arc::clone(&self.tape) }))
    }
}

struct ReplayedMetric {
    name: String,
    tape: Arc<ReplayTape>,
}

impl GuestMetric for ReplayedMetric {
    fn change(&self, labels: &[String], change: MetricChange) -> Result<(), Refusal> {
        if self.tape.ignores("metrics.change") {
            return Ok(());
        }
        self.tape.unit("metrics.change", values::metric_change(&self.name, labels, change))
    }
}

impl QueueImports for ReplayImports {
    fn queue_room(&self, wanted: &[ObjectKey]) -> Result<(), Refusal> {
        self.tape.unit("queue.room", json!({"keys": values::keys(wanted)}))
    }

    fn queue_add(&self, added: Vec<ObjectKey>, priority: i32) {
        self.tape.asked("queue.add", json!({"keys": values::keys(&added), "priority": priority}));
    }

    fn queue_add_after(&self, key: ObjectKey, delay: Duration) {
        self.tape.asked("queue.add-after", values::delayed(&key, delay));
    }

    fn queue_add_rate_limited(&self, key: ObjectKey) {
        self.tape.asked("queue.add-rate-limited", values::key(&key));
    }

    fn queue_forget(&self, key: &ObjectKey) {
        self.tape.asked("queue.forget", values::key(key));
    }

    fn queue_num_requeues(&self, key: &ObjectKey) -> u32 {
        u32::try_from(self.tape.number("queue.num-requeues", values::key(key))).unwrap_or(u32::MAX)
    }

    fn queue_len(&self) -> usize {
        usize::try_from(self.tape.number("queue.len", Value::Null)).unwrap_or(usize::MAX)
    }
}
