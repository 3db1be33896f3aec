//! From the JSON of one object to the header and the bytes an [`Object`](crate::Object) keeps.
//!
//! One pass over the text checks what is kept and finds where each metadata field stands; one copy builds the kept buffer.
//! On the way `metadata.managedFields` is cut out (the largest part of many objects, and nothing that a controller reads;
//! of it only the end is looked for), and `apiVersion`/`kind` are put in where the server left them out, as it does for
//! the items of a list. Nothing else is changed: a guest may write back what it read.

use std::borrow::Cow;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{Error as _, IgnoredAny};

use crate::key::{KeyError, ObjectKey};
use crate::kind::Gvk;
use crate::pack::Field;
use crate::scan::{Cursor, Fault, has_escapes};
use crate::short_text::ShortText;

/// Why bytes are not an object.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Not JSON, or not of the form of an object.
    #[error("not a Kubernetes object: {0}")]
    Json(#[from] serde_json::Error),
    /// The metadata has no usable name.
    #[error("object without a usable name: {0}")]
    Key(#[from] KeyError),
    /// `apiVersion` or `kind` is absent and the caller knows no default.
    #[error("object {0} has no apiVersion or kind")]
    NoKind(ObjectKey),
    /// The server answered with a kind that cannot be kept.
    #[error(
        "the server answered {got} where a {want} was asked for; ask for application/json without `as=Table`"
    )]
    WrongKind {
        /// What came.
        got: String,
        /// What was expected.
        want: String,
    },
    /// Larger than 4 GiB.
    #[error("object of {0} bytes is too large to keep")]
    TooLarge(usize),
}

/// Where a field's text stands in the kept buffer; empty when the field is absent.
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

/// What decoding found; becomes the body of an `Object`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Decoded {
    // What nearly every reader asks for stands in the first cache line, beside the reference count.
    /// The resource version, unless it is unusually long.
    pub(crate) version: ShortText,
    pub(crate) key: ObjectKey,
    pub(crate) buffer: Box<str>,
    /// Length of the JSON; unescaped strings stand behind it.
    pub(crate) json_len: u32,
    pub(crate) api_version: Span,
    pub(crate) kind: Span,
    pub(crate) uid: Span,
    pub(crate) resource_version: Span,
    pub(crate) deletion_timestamp: Span,
    pub(crate) labels: Span,
    pub(crate) annotations: Span,
    pub(crate) owner_references: Span,
    pub(crate) generation: Option<i64>,
    /// Whether fields were left out.
    pub(crate) partial: bool,
}

impl Decoded {
    pub(crate) fn json(&self) -> &str {
        &self.buffer[..self.json_len as usize]
    }

    pub(crate) fn field(&self, field: Field) -> Option<&str> {
        let span = match field {
            Field::Uid => self.uid,
            Field::ResourceVersion => self.resource_version,
            Field::DeletionTimestamp => self.deletion_timestamp,
            Field::Labels => self.labels,
            Field::OwnerReferences => self.owner_references,
        };
        span.get(&self.buffer)
    }
}

/// Where a value stands in the text that is decoded; none when it is absent.
type Place = Option<Range<usize>>;

/// Where the fields stand.
#[derive(Default)]
struct Places {
    api_version: Place,
    kind: Place,
    metadata: Option<Metadata>,
}

#[derive(Default)]
struct Metadata {
    name: Place,
    namespace: Place,
    uid: Place,
    resource_version: Place,
    generation: Place,
    deletion_timestamp: Place,
    labels: Place,
    annotations: Place,
    owner_references: Place,
    /// The member, its name included.
    managed_fields: Place,
}

/// Why the fields of an object were not found.
enum Unread {
    Scan(Fault),
    Form(String),
}

impl From<Fault> for Unread {
    fn from(fault: Fault) -> Self {
        Self::Scan(fault)
    }
}

impl Unread {
    fn error(self, text: &[u8]) -> DecodeError {
        match self {
            Self::Form(message) => form(&message),
            // Read again, for a message that tells what is wrong and where.
            Self::Scan(_) => serde_json::from_slice::<IgnoredAny>(text)
                .map_or_else(Into::into, |IgnoredAny| form("not a JSON object")),
        }
    }
}

fn form(message: &str) -> DecodeError {
    DecodeError::Json(serde_json::Error::custom(message))
}

fn put(place: &mut Place, name: &str, found: Range<usize>) -> Result<(), Unread> {
    match place.replace(found) {
        None => Ok(()),
        Some(_) => Err(Unread::Form(format!("the field {name} comes twice"))),
    }
}

impl Places {
    /// Reads the object that stands at a cursor.
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, Unread> {
        let mut places = Self::default();
        let mut member = cursor.first_member()?;
        while let Some(name) = member {
            let name = name.unescaped().ok_or(Fault::Invalid)?;
            match &*name {
                "apiVersion" => put(&mut places.api_version, &name, cursor.value()?)?,
                "kind" => put(&mut places.kind, &name, cursor.value()?)?,
                "metadata" => {
                    if cursor.peek()? != b'{' {
                        return Err(Unread::Form("metadata is not an object".to_owned()));
                    }
                    if places.metadata.replace(Metadata::read(cursor)?).is_some() {
                        return Err(Unread::Form("the field metadata comes twice".to_owned()));
                    }
                }
                _ => {
                    cursor.value()?;
                }
            }
            member = cursor.next_member()?;
        }
        Ok(places)
    }
}

impl Metadata {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, Unread> {
        let mut places = Self::default();
        let mut member = cursor.first_member()?;
        while let Some(name) = member {
            let start = name.start;
            let name = name.unescaped().ok_or(Fault::Invalid)?;
            // It is not kept, so only its end matters.
            let mut value = if name == "managedFields" { cursor.closed_value()? } else { cursor.value()? };
            let place = match &*name {
                "name" => &mut places.name,
                "namespace" => &mut places.namespace,
                "uid" => &mut places.uid,
                "resourceVersion" => &mut places.resource_version,
                "generation" => &mut places.generation,
                "deletionTimestamp" => &mut places.deletion_timestamp,
                "labels" => &mut places.labels,
                "annotations" => &mut places.annotations,
                "ownerReferences" => &mut places.owner_references,
                "managedFields" => {
                    value.start = start;
                    &mut places.managed_fields
                }
                _ => {
                    member = cursor.next_member()?;
                    continue;
                }
            };
            put(place, &name, value)?;
            member = cursor.next_member()?;
        }
        Ok(places)
    }
}

/// A value's text; none for `null`, as if it were absent.
fn text_at<'a>(text: &'a str, place: &Place) -> Option<&'a str> {
    place.as_ref().map(|range| &text[range.clone()]).filter(|value| *value != "null")
}

fn content(json: &str) -> Result<Cow<'_, str>, DecodeError> {
    match json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(content) if !has_escapes(content) => Ok(Cow::Borrowed(content)),
        _ => Ok(serde_json::from_str::<Text<'_>>(json)?.0),
    }
}

pub(crate) fn decode(text: &str, default: Option<&Gvk>) -> Result<Decoded, DecodeError> {
    let text = text.trim_ascii();
    let mut cursor = Cursor::new(text.as_bytes());
    let places = match Places::read(&mut cursor) {
        Ok(places) if cursor.at() == text.len() => places,
        Ok(_) => return Err(Unread::Scan(Fault::Invalid).error(text.as_bytes())),
        Err(unread) => return Err(unread.error(text.as_bytes())),
    };
    keep(text, &places, default)
}

/// Decodes the object that `bytes` begin with, and tells how long it is; `None` when its end has not come.
pub(crate) fn decode_first(
    bytes: &[u8],
    default: Option<&Gvk>,
) -> Result<Option<(Decoded, usize)>, DecodeError> {
    let mut cursor = Cursor::new(bytes);
    let places = match Places::read(&mut cursor) {
        Ok(places) => places,
        Err(Unread::Scan(Fault::Incomplete)) => return Ok(None),
        Err(unread) => return Err(unread.error(bytes)),
    };
    let used = cursor.at();
    let text = std::str::from_utf8(&bytes[..used]).map_err(serde_json::Error::custom)?;
    Ok(Some((keep(text, &places, default)?, used)))
}

/// Copies what is kept of an object.
fn keep(text: &str, places: &Places, default: Option<&Gvk>) -> Result<Decoded, DecodeError> {
    if u32::try_from(text.len()).is_err() {
        return Err(DecodeError::TooLarge(text.len()));
    }
    let at = |place| text_at(text, place);
    let meta = places.metadata.as_ref().ok_or_else(|| form("the field metadata is missing"))?;
    let namespace = at(&meta.namespace).map(content).transpose()?;
    let name = at(&meta.name).map(content).transpose()?;
    let key = ObjectKey::new(namespace.as_deref(), name.as_deref().unwrap_or_default())?;
    let generation = at(&meta.generation).map(serde_json::from_str).transpose()?;
    let (api_version, kind) = (at(&places.api_version), at(&places.kind));
    // `null` stays in the text, and what is put in would come twice.
    if (api_version.is_none() && places.api_version.is_some()) || (kind.is_none() && places.kind.is_some()) {
        return Err(DecodeError::NoKind(key));
    }

    let prefix = match (api_version, kind, default) {
        (Some(_), Some(_), _) => String::new(),
        (None, None, Some(gvk)) => {
            format!("{{\"apiVersion\":{},\"kind\":{},", quote(&gvk.api_version()), quote(&gvk.kind))
        }
        (Some(_), None, Some(gvk)) => format!("{{\"kind\":{},", quote(&gvk.kind)),
        (None, Some(_), Some(gvk)) => format!("{{\"apiVersion\":{},", quote(&gvk.api_version())),
        _ => return Err(DecodeError::NoKind(key)),
    };
    let cut = meta.managed_fields.clone().map_or(0..0, |member| with_comma(text, member));
    // The prefix ends where the text's own `{` would stand.
    let skip = usize::from(!prefix.is_empty());
    let shift = Shift { cut: cut.clone(), prefix: prefix.len(), skip };
    let json_len = prefix.len() - skip + text.len() - cut.len();
    // Room for the kind behind it, so that nothing is copied twice.
    let behind = if skip == 0 { 0 } else { prefix.len() };
    let mut buffer = String::with_capacity(json_len + behind);
    buffer.push_str(&prefix);
    buffer.push_str(&text[skip..cut.start.max(skip)]);
    buffer.push_str(&text[cut.end.max(skip)..]);
    debug_assert_eq!(buffer.len(), json_len);

    let mut kept = Kept { text, shift, buffer };
    let mut decoded = Decoded {
        key,
        json_len: to_u32(json_len)?,
        api_version: kept.string(&places.api_version)?,
        kind: kept.string(&places.kind)?,
        uid: kept.string(&meta.uid)?,
        resource_version: kept.string(&meta.resource_version)?,
        deletion_timestamp: kept.string(&meta.deletion_timestamp)?,
        labels: kept.span(&meta.labels)?,
        annotations: kept.span(&meta.annotations)?,
        owner_references: kept.span(&meta.owner_references)?,
        generation,
        partial: false,
        version: ShortText::new(""),
        buffer: Box::default(),
    };
    if let Some(gvk) = default {
        if api_version.is_none() {
            decoded.api_version = kept.append(&gvk.api_version())?;
        }
        if kind.is_none() {
            decoded.kind = kept.append(&gvk.kind)?;
        }
    }
    decoded.buffer = kept.buffer.into_boxed_str();
    decoded.version = ShortText::new(decoded.resource_version.get(&decoded.buffer).unwrap_or_default());
    Ok(decoded)
}

fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn to_u32(n: usize) -> Result<u32, DecodeError> {
    u32::try_from(n).map_err(|_| DecodeError::TooLarge(n))
}

/// How offsets in the source text become offsets in the kept buffer.
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

struct Kept<'a> {
    text: &'a str,
    shift: Shift,
    buffer: String,
}

impl Kept<'_> {
    /// The span of a value.
    fn span(&self, place: &Place) -> Result<Span, DecodeError> {
        let (Some(range), Some(_)) = (place, text_at(self.text, place)) else { return Ok(Span::default()) };
        let start = self.shift.apply(range.start);
        Ok(Span { start: to_u32(start)?, end: to_u32(start + range.len())? })
    }

    /// The span of a string's content, unescaped behind the JSON when it holds escapes.
    fn string(&mut self, place: &Place) -> Result<Span, DecodeError> {
        let Some(value) = text_at(self.text, place) else { return Ok(Span::default()) };
        match content(value)? {
            Cow::Borrowed(_) => {
                let span = self.span(place)?;
                Ok(Span { start: span.start + 1, end: span.end - 1 })
            }
            Cow::Owned(unescaped) => self.append(&unescaped),
        }
    }

    fn append(&mut self, text: &str) -> Result<Span, DecodeError> {
        let start = to_u32(self.buffer.len())?;
        self.buffer.push_str(text);
        Ok(Span { start, end: to_u32(self.buffer.len())? })
    }
}

/// A JSON string, borrowed where it holds no escapes.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// A member with one comma beside it, where there is one.
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
