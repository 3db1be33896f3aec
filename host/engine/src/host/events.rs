//! [`EventImports`]: the host side of the interface `events`.

use std::collections::BTreeMap;

use pilothouse_object::{Gvk, Object, ObjectKey};

use super::{CallContext, Refusal};

/// A Kubernetes Event that a guest records, not validated yet.
#[derive(Debug)]
pub struct GuestEvent {
    /// The object that the event is about.
    pub regarding: EventTarget,
    /// A second object that is involved.
    pub related: Option<EventTarget>,
    /// Whether it is of the type `Warning`; else it is `Normal`.
    pub is_warning: bool,
    /// The machine-readable reason.
    pub reason: String,
    /// The action that was taken; may be empty.
    pub action: String,
    /// The human-readable message.
    pub note: String,
    /// Options.
    pub options: EventOptions,
}

/// Options of an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventOptions {
    /// Annotations of the Event itself.
    pub annotations: BTreeMap<String, String>,
    /// A part of the object, as `spec.containers{web}`; may be empty.
    pub field_path: String,
    /// When it happened, as RFC 3339; now if there is none.
    pub timestamp: Option<String>,
}

/// An object that an event refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventTarget {
    /// The kind of the object.
    pub kind: Gvk,
    /// The key of the object.
    pub key: ObjectKey,
    /// The UID of the object; empty when it is unknown.
    pub uid: String,
    /// The resource version of the object; empty when it is unknown.
    pub resource_version: String,
}

impl From<&Object> for EventTarget {
    fn from(object: &Object) -> Self {
        Self {
            kind: object.gvk(),
            key: object.key().clone(),
            uid: object.uid().to_owned(),
            resource_version: object.resource_version().to_owned(),
        }
    }
}

/// Kubernetes Events of the plugin.
pub trait EventImports {
    /// Records an event with the plugin as its reporter.
    ///
    /// # Errors
    /// When the plugin may not record the event, the event is malformed, the plugin exceeds its event quota, or the
    /// host records no events.
    fn record_event(&self, _context: &CallContext, _event: GuestEvent) -> Result<(), Refusal> {
        Err(Refusal::unavailable("this host records no events"))
    }
}
