//! Bodies in `application/vnd.kubernetes.protobuf`, decoded to the JSON that Go writes of the same object.
//!
//! ```text
//!   k8s\0, then a message      mod      the envelope: apiVersion, kind and the object's bytes
//!     ├── object               values   by the table: fields, lists, maps, messages in messages
//!     │     └── special        strings and numbers that are messages in protobuf: quantities, times …
//!     ├── table                which field has which number, name and type
//!     └── wire                 records, without their meaning
//! ```
//!
//! Typed clients written in Go send such bodies; they read answers in JSON. Nothing is encoded here.
//!
//! Invariants: what is malformed is an error, never a panic. What is allocated is in proportion to what came: no length
//! is believed before its bytes are seen, and an object has at most [`MAX_VALUES`] values, because each empty message of
//! two bytes may stand for many. It is as deep as JSON from a client may be. Fields that the table does not know are
//! skipped, as every server skips those of newer clients.

mod object;
mod special;
mod table;
#[cfg(test)]
mod tests;
mod wire;

use serde_json::{Map, Value};
use thiserror::Error;

use object::Decoder;
use wire::{Raw, Reader, WireError};

pub(crate) use table::{Other, ProtobufTypes, Shape, TypeIndex};

/// The media type of the bodies.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

const MAGIC: &[u8] = b"k8s\0";

/// How many values an object may have; JSON of the size that a body may have does not hold more of them.
const MAX_VALUES: usize = 1_000_000;

/// How many arrays and objects may stand in each other: as serde_json has it.
const MAX_DEPTH: usize = 127;

/// Why a body cannot be decoded.
#[derive(Debug, PartialEq, Error)]
pub(crate) enum ProtobufError {
    #[error("it does not begin with the four bytes of Kubernetes")]
    Magic,
    #[error("the message around the object: {0}")]
    Envelope(Problem),
    #[error("its content encoding is {0:?}, but none is understood")]
    Encoding(String),
    #[error("the object in it is of type {0:?}, not protobuf")]
    ContentType(String),
    #[error("there is no kind {kind:?} in version {api_version:?}")]
    Kind { api_version: String, kind: String },
    #[error("{kind}{}{path}: {problem}", if path.is_empty() { "" } else { "." })]
    Object { kind: String, path: String, problem: Problem },
}

/// What is wrong with a value.
#[derive(Debug, PartialEq, Error)]
pub(crate) enum Problem {
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("the field has another wire type than its type")]
    WireType,
    #[error("the text is not UTF-8")]
    Text,
    #[error("{0:?} is not a quantity")]
    Quantity(String),
    #[error("{0} is neither the type of a number nor of a string")]
    IntOrString(i64),
    #[error("the time is not in the years 1 to 9999")]
    Time,
    #[error("the number is infinite or none")]
    Number,
    #[error("it is not JSON: {0}")]
    Json(String),
    #[error("it is more than {MAX_DEPTH} levels deep")]
    Depth,
    #[error("the object has more than {MAX_VALUES} values")]
    Values,
}

/// The object in a body, with its `apiVersion` and `kind`.
pub(crate) fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    let message = body.strip_prefix(MAGIC).ok_or(ProtobufError::Magic)?;
    let Envelope { api_version, kind, content, encoding, content_type } =
        Envelope::read(message).map_err(ProtobufError::Envelope)?;
    if !encoding.is_empty() {
        return Err(ProtobufError::Encoding(encoding));
    }
    if !content_type.is_empty() && content_type != MEDIA_TYPE {
        return Err(ProtobufError::ContentType(content_type));
    }
    let table = ProtobufTypes::builtin();
    let Some(index) = table.of_kind(&api_version, &kind) else {
        return Err(ProtobufError::Kind { api_version, kind });
    };
    let mut object = Map::new();
    if !api_version.is_empty() {
        object.insert("apiVersion".to_owned(), api_version.into());
    }
    object.insert("kind".to_owned(), kind.as_str().into());
    match Decoder::new(table).fields(index, &[content], 1, &mut object) {
        Ok(()) => Ok(Value::Object(object)),
        Err(failure) => {
            let (path, problem) = failure.into_parts();
            Err(ProtobufError::Object { kind, path, problem })
        }
    }
}

/// A built-in object without any field set, as Go has it: with the fields that are never left out.
pub(crate) fn empty(api_version: &str, kind: &str) -> Option<Value> {
    let table = ProtobufTypes::builtin();
    let index = table.of_kind(api_version, kind)?;
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Decoder::new(table).fields(index, &[&[]], 1, &mut object).ok()?;
    Some(Value::Object(object))
}

/// What stands around an object.
#[derive(Default)]
struct Envelope<'a> {
    api_version: String,
    kind: String,
    content: &'a [u8],
    encoding: String,
    content_type: String,
}

impl<'a> Envelope<'a> {
    fn read(message: &'a [u8]) -> Result<Self, Problem> {
        let mut envelope = Self::default();
        for record in Reader::new(message) {
            let record = record?;
            match record.number {
                1 => envelope.read_type(bytes(record.raw)?)?,
                2 => envelope.content = bytes(record.raw)?,
                3 => envelope.encoding = text(record.raw)?,
                4 => envelope.content_type = text(record.raw)?,
                _ => {}
            }
        }
        Ok(envelope)
    }

    fn read_type(&mut self, message: &[u8]) -> Result<(), Problem> {
        for record in Reader::new(message) {
            let record = record?;
            match record.number {
                1 => self.api_version = text(record.raw)?,
                2 => self.kind = text(record.raw)?,
                _ => {}
            }
        }
        Ok(())
    }
}

fn bytes(raw: Raw<'_>) -> Result<&[u8], Problem> {
    match raw {
        Raw::Bytes(bytes) => Ok(bytes),
        _ => Err(Problem::WireType),
    }
}

fn text(raw: Raw<'_>) -> Result<String, Problem> {
    std::str::from_utf8(bytes(raw)?).map(str::to_owned).map_err(|_| Problem::Text)
}

fn varint(raw: Raw<'_>) -> Result<u64, Problem> {
    match raw {
        Raw::Varint(value) => Ok(value),
        _ => Err(Problem::WireType),
    }
}
