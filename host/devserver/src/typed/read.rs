//! [`Reader`]: the walk over an object that brings each value to its field's type.
//!
//! Go's decoder goes on after a value of a wrong type and names the first of them in the end; a quantity or a time that it
//! cannot read ends it at once.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::structs::{JsonField, StructId, Structs};
use super::time;
use crate::api::JsonMap;
use crate::protobuf::{Other, Shape};
use crate::quantity;

/// What becomes of fields that are empty and that Go leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Empties {
    /// They stay, since a default sees the difference between nothing and an empty list.
    Kept,
    Dropped,
    /// As they come out of the store, whose encoding has no empty lists: those that are not left out are null.
    Stored,
}

/// An error that ends the walk.
struct Unreadable(String);

type Step = Result<(), Unreadable>;

pub(super) struct Reader {
    structs: &'static Structs,
    empties: Empties,
    /// The struct that the walk is in, and the names of the fields that lead to the value.
    owner: StructId,
    path: Vec<&'static str>,
    /// The first value of a wrong type.
    wrong: Option<String>,
}

impl Reader {
    pub(super) fn new(structs: &'static Structs, kind: StructId, empties: Empties) -> Self {
        Self { structs, empties, owner: kind, path: Vec::new(), wrong: None }
    }

    pub(super) fn object(mut self, object: &mut JsonMap) -> Result<(), String> {
        match self.fields(self.owner, object) {
            Err(Unreadable(why)) => Err(why),
            Ok(()) => self.wrong.map_or(Ok(()), Err),
        }
    }

    fn fields(&mut self, id: StructId, object: &mut JsonMap) -> Step {
        let known = &self.structs.of(id).fields;
        if known.is_empty() {
            // The table of types takes a struct without any fields for a value of any kind.
            object.clear();
        }
        let outer = std::mem::replace(&mut self.owner, id);
        let mut outcome = Ok(());
        object.retain(|name, value| {
            let Some((name, field)) = known.get_key_value(name.as_str()) else { return true };
            if outcome.is_err() {
                return true;
            }
            let depth = self.path.len();
            self.path.extend(&field.inlined_in);
            self.path.push(name);
            outcome = self.value(field.shape, field.go_name, value);
            self.path.truncate(depth);
            if self.empties == Empties::Stored && is_empty(field.shape, value) && value.is_array() {
                *value = Value::Null;
            }
            !(field.omit && self.leaves_out(field, value))
        });
        self.owner = outer;
        for (name, field) in known {
            if !field.omit && !object.contains_key(*name) {
                object.insert((*name).to_owned(), self.zero(field.shape));
            }
        }
        outcome
    }

    fn leaves_out(&self, field: &JsonField, value: &Value) -> bool {
        value.is_null() || self.empties != Empties::Kept && is_empty(field.shape, value)
    }

    /// The value of a field that is not there.
    fn zero(&self, shape: &Shape) -> Value {
        match shape {
            Shape::Text => "".into(),
            Shape::Bool => false.into(),
            Shape::Int32 | Shape::Int64 | Shape::Double | Shape::IntOrString => 0.into(),
            Shape::Quantity => "0".into(),
            Shape::Message(index) => {
                let fields = &self.structs.of((*index).into()).fields;
                let always = fields.iter().filter(|(_, field)| !field.omit);
                always
                    .map(|(name, field)| ((*name).to_owned(), self.zero(field.shape)))
                    .collect::<Map<_, _>>()
                    .into()
            }
            _ => Value::Null,
        }
    }

    /// `go_name`: the type's name in Go if it does not follow from the shape.
    fn value(&mut self, shape: &'static Shape, go_name: Option<&'static str>, value: &mut Value) -> Step {
        if value.is_null() {
            *value = self.zero(shape);
            return Ok(());
        }
        match (shape, &mut *value) {
            (Shape::Pointer(inner) | Shape::Only(inner), _) => return self.value(inner, go_name, value),
            (Shape::Message(index), Value::Object(object)) => return self.fields((*index).into(), object),
            (Shape::List(items), Value::Array(list)) => {
                let go_name = go_name.and_then(|name| name.strip_prefix("[]"));
                for element in list {
                    self.value(items, go_name, element)?;
                }
            }
            (Shape::Map(entries), Value::Object(object)) => {
                let go_name =
                    go_name.and_then(|name| name.strip_prefix("map[")?.split_once(']')).map(|(_, of)| of);
                for entry in object.values_mut() {
                    self.value(entries, go_name, entry)?;
                }
            }
            (Shape::Either(other, inner), _) => return self.either(*other, inner, value),
            (Shape::Text, Value::String(_)) | (Shape::Bool, Value::Bool(_)) | (Shape::Json, _) => {}
            (Shape::Int32, Value::Number(number)) => {
                if number.as_i64().is_none_or(|number| i32::try_from(number).is_err()) {
                    self.wrong_number(go_name.unwrap_or("int32"), value);
                }
            }
            (Shape::Int64, Value::Number(number)) => {
                if number.as_i64().is_none() {
                    self.wrong_number(go_name.unwrap_or("int64"), value);
                }
            }
            (Shape::Double, Value::Number(number)) => {
                if let Some(whole) = number.as_f64().and_then(whole) {
                    *value = whole.into();
                }
            }
            (Shape::Quantity, _) => {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                *value = quantity::read(&text).map_err(|why| Unreadable(why.to_owned()))?.into();
            }
            (Shape::IntOrString, _) => self.int_or_string(value)?,
            (Shape::Time, _) => self.time(time::Precision::Seconds, value)?,
            (Shape::MicroTime, _) => self.time(time::Precision::Micros, value)?,
            (Shape::Bytes, _) => self.bytes(value),
            _ => self.wrong_type(shape, go_name, value),
        }
        Ok(())
    }

    fn either(&mut self, other: Other, inner: &'static Shape, value: &mut Value) -> Step {
        match (other, &mut *value) {
            (_, Value::Object(_)) => self.value(inner, None, value),
            (Other::List, Value::Array(list)) => {
                list.iter_mut().try_for_each(|element| self.value(inner, None, element))
            }
            (Other::Bool, Value::Bool(_)) | (Other::Strings | Other::List, _) => Ok(()),
            (Other::Bool, _) => Err(Unreadable("boolean or JSON schema expected".to_owned())),
        }
    }

    fn int_or_string(&self, value: &Value) -> Step {
        let what = match value {
            Value::String(_) => return Ok(()),
            Value::Number(number) => match number.as_i64().map(i32::try_from) {
                Some(Ok(_)) => return Ok(()),
                _ => format!("number {number}"),
            },
            other => kind(other).to_owned(),
        };
        Err(Unreadable(self.complaint(&what, "int32")))
    }

    fn time(&self, precision: time::Precision, value: &mut Value) -> Step {
        let Value::String(text) = &*value else {
            return Err(Unreadable(self.complaint(kind(value), "string")));
        };
        *value = time::read(text, precision).map_err(Unreadable)?.map_or(Value::Null, Value::from);
        Ok(())
    }

    fn bytes(&mut self, value: &mut Value) {
        let bytes = match &*value {
            // Go skips the ends of lines in base64.
            Value::String(text) => match STANDARD.decode(text.replace(['\r', '\n'], "")) {
                Ok(bytes) => bytes,
                Err(why) => {
                    let at = match why {
                        base64::DecodeError::InvalidByte(at, _)
                        | base64::DecodeError::InvalidLastSymbol(at, _) => at,
                        _ => text.len() / 4 * 4,
                    };
                    self.wrong.get_or_insert(format!("illegal base64 data at input byte {at}"));
                    return;
                }
            },
            Value::Array(list) => {
                let wrong =
                    list.iter().find(|one| one.as_u64().is_none_or(|number| number > 255) && !one.is_null());
                if let Some(wrong) = wrong.cloned() {
                    match wrong {
                        Value::Number(_) => self.wrong_number("uint8", &wrong),
                        other => self.note(self.complaint(kind(&other), "uint8")),
                    }
                    return;
                }
                list.iter()
                    .map(|one| one.as_u64().and_then(|n| u8::try_from(n).ok()).unwrap_or_default())
                    .collect()
            }
            other => return self.note(self.complaint(kind(other), "[]uint8")),
        };
        *value = STANDARD.encode(bytes).into();
    }

    fn wrong_type(&mut self, shape: &Shape, go_name: Option<&str>, value: &Value) {
        if self.wrong.is_none() {
            let expected = go_name.map_or_else(|| self.go_name(shape), str::to_owned);
            self.wrong = Some(self.complaint(kind(value), &expected));
        }
    }

    fn wrong_number(&mut self, expected: &str, value: &Value) {
        self.note(self.complaint(&format!("number {value}"), expected));
    }

    fn note(&mut self, complaint: String) {
        self.wrong.get_or_insert(complaint);
    }

    fn complaint(&self, found: &str, expected: &str) -> String {
        let owner = self.structs.of(self.owner).short_name();
        let path = self.path.join(".");
        format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {expected}")
    }

    fn go_name(&self, shape: &Shape) -> String {
        match shape {
            Shape::Text => "string".to_owned(),
            Shape::Bytes => "[]uint8".to_owned(),
            Shape::Bool => "bool".to_owned(),
            Shape::Int32 => "int32".to_owned(),
            Shape::Int64 => "int64".to_owned(),
            Shape::Double => "float64".to_owned(),
            Shape::Message(index) => self.structs.of((*index).into()).go_name(),
            Shape::Pointer(inner) | Shape::Only(inner) => self.go_name(inner),
            Shape::List(items) => format!("[]{}", self.go_name(items)),
            Shape::Map(entries) => format!("map[string]{}", self.go_name(entries)),
            Shape::Quantity => "resource.Quantity".to_owned(),
            Shape::IntOrString => "intstr.IntOrString".to_owned(),
            Shape::Time => "v1.Time".to_owned(),
            Shape::MicroTime => "v1.MicroTime".to_owned(),
            Shape::Json | Shape::Either(..) => "v1.JSON".to_owned(),
        }
    }
}

/// Whether Go takes a value for empty: where a field is left out if it is.
pub(crate) fn is_empty(shape: &Shape, value: &Value) -> bool {
    match (shape, value) {
        (_, Value::Null) => true,
        (Shape::Text | Shape::Bytes, Value::String(text)) => text.is_empty(),
        (Shape::Bool, Value::Bool(flag)) => !flag,
        (Shape::Int32 | Shape::Int64 | Shape::Double, Value::Number(number)) => number.as_f64() == Some(0.0),
        (Shape::List(_), Value::Array(list)) => list.is_empty(),
        (Shape::Map(_), Value::Object(object)) => object.is_empty(),
        (Shape::Only(inner), value) => is_empty(inner, value),
        _ => false,
    }
}

/// As Go's messages name the kind of a JSON value.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A float that is a whole number, as Go writes it.
pub(super) fn whole(value: f64) -> Option<i64> {
    let is_exact =
        value.fract() == 0.0 && value.abs() < 2_f64.powi(53) && !(value == 0.0 && value.is_sign_negative());
    #[expect(clippy::cast_possible_truncation, reason = "it is a whole number of less than 2^53")]
    is_exact.then_some(value as i64)
}
