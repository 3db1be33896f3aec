//! [`ReplayTape`]: the call that is replayed: what it did then, and what it does now.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use pilothouse_engine::{RandomSource, Refusal};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::Value;

use crate::format::{Effects, Import};
use crate::values;

/// Most bytes of what a guest does beyond the recording that are kept to be shown.
const MAX_BEYOND: usize = 1000;

/// Whether an import is one that may be left out: lines of the log, and metrics.
pub(super) fn is_log(op: &str) -> bool {
    op == "log" || op.starts_with("metrics.")
}

/// The answer where the recording has none.
pub(super) fn unknown() -> Refusal {
    Refusal::unavailable("the recording has no answer for this call")
}

/// The call that is replayed. An instance runs one call at a time.
pub(super) struct ReplayTape {
    ignore_logs: bool,
    running: Mutex<Running>,
}

struct Running {
    then: Arc<Effects>,
    /// The place of the next import in `then`.
    next: usize,
    now: Vec<Made>,
    /// The guest called another import than it did then.
    has_left: bool,
    calls: u64,
    wall: usize,
    monotonic: usize,
    /// The last reading of each clock.
    last_wall: u64,
    last_monotonic: u64,
    random: Stream,
    insecure: Stream,
}

/// An import that the guest calls now.
#[derive(Debug, Clone)]
pub(super) struct Made {
    pub(super) import: Import,
    /// What the recording does not have, as further objects of a list.
    pub(super) beyond: Option<&'static str>,
    sent: Vec<u8>,
    /// How much of the body of a request was sent then, if it was not all.
    sent_then: Option<usize>,
}

/// Random bytes: those of the recording, then those of a generator with a fixed seed.
struct Stream {
    bytes: Vec<u8>,
    at: usize,
    more: StdRng,
}

impl Stream {
    fn new(base64: &str, seed: u64) -> Self {
        let bytes = STANDARD.decode(base64).unwrap_or_default();
        Self { bytes, at: 0, more: StdRng::seed_from_u64(seed) }
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        let had = bytes.len().min(self.bytes.len() - self.at);
        bytes[..had].copy_from_slice(&self.bytes[self.at..self.at + had]);
        self.at += had;
        self.more.fill_bytes(&mut bytes[had..]);
    }
}

/// An import whose answer the guest still reads.
#[derive(Clone, Copy)]
pub(super) struct Place(usize);

impl ReplayTape {
    /// Begins with the start code of an instance.
    pub(super) fn new(start: Arc<Effects>, ignore_logs: bool) -> Self {
        let empty = Running {
            then: Arc::default(),
            next: 0,
            now: Vec::new(),
            has_left: false,
            wall: 0,
            monotonic: 0,
            last_wall: 0,
            last_monotonic: 0,
            random: Stream::new("", 0),
            calls: 0,
            insecure: Stream::new("", 1),
        };
        let tape = Self { ignore_logs, running: Mutex::new(empty) };
        tape.begin(start);
        tape
    }

    /// A call begins, which did this then.
    pub(super) fn begin(&self, then: Arc<Effects>) {
        let mut running = self.running.lock();
        // Each call has others beyond the recording.
        running.calls += 1;
        running.random = Stream::new(&then.random, 2 * running.calls);
        running.insecure = Stream::new(&then.insecure, 2 * running.calls + 1);
        running.then = then;
        running.next = 0;
        running.now.clear();
        running.has_left = false;
        running.wall = 0;
        running.monotonic = 0;
    }

    /// What the guest did in the call.
    pub(super) fn end(&self) -> Vec<Made> {
        let now = std::mem::take(&mut self.running.lock().now);
        now.into_iter().map(Made::whole).collect()
    }

    /// Whether lines of the log and metrics are left out.
    pub(super) fn ignores(&self, op: &str) -> bool {
        self.ignore_logs && is_log(op)
    }

    /// The guest calls an import: its place, and what was answered then. None where it called another one, or got no answer.
    pub(super) fn asked(&self, op: &'static str, args: Value) -> Option<(Place, Value)> {
        let mut running = self.running.lock();
        let running = &mut *running;
        if running.has_left && running.now.len() > running.then.imports.len() + MAX_BEYOND {
            return None;
        }
        let import = Import { op: op.to_owned(), args, answer: None };
        running.now.push(Made { import, beyond: None, sent: Vec::new(), sent_then: None });
        if running.has_left {
            return None;
        }
        while running.then.imports.get(running.next).is_some_and(|then| self.ignores(&then.op)) {
            running.next += 1;
        }
        match running.then.imports.get(running.next) {
            Some(then) if then.op == op => {
                running.next += 1;
                if let Some(made) = running.now.last_mut() {
                    made.sent_then = values::sent(&then.args);
                }
                Some((Place(running.now.len() - 1), then.answer.clone()?))
            }
            _ => {
                running.has_left = true;
                None
            }
        }
    }

    /// The guest calls an import: what was answered then, read by `read`; a refusal where there is none.
    pub(super) fn answer<T>(
        &self,
        op: &'static str,
        args: Value,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, Refusal> {
        let (_, answer) = self.asked(op, args).ok_or_else(unknown)?;
        values::refused_or(&answer, read).unwrap_or_else(|| Err(unknown()))
    }

    /// As [`answer`](Self::answer), of an import that answers nothing but a refusal.
    pub(super) fn unit(&self, op: &'static str, args: Value) -> Result<(), Refusal> {
        self.answer(op, args, |_| Some(()))
    }

    /// As [`answer`](Self::answer), of an import that answers a number; 0 where there is none.
    pub(super) fn number(&self, op: &'static str, args: Value) -> u64 {
        self.answer(op, args, |answer| answer.get("count")?.as_u64()).unwrap_or_default()
    }

    /// The guest wants more than the recording has.
    pub(super) fn beyond(&self, place: Place, what: &'static str) {
        let mut running = self.running.lock();
        if let Some(made) = running.now.get_mut(place.0) {
            made.beyond = Some(what);
        }
        running.has_left = true;
    }

    /// Where bytes of the last request go.
    pub(super) fn last(&self) -> Place {
        Place(self.running.lock().now.len().saturating_sub(1))
    }

    pub(super) fn sent(&self, place: Place, bytes: &[u8]) {
        if let Some(made) = self.running.lock().now.get_mut(place.0) {
            made.sent.extend_from_slice(bytes);
        }
    }

    pub(super) fn wall(&self) -> u64 {
        let mut running = self.running.lock();
        if let Some(time) = running.then.wall.get(running.wall) {
            running.last_wall = *time;
            running.wall += 1;
        }
        running.last_wall
    }

    pub(super) fn monotonic(&self) -> u64 {
        let mut running = self.running.lock();
        if let Some(time) = running.then.monotonic.get(running.monotonic) {
            running.last_monotonic = *time;
            running.monotonic += 1;
        }
        running.last_monotonic
    }

    pub(super) fn random(&self, source: RandomSource, bytes: &mut [u8]) {
        let mut running = self.running.lock();
        match source {
            RandomSource::Secure => running.random.fill(bytes),
            RandomSource::Insecure => running.insecure.fill(bytes),
        }
    }
}

impl Made {
    fn whole(mut self) -> Self {
        if self.import.op == "http" {
            if let Some(sent) = self.sent_then {
                self.sent.truncate(sent);
            }
            values::add_sent(&mut self.import.args, &self.sent, self.sent_then.is_none());
        }
        self
    }
}
