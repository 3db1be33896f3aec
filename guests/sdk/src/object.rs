//! [`Object`]: a handle to a Kubernetes object in the host. Event handlers, cached reads and live calls provide it.
//!
//! Invariant: an `Object` is only a handle. The plugin's memory contains no part of the object until a method copies
//! it.

use std::fmt;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;

use crate::{DecodeError, Error, Key, Kind, OwnerReference, Refusal, sys};

/// A Kubernetes object, immutable.
///
/// Reading a field through the handle is much cheaper than parsing the object: the host finds the field, and only its
/// value is copied. Parse the whole object ([`Object::parse`]) only if you need much of it, and then into a struct
/// with the fields that you use instead of `serde_json::Value`.
///
/// A handle belongs to the call in which the plugin received it, and cannot be kept beyond it:
///
/// ```compile_fail,E0521
/// use pilothouse_sdk::prelude::*;
///
/// struct Keeper {
///     last: Option<Object<'static>>,
/// }
///
/// impl Keeper {
///     fn keep(&mut self, ctx: &Context, key: &Key) -> Result<(), Failure> {
///         self.last = ctx.cache().get(&Kind::core("v1", "Pod"), key)?;
///         Ok(())
///     }
/// }
/// ```
///
/// # Errors
/// Reads of fields are refused for a malformed pointer, for a value of another type, and for answers of more than
/// 16 MiB. All of them are terminal as a [`Failure`](crate::Failure), except the last.
pub struct Object<'call> {
    raw: sys::Object,
    call: PhantomData<&'call ()>,
}

impl Object<'_> {
    /// Namespace and name.
    pub fn key(&self) -> Key {
        self.raw.key().into()
    }

    /// The cluster that the object is in; 0 for the one that the plugin runs in.
    pub fn cluster(&self) -> u32 {
        self.raw.cluster()
    }

    /// Group, version and kind.
    pub fn kind(&self) -> Kind {
        Kind::of_api_version(&self.raw.api_version(), &self.raw.kind())
    }

    /// `metadata.name`.
    pub fn name(&self) -> String {
        self.raw.name()
    }

    /// `metadata.namespace`; empty for a cluster-scoped object.
    pub fn namespace(&self) -> String {
        self.raw.namespace()
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> String {
        self.raw.uid()
    }

    /// `metadata.resourceVersion`: an opaque string.
    pub fn resource_version(&self) -> String {
        self.raw.resource_version()
    }

    /// `metadata.generation`; `None` if the kind does not have it.
    pub fn generation(&self) -> Option<i64> {
        self.raw.generation()
    }

    /// All labels, sorted by name.
    pub fn labels(&self) -> Vec<(String, String)> {
        self.raw.labels()
    }

    /// The value of one label.
    pub fn label(&self, name: &str) -> Option<String> {
        self.raw.label(name)
    }

    /// All annotations, sorted by name.
    pub fn annotations(&self) -> Vec<(String, String)> {
        self.raw.annotations()
    }

    /// The value of one annotation.
    pub fn annotation(&self, name: &str) -> Option<String> {
        self.raw.annotation(name)
    }

    /// All owner references, in their order.
    pub fn owner_references(&self) -> Vec<OwnerReference> {
        self.raw.owner_references().into_iter().map(Into::into).collect()
    }

    /// The owner reference of the managing controller; `None` if the object has none.
    pub fn controller(&self) -> Option<OwnerReference> {
        self.owner_references().into_iter().find(|owner| owner.controller)
    }

    /// All finalizers, in their order.
    pub fn finalizers(&self) -> Vec<String> {
        self.raw.finalizers()
    }

    /// `metadata.creationTimestamp` in RFC 3339; `None` if the object was never created.
    pub fn creation_timestamp(&self) -> Option<String> {
        self.raw.creation_timestamp()
    }

    /// `metadata.deletionTimestamp` in RFC 3339; `None` if deletion was not requested.
    pub fn deletion_timestamp(&self) -> Option<String> {
        self.raw.deletion_timestamp()
    }

    /// Whether deletion was requested.
    pub fn is_being_deleted(&self) -> bool {
        self.deletion_timestamp().is_some()
    }

    /// Whether there is a value at a pointer; `null` is one.
    ///
    /// # Errors
    /// See [`Object`].
    pub fn exists(&self, pointer: &str) -> Result<bool, Refusal> {
        Ok(self.raw.exists(pointer)?)
    }

    /// The string at a pointer; `None` if there is no value, or `null`. The cheapest way to read a string.
    ///
    /// # Errors
    /// See [`Object`].
    pub fn get_string(&self, pointer: &str) -> Result<Option<String>, Refusal> {
        Ok(self.raw.get_string(pointer)?)
    }

    /// The integer at a pointer; `None` if there is no value, or `null`.
    ///
    /// # Errors
    /// See [`Object`].
    pub fn get_int(&self, pointer: &str) -> Result<Option<i64>, Refusal> {
        Ok(self.raw.get_int(pointer)?)
    }

    /// The boolean at a pointer; `None` if there is no value, or `null`.
    ///
    /// # Errors
    /// See [`Object`].
    pub fn get_bool(&self, pointer: &str) -> Result<Option<bool>, Refusal> {
        Ok(self.raw.get_bool(pointer)?)
    }

    /// Parses the value at an RFC 6901 JSON pointer such as `/spec/nodeName`. Returns `None` if the value is missing or
    /// `null`.
    ///
    /// In a name, write `/` as `~1` and `~` as `~0`. A segment `[*]` selects every element of a list, such as
    /// `/spec/containers/[*]/image`; the value is then a list.
    ///
    /// # Errors
    /// When the value does not have the form of `T`; see also [`Object`].
    pub fn get<T: DeserializeOwned>(&self, pointer: &str) -> Result<Option<T>, Error> {
        let Some(json) = self.get_json(pointer)? else { return Ok(None) };
        // The same code as that of `parse`; `from_str` has other.
        serde_json::from_slice(json.as_bytes()).map_err(|error| self.decode_error(pointer, error))
    }

    /// The JSON text at a pointer; `None` if there is no value.
    ///
    /// # Errors
    /// See [`Object`].
    pub fn get_json(&self, pointer: &str) -> Result<Option<String>, Refusal> {
        Ok(self.raw.get(pointer)?)
    }

    /// The JSON texts at several pointers, in the same order, with one call of the host; at most 64 pointers.
    ///
    /// # Errors
    /// See [`Object`].
    pub fn get_many(&self, pointers: &[&str]) -> Result<Vec<Option<String>>, Refusal> {
        let pointers: Vec<String> = pointers.iter().map(|pointer| (*pointer).to_owned()).collect();
        Ok(self.raw.get_many(&pointers)?)
    }

    /// Parses the whole object.
    ///
    /// # Errors
    /// When the object does not have the form of `T`; see also [`Object`].
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        self.parse_body(&self.bytes()?)
    }

    /// Parses the object's own body.
    pub(crate) fn parse_body<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, Error> {
        serde_json::from_slice(body).map_err(|error| self.decode_error("", error))
    }

    /// The whole object as UTF-8 JSON, without `metadata.managedFields`. Of a partial object ([`Object::is_partial`])
    /// it contains only the fields in the host's store, and the annotation `pilothouse.dev/partial`. The host refuses
    /// writes with that annotation.
    ///
    /// # Errors
    /// See [`Object`].
    pub fn bytes(&self) -> Result<Vec<u8>, Refusal> {
        Ok(self.raw.bytes()?)
    }

    /// Whether the body may lack fields, because the host's store does not keep them. Do not write such a body back.
    pub fn is_partial(&self) -> bool {
        self.raw.is_partial()
    }

    fn decode_error(&self, pointer: &str, error: serde_json::Error) -> Error {
        let (kind, key) = (self.raw.kind(), self.key());
        DecodeError::new(
            format_args!("{kind} {key}{}{pointer}", if pointer.is_empty() { "" } else { ": " }),
            error,
        )
        .into()
    }

    pub(crate) fn new(raw: sys::Object) -> Self {
        Self { raw, call: PhantomData }
    }

    pub(crate) fn raw(&self) -> &sys::Object {
        &self.raw
    }
}

impl fmt::Debug for Object<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object")
            .field("kind", &self.raw.kind())
            .field("key", &self.key())
            .finish_non_exhaustive()
    }
}
