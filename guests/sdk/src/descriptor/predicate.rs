//! [`Predicate`]: a filter of the events of watched objects. Part of a [`Watch`](crate::Watch). The host evaluates it, so
//! an event that does not pass does not call the plugin.

use std::ops::Not;

use serde_json::Value;

use super::writer::Writer;

/// A filter of the events of watched objects.
///
/// The predicates of changes ([`GenerationChanged`](Self::GenerationChanged) and others) judge updates; adds and deletes
/// pass them. [`on_add`](Self::on_add), [`on_update`](Self::on_update), [`on_delete`](Self::on_delete),
/// [`field_equals`](Self::field_equals) and [`field_exists`](Self::field_exists) judge every event. Fields are those of the
/// object after the change, or of the last known state of a deleted one.
///
/// ```
/// use pilothouse_sdk::prelude::*;
///
/// const POD: Kind = Kind::core("v1", "Pod");
///
/// // Pods with a node whose labels or phase changed; no deletes.
/// let watch = Watch::new(POD)
///     .predicate(Predicate::field_exists("/spec/nodeName"))
///     .predicate(Predicate::any([Predicate::LabelsChanged, Predicate::field_changed("/status/phase")]))
///     .predicate(!Predicate::on_delete());
/// ```
///
/// Adds and deletes pass a predicate of changes, so they do **not** pass its opposite: `!Predicate::GenerationChanged`
/// lets only updates pass, those without a change of the generation.
///
/// A watch has at most 16 predicates, unless the manifest allows more (`limits.predicates`); those within others count.
/// They can be nested 8 levels deep.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Predicate {
    /// `metadata.generation` changed: a change of the spec, not of the status alone.
    GenerationChanged,
    /// `metadata.resourceVersion` changed: a change, not a resync.
    ResourceVersionChanged,
    /// A label was added, changed or removed.
    LabelsChanged,
    /// An annotation was added, changed or removed.
    AnnotationsChanged,
    /// The value at a JSON pointer was added, changed or removed.
    FieldChanged {
        /// JSON pointer, such as `/spec`.
        path: String,
    },
    /// A value at a JSON pointer equals another.
    FieldEquals {
        /// JSON pointer.
        path: String,
        /// The value as JSON.
        json: String,
    },
    /// There is a value at a JSON pointer.
    FieldExists {
        /// JSON pointer.
        path: String,
    },
    /// The event is an add: the object was created, or begins to match the selectors of the watch.
    OnAdd,
    /// The event is an update.
    OnUpdate,
    /// The event is a delete: the object was deleted, or no longer matches the selectors of the watch.
    OnDelete,
    /// All of them pass.
    All(Vec<Self>),
    /// One of them passes.
    Any(Vec<Self>),
    /// It does not pass.
    Not(Box<Self>),
}

impl Predicate {
    /// The value at a JSON pointer was added, changed or removed.
    pub fn field_changed(path: impl Into<String>) -> Self {
        Self::FieldChanged { path: path.into() }
    }

    /// The value at a JSON pointer equals this string, number, boolean or `null`. If the pointer selects several values,
    /// with `[*]`, one of them does.
    pub fn field_equals(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::FieldEquals { path: path.into(), json: value.into().to_string() }
    }

    /// There is a value at a JSON pointer; `null` is one. For the opposite, write `!` before it.
    pub fn field_exists(path: impl Into<String>) -> Self {
        Self::FieldExists { path: path.into() }
    }

    /// The event is an add: the object was created, or begins to match the selectors of the watch.
    pub fn on_add() -> Self {
        Self::OnAdd
    }

    /// The event is an update.
    pub fn on_update() -> Self {
        Self::OnUpdate
    }

    /// The event is a delete: the object was deleted, or no longer matches the selectors of the watch.
    pub fn on_delete() -> Self {
        Self::OnDelete
    }

    /// All of them pass. Not empty.
    pub fn all(predicates: impl IntoIterator<Item = Self>) -> Self {
        Self::All(predicates.into_iter().collect())
    }

    /// One of them passes. Not empty.
    pub fn any(predicates: impl IntoIterator<Item = Self>) -> Self {
        Self::Any(predicates.into_iter().collect())
    }

    pub(super) fn json(&self) -> String {
        let mut writer = Writer::new();
        let kind = match self {
            Self::GenerationChanged => "generationChanged",
            Self::ResourceVersionChanged => "resourceVersionChanged",
            Self::LabelsChanged => "labelsChanged",
            Self::AnnotationsChanged => "annotationsChanged",
            Self::FieldChanged { .. } => "fieldChanged",
            Self::FieldEquals { .. } | Self::FieldExists { .. } => "field",
            Self::OnAdd | Self::OnUpdate | Self::OnDelete => "on",
            Self::All(_) => "all",
            Self::Any(_) => "any",
            Self::Not(_) => "not",
        };
        writer.text("type", kind);
        match self {
            Self::FieldChanged { path } => writer.text("path", path),
            Self::FieldEquals { path, json } => {
                writer.text("path", path);
                writer.raw("equals", json);
            }
            Self::FieldExists { path } => {
                writer.text("path", path);
                writer.flag("exists", true);
            }
            Self::OnAdd => writer.raw("events", r#"["add"]"#),
            Self::OnUpdate => writer.raw("events", r#"["update"]"#),
            Self::OnDelete => writer.raw("events", r#"["delete"]"#),
            Self::All(of) | Self::Any(of) => {
                writer.list("of", &of.iter().map(Self::json).collect::<Vec<_>>());
            }
            Self::Not(of) => writer.raw("of", &of.json()),
            Self::GenerationChanged
            | Self::ResourceVersionChanged
            | Self::LabelsChanged
            | Self::AnnotationsChanged => {}
        }
        writer.end()
    }
}

/// Passes the events that the predicate does not pass.
impl Not for Predicate {
    type Output = Self;

    fn not(self) -> Self {
        Self::Not(Box::new(self))
    }
}
