//! Decodes the JSON of one object into the header and the text that an [`Object`](crate::Object) keeps.
//!
//! One pass over the text validates it, or of a trusted sender's text the part that the host reads ([`Validation`]), and
//! records the byte range of each metadata field; one copy then builds the buffer. The copy leaves out
//! `metadata.managedFields`: it is the largest part of many objects, controllers do not read it, and the scan only looks
//! for its end. The copy adds `apiVersion` and `kind` where the server omitted them, as it does for the items of a list.
//! Everything else is copied unchanged, so a guest may write back the text that it read.

use std::borrow::Cow;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{Error as _, IgnoredAny};

use crate::default_kind::DefaultKind;
use crate::key::{KeyError, ObjectKey};
use crate::pack::MetadataField;
use crate::scan::{JsonCursor, ScanError, has_escapes};

/// Why bytes cannot be decoded as an object or a list.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are not JSON, or not the JSON of an object.
    #[error("not a Kubernetes object: {0}")]
    Json(#[from] serde_json::Error),
    /// The metadata has no usable name.
    #[error("object without a usable name: {0}")]
    Key(#[from] KeyError),
    /// `apiVersion` or `kind` is absent and the caller gave no default, or it is `null`.
    #[error("object {0} has no apiVersion or kind")]
    NoKind(ObjectKey),
    /// The server answered with another kind than a list of objects, such as `Table`.
    #[error(
        "the server answered {got} where a {want} was asked for; ask for application/json without `as=Table`"
    )]
    WrongKind {
        /// The kind in the response.
        got: String,
        /// The kind that was requested.
        want: String,
    },
    /// Larger than 4 GiB.
    #[error("object of {0} bytes is too large to keep")]
    TooLarge(usize),
}

/// How much of an object's text is validated. That it is UTF-8 is always checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Validation {
    /// All of it.
    Full,
    /// `apiVersion`, `kind`, `metadata`, and the names of the other fields. Of the value of another field the scan only looks
    /// for the end, by counting brackets outside strings.
    Header,
}

/// The byte range of a field's text in the buffer; empty when the field is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    pub(crate) fn get(self, buffer: &str) -> Option<&str> {
        (self.end > self.start).then(|| &buffer[self.start as usize..self.end as usize])
    }
}

/// A decoded object: its text and the header with the position of each metadata field.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct DecodedObject {
    // What a look-up needs comes first, so that it shares a cache line with the reference count.
    pub(crate) key: ObjectKey,
    pub(crate) buffer: Box<str>,
    /// Length of the JSON at the start of `buffer`. Unescaped copies of strings follow it.
    pub(crate) json_len: u32,
    pub(crate) api_version: Span,
    pub(crate) kind: Span,
    pub(crate) uid: Span,
    pub(crate) resource_version: Span,
    pub(crate) deletion_timestamp: Span,
    pub(crate) labels: Span,
    pub(crate) annotations: Span,
    pub(crate) owner_references: Span,
    /// The first two fields beside `apiVersion`, `kind` and `metadata`, up to a name that has escapes or white space behind
    /// it: `spec` and `status` of most kinds.
    pub(crate) fields: [Span; 2],
    // Here it takes no room of its own.
    /// Whether a projection removed fields, or may have.
    pub(crate) partial: bool,
    pub(crate) generation: Option<i64>,
}

impl DecodedObject {
    pub(crate) fn json(&self) -> &str {
        &self.buffer[..self.json_len as usize]
    }

    pub(crate) fn field(&self, field: MetadataField) -> Option<&str> {
        let span = match field {
            MetadataField::Uid => self.uid,
            MetadataField::ResourceVersion => self.resource_version,
            MetadataField::DeletionTimestamp => self.deletion_timestamp,
            MetadataField::Labels => self.labels,
            MetadataField::OwnerReferences => self.owner_references,
        };
        span.get(&self.buffer)
    }

    /// The JSON of a field whose place was recorded; `None` says nothing about the object.
    pub(crate) fn recorded(&self, name: &str) -> Option<&str> {
        // The names of recorded fields have no quotes, so the next one to the left is the one before the name.
        let is_named = |span: &&Span| {
            let before = self.buffer[..span.start as usize].strip_suffix("\":");
            before.and_then(|before| before.strip_suffix(name)).is_some_and(|before| before.ends_with('"'))
        };
        let span = self.fields.iter().find(is_named).filter(|_| !name.contains('"'))?;
        span.get(&self.buffer)
    }
}

/// The byte range of a value in the source text; `None` when the value is absent.
type ValueRange = Option<Range<usize>>;

/// The ranges of an object's fields in the source text.
#[derive(Default)]
struct ObjectRanges {
    api_version: ValueRange,
    kind: ValueRange,
    metadata: Option<MetadataRanges>,
    fields: [ValueRange; 2],
}

#[derive(Default)]
struct MetadataRanges {
    name: ValueRange,
    namespace: ValueRange,
    uid: ValueRange,
    resource_version: ValueRange,
    generation: ValueRange,
    deletion_timestamp: ValueRange,
    labels: ValueRange,
    annotations: ValueRange,
    owner_references: ValueRange,
    /// The whole member, including its name.
    managed_fields: ValueRange,
}

/// Why the fields of an object cannot be read.
enum ReadError {
    /// The text is not JSON.
    Scan(ScanError),
    /// The text is JSON without the form of an object.
    Form(String),
}

impl From<ScanError> for ReadError {
    fn from(fault: ScanError) -> Self {
        Self::Scan(fault)
    }
}

impl ReadError {
    fn error(self, text: &[u8]) -> DecodeError {
        match self {
            Self::Form(message) => form(&message),
            // serde_json parses the text again, for a message with the reason and the position.
            Self::Scan(_) => serde_json::from_slice::<IgnoredAny>(text)
                .map_or_else(Into::into, |IgnoredAny| form("not a JSON object")),
        }
    }
}

fn form(message: &str) -> DecodeError {
    DecodeError::Json(serde_json::Error::custom(message))
}

fn put(range: &mut ValueRange, name: &str, found: Range<usize>) -> Result<(), ReadError> {
    match range.replace(found) {
        None => Ok(()),
        Some(_) => Err(ReadError::Form(format!("the field {name} comes twice"))),
    }
}

impl ObjectRanges {
    /// Reads the object at the cursor's position.
    fn read(cursor: &mut JsonCursor<'_>, validation: Validation) -> Result<Self, ReadError> {
        let mut ranges = Self::default();
        let mut fields = 0;
        let mut member = cursor.first_member()?;
        while let Some(name) = member {
            let name = name.unescaped().ok_or(ScanError::Invalid)?;
            match &*name {
                "apiVersion" => put(&mut ranges.api_version, &name, cursor.value()?)?,
                "kind" => put(&mut ranges.kind, &name, cursor.value()?)?,
                "metadata" => {
                    if cursor.peek()? != b'{' {
                        return Err(ReadError::Form("metadata is not an object".to_owned()));
                    }
                    if ranges.metadata.replace(MetadataRanges::read(cursor)?).is_some() {
                        return Err(ReadError::Form("the field metadata comes twice".to_owned()));
                    }
                }
                _ => {
                    let value = match validation {
                        Validation::Full => cursor.value()?,
                        Validation::Header => cursor.closed_value()?,
                    };
                    let is_usual = matches!(name, Cow::Borrowed(_)) && cursor.is_behind(&value, "\":");
                    if !is_usual {
                        // The same name may follow in the usual form, and a walk would find this one.
                        fields = ranges.fields.len();
                    } else if let Some(place) = ranges.fields.get_mut(fields) {
                        *place = Some(value);
                        fields += 1;
                    }
                }
            }
            member = cursor.next_member()?;
        }
        Ok(ranges)
    }
}

impl MetadataRanges {
    fn read(cursor: &mut JsonCursor<'_>) -> Result<Self, ReadError> {
        let mut ranges = Self::default();
        let mut member = cursor.first_member()?;
        while let Some(name) = member {
            let start = name.start;
            let name = name.unescaped().ok_or(ScanError::Invalid)?;
            // The member is not copied, so the scan only looks for its end.
            let mut value = if name == "managedFields" { cursor.closed_value()? } else { cursor.value()? };
            let range = match &*name {
                "name" => &mut ranges.name,
                "namespace" => &mut ranges.namespace,
                "uid" => &mut ranges.uid,
                "resourceVersion" => &mut ranges.resource_version,
                "generation" => &mut ranges.generation,
                "deletionTimestamp" => &mut ranges.deletion_timestamp,
                "labels" => &mut ranges.labels,
                "annotations" => &mut ranges.annotations,
                "ownerReferences" => &mut ranges.owner_references,
                "managedFields" => {
                    value.start = start;
                    &mut ranges.managed_fields
                }
                _ => {
                    member = cursor.next_member()?;
                    continue;
                }
            };
            put(range, &name, value)?;
            member = cursor.next_member()?;
        }
        Ok(ranges)
    }
}

/// The text of a value; `None` when it is absent or `null`.
fn text_at<'a>(text: &'a str, range: &ValueRange) -> Option<&'a str> {
    range.as_ref().map(|range| &text[range.clone()]).filter(|value| *value != "null")
}

/// The unescaped content of a JSON string.
fn content(json: &str) -> Result<Cow<'_, str>, DecodeError> {
    match json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(content) if !has_escapes(content) => Ok(Cow::Borrowed(content)),
        _ => Ok(serde_json::from_str::<JsonString<'_>>(json)?.0),
    }
}

/// Decodes one object; `default` supplies a missing `apiVersion` or `kind`.
pub(crate) fn decode(
    text: &str,
    default: Option<&DefaultKind<'_>>,
    validation: Validation,
) -> Result<DecodedObject, DecodeError> {
    let text = text.trim_ascii();
    let mut cursor = JsonCursor::new(text.as_bytes());
    let ranges = match ObjectRanges::read(&mut cursor, validation) {
        Ok(ranges) if cursor.at() == text.len() => ranges,
        Ok(_) => return Err(ReadError::Scan(ScanError::Invalid).error(text.as_bytes())),
        Err(error) => return Err(error.error(text.as_bytes())),
    };
    build(text, &ranges, default)
}

/// Decodes the object of a trusted sender at the start of `bytes` and returns it with its length; `None` when the object is
/// incomplete.
pub(crate) fn decode_first(
    bytes: &[u8],
    default: &DefaultKind<'_>,
) -> Result<Option<(DecodedObject, usize)>, DecodeError> {
    let mut cursor = JsonCursor::new(bytes);
    let ranges = match ObjectRanges::read(&mut cursor, default.trusted_validation()) {
        Ok(ranges) => ranges,
        Err(ReadError::Scan(ScanError::Incomplete)) => return Ok(None),
        Err(error) => return Err(error.error(bytes)),
    };
    let used = cursor.at();
    let text = std::str::from_utf8(&bytes[..used]).map_err(serde_json::Error::custom)?;
    Ok(Some((build(text, &ranges, Some(default))?, used)))
}

/// Builds the buffer and the header from the source text and the ranges of its fields.
fn build(
    text: &str,
    ranges: &ObjectRanges,
    default: Option<&DefaultKind<'_>>,
) -> Result<DecodedObject, DecodeError> {
    if u32::try_from(text.len()).is_err() {
        return Err(DecodeError::TooLarge(text.len()));
    }
    let at = |range| text_at(text, range);
    let meta = ranges.metadata.as_ref().ok_or_else(|| form("the field metadata is missing"))?;
    let namespace = at(&meta.namespace).map(content).transpose()?;
    let name = at(&meta.name).map(content).transpose()?;
    let key = ObjectKey::new(namespace.as_deref(), name.as_deref().unwrap_or_default())?;
    let generation = at(&meta.generation).map(serde_json::from_str).transpose()?;
    let (lacks_api_version, lacks_kind) = (at(&ranges.api_version).is_none(), at(&ranges.kind).is_none());
    // A `null` is copied with the text, so an added field would occur twice.
    let is_null =
        (lacks_api_version && ranges.api_version.is_some()) || (lacks_kind && ranges.kind.is_some());
    let missing = match default {
        _ if !lacks_api_version && !lacks_kind => None,
        Some(default) if !is_null => Some(default.type_meta()),
        _ => return Err(DecodeError::NoKind(key)),
    };

    // In the order in which servers write them in watch events: both forms of an object are then the same text. The first
    // part takes the place of the `{` of the text.
    let prefix = missing.map_or([""; 3], |missing| {
        let kind = if lacks_kind { missing.kind_member.as_str() } else { "" };
        let api_version = if lacks_api_version { missing.api_version_member.as_str() } else { "" };
        ["{", kind, api_version]
    });
    let cut = meta.managed_fields.clone().map_or(0..0, |member| with_comma(text, member));
    let (skip, prefix_len): (usize, usize) = (prefix[0].len(), prefix.iter().map(|part| part.len()).sum());
    let shift = Shift { cut: cut.clone(), prefix: prefix_len, skip };
    let json_len = prefix_len - skip + text.len() - cut.len();
    // With room for the values behind the JSON, so that the buffer is not reallocated.
    let values = missing.map_or(0, |missing| {
        usize::from(lacks_kind) * missing.kind.len()
            + usize::from(lacks_api_version) * missing.api_version.len()
    });
    let mut buffer = String::with_capacity(json_len + values);
    buffer.extend(prefix);
    buffer.push_str(&text[skip..cut.start.max(skip)]);
    buffer.push_str(&text[cut.end.max(skip)..]);
    debug_assert_eq!(buffer.len(), json_len);

    let mut builder = BufferBuilder { text, shift, buffer };
    let mut decoded = DecodedObject {
        key,
        json_len: to_u32(json_len)?,
        api_version: builder.string(&ranges.api_version)?,
        kind: builder.string(&ranges.kind)?,
        uid: builder.string(&meta.uid)?,
        resource_version: builder.string(&meta.resource_version)?,
        deletion_timestamp: builder.string(&meta.deletion_timestamp)?,
        labels: builder.span(&meta.labels)?,
        annotations: builder.span(&meta.annotations)?,
        owner_references: builder.span(&meta.owner_references)?,
        fields: [builder.place(&ranges.fields[0])?, builder.place(&ranges.fields[1])?],
        generation,
        partial: false,
        buffer: Box::default(),
    };
    if let Some(missing) = missing {
        if lacks_api_version {
            decoded.api_version = builder.append(&missing.api_version)?;
        }
        if lacks_kind {
            decoded.kind = builder.append(&missing.kind)?;
        }
    }
    decoded.buffer = builder.buffer.into_boxed_str();
    Ok(decoded)
}

fn to_u32(n: usize) -> Result<u32, DecodeError> {
    u32::try_from(n).map_err(|_| DecodeError::TooLarge(n))
}

/// Translates offsets in the source text into offsets in the buffer.
struct Shift {
    cut: Range<usize>,
    prefix: usize,
    skip: usize,
}

impl Shift {
    fn apply(&self, offset: usize) -> usize {
        let after_cut = if offset >= self.cut.end { offset - self.cut.len() } else { offset };
        after_cut + self.prefix - self.skip
    }
}

/// The buffer while it is built.
struct BufferBuilder<'a> {
    text: &'a str,
    shift: Shift,
    buffer: String,
}

impl BufferBuilder<'_> {
    /// The span of a value; empty when it is absent or `null`.
    fn span(&self, range: &ValueRange) -> Result<Span, DecodeError> {
        if text_at(self.text, range).is_none() { Ok(Span::default()) } else { self.place(range) }
    }

    /// The span of a value, whatever it is.
    fn place(&self, range: &ValueRange) -> Result<Span, DecodeError> {
        let Some(range) = range else { return Ok(Span::default()) };
        let start = self.shift.apply(range.start);
        Ok(Span { start: to_u32(start)?, end: to_u32(start + range.len())? })
    }

    /// The span of a string's content. A string with escapes is unescaped into the buffer after the JSON.
    fn string(&mut self, range: &ValueRange) -> Result<Span, DecodeError> {
        let Some(value) = text_at(self.text, range) else { return Ok(Span::default()) };
        match content(value)? {
            Cow::Borrowed(_) => {
                let span = self.span(range)?;
                Ok(Span { start: span.start + 1, end: span.end - 1 })
            }
            Cow::Owned(unescaped) => self.append(&unescaped),
        }
    }

    /// Adds a text after the JSON and returns its span.
    fn append(&mut self, text: &str) -> Result<Span, DecodeError> {
        let start = to_u32(self.buffer.len())?;
        self.buffer.push_str(text);
        Ok(Span { start, end: to_u32(self.buffer.len())? })
    }
}

/// A JSON string, borrowed when it contains no escapes.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JsonString<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// The range of a member extended by one adjacent comma, if there is one.
fn with_comma(text: &str, mut member: Range<usize>) -> Range<usize> {
    let bytes = text.as_bytes();
    let rest = &bytes[member.end..];
    let after_space = rest.trim_ascii_start();
    if after_space.first() == Some(&b',') {
        member.end += rest.len() - after_space.len() + 1;
    } else if let Some(before_comma) = bytes[..member.start].trim_ascii_end().strip_suffix(b",") {
        member.start = before_comma.len();
    }
    member
}
