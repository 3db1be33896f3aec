//! [`OpenWatch`]: a watch that the server has accepted, and opening one.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt as _;
use pilothouse_client::{Error, Result, WatchEvent, WatchParams};
use pilothouse_object::Gvr;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::options::MIN_WATCH_TIMEOUT;
use super::status::{Shared, count};
use super::{Reflector, gated};
use crate::source::lister_watcher::EventStream;

/// Between two openings: a watch that ends at once must not become a busy loop.
const MIN_REOPEN_SPACING: Duration = Duration::from_secs(1);

/// Servers end watches after an hour at most; far more than this is beyond the reach of timers.
const LONGEST_WATCH_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// A watch that ends sooner and has shown nothing counts as broken.
const VERY_SHORT: Duration = Duration::from_secs(1);

/// How long after its own time-out a watch is waited for: a server that does not end it is not there any more.
const TIMEOUT_SLACK: Duration = Duration::from_secs(30);

/// A watch that the server has accepted. Its figures are noted when it is let go, however that comes.
pub(super) struct OpenWatch {
    stream: EventStream,
    began: Instant,
    /// Ends when it is waited for no longer; one timer for all events.
    over: Pin<Box<Sleep>>,
    /// Events so far, bookmarks included.
    pub(super) events: u64,
    /// Events that could not be decoded and were skipped, as client-go does: one bad object must not stop its kind.
    pub(super) skipped: u64,
    resource: Gvr,
    shared: Arc<Shared>,
}

impl OpenWatch {
    /// The next event that can be decoded; `None`: the server has ended the watch, or should have.
    pub(super) async fn next(&mut self) -> Option<Result<WatchEvent>> {
        let next = loop {
            let next = tokio::select! {
                biased;
                next = self.stream.next() => next,
                () = &mut self.over => None,
            };
            match next {
                Some(Err(error)) if error.is_skippable() => self.skip(&error),
                next => break next,
            }
        };
        if let Some(Ok(event)) = &next {
            self.events += 1;
            let counter = match event {
                WatchEvent::Bookmark { .. } => &self.shared.bookmarks,
                _ => &self.shared.watched_events,
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        next
    }

    /// Logs the first event that is skipped; the number of all is logged when the watch ends.
    fn skip(&mut self, error: &Error) {
        self.skipped += 1;
        count(&self.shared.skipped_events);
        if self.skipped == 1 {
            tracing::warn!(event = "watch_event_skipped", cluster = self.shared.cluster(), resource = %self.resource,
                %error, "a watch event is skipped");
        }
    }

    /// Whether it has shown nothing and not lasted.
    pub(super) fn is_very_short(&self) -> bool {
        self.events == 0 && self.began.elapsed() < VERY_SHORT
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.shared.watch_duration.lock().observe(self.began.elapsed().as_secs_f64());
        self.shared.items_per_watch.lock().observe(self.events as f64);
        if self.skipped > 1 {
            let skipped = self.skipped;
            tracing::warn!(event = "watch_event_skipped", cluster = self.shared.cluster(), resource = %self.resource, skipped,
                "watch events were skipped");
        }
    }
}

impl Reflector {
    /// Opens a watch, not too soon after the one before; waits while the server is away or asks for time.
    pub(super) async fn open(&mut self, version: &str, initial_events: bool) -> Result<OpenWatch> {
        loop {
            sleep_until(self.next_open).await;
            let timeout = self.watch_timeout();
            let params = WatchParams {
                resource_version: (!version.is_empty()).then(|| version.to_owned()),
                timeout_seconds: Some(u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX)),
                send_initial_events: initial_events,
                ..WatchParams::default()
            };
            count(&self.shared.watches);
            let opened = gated(&self.options.availability, self.source.watch(&params)).await;
            let began = Instant::now();
            self.next_open = began + MIN_REOPEN_SPACING;
            match opened {
                Ok(stream) => {
                    let over = Box::pin(sleep_until(began + timeout + TIMEOUT_SLACK));
                    let (resource, shared) = (self.resource.clone(), self.shared.clone());
                    return Ok(OpenWatch { stream, began, over, events: 0, skipped: 0, resource, shared });
                }
                Err(error) => {
                    count(&self.shared.watch_failures);
                    if error.is_connection_refused() {
                        // The gate waits.
                        self.report(&error);
                    } else if error.is_too_many_requests() {
                        self.wait_after(&error).await;
                    } else {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Reports a failure that needs nothing but time, and gives it.
    pub(super) async fn wait_after(&mut self, error: &Error) {
        self.report(error);
        let delay = self.delay(error);
        sleep(delay).await;
    }

    fn watch_timeout(&self) -> Duration {
        let min = self.options.min_watch_timeout.clamp(MIN_WATCH_TIMEOUT, LONGEST_WATCH_TIMEOUT);
        min.mul_f64(1.0 + rand::random::<f64>())
    }
}

/// The failure of a watch that ended at once.
pub(super) fn very_short() -> Error {
    Error::Protocol {
        doing: "watch".to_owned(),
        message: "the server ended the watch within a second, without an event".to_owned(),
    }
}
