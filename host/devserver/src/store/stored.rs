//! [`Stored`]: an object as it is kept and sent.
//!
//! The JSON begins with `kind` and `apiVersion`, whatever came in, so that another version of the same object, or an item
//! of a list without either, is the same bytes behind another [`Head`]. Managed fields stand beside it: clients that ask for
//! an object without them get its bytes as they are.

use std::ops::Range;
use std::sync::Arc;

use pilothouse_object::Object;
use serde_json::{Map, Value};

use super::ManagedFields;

/// `{"kind":…,"apiVersion":…`, what stands before an object's other fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head(Box<str>);

impl Head {
    pub(crate) fn new(api_version: &str, kind: &str) -> Self {
        let (kind, api_version) = (Value::from(kind), Value::from(api_version));
        Self(format!("{{\"kind\":{kind},\"apiVersion\":{api_version}").into())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// How deep an object may be: in a watch of tables four more levels stand around it, and `serde_json`, by which also
/// clients read, takes 127.
const MAX_DEPTH: usize = 120;

fn is_deeper(value: &Value, levels: usize) -> bool {
    match value {
        Value::Object(members) => levels == 0 || members.values().any(|inner| is_deeper(inner, levels - 1)),
        Value::Array(elements) => levels == 0 || elements.iter().any(|inner| is_deeper(inner, levels - 1)),
        _ => false,
    }
}

/// One object at one revision.
#[derive(Debug)]
pub(crate) struct Stored {
    /// Without managed fields.
    pub(crate) object: Object,
    pub(crate) managed: ManagedFields,
    pub(crate) revision: u64,
    /// Where the head ends.
    head: usize,
    /// Where the metadata ends, before its closing brace.
    metadata_end: usize,
}

impl Stored {
    /// Makes the bytes of an object; `apiVersion` and `kind` are the head's and the resource version is the revision.
    pub(super) fn encode(
        head: &Head,
        mut object: Map<String, Value>,
        managed: ManagedFields,
        revision: u64,
    ) -> Result<Arc<Self>, String> {
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.insert("resourceVersion".to_owned(), revision.to_string().into());
        }
        Self::imagine(head, object, managed, revision)
    }

    /// As an object would be kept, with the resource version it has, if it has one.
    pub(crate) fn imagine(
        head: &Head,
        mut object: Map<String, Value>,
        managed: ManagedFields,
        revision: u64,
    ) -> Result<Arc<Self>, String> {
        if object.values().any(|value| is_deeper(value, MAX_DEPTH - 1)) {
            return Err(format!("it is nested deeper than {MAX_DEPTH} levels"));
        }
        object.remove("apiVersion");
        object.remove("kind");
        let mut bytes = Vec::with_capacity(1024);
        bytes.extend_from_slice(head.as_bytes());
        let start = bytes.len();
        serde_json::to_writer(&mut bytes, &object).map_err(|e| e.to_string())?;
        bytes[start] = b',';
        Self::decode(&bytes, start, managed, revision)
    }

    fn decode(bytes: &[u8], head: usize, managed: ManagedFields, revision: u64) -> Result<Arc<Self>, String> {
        let object = Object::decode(bytes).map_err(|e| e.to_string())?;
        // A slice of the object's text, braces included; without a name it would not have been decoded.
        let metadata = object.get("/metadata").unwrap_or_default();
        let metadata_end =
            (metadata.as_ptr().addr() + metadata.len()).saturating_sub(object.bytes().as_ptr().addr() + 1);
        Ok(Arc::new(Self { object, managed, revision, head, metadata_end }))
    }

    /// The same object with another resource version.
    pub(crate) fn at_revision(&self, revision: u64) -> Result<Arc<Self>, String> {
        let bytes = self.object.bytes();
        // A slice of the object's text, quotes included.
        let old = self.object.get("/metadata/resourceVersion").unwrap_or_default();
        let start = old.as_ptr().addr() - bytes.as_ptr().addr();
        let mut copy = Vec::with_capacity(bytes.len() + 4);
        copy.extend_from_slice(&bytes[..start]);
        copy.extend_from_slice(format!("\"{revision}\"").as_bytes());
        copy.extend_from_slice(&bytes[start + old.len()..]);
        Self::decode(&copy, self.head, self.managed.clone(), revision)
    }

    /// Writes everything behind the head: a comma, the other fields, the closing brace.
    pub(crate) fn write_tail(&self, out: &mut Vec<u8>, with_managed: bool) {
        self.write_part(out, self.head..self.object.bytes().len(), with_managed);
    }

    /// Writes the metadata.
    pub(crate) fn write_metadata(&self, out: &mut Vec<u8>, with_managed: bool) {
        let length = self.object.get("/metadata").unwrap_or_default().len();
        let end = self.metadata_end + 1;
        self.write_part(out, end.saturating_sub(length)..end, with_managed);
    }

    /// Writes a part that holds the end of the metadata, where managed fields are put in.
    fn write_part(&self, out: &mut Vec<u8>, part: Range<usize>, with_managed: bool) {
        let bytes = self.object.bytes();
        if !with_managed || self.managed.is_empty() {
            out.extend_from_slice(&bytes[part]);
            return;
        }
        out.extend_from_slice(&bytes[part.start..self.metadata_end]);
        out.extend_from_slice(b",\"managedFields\":");
        self.managed.write(out);
        out.extend_from_slice(&bytes[self.metadata_end..part.end]);
    }

    /// About how many bytes it takes to write.
    pub(crate) fn size(&self) -> usize {
        self.object.bytes().len() + self.managed.len() + 20
    }

    /// As a tree, for changes; without managed fields.
    pub(crate) fn value(&self) -> Map<String, Value> {
        // The bytes were written by `encode`.
        serde_json::from_slice(self.object.bytes()).unwrap_or_default()
    }
}
