//! The task that writes events to a sink by way of the correlator, one after the other, as client-go's core/v1 broadcaster does.
//!
//! While an event is retried all others wait in the queue; events that find the queue full are dropped and counted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::broadcast::BroadcastWatcher;
use crate::correlator::{Correlated, EventCorrelator};
use crate::delivery::{Delivery, Sleeps};
use crate::event::Event;
use crate::metrics::SinkMetrics;
use crate::sink::EventSink;

/// The ends that a task may come to, beside that of its queue.
#[derive(Debug, Clone)]
pub(crate) struct ShutdownSignals {
    /// No further events are to be taken.
    pub(crate) stop: CancellationToken,
    /// The broadcaster shuts down: no wait between tries.
    pub(crate) closing: CancellationToken,
    /// The deadline has passed: nothing more is to be done.
    pub(crate) abort: CancellationToken,
}

/// Takes events out of a watcher's queue, and counts them.
#[derive(Debug)]
pub(crate) struct SinkInput {
    watcher: BroadcastWatcher<Event>,
    ends: ShutdownSignals,
    metrics: Arc<SinkMetrics>,
    stopped: bool,
}

impl SinkInput {
    pub(crate) fn new(
        watcher: BroadcastWatcher<Event>,
        ends: ShutdownSignals,
        metrics: Arc<SinkMetrics>,
    ) -> Self {
        Self { watcher, ends, metrics, stopped: false }
    }

    /// The next event; none behind the last one, and when the task is to end. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        let event = loop {
            tokio::select! {
                biased;
                () = self.ends.abort.cancelled() => break None,
                () = self.ends.stop.cancelled(), if !self.stopped => {
                    self.watcher.stop();
                    self.stopped = true;
                }
                event = self.watcher.next() => break event,
            }
        };
        if event.is_some() {
            self.metrics.taken.increment();
        }
        event
    }

    /// Counts the remaining events as dropped, with those that the broadcaster has still to distribute.
    pub(crate) async fn abandon(mut self) {
        while self.watcher.next().await.is_some() {
            self.metrics.taken.increment();
            self.metrics.abandoned.increment();
        }
    }
}

/// A sink behind a correlator.
#[derive(Debug)]
pub(crate) struct Recording<S> {
    pub(crate) sink: S,
    pub(crate) correlator: EventCorrelator,
    pub(crate) sleep: Duration,
    pub(crate) ends: ShutdownSignals,
    pub(crate) metrics: Arc<SinkMetrics>,
}

impl<S: EventSink> Recording<S> {
    /// Writes events until there are no more.
    pub(crate) async fn run(mut self, mut input: SinkInput) {
        let abort = self.ends.abort.clone();
        while let Some(event) = input.next().await {
            let metrics = Arc::clone(&self.metrics);
            tokio::select! {
                biased;
                () = abort.cancelled() => {
                    metrics.abandoned.increment();
                }
                () = self.record(event) => {}
            }
        }
        input.abandon().await;
    }

    async fn record(&mut self, event: Event) {
        let (metrics, now) = (&self.metrics, self.correlator.now());
        // Key and message functions are code of the user's. They run before the state of their cache entry changes.
        let correlated = catch_unwind(AssertUnwindSafe(|| self.correlator.correlate(event, now)));
        let Ok(correlated) = correlated else {
            metrics.function_panicked();
            return;
        };
        let (correlation, patched) = match correlated {
            Correlated::Skip => {
                metrics.filtered.increment();
                return;
            }
            Correlated::Create(correlation) => (correlation, false),
            Correlated::Patch(correlation) => (correlation, true),
        };
        let delivery = Delivery {
            sink: &self.sink,
            sleeps: Sleeps::RandomFirst(self.sleep),
            closing: &self.ends.closing,
            metrics,
        };
        let patch = if patched { correlation.patch().ok() } else { None };
        match delivery.deliver(&correlation.event, patch.as_deref()).await {
            Ok(recorded) => {
                self.correlator.update_state(&correlation, recorded);
                if correlation.aggregated { &metrics.aggregated } else { &metrics.sent }.increment();
            }
            Err(_) => {
                metrics.failed.increment();
            }
        }
    }
}
