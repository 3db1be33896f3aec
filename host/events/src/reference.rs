//! [`ObjectReference`]: the object of an event, made from an `Object` or from its known fields.

use std::sync::Arc;

use pilothouse_object::{Gvk, Object, ObjectKey};
use serde::Serialize;

/// The object that an event is about: `ObjectReference` of core/v1. Empty texts are not sent.
///
/// A caller that records many events about one object makes the reference once and passes clones of an `Arc`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// Group and version, as `apps/v1`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Namespace; empty for a cluster-scoped object, whose events go to the namespace `default`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// UID. Without it `kubectl describe` does not show the event of an object that has one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Version of the object when this happened.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// A part of the object, as `spec.containers{web}`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field_path: String,
}

impl ObjectReference {
    /// The reference to an object of which only kind and key are known.
    #[must_use]
    pub fn of_key(kind: &Gvk, key: &ObjectKey) -> Self {
        Self {
            api_version: kind.api_version(),
            kind: kind.kind.clone(),
            namespace: key.namespace().unwrap_or_default().to_owned(),
            name: key.name().to_owned(),
            ..Self::default()
        }
    }

    /// The reference with a UID.
    #[must_use]
    pub fn with_uid(mut self, uid: &str) -> Self {
        uid.clone_into(&mut self.uid);
        self
    }

    /// The reference to a part of the object, as `spec.containers{web}`.
    #[must_use]
    pub fn with_field_path(mut self, field_path: &str) -> Self {
        field_path.clone_into(&mut self.field_path);
        self
    }

    /// The namespace that events about the object live in: its own, or `default`, as the API demands it.
    #[must_use]
    pub fn event_namespace(&self) -> &str {
        if self.namespace.is_empty() { "default" } else { &self.namespace }
    }
}

impl From<&Object> for ObjectReference {
    fn from(object: &Object) -> Self {
        Self {
            api_version: object.api_version().to_owned(),
            kind: object.kind().to_owned(),
            namespace: object.namespace().unwrap_or_default().to_owned(),
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
            resource_version: object.resource_version().to_owned(),
            field_path: String::new(),
        }
    }
}

/// The object of an event: an `Object` or a reference.
pub trait Regarding {
    /// The reference.
    fn reference(self) -> Arc<ObjectReference>;
}

impl Regarding for &Object {
    fn reference(self) -> Arc<ObjectReference> {
        Arc::new(self.into())
    }
}

impl Regarding for ObjectReference {
    fn reference(self) -> Arc<ObjectReference> {
        Arc::new(self)
    }
}

impl Regarding for &ObjectReference {
    fn reference(self) -> Arc<ObjectReference> {
        Arc::new(self.clone())
    }
}

impl Regarding for Arc<ObjectReference> {
    fn reference(self) -> Arc<ObjectReference> {
        self
    }
}

impl Regarding for &Arc<ObjectReference> {
    fn reference(self) -> Arc<ObjectReference> {
        Arc::clone(self)
    }
}
