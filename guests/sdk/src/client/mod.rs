//! Live calls to the API server. The host checks each call against the plugin's permissions before it sends it. Use
//! them for writes, and for reads that must not be stale; use the [`cache`](crate::cache) for other reads.
//!
//! A body is any type with `Serialize`, such as `serde_json::json!`. A body for [`create`], [`update`] or [`apply`]
//! has `apiVersion`, `kind` and `metadata.name`, like a Kubernetes manifest.

mod error;
mod list;
mod options;

use serde::Serialize;

use crate::bindings::imports::client as raw;
use crate::{Key, Kind, Object};

pub use error::ApiError;
pub use list::{List, Page, Pages};
pub use options::{ApplyOptions, DeleteOptions, ListOptions, Preconditions, Propagation, WriteOptions};

/// Reads one object.
pub fn get(kind: &Kind, key: &Key) -> Result<Object, ApiError> {
    Ok(Object::new(raw::get(&kind.raw(), key, "")?))
}

/// Reads one object; none if it does not exist.
pub fn get_opt(kind: &Kind, key: &Key) -> Result<Option<Object>, ApiError> {
    match get(kind, key) {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a subresource of an object, such as `scale`.
pub fn get_subresource(kind: &Kind, key: &Key, subresource: &str) -> Result<Object, ApiError> {
    let options = WriteOptions { subresource: Some(subresource.to_owned()), ..Default::default() };
    Ok(Object::new(raw::get(&kind.raw(), key, &options::text(&options))?))
}

/// Lists objects, fetched page by page during the iteration; see [`List`].
pub fn list(kind: &Kind, options: &ListOptions) -> List {
    List::new(kind, options)
}

/// Creates an object. Its namespace and name are taken from the body. Options with a subresource are refused.
pub fn create(kind: &Kind, body: &impl Serialize, options: &WriteOptions) -> Result<Object, ApiError> {
    Ok(Object::new(raw::create(&kind.raw(), &json(body)?, &options::text(options))?))
}

/// Replaces an object. A `metadata.resourceVersion` in the body must be the current one; otherwise the call fails
/// with a conflict.
pub fn update(kind: &Kind, body: &impl Serialize, options: &WriteOptions) -> Result<Object, ApiError> {
    Ok(Object::new(raw::update(&kind.raw(), &json(body)?, &options::text(options))?))
}

/// Replaces the status of an object; the rest of the body is ignored.
pub fn update_status(kind: &Kind, body: &impl Serialize, options: &WriteOptions) -> Result<Object, ApiError> {
    update(kind, body, &WriteOptions { subresource: Some("status".to_owned()), ..options.clone() })
}

/// Patches an object with an RFC 7396 merge patch.
pub fn patch_merge(
    kind: &Kind,
    key: &Key,
    patch: &impl Serialize,
    options: &WriteOptions,
) -> Result<Object, ApiError> {
    self::patch(kind, key, "merge", patch, options)
}

/// Patches an object with an RFC 6902 JSON patch: a list of operations.
pub fn patch_json(
    kind: &Kind,
    key: &Key,
    patch: &impl Serialize,
    options: &WriteOptions,
) -> Result<Object, ApiError> {
    self::patch(kind, key, "json", patch, options)
}

/// Patches an object with a strategic merge patch; for kinds that are built into Kubernetes only.
pub fn patch_strategic(
    kind: &Kind,
    key: &Key,
    patch: &impl Serialize,
    options: &WriteOptions,
) -> Result<Object, ApiError> {
    self::patch(kind, key, "strategic", patch, options)
}

/// Server-side apply. Sets the fields of `body`, and removes fields that this field manager applied before and `body`
/// lacks. Creates a missing object. The API server of `pilothouse dev` does not support it and answers 415.
pub fn apply(
    kind: &Kind,
    key: &Key,
    body: &impl Serialize,
    options: &ApplyOptions,
) -> Result<Object, ApiError> {
    self::patch(kind, key, "apply", body, options)
}

/// Deletes an object.
pub fn delete(kind: &Kind, key: &Key, options: &DeleteOptions) -> Result<(), ApiError> {
    Ok(raw::delete(&kind.raw(), key, &options::text(options))?)
}

fn patch(
    kind: &Kind,
    key: &Key,
    patch_type: &str,
    body: &impl Serialize,
    options: &impl Serialize,
) -> Result<Object, ApiError> {
    Ok(Object::new(raw::patch(&kind.raw(), key, patch_type, &json(body)?, &options::text(options))?))
}

fn json(body: &impl Serialize) -> Result<Vec<u8>, ApiError> {
    serde_json::to_vec(body)
        .map_err(|error| ApiError::invalid(format!("the body cannot be written as JSON: {error}")))
}
