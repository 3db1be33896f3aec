//! [`RetryWatcher`]: a watch that goes on after interruptions, from the last version that was seen.
//!
//! Invariants:
//! - every change from the first version on is given once and in the server's order, or there is an error and then the end;
//! - a version that the server no longer has ends it, whether the opening or the stream reports it: changes were missed, and only
//!   a new list can tell which (client-go retries without end where the opening is refused);
//! - watches begin at least a second apart, counted from beginning to beginning.
//!
//! For programs that know from which version on they want to see changes, and need no store; the host has reflectors.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt as _, StreamExt as _};
use pilothouse_object::Object;
use tokio::time::{Instant, sleep_until};

use crate::client::Client;
use crate::error::{Error, Result};
use crate::params::{ApiResource, WatchEvent, WatchParams};

/// From the beginning of a watch to that of the next, as in client-go.
const SPACING: Duration = Duration::from_secs(1);

type Events = BoxStream<'static, Result<WatchEvent>>;
type Open = dyn Fn(WatchParams) -> BoxFuture<'static, Result<Events>> + Send + Sync;

/// A watch that goes on after interruptions.
pub struct RetryWatcher {
    open: Box<Open>,
    params: WatchParams,
    version: String,
    events: Option<Events>,
    /// When the next watch may begin.
    not_before: Option<Instant>,
    over: bool,
}

impl RetryWatcher {
    /// Watches from `params.resource_version` on, which must be a version that a list or an object had.
    ///
    /// # Errors
    /// [`Error::Request`] when the version is missing or `0`: the server would begin anywhere, and not every change be seen; or
    /// when initial events are asked for, which would come again with each watch.
    pub fn new(
        client: &Client,
        resource: &ApiResource,
        namespace: Option<&str>,
        params: WatchParams,
    ) -> Result<Self> {
        let (client, resource) = (client.clone(), resource.clone());
        let namespace = namespace.map(str::to_owned);
        Self::over(params, move |params| {
            let (client, resource, namespace) = (client.clone(), resource.clone(), namespace.clone());
            async move { Ok(client.watch(&resource, namespace.as_deref(), &params).await?.boxed()) }.boxed()
        })
    }

    fn over(
        params: WatchParams,
        open: impl Fn(WatchParams) -> BoxFuture<'static, Result<Events>> + Send + Sync + 'static,
    ) -> Result<Self> {
        let version = params.resource_version.clone().unwrap_or_default();
        let refused = |why: &str| Err(Error::Request(format!("a watch that is to see every change {why}")));
        if version.is_empty() || version == "0" {
            return refused("needs the version to go on from: that of a list, neither empty nor 0");
        }
        if params.send_initial_events {
            return refused("cannot begin with the present objects: list them first");
        }
        Ok(Self { open: Box::new(open), params, version, events: None, not_before: None, over: false })
    }

    /// The last version that was seen; bookmarks count.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        &self.version
    }

    /// The next change; `None` after an error. Bookmarks are not given. Cancel-safe.
    ///
    /// # Errors
    /// What trying again cannot help: the version is too old ([`Error::is_expired`]), the identity may not watch, the request cannot be sent
    /// or the server does not take it as it is (a selector that is none), or an event cannot be decoded or has no version to go on from. It is over then.
    pub async fn next(&mut self) -> Option<Result<WatchEvent>> {
        while !self.over {
            let Some(events) = &mut self.events else {
                if let Err(error) = self.begin().await {
                    return Some(Err(self.end(error)));
                }
                continue;
            };
            match events.next().await {
                Some(Ok(event)) => {
                    let version = version_of(&event).to_owned();
                    if version.is_empty() {
                        let error = Error::Protocol {
                            doing: "watching".to_owned(),
                            message: "an event without a resourceVersion, so nothing to go on from"
                                .to_owned(),
                        };
                        return Some(Err(self.end(error)));
                    }
                    self.version = version;
                    if !matches!(event, WatchEvent::Bookmark { .. }) {
                        return Some(Ok(event));
                    }
                }
                Some(Err(error)) if error.is_expired() || is_final(&error) => {
                    return Some(Err(self.end(error)));
                }
                Some(Err(error)) => self.pause(&error),
                None => self.events = None,
            }
        }
        None
    }

    /// Waits for a change that `condition` accepts, and gives it. Those before it are gone then, those behind it come
    /// with the next call.
    ///
    /// # Errors
    /// As [`next`](Self::next), and [`Error::Request`] when it was over before.
    pub async fn until(&mut self, mut condition: impl FnMut(&WatchEvent) -> bool) -> Result<WatchEvent> {
        while let Some(event) = self.next().await {
            let event = event?;
            if condition(&event) {
                return Ok(event);
            }
        }
        Err(Error::Request("the watch is over: begin another from a new list".to_owned()))
    }

    /// Opens a watch once it is time; an error is one that ends it.
    async fn begin(&mut self) -> Result<()> {
        if let Some(at) = self.not_before {
            sleep_until(at).await;
        }
        let params = WatchParams { resource_version: Some(self.version.clone()), ..self.params.clone() };
        self.not_before = Some(Instant::now() + SPACING);
        match (self.open)(params).await {
            Ok(events) => self.events = Some(events),
            Err(error) if error.is_expired() || is_final(&error) => return Err(error),
            Err(error) => self.pause(&error),
        }
        Ok(())
    }

    /// The watch has failed; the next begins when the server says, and no sooner than a second after this one.
    fn pause(&mut self, error: &Error) {
        tracing::debug!("watching again from {}: {error}", self.version);
        self.events = None;
        if let Some(wait) = error.retry_after() {
            self.not_before = self.not_before.max(Some(Instant::now() + wait));
        }
    }

    fn end(&mut self, error: Error) -> Error {
        self.over = true;
        self.events = None;
        error
    }
}

impl fmt::Debug for RetryWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryWatcher")
            .field("params", &self.params)
            .field("version", &self.version)
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}

fn version_of(event: &WatchEvent) -> &str {
    let of = Object::resource_version;
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => of(object),
        WatchEvent::Bookmark { resource_version, .. } => resource_version,
    }
}

/// The same request would fail again: the identity is unknown or may not watch, the request is malformed, or an event or a
/// response cannot be decoded. A resource that does not exist may be created.
fn is_final(error: &Error) -> bool {
    const CODES: [u16; 6] = [400, 401, 405, 406, 415, 422];
    matches!(error, Error::Request(_) | Error::Protocol { .. } | Error::Event { .. })
        || error.is_forbidden()
        || error.status().is_some_and(|status| CODES.contains(&status.code))
}

#[cfg(test)]
mod tests;
