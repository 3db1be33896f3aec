//! [`Object`]: one Kubernetes object as immutable bytes with its metadata at hand.
//!
//! Invariants: the bytes are a UTF-8 JSON object with `apiVersion`, `kind` and `metadata.name`, without
//! `metadata.managedFields`; every span of the header lies inside the buffer. There is no way to change an object
//! after decoding, so that all readers of a cache share one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use crate::decode::{self, DecodeError, Decoded, Span};
use crate::key::ObjectKey;
use crate::kind::Gvk;
use crate::pointer::{self, Pointer};

/// A Kubernetes object: JSON bytes and parsed metadata; immutable, a cheap clone.
#[derive(Debug, Clone)]
pub struct Object(Arc<Decoded>);

/// One entry of `metadata.ownerReferences`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference<'a> {
    /// `apiVersion` of the owner.
    #[serde(borrow)]
    pub api_version: Cow<'a, str>,
    /// Kind of the owner.
    #[serde(borrow)]
    pub kind: Cow<'a, str>,
    /// Name of the owner; its namespace is that of the owned object, or none.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// UID of the owner.
    #[serde(borrow)]
    pub uid: Cow<'a, str>,
    /// Whether the owner is the managing controller.
    #[serde(default)]
    pub controller: Option<bool>,
    /// Whether foreground deletion of the owner waits for this object.
    #[serde(default)]
    pub block_owner_deletion: Option<bool>,
}

impl Object {
    /// Decodes one object that carries its own `apiVersion` and `kind`.
    ///
    /// # Errors
    /// When the bytes are not the JSON of a named object.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Ok(Self(Arc::new(decode::decode(utf8(bytes)?, None)?)))
    }

    /// Decodes one object; `kind` is put in where the bytes lack `apiVersion` or `kind`, as list items do.
    ///
    /// # Errors
    /// When the bytes are not the JSON of a named object.
    pub fn decode_as(bytes: &[u8], kind: &Gvk) -> Result<Self, DecodeError> {
        Self::decode_str(utf8(bytes)?, kind)
    }

    pub(crate) fn decode_str(text: &str, kind: &Gvk) -> Result<Self, DecodeError> {
        Ok(Self(Arc::new(decode::decode(text, Some(kind))?)))
    }

    /// Decodes what a projection made of an object.
    pub(crate) fn decode_partial(text: &str, partial: bool) -> Result<Self, DecodeError> {
        Ok(Self(Arc::new(Decoded { partial, ..decode::decode(text, None)? })))
    }

    /// Whether only some fields were kept, by a [`Projection`](crate::Projection): it must not be written back.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.0.partial
    }

    /// The JSON, without `metadata.managedFields`.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0.buffer[..self.0.json_len as usize]
    }

    /// The JSON as text.
    #[must_use]
    pub fn json(&self) -> &str {
        std::str::from_utf8(self.bytes()).unwrap_or_default()
    }

    /// Bytes of heap this object retains, shared parts counted once.
    #[must_use]
    pub fn retained_bytes(&self) -> usize {
        size_of::<Decoded>() + self.0.buffer.len() + self.0.key.as_str().len() + 4 * size_of::<usize>()
    }

    fn span(&self, span: Span) -> Option<&str> {
        span.get(&self.0.buffer)
    }

    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.0.key
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.key.name()
    }

    /// The namespace; `None` when cluster-scoped.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.0.key.namespace()
    }

    /// Group, version and kind.
    #[must_use]
    pub fn gvk(&self) -> Gvk {
        Gvk::from_api_version(self.api_version(), self.kind())
    }

    /// The `apiVersion` field.
    #[must_use]
    pub fn api_version(&self) -> &str {
        self.span(self.0.api_version).unwrap_or_default()
    }

    /// The `kind` field.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.span(self.0.kind).unwrap_or_default()
    }

    /// The UID; empty on an object that no server has seen.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.span(self.0.uid).unwrap_or_default()
    }

    /// The resource version; empty on an object that no server has seen.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        self.span(self.0.resource_version).unwrap_or_default()
    }

    /// `metadata.generation`, where the kind keeps one.
    #[must_use]
    pub fn generation(&self) -> Option<i64> {
        self.0.generation
    }

    /// When deletion was asked for (RFC 3339), or `None`.
    #[must_use]
    pub fn deletion_timestamp(&self) -> Option<&str> {
        self.span(self.0.deletion_timestamp)
    }

    /// All labels.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<Cow<'_, str>, Cow<'_, str>> {
        string_map(self.span(self.0.labels))
    }

    /// One label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<Cow<'_, str>> {
        pointer::json_string(pointer::member(self.span(self.0.labels)?, name)?)
    }

    /// All annotations.
    #[must_use]
    pub fn annotations(&self) -> BTreeMap<Cow<'_, str>, Cow<'_, str>> {
        string_map(self.span(self.0.annotations))
    }

    /// One annotation.
    #[must_use]
    pub fn annotation(&self, name: &str) -> Option<Cow<'_, str>> {
        pointer::json_string(pointer::member(self.span(self.0.annotations)?, name)?)
    }

    /// Whether the labels of two objects are the same map.
    #[must_use]
    pub fn same_labels(&self, other: &Self) -> bool {
        self.span(self.0.labels) == other.span(other.0.labels) || self.labels() == other.labels()
    }

    /// Whether the annotations of two objects are the same map.
    #[must_use]
    pub fn same_annotations(&self, other: &Self) -> bool {
        self.span(self.0.annotations) == other.span(other.0.annotations)
            || self.annotations() == other.annotations()
    }

    /// All owner references; entries that are not of the API's form are left out.
    #[must_use]
    pub fn owner_references(&self) -> Vec<OwnerReference<'_>> {
        let Some(raw) = self.span(self.0.owner_references) else { return Vec::new() };
        serde_json::from_str(raw).unwrap_or_default()
    }

    /// The JSON text at an RFC 6901 pointer; `None` when nothing is there or the pointer is malformed.
    #[must_use]
    pub fn get(&self, pointer: &str) -> Option<&str> {
        pointer::get(self.json(), pointer)
    }

    /// The string at an RFC 6901 pointer; `None` when there is none.
    #[must_use]
    pub fn get_string(&self, pointer: &str) -> Option<Cow<'_, str>> {
        pointer::json_string(self.get(pointer)?)
    }

    /// Calls `found` with the JSON text of every value that a pointer with `[*]` selects.
    pub fn select<'a>(&'a self, pointer: &Pointer, found: impl FnMut(&'a str)) {
        pointer.select(self.json(), found);
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, DecodeError> {
    std::str::from_utf8(bytes).map_err(|e| DecodeError::Json(serde::de::Error::custom(e)))
}

fn string_map(raw: Option<&str>) -> BTreeMap<Cow<'_, str>, Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Map<'a>(#[serde(borrow)] BTreeMap<decode::Text<'a>, decode::Text<'a>>);
    let Some(raw) = raw else { return BTreeMap::new() };
    serde_json::from_str::<Map<'_>>(raw)
        .map(|map| map.0.into_iter().map(|(k, v)| (k.0, v.0)).collect())
        .unwrap_or_default()
}
