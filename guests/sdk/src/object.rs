//! [`Object`]: a handle to a Kubernetes object in the host. Event handlers, cached reads and live calls provide it.
//!
//! Invariant: an `Object` is only a handle. The plugin's memory contains no part of the object until a method copies
//! it.

use ref_cast::RefCast;
use serde::de::DeserializeOwned;

use crate::bindings::imports::objects;
use crate::{Key, Kind};

pub use crate::bindings::imports::objects::OwnerReference;

/// A Kubernetes object, immutable.
///
/// Reading a field through the handle is much cheaper than parsing the object: the host finds the field, and only its
/// text is copied. Parse the whole object ([`Object::parse`]) only if you need much of it, and then into a struct
/// with the fields that you use instead of `serde_json::Value`.
///
/// A handle is valid until the call in which the plugin received it returns. Do not store it, for example in a field of
/// the controller: a later call that uses it ends with a fault.
#[derive(Debug, RefCast)]
#[repr(transparent)]
pub struct Object(objects::Object);

impl Object {
    /// Namespace and name.
    pub fn key(&self) -> Key {
        self.0.key()
    }

    /// Group, version and kind.
    pub fn kind(&self) -> Kind {
        self.0.kind().into()
    }

    /// `metadata.name`.
    pub fn name(&self) -> String {
        self.0.key().name
    }

    /// `metadata.namespace`; `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<String> {
        self.0.key().namespace
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> String {
        self.0.uid()
    }

    /// `metadata.resourceVersion`: an opaque string.
    pub fn resource_version(&self) -> String {
        self.0.resource_version()
    }

    /// `metadata.generation`; `None` if the kind does not have it.
    pub fn generation(&self) -> Option<i64> {
        self.0.generation()
    }

    /// All labels, sorted by name.
    pub fn labels(&self) -> Vec<(String, String)> {
        self.0.labels()
    }

    /// The value of one label.
    pub fn label(&self, name: &str) -> Option<String> {
        find(self.labels(), name)
    }

    /// All annotations, sorted by name.
    pub fn annotations(&self) -> Vec<(String, String)> {
        self.0.annotations()
    }

    /// The value of one annotation.
    pub fn annotation(&self, name: &str) -> Option<String> {
        find(self.annotations(), name)
    }

    /// All owner references.
    pub fn owner_references(&self) -> Vec<OwnerReference> {
        self.0.owner_references()
    }

    /// The owner reference of the managing controller; `None` if the object has none.
    pub fn controller(&self) -> Option<OwnerReference> {
        self.owner_references().into_iter().find(|owner| owner.controller)
    }

    /// `metadata.deletionTimestamp` in RFC 3339; `None` if deletion was not requested.
    pub fn deletion_timestamp(&self) -> Option<String> {
        self.0.deletion_timestamp()
    }

    /// Parses the value at an RFC 6901 JSON pointer such as `/spec/nodeName`. Returns `None` if the value is missing or
    /// `null`.
    ///
    /// In a name, write `/` as `~1` and `~` as `~0`.
    ///
    /// # Errors
    /// When the value does not have the form of `T`.
    pub fn get<T: DeserializeOwned>(&self, pointer: &str) -> Result<Option<T>, serde_json::Error> {
        self.get_json(pointer).map_or(Ok(None), |json| serde_json::from_str(&json))
    }

    /// The JSON text at a pointer; `None` if there is no value.
    pub fn get_json(&self, pointer: &str) -> Option<String> {
        self.0.get(pointer)
    }

    /// The JSON texts at several pointers, in the same order, with one call of the host.
    pub fn get_many(&self, pointers: &[&str]) -> Vec<Option<String>> {
        let pointers: Vec<String> = pointers.iter().map(|pointer| (*pointer).to_owned()).collect();
        self.0.get_many(&pointers)
    }

    /// Parses the whole object.
    ///
    /// # Errors
    /// When the object does not have the form of `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.bytes())
    }

    /// The whole object as UTF-8 JSON, without `metadata.managedFields`. Of a partial object ([`Object::is_partial`])
    /// it contains only the fields in the host's store, and the annotation `pilothouse.dev/partial`. The host refuses
    /// writes with that annotation.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.bytes()
    }

    /// Whether the body may lack fields, because the host's store does not keep them. Do not write such a body back.
    pub fn is_partial(&self) -> bool {
        self.0.is_partial()
    }

    pub(crate) fn raw(&self) -> &objects::Object {
        &self.0
    }

    pub(crate) fn new(raw: objects::Object) -> Self {
        Self(raw)
    }

    /// Wraps a borrowed handle of an event handler. For the code that the macros generate.
    #[doc(hidden)]
    pub fn from_raw(raw: &objects::Object) -> &Self {
        Self::ref_cast(raw)
    }
}

fn find(pairs: Vec<(String, String)>, name: &str) -> Option<String> {
    pairs.into_iter().find_map(|(key, value)| (key == name).then_some(value))
}
