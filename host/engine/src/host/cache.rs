//! [`CacheImports`]: the interface `cache`.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use pilothouse_object::{Gvk, Object, ObjectKey};

use super::Refusal;

/// Objects of one moment, in no order, taken in portions as the guest asks for them.
pub trait ObjectCursor: Iterator<Item = Object> + Send {
    /// How many follow, exactly. May look at what follows, but must not read bodies.
    fn remaining(&self) -> usize;
}

impl ObjectCursor for std::vec::IntoIter<Object> {
    fn remaining(&self) -> usize {
        self.len()
    }
}

/// A wait under way; whether what was waited for came about.
pub type WaitFuture = Pin<Box<dyn Future<Output = bool> + Send>>;

fn no_cache() -> Refusal {
    Refusal { reason: "unavailable", message: "this host has no cache".to_owned() }
}

/// Reads of the cache.
pub trait CacheImports {
    /// One object from the cache.
    ///
    /// # Errors
    /// When the plugin may not read it.
    fn cache_get(&self, _kind: &Gvk, _key: &ObjectKey) -> Result<Option<Object>, Refusal> {
        Err(no_cache())
    }
    /// Objects from the cache, all of the same moment; `query` is JSON.
    ///
    /// # Errors
    /// When the plugin may not read them or the query is malformed.
    fn cache_list(&self, _kind: &Gvk, _query: &str) -> Result<Box<dyn ObjectCursor>, Refusal> {
        Err(no_cache())
    }
    /// Objects with a value in an index, all of the same moment.
    ///
    /// # Errors
    /// When the plugin may not read them or has no such index.
    fn cache_by_index(
        &self,
        _kind: &Gvk,
        _index: &str,
        _value: &str,
    ) -> Result<Box<dyn ObjectCursor>, Refusal> {
        Err(no_cache())
    }
    /// Values of an index.
    ///
    /// # Errors
    /// When the plugin may not read them or has no such index.
    fn cache_index_values(&self, _kind: &Gvk, _index: &str) -> Result<Vec<String>, Refusal> {
        Err(no_cache())
    }
    /// Waits until the caches show what the plugin has written, for `limit` at most.
    fn cache_wait_for_writes(&self, _limit: Duration) -> WaitFuture {
        Box::pin(std::future::ready(true))
    }
}
