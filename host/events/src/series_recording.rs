//! The tasks that write series of events to a sink, as client-go's broadcaster for events.k8s.io/v1 does: one that counts, eight that
//! write.
//!
//! ```text
//!   queue ──► count ──► writers' queues ──► writers ──► sink
//!               ▲            (by key)          │
//!               └──── what was written ◄───────┘
//! ```
//!
//! Writes of one event go through one writer, so they keep their order.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::delivery::{Delivery, Sleeps};
use crate::event::Event;
use crate::keys::Key;
use crate::metrics::SinkMetrics;
use crate::recording::{ShutdownSignals, SinkInput};
use crate::series_cache::{FINISH_TIME, Observed, SeriesCache};
use crate::sink::EventSink;
use crate::wire;

/// How often all series are written again, before the server's time to live (one hour) ends; as in client-go.
const REFRESH_TIME: Duration = Duration::from_secs(30 * 60);
/// Writers, as in client-go.
const WRITERS: usize = 8;
/// Writes that may wait for each writer: 1000 in all, as in client-go.
const WRITER_QUEUE: usize = 125;

/// A sink behind a cache of series.
#[derive(Debug)]
pub(crate) struct SeriesRecording<S> {
    pub(crate) sink: Arc<S>,
    pub(crate) cache: SeriesCache,
    pub(crate) sleep: Duration,
    pub(crate) ends: ShutdownSignals,
    pub(crate) metrics: Arc<SinkMetrics>,
}

#[derive(Debug)]
struct Job {
    key: Key,
    event: Event,
    /// Whether it is what became of an event, or only brings the server up to date.
    is_event: bool,
}

/// A write that has ended: which, with what count, and whether it went well.
type Written = (Key, u32, bool);

struct Writers {
    queues: Vec<mpsc::Sender<Job>>,
    written: mpsc::UnboundedReceiver<Written>,
    /// Writes that have not ended.
    under_way: usize,
    tasks: JoinSet<()>,
}

impl<S: EventSink> SeriesRecording<S> {
    /// Writes events until there are no more; then what is counted and not written yet.
    pub(crate) async fn run(mut self, mut input: SinkInput) {
        let mut writers = self.start_writers();
        let (mut finish, mut refresh) = (ticks(FINISH_TIME), ticks(REFRESH_TIME));
        loop {
            tokio::select! {
                event = input.next() => match event {
                    Some(event) => self.take(event, &mut writers),
                    None => break,
                },
                Some(written) = writers.written.recv() => self.note(written, &mut writers),
                _ = finish.tick() => {
                    for (key, event) in self.cache.finish(self.cache.now()) {
                        if writers.send(key, event, false).is_err() {
                            self.cache.not_finishing(key);
                        }
                    }
                }
                _ = refresh.tick() => {
                    for (key, event) in self.cache.refresh() {
                        // What finds no room is refreshed another time.
                        let _ = writers.send(key, event, false);
                    }
                }
            }
        }
        let abort = self.ends.abort.clone();
        tokio::select! {
            () = abort.cancelled() => {}
            () = self.flush(&mut writers) => {}
        }
        // The writers come to their end, and count what they cannot write any more.
        writers.queues.clear();
        while writers.tasks.join_next().await.is_some() {}
        input.abandon().await;
    }

    fn take(&mut self, event: Event, writers: &mut Writers) {
        let now = self.cache.now();
        match self.cache.observe(event, now) {
            Observed::Filtered => {
                self.metrics.filtered.increment();
            }
            Observed::Counted => {
                self.metrics.aggregated.increment();
            }
            Observed::Second { key, event } => self.write(key, event, writers),
            Observed::First { key, event, displaced } => {
                if let Some((key, event)) = displaced {
                    // Without room its last occurrences are not written: they have counted as aggregated.
                    let _ = writers.send(key, event, false);
                }
                self.write(key, event, writers);
            }
        }
    }

    fn write(&mut self, key: Key, event: Event, writers: &mut Writers) {
        if writers.send(key, event, true).is_err() {
            self.cache.take_back(key);
            let dropped = self.metrics.abandoned.increment();
            if dropped.is_power_of_two() {
                tracing::warn!(
                    event = "events_dropped",
                    dropped,
                    "events are dropped: too many wait to be written"
                );
            }
        }
    }

    fn note(&mut self, (key, count, stored): Written, writers: &mut Writers) {
        writers.under_way -= 1;
        self.cache.written(key, count, stored);
    }

    /// Waits for all writes, and writes the counts that the server does not have.
    async fn flush(&mut self, writers: &mut Writers) {
        self.settle(writers).await;
        for (key, event) in self.cache.unwritten() {
            let job = Job { key, event, is_event: false };
            if writers.queue(key).send(job).await.is_ok() {
                writers.under_way += 1;
            }
        }
        self.settle(writers).await;
    }

    async fn settle(&mut self, writers: &mut Writers) {
        while writers.under_way > 0 {
            let Some(written) = writers.written.recv().await else { return };
            self.note(written, writers);
        }
    }

    fn start_writers(&self) -> Writers {
        let (ended, written) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        let queues = (0..WRITERS).map(|_| {
            let (sender, queue) = mpsc::channel(WRITER_QUEUE);
            let writer = Writer {
                sink: Arc::clone(&self.sink),
                sleep: self.sleep,
                ends: self.ends.clone(),
                metrics: Arc::clone(&self.metrics),
                ended: ended.clone(),
            };
            tasks.spawn(writer.run(queue));
            sender
        });
        let queues = queues.collect();
        Writers { queues, written, under_way: 0, tasks }
    }
}

impl Writers {
    fn queue(&self, key: Key) -> &mpsc::Sender<Job> {
        // The other half finds places in tables.
        &self.queues[(key.0 >> 64) as usize % self.queues.len()]
    }

    /// Gives a write to its writer, if that has room.
    fn send(&mut self, key: Key, event: Event, is_event: bool) -> Result<(), ()> {
        self.queue(key).try_send(Job { key, event, is_event }).map_err(drop)?;
        self.under_way += 1;
        Ok(())
    }
}

struct Writer<S> {
    sink: Arc<S>,
    sleep: Duration,
    ends: ShutdownSignals,
    metrics: Arc<SinkMetrics>,
    ended: mpsc::UnboundedSender<Written>,
}

impl<S: EventSink> Writer<S> {
    async fn run(self, mut queue: mpsc::Receiver<Job>) {
        while let Some(job) = queue.recv().await {
            let metrics = &self.metrics;
            let stored = tokio::select! {
                biased;
                () = self.ends.abort.cancelled() => None,
                stored = self.write(&job.event) => Some(stored),
            };
            match (job.is_event, stored) {
                (true, Some(true)) => metrics.sent.increment(),
                (true, Some(false)) => metrics.failed.increment(),
                (true, None) => metrics.abandoned.increment(),
                (false, Some(true)) => metrics.series_writes.increment(),
                (false, _) => 0,
            };
            let count = job.event.series.map_or(1, |series| series.count);
            // Who counts may have ended.
            let _ = self.ended.send((job.key, count, stored == Some(true)));
        }
    }

    async fn write(&self, event: &Event) -> bool {
        let delivery = Delivery {
            sink: &*self.sink,
            sleeps: Sleeps::Jittered(self.sleep),
            closing: &self.ends.closing,
            metrics: &self.metrics,
        };
        let patch = event.series.and_then(|_| wire::series_patch(event).ok());
        delivery.deliver(event, patch.as_deref()).await.is_ok()
    }
}

fn ticks(every: Duration) -> Interval {
    let mut ticks = interval_at(Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
