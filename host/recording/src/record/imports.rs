//! [`RecordingImports`]: passes each call of an import on, and writes down what was asked and answered.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_engine::{
    CacheImports, CacheQuery, CallContext, ClientCall, ClientFuture, ClientImports, ConfigImports,
    EventImports, GuestEvent, GuestMetric, HostImports, HttpClient, HttpExchanges, HttpImports, LogImports,
    LogLevel, MetricChange, MetricImports, MetricSpec, ObjectCursor, QueueImports, Refusal, System,
    SystemImports, WaitFuture,
};
use pilothouse_object::{Gvk, Object, ObjectKey};
use serde_json::{Value, json};

use super::cursor::RecordedCursor;
use super::exchanges::RecordedExchanges;
use super::system::RecordedSystem;
use super::tape::Tape;
use crate::values;

/// The imports of an instance that is recorded.
pub struct RecordingImports {
    imports: Arc<dyn HostImports>,
    tape: Arc<Tape>,
}

impl std::fmt::Debug for RecordingImports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordingImports").field("tape", &self.tape).finish_non_exhaustive()
    }
}

impl RecordingImports {
    /// Passes calls on to `imports`.
    #[must_use]
    pub fn new(imports: Arc<dyn HostImports>, tape: Arc<Tape>) -> Self {
        Self { imports, tape }
    }

    /// An import that answers nothing.
    fn tell(&self, op: &'static str, args: impl FnOnce() -> Value) {
        self.tape.asked(op, args);
    }
}

impl ConfigImports for RecordingImports {
    fn config(&self) -> Arc<[u8]> {
        self.imports.config()
    }
}

impl SystemImports for RecordingImports {
    fn system(&self) -> Option<Arc<dyn System>> {
        Some(Arc::new(RecordedSystem(Arc::clone(&self.tape))))
    }
}

impl HttpImports for RecordingImports {
    fn http(&self) -> Option<HttpClient> {
        self.imports.http()
    }

    fn exchanges(&self) -> Option<Arc<dyn HttpExchanges>> {
        Some(Arc::new(RecordedExchanges(Arc::clone(&self.tape))))
    }

    fn denied(&self, what: &str) {
        self.imports.denied(what);
    }
}

impl LogImports for RecordingImports {
    fn log_enabled(&self, level: LogLevel) -> bool {
        self.imports.log_enabled(level)
    }

    fn log(&self, context: &CallContext, level: LogLevel, message: &str, fields: &[(String, String)]) {
        self.tell("log", || values::log_line(level, message, fields));
        self.imports.log(context, level, message, fields);
    }

    fn host_log(&self, context: &CallContext, level: LogLevel, message: &str) {
        self.imports.host_log(context, level, message);
    }

    fn host_time(&self, time: Duration) {
        self.imports.host_time(time);
    }
}

impl CacheImports for RecordingImports {
    fn cache_get(&self, kind: &Gvk, key: &ObjectKey) -> Result<Option<Object>, Refusal> {
        let args = || values::object_at(kind, key);
        self.tape.pass("cache.get", args, || self.imports.cache_get(kind, key), values::result_object)
    }

    fn cache_list(&self, kind: &Gvk, query: CacheQuery<'_>) -> Result<Box<dyn ObjectCursor>, Refusal> {
        let place = self.tape.asked("cache.list", || values::query(kind, &query));
        let listed = self.imports.cache_list(kind, query);
        match listed {
            Ok(objects) => {
                self.tape.answered(place, || json!({"objects": []}));
                Ok(Box::new(RecordedCursor::new(objects, Arc::clone(&self.tape), place)))
            }
            Err(refusal) => {
                self.tape.answered(place, || values::refused(&refusal));
                Err(refusal)
            }
        }
    }

    fn cache_index_values(
        &self,
        kind: &Gvk,
        index: &str,
        visit: &mut dyn FnMut(Option<&str>) -> ControlFlow<()>,
    ) -> Result<(), Refusal> {
        let place = self.tape.asked("cache.index-values", || values::index(kind, index));
        let mut shown: Vec<String> = Vec::new();
        let visited = self.imports.cache_index_values(kind, index, &mut |value| {
            let flow = visit(value);
            shown.extend(value.filter(|_| place.is_some()).map(str::to_owned));
            flow
        });
        self.tape.answered(place, || match &visited {
            Ok(()) => json!({"values": shown}),
            Err(refusal) => values::refused(refusal),
        });
        visited
    }

    fn cache_wait_for_writes(&self, limit: Duration) -> WaitFuture {
        let place = self.tape.asked("cache.wait-for-writes", || Value::Null);
        let (tape, wait) = (Arc::clone(&self.tape), self.imports.cache_wait_for_writes(limit));
        Box::pin(async move {
            let waited = wait.await;
            tape.answered(place, || json!({"waited": waited}));
            waited
        })
    }
}

impl ClientImports for RecordingImports {
    fn clusters(&self) -> Arc<[String]> {
        self.imports.clusters()
    }

    fn client(&self, call: ClientCall) -> ClientFuture {
        let place = if self.tape.is_over() {
            None
        } else {
            let (op, args) = values::client_args(&call);
            self.tape.asked(op, || args)
        };
        let (tape, running) = (Arc::clone(&self.tape), self.imports.client(call));
        Box::pin(async move {
            let answer = running.await;
            tape.answered(place, || values::client_answer(&answer));
            answer
        })
    }
}

impl EventImports for RecordingImports {
    fn record_event(&self, context: &CallContext, event: GuestEvent) -> Result<(), Refusal> {
        let place = self.tape.asked("events.record", || values::guest_event(&event));
        let recorded = self.imports.record_event(context, event);
        self.tape.answered(place, || values::unit(&recorded));
        recorded
    }
}

impl MetricImports for RecordingImports {
    fn metric_declare(&self, spec: MetricSpec) -> Result<Arc<dyn GuestMetric>, Refusal> {
        let name = spec.name.clone();
        let place = self.tape.asked("metrics.declare", || values::metric_spec(&spec));
        let declared = self.imports.metric_declare(spec);
        let answer = declared.as_ref().map(|_| ()).map_err(Clone::clone);
        self.tape.answered(place, || values::unit(&answer));
        let metric = declared?;
        Ok(Arc::new(RecordedMetric { metric, name, tape: Arc::clone(&self.tape) }))
    }
}

struct RecordedMetric {
    metric: Arc<dyn GuestMetric>,
    name: String,
    tape: Arc<Tape>,
}

impl GuestMetric for RecordedMetric {
    fn change(&self, labels: &[String], change: MetricChange) -> Result<(), Refusal> {
        let args = || values::metric_change(&self.name, labels, change);
        self.tape.pass("metrics.change", args, || self.metric.change(labels, change), values::unit)
    }
}

impl QueueImports for RecordingImports {
    fn queue_room(&self, wanted: &[ObjectKey]) -> Result<(), Refusal> {
        let args = || json!({"keys": values::keys(wanted)});
        self.tape.pass("queue.room", args, || self.imports.queue_room(wanted), values::unit)
    }

    fn queue_add(&self, added: Vec<ObjectKey>, priority: i32) {
        self.tell("queue.add", || json!({"keys": values::keys(&added), "priority": priority}));
        self.imports.queue_add(added, priority);
    }

    fn queue_add_after(&self, key: ObjectKey, delay: Duration) {
        self.tell("queue.add-after", || values::delayed(&key, delay));
        self.imports.queue_add_after(key, delay);
    }

    fn queue_add_rate_limited(&self, key: ObjectKey) {
        self.tell("queue.add-rate-limited", || values::key(&key));
        self.imports.queue_add_rate_limited(key);
    }

    fn queue_forget(&self, key: &ObjectKey) {
        self.tell("queue.forget", || values::key(key));
        self.imports.queue_forget(key);
    }

    fn queue_num_requeues(&self, key: &ObjectKey) -> u32 {
        let (args, answer) = (|| values::key(key), |count: &u32| json!({"count": count}));
        self.tape.pass("queue.num-requeues", args, || self.imports.queue_num_requeues(key), answer)
    }

    fn queue_len(&self) -> usize {
        let answer = |count: &usize| json!({"count": count});
        self.tape.pass("queue.len", || Value::Null, || self.imports.queue_len(), answer)
    }
}
