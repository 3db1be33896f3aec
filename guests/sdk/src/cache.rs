//! Reads from the host's cache, without a request to the API server. A plugin can read the kinds that its descriptor
//! watches. Lists omit objects that the plugin's manifest does not grant.
//!
//! # Errors
//! Every read returns a [`CacheError`] when the manifest does not grant it, the descriptor has no watch of the kind and
//! namespace or no index of the name, or an argument is malformed.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::bindings::imports::{cache as raw, objects};
use crate::{Key, Kind, Object};

/// Number of handles per call of the host during an iteration: few calls, and few live handles.
const BATCH: u32 = 100;

/// Reads one object; `None` if the cache does not have it.
///
/// # Errors
/// See the [module](self).
pub fn get(kind: &Kind, key: &Key) -> Result<Option<Object>, CacheError> {
    Ok(raw::get(&kind.raw(), key)?.map(Object::new))
}

/// Reads the objects that a query selects, in no particular order.
///
/// # Errors
/// See the [module](self).
pub fn list(kind: &Kind, query: &Query) -> Result<Objects, CacheError> {
    Ok(Objects::new(raw::list(&kind.raw(), &query.to_json())?))
}

/// Reads the keys of the objects that a query selects, in no particular order.
///
/// # Errors
/// See the [module](self).
pub fn keys(kind: &Kind, query: &Query) -> Result<Vec<Key>, CacheError> {
    Ok(raw::keys(&kind.raw(), &query.to_json())?)
}

/// Reads the objects with this value in an index of the plugin's descriptor, in no particular order.
///
/// # Errors
/// See the [module](self).
pub fn by_index(kind: &Kind, index: &str, value: &str) -> Result<Objects, CacheError> {
    Ok(Objects::new(raw::by_index(&kind.raw(), index, value)?))
}

/// Reads all values in an index of the plugin's descriptor, sorted.
///
/// # Errors
/// See the [module](self).
pub fn index_values(kind: &Kind, index: &str) -> Result<Vec<String>, CacheError> {
    Ok(raw::index_values(&kind.raw(), index)?)
}

/// Waits until the cache contains this plugin's own writes: completed live writes, including deletes, of the kinds that
/// it watches. Returns `false` if the cache does not contain them within `limit`. The host limits the wait to five
/// seconds, and to nine tenths of the remaining time of the call.
///
/// Before each reconcile the host itself waits for at most one second. Use this function in a call that writes and then
/// reads the cache, and in event handlers. Waiting is not charged to the CPU budget.
///
/// ```no_run
/// use pilothouse_sdk::prelude::*;
///
/// const CONFIG_MAP: Kind = Kind::core("v1", "ConfigMap");
///
/// fn add(map: &pilothouse_sdk::serde_json::Value) -> Result<usize, Failure> {
///     client::create(&CONFIG_MAP, map, &WriteOptions::default())?;
///     if !cache::wait_for_writes(Duration::from_secs(1)) {
///         return Err(Failure::transient("the cache is behind"));
///     }
///     Ok(cache::list(&CONFIG_MAP, &Query::all())?.len())
/// }
/// # assert!(add(&json!({})).is_ok());
/// ```
pub fn wait_for_writes(limit: Duration) -> bool {
    raw::wait_for_writes(u32::try_from(limit.as_millis()).unwrap_or(u32::MAX))
}

/// Selects the objects to read; the default selects all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Query {
    /// Only this namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Only objects with these labels, such as `app=web,tier!=test`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
}

impl Query {
    /// All objects of the kind that are visible to the plugin.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only objects with these labels.
    #[must_use]
    pub fn label_selector(mut self, selector: impl Into<String>) -> Self {
        self.label_selector = Some(selector.into());
        self
    }

    fn to_json(&self) -> String {
        // Serializing a struct of strings cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// An iterator over a snapshot of objects; later changes are not visible. `len()` counts the objects without reading
/// them.
#[derive(Debug)]
pub struct Objects {
    cursor: raw::Cursor,
    batch: std::vec::IntoIter<objects::Object>,
    ended: bool,
}

impl Objects {
    fn new(cursor: raw::Cursor) -> Self {
        Self { cursor, batch: Vec::new().into_iter(), ended: false }
    }
}

impl Iterator for Objects {
    type Item = Object;

    fn next(&mut self) -> Option<Object> {
        if self.batch.as_slice().is_empty() && !self.ended {
            // A batch may be shorter than requested; only an empty batch is the end.
            let batch = self.cursor.next(BATCH);
            self.ended = batch.is_empty();
            self.batch = batch.into_iter();
        }
        self.batch.next().map(Object::new)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // Requested only when a caller needs it, because with a selector the host must count the objects.
        let left = if self.ended { 0 } else { self.cursor.remaining() };
        let rest = self.batch.len() + left as usize;
        (rest, Some(rest))
    }
}

impl ExactSizeIterator for Objects {}

/// The refusal of a cached read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheError {
    /// `forbidden`, `not-watched`, `unknown-index` or `invalid`. Later versions may add others.
    pub reason: String,
    /// The cause and the remedy, human-readable.
    pub message: String,
}

impl CacheError {
    /// Whether the manifest does not grant the read.
    pub fn is_forbidden(&self) -> bool {
        self.reason == "forbidden"
    }

    /// Whether the plugin's descriptor has no watch of the kind.
    pub fn is_not_watched(&self) -> bool {
        self.reason == "not-watched"
    }

    /// Whether the refusal lasts until the plugin is reloaded.
    pub(crate) fn is_refused_by_host(&self) -> bool {
        matches!(self.reason.as_str(), "forbidden" | "not-watched" | "unknown-index" | "invalid")
    }
}

impl fmt::Display for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.reason)
    }
}

impl std::error::Error for CacheError {}

impl From<raw::CacheError> for CacheError {
    fn from(raw: raw::CacheError) -> Self {
        Self { reason: raw.reason, message: raw.message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_only_what_it_narrows() {
        assert_eq!(Query::all().to_json(), "{}");
        assert_eq!(
            Query::all().namespace("a").label_selector("app=web").to_json(),
            r#"{"namespace":"a","labelSelector":"app=web"}"#
        );
    }
}
