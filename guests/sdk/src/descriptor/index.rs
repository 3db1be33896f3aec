//! [`Index`]: a lookup of watched objects by a value. Part of a [`Descriptor`](crate::Descriptor), read with
//! [`Query::by_index`](crate::cache::Query::by_index) and
//! [`Cache::index_values`](crate::cache::Cache::index_values).

use super::KindFields;
use super::writer::{Fields, Writer};
use crate::Kind;

/// An index over the objects of a watched kind. Its name is private to the plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    kind: KindFields,
    fields: Fields,
}

impl Index {
    /// Indexes the value at a JSON pointer. A segment `[*]` selects every element of a list
    /// (`/spec/containers/[*]/image`); an object then has several values.
    pub fn by_path(kind: Kind, name: impl Into<String>, path: impl Into<String>) -> Self {
        Self::new(kind, &name.into()).with("path", &path.into())
    }

    /// Indexes the value of a label.
    pub fn by_label(kind: Kind, name: impl Into<String>, label: impl Into<String>) -> Self {
        Self::new(kind, &name.into()).with("label", &label.into())
    }

    /// Indexes the value of an annotation.
    pub fn by_annotation(kind: Kind, name: impl Into<String>, annotation: impl Into<String>) -> Self {
        Self::new(kind, &name.into()).with("annotation", &annotation.into())
    }

    /// Indexes the UIDs of the object's owners.
    pub fn by_owner(kind: Kind, name: impl Into<String>) -> Self {
        let mut index = Self::new(kind, &name.into());
        index.fields.set("owner", "true".to_owned());
        index
    }

    /// Indexes only objects that have a value at this JSON pointer.
    #[must_use]
    pub fn only_where(mut self, path: impl Into<String>) -> Self {
        self.fields.set_text("where", &path.into());
        self
    }

    /// Splits each value at this separator.
    #[must_use]
    pub fn split(mut self, separator: impl Into<String>) -> Self {
        self.fields.set_text("split", &separator.into());
        self
    }

    fn new(kind: Kind, name: &str) -> Self {
        let index = Self { kind: kind.into(), fields: Fields::default() };
        index.with("name", name)
    }

    fn with(mut self, field: &str, text: &str) -> Self {
        self.fields.set_text(field, text);
        self
    }

    pub(super) fn json(&self) -> String {
        let mut writer = Writer::new();
        self.kind.write(&mut writer);
        self.fields.write(&mut writer);
        writer.end()
    }
}
