//! Kubernetes Events, which people see with `kubectl describe` and `kubectl get events`.
//!
//! ```no_run
//! # use pilothouse_sdk::prelude::*;
//! # fn scaled(object: &Object, replicas: u32) {
//! events::normal(object, "Scaled", format_args!("scaled to {replicas} replicas"));
//! # }
//! ```
//!
//! Recording never waits, and nothing is written during the call: the host writes later, as the plugin (the reporting controller is
//! the plugin's name), makes similar events one, and counts repeated ones up. The plugin needs a permission to `create` `events`
//! where the events live: in the namespace of the object, or in `default` for an object without a namespace.
//!
//! [`normal`] and [`warning`] are for most callers: what the host refuses they only log, since a reconcile should not fail for want
//! of an event. [`Event`] is for the others.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::bindings::imports::events as raw;
use crate::{Key, Kind, Object, warn};

/// What an event can be about.
#[derive(Debug, Clone, Copy)]
pub struct Regarding<'a>(Target<'a>);

#[derive(Debug, Clone, Copy)]
enum Target<'a> {
    Object(&'a Object),
    Key { kind: &'a Kind, key: &'a Key, uid: &'a str },
}

impl<'a> Regarding<'a> {
    /// An object of which no more than this is known. `kubectl describe` shows the events of an object only with its UID; where
    /// that is not known it may be empty.
    #[must_use]
    pub fn key(kind: &'a Kind, key: &'a Key, uid: &'a str) -> Self {
        Self(Target::Key { kind, key, uid })
    }

    fn raw(self) -> raw::Regarding<'a> {
        match self.0 {
            Target::Object(object) => raw::Regarding::Object(object.raw()),
            Target::Key { kind, key, uid } => raw::Regarding::Reference(raw::Reference {
                kind: kind.raw(),
                key: key.clone(),
                uid: uid.to_owned(),
                resource_version: String::new(),
            }),
        }
    }
}

impl<'a> From<&'a Object> for Regarding<'a> {
    fn from(object: &'a Object) -> Self {
        Self(Target::Object(object))
    }
}

impl<'a> From<(&'a Kind, &'a Key)> for Regarding<'a> {
    fn from((kind, key): (&'a Kind, &'a Key)) -> Self {
        Self::key(kind, key, "")
    }
}

/// Whether an event tells of something that should not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// `Normal`.
    Normal,
    /// `Warning`.
    Warning,
}

/// Why the host refused an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventError {
    /// `forbidden` (a grant is missing), `invalid` (the event is malformed), `over-quota` (events come faster than
    /// `limits.eventQPS` of the manifest), `unavailable` (this host does not lead); more may come.
    pub reason: String,
    /// For people.
    pub message: String,
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.reason)
    }
}

impl std::error::Error for EventError {}

/// Records that something happened as it should. `reason` says in `UpperCamelCase` to programs what the note says to people.
pub fn normal<'a>(regarding: impl Into<Regarding<'a>>, reason: &str, note: impl fmt::Display) {
    log_refusal(reason, Event::new(EventType::Normal, reason, note).record(regarding));
}

/// Records that something happened that should not.
pub fn warning<'a>(regarding: impl Into<Regarding<'a>>, reason: &str, note: impl fmt::Display) {
    log_refusal(reason, Event::new(EventType::Warning, reason, note).record(regarding));
}

fn log_refusal(reason: &str, outcome: Result<(), EventError>) {
    if let Err(error) = outcome {
        warn!("event not recorded: {error}", reason = reason);
    }
}

/// An event with all that can be said of one.
///
/// ```no_run
/// # use pilothouse_sdk::prelude::*;
/// # use pilothouse_sdk::events::{Event, EventType};
/// # fn bound(pod: &Object, node: &Object) -> Result<(), events::EventError> {
/// Event::new(EventType::Normal, "Bound", "bound to the node")
///     .related(node)
///     .action("Binding")
///     .annotation("example.com/attempt", "2")
///     .record(pod)
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Event<'a> {
    event_type: EventType,
    reason: Cow<'a, str>,
    note: String,
    action: Cow<'a, str>,
    related: Option<Regarding<'a>>,
    options: Options<'a>,
}

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Options<'a> {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    field_path: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<Cow<'a, str>>,
}

impl<'a> Event<'a> {
    /// An event of this type. Notes are cut at 1024 bytes, reasons and actions at 128.
    #[must_use]
    pub fn new(event_type: EventType, reason: impl Into<Cow<'a, str>>, note: impl fmt::Display) -> Self {
        Self {
            event_type,
            reason: reason.into(),
            note: note.to_string(),
            action: Cow::Borrowed(""),
            related: None,
            options: Options::default(),
        }
    }

    /// What was done, in `UpperCamelCase`.
    #[must_use]
    pub fn action(mut self, action: impl Into<Cow<'a, str>>) -> Self {
        self.action = action.into();
        self
    }

    /// Another object that has to do with it.
    #[must_use]
    pub fn related(mut self, related: impl Into<Regarding<'a>>) -> Self {
        self.related = Some(related.into());
        self
    }

    /// An annotation of the Event itself.
    #[must_use]
    pub fn annotation(mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) -> Self {
        self.options.annotations.insert(name.into(), value.into());
        self
    }

    /// The part of the object that it is about, as `spec.containers{web}`.
    #[must_use]
    pub fn field_path(mut self, path: impl Into<Cow<'a, str>>) -> Self {
        self.options.field_path = Some(path.into());
        self
    }

    /// When it happened, as RFC 3339; now, unless set.
    #[must_use]
    pub fn timestamp(mut self, time: impl Into<Cow<'a, str>>) -> Self {
        self.options.timestamp = Some(time.into());
        self
    }

    /// Records it about an object.
    ///
    /// # Errors
    /// When the host refuses it; that it was recorded does not mean that it is ever written.
    pub fn record<'b>(&self, regarding: impl Into<Regarding<'b>>) -> Result<(), EventError> {
        let related = self.related.map(Regarding::raw);
        let event_type = match self.event_type {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        };
        let options = if self.options.is_empty() {
            String::new()
        } else {
            serde_json::to_string(&self.options)
                .map_err(|error| EventError { reason: "invalid".to_owned(), message: error.to_string() })?
        };
        raw::record(
            &regarding.into().raw(),
            related.as_ref(),
            event_type,
            &self.reason,
            &self.action,
            &self.note,
            &options,
        )
        .map_err(|error| EventError { reason: error.reason, message: error.message })
    }
}

impl Options<'_> {
    fn is_empty(&self) -> bool {
        self.annotations.is_empty() && self.field_path.is_none() && self.timestamp.is_none()
    }
}
