//! [`Tape`]: the running call of one instance, as it is written down.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use pilothouse_engine::{
    CONTRACT, Event, Failure, Fault, HttpFailure, Listed, LogLevel, Outcome, RandomSource, Request,
};
use pilothouse_plugin::Limits;
use serde_json::{Value, json};

use super::recorder::{InstanceInfo, Recorder};
use crate::format::{CallLine, Effects, Import, InstanceLine};
use crate::values;

/// What a value costs apart from its text.
const VALUE_BYTES: usize = 16;

/// The running call of one instance. An instance runs one call at a time.
pub struct Tape {
    recorder: Recorder,
    id: u64,
    info: InstanceInfo,
    /// The configuration, as a body.
    config: Value,
    limits: Limits,
    seed: u128,
    is_over: AtomicBool,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    /// The number of the call; 0 for the start code.
    number: u64,
    is_open: bool,
    imports: Vec<Passing>,
    wall: Vec<u64>,
    monotonic: Vec<u64>,
    random: Vec<u8>,
    insecure: Vec<u8>,
    bytes: usize,
}

/// A call of an import.
struct Passing {
    import: Import,
    /// Only of HTTP: what was sent, and what came in which pieces.
    sent: Vec<u8>,
    is_sent: bool,
    received: Vec<u8>,
    pieces: Vec<usize>,
    ended: Option<HttpFailure>,
}

/// A call of an import that has no answer yet.
#[derive(Clone, Copy)]
pub(super) struct Place {
    number: u64,
    index: usize,
}

impl std::fmt::Debug for Tape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tape").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Tape {
    pub(super) fn new(
        recorder: Recorder,
        id: u64,
        info: InstanceInfo,
        config: &[u8],
        limits: Limits,
    ) -> Arc<Self> {
        Arc::new(Self {
            recorder,
            id,
            config: values::config(config, &info.secret_config),
            info,
            limits,
            seed: rand::random(),
            is_over: AtomicBool::new(false),
            // The start code may call imports.
            running: Mutex::new(Running { is_open: true, ..Running::default() }),
        })
    }

    pub(super) fn seed(&self) -> u128 {
        self.seed
    }

    /// Whether nothing more of this instance is written.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Relaxed) || self.recorder.is_over()
    }

    /// Writes down that an import is called. None where it is not.
    pub(super) fn asked(&self, op: &'static str, args: impl FnOnce() -> Value) -> Option<Place> {
        if self.is_over() {
            return None;
        }
        let args = args();
        let mut running = self.running.lock();
        if !running.is_open {
            return None;
        }
        running.bytes += VALUE_BYTES + size(&args);
        running.imports.push(Passing {
            import: Import { op: op.to_owned(), args, answer: None },
            sent: Vec::new(),
            is_sent: false,
            received: Vec::new(),
            pieces: Vec::new(),
            ended: None,
        });
        let place = Place { number: running.number, index: running.imports.len() - 1 };
        self.check_size(running);
        Some(place)
    }

    /// The answer of a call of an import.
    pub(super) fn answered(&self, place: Option<Place>, answer: impl FnOnce() -> Value) {
        if place.is_none() {
            return;
        }
        let answer = answer();
        let bytes = size(&answer);
        self.change(place, bytes, |passing| passing.import.answer = Some(answer));
    }

    /// A call of an import that answers at once.
    pub(super) fn pass<T>(
        &self,
        op: &'static str,
        args: impl FnOnce() -> Value,
        pass: impl FnOnce() -> T,
        answer: impl FnOnce(&T) -> Value,
    ) -> T {
        let place = self.asked(op, args);
        let passed = pass();
        self.answered(place, || answer(&passed));
        passed
    }

    /// Changes what is known of a call of an import, which costs so many bytes. Nothing when its call has ended.
    fn change(&self, place: Option<Place>, bytes: usize, change: impl FnOnce(&mut Passing)) {
        let Some(Place { number, index }) = place else { return };
        let mut running = self.running.lock();
        if !running.is_open || running.number != number {
            return;
        }
        let Some(passing) = running.imports.get_mut(index) else { return };
        change(passing);
        running.bytes += bytes;
        self.check_size(running);
    }

    /// An object was read from a cursor, or its key.
    pub(super) fn listed(&self, place: Option<Place>, listed: Listed<'_>) {
        if place.is_none() {
            return;
        }
        let object = values::listed(listed);
        let bytes = size(&object);
        self.change(place, bytes, |passing| {
            if let Some(Value::Array(objects)) =
                passing.import.answer.as_mut().and_then(|answer| answer.get_mut("objects"))
            {
                objects.push(object);
            }
        });
    }

    /// How many objects a cursor has in all.
    pub(super) fn counted(&self, place: Option<Place>, total: usize) {
        self.change(place, 0, |passing| {
            if let Some(answer) = &mut passing.import.answer {
                answer["total"] = total.into();
            }
        });
    }

    /// Bytes of the body of a request were sent.
    pub(super) fn sent(&self, place: Option<Place>, bytes: &[u8]) {
        self.change(place, bytes.len(), |passing| passing.sent.extend_from_slice(bytes));
    }

    /// The body of a request was sent to its end.
    pub(super) fn sent_all(&self, place: Option<Place>) {
        self.change(place, 0, |passing| passing.is_sent = true);
    }

    /// Bytes of the body of a response were read.
    pub(super) fn received(&self, place: Option<Place>, bytes: &[u8]) {
        self.change(place, bytes.len(), |passing| {
            passing.received.extend_from_slice(bytes);
            passing.pieces.push(bytes.len());
        });
    }

    /// The body of a response ended early.
    pub(super) fn failed(&self, place: Option<Place>, failure: &HttpFailure) {
        self.change(place, 0, |passing| passing.ended = Some(failure.clone()));
    }

    pub(super) fn wall(&self, time: u64) {
        self.read(8, |running| running.wall.push(time));
    }

    pub(super) fn monotonic(&self, time: u64) {
        self.read(8, |running| running.monotonic.push(time));
    }

    pub(super) fn random(&self, source: RandomSource, bytes: &[u8]) {
        self.read(bytes.len(), |running| match source {
            // Other bytes: the guest's may be a password by now.
            RandomSource::Secure if self.masks_random() => {
                let from = running.random.len();
                running.random.resize(from + bytes.len(), 0);
                rand::Rng::fill_bytes(&mut rand::rng(), &mut running.random[from..]);
            }
            RandomSource::Secure => running.random.extend_from_slice(bytes),
            RandomSource::Insecure => running.insecure.extend_from_slice(bytes),
        });
    }

    fn masks_random(&self) -> bool {
        self.info.may_write_secrets && !self.recorder.keeps_secrets()
    }

    fn read(&self, bytes: usize, read: impl FnOnce(&mut Running)) {
        if self.is_over() {
            return;
        }
        let mut running = self.running.lock();
        if running.is_open {
            read(&mut running);
            running.bytes += bytes;
            self.check_size(running);
        }
    }

    /// Ends the recording of the instance when its call is too large.
    fn check_size(&self, mut running: parking_lot::MutexGuard<'_, Running>) {
        if running.bytes <= self.recorder.max_call_bytes() {
            return;
        }
        let number = running.number;
        *running = Running { number, ..Running::default() };
        drop(running);
        if !self.is_over.swap(true, Relaxed) {
            tracing::warn!(
                event = "recording_of_instance_ended",
                plugin = &*self.info.plugin,
                instance = self.id,
                call = number,
                "a call is larger than {} bytes: this instance is recorded no further",
                self.recorder.max_call_bytes()
            );
        }
    }

    /// The instance was made, or not. Its line is written unless the host had no room for it.
    pub fn started(&self, enabled: impl Fn(LogLevel) -> bool, fault: Option<&Fault>) {
        let (_, effects) = self.take();
        if fault.is_some_and(|fault| fault.kind.is_of_host()) {
            self.is_over.store(true, Relaxed);
            return;
        }
        let line = InstanceLine {
            id: self.id,
            plugin: self.info.plugin.to_string(),
            generation: self.info.generation,
            digest: self.info.digest.clone(),
            world: self.info.world.as_str().to_owned(),
            contract: CONTRACT.to_owned(),
            limits: self.limits.into(),
            clusters: self.info.clusters.to_vec(),
            config: self.config.clone(),
            log: values::least_level(enabled).map(str::to_owned),
            random_masked: self.masks_random(),
            seed: format!("{:032x}", self.seed),
            fault: fault.map(values::fault),
            start: effects,
        };
        if !self.recorder.write_instance(line) {
            self.is_over.store(true, Relaxed);
        }
    }

    /// A call begins.
    fn begin(&self) {
        let mut running = self.running.lock();
        let number = running.number + 1;
        *running = Running { number, is_open: true, ..Running::default() };
    }

    /// What passed since the last call began.
    fn take(&self) -> (u64, Effects) {
        let mut running = self.running.lock();
        let number = running.number;
        let Running { imports, wall, monotonic, random, insecure, .. } =
            std::mem::replace(&mut *running, Running { number, ..Running::default() });
        drop(running);
        let imports = imports.into_iter().map(Passing::whole).collect();
        let base64 = |bytes: Vec<u8>| STANDARD.encode(bytes);
        (number, Effects { imports, wall, monotonic, random: base64(random), insecure: base64(insecure) })
    }

    /// Runs a call and writes it down. A call whose future is dropped is not written.
    async fn record<T>(
        &self,
        call: u64,
        export: &'static str,
        args: impl FnOnce() -> Value,
        running: impl Future<Output = Result<T, Fault>>,
        result: impl FnOnce(&T) -> Value,
    ) -> Result<T, Fault> {
        if self.is_over() {
            self.recorder.left_out();
            return running.await;
        }
        let args = args();
        self.begin();
        let answer = running.await;
        let (number, effects) = self.take();
        if self.is_over() {
            self.recorder.left_out();
            return answer;
        }
        let result = match &answer {
            Ok(answer) => result(answer),
            Err(fault) => values::fault(fault),
        };
        let line =
            CallLine { instance: self.id, number, call, export: export.to_owned(), args, effects, result };
        if !self.recorder.write_call(line) {
            self.is_over.store(true, Relaxed);
        }
        answer
    }

    /// Records `describe`.
    ///
    /// # Errors
    /// Those of the call.
    pub async fn describe(
        &self,
        config: &[u8],
        call: impl Future<Output = Result<Result<Vec<u8>, String>, Fault>>,
    ) -> Result<Result<Vec<u8>, String>, Fault> {
        let args = || json!({"config": values::config(config, &self.info.secret_config)});
        self.record(0, "describe", args, call, values::described).await
    }

    /// Records `reconcile`.
    ///
    /// # Errors
    /// Those of the call.
    pub async fn reconcile(
        &self,
        request: &Request<'_>,
        id: u64,
        call: impl Future<Output = Result<Result<Outcome, Failure>, Fault>>,
    ) -> Result<Result<Outcome, Failure>, Fault> {
        self.record(id, "reconcile", || values::request(request), call, values::outcome).await
    }

    /// Records `reconcile-many`.
    ///
    /// # Errors
    /// Those of the call.
    pub async fn reconcile_many(
        &self,
        requests: &[Request<'_>],
        id: u64,
        call: impl Future<Output = Result<Vec<Result<Outcome, Failure>>, Fault>>,
    ) -> Result<Vec<Result<Outcome, Failure>>, Fault> {
        let result = |answers: &Vec<_>| answers.iter().map(values::outcome).collect();
        self.record(id, "reconcile-many", || values::requests(requests), call, result).await
    }

    /// Records a call with events.
    ///
    /// # Errors
    /// Those of the call.
    pub async fn handle(
        &self,
        watch: &str,
        events: &[Event<'_>],
        id: u64,
        call: impl Future<Output = Result<Vec<Result<(), Failure>>, Fault>>,
    ) -> Result<Vec<Result<(), Failure>>, Fault> {
        self.record(
            id,
            "on-events",
            || values::event_args(watch, events),
            call,
            |answers| values::handled(answers),
        )
        .await
    }

    /// Records `on-synced`.
    ///
    /// # Errors
    /// Those of the call.
    pub async fn synced(
        &self,
        watch: &str,
        id: u64,
        call: impl Future<Output = Result<(), Fault>>,
    ) -> Result<(), Fault> {
        self.record(id, "on-synced", || json!({"watch": watch}), call, |()| json!({})).await
    }
}

impl Passing {
    fn whole(self) -> Import {
        let Self { mut import, sent, is_sent, received, pieces, ended } = self;
        if import.op == "http" {
            values::add_sent(&mut import.args, &sent, is_sent);
            if let Some(answer) = &mut import.answer {
                values::add_http_body(answer, &received, &pieces, ended.as_ref());
            }
        }
        import
    }
}

/// About how many bytes a value has.
fn size(value: &Value) -> usize {
    VALUE_BYTES
        + match value {
            Value::String(text) => text.len(),
            Value::Array(values) => values.iter().map(size).sum(),
            Value::Object(members) => members.iter().map(|(name, value)| name.len() + size(value)).sum(),
            _ => 0,
        }
}
