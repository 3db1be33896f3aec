//! [`Projection`]: which fields of a watched kind a plugin reads. Part of a [`Descriptor`](crate::Descriptor).

use serde::Serialize;

use super::{KindFields, strings};
use crate::Kind;

/// The fields that a plugin reads of the objects of a watched kind, so that the host need not keep the others.
///
/// `apiVersion`, `kind` and `metadata` are always kept, and so is what the descriptor itself looks at: predicates, mappings, field
/// selectors and indexes. Another plugin may make the host keep more. Objects of such a kind say so by
/// [`is_partial`](crate::Object::is_partial), and the host refuses to write the body of one back: read it with
/// [`client::get`](crate::client::get) first, or send a patch that names what it changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Projection {
    #[serde(flatten)]
    kind: KindFields,
    fields: Vec<String>,
}

impl Projection {
    /// Only what is at these JSON pointers; a `[*]` in place of a segment stands for every element of a list
    /// (`/spec/containers/[*]/image`). No pointer at all: metadata alone.
    pub fn new(kind: Kind, fields: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { kind: kind.into(), fields: strings(fields) }
    }
}
