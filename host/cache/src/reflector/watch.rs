//! Watching: opening watches at the last version, again and again, until the server has that version no more.
//!
//! A watch that ends is opened again without a list: at once when it has lasted, a second after the last opening when
//! it has not. Only an error that says that events are missing, or that nobody understands, leads back to the list, or
//! [`SharedInformer::relist`](crate::SharedInformer::relist).

use pilothouse_client::{Error, WatchEvent};

use super::open::{OpenWatch, very_short};
use super::{Again, Reflector, Stop, count};
use crate::delta::Delta;
use crate::version::ResourceVersion;

/// How a watch ended.
enum WatchEnd {
    /// Open another one at the last version.
    Reopen,
    /// Events may be missing, or a list is asked for.
    Relist(Again),
}

impl Reflector {
    /// Watches until a list is needed, at first on a watch that is open already. `Ok`: without a failure.
    pub(super) async fn watch(&mut self, mut open: Option<OpenWatch>) -> Result<Again, Stop> {
        loop {
            let watch = match open.take() {
                Some(watch) => watch,
                None => {
                    let version = self.version.to_text();
                    match self.open(&version, false).await {
                        Ok(watch) => watch,
                        Err(error) if error.is_expired() => return Ok(self.expired()),
                        Err(error) => return Err(error.into()),
                    }
                }
            };
            match self.follow(watch).await? {
                WatchEnd::Reopen => {}
                WatchEnd::Relist(again) => return Ok(again),
            }
        }
    }

    /// Takes in the events of one watch.
    async fn follow(&mut self, mut watch: OpenWatch) -> Result<WatchEnd, Stop> {
        // Adds of a watch from no version come in no order of versions: going on from one of them would lose the rest.
        let mut in_order = !matches!(&*self.version.to_text(), "" | "0");
        let mut relist = self.relist.clone();
        // One registration for all events of the watch. It cannot fail: the sender lives in `self`.
        let mut list_asked_for = std::pin::pin!(relist.changed());
        loop {
            let next = tokio::select! {
                biased;
                next = watch.next() => next,
                _ = &mut list_asked_for => None,
            };
            // Before what came at the same time, which the list has as well: the end of the watch would begin another one.
            if self.relist.has_changed().unwrap_or(false) {
                return Ok(WatchEnd::Relist(Again::AtOnce));
            }
            let event = match next {
                Some(Ok(event)) => event,
                Some(Err(error)) => {
                    let very_short = watch.is_very_short();
                    // The connection is freed before anything is waited for.
                    drop(watch);
                    return self.broken(error, very_short).await;
                }
                None if watch.is_very_short() => {
                    count(&self.shared.short_watches);
                    return Err(Stop::Failed(very_short()));
                }
                None => return Ok(WatchEnd::Reopen),
            };
            if watch.events == 1 {
                self.succeeded();
            }
            in_order |= !matches!(event, WatchEvent::Added(_));
            self.take_in(event, in_order).await?;
        }
    }

    async fn take_in(&mut self, event: WatchEvent, in_order: bool) -> Result<(), Stop> {
        let version = match &event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                object.resource_version()
            }
            WatchEvent::Bookmark { resource_version, .. } => resource_version.as_str(),
        };
        let version = ResourceVersion::from(version);
        let moves = in_order && !version.is_empty() && !version.is_older_than(&self.version);
        let receive = |object| self.receiver.watched(object);
        let delta = match event {
            WatchEvent::Added(object) => receive(object).map(Delta::Added).ok(),
            WatchEvent::Modified(object) => receive(object).map(Delta::Updated).ok(),
            // That it is gone is certain, whatever can be made of its last state.
            WatchEvent::Deleted(object) => Some(
                receive(object)
                    .map_or_else(|key| Delta::DeletedFinalStateUnknown { key, object: None }, Delta::Deleted),
            ),
            WatchEvent::Bookmark { .. } => None,
        };
        match delta {
            Some(delta) => self.fifo.push(delta, moves.then(|| version.clone())).await?,
            None if moves => self.fifo.bookmark(version.clone()),
            None => {}
        }
        if moves {
            self.set_version(version);
        }
        Ok(())
    }

    /// The watch's version is not served any more. No failure: it was away for too long. The list goes on from the last
    /// version if it can.
    fn expired(&self) -> Again {
        self.tell_expired();
        Again::AfterBackoff
    }

    pub(super) fn tell_expired(&self) {
        tracing::info!(event = "watch_expired", cluster = self.shared.cluster(), resource = %self.resource,
            version = %self.version, "the last version expired; listing");
    }

    /// The stream ended with an error.
    async fn broken(&mut self, error: Error, very_short: bool) -> Result<WatchEnd, Stop> {
        if error.is_expired() {
            return Ok(WatchEnd::Relist(self.expired()));
        }
        count(&self.shared.watch_failures);
        match &error {
            _ if error.is_too_many_requests() => {
                self.wait_after(&error).await;
                Ok(WatchEnd::Reopen)
            }
            // The connection went, not the events: the next watch goes on where this one ended.
            Error::Transport { .. } => {
                if very_short {
                    self.wait_after(&error).await;
                }
                Ok(WatchEnd::Reopen)
            }
            _ if is_internal(&error) && self.internal_errors.retry() => {
                self.report(&error);
                Ok(WatchEnd::Reopen)
            }
            _ => Err(error.into()),
        }
    }
}

/// The server's own fault, as when its database is slow.
fn is_internal(error: &Error) -> bool {
    error.status().is_some_and(|status| match status.reason.as_str() {
        "" => status.code == 500,
        reason => reason == "InternalError",
    })
}
