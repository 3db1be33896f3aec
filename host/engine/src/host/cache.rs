//! [`CacheImports`]: the host side of the interface `cache`.

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::time::Duration;

use pilothouse_object::{Gvk, Object, ObjectKey};

use super::Refusal;

/// The objects of one snapshot, in no particular order. The guest reads them in portions.
///
/// A selector may leave out any number of objects. Therefore these methods report what they look at, so that the caller can
/// charge that work and end it.
pub trait ObjectCursor: Send {
    /// Calls `visit` with the objects that follow, until it breaks; and with none for each object that is looked at and not
    /// shown.
    fn visit(&mut self, visit: &mut dyn FnMut(Option<Object>) -> ControlFlow<()>);

    /// As [`visit`](Self::visit), for a guest that reads nothing but the keys.
    fn visit_keys(&mut self, visit: &mut dyn FnMut(Option<&ObjectKey>) -> ControlFlow<()>) {
        self.visit(&mut |object| visit(object.as_ref().map(Object::key)));
    }

    /// The exact number of remaining objects; none when `look` broke, which is called for each object that is looked at.
    /// May examine their metadata, but must not read their bodies.
    fn remaining(&self, look: &mut dyn FnMut() -> ControlFlow<()>) -> Option<usize>;

    /// Whether the objects come in the order of their keys.
    fn is_in_order(&self) -> bool {
        false
    }

    /// Called before the engine takes all objects, to sort them. What is returned is called with what the guest reads of them
    /// afterwards.
    fn reader(&mut self) -> Option<ObjectReader> {
        None
    }
}

/// What a guest reads of an object in a list.
#[derive(Debug, Clone, Copy)]
pub enum Listed<'a> {
    /// It gets the object.
    Object(&'a Object),
    /// It gets the key alone.
    Key(&'a ObjectKey),
}

/// Called with what a guest reads of the objects of a list, in the order in which it does.
pub type ObjectReader = Box<dyn FnMut(Listed<'_>) + Send>;

impl ObjectCursor for std::vec::IntoIter<Object> {
    fn visit(&mut self, visit: &mut dyn FnMut(Option<Object>) -> ControlFlow<()>) {
        _ = self.try_for_each(|object| visit(Some(object)));
    }

    fn remaining(&self, _: &mut dyn FnMut() -> ControlFlow<()>) -> Option<usize> {
        Some(self.len())
    }
}

/// Which objects of a kind are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheQuery<'a> {
    /// Only those of this namespace; all if empty.
    pub namespace: &'a str,
    /// Only those with these labels; all if empty.
    pub label_selector: &'a str,
    /// Only those that have the value (second) in the index (first).
    pub index: Option<(&'a str, &'a str)>,
}

/// A running wait; resolves to `false` when the limit passed first.
pub type WaitFuture = Pin<Box<dyn Future<Output = bool> + Send>>;

fn no_cache() -> Refusal {
    Refusal::unavailable("this host has no cache")
}

/// Reads from the host's cache.
pub trait CacheImports {
    /// One object from the cache; `None` when the cache does not have it.
    ///
    /// # Errors
    /// When the plugin may not read the object or does not watch its kind.
    fn cache_get(&self, _kind: &Gvk, _key: &ObjectKey) -> Result<Option<Object>, Refusal> {
        Err(no_cache())
    }
    /// A snapshot of the cached objects that match `query`.
    ///
    /// # Errors
    /// When the plugin may not read the objects, does not watch their kind, has no such index, or the query is malformed.
    fn cache_list(&self, _kind: &Gvk, _query: CacheQuery<'_>) -> Result<Box<dyn ObjectCursor>, Refusal> {
        Err(no_cache())
    }
    /// Calls `visit` with the values of an index in their order, until it breaks; and with none for each value or object
    /// that is looked at and not shown, so that it can charge that work as well.
    ///
    /// # Errors
    /// When the plugin may not read the objects, does not watch their kind, or has no such index.
    fn cache_index_values(
        &self,
        _kind: &Gvk,
        _index: &str,
        _visit: &mut dyn FnMut(Option<&str>) -> ControlFlow<()>,
    ) -> Result<(), Refusal> {
        Err(no_cache())
    }
    /// Waits until the caches contain the plugin's own writes, at most for `limit`.
    fn cache_wait_for_writes(&self, _limit: Duration) -> WaitFuture {
        Box::pin(std::future::ready(true))
    }
}
