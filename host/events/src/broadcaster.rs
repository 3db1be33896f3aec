//! [`EventBroadcaster`]: takes events from recorders to sinks, logs and watchers, each of which has a queue of its own.
//!
//! ```text
//!   EventRecorder ──► incoming queue ──┬─► queue ──► correlator ──► EventSink      core/v1
//!   (never waits)                      ├─► queue ──► series ──────► EventSink      events.k8s.io/v1
//!                                      └─► queue ──► handler, log
//! ```
//!
//! Invariants: a recorder never waits, and nothing waits for a watcher: a slow watcher misses events, which are counted. Memory is
//! bounded by the queues and the caches.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use pilothouse_client::{Client, Error};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::broadcast::{Broadcaster, BroadcasterShutDown, FullChannelBehavior};
use crate::client_sinks::{CoreV1Sink, EventsV1Sink};
use crate::correlator::EventCorrelator;
use crate::event::{Event, EventSource};
use crate::log_gate::LogGate;
use crate::metrics::{RecorderMetrics, SinkMetrics};
use crate::options::CorrelatorOptions;
use crate::recorder::EventRecorder;
use crate::recording::{Recording, ShutdownSignals, SinkInput};
use crate::series_cache::SeriesCache;
use crate::series_recording::SeriesRecording;
use crate::sink::EventSink;

/// How a broadcaster works. The defaults are client-go's.
#[derive(Debug, Clone)]
pub struct BroadcasterOptions {
    /// Who records the events, for lines of the log about dropped ones; without it they have no field `recorder`.
    pub name: Option<Arc<str>>,
    /// Events that may wait in the incoming queue, and as many in the queue of each watcher.
    pub queue_length: usize,
    /// Time between tries to write an event; some of it is random.
    pub sleep_duration: Duration,
    /// Rules of the correlators, of which each sink has its own, bounds for series, and the clock of all.
    pub correlator: CorrelatorOptions,
}

impl Default for BroadcasterOptions {
    fn default() -> Self {
        Self {
            name: None,
            queue_length: 1000,
            sleep_duration: Duration::from_secs(10),
            correlator: CorrelatorOptions::default(),
        }
    }
}

/// Takes events from recorders to sinks, logs and watchers; a cheap clone. When the last clone and the last recorder are gone, what
/// was recorded is still written.
#[derive(Debug, Clone)]
pub struct EventBroadcaster {
    queue: Arc<EventQueue>,
    shared: Arc<Shared>,
}

/// The part of a broadcaster that recorders use.
pub(crate) struct EventQueue {
    /// Who records, for the log.
    name: Option<Arc<str>>,
    queue: Broadcaster<Event>,
    correlator: CorrelatorOptions,
    metrics: Arc<RecorderMetrics>,
    drop_log: LogGate,
    /// The time that the newest event got its name from.
    last_name: AtomicU64,
}

#[derive(Debug)]
struct Shared {
    sleep_duration: Duration,
    tasks: TaskTracker,
    closing: CancellationToken,
    abort: CancellationToken,
    records_series: AtomicBool,
}

/// Why nothing could be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The broadcaster was shut down.
    #[error(transparent)]
    ShutDown(#[from] BroadcasterShutDown),
    /// Series are recorded already: a second sink would write each event twice.
    #[error("this broadcaster records series already: stop that first, or make another broadcaster")]
    AlreadyStarted,
    /// Which API the server has is not known.
    #[error("cannot ask the server for its API of events: {0}")]
    Discovery(#[source] Error),
}

/// Something that gets events from a broadcaster. Dropping it changes nothing.
#[derive(Debug)]
pub struct EventWatch {
    stop: CancellationToken,
    metrics: Arc<SinkMetrics>,
}

impl EventWatch {
    /// Takes no further events; what waits in the queue is still handled.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// The outcomes of events: those that a handler or a log has seen are `sent`.
    #[must_use]
    pub fn metrics(&self) -> &Arc<SinkMetrics> {
        &self.metrics
    }
}

impl EventBroadcaster {
    /// A broadcaster without watchers.
    ///
    /// # Panics
    /// Outside of a tokio runtime, in which it runs.
    #[must_use]
    pub fn new(options: BroadcasterOptions) -> Self {
        let BroadcasterOptions { name, queue_length, sleep_duration, correlator } = options;
        let drop_if_full = FullChannelBehavior::DropIfChannelFull;
        let queue = EventQueue {
            name,
            queue: Broadcaster::with_incoming_queue(queue_length, queue_length, drop_if_full),
            correlator,
            metrics: Arc::default(),
            drop_log: LogGate::default(),
            last_name: AtomicU64::new(0),
        };
        let shared = Shared {
            sleep_duration,
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            abort: CancellationToken::new(),
            records_series: AtomicBool::new(false),
        };
        Self { queue: Arc::new(queue), shared: Arc::new(shared) }
    }

    /// A recorder for events of this source.
    #[must_use]
    pub fn new_recorder(&self, source: EventSource) -> EventRecorder {
        EventRecorder { queue: Arc::clone(&self.queue), source: Arc::new(source) }
    }

    /// The counts of recorded events.
    #[must_use]
    pub fn metrics(&self) -> &Arc<RecorderMetrics> {
        &self.queue.metrics
    }

    /// Hands each event to a function, from now on. One that panics misses that event only.
    ///
    /// # Errors
    /// When the broadcaster was shut down.
    pub async fn start_event_watcher(
        &self,
        mut handler: impl FnMut(&Event) + Send + 'static,
    ) -> Result<EventWatch, StartError> {
        let (watch, mut input, ends) = self.watch().await?;
        let metrics = Arc::clone(&watch.metrics);
        self.shared.tasks.spawn(async move {
            while let Some(event) = input.next().await {
                match catch_unwind(AssertUnwindSafe(|| handler(&event))) {
                    Ok(()) => metrics.sent.increment(),
                    Err(_) => {
                        tracing::error!(event = "event_handler_panicked", name = %event.name, "a handler of events has panicked");
                        metrics.failed.increment()
                    }
                };
                // A handler waits for nothing, so nothing else would let others run.
                tokio::task::consume_budget().await;
                if ends.abort.is_cancelled() {
                    break;
                }
            }
            input.abandon().await;
        });
        Ok(watch)
    }

    /// Hands a line of text for each event to a function.
    ///
    /// # Errors
    /// As [`start_event_watcher`](Self::start_event_watcher).
    pub async fn start_logging(
        &self,
        mut log: impl FnMut(fmt::Arguments<'_>) + Send + 'static,
    ) -> Result<EventWatch, StartError> {
        self.start_event_watcher(move |event| {
            let (body, about) = (&event.body, &event.body.regarding);
            let (kind, namespace, name) = (&about.kind, &about.namespace, &about.name);
            log(format_args!(
                "Event({kind} {namespace}/{name}): type: '{}' reason: '{}' {}",
                body.event_type, body.reason, event.message
            ));
        })
        .await
    }

    /// Logs each event with its fields at this level.
    ///
    /// # Errors
    /// As [`start_event_watcher`](Self::start_event_watcher).
    pub async fn start_structured_logging(&self, level: tracing::Level) -> Result<EventWatch, StartError> {
        self.start_event_watcher(move |event| {
            let (body, about) = (&event.body, &event.body.regarding);
            macro_rules! log_at {
                ($level:ident) => {
                    tracing::event!(
                        tracing::Level::$level,
                        namespace = about.namespace,
                        name = about.name,
                        field_path = about.field_path,
                        kind = about.kind,
                        api_version = about.api_version,
                        r#type = body.event_type.as_str(),
                        reason = body.reason,
                        action = body.action,
                        message = &*event.message,
                        "Event occurred"
                    )
                };
            }
            match level {
                tracing::Level::ERROR => log_at!(ERROR),
                tracing::Level::WARN => log_at!(WARN),
                tracing::Level::INFO => log_at!(INFO),
                tracing::Level::DEBUG => log_at!(DEBUG),
                tracing::Level::TRACE => log_at!(TRACE),
            }
        })
        .await
    }

    /// Writes events to a sink by way of a correlator: similar ones become one, repeated ones count up.
    ///
    /// # Errors
    /// When the broadcaster was shut down.
    pub async fn start_recording_to_sink(&self, sink: impl EventSink) -> Result<EventWatch, StartError> {
        let (watch, input, ends) = self.watch().await?;
        let recording = Recording {
            sink,
            correlator: EventCorrelator::new(self.queue.correlator.clone()),
            sleep: self.shared.sleep_duration,
            ends,
            metrics: Arc::clone(&watch.metrics),
        };
        self.shared.tasks.spawn(recording.run(input));
        Ok(watch)
    }

    /// Writes events to a sink as series, as events.k8s.io/v1 has them.
    ///
    /// # Errors
    /// When series are recorded already, or the broadcaster was shut down.
    pub async fn start_recording_series_to_sink(
        &self,
        sink: impl EventSink,
    ) -> Result<EventWatch, StartError> {
        if self.shared.records_series.swap(true, Ordering::AcqRel) {
            return Err(StartError::AlreadyStarted);
        }
        let started = Started { shared: Arc::clone(&self.shared) };
        let (watch, input, ends) = self.watch().await?;
        let cache = SeriesCache::new(self.queue.correlator.clone());
        let metrics = Arc::clone(&watch.metrics);
        let recording = SeriesRecording::new(sink, cache, self.shared.sleep_duration, ends, metrics);
        self.shared.tasks.spawn(async move {
            recording.run(input).await;
            drop(started);
        });
        Ok(watch)
    }

    /// Writes events to an API server: to events.k8s.io/v1, or to core/v1 where the server does not have that API.
    ///
    /// # Errors
    /// As the other ones, and when the server cannot be asked for its APIs.
    pub async fn start_recording(&self, client: &Client) -> Result<EventWatch, StartError> {
        if EventsV1Sink::is_served(client).await.map_err(StartError::Discovery)? {
            self.start_recording_series_to_sink(EventsV1Sink::new(client.clone())).await
        } else {
            self.start_recording_to_sink(CoreV1Sink::new(client.clone())).await
        }
    }

    /// Takes no more events, and writes those that were taken, each with one try and no waits, for as long as the deadline allows.
    /// Events that are left then are dropped and counted. Returns whether all ended in time.
    pub async fn shutdown(&self, deadline: Duration) -> bool {
        let Shared { tasks, closing, abort, .. } = &*self.shared;
        let flush = async {
            self.queue.queue.shutdown().await;
            closing.cancel();
            tasks.close();
            tasks.wait().await;
        };
        let in_time = tokio::time::timeout(deadline, flush).await.is_ok();
        if !in_time {
            // Even when not all was distributed.
            closing.cancel();
            tasks.close();
            abort.cancel();
            // Only a handler that does not come back could make this longer.
            let _ = tokio::time::timeout(ABORT_TIME, tasks.wait()).await;
        }
        in_time
    }

    async fn watch(&self) -> Result<(EventWatch, SinkInput, ShutdownSignals), BroadcasterShutDown> {
        let watcher = self.queue.queue.watch().await?;
        let metrics = Arc::new(SinkMetrics::new(watcher.missed_counter()));
        let watch = EventWatch { stop: CancellationToken::new(), metrics };
        let ends = ShutdownSignals {
            stop: watch.stop.clone(),
            closing: self.shared.closing.clone(),
            abort: self.shared.abort.clone(),
        };
        let input = SinkInput::new(watcher, ends.clone(), Arc::clone(&watch.metrics));
        Ok((watch, input, ends))
    }
}

/// How long tasks may take to notice that the deadline of a shutdown has passed.
const ABORT_TIME: Duration = Duration::from_secs(1);

/// That series are recorded; ends with them.
struct Started {
    shared: Arc<Shared>,
}

impl Drop for Started {
    fn drop(&mut self) {
        self.shared.records_series.store(false, Ordering::Release);
    }
}

impl EventQueue {
    /// The time, and nanoseconds since 1970 that are not those of another event of this broadcaster.
    pub(crate) fn unique_now(&self) -> (Timestamp, u64) {
        let now = self.correlator.clock.now();
        let nanoseconds = u64::try_from(now.as_nanosecond()).unwrap_or_default();
        let unique = |last: u64| Some(nanoseconds.max(last + 1));
        let last = self.last_name.fetch_update(Ordering::Relaxed, Ordering::Relaxed, unique);
        (now, last.map_or(nanoseconds, |last| nanoseconds.max(last + 1)))
    }

    /// Puts an event into the queue if there is room.
    pub(crate) fn offer(&self, event: Event) {
        self.metrics.received.increment();
        let why = match self.queue.action_or_drop(event) {
            Ok(true) => return,
            Ok(false) => "too many events wait to be distributed",
            Err(BroadcasterShutDown) => "the broadcaster has been shut down",
        };
        self.metrics.dropped.increment();
        if let Some(dropped) = self.drop_log.pass() {
            let recorder = self.name.as_deref();
            tracing::warn!(event = "events_dropped", recorder, dropped, "events are dropped: {why}");
        }
    }
}

impl fmt::Debug for EventQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventQueue").field("metrics", &self.metrics).finish_non_exhaustive()
    }
}
