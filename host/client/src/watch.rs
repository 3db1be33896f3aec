//! [`WatchStream`]: the events of one watch, decoded straight from the lines of its body.
//!
//! Invariants: after an error or the end the stream is over, and `next` gives `None`; an event is given only when its
//! line is complete. A line that lies in one chunk is decoded where it lies; others are put together in one buffer that
//! is used again. The reflector of `pilothouse-cache` calls this.

use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::Stream;
use hyper::body::{Body as _, Incoming};
use pilothouse_object::{Gvk, Object};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::answer;
use crate::call::{Call, protocol};
use crate::client::Client;
use crate::connection::Slot;
use crate::error::{Error, Result, Status};
use crate::lines::Lines;
use crate::params::{ApiResource, WatchEvent, WatchParams};
use crate::url::Target;

/// Longest event that is read.
const LINE_LIMIT: usize = 16 << 20;
/// How long after `timeoutSeconds` a server that has not ended the watch is taken for dead.
const SLACK: Duration = Duration::from_secs(30);

/// The events of one watch; also a `Stream`. Dropping it closes the watch.
pub struct WatchStream {
    body: Incoming,
    lines: Lines,
    kind: Gvk,
    doing: String,
    deadline: Option<Pin<Box<Sleep>>>,
    over: bool,
    slot: Slot,
}

impl Client {
    /// Opens a watch.
    ///
    /// # Errors
    /// As the server answers; a version that is too old may be told here or by the stream.
    pub async fn watch(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        params: &WatchParams,
    ) -> Result<WatchStream> {
        let mut target = Target::collection(resource, namespace)?;
        target.watch(params);
        let call = Call::watch(target, params);
        let deadline = params.timeout_seconds.map(|seconds| {
            Box::pin(sleep_until(Instant::now() + Duration::from_secs(seconds.into()) + SLACK))
        });
        let (response, slot) = self.send(&call).await?;
        Ok(WatchStream {
            body: response.into_body(),
            lines: Lines::new(LINE_LIMIT),
            kind: resource.gvk.clone(),
            doing: self.doing(&call).replacen("GET", "watching", 1),
            deadline,
            over: false,
            slot,
        })
    }
}

impl WatchStream {
    /// The next event; `None` when the server has ended the watch.
    ///
    /// Cancel-safe: a call that is dropped loses nothing.
    ///
    /// # Errors
    /// [`Error::Api`] for an `ERROR` frame, [`Error::Transport`] when the connection broke, ended in the middle of an
    /// event or fell silent, [`Error::Protocol`] when an event is not one. The stream is over then.
    pub async fn next(&mut self) -> Option<Result<WatchEvent>> {
        poll_fn(|cx| self.poll_next_event(cx)).await
    }

    fn poll_next_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<WatchEvent>>> {
        if self.over {
            return Poll::Ready(None);
        }
        let next = ready!(self.poll_event(cx));
        if !matches!(next, Some(Ok(_))) {
            self.over = true;
            self.deadline = None;
        }
        Poll::Ready(next)
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<WatchEvent>>> {
        loop {
            match self.lines.next() {
                Ok(Some(line)) if line.trim_ascii().is_empty() => continue,
                Ok(Some(line)) => {
                    let decoded = decode(line, &self.kind);
                    return Poll::Ready(Some(decoded.map_err(|fault| fault.error(&self.doing))));
                }
                Ok(None) => {}
                Err(message) => return Poll::Ready(Some(Err(protocol(self.doing.clone(), &message)))),
            }
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.lines.push(data);
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    return Poll::Ready(Some(Err(answer::transport(self.doing.clone(), &error))));
                }
                Poll::Ready(None) => return Poll::Ready(self.last()),
                Poll::Pending => {
                    let Some(deadline) = &mut self.deadline else { return Poll::Pending };
                    ready!(deadline.as_mut().poll(cx));
                    self.slot.broken();
                    let slack = SLACK.as_secs();
                    let message = format!("still open {slack} s after its timeout: the connection is dead");
                    return Poll::Ready(Some(Err(self.broken(message, true))));
                }
            }
        }
    }

    /// What stands behind the last line break when the body has ended.
    fn last(&mut self) -> Option<Result<WatchEvent>> {
        self.over = true;
        let rest = self.lines.rest().trim_ascii();
        if rest.is_empty() {
            return None;
        }
        Some(
            decode(rest, &self.kind)
                .map_err(|_| self.broken("ended in the middle of an event".to_owned(), false)),
        )
    }

    fn broken(&self, message: String, timeout: bool) -> Error {
        Error::Transport { doing: self.doing.clone(), message, connection_refused: false, timeout }
    }
}

impl Stream for WatchStream {
    type Item = Result<WatchEvent>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_next_event(cx)
    }
}

impl std::fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchStream")
            .field("doing", &self.doing)
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}

/// Why a line is not an event to hand on.
enum Fault {
    Api(Box<Status>),
    Protocol(String),
}

impl Fault {
    fn error(self, doing: &str) -> Error {
        match self {
            Self::Api(mut status) => {
                status.doing = doing.to_owned();
                Error::Api(status)
            }
            Self::Protocol(message) => protocol(doing.to_owned(), &message),
        }
    }
}

impl<E: std::error::Error> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::Protocol(format!("event: {error}"))
    }
}

impl WatchEvent<Object> {
    /// Decodes one line of a watch's body, as a stream does; `kind` is put into an object that does not carry it.
    ///
    /// # Errors
    /// [`Error::Api`] for an `ERROR` frame, [`Error::Protocol`] when the line is no event.
    pub fn decode(line: &[u8], kind: &Gvk) -> Result<Self> {
        decode(line, kind).map_err(|fault| fault.error("watching"))
    }
}

fn decode(line: &[u8], kind: &Gvk) -> std::result::Result<WatchEvent, Fault> {
    match split(line) {
        Some((event, object)) => event_of(event, object, kind),
        None => {
            let frame: Frame<'_> = serde_json::from_slice(line)?;
            event_of(&frame.event, frame.object.get().as_bytes(), kind)
        }
    }
}

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow, rename = "type")]
    event: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// Splits a line of the form `{"type":"T","object":O}`, as servers write it, without scanning `O`.
///
/// Whoever parses `O` finds out whether it is one value: if it is, the line is JSON and this is what it says.
fn split(line: &[u8]) -> Option<(&str, &[u8])> {
    let rest = line.trim_ascii().strip_prefix(br#"{"type":""#)?.strip_suffix(b"}")?;
    let end = rest.iter().position(|byte| !byte.is_ascii_uppercase())?;
    let (event, rest) = rest.split_at(end);
    Some((std::str::from_utf8(event).ok()?, rest.strip_prefix(br#"","object":"#)?))
}

fn event_of(event: &str, object: &[u8], kind: &Gvk) -> std::result::Result<WatchEvent, Fault> {
    Ok(match event {
        "ADDED" => WatchEvent::Added(Object::decode_as(object, kind)?),
        "MODIFIED" => WatchEvent::Modified(Object::decode_as(object, kind)?),
        "DELETED" => WatchEvent::Deleted(Object::decode_as(object, kind)?),
        "BOOKMARK" => bookmark(object)?,
        "ERROR" => return Err(Fault::Api(Box::new(serde_json::from_slice(object)?))),
        other => return Err(Fault::Protocol(format!("unknown event type {other:?}"))),
    })
}

/// A bookmark has no name, so it is no `Object`.
fn bookmark(object: &[u8]) -> std::result::Result<WatchEvent, Fault> {
    #[derive(Deserialize)]
    struct Bookmark {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: String,
        #[serde(default)]
        annotations: Option<Annotations>,
    }
    #[derive(Deserialize)]
    struct Annotations {
        #[serde(rename = "k8s.io/initial-events-end", default)]
        initial_events_end: String,
    }
    let Bookmark { metadata } = serde_json::from_slice(object)?;
    let initial_events_end = metadata.annotations.is_some_and(|a| a.initial_events_end == "true");
    Ok(WatchEvent::Bookmark { resource_version: metadata.resource_version, initial_events_end })
}
