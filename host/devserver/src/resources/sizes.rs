//! How large objects may be, as etcd would keep them.

use http::StatusCode;
use serde_json::Value;

use crate::api::{ApiError, JsonMap};
use crate::store::ManagedFields;

/// What a request to etcd may have.
const OBJECT: usize = 3 << 19;

/// How many objects may stand in an object of a built-in kind: each may get some dozen defaults. The largest that etcd takes
/// has fewer.
pub(super) const PARTS: usize = 50_000;

/// Whether there are more than [`PARTS`] objects in an object; a `null` may become one.
pub(super) fn has_too_many_parts(object: &JsonMap) -> bool {
    object.values().map(parts).sum::<usize>() > PARTS
}

fn parts(value: &Value) -> usize {
    match value {
        Value::Null => 1,
        Value::Array(list) => list.iter().map(parts).sum(),
        Value::Object(object) => 1 + object.values().map(parts).sum::<usize>(),
        _ => 0,
    }
}

/// As [`check_object`], of an object with its managed fields, which an applier makes larger that sends little.
///
/// # Errors
/// The answer of a real server.
pub(crate) fn check_stored(object: &JsonMap, managed: &ManagedFields) -> Result<(), ApiError> {
    // Few have so many that it is worth counting.
    if managed.len() > OBJECT / 16 { check_size(object, managed.len()) } else { Ok(()) }
}

/// Whether the object is one that etcd takes. Counted are its texts, of which a large object consists; in etcd the built-in
/// kinds are encoded without much else.
///
/// # Errors
/// The answer of a real server.
pub(super) fn check_object(object: &JsonMap) -> Result<(), ApiError> {
    check_size(object, 0)
}

fn check_size(object: &JsonMap, more: usize) -> Result<(), ApiError> {
    if more + texts_of(object) > OBJECT {
        let why = "etcdserver: request is too large";
        return Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", why));
    }
    Ok(())
}

fn texts_of(object: &JsonMap) -> usize {
    object.iter().map(|(name, value)| name.len() + texts(value)).sum()
}

fn texts(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(list) => list.iter().map(texts).sum(),
        Value::Object(object) => texts_of(object),
        _ => 0,
    }
}
