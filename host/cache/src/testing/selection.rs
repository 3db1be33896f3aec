//! [`Selection`]: which objects one watch of the `FakeControllerSource` shows, and as what events.

use pilothouse_client::{Result, WatchEvent};
use pilothouse_object::{FieldSelector, LabelSelector, Object};

use super::errors;

/// One change of an object: what it was before, and what became of it.
pub(super) struct Past {
    pub(super) version: u64,
    pub(super) before: Option<Object>,
    pub(super) event: WatchEvent,
}

/// Which objects a source shows.
pub(super) struct Selection {
    namespace: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    pub(super) fn new(namespace: Option<&str>, labels: &str, fields: &str) -> Result<Self> {
        let bad = |error: &dyn std::fmt::Display| errors::status(400, "BadRequest", &error.to_string());
        Ok(Self {
            namespace: namespace.map(str::to_owned),
            labels: labels.parse().map_err(|e| bad(&e))?,
            fields: fields.parse().map_err(|e| bad(&e))?,
        })
    }

    pub(super) fn shows(&self, object: &Object) -> bool {
        let here = self.namespace.is_none() || self.namespace.as_deref() == object.namespace();
        here && self.labels.matches(object) && self.fields.matches(object)
    }

    /// The event that a watch gets: objects enter and leave its view.
    pub(super) fn event(&self, past: &Past) -> Option<WatchEvent> {
        let before = past.before.as_ref().is_some_and(|object| self.shows(object));
        match &past.event {
            WatchEvent::Added(new) | WatchEvent::Modified(new) => match (before, self.shows(new)) {
                (false, false) => None,
                (false, true) => Some(WatchEvent::Added(new.clone())),
                (true, true) => Some(WatchEvent::Modified(new.clone())),
                (true, false) => Some(WatchEvent::Deleted(new.clone())),
            },
            WatchEvent::Deleted(_) if before => Some(past.event.clone()),
            _ => None,
        }
    }
}
