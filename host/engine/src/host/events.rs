//! [`EventImports`]: the interface `events`.

use pilothouse_object::{Gvk, Object, ObjectKey};

use super::{CallContext, Refusal};

/// A Kubernetes Event that a guest records, as it came.
#[derive(Debug)]
pub struct GuestEvent {
    /// What it is about.
    pub regarding: EventTarget,
    /// Another object that has to do with it.
    pub related: Option<EventTarget>,
    /// `Normal` or `Warning`.
    pub event_type: String,
    /// Why, for programs.
    pub reason: String,
    /// What was done; may be empty.
    pub action: String,
    /// For people.
    pub note: String,
    /// Options as JSON; empty stands for `{}`.
    pub options: String,
}

/// What an event is about.
#[derive(Debug)]
pub enum EventTarget {
    /// An object of the host.
    Object(Object),
    /// What the guest knows of an object.
    Reference {
        /// Its kind.
        kind: Gvk,
        /// Its key.
        key: ObjectKey,
        /// Its UID; empty when it is not known.
        uid: String,
        /// Its version; empty when it is not known.
        resource_version: String,
    },
}

/// Kubernetes Events of the plugin.
pub trait EventImports {
    /// Records an event as the plugin; a host without events refuses it.
    ///
    /// # Errors
    /// When the plugin may not record it, it is malformed, or there are too many.
    fn record_event(&self, _context: &CallContext, _event: GuestEvent) -> Result<(), Refusal> {
        Err(Refusal { reason: "unavailable", message: "this host records no events".to_owned() })
    }
}
