//! [`EventDecoder`]: chunks of a watch's body to events.
//!
//! Invariants: what comes out does not depend on where the chunks end; an event is given only when its line is complete; after
//! a line that is no event the next one is decoded. A line that lies in one chunk is decoded where it lies; others are put together in
//! one buffer that is used again. [`WatchStream`](super::WatchStream) calls this.

use std::borrow::Cow;

use bytes::Bytes;
use pilothouse_object::{DecodeError, Gvk, Object};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::client::OBJECT_LIMIT;
use crate::client::failure::{decode_fault, protocol, without_values};
use crate::error::{Error, Result, Status};
use crate::lines::Lines;
use crate::params::WatchEvent;
use crate::text::short;

/// Bytes of a line beside its object: the type of the event, and white space.
const ENVELOPE: usize = 1 << 10;

/// Decodes the events of one watch.
pub(super) struct EventDecoder {
    lines: Lines,
    kind: Gvk,
}

impl EventDecoder {
    /// A decoder of events about `kind`, which is put into objects that do not carry it.
    pub(super) fn new(kind: Gvk) -> Self {
        Self { lines: Lines::new(OBJECT_LIMIT + ENVELOPE), kind }
    }

    /// Adds a chunk. The one before must have been used up: `next` gave `None`.
    pub(super) fn push(&mut self, chunk: Bytes) {
        self.lines.push(chunk);
    }

    /// The next event; `None` when another chunk is needed.
    pub(super) fn next(&mut self) -> std::result::Result<Option<WatchEvent>, EventFault> {
        loop {
            match self.lines.next() {
                Ok(Some(line)) if line.trim_ascii().is_empty() => {}
                Ok(Some(line)) => return decode(line, &self.kind).map(Some),
                Ok(None) => return Ok(None),
                Err(length) => return Err(too_long(&format!("a line of {length} bytes or more"))),
            }
        }
    }

    /// The event behind the last line break, which some servers leave out at the end of the body.
    pub(super) fn finish(&mut self) -> std::result::Result<Option<WatchEvent>, CutOff> {
        let rest = self.lines.rest().trim_ascii();
        if rest.is_empty() {
            return Ok(None);
        }
        decode(rest, &self.kind).map(Some).map_err(|_| CutOff)
    }
}

/// The body ended in the middle of an event.
#[derive(Debug)]
pub(super) struct CutOff;

/// Why a line is not an event to hand on.
#[derive(Debug)]
pub(super) enum EventFault {
    /// An `ERROR` event, which ends the watch.
    Api(Box<Status>),
    /// An `ERROR` event that cannot be read, which ends the watch as well.
    UnknownError(String),
    /// The line cannot be decoded; the next one may be.
    Undecodable(String),
}

impl EventFault {
    pub(super) fn error(self, doing: &str) -> Error {
        match self {
            Self::Api(mut status) => {
                status.doing = doing.to_owned();
                Error::Api(status)
            }
            Self::UnknownError(message) => protocol(doing.to_owned(), &message),
            Self::Undecodable(message) => Error::Event { doing: doing.to_owned(), message },
        }
    }
}

impl From<serde_json::Error> for EventFault {
    fn from(error: serde_json::Error) -> Self {
        Self::Undecodable(without_values(&error))
    }
}

impl From<DecodeError> for EventFault {
    fn from(error: DecodeError) -> Self {
        Self::Undecodable(decode_fault(&error))
    }
}

impl WatchEvent<Object> {
    /// Decodes one line of a watch's body, as a stream does; `kind` is put into an object that does not carry it.
    ///
    /// # Errors
    /// [`Error::Api`] for an `ERROR` event, [`Error::Event`] when the line is no event.
    pub fn decode(line: &[u8], kind: &Gvk) -> Result<Self> {
        decode(line, kind).map_err(|fault| fault.error("watching"))
    }
}

fn decode(line: &[u8], kind: &Gvk) -> std::result::Result<WatchEvent, EventFault> {
    if let Some((event, object)) = split(line) {
        match event_of(event, object, kind) {
            // Fields may follow the object, or the object is none.
            Err(EventFault::Undecodable(_) | EventFault::UnknownError(_)) => {}
            decoded => return decoded,
        }
    }
    let frame: EventFrame<'_> = serde_json::from_slice(line)?;
    event_of(&frame.event, frame.object.get().as_bytes(), kind)
}

#[derive(Deserialize)]
struct EventFrame<'a> {
    #[serde(borrow, rename = "type")]
    event: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// Splits a line of the form `{"type":"T","object":O}`, as servers write it, without scanning `O`.
///
/// Decoding `O` shows whether it is one object and ends where it should. Of its fields it is validated what
/// [`Object::decode_trusted`] validates.
fn split(line: &[u8]) -> Option<(&str, &[u8])> {
    let rest = line.trim_ascii().strip_prefix(br#"{"type":""#)?.strip_suffix(b"}")?;
    let end = rest.iter().position(|byte| !byte.is_ascii_uppercase())?;
    let (event, rest) = rest.split_at(end);
    Some((std::str::from_utf8(event).ok()?, rest.strip_prefix(br#"","object":"#)?))
}

fn event_of(event: &str, object: &[u8], kind: &Gvk) -> std::result::Result<WatchEvent, EventFault> {
    if object.len() > OBJECT_LIMIT {
        return Err(too_long(&format!("an object of {} bytes", object.len())));
    }
    Ok(match event {
        "ADDED" => WatchEvent::Added(Object::decode_trusted(object, kind)?),
        "MODIFIED" => WatchEvent::Modified(Object::decode_trusted(object, kind)?),
        "DELETED" => WatchEvent::Deleted(Object::decode_trusted(object, kind)?),
        "BOOKMARK" => bookmark(object)?,
        "ERROR" => return Err(error_event(object)),
        other => {
            return Err(EventFault::Undecodable(format!(
                "event of unknown type {:?}",
                short(other.as_bytes())
            )));
        }
    })
}

fn error_event(object: &[u8]) -> EventFault {
    match serde_json::from_slice(object) {
        Ok(status) => EventFault::Api(Box::new(status)),
        Err(error) => {
            EventFault::UnknownError(format!("an ERROR event without a Status: {}", without_values(&error)))
        }
    }
}

/// A bookmark has no name, so it is no `Object`.
fn bookmark(object: &[u8]) -> std::result::Result<WatchEvent, EventFault> {
    #[derive(Deserialize)]
    struct Bookmark {
        metadata: BookmarkMetadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct BookmarkMetadata {
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

fn too_long(what: &str) -> EventFault {
    EventFault::Undecodable(format!("{what}; objects up to {OBJECT_LIMIT} bytes are read"))
}

#[cfg(test)]
mod tests;
