//! [`Projection`]: the fields of a watched kind that a plugin reads. Part of a [`Descriptor`](crate::Descriptor).

use super::writer::Writer;
use super::{KindFields, strings};
use crate::Kind;

/// The fields of a watched kind that a plugin reads. The host need not keep other fields.
///
/// `apiVersion`, `kind` and `metadata` are always kept, and so are the fields that predicates, maps, field selectors
/// and indexes of the descriptor use. The host may keep more fields for another plugin. Objects of such a kind return
/// `true` from [`is_partial`](crate::Object::is_partial), and the host refuses to write their body back. Read the
/// object with [`Client::get`](crate::client::Client::get) first, or send a patch of the changed fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projection {
    kind: KindFields,
    fields: Vec<String>,
}

impl Projection {
    /// Keeps the fields at these JSON pointers. A segment `[*]` selects every element of a list
    /// (`/spec/containers/[*]/image`). Without pointers only the metadata is kept.
    pub fn new(kind: Kind, fields: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { kind: kind.into(), fields: strings(fields) }
    }

    pub(super) fn json(&self) -> String {
        let mut writer = Writer::new();
        self.kind.write(&mut writer);
        writer.texts("fields", &self.fields);
        writer.end()
    }
}
