//! [`Object`]: a reader's handle of one Kubernetes object; [`Held`]: the same object as a store keeps it.
//!
//! Invariants: the text is a JSON object with `apiVersion`, `kind` and `metadata.name`, without
//! `metadata.managedFields`; every span of the header lies inside the buffer. An object is immutable after decoding,
//! so all readers of a cache share one copy. In the text of a trusted sender ([`Object::decode_trusted`]) the values of
//! fields other than these three need not be JSON: reading one must not panic.
//!
//! The text may be packed (compressed with a [`Dictionary`]). The first read of the text through an `Object`
//! decompresses it into memory that this handle and its clones share. `Held` has no field for the decompressed text, so
//! a store never retains it.

use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;

use crate::decode::{self, DecodeError, DecodedObject, Validation};
use crate::default_kind::DefaultKind;
use crate::dictionary::Dictionary;
use crate::key::ObjectKey;
use crate::kind::Gvk;
use crate::labels::Labels;
use crate::members::{map_hash, string_map};
use crate::pack::{MetadataField, PackedObject, short_hash, text_hash};
use crate::pointer::{self, Pointer};
use crate::short_text::ShortText;

/// A Kubernetes object: JSON bytes and parsed metadata. Immutable; a clone copies reference counts only.
///
/// All readers of a cache share one copy. The compiler rejects code that changes it:
///
/// ```
/// fn first(object: &pilothouse_object::Object) -> u8 {
///     object.bytes()[0]
/// }
/// ```
///
/// ```compile_fail,E0594
/// fn change(object: &mut pilothouse_object::Object) {
///     object.bytes()[0] = b'[';
/// }
/// ```
#[derive(Clone)]
pub struct Object {
    held: Held,
    body: OnceLock<Arc<Body>>,
}

/// An object as a store keeps it: plain or packed. It never contains the text that a reader unpacked.
#[derive(Clone)]
pub struct Held {
    copy: Repr,
    /// A copy of the resource version, if it has at most 15 bytes: reading the versions of many objects follows no
    /// pointers, and meets no writer that counts references.
    version: ShortText,
}

#[derive(Clone)]
enum Repr {
    Plain(Arc<DecodedObject>),
    Packed(Arc<PackedObject>),
}

/// Data that the handles of one object share and that no store keeps: the unpacked text of a packed object, filled in
/// by the first read, and a note. See [`Held::object_sharing`] and [`Object::set_note`].
#[derive(Default)]
pub struct Body {
    text: OnceLock<Box<str>>,
    note: OnceLock<Box<dyn Any + Send + Sync>>,
}

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
    /// Name of the owner. The owner is in the namespace of the owned object, or is cluster-scoped.
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
    /// Decodes one object whose JSON contains `apiVersion` and `kind`.
    ///
    /// # Errors
    /// When the bytes are not a JSON object in UTF-8, `apiVersion`, `kind` or `metadata.name` is missing, a metadata
    /// field has the wrong type or occurs twice, or the text is larger than 4 GiB.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Ok(Self::plain(decode::decode(utf8(bytes)?, None, Validation::Full)?))
    }

    /// Decodes one object. Where the JSON lacks `apiVersion` or `kind`, as list items do, they are added from `kind`.
    ///
    /// # Errors
    /// As [`decode`](Self::decode), except that `apiVersion` and `kind` may be missing. Either of them as `null` is an
    /// error.
    pub fn decode_as(bytes: &[u8], kind: &Gvk) -> Result<Self, DecodeError> {
        let default = DefaultKind::new(Cow::Borrowed(kind));
        Ok(Self::plain(decode::decode(utf8(bytes)?, Some(&default), Validation::Full)?))
    }

    /// As [`decode_as`](Self::decode_as), for an object of a list or a watch, whose sender is trusted to send JSON. The text
    /// is validated as far as the host reads it: UTF-8, `apiVersion`, `kind`, `metadata` and the names of the other fields.
    /// Of the value of another field only the end is looked for, which is several times faster. A Secret is validated as a
    /// whole.
    ///
    /// A value that is not JSON stays in the text. The code that parses it gets an error; a pointer into it finds no
    /// value, or a text that is not JSON. The header, and with it the key, never comes from inside such a value.
    ///
    /// # Errors
    /// As [`decode_as`](Self::decode_as), for what is validated, and when the end of a value is not found.
    pub fn decode_trusted(bytes: &[u8], kind: &Gvk) -> Result<Self, DecodeError> {
        let default = DefaultKind::new(Cow::Borrowed(kind));
        Ok(Self::plain(decode::decode(utf8(bytes)?, Some(&default), default.trusted_validation())?))
    }

    /// Decodes what [`json`](Self::json) and [`is_partial`](Self::is_partial) returned for an object. A value that was not
    /// validated then, as in [`decode_trusted`](Self::decode_trusted), is not validated now.
    ///
    /// # Errors
    /// As [`decode_trusted`](Self::decode_trusted), and when `apiVersion` or `kind` is missing.
    pub fn decode_again(json: &str, is_partial: bool) -> Result<Self, DecodeError> {
        let decoded = decode::decode(json, None, Validation::Header)?;
        Ok(Self::plain(DecodedObject { partial: is_partial, ..decoded }))
    }

    /// Decodes the object at the start of `bytes` as [`decode_trusted`](Self::decode_trusted) does and returns it with its
    /// length in bytes; `None` when the object is incomplete.
    pub(crate) fn decode_first(
        bytes: &[u8],
        kind: &DefaultKind<'_>,
    ) -> Result<Option<(Self, usize)>, DecodeError> {
        let decoded = decode::decode_first(bytes, kind)?;
        Ok(decoded.map(|(decoded, used)| (Self::plain(decoded), used)))
    }

    fn plain(decoded: DecodedObject) -> Self {
        let version = ShortText::new(decoded.field(MetadataField::ResourceVersion).unwrap_or_default());
        Self { held: Held { copy: Repr::Plain(Arc::new(decoded)), version }, body: OnceLock::new() }
    }

    /// The JSON, without `metadata.managedFields`.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.json().as_bytes()
    }

    /// The JSON as text. The first call on a packed object decompresses it, which takes about 10 µs; this handle and
    /// the clones made after that keep the result.
    #[must_use]
    pub fn json(&self) -> &str {
        match &self.held.copy {
            Repr::Plain(decoded) => decoded.json(),
            Repr::Packed(packed) => {
                self.body().text.get_or_init(|| packed.unpack(self.held.resource_version()))
            }
        }
    }

    fn body(&self) -> &Body {
        self.body.get_or_init(Arc::default)
    }

    /// Attaches a note to this handle and the clones made after that, for example values computed while the object was
    /// plain. A second note is ignored.
    pub fn set_note(&self, note: impl Any + Send + Sync) {
        let _ = self.body().note.set(Box::new(note));
    }

    /// The note that [`set_note`](Self::set_note) attached, if it has type `T`.
    #[must_use]
    pub fn note<T: Any>(&self) -> Option<&T> {
        self.body.get()?.note.get()?.downcast_ref()
    }

    /// The object in the form that a store keeps.
    #[must_use]
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// As [`held`](Self::held), without an increment of the reference count.
    #[must_use]
    pub fn into_held(self) -> Held {
        self.held
    }

    /// The object with its text compressed. Returns a clone of `self` when the object is packed already, when the
    /// dictionary is of another kind, or when compression saves too little. Takes about 15 µs for 5 KB of JSON.
    #[must_use]
    pub fn packed(&self, dictionary: &Arc<Dictionary>) -> Self {
        let Repr::Plain(decoded) = &self.held.copy else { return self.clone() };
        match PackedObject::new(self, decoded, dictionary) {
            Some(packed) => {
                Held { copy: Repr::Packed(Arc::new(packed)), version: self.held.version }.object()
            }
            None => self.clone(),
        }
    }

    /// The object as a plain copy; a clone of `self` when it is plain already.
    #[must_use]
    pub fn unpacked(&self) -> Self {
        if !self.is_packed() {
            return self.clone();
        }
        Self::decode_again(self.json(), self.is_partial()).expect("what was decoded once is decoded again")
    }

    /// The header and text of a plain object; `None` when it is packed.
    pub(crate) fn decoded(&self) -> Option<&DecodedObject> {
        self.held.decoded()
    }

    /// A new handle of the same copy, with neither the unpacked text nor the note of this handle.
    #[must_use]
    pub fn fresh(&self) -> Self {
        self.held.object()
    }

    /// Whether the text is packed.
    #[must_use]
    pub fn is_packed(&self) -> bool {
        self.held.is_packed()
    }

    /// Whether two handles refer to the same copy in memory.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.held.is_same(&other.held)
    }

    /// Whether a projection removed fields, or may have: the text must not be written back to the API server.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.held.is_partial()
    }

    /// Bytes of heap that this object retains, as [`Held::retained_bytes`] counts them, without an unpacked text.
    #[must_use]
    pub fn retained_bytes(&self) -> usize {
        self.held.retained_bytes()
    }

    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        self.held.key()
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key().name()
    }

    /// The namespace; `None` on a cluster-scoped object.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.key().namespace()
    }

    /// Group, version and kind.
    #[must_use]
    pub fn gvk(&self) -> Gvk {
        Gvk::from_api_version(self.api_version(), self.kind())
    }

    /// The `apiVersion` field.
    #[must_use]
    pub fn api_version(&self) -> &str {
        match &self.held.copy {
            Repr::Plain(decoded) => decoded.api_version.get(&decoded.buffer).unwrap_or_default(),
            Repr::Packed(packed) => &packed.codec().api_version,
        }
    }

    /// The `kind` field.
    #[must_use]
    pub fn kind(&self) -> &str {
        match &self.held.copy {
            Repr::Plain(decoded) => decoded.kind.get(&decoded.buffer).unwrap_or_default(),
            Repr::Packed(packed) => &packed.codec().kind,
        }
    }

    /// The UID; empty on an object that was never stored on a server.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.held.uid()
    }

    /// The resource version; empty on an object that was never stored on a server.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        self.held.resource_version()
    }

    /// `metadata.generation`; `None` for a kind without it.
    #[must_use]
    pub fn generation(&self) -> Option<i64> {
        match &self.held.copy {
            Repr::Plain(decoded) => decoded.generation,
            Repr::Packed(packed) => packed.generation(),
        }
    }

    /// `metadata.deletionTimestamp` in RFC 3339; `None` while no deletion was requested.
    #[must_use]
    pub fn deletion_timestamp(&self) -> Option<&str> {
        match &self.held.copy {
            Repr::Plain(decoded) => decoded.field(MetadataField::DeletionTimestamp),
            Repr::Packed(packed) => packed.deletion_timestamp(),
        }
    }

    /// All labels.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<Cow<'_, str>, Cow<'_, str>> {
        self.held.labels().map()
    }

    /// The value of one label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<Cow<'_, str>> {
        self.held.labels().get(name)
    }

    /// Calls `found` with name and value of each label for which [`label`](Self::label) has a value, in no order. Of a label
    /// that the JSON has twice, which the API server never sends, it gets both values.
    pub fn each_label(&self, found: impl FnMut(&str, &str)) {
        self.held.labels().each(found);
    }

    /// All annotations.
    #[must_use]
    pub fn annotations(&self) -> BTreeMap<Cow<'_, str>, Cow<'_, str>> {
        string_map(self.annotations_text())
    }

    /// The value of one annotation.
    #[must_use]
    pub fn annotation(&self, name: &str) -> Option<Cow<'_, str>> {
        pointer::json_string(pointer::member(self.annotations_text()?, name)?)
    }

    fn annotations_text(&self) -> Option<&str> {
        match &self.held.copy {
            Repr::Plain(decoded) => decoded.annotations.get(&decoded.buffer),
            Repr::Packed(_) => pointer::get(self.json(), "/metadata/annotations"),
        }
    }

    /// Whether the labels of two objects are equal maps.
    #[must_use]
    pub fn same_labels(&self, other: &Self) -> bool {
        self.held.labels().same(other.held.labels())
    }

    /// Whether the annotations of two objects are equal maps. For a packed object the hashes of the maps are compared.
    #[must_use]
    pub fn same_annotations(&self, other: &Self) -> bool {
        match (&self.held.copy, &other.held.copy) {
            (Repr::Plain(a), Repr::Plain(b)) => {
                a.annotations.get(&a.buffer) == b.annotations.get(&b.buffer)
                    || self.annotations() == other.annotations()
            }
            _ => self.annotations_hash() == other.annotations_hash(),
        }
    }

    fn annotations_hash(&self) -> u32 {
        match &self.held.copy {
            Repr::Plain(decoded) => short_hash(map_hash(decoded.annotations.get(&decoded.buffer))),
            Repr::Packed(packed) => packed.annotations(),
        }
    }

    /// All owner references; empty when there are none or when one of them does not have the API's form.
    #[must_use]
    pub fn owner_references(&self) -> Vec<OwnerReference<'_>> {
        let Some(raw) = self.held.owners() else { return Vec::new() };
        serde_json::from_str(raw).unwrap_or_default()
    }

    /// The JSON text at an RFC 6901 pointer; `None` when the object has no such value or the pointer is malformed.
    #[must_use]
    pub fn get(&self, pointer: &str) -> Option<&str> {
        let name = pointer.strip_prefix('/').and_then(|path| path.split('/').next());
        // A name with escapes is left to the walk.
        match name
            .filter(|name| !name.contains('~'))
            .and_then(|name| Some((self.recorded(name)?, name.len())))
        {
            Some((value, length)) => pointer::get(value, &pointer[1 + length..]),
            None => pointer::get(self.json(), pointer),
        }
    }

    /// The JSON of a field of the object.
    pub(crate) fn member(&self, name: &str) -> Option<&str> {
        self.recorded(name).or_else(|| pointer::member(self.json(), name))
    }

    fn recorded(&self, name: &str) -> Option<&str> {
        self.decoded()?.recorded(name)
    }

    /// The string at an RFC 6901 pointer, unescaped; `None` when the value is absent or is not a string.
    #[must_use]
    pub fn get_string(&self, pointer: &str) -> Option<Cow<'_, str>> {
        pointer::json_string(self.get(pointer)?)
    }

    /// Calls `found` with the JSON text of every value that `pointer` selects, in document order.
    pub fn select<'a>(&'a self, pointer: &Pointer, mut found: impl FnMut(&'a str)) {
        match pointer.field().and_then(|name| self.recorded(name)) {
            Some(value) => pointer::walk(value, &pointer.steps()[1..], &mut found),
            None => pointer.select(self.json(), found),
        }
    }
}

impl Held {
    /// A new handle of the object, without an unpacked text and without a note.
    #[must_use]
    pub fn object(&self) -> Object {
        Object { held: self.clone(), body: OnceLock::new() }
    }

    /// A handle of the object that shares the unpacked text and the note with all other handles made with the same
    /// `body`. A `body` must be used for one object only.
    #[must_use]
    pub fn object_sharing(&self, body: Arc<Body>) -> Object {
        Object { held: self.clone(), body: body.into() }
    }

    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        match &self.copy {
            Repr::Plain(decoded) => &decoded.key,
            Repr::Packed(packed) => packed.key(),
        }
    }

    /// The resource version; empty on an object that was never stored on a server.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        self.version.get().unwrap_or_else(|| match &self.copy {
            Repr::Plain(decoded) => decoded.field(MetadataField::ResourceVersion).unwrap_or_default(),
            Repr::Packed(packed) => packed.long_version(),
        })
    }

    /// The UID; empty on an object that was never stored on a server.
    #[must_use]
    pub fn uid(&self) -> &str {
        match &self.copy {
            Repr::Plain(decoded) => decoded.field(MetadataField::Uid).unwrap_or_default(),
            Repr::Packed(packed) => packed.uid(),
        }
    }

    /// The header and text of a plain object; `None` when it is packed.
    pub(crate) fn decoded(&self) -> Option<&DecodedObject> {
        match &self.copy {
            Repr::Plain(decoded) => Some(decoded),
            Repr::Packed(_) => None,
        }
    }

    /// Whether the text is packed.
    #[must_use]
    pub fn is_packed(&self) -> bool {
        matches!(self.copy, Repr::Packed(_))
    }

    /// Whether a projection removed fields, or may have.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        match &self.copy {
            Repr::Plain(decoded) => decoded.partial,
            Repr::Packed(packed) => packed.is_partial(),
        }
    }

    /// Whether the text was packed with this dictionary.
    #[must_use]
    pub fn is_packed_with(&self, dictionary: &Arc<Dictionary>) -> bool {
        matches!(&self.copy, Repr::Packed(packed) if Arc::ptr_eq(packed.codec(), dictionary.codec()))
    }

    /// Length of the unpacked JSON in bytes.
    #[must_use]
    pub fn json_len(&self) -> usize {
        match &self.copy {
            Repr::Plain(decoded) => decoded.json_len as usize,
            Repr::Packed(packed) => packed.json_len(),
        }
    }

    /// Whether two have the same JSON. A packed one is compared by length and hash, and not unpacked.
    #[must_use]
    pub fn is_same_text(&self, other: &Self) -> bool {
        let hash = |held: &Self| match &held.copy {
            Repr::Plain(decoded) => text_hash(decoded.json()),
            Repr::Packed(packed) => packed.text_hash(),
        };
        self.is_same(other)
            || (self.json_len() == other.json_len()
                && match (&self.copy, &other.copy) {
                    (Repr::Plain(a), Repr::Plain(b)) => a.json() == b.json(),
                    _ => hash(self) == hash(other),
                })
    }

    /// Whether both refer to the same copy in memory.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.copy, &other.copy) {
            (Repr::Plain(a), Repr::Plain(b)) => Arc::ptr_eq(a, b),
            (Repr::Packed(a), Repr::Packed(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// Bytes of heap that this copy retains: the text or the compressed text, the header, the key and their reference
    /// counts. The parts that packed objects share are not counted: the dictionary, and common labels and owner
    /// references.
    #[must_use]
    pub fn retained_bytes(&self) -> usize {
        match &self.copy {
            Repr::Plain(decoded) => {
                size_of::<DecodedObject>()
                    + decoded.buffer.len()
                    + decoded.key.as_str().len()
                    + 4 * size_of::<usize>()
            }
            Repr::Packed(packed) => packed.retained_bytes(),
        }
    }

    fn labels(&self) -> Labels<'_> {
        match &self.copy {
            Repr::Plain(decoded) => Labels::Json(decoded.field(MetadataField::Labels)),
            Repr::Packed(packed) => packed.labels(),
        }
    }

    fn owners(&self) -> Option<&str> {
        match &self.copy {
            Repr::Plain(decoded) => decoded.field(MetadataField::OwnerReferences),
            Repr::Packed(packed) => packed.owners(),
        }
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held")
            .field("key", self.key())
            .field("resource_version", &self.resource_version())
            .field("packed", &self.is_packed())
            .finish()
    }
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Object")
            .field("key", self.key())
            .field("resource_version", &self.resource_version())
            .finish_non_exhaustive()
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, DecodeError> {
    std::str::from_utf8(bytes).map_err(|e| DecodeError::Json(serde::de::Error::custom(e)))
}
