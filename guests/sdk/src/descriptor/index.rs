//! [`Index`]: a lookup of watched objects by a value. Part of a [`Descriptor`](crate::Descriptor), read with
//! [`Query::by_index`](crate::cache::Query::by_index) and
//! [`Cache::index_values`](crate::cache::Cache::index_values).

use super::KindFields;
use super::writer::Writer;
use crate::Kind;

/// An index over the objects of a watched kind. Its name is private to the plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    kind: KindFields,
    name: String,
    values: Values,
    only_where: Option<String>,
    split: Option<String>,
}

/// The source of the values: exactly one of four fields of the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Values {
    Path(String),
    Label(String),
    Annotation(String),
    Owner,
}

impl Index {
    /// Indexes the value at a JSON pointer. A segment `[*]` selects every element of a list
    /// (`/spec/containers/[*]/image`); an object then has several values.
    pub fn by_path(kind: Kind, name: impl Into<String>, path: impl Into<String>) -> Self {
        Self::new(kind, name.into(), Values::Path(path.into()))
    }

    /// Indexes the value of a label.
    pub fn by_label(kind: Kind, name: impl Into<String>, label: impl Into<String>) -> Self {
        Self::new(kind, name.into(), Values::Label(label.into()))
    }

    /// Indexes the value of an annotation.
    pub fn by_annotation(kind: Kind, name: impl Into<String>, annotation: impl Into<String>) -> Self {
        Self::new(kind, name.into(), Values::Annotation(annotation.into()))
    }

    /// Indexes the UIDs of the object's owners.
    pub fn by_owner(kind: Kind, name: impl Into<String>) -> Self {
        Self::new(kind, name.into(), Values::Owner)
    }

    /// Indexes only objects that have a value at this JSON pointer.
    #[must_use]
    pub fn only_where(mut self, path: impl Into<String>) -> Self {
        self.only_where = Some(path.into());
        self
    }

    /// Splits each value at this separator.
    #[must_use]
    pub fn split(mut self, separator: impl Into<String>) -> Self {
        self.split = Some(separator.into());
        self
    }

    fn new(kind: Kind, name: String, values: Values) -> Self {
        Self { kind: kind.into(), name, values, only_where: None, split: None }
    }

    pub(super) fn json(&self) -> String {
        let mut writer = self.kind.writer();
        writer.text("name", &self.name);
        match &self.values {
            Values::Path(path) => writer.text("path", path),
            Values::Label(label) => writer.text("label", label),
            Values::Annotation(annotation) => writer.text("annotation", annotation),
            Values::Owner => writer.flag("owner", true),
        }
        writer.optional("where", self.only_where.as_deref());
        writer.optional("split", self.split.as_deref());
        Writer::end(writer)
    }
}
