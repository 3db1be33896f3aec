//! Events to begin with, a clock that follows tokio's, and a sink that answers as a test says.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use pilothouse_events::{
    BroadcasterOptions, Clock, CorrelatorOptions, Event, EventBody, EventBroadcaster, EventRecorder,
    EventSink, EventSource, EventType, EventWatch, ObjectReference, Recorded, SinkCounts, SinkError, Write,
};
use tokio::time::Instant;

/// When tests begin.
pub(crate) const BEGIN: Timestamp = Timestamp::constant(1_790_000_000, 123_456_789);

/// A clock that stands at [`BEGIN`] now and goes with tokio's.
pub(crate) fn clock() -> Clock {
    let start = Instant::now();
    Clock::new(move || BEGIN + start.elapsed())
}

pub(crate) fn options() -> BroadcasterOptions {
    let correlator = CorrelatorOptions { clock: clock(), ..CorrelatorOptions::default() };
    BroadcasterOptions { correlator, ..BroadcasterOptions::default() }
}

pub(crate) fn broadcaster() -> EventBroadcaster {
    EventBroadcaster::new(options())
}

pub(crate) fn recorder(broadcaster: &EventBroadcaster) -> EventRecorder {
    broadcaster.new_recorder(EventSource::new("kubelet", "node-1"))
}

pub(crate) fn pod(name: &str) -> ObjectReference {
    ObjectReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        ..ObjectReference::default()
    }
}

/// An event about the pod `web`, as a recorder makes it.
pub(crate) fn event(message: &str) -> Event {
    about(pod("web"), "Failed", message)
}

pub(crate) fn about(regarding: ObjectReference, reason: &str, message: &str) -> Event {
    Event {
        name: format!("{}.{message}", regarding.name).into(),
        message: message.into(),
        count: 1,
        first_timestamp: BEGIN,
        last_timestamp: BEGIN,
        series: None,
        body: Arc::new(EventBody {
            regarding: Arc::new(regarding),
            related: None,
            source: Arc::new(EventSource::new("kubelet", "node-1")),
            event_type: EventType::Normal,
            reason: reason.to_owned(),
            action: String::new(),
            annotations: Vec::new(),
        }),
    }
}

/// A sink that gives the answers of a script, and then stores everything.
#[derive(Debug)]
pub(crate) struct Scripted {
    script: Mutex<VecDeque<Result<(), SinkError>>>,
    tries: Mutex<Vec<(Instant, Write)>>,
    latency: Mutex<Duration>,
}

impl Scripted {
    pub(crate) fn new(script: impl IntoIterator<Item = Result<(), SinkError>>) -> Arc<Self> {
        Self::slow(script, Duration::ZERO)
    }

    /// Whose every answer takes that long.
    pub(crate) fn slow(
        script: impl IntoIterator<Item = Result<(), SinkError>>,
        latency: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            script: Mutex::new(script.into_iter().collect()),
            tries: Mutex::default(),
            latency: Mutex::new(latency),
        })
    }

    /// Makes each answer from now on take that long.
    pub(crate) fn slow_down(&self, latency: Duration) {
        *self.latency.lock() = latency;
    }

    /// What it was asked for.
    pub(crate) fn writes(&self) -> Vec<Write> {
        self.tries.lock().iter().map(|(_, write)| write.clone()).collect()
    }

    /// How long after each other.
    pub(crate) fn waits(&self) -> Vec<Duration> {
        self.tries.lock().windows(2).map(|pair| pair[1].0 - pair[0].0).collect()
    }

    /// `create NAME COUNT` and `patch NAME COUNT`.
    pub(crate) fn summary(&self) -> Vec<String> {
        let verb = |write: &Write| if matches!(write, Write::Create(_)) { "create" } else { "patch" };
        let count = |event: &Event| event.series.map_or(event.count, |series| series.count);
        let line = |write: &Write| {
            format!("{} {} {}", verb(write), write.event().body.regarding.name, count(write.event()))
        };
        self.writes().iter().map(line).collect()
    }

    async fn answer(&self, write: Write) -> Result<Recorded, SinkError> {
        let recorded = Recorded::from(write.event());
        self.tries.lock().push((Instant::now(), write));
        let answer = self.script.lock().pop_front().unwrap_or(Ok(()));
        let latency = *self.latency.lock();
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        answer.map(|()| recorded)
    }
}

impl EventSink for Scripted {
    async fn create(&self, event: &Event) -> Result<Recorded, SinkError> {
        self.answer(Write::Create(event.clone())).await
    }

    async fn patch(&self, event: &Event, patch: &[u8]) -> Result<Recorded, SinkError> {
        self.answer(Write::Patch(event.clone(), patch.to_owned())).await
    }
}

pub(crate) fn transient() -> Result<(), SinkError> {
    Err(SinkError::Transient { message: "connection refused".to_owned(), retry_after: None, unsent: false })
}

pub(crate) fn not_found() -> Result<(), SinkError> {
    Err(SinkError::NotFound("no such event".to_owned()))
}

pub(crate) fn exists() -> Result<(), SinkError> {
    Err(SinkError::AlreadyExists("an event of that name".to_owned()))
}

/// Waits until all that was recorded has come to an end, which it must within an hour of the paused clock.
pub(crate) async fn settled(watch: &EventWatch, received: u64) -> SinkCounts {
    let settled = async {
        // The paused clock jumps, but stops at each of these.
        let mut step = Duration::from_millis(1);
        loop {
            let counts = watch.metrics().counts();
            if counts.received == received && counts.pending() == 0 {
                return counts;
            }
            tokio::time::sleep(step).await;
            step = (step * 2).min(Duration::from_secs(1));
        }
    };
    tokio::time::timeout(Duration::from_secs(3600), settled).await.expect("all events have ended")
}
