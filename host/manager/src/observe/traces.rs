//! [`Traces`]: spans of sampled calls, from the queue over the call to the writes of the guest.
//!
//! ```text
//! reconcile ─┬─ queue    from the add of the key, right after the watch event, until a worker took it
//!            ├─ wait     for own writes in the cache, the end of a quarantine, an instance
//!            └─ call ─┬─ write    of the guest, one for each
//!                     └─ write
//! handle ────── as a call: of an event, or of several
//! ```
//!
//! Nothing of a trace travels with a key: its numbers are made of the number of the call, with a key of the process, so all who
//! know the call know its trace. Spans are made when they have ended. Who makes them never waits: beyond a bound they are
//! dropped and counted. Without a receiver of spans there is no [`Traces`], and a call costs the look whether there is one.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc;
use tokio::time::Instant;

/// Spans that wait for the exporter: some megabytes at most, since their texts are cut.
const WAITING: usize = 8192;

/// Most bytes of a text: the longest name that the API has.
const LONGEST: usize = 253;

/// A span that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Number of the trace; never 0.
    pub trace: u128,
    /// Number of the span; never 0.
    pub id: u64,
    /// Number of the span that it is a part of; 0 for none.
    pub parent: u64,
    /// What it is of.
    pub name: &'static str,
    /// Whether it is a request to another server.
    pub is_request: bool,
    /// When it began.
    pub start: SystemTime,
    /// When it ended.
    pub end: SystemTime,
    /// What is known of it.
    pub attributes: Vec<(&'static str, Attribute)>,
    /// Why it failed.
    pub error: Option<String>,
}

/// A value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attribute {
    /// A text.
    Text(String),
    /// A number.
    Number(u64),
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text[..text.floor_char_boundary(LONGEST)].to_owned())
    }
}

impl From<u64> for Attribute {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

/// Makes spans; a cheap clone.
#[derive(Clone)]
pub struct Traces(Arc<Inner>);

struct Inner {
    spans: mpsc::Sender<Span>,
    /// Makes the numbers of this process.
    numbers: RandomState,
    /// Calls with a number up to this one are sampled.
    sampled: u64,
    counts: SpanCounts,
}

/// What became of spans.
#[derive(Debug, Default)]
pub struct SpanCounts {
    recorded: AtomicU64,
    dropped: AtomicU64,
    /// Spans that the exporter could not deliver.
    pub failed: AtomicU64,
}

impl std::fmt::Debug for Traces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Traces").finish_non_exhaustive()
    }
}

/// The numbers of a sampled call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallTrace {
    trace: u128,
    root: u64,
    call: u64,
}

/// The stages of a reconcile, for its spans.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stages {
    /// When a worker took the key, and how long it had waited in the queue.
    pub(crate) taken: Instant,
    pub(crate) queued_for: Duration,
    /// When the call began and ended.
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
}

impl CallTrace {
    /// The number of the trace.
    pub(crate) fn number(self) -> u128 {
        self.trace
    }
}

impl Traces {
    /// Makes spans of this share of calls, 0 to 1, and hands them to the receiver.
    #[must_use]
    pub fn new(ratio: f64) -> (Self, mpsc::Receiver<Span>) {
        let (spans, receiver) = mpsc::channel(WAITING);
        // A float above the greatest number becomes that.
        let sampled = (ratio.clamp(0.0, 1.0) * 2.0_f64.powi(64)) as u64;
        let counts = SpanCounts::default();
        (Self(Arc::new(Inner { spans, numbers: RandomState::new(), sampled, counts })), receiver)
    }

    /// What became of spans.
    #[must_use]
    pub fn counts(&self) -> &SpanCounts {
        &self.0.counts
    }

    /// The trace of a call, if it is sampled. There is no call 0.
    pub(crate) fn of_call(&self, call: u64) -> Option<CallTrace> {
        let number = |part: u8| self.0.numbers.hash_one((call, part)).max(1);
        let low = number(0);
        if call == 0 || self.0.sampled == 0 || low > self.0.sampled {
            return None;
        }
        Some(CallTrace {
            trace: u128::from(number(1)) << 64 | u128::from(low),
            root: number(2),
            call: number(3),
        })
    }

    /// Records the spans of a reconcile. `attributes` are those of the whole.
    pub(crate) fn reconcile(
        &self,
        of: CallTrace,
        stages: Stages,
        attributes: Vec<(&'static str, Attribute)>,
        error: Option<String>,
    ) {
        let clock = Clock::now();
        let taken = clock.at(stages.taken);
        let added = taken.checked_sub(stages.queued_for).unwrap_or(taken);
        let (began, ended) = (clock.at(stages.began), clock.at(stages.ended));
        let span = |name, id, parent, start, end| Span {
            trace: of.trace,
            id,
            parent,
            name,
            is_request: false,
            start,
            end,
            attributes: Vec::new(),
            error: None,
        };
        let part = |number: u8| self.0.numbers.hash_one((of.call, number)).max(1);
        self.record(span("queue", part(0), of.root, added, taken));
        self.record(span("wait", part(1), of.root, taken, began));
        self.record(Span { error: error.clone(), ..span("call", of.call, of.root, began, ended) });
        self.record(Span { attributes, error, ..span("reconcile", of.root, 0, added, ended) });
    }

    /// Records the span of a call of an event handler.
    pub(crate) fn handle(
        &self,
        of: CallTrace,
        began: Instant,
        attributes: Vec<(&'static str, Attribute)>,
        error: Option<String>,
    ) {
        let clock = Clock::now();
        self.record(Span {
            trace: of.trace,
            id: of.call,
            parent: 0,
            name: "handle",
            is_request: false,
            start: clock.at(began),
            end: clock.system,
            attributes,
            error,
        });
    }

    /// Records the span of a write in a call, which ends now.
    pub(crate) fn write(
        &self,
        of: CallTrace,
        began: std::time::Instant,
        attributes: Vec<(&'static str, Attribute)>,
        error: Option<String>,
    ) {
        let end = SystemTime::now();
        let start = end.checked_sub(began.elapsed()).unwrap_or(end);
        let id = self.0.numbers.hash_one((of.call, start)).max(1);
        let (trace, parent) = (of.trace, of.call);
        self.record(Span {
            trace,
            id,
            parent,
            name: "write",
            is_request: true,
            start,
            end,
            attributes,
            error,
        });
    }

    fn record(&self, mut span: Span) {
        if let Some(error) = &mut span.error {
            error.truncate(error.floor_char_boundary(LONGEST));
        }
        let counts = &self.0.counts;
        let count = if self.0.spans.try_send(span).is_ok() { &counts.recorded } else { &counts.dropped };
        count.fetch_add(1, Relaxed);
    }
}

impl SpanCounts {
    /// The numbers, each with what became of these spans.
    #[must_use]
    pub fn get(&self) -> [(&'static str, u64); 3] {
        [("recorded", &self.recorded), ("dropped", &self.dropped), ("failed", &self.failed)]
            .map(|(result, count)| (result, count.load(Relaxed)))
    }
}

/// The same moment on both clocks.
#[derive(Clone, Copy)]
struct Clock {
    system: SystemTime,
    instant: Instant,
}

impl Clock {
    fn now() -> Self {
        Self { system: SystemTime::now(), instant: Instant::now() }
    }

    /// A moment in the past.
    fn at(self, instant: Instant) -> SystemTime {
        let ago = self.instant.saturating_duration_since(instant);
        self.system.checked_sub(ago).unwrap_or(self.system)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(receiver: &mut mpsc::Receiver<Span>) -> Vec<Span> {
        std::iter::from_fn(|| receiver.try_recv().ok()).collect()
    }

    #[test]
    fn a_share_of_calls_is_sampled_and_each_who_asks_gets_the_same_numbers() {
        let sampled = |ratio| {
            let (traces, _receiver) = Traces::new(ratio);
            (1..=10_000).filter(|call| traces.of_call(*call).is_some()).count()
        };
        assert_eq!((sampled(0.0), sampled(1.0), sampled(7.0), sampled(-1.0)), (0, 10_000, 10_000, 0));
        let tenth = sampled(0.1);
        assert!((800..1200).contains(&tenth), "{tenth}");
        let (traces, _receiver) = Traces::new(1.0);
        assert_eq!(traces.of_call(7), traces.of_call(7));
        assert_ne!(traces.of_call(7), traces.of_call(8));
        assert_eq!(traces.of_call(0), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reconcile_is_one_trace_from_the_queue_to_the_writes() {
        let (traces, mut receiver) = Traces::new(1.0);
        let of = traces.of_call(7).unwrap();
        let second = Duration::from_secs(1);
        let taken = Instant::now();
        tokio::time::advance(2 * second).await;
        let began = Instant::now();
        traces.write(of, std::time::Instant::now(), vec![("verb", "patch".into())], None);
        tokio::time::advance(3 * second).await;
        let stages = Stages { taken, queued_for: second, began, ended: Instant::now() };
        traces.reconcile(of, stages, vec![("key", "ns/x".into())], Some("no".to_owned()));
        let spans = received(&mut receiver);
        let named = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
        let root = named("reconcile");
        assert_eq!((spans.len(), root.parent, root.error.as_deref()), (5, 0, Some("no")));
        assert_eq!(root.attributes, [("key", Attribute::Text("ns/x".to_owned()))]);
        assert!(spans.iter().all(|span| span.trace == root.trace && span.id != 0));
        let ids: std::collections::BTreeSet<u64> = spans.iter().map(|span| span.id).collect();
        assert_eq!(ids.len(), 5, "{spans:?}");
        for (name, seconds) in [("queue", 1), ("wait", 2), ("call", 3)] {
            let span = named(name);
            assert_eq!(span.parent, root.id, "{name}");
            assert_eq!(span.end.duration_since(span.start).unwrap().as_secs(), seconds, "{name}");
        }
        assert_eq!((named("queue").start, named("queue").end), (root.start, named("wait").start));
        assert_eq!((named("wait").end, named("call").end), (named("call").start, root.end));
        let write = named("write");
        assert_eq!((write.parent, write.is_request), (named("call").id, true));
    }

    #[tokio::test(start_paused = true)]
    async fn spans_beyond_the_bound_are_dropped_and_counted() {
        let (traces, receiver) = Traces::new(1.0);
        let of = traces.of_call(1).unwrap();
        for _ in 0..WAITING + 5 {
            traces.handle(of, Instant::now(), Vec::new(), None);
        }
        assert_eq!(traces.counts().get(), [("recorded", WAITING as u64), ("dropped", 5), ("failed", 0)]);
        drop(receiver);
        traces.handle(of, Instant::now(), Vec::new(), None);
        assert_eq!(traces.counts().get()[1], ("dropped", 6));
    }

    #[test]
    fn texts_are_cut() {
        let Attribute::Text(text) = Attribute::from("ü".repeat(1000).as_str()) else { panic!("a number") };
        assert_eq!(text.len(), 252);
    }
}
