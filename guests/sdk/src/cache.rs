//! Reads from the host's cache, without a request to the API server. A plugin can read the kinds that its descriptor
//! watches. Objects that the plugin's manifest does not grant are not visible.
//!
//! ```
//! use pilothouse_sdk::prelude::*;
//!
//! const POD: Kind = Kind::core("v1", "Pod");
//!
//! fn count(ctx: &Context, node: &str) -> Result<u64, Failure> {
//!     for pod in ctx.cache().list(&POD, &Query::all().namespace("default"))? {
//!         info!("found", pod = pod?.key());
//!     }
//!     Ok(ctx.cache().count(&POD, &Query::by_index("by-node", node))?)
//! }
//! ```
//!
//! # Errors
//! Every read is a [`Refusal`] when the manifest does not grant it, the descriptor has no watch of the kind and
//! namespace or no index of the name, or an argument is malformed.

use std::marker::PhantomData;
use std::time::Duration;

use crate::duration::milliseconds;
use crate::{Context, Key, Kind, Object, Refusal, sys};

/// Number of handles per call of the host during an iteration: few calls, and few live handles.
const OBJECTS: u32 = 100;

/// Number of keys or values per call of the host, which allows 16,384.
const TEXTS: u32 = 4096;

/// Reads from the host's cache; see the [module](self).
#[derive(Clone, Copy)]
pub struct Cache<'call> {
    ctx: &'call Context,
}

impl<'call> Cache<'call> {
    pub(crate) fn new(ctx: &'call Context) -> Self {
        Self { ctx }
    }

    /// Reads one object; `None` if the cache does not have it.
    ///
    /// # Errors
    /// See the [module](self).
    pub fn get(&self, kind: &Kind, key: &Key) -> Result<Option<Object<'call>>, Refusal> {
        let found = self.ctx.host().cache_get(self.ctx.cluster(), kind, &key.namespace, &key.name)?;
        Ok(found.map(Object::new))
    }

    /// Reads several objects with one call of the host, in the order of the keys; at most 1,000 keys.
    ///
    /// # Errors
    /// See the [module](self).
    pub fn get_many(&self, kind: &Kind, keys: &[Key]) -> Result<Vec<Option<Object<'call>>>, Refusal> {
        let found = self.ctx.host().cache_get_many(self.ctx.cluster(), kind, keys)?;
        Ok(found.into_iter().map(|object| object.map(Object::new)).collect())
    }

    /// Reads the objects that a query selects, in the order of their keys.
    ///
    /// # Errors
    /// See the [module](self).
    pub fn list(&self, kind: &Kind, query: &Query) -> Result<Objects<'call>, Refusal> {
        Ok(Objects::new(self.ctx.host().cache_list(self.ctx.cluster(), kind, query)?))
    }

    /// Reads the keys of the objects that a query selects, in their order.
    ///
    /// # Errors
    /// See the [module](self).
    pub fn keys(&self, kind: &Kind, query: &Query) -> Result<Keys<'call>, Refusal> {
        let cursor = self.ctx.host().cache_list(self.ctx.cluster(), kind, query)?;
        Ok(Keys { batches: Batches::new(cursor), call: PhantomData })
    }

    /// The number of objects that a query selects.
    ///
    /// # Errors
    /// See the [module](self).
    pub fn count(&self, kind: &Kind, query: &Query) -> Result<u64, Refusal> {
        Ok(self.ctx.host().cache_count(self.ctx.cluster(), kind, query)?)
    }

    /// Reads the objects with this value in an index of the plugin's descriptor, in the order of their keys.
    ///
    /// # Errors
    /// See the [module](self).
    pub fn by_index(&self, kind: &Kind, index: &str, value: &str) -> Result<Objects<'call>, Refusal> {
        self.list(kind, &Query::by_index(index, value))
    }

    /// Reads all values in an index of the plugin's descriptor, sorted.
    ///
    /// # Errors
    /// See the [module](self).
    pub fn index_values(&self, kind: &Kind, index: &str) -> Result<IndexValues<'call>, Refusal> {
        let values = self.ctx.host().cache_index_values(self.ctx.cluster(), kind, index)?;
        Ok(IndexValues { values, batch: Vec::new().into_iter(), ended: false, call: PhantomData })
    }

    /// Waits until the cache contains this plugin's own writes: completed live writes, including deletes, of the kinds
    /// that it watches. Returns `false` if the cache does not contain them within `limit`. The host limits the wait to
    /// five seconds, and to nine tenths of the remaining time of the call.
    ///
    /// Before each reconcile the host itself waits for at most one second. Use this function in a call that writes and
    /// then reads the cache, and in event handlers. Waiting is not charged to the CPU budget.
    ///
    /// ```
    /// use pilothouse_sdk::prelude::*;
    ///
    /// const CONFIG_MAP: Kind = Kind::core("v1", "ConfigMap");
    ///
    /// fn add(ctx: &Context, map: &Value) -> Result<u64, Failure> {
    ///     ctx.client().create(&CONFIG_MAP, map, &WriteOptions::default())?;
    ///     if !ctx.cache().wait_for_writes(Duration::from_secs(1)) {
    ///         return Err(Failure::transient("the cache is behind"));
    ///     }
    ///     Ok(ctx.cache().count(&CONFIG_MAP, &Query::all())?)
    /// }
    /// ```
    pub fn wait_for_writes(&self, limit: Duration) -> bool {
        self.ctx.host().wait_for_writes(milliseconds(limit))
    }
}

/// Selects the objects to read; the default selects all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    pub(crate) namespace: Option<String>,
    pub(crate) label_selector: Option<String>,
    pub(crate) index: Option<(String, String)>,
    pub(crate) limit: Option<u64>,
}

impl Query {
    /// All objects of the kind that are visible to the plugin.
    pub fn all() -> Self {
        Self::default()
    }

    /// The objects with this value in an index of the plugin's descriptor.
    pub fn by_index(index: impl Into<String>, value: impl Into<String>) -> Self {
        Self { index: Some((index.into(), value.into())), ..Self::default() }
    }

    /// Only this namespace. An empty one selects all.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into()).filter(|namespace| !namespace.is_empty());
        self
    }

    /// Only objects with these labels, such as `app=web,tier!=test`: at most 64 terms (`limits.selectorTerms`), values of sets
    /// included.
    #[must_use]
    pub fn label_selector(mut self, selector: impl Into<String>) -> Self {
        self.label_selector = Some(selector.into());
        self
    }

    /// Only objects with this value in an index of the plugin's descriptor.
    #[must_use]
    pub fn index(mut self, index: impl Into<String>, value: impl Into<String>) -> Self {
        self.index = Some((index.into(), value.into()));
        self
    }

    /// At most this many objects.
    #[must_use]
    pub fn limit(mut self, objects: u64) -> Self {
        self.limit = Some(objects);
        self
    }
}

/// An iterator over a snapshot of objects; later changes are not visible. An item is a refusal if the host cannot
/// return the next objects; it is the last.
pub struct Objects<'call> {
    batches: Batches<Object<'call>>,
}

/// An iterator over the keys of a snapshot.
pub struct Keys<'call> {
    batches: Batches<Key>,
    call: PhantomData<&'call ()>,
}

/// An iterator over the values of an index, sorted.
pub struct IndexValues<'call> {
    values: sys::Values,
    batch: std::vec::IntoIter<String>,
    ended: bool,
    call: PhantomData<&'call ()>,
}

/// A cursor of the host, and what was fetched from it.
struct Batches<T> {
    cursor: sys::Cursor,
    batch: std::vec::IntoIter<T>,
    ended: bool,
}

impl<T> Batches<T> {
    fn new(cursor: sys::Cursor) -> Self {
        Self { cursor, batch: Vec::new().into_iter(), ended: false }
    }

    fn remaining(&self) -> u64 {
        self.batch.len() as u64 + if self.ended { 0 } else { self.cursor.remaining() }
    }

    /// The next item, after a batch of which `fetch` gets a new one. A batch may be shorter than requested; only an
    /// empty one is the end.
    fn next(
        &mut self,
        fetch: impl FnOnce(&sys::Cursor) -> Result<Vec<T>, Refusal>,
    ) -> Option<Result<T, Refusal>> {
        if self.batch.as_slice().is_empty() && !self.ended {
            let batch = fetch(&self.cursor);
            self.ended = batch.as_ref().map_or(true, Vec::is_empty);
            match batch {
                Ok(batch) => self.batch = batch.into_iter(),
                Err(refusal) => return Some(Err(refusal)),
            }
        }
        self.batch.next().map(Ok)
    }
}

impl Objects<'_> {
    fn new(cursor: sys::Cursor) -> Self {
        Self { batches: Batches::new(cursor) }
    }

    /// The number of objects that were not returned yet, without reading them.
    pub fn remaining(&self) -> u64 {
        self.batches.remaining()
    }
}

impl<'call> Iterator for Objects<'call> {
    type Item = Result<Object<'call>, Refusal>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.next(|cursor| {
            let batch = cursor.next(OBJECTS)?;
            Ok(batch.into_iter().map(Object::new).collect())
        })
    }
}

impl Iterator for Keys<'_> {
    type Item = Key;

    fn next(&mut self) -> Option<Key> {
        self.batches.next(|cursor| Ok(cursor.next_keys(TEXTS).into_iter().map(Into::into).collect()))?.ok()
    }
}

impl Iterator for IndexValues<'_> {
    type Item = Result<String, Refusal>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.batch.as_slice().is_empty() && !self.ended {
            let batch = self.values.next(TEXTS).map_err(Refusal::from);
            self.ended = batch.as_ref().map_or(true, Vec::is_empty);
            match batch {
                Ok(batch) => self.batch = batch.into_iter(),
                Err(refusal) => return Some(Err(refusal)),
            }
        }
        self.batch.next().map(Ok)
    }
}
