//! Kubernetes Events, which `kubectl describe` and `kubectl get events` print.
//!
//! ```
//! # use pilothouse_sdk::prelude::*;
//! # fn scaled(ctx: &Context, object: &Object, replicas: u32) {
//! ctx.event(object, "Scaled", format_args!("scaled to {replicas} replicas"));
//! # }
//! ```
//!
//! Recording never blocks: the host writes Events later. The reporting controller is the plugin's name. The host
//! combines similar Events and counts repeated ones. The manifest must grant `create` on `events` in the namespace of
//! the object, or in `default` for a cluster-scoped object.
//!
//! Most plugins use [`Context::event`] and [`Context::warning`]. They log a refusal of the host, so a reconcile does not
//! fail because of an Event. [`Event`] has all fields, and its `record` returns a refusal.
//!
//! An Event tells of a change. Record it where the change is made and only then: a level-triggered reconcile runs again
//! without one, and an object gets at most 25 Events at once. The helpers that write return whether they did
//! ([`Written`](crate::Written)).

use std::borrow::Cow;
use std::fmt;

use crate::sys::{EventParts, Target};
use crate::{Context, Key, Kind, Object, ObjectMetadata, Refusal, Resource, warn};

/// The object that an event is about.
#[derive(Clone)]
pub struct Regarding<'a>(Target<'a>);

impl<'a> Regarding<'a> {
    /// An object without a handle. `uid` may be empty if it is unknown, but `kubectl describe` prints only Events with
    /// the UID of the object.
    #[must_use]
    pub fn key(kind: &'a Kind, key: &'a Key, uid: &'a str) -> Self {
        Self(Target::Key { kind: Cow::Borrowed(kind), key: Cow::Borrowed(key), uid: Cow::Borrowed(uid) })
    }
}

impl<'a> From<&'a Object<'_>> for Regarding<'a> {
    fn from(object: &'a Object<'_>) -> Self {
        Self(Target::Object(object.raw()))
    }
}

impl<'a, K: Resource> From<&'a K> for Regarding<'a> {
    fn from(object: &'a K) -> Self {
        let uid = Cow::Borrowed(object.metadata().uid());
        Self(Target::Key { kind: Cow::Owned(Kind::of::<K>()), key: Cow::Owned(object.key()), uid })
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

impl Context {
    /// Records an event of the type `Normal`. `reason` is machine-readable, in `UpperCamelCase`; `note` is
    /// human-readable. A refusal is logged.
    pub fn event<'a>(&self, regarding: impl Into<Regarding<'a>>, reason: &str, note: impl fmt::Display) {
        self.log_refusal(reason, &Event::new(EventType::Normal, reason, note).record(self, regarding));
    }

    /// Records an event of the type `Warning`; see [`event`](Context::event).
    pub fn warning<'a>(&self, regarding: impl Into<Regarding<'a>>, reason: &str, note: impl fmt::Display) {
        self.log_refusal(reason, &Event::new(EventType::Warning, reason, note).record(self, regarding));
    }

    fn log_refusal(&self, reason: &str, result: &Result<(), Refusal>) {
        if let Err(refusal) = result {
            warn!("event not recorded: {refusal}", reason = reason);
        }
    }
}

/// An event with all its fields.
///
/// ```
/// # use pilothouse_sdk::prelude::*;
/// # use pilothouse_sdk::events::{Event, EventType};
/// # fn bound(ctx: &Context, pod: &Object, node: &Object) -> Result<(), Refusal> {
/// Event::new(EventType::Normal, "Bound", "bound to the node")
///     .related(node)
///     .action("Binding")
///     .annotation("example.com/attempt", "2")
///     .record(ctx, pod)
/// # }
/// ```
#[derive(Clone)]
pub struct Event<'a> {
    event_type: EventType,
    reason: Cow<'a, str>,
    note: String,
    action: Option<Cow<'a, str>>,
    related: Option<Regarding<'a>>,
    field_path: Option<Cow<'a, str>>,
    annotations: Vec<(String, String)>,
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
            action: None,
            related: None,
            field_path: None,
            annotations: Vec::new(),
            timestamp: None,
        }
    }

    /// Sets the action that was taken, in `UpperCamelCase`. The default is the reason.
    #[must_use]
    pub fn action(mut self, action: impl Into<Cow<'a, str>>) -> Self {
        self.action = Some(action.into()).filter(|action| !action.is_empty());
        self
    }

    /// Sets a second object that is involved.
    #[must_use]
    pub fn related(mut self, related: impl Into<Regarding<'a>>) -> Self {
        self.related = Some(related.into());
        self
    }

    /// Adds an annotation to the Event itself; at most 32, of 8 KiB in all.
    #[must_use]
    pub fn annotation(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.annotations.push((name.into(), value.into()));
        self
    }

    /// Sets the part of the object that the event is about, such as `spec.containers{web}`.
    #[must_use]
    pub fn field_path(mut self, path: impl Into<Cow<'a, str>>) -> Self {
        self.field_path = Some(path.into());
        self
    }

    /// Sets the time of the event in RFC 3339. The default is now.
    #[must_use]
    pub fn timestamp(mut self, time: impl Into<Cow<'a, str>>) -> Self {
        self.timestamp = Some(time.into());
        self
    }

    /// Records the event about an object. The host may still drop a recorded event before it writes it.
    ///
    /// # Errors
    /// When the manifest does not grant it, the event is malformed, there are more events than `limits.eventQPS` of the
    /// manifest, or this host is not the leader, or has no shard.
    pub fn record<'b>(&self, ctx: &Context, regarding: impl Into<Regarding<'b>>) -> Result<(), Refusal> {
        let parts = EventParts {
            about: &regarding.into().0,
            event_type: self.event_type,
            reason: &self.reason,
            note: &self.note,
            action: self.action.as_deref(),
            related: self.related.as_ref().map(|related| &related.0),
            field_path: self.field_path.as_deref(),
            annotations: &self.annotations,
            timestamp: self.timestamp.as_deref(),
        };
        Ok(ctx.host().record_event(ctx.cluster(), &parts)?)
    }
}
