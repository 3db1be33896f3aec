//! Objects of built-in kinds in Go's form: what a server has after it has read one into a struct and written it again.
//!
//! ```text
//! body ─► prune ─► read (Empties::Kept) ─► defaults ─► settle (Empties::Dropped) ─► … the verb … ─► settle ─► store
//! ```
//!
//! - A value is of its field's type, or the object is refused with the message of Go's decoder.
//! - Quantities, times and base64 are in canonical form.
//! - `null` is the field's empty value: `""` in a map of strings, nothing where an empty field is left out.
//! - Fields that Go never leaves out are there, empty if need be: `status: {}`, `resources: {}`.
//!
//! What Go has for each field is in `tables/protobuf.json` ([`ProtobufTypes`](crate::protobuf::ProtobufTypes)).
//!
//! The recursion is as deep as the object, whose depth its decoder has limited; the work is one step a value.

mod read;
mod structs;
mod time;

use serde_json::Value;

use crate::api::JsonMap;

pub(crate) use read::{Empties, is_empty};
pub(crate) use structs::{StructId, Structs};

/// Brings an object to Go's form.
///
/// # Errors
/// What Go's decoder says of a value that is not of its field's type.
pub(crate) fn read(kind: StructId, object: &mut JsonMap, empties: Empties) -> Result<(), String> {
    read::Reader::new(Structs::get(), kind, empties).object(object)
}

/// Makes whole numbers of the floats that are ones: what a patch or an apply has made is no text any more, and Go takes them.
pub(crate) fn settle_numbers(object: &mut JsonMap) {
    fn settle(value: &mut Value) {
        match value {
            Value::Number(number) if number.is_f64() => {
                if let Some(whole) = number.as_f64().and_then(read::whole) {
                    *value = whole.into();
                }
            }
            Value::Array(list) => list.iter_mut().for_each(settle),
            Value::Object(object) => object.values_mut().for_each(settle),
            _ => {}
        }
    }
    object.values_mut().for_each(settle);
}

#[cfg(test)]
mod tests;
