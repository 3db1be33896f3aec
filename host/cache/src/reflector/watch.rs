//! Watching: opening watches at the last version, again and again, until the server has that version no more.
//!
//! A watch that ends is opened again without a list: at once when it has lasted, a second after the last opening when
//! it has not. Only an error that says that events are missing, or that nobody understands, leads back to the list.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt as _;
use pilothouse_client::{Error, WatchEvent, WatchParams};
use pilothouse_object::Object;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::{MIN_WATCH_TIMEOUT, Reflector, Stop, count, gated};
use crate::delta::Delta;
use crate::lister_watcher::EventStream;

/// Between two openings: a watch that ends at once must not become a busy loop.
const MIN_REOPEN_SPACING: Duration = Duration::from_secs(1);

/// A watch that ends sooner and has shown nothing counts as broken.
const VERY_SHORT: Duration = Duration::from_secs(1);

/// How long after its own time-out a watch is waited for: a server that does not end it is not there any more.
const TIMEOUT_SLACK: Duration = Duration::from_secs(30);

/// How a watch ended.
enum End {
    /// Open another one at the last version.
    Reopen,
    /// Events may be missing.
    Relist,
}

impl Reflector {
    /// Watches until a list is needed. `Ok`: without a failure.
    pub(super) async fn watch(&mut self) -> std::result::Result<(), Stop> {
        loop {
            sleep_until(self.next_open).await;
            let timeout = self.watch_timeout();
            let params = WatchParams {
                resource_version: (!self.version.is_empty()).then(|| self.version.to_string()),
                timeout_seconds: Some(u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX)),
                ..WatchParams::default()
            };
            count(&self.shared.watches);
            let opened = gated(&self.options.availability, self.source.watch(&params)).await;
            let began = Instant::now();
            self.next_open = began + MIN_REOPEN_SPACING;
            let stream = match opened {
                Ok(stream) => stream,
                Err(error) => {
                    count(&self.shared.watch_failures);
                    if !self.open_later(&error).await {
                        return Err(error.into());
                    }
                    continue;
                }
            };
            match self.follow(stream, began, timeout).await? {
                End::Reopen => {}
                End::Relist => return Ok(()),
            }
        }
    }

    /// Whether opening failed only for now; waits then.
    async fn open_later(&mut self, error: &Error) -> bool {
        if error.is_connection_refused() {
            // The gate waits.
            self.report(error);
            return true;
        }
        if error.is_too_many_requests() {
            self.report(error);
            let delay = self.delay(error);
            sleep(delay).await;
            return true;
        }
        false
    }

    /// Takes in the events of one watch.
    async fn follow(
        &mut self,
        mut stream: EventStream,
        began: Instant,
        timeout: Duration,
    ) -> std::result::Result<End, Stop> {
        // Adds of a watch from no version come in no order of versions: going on from one of them would lose the rest.
        let mut in_order = !matches!(&*self.version, "" | "0");
        let mut events = 0_u64;
        loop {
            let Ok(next) = timeout_at(began + timeout + TIMEOUT_SLACK, stream.next()).await else {
                tracing::info!(resource = %self.resource, "the server did not end the watch in time; opening another");
                return Ok(End::Reopen);
            };
            let event = match next {
                Some(Ok(event)) => event,
                Some(Err(error)) => return self.broken(error, began, events).await,
                None if began.elapsed() < VERY_SHORT && events == 0 => {
                    count(&self.shared.short_watches);
                    return Err(Stop::Failed(very_short()));
                }
                None => return Ok(End::Reopen),
            };
            if events == 0 {
                self.succeeded();
            }
            events += 1;
            in_order |= !matches!(event, WatchEvent::Added(_));
            self.take_in(event, in_order).await?;
        }
    }

    async fn take_in(&mut self, event: WatchEvent, in_order: bool) -> std::result::Result<(), Stop> {
        let (delta, object): (fn(Object) -> Delta, Object) = match event {
            WatchEvent::Added(object) => (Delta::Added, object),
            WatchEvent::Modified(object) => (Delta::Updated, object),
            WatchEvent::Deleted(object) => (Delta::Deleted, object),
            WatchEvent::Bookmark { resource_version, .. } => {
                count(&self.shared.bookmarks);
                if !resource_version.is_empty() && !crate::version::is_older(&resource_version, &self.version)
                {
                    self.fifo.bookmark(&resource_version);
                    self.set_version(&resource_version);
                }
                return Ok(());
            }
        };
        let version = object.resource_version().to_owned();
        self.shared.watched_events.fetch_add(1, Ordering::Relaxed);
        let moves = in_order && !version.is_empty() && !crate::version::is_older(&version, &self.version);
        self.fifo.push(delta(object), moves.then_some(&*version)).await?;
        if moves {
            self.set_version(&version);
        }
        Ok(())
    }

    /// The stream ended with an error.
    async fn broken(&mut self, error: Error, began: Instant, events: u64) -> std::result::Result<End, Stop> {
        if error.is_expired() {
            // No failure: it was away for too long. The list goes on from the last version if it can.
            tracing::info!(resource = %self.resource, version = %self.version, "the watch's version expired; listing");
            return Ok(End::Relist);
        }
        count(&self.shared.watch_failures);
        match &error {
            _ if error.is_too_many_requests() => {
                self.report(&error);
                let delay = self.delay(&error);
                sleep(delay).await;
                Ok(End::Reopen)
            }
            // The connection went, not the events: the next watch goes on where this one ended.
            Error::Transport { .. } => {
                if began.elapsed() < VERY_SHORT && events == 0 {
                    self.report(&error);
                    let delay = self.delay(&error);
                    sleep(delay).await;
                }
                Ok(End::Reopen)
            }
            _ => Err(error.into()),
        }
    }

    fn watch_timeout(&self) -> Duration {
        let min = self.options.min_watch_timeout.max(MIN_WATCH_TIMEOUT);
        min.mul_f64(1.0 + rand::random::<f64>())
    }
}

fn very_short() -> Error {
    Error::Protocol {
        doing: "watch".to_owned(),
        message: "the server ended the watch within a second, without an event".to_owned(),
    }
}
