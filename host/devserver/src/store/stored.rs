//! [`Stored`]: an object as it is kept and sent.
//!
//! The JSON begins with `kind` and `apiVersion`, whatever came in, so that another version of the same object, or an item
//! of a list without either, is the same bytes behind another [`Head`].

use std::sync::Arc;

use pilothouse_object::Object;
use serde_json::{Map, Value};

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
    pub(crate) object: Object,
    pub(crate) revision: u64,
    /// Where the head ends.
    head: usize,
}

impl Stored {
    /// Makes the bytes of an object; `apiVersion` and `kind` are the head's and the resource version is the revision.
    pub(super) fn encode(
        head: &Head,
        mut object: Map<String, Value>,
        revision: u64,
    ) -> Result<Arc<Self>, String> {
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.insert("resourceVersion".to_owned(), revision.to_string().into());
        }
        Self::imagine(head, object, revision)
    }

    /// As an object would be kept, with the resource version it has, if it has one.
    pub(crate) fn imagine(
        head: &Head,
        mut object: Map<String, Value>,
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
        Self::decode(&bytes, start, revision)
    }

    fn decode(bytes: &[u8], head: usize, revision: u64) -> Result<Arc<Self>, String> {
        let object = Object::decode(bytes).map_err(|e| e.to_string())?;
        Ok(Arc::new(Self { object, revision, head }))
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
        Self::decode(&copy, self.head, revision)
    }

    /// Everything behind the head: a comma, the other fields, the closing brace.
    pub(crate) fn tail(&self) -> &[u8] {
        &self.object.bytes()[self.head..]
    }

    /// As a tree, for changes.
    pub(crate) fn value(&self) -> Map<String, Value> {
        // The bytes were written by `encode`.
        serde_json::from_slice(self.object.bytes()).unwrap_or_default()
    }
}
