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
use super::tape::ReplayTape;
use crate::record::level_name;
use crate::values;

/// The imports of an instance that is replayed.
pub(super) struct ReplayImports {
    pub(super) tape: Arc<ReplayTape>,
    pub(super) config: Arc<[u8]>,
    /// The name of the least level that is written.
    pub(super) log: Option<String>,
    pub(super) seed: u128,
}

fn unknown() -> Refusal {
    Refusal::unavailable("the recording has no answer for this call")
}

impl ReplayImports {
    /// What was answered then, read by `read`; a refusal where there is none.
    fn answer<T>(
        &self,
        op: &'static str,
        args: Value,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, Refusal> {
        let (_, answer) = self.tape.asked(op, args).ok_or_else(unknown)?;
        values::refused_or(&answer, read).unwrap_or_else(|| Err(unknown()))
    }

    fn unit(&self, op: &'static str, args: Value) -> Result<(), Refusal> {
        self.answer(op, args, |_| Some(()))
    }

    fn number(&self, op: &'static str, args: Value) -> u64 {
        self.answer(op, args, |answer| answer.get("count")?.as_u64()).unwrap_or_default()
    }
}

fn keys(keys: &[ObjectKey]) -> Value {
    keys.iter().map(ObjectKey::as_str).collect()
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
        let levels = [LogLevel::Trace, LogLevel::Debug, LogLevel::Info, LogLevel::Warn, LogLevel::Error];
        let least = levels.into_iter().find(|level| self.log.as_deref() == Some(level_name(*level)));
        least.is_some_and(|least| level >= least)
    }

    fn log(&self, _: &CallContext, level: LogLevel, message: &str, fields: &[(String, String)]) {
        if !self.tape.ignores("log") {
            self.tape.asked("log", json!({"level": level_name(level), "message": message, "fields": fields}));
        }
    }

    fn host_log(&self, _: &CallContext, _: LogLevel, _: &str) {}
}

impl CacheImports for ReplayImports {
    fn cache_get(&self, kind: &Gvk, key: &ObjectKey) -> Result<Option<Object>, Refusal> {
        self.answer("cache.get", json!({"kind": values::kind(kind), "key": key.as_str()}), values::answer_of)
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
        let args = json!({"kind": values::kind(kind), "index": index});
        self.answer("cache.index-values", args, |answer| {
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
            self.answer("cache.wait-for-writes", Value::Null, |answer| answer.get("waited")?.as_bool());
        Box::pin(ready(waited.unwrap_or_default()))
    }
}

impl ClientImports for ReplayImports {
    fn client(&self, call: ClientCall) -> ClientFuture {
        let (op, args) = values::client_args(&call);
        let answer = self.tape.asked(op, args).and_then(|(_, answer)| values::client_result(&answer));
        Box::pin(ready(answer.unwrap_or_else(|| Err(unknown().into()))))
    }
}

impl EventImports for ReplayImports {
    fn record_event(&self, _: &CallContext, event: GuestEvent) -> Result<(), Refusal> {
        self.unit("events.record", values::guest_event(&event))
    }
}

impl MetricImports for ReplayImports {
    fn metric_declare(&self, spec: MetricSpec) -> Result<Arc<dyn GuestMetric>, Refusal> {
        if !self.tape.ignores("metrics.declare") {
            self.unit("metrics.declare", values::metric_spec(&spec))?;
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
        let asked = self.tape.asked("metrics.change", values::metric_change(&self.name, labels, change));
        let (_, answer) = asked.ok_or_else(unknown)?;
        values::refused_or(&answer, |_| Some(())).unwrap_or_else(|| Err(unknown()))
    }
}

impl QueueImports for ReplayImports {
    fn queue_room(&self, wanted: &[ObjectKey]) -> Result<(), Refusal> {
        self.unit("queue.room", json!({"keys": keys(wanted)}))
    }

    fn queue_add(&self, added: Vec<ObjectKey>, priority: i32) {
        self.tape.asked("queue.add", json!({"keys": keys(&added), "priority": priority}));
    }

    fn queue_add_after(&self, key: ObjectKey, delay: Duration) {
        let after = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.tape.asked("queue.add-after", json!({"key": key.as_str(), "milliseconds": after}));
    }

    fn queue_add_rate_limited(&self, key: ObjectKey) {
        self.tape.asked("queue.add-rate-limited", json!({"key": key.as_str()}));
    }

    fn queue_forget(&self, key: &ObjectKey) {
        self.tape.asked("queue.forget", json!({"key": key.as_str()}));
    }

    fn queue_num_requeues(&self, key: &ObjectKey) -> u32 {
        u32::try_from(self.number("queue.num-requeues", json!({"key": key.as_str()}))).unwrap_or(u32::MAX)
    }

    fn queue_len(&self) -> usize {
        usize::try_from(self.number("queue.len", Value::Null)).unwrap_or(usize::MAX)
    }
}
