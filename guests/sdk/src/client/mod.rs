//! Live calls to the API server. The host checks each call against the plugin's permissions before it sends it. Use
//! them for writes, and for reads that must not be stale; use the [`cache`](crate::cache) for other reads.
//!
//! A body is any type with `Serialize`, such as `serde_json::json!`. A body for [`create`], [`update`] or [`apply`]
//! needs `apiVersion`, `kind` and `metadata.name`, like a Kubernetes manifest.
//!
//! # Errors
//! Every call returns an [`ApiError`] when the manifest does not grant the call, the call is malformed, the API server
//! responds with an error, or no response arrives in time.

mod error;
mod list;
mod options;

use serde::Serialize;

use crate::bindings::imports::client as raw;
use crate::{Key, Kind, Object};

pub use error::ApiError;
pub use list::{List, Page, Pages};
pub use options::{ApplyOptions, DeleteOptions, ListOptions, Preconditions, Propagation, WriteOptions};

/// Reads one object. A missing object is an error ([`ApiError::is_not_found`]).
///
/// # Errors
/// See the [module](self).
pub fn get(kind: &Kind, key: &Key) -> Result<Object, ApiError> {
    Ok(Object::new(raw::get(&kind.raw(), key, "")?))
}

/// Reads one object; `None` if it does not exist.
///
/// # Errors
/// See the [module](self).
pub fn get_opt(kind: &Kind, key: &Key) -> Result<Option<Object>, ApiError> {
    match get(kind, key) {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a subresource of an object, such as `scale`.
///
/// # Errors
/// See the [module](self).
pub fn get_subresource(kind: &Kind, key: &Key, subresource: &str) -> Result<Object, ApiError> {
    let options = WriteOptions { subresource: Some(subresource.to_owned()), ..Default::default() };
    Ok(Object::new(raw::get(&kind.raw(), key, &options::text(&options))?))
}

/// Lists objects, fetched page by page during the iteration; see [`List`].
pub fn list(kind: &Kind, options: &ListOptions) -> List {
    List::new(kind, options)
}

/// Creates an object. The body contains its namespace and name. Options with a subresource are refused.
///
/// # Errors
/// See the [module](self).
pub fn create(kind: &Kind, body: &impl Serialize, options: &WriteOptions) -> Result<Object, ApiError> {
    Ok(Object::new(raw::create(&kind.raw(), &json(body)?, &options::text(options))?))
}

/// Replaces an object. If the body has a `metadata.resourceVersion`, it must be the current one; otherwise the call
/// fails with a conflict.
///
/// # Errors
/// See the [module](self).
pub fn update(kind: &Kind, body: &impl Serialize, options: &WriteOptions) -> Result<Object, ApiError> {
    Ok(Object::new(raw::update(&kind.raw(), &json(body)?, &options::text(options))?))
}

/// Replaces the status of an object. The API server ignores the rest of the body.
///
/// # Errors
/// See the [module](self).
pub fn update_status(kind: &Kind, body: &impl Serialize, options: &WriteOptions) -> Result<Object, ApiError> {
    update(kind, body, &WriteOptions { subresource: Some("status".to_owned()), ..options.clone() })
}

/// Patches an object with an RFC 7396 merge patch.
///
/// # Errors
/// See the [module](self).
pub fn patch_merge(
    kind: &Kind,
    key: &Key,
    patch: &impl Serialize,
    options: &WriteOptions,
) -> Result<Object, ApiError> {
    self::patch(kind, key, "merge", patch, options)
}

/// Patches an object with an RFC 6902 JSON patch: a list of operations.
///
/// # Errors
/// See the [module](self).
pub fn patch_json(
    kind: &Kind,
    key: &Key,
    patch: &impl Serialize,
    options: &WriteOptions,
) -> Result<Object, ApiError> {
    self::patch(kind, key, "json", patch, options)
}

/// Patches an object with a strategic merge patch. Only kinds that are built into Kubernetes support it.
///
/// # Errors
/// See the [module](self).
pub fn patch_strategic(
    kind: &Kind,
    key: &Key,
    patch: &impl Serialize,
    options: &WriteOptions,
) -> Result<Object, ApiError> {
    self::patch(kind, key, "strategic", patch, options)
}

/// Applies an object (server-side apply). Sets the fields of `body`, and removes fields that this field manager applied
/// before and `body` lacks. Creates a missing object. If another manager owns a field that `body` sets to another value,
/// the call fails with a conflict ([`ApiError::is_conflict`]) that names the field, unless [`ApplyOptions::force`].
///
/// # Errors
/// See the [module](self).
pub fn apply(
    kind: &Kind,
    key: &Key,
    body: &impl Serialize,
    options: &ApplyOptions,
) -> Result<Object, ApiError> {
    self::patch(kind, key, "apply", body, options)
}

/// Deletes an object. A missing object is an error ([`ApiError::is_not_found`]).
///
/// # Errors
/// See the [module](self).
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
