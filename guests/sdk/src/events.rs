//! Kubernetes Events, which `kubectl describe` and `kubectl get events` print.
//!
//! ```no_run
//! # use pilothouse_sdk::prelude::*;
//! # fn scaled(object: &Object, replicas: u32) {
//! events::normal(object, "Scaled", format_args!("scaled to {replicas} replicas"));
//! # }
//! ```
//!
//! Recording never blocks: the host writes Events later. The reporting controller is the plugin's name. The host
//! combines similar Events and counts repeated ones. The manifest must grant `create` on `events` in the namespace of
//! the object, or in `default` for a cluster-scoped object.
//!
//! Most plugins use [`normal`] and [`warning`]. They log a refusal of the host, so a reconcile does not fail because of
//! an Event. [`Event`] has all fields, and its `record` returns a refusal.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::bindings::imports::events as raw;
use crate::{Key, Kind, Object, warn};

/// The object that an event is about.
#[derive(Debug, Clone, Copy)]
pub struct Regarding<'a>(Target<'a>);

#[derive(Debug, Clone, Copy)]
enum Target<'a> {
    Object(&'a Object),
    Key { kind: &'a Kind, key: &'a Key, uid: &'a str },
}

impl<'a> Regarding<'a> {
    /// An object without a handle. `uid` may be empty if it is unknown, but `kubectl describe` prints only Events with
    /// the UID of the object.
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

/// The type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// `Normal`: normal operation.
    Normal,
    /// `Warning`: a problem.
    Warning,
}

/// The refusal of an event by the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventError {
    /// `forbidden` (the manifest does not grant it), `invalid` (the event is malformed), `over-quota` (more events
    /// than `limits.eventQPS` of the manifest) or `unavailable` (this host is not the leader). Later versions may add
    /// others.
    pub reason: String,
    /// The cause and the remedy, human-readable.
    pub message: String,
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.reason)
    }
}

impl std::error::Error for EventError {}

/// Records an event of the type `Normal`. `reason` is machine-readable, in `UpperCamelCase`; `note` is
/// human-readable.
pub fn normal<'a>(regarding: impl Into<Regarding<'a>>, reason: &str, note: impl fmt::Display) {
    log_refusal(reason, Event::new(EventType::Normal, reason, note).record(regarding));
}

/// Records an event of the type `Warning`; see [`normal`].
pub fn warning<'a>(regarding: impl Into<Regarding<'a>>, reason: &str, note: impl fmt::Display) {
    log_refusal(reason, Event::new(EventType::Warning, reason, note).record(regarding));
}

fn log_refusal(reason: &str, outcome: Result<(), EventError>) {
    if let Err(error) = outcome {
        warn!("event not recorded: {error}", reason = reason);
    }
}

/// An event with all its fields.
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
    /// An event of this type. The host truncates notes to 1024 bytes, reasons and actions to 128.
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

    /// Sets the action that was taken, in `UpperCamelCase`.
    #[must_use]
    pub fn action(mut self, action: impl Into<Cow<'a, str>>) -> Self {
        self.action = action.into();
        self
    }

    /// Sets a second object that is involved.
    #[must_use]
    pub fn related(mut self, related: impl Into<Regarding<'a>>) -> Self {
        self.related = Some(related.into());
        self
    }

    /// Adds an annotation to the Event itself.
    #[must_use]
    pub fn annotation(mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) -> Self {
        self.options.annotations.insert(name.into(), value.into());
        self
    }

    /// Sets the part of the object that the event is about, such as `spec.containers{web}`.
    #[must_use]
    pub fn field_path(mut self, path: impl Into<Cow<'a, str>>) -> Self {
        self.options.field_path = Some(path.into());
        self
    }

    /// Sets the time of the event in RFC 3339. The default is now.
    #[must_use]
    pub fn timestamp(mut self, time: impl Into<Cow<'a, str>>) -> Self {
        self.options.timestamp = Some(time.into());
        self
    }

    /// Records the event about an object. The host may still drop a recorded event before it writes it.
    ///
    /// # Errors
    /// When the host refuses the event; see [`EventError::reason`].
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
