//! The task that writes series of events to a sink, as client-go's broadcaster for events.k8s.io/v1 does: it counts, and has up to
//! eight writes under way.
//!
//! ```text
//!   queue ──► count ──► events to write ────┬──► up to 8 writes ──► sink
//!               │                           │          │
//!               └─────► keys to bring up ───┘          │
//!               ▲       to date                        │
//!               └──────────── outcome ◄────────────────┘
//! ```
//!
//! Invariants:
//! - writes of one event never overlap, so they keep their order;
//! - bringing the server up to date takes no room of events in the queue, and half of the writes at most;
//! - each series that is to be refreshed or finished stays in the queue until it was written.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::delivery::{Delivery, NotStored, Sleeps};
use crate::event::Event;
use crate::keys::Key;
use crate::metrics::SinkMetrics;
use crate::recording::{ShutdownSignals, SinkInput};
use crate::series_cache::{Displaced, FINISH_TIME, Observed, SeriesCache};
use crate::sink::EventSink;
use crate::wire;

/// How often all series are written again, before the server's time to live (one hour) ends; as in client-go.
const REFRESH_TIME: Duration = Duration::from_secs(30 * 60);
/// Writes under way at once, as in client-go.
const WRITERS: usize = 8;
/// Of these, writes that only bring the server up to date: with a slow server each may take minutes.
const UPKEEP_WRITERS: usize = WRITERS / 2;
/// Events that may wait to be written, as in client-go; and as many displaced series.
const QUEUE: usize = 1000;

/// A sink behind a cache of series.
#[derive(Debug)]
pub(crate) struct SeriesRecording<S> {
    sink: Arc<S>,
    cache: SeriesCache,
    sleep: Duration,
    ends: ShutdownSignals,
    metrics: Arc<SinkMetrics>,
    /// Events that wait to be written, the oldest first.
    events: VecDeque<(Key, Event)>,
    /// Series that left the cache before the server had their whole count.
    displaced: VecDeque<Displaced>,
    /// Series that are to be refreshed or finished.
    upkeep: VecDeque<Key>,
    writes: JoinSet<Ended>,
    /// Keys of the writes under way, and whether each is of an event.
    under_way: Vec<(Key, bool)>,
}

/// The purpose of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// An event.
    Event,
    /// A series that left the cache, with so many occurrences that the server does not have.
    Displaced(u32),
    /// A series of the cache.
    Upkeep,
}

/// A write that has ended; `None` if the deadline of the shutdown came first.
struct Ended {
    key: Key,
    count: u32,
    purpose: Purpose,
    outcome: Option<Result<(), NotStored>>,
}

impl<S: EventSink> SeriesRecording<S> {
    pub(crate) fn new(
        sink: S,
        cache: SeriesCache,
        sleep: Duration,
        ends: ShutdownSignals,
        metrics: Arc<SinkMetrics>,
    ) -> Self {
        Self {
            sink: Arc::new(sink),
            cache,
            sleep,
            ends,
            metrics,
            events: VecDeque::new(),
            displaced: VecDeque::new(),
            upkeep: VecDeque::new(),
            writes: JoinSet::new(),
            under_way: Vec::with_capacity(WRITERS),
        }
    }

    /// Writes events until there are no more; then the counts that the server does not have.
    pub(crate) async fn run(mut self, mut input: SinkInput) {
        let (mut finish, mut refresh) = (ticks(FINISH_TIME), ticks(REFRESH_TIME));
        loop {
            self.start_writes(UPKEEP_WRITERS);
            tokio::select! {
                event = input.next() => match event {
                    Some(event) => self.take(event),
                    None => break,
                },
                Some(ended) = self.writes.join_next() => self.note(ended),
                _ = finish.tick() => self.upkeep.extend(self.cache.finish(self.cache.now())),
                _ = refresh.tick() => self.upkeep.extend(self.cache.refresh()),
            }
        }
        let abort = self.ends.abort.clone();
        tokio::select! {
            () = abort.cancelled() => {}
            () = self.flush() => {}
        }
        while let Some(ended) = self.writes.join_next().await {
            self.note(ended);
        }
        self.metrics.abandoned.add(self.events.len() as u64);
        let lost = self.displaced.iter().map(|series| series.unwritten).sum::<u32>()
            + self.cache.unwritten_occurrences();
        self.metrics.series_lost.add(lost.into());
        input.abandon().await;
    }

    fn take(&mut self, event: Event) {
        let now = self.cache.now();
        // Key functions are code of the user's, and run before the cache changes.
        let Ok(observed) = catch_unwind(AssertUnwindSafe(|| self.cache.observe(event, now))) else {
            self.metrics.function_panicked();
            return;
        };
        match observed {
            Observed::Filtered => {
                self.metrics.filtered.increment();
            }
            Observed::Counted => {
                self.metrics.aggregated.increment();
            }
            Observed::Second { key, event } => self.enqueue(key, event),
            Observed::First { key, event, displaced } => {
                if let Some(series) = displaced {
                    if self.displaced.len() < QUEUE {
                        self.displaced.push_back(series);
                    } else {
                        self.metrics.series_lost.add(series.unwritten.into());
                    }
                }
                self.enqueue(key, event);
            }
        }
    }

    fn enqueue(&mut self, key: Key, event: Event) {
        if self.events.len() < QUEUE {
            self.events.push_back((key, event));
            return;
        }
        self.cache.take_back(key);
        self.metrics.abandoned.increment();
        if let Some(dropped) = self.metrics.drop_log.pass() {
            tracing::warn!(
                event = "events_dropped",
                dropped,
                "events are dropped: too many wait to be written"
            );
        }
    }

    /// Starts writes while fewer than eight are under way, of which `most_upkeep` may bring the server up to date. Upkeep has one
    /// of them in any case.
    fn start_writes(&mut self, most_upkeep: usize) {
        while self.under_way.len() < WRITERS {
            let upkeep = self.under_way.iter().filter(|(_, is_event)| !is_event).count();
            let first = if upkeep == 0 { self.next_upkeep() } else { None };
            let next = first
                .or_else(|| self.next_event())
                .or_else(|| if upkeep < most_upkeep { self.next_upkeep() } else { None });
            let Some((key, event, purpose)) = next else { return };
            self.start_write(key, event, purpose);
        }
    }

    fn next_event(&mut self) -> Option<(Key, Event, Purpose)> {
        let next = self.events.iter().position(|(key, _)| !self.is_under_way(*key))?;
        let (key, event) = self.events.remove(next)?;
        Some((key, event, Purpose::Event))
    }

    /// The next series to bring up to date. One of which an event waits comes after that event.
    fn next_upkeep(&mut self) -> Option<(Key, Event, Purpose)> {
        let waits =
            |this: &Self, key| this.is_under_way(key) || this.events.iter().any(|(other, _)| *other == key);
        if let Some(next) = self.displaced.iter().position(|series| !waits(self, series.key)) {
            let Displaced { key, event, unwritten } = self.displaced.remove(next)?;
            return Some((key, event, Purpose::Displaced(unwritten)));
        }
        let now = self.cache.now();
        while let Some(next) = self.upkeep.iter().position(|key| !waits(self, *key)) {
            let key = self.upkeep.remove(next)?;
            if let Some(event) = self.cache.begin_upkeep(key, now) {
                return Some((key, event, Purpose::Upkeep));
            }
        }
        None
    }

    fn is_under_way(&self, key: Key) -> bool {
        self.under_way.iter().any(|(other, _)| *other == key)
    }

    fn start_write(&mut self, key: Key, event: Event, purpose: Purpose) {
        self.under_way.push((key, purpose == Purpose::Event));
        let (sink, metrics) = (Arc::clone(&self.sink), Arc::clone(&self.metrics));
        let (ends, sleep) = (self.ends.clone(), self.sleep);
        self.writes.spawn(async move {
            let delivery = Delivery {
                sink: &*sink,
                sleeps: Sleeps::Jittered(sleep),
                closing: &ends.closing,
                metrics: &metrics,
            };
            let patch = event.series.and_then(|_| wire::series_patch(&event).ok());
            let outcome = tokio::select! {
                biased;
                () = ends.abort.cancelled() => None,
                outcome = delivery.deliver(&event, patch.as_deref()) => Some(outcome.map(drop)),
            };
            Ended { key, count: event.series.map_or(1, |series| series.count), purpose, outcome }
        });
    }

    fn note(&mut self, ended: Result<Ended, tokio::task::JoinError>) {
        // A write contains panics of the sink, and is not aborted but with the runtime.
        let Ok(Ended { key, count, purpose, outcome }) = ended else { return };
        self.under_way.retain(|(other, _)| *other != key);
        let metrics = &self.metrics;
        match (purpose, outcome) {
            (Purpose::Event, Some(Ok(()))) => metrics.sent.increment(),
            (Purpose::Event, Some(Err(_))) => metrics.failed.increment(),
            (Purpose::Event, None) => metrics.abandoned.increment(),
            (_, Some(Ok(()))) => metrics.series_writes.increment(),
            (_, _) => metrics.series_failures.increment(),
        };
        let lost = match purpose {
            Purpose::Displaced(_) if outcome == Some(Ok(())) => 0,
            Purpose::Displaced(unwritten) => unwritten,
            Purpose::Event => {
                self.cache.written(key, count, outcome);
                0
            }
            Purpose::Upkeep => self.cache.end_upkeep(key, count, outcome),
        };
        metrics.series_lost.add(lost.into());
    }

    /// Does all writes, and those of the counts that the server does not have.
    async fn flush(&mut self) {
        self.finish_writes().await;
        self.upkeep.extend(self.cache.unwritten());
        self.finish_writes().await;
    }

    async fn finish_writes(&mut self) {
        loop {
            self.start_writes(WRITERS);
            let Some(ended) = self.writes.join_next().await else { return };
            self.note(ended);
        }
    }
}

fn ticks(every: Duration) -> Interval {
    let mut ticks = interval_at(Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
