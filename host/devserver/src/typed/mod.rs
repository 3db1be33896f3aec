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
mod tree;

use crate::api::JsonMap;

pub(crate) use read::{Empties, is_empty};
pub(crate) use structs::{StructId, Structs};
pub(crate) use tree::convert;

/// Brings an object to Go's form.
///
/// # Errors
/// What Go's decoder says of a value that is not of its field's type.
pub(crate) fn read(kind: StructId, object: &mut JsonMap, empties: Empties) -> Result<(), String> {
    read::Reader::new(Structs::get(), kind, empties).object(object)
}

#[cfg(test)]
mod tests;
