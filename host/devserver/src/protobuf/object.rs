//! [`Decoder`]: messages to JSON by the table.
//!
//! A field's value is made from all its records at once. Of a scalar the last one counts, and a message that comes in
//! several pieces is the one that all pieces together would be: so protobuf says.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::table::{Field, Other, ProtobufTypes, Shape, TypeIndex};
use super::wire::{Raw, Reader, Record};
use super::{MAX_DEPTH, MAX_VALUES, Problem, bytes, special, text, varint};

/// What is wrong, and with which field.
#[derive(Debug)]
pub(super) struct Failure {
    /// The names of the fields that lead there, the innermost first.
    names: Vec<&'static str>,
    problem: Problem,
}

impl Failure {
    fn at(mut self, name: &'static str) -> Self {
        if !name.is_empty() {
            self.names.push(name);
        }
        self
    }

    /// The path, as in `spec.containers.name`, and the problem.
    pub(super) fn into_parts(mut self) -> (String, Problem) {
        self.names.reverse();
        (self.names.join("."), self.problem)
    }
}

impl<P: Into<Problem>> From<P> for Failure {
    fn from(problem: P) -> Self {
        Self { names: Vec::new(), problem: problem.into() }
    }
}

type Decoded = Result<Value, Failure>;

/// Decodes one object.
pub(super) struct Decoder {
    table: &'static ProtobufTypes,
    /// How many values may still come.
    left: usize,
}

impl Decoder {
    pub(super) fn new(table: &'static ProtobufTypes) -> Self {
        Self { table, left: MAX_VALUES }
    }

    /// Puts the fields of a message, which may come in several pieces, into an object that is so deep.
    pub(super) fn fields(
        &mut self,
        message: TypeIndex,
        pieces: &[&[u8]],
        depth: usize,
        into: &mut Map<String, Value>,
    ) -> Result<(), Failure> {
        let fields = self.table.fields(message);
        let records = known(fields, pieces)?;
        let mut rest = &records[..];
        for field in fields {
            let (own, others) = rest.split_at(rest.partition_point(|r| r.number == field.number));
            rest = others;
            self.field(field, own, depth, into).map_err(|f| f.at(field.name))?;
        }
        Ok(())
    }

    fn field(
        &mut self,
        field: &'static Field,
        records: &[Record<'_>],
        depth: usize,
        into: &mut Map<String, Value>,
    ) -> Result<(), Failure> {
        if let (true, Shape::Message(inner)) = (field.name.is_empty(), &field.shape) {
            return self.fields(*inner, &all_bytes(records)?, depth, into);
        }
        let value = self.value(&field.shape, records, depth)?;
        let is_empty = match field.shape {
            Shape::Pointer(_) => records.is_empty(),
            _ => is_empty(&value),
        };
        if !(field.omit && is_empty) {
            self.spend()?;
            into.insert(field.name.to_owned(), value);
        }
        Ok(())
    }

    /// Takes one value from those that may still come.
    fn spend(&mut self) -> Result<(), Problem> {
        self.left = self.left.checked_sub(1).ok_or(Problem::Values)?;
        Ok(())
    }

    /// The value that the records of a field make, or that it has without any. It stands in so many arrays and objects.
    ///
    /// Scalars are apart: each level of an object takes this function's part of the stack.
    fn value(&mut self, shape: &'static Shape, records: &[Record<'_>], depth: usize) -> Decoded {
        match shape {
            Shape::Message(index) => self.message(*index, records, depth),
            Shape::Pointer(_) if records.is_empty() => Ok(Value::Null),
            Shape::Pointer(inner) => self.value(inner, records, depth),
            Shape::List(inner) => self.list(inner, records, depth),
            Shape::Map(inner) => self.map(inner, records, depth),
            Shape::Only(inner) => self.value(inner, &numbered(&all_bytes(records)?, 1)?, depth),
            Shape::Either(other, inner) => self.either(*other, inner, &all_bytes(records)?, depth),
            _ => Ok(scalar(shape, records, depth)?),
        }
    }

    fn message(&mut self, index: TypeIndex, records: &[Record<'_>], depth: usize) -> Decoded {
        let mut object = Map::new();
        self.fields(index, &all_bytes(records)?, deeper(depth)?, &mut object)?;
        Ok(Value::Object(object))
    }

    fn list(&mut self, inner: &'static Shape, records: &[Record<'_>], depth: usize) -> Decoded {
        let depth = deeper(depth)?;
        let mut values = Vec::new();
        for record in records {
            match (inner, record.raw) {
                (Shape::Bool | Shape::Int32 | Shape::Int64 | Shape::Double, Raw::Bytes(packed)) => {
                    self.unpack(inner, packed, &mut values)?;
                }
                _ => {
                    self.spend()?;
                    values.push(self.value(inner, std::slice::from_ref(record), depth)?);
                }
            }
        }
        Ok(if values.is_empty() { Value::Null } else { Value::Array(values) })
    }

    /// Numbers in one record.
    fn unpack(&mut self, inner: &Shape, packed: &[u8], values: &mut Vec<Value>) -> Result<(), Problem> {
        let mut reader = Reader::new(packed);
        while !reader.is_empty() {
            self.spend()?;
            values.push(match inner {
                Shape::Double => special::double(reader.fixed64()?)?,
                _ => number(inner, reader.varint()?),
            });
        }
        Ok(())
    }

    fn map(&mut self, inner: &'static Shape, records: &[Record<'_>], depth: usize) -> Decoded {
        let depth = deeper(depth)?;
        let mut values = Map::new();
        for record in records {
            let entry = [bytes(record.raw)?];
            let key = last(&numbered(&entry, 1)?, text)?.unwrap_or_default();
            let found = numbered(&entry, 2)?;
            let value = self.value(inner, found.last().map_or(&[], std::slice::from_ref), depth)?;
            // In a map nothing is null where it is not a pointer's.
            let value = match (inner, value) {
                (Shape::Bytes, Value::Null) => "".into(),
                (Shape::Only(_), Value::Null) => Value::Array(Vec::new()),
                (_, value) => value,
            };
            self.spend()?;
            values.insert(key, value);
        }
        Ok(if values.is_empty() { Value::Null } else { Value::Object(values) })
    }

    fn either(&mut self, other: Other, inner: &'static Shape, pieces: &[&[u8]], depth: usize) -> Decoded {
        let (first, second) = (numbered(pieces, 1)?, numbered(pieces, 2)?);
        match other {
            Other::Bool if !second.is_empty() => self.value(inner, &second, depth),
            Other::Bool => self.value(&Shape::Bool, &first, depth),
            Other::List if !second.is_empty() => self.list(inner, &second, depth),
            Other::Strings if !second.is_empty() => self.list(&Shape::Text, &second, depth),
            Other::List | Other::Strings if first.is_empty() => Ok(Value::Null),
            Other::List | Other::Strings => self.value(inner, &first, depth),
        }
    }
}

/// A value that holds no other.
fn scalar(shape: &Shape, records: &[Record<'_>], depth: usize) -> Result<Value, Problem> {
    match shape {
        Shape::Text => Ok(last(records, text)?.unwrap_or_default().into()),
        Shape::Bytes => Ok(last(records, bytes)?.map_or(Value::Null, |b| STANDARD.encode(b).into())),
        Shape::Double => special::double(last(records, fixed64)?.unwrap_or_default()),
        Shape::Json => special::json(&all_bytes(records)?, depth),
        Shape::Quantity => special::quantity(&all_bytes(records)?),
        Shape::IntOrString => special::int_or_string(&all_bytes(records)?),
        Shape::Time => special::time(last(records, bytes)?.unwrap_or_default()),
        Shape::MicroTime => special::micro_time(last(records, bytes)?.unwrap_or_default()),
        _ => Ok(number(shape, last(records, varint)?.unwrap_or_default())),
    }
}

/// Whether Go leaves the value out where it leaves out what is empty.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(values) => values.is_empty(),
    }
}

/// One level deeper than this.
fn deeper(depth: usize) -> Result<usize, Problem> {
    if depth < MAX_DEPTH { Ok(depth + 1) } else { Err(Problem::Depth) }
}

/// A number of so many bits or a bool: what is too long loses its upper bits, as in Go.
fn number(shape: &Shape, value: u64) -> Value {
    match shape {
        Shape::Bool => (value != 0).into(),
        Shape::Int32 => (value as i32).into(),
        _ => (value as i64).into(),
    }
}

fn fixed64(raw: Raw<'_>) -> Result<u64, Problem> {
    match raw {
        Raw::Fixed64(value) => Ok(value),
        _ => Err(Problem::WireType),
    }
}

/// The last of the values, each of which must be right.
pub(super) fn last<'a, T>(
    records: &[Record<'a>],
    value: impl Fn(Raw<'a>) -> Result<T, Problem>,
) -> Result<Option<T>, Problem> {
    let mut last = None;
    for record in records {
        last = Some(value(record.raw)?);
    }
    Ok(last)
}

/// The records of a message that the table knows, by their numbers' order.
fn known<'a>(fields: &[Field], pieces: &[&'a [u8]]) -> Result<Vec<Record<'a>>, Problem> {
    let mut records = Vec::new();
    for piece in pieces {
        for record in Reader::new(piece) {
            let record = record?;
            if fields.binary_search_by_key(&record.number, |f| f.number).is_ok() {
                records.push(record);
            }
        }
    }
    // Stable: what came later of the same field stays later.
    records.sort_by_key(|r| r.number);
    Ok(records)
}

/// The records of one field of a message.
pub(super) fn numbered<'a>(pieces: &[&'a [u8]], number: u32) -> Result<Vec<Record<'a>>, Problem> {
    let mut records = Vec::new();
    for piece in pieces {
        for record in Reader::new(piece) {
            let record = record?;
            if record.number == number {
                records.push(record);
            }
        }
    }
    Ok(records)
}

/// The pieces of a message.
fn all_bytes<'a>(records: &[Record<'a>]) -> Result<Vec<&'a [u8]>, Problem> {
    records.iter().map(|r| bytes(r.raw)).collect()
}
