//! From the JSON of one object to the header and the bytes an [`Object`](crate::Object) keeps.
//!
//! One pass over the text with `serde_json`'s borrowed raw values finds where each metadata field stands; one copy
//! builds the kept buffer. On the way `metadata.managedFields` is cut out (the largest part of many objects, and
//! nothing that a controller reads), and `apiVersion`/`kind` are put in where the server left them out, as it does
//! for the items of a list. Nothing else is changed: a guest may write back what it read.

use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;

use crate::key::{KeyError, ObjectKey};
use crate::kind::Gvk;
use crate::list::value;
use crate::pack::Field;
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

#[derive(Deserialize)]
struct Top<'a> {
    #[serde(borrow, rename = "apiVersion")]
    api_version: Option<&'a RawValue>,
    #[serde(borrow)]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    metadata: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    #[serde(borrow)]
    name: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    namespace: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    uid: Option<&'a RawValue>,
    #[serde(borrow)]
    resource_version: Option<&'a RawValue>,
    generation: Option<i64>,
    #[serde(borrow)]
    deletion_timestamp: Option<&'a RawValue>,
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
    #[serde(borrow)]
    owner_references: Option<&'a RawValue>,
    #[serde(borrow)]
    managed_fields: Option<&'a RawValue>,
}

pub(crate) fn decode(text: &str, default: Option<&Gvk>) -> Result<Decoded, DecodeError> {
    let text = text.trim_ascii();
    decode_top(text, &serde_json::from_str(text)?, default)
}

/// Decodes the object that `bytes` begin with, and tells how long it is; `None` when its end has not come.
pub(crate) fn decode_first(
    bytes: &[u8],
    default: Option<&Gvk>,
) -> Result<Option<(Decoded, usize)>, DecodeError> {
    let Some((top, used)) = value::<Top<'_>>(bytes)? else { return Ok(None) };
    let text = std::str::from_utf8(&bytes[..used]).map_err(serde_json::Error::custom)?;
    Ok(Some((decode_top(text, &top, default)?, used)))
}

fn decode_top(text: &str, top: &Top<'_>, default: Option<&Gvk>) -> Result<Decoded, DecodeError> {
    if u32::try_from(text.len()).is_err() {
        return Err(DecodeError::TooLarge(text.len()));
    }
    let meta: Meta<'_> = serde_json::from_str(top.metadata.get())?;
    let key = ObjectKey::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default())?;

    let prefix = match (top.api_version, top.kind, default) {
        (Some(_), Some(_), _) => String::new(),
        (None, None, Some(gvk)) => {
            format!("{{\"apiVersion\":{},\"kind\":{},", quote(&gvk.api_version()), quote(&gvk.kind))
        }
        (Some(_), None, Some(gvk)) => format!("{{\"kind\":{},", quote(&gvk.kind)),
        (None, Some(_), Some(gvk)) => format!("{{\"apiVersion\":{},", quote(&gvk.api_version())),
        _ => return Err(DecodeError::NoKind(key)),
    };
    let cut = meta.managed_fields.and_then(|value| entry_range(text, value)).unwrap_or(0..0);
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
        api_version: kept.string(top.api_version)?,
        kind: kept.string(top.kind)?,
        uid: kept.string(meta.uid)?,
        resource_version: kept.string(meta.resource_version)?,
        deletion_timestamp: kept.string(meta.deletion_timestamp)?,
        labels: kept.span(meta.labels)?,
        annotations: kept.span(meta.annotations)?,
        owner_references: kept.span(meta.owner_references)?,
        generation: meta.generation,
        partial: false,
        version: ShortText::new(""),
        buffer: Box::default(),
    };
    if let Some(gvk) = default {
        if top.api_version.is_none() {
            decoded.api_version = kept.append(&gvk.api_version())?;
        }
        if top.kind.is_none() {
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
    cut: std::ops::Range<usize>,
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
    /// The span of a raw value.
    fn span(&self, value: Option<&RawValue>) -> Result<Span, DecodeError> {
        let Some(value) = value else { return Ok(Span::default()) };
        let start = self.shift.apply(offset_in(self.text, value.get()));
        Ok(Span { start: to_u32(start)?, end: to_u32(start + value.get().len())? })
    }

    /// The span of a string's content, unescaped behind the JSON when it holds escapes.
    fn string(&mut self, value: Option<&RawValue>) -> Result<Span, DecodeError> {
        let Some(value) = value else { return Ok(Span::default()) };
        let content: std::borrow::Cow<'_, str> = serde_json::from_str::<Text<'_>>(value.get())?.0;
        match content {
            std::borrow::Cow::Borrowed(_) => {
                let span = self.span(Some(value))?;
                Ok(Span { start: span.start + 1, end: span.end - 1 })
            }
            std::borrow::Cow::Owned(unescaped) => self.append(&unescaped),
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
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) std::borrow::Cow<'a, str>);

/// Where `part`, a slice of `text`, begins in it.
fn offset_in(text: &str, part: &str) -> usize {
    part.as_ptr().addr() - text.as_ptr().addr()
}

/// The range of `"managedFields": value` with one comma beside it; `None` when the key is spelled with escapes.
fn entry_range(text: &str, value: &RawValue) -> Option<std::ops::Range<usize>> {
    const KEY: &[u8] = b"\"managedFields\"";
    let bytes = text.as_bytes();
    let value_start = offset_in(text, value.get());
    let before_value = bytes[..value_start].trim_ascii_end().strip_suffix(b":")?.trim_ascii_end();
    let before_key = before_value.strip_suffix(KEY)?;
    let mut range = before_key.len()..value_start + value.get().len();
    let rest = &bytes[range.end..];
    let after_space = rest.trim_ascii_start();
    if after_space.first() == Some(&b',') {
        range.end += rest.len() - after_space.len() + 1;
    } else if let Some(before_comma) = before_key.trim_ascii_end().strip_suffix(b",") {
        range.start = before_comma.len();
    }
    Some(range)
}
