//! How large objects may be: the data of ConfigMaps and Secrets, and an object as etcd would keep it.

use http::StatusCode;
use serde_json::Value;

use super::Resource;
use crate::api::{ApiError, Cause, JsonMap};
use crate::store::ManagedFields;

/// What the data of a ConfigMap or a Secret may have.
const DATA: usize = 1 << 20;
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

/// Whether there is too much data in a ConfigMap or a Secret.
pub(super) fn check_data(resource: &Resource, object: &Value) -> Option<Cause> {
    let plain = |text: &str| text.len();
    // Its length is known without decoding it.
    let encoded =
        |text: &str| text.len() / 4 * 3 - text.bytes().rev().take_while(|b| *b == b'=').count().min(2);
    let (size, field) = if (resource.group.as_str(), resource.name.as_str()) == ("", "configmaps") {
        (data(&object["data"], plain) + data(&object["binaryData"], encoded), "[]")
    } else if (resource.group.as_str(), resource.name.as_str()) == ("", "secrets") {
        (data(&object["data"], encoded), "data")
    } else {
        return None;
    };
    (size > DATA).then(|| Cause {
        reason: "FieldValueTooLong",
        message: format!("Too long: may not be more than {DATA} bytes"),
        field: field.to_owned(),
    })
}

fn data(values: &Value, length: impl Fn(&str) -> usize) -> usize {
    let texts = values.as_object().into_iter().flatten().filter_map(|(_, value)| value.as_str());
    texts.filter(|text| !text.is_empty()).map(length).sum()
}
