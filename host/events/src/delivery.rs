//! [`Delivery`]: one event to its sink: patch or create, and again while that may help.
//!
//! Twelve tries; what the sink has refused is not tried again. The time for one event is bounded, as others wait behind it. When the broadcaster shuts down, a wait ends at once and the try behind
//! it is the last.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::event::Event;
use crate::limits::bounded;
use crate::metrics::SinkMetrics;
use crate::sink::{EventSink, Recorded, SinkError};

/// Tries for each event, as in client-go.
pub const MAX_TRIES_PER_EVENT: u32 = 12;
/// The longest wait that a sink may ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Bytes of an error that are logged: a server quotes what it refuses.
const LONGEST_ERROR: usize = 1024;

/// How long to wait between tries.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sleeps {
    /// A random part of it before the second try, so that clients do not come back all at once; then all of it. As for core/v1.
    RandomFirst(Duration),
    /// It, and up to a quarter more. As for events.k8s.io/v1.
    Jittered(Duration),
}

impl Sleeps {
    fn before_try(self, next: u32) -> Duration {
        match self {
            Self::RandomFirst(sleep) if next == 2 => sleep.mul_f64(rand::random_range(0.0..1.0)),
            Self::RandomFirst(sleep) => sleep,
            Self::Jittered(sleep) => sleep.mul_f64(rand::random_range(1.0..1.25)),
        }
    }

    /// The longest time for one event: that of all tries without an answer that says when to come again, and one such answer.
    fn longest(self) -> Duration {
        let sleep = match self {
            Self::RandomFirst(sleep) => sleep,
            Self::Jittered(sleep) => sleep.mul_f64(1.25),
        };
        sleep.saturating_mul(MAX_TRIES_PER_EVENT - 1).saturating_add(MAX_RETRY_AFTER)
    }
}

/// The sink and the policy of a delivery.
#[derive(Debug)]
pub(crate) struct Delivery<'a, S> {
    pub(crate) sink: &'a S,
    pub(crate) sleeps: Sleeps,
    pub(crate) closing: &'a CancellationToken,
    pub(crate) metrics: &'a SinkMetrics,
}

/// Why an event was not stored; the error has been logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotStored {
    /// The sink has refused it.
    Refused,
    /// No try was successful.
    Exhausted,
}

impl<S: EventSink> Delivery<'_, S> {
    /// Patches the event if there is a patch, and creates it otherwise or if it is gone.
    pub(crate) async fn deliver(&self, event: &Event, patch: Option<&[u8]>) -> Result<Recorded, NotStored> {
        // Whether a create may have been done without our knowing.
        let mut unanswered = false;
        let mut tries = 1;
        let began = Instant::now();
        loop {
            let closing = self.closing.is_cancelled();
            let (error, retry_after) = match self.guarded(event, patch).await {
                Ok(recorded) => return Ok(recorded),
                Err(SinkError::AlreadyExists(_)) if unanswered && patch.is_none() => return Ok(event.into()),
                // It came into being between patch and create.
                Err(error @ SinkError::AlreadyExists(_)) if event.series.is_some() => (error, None),
                Err(error @ SinkError::Transient { retry_after, unsent, .. }) => {
                    // A sink that asks to wait has answered.
                    unanswered |= retry_after.is_none() && !unsent;
                    (error, retry_after)
                }
                Err(error) => {
                    self.rejected(event, &error);
                    return Err(NotStored::Refused);
                }
            };
            let sleep = retry_after
                .map_or_else(|| self.sleeps.before_try(tries + 1), |after| after.min(MAX_RETRY_AFTER));
            let is_late = began.elapsed().saturating_add(sleep) > self.sleeps.longest();
            if closing || tries == MAX_TRIES_PER_EVENT || is_late {
                self.failed(event, &error, tries);
                return Err(NotStored::Exhausted);
            }
            tracing::debug!(name = %event.name, tries, "the event is not written yet: {error}");
            tries += 1;
            self.metrics.retries.increment();
            tokio::select! {
                () = tokio::time::sleep(sleep) => {}
                () = self.closing.cancelled() => {}
            }
        }
    }

    fn rejected(&self, event: &Event, error: &SinkError) {
        if matches!(error, SinkError::AlreadyExists(_) | SinkError::NamespaceTerminating(_)) {
            tracing::debug!(name = %event.name, "the event is not written: {error}");
        } else {
            self.failed(event, error, 1);
        }
    }

    /// Logs one failure a minute: plugins decide how many there are.
    fn failed(&self, event: &Event, error: &SinkError, tries: u32) {
        let component = &event.body.source.component;
        let error = bounded(format_args!("{error}"), LONGEST_ERROR);
        match self.metrics.failure_log.pass() {
            None => {
                tracing::debug!(name = %event.name, component, tries, "the event is not written: {error}");
            }
            Some(failed) => {
                tracing::error!(event = "event_not_written", name = %event.name, component, tries, failed, "the event is not written, and not tried again: {error}");
            }
        }
    }

    /// One try. A sink that panics refuses the event, and loses no others.
    async fn guarded(&self, event: &Event, patch: Option<&[u8]>) -> Result<Recorded, SinkError> {
        let attempt = AssertUnwindSafe(self.attempt(event, patch)).catch_unwind();
        attempt.await.unwrap_or_else(|_| Err(SinkError::Rejected("the sink has panicked".to_owned())))
    }

    async fn attempt(&self, event: &Event, patch: Option<&[u8]>) -> Result<Recorded, SinkError> {
        if let Some(patch) = patch {
            match self.sink.patch(event, patch).await {
                Err(SinkError::NotFound(_)) => {}
                answer => return answer,
            }
        }
        self.sink.create(event).await
    }
}
