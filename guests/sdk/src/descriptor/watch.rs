//! [`Watch`]: which objects a plugin wants to know about, and which of their changes. Part of a
//! [`Descriptor`](crate::Descriptor).

use serde::Serialize;

use super::{KindFields, Map, strings};
use crate::Kind;

/// Objects that the plugin wants to know about. What is watched can also be read from the [`cache`](crate::cache).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Watch {
    #[serde(flatten)]
    kind: KindFields,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    namespaces: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label_selector: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    field_selector: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    predicates: Vec<Predicate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    map: Option<Map>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery: Option<Delivery>,
}

impl Watch {
    /// All objects of a kind, in all namespaces that are granted.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind: kind.into(),
            namespaces: Vec::new(),
            label_selector: None,
            field_selector: None,
            predicates: Vec::new(),
            map: None,
            delivery: None,
        }
    }

    /// Only these namespaces.
    #[must_use]
    pub fn namespaces(mut self, namespaces: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.namespaces = strings(namespaces);
        self
    }

    /// Only objects with these labels, as `app=web,tier!=test`.
    #[must_use]
    pub fn label_selector(mut self, selector: impl Into<String>) -> Self {
        self.label_selector = Some(selector.into());
        self
    }

    /// Only objects with these fields, as `metadata.name=a`; the API server knows few fields of each kind.
    #[must_use]
    pub fn field_selector(mut self, selector: impl Into<String>) -> Self {
        self.field_selector = Some(selector.into());
        self
    }

    /// Only updates that pass this, and all predicates given before; adds and deletes always pass.
    #[must_use]
    pub fn predicate(mut self, predicate: Predicate) -> Self {
        self.predicates.push(predicate);
        self
    }

    /// Which keys a change concerns. Without it, the object's own key; in the world `event-handler` the handlers
    /// get it.
    #[must_use]
    pub fn map(mut self, map: Map) -> Self {
        self.map = Some(map);
        self
    }

    /// Whether changes may be merged.
    #[must_use]
    pub fn delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = Some(delivery);
        self
    }
}

/// Which updates matter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Predicate {
    /// `metadata.generation` changed: the spec did, the status alone did not.
    GenerationChanged,
    /// `metadata.resourceVersion` changed: not a resync.
    ResourceVersionChanged,
    /// A label changed.
    LabelsChanged,
    /// An annotation changed.
    AnnotationsChanged,
    /// The value at a JSON pointer changed, appeared or went.
    FieldChanged {
        /// JSON pointer, as `/spec`.
        path: String,
    },
}

impl Predicate {
    /// The value at a JSON pointer changed, appeared or went.
    pub fn field_changed(path: impl Into<String>) -> Self {
        Self::FieldChanged { path: path.into() }
    }
}

/// What becomes of changes that come faster than they are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Delivery {
    /// They are merged: the first old and the last new state are shown. The default.
    Latest,
    /// Each is shown, up to a bound of the host; beyond it they are merged.
    Every,
}
