//! [`Indexer`]: the cache of one kind, shared by all who read it; client-go's `Store`, `Indexer` and `ThreadSafeStore`.
//!
//! Readers get objects, never references into the store, so how it is locked is nobody's business: today one
//! readers-writer lock. Invariants: an object and all its index entries change as one, a batch and a list as well; what
//! [`resource_version`](Indexer::resource_version) says has been applied completely.
//!
//! Written by the informer alone; read by listers, rings and host imports of guests.

use std::sync::Arc;

use parking_lot::RwLock;
use pilothouse_object::{Object, ObjectKey};
use tokio::sync::watch;

use crate::change::{Change, same_version};
use crate::delta::Delta;
use crate::error::CacheError;
use crate::index_fn::IndexFn;
use crate::store::{Index, Store};
use crate::version::Seen;

/// The name of the index that every namespaced kind has.
pub const NAMESPACE_INDEX: &str = "namespace";

/// Slots handled under one hold of the lock while an index is built or swept: well under a millisecond.
const INDEX_CHUNK: usize = 512;

/// The objects of one kind by key and by index.
pub struct Indexer {
    store: RwLock<Store>,
    /// How far the store has come; also signals every change of it.
    seen: watch::Sender<Seen>,
}

impl Indexer {
    /// An empty store; with the namespace index for a namespaced kind.
    #[must_use]
    pub fn new(namespaced: bool) -> Self {
        Self { store: RwLock::new(Store::new(namespaced)), seen: watch::Sender::new(Seen::default()) }
    }

    /// The object of a key.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Object> {
        self.get_by_key(key.as_str())
    }

    /// The object of a key in its text form.
    #[must_use]
    pub fn get_by_key(&self, key: &str) -> Option<Object> {
        self.store.read().get(key).cloned()
    }

    /// All objects, in no order.
    #[must_use]
    pub fn list(&self) -> Vec<Object> {
        self.store.read().objects().cloned().collect()
    }

    /// All keys, in no order.
    #[must_use]
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.store.read().objects().map(|object| object.key().clone()).collect()
    }

    /// The objects of a namespace, in no order; none for a cluster-scoped kind.
    #[must_use]
    pub fn list_namespace(&self, namespace: &str) -> Vec<Object> {
        let store = self.store.read();
        store.of(store.namespace(namespace)).cloned().collect()
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.store.read().len()
    }

    /// Whether there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects that have a value in an index, in no order.
    ///
    /// # Errors
    /// When there is no such index, or it is still being built.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Object>, CacheError> {
        let store = self.store.read();
        let set = match readable(&store, name)? {
            None => store.namespace(value),
            Some(index) => index.slots(value),
        };
        Ok(store.of(set).cloned().collect())
    }

    /// The sorted keys of the objects that have a value in an index.
    ///
    /// # Errors
    /// When there is no such index, or it is still being built.
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<ObjectKey>, CacheError> {
        let mut keys: Vec<_> =
            self.by_index(name, value)?.iter().map(|object| object.key().clone()).collect();
        keys.sort_unstable();
        Ok(keys)
    }

    /// The sorted values that at least one object has in an index.
    ///
    /// # Errors
    /// When there is no such index, or it is still being built.
    pub fn index_values(&self, name: &str) -> Result<Vec<Arc<str>>, CacheError> {
        let store = self.store.read();
        let mut values: Vec<_> = match readable(&store, name)? {
            None => store.namespaces().into_iter().flatten().cloned().collect(),
            Some(index) => index.values().cloned().collect(),
        };
        drop(store);
        values.sort_unstable();
        Ok(values)
    }

    /// The names of all indexes that can be read.
    #[must_use]
    pub fn index_names(&self) -> Vec<String> {
        names(&self.store.read())
    }

    /// Adds an index to a store that may be full and in use: readers and writers are held up for a moment at a time
    /// only. When this returns the index is complete. It computes for as long as the store is large: call it from a
    /// thread that may be busy.
    ///
    /// # Errors
    /// When the name is taken.
    pub fn add_indexer(&self, name: &str, function: IndexFn) -> Result<(), CacheError> {
        let id = {
            let mut store = self.store.write();
            let built_in = name == NAMESPACE_INDEX && store.namespaces().is_some();
            if built_in || store.index(name).is_some() {
                return Err(CacheError::IndexExists(name.to_owned()));
            }
            store.start_index(name, function.clone())
        };
        let mut start = 0;
        loop {
            let chunk = self.store.read().slots_from(start, INDEX_CHUNK);
            let Some(chunk) = chunk else { break };
            let compute = |(slot, object)| {
                let values = function.values(&object);
                (slot, object, values)
            };
            let computed: Vec<_> = chunk.into_iter().map(compute).collect();
            if !self.store.write().fill_index(id, computed) {
                // Removed while it was being built.
                return Ok(());
            }
            start += INDEX_CHUNK;
        }
        self.store.write().finish_index(id);
        Ok(())
    }

    /// Removes an index; tells whether there was one. The namespace index stays.
    pub fn remove_indexer(&self, name: &str) -> bool {
        let dropped = self.store.write().drop_index(name);
        let Some((id, index)) = dropped else { return false };
        // A large index is freed here, where nobody waits.
        drop(index);
        let mut start = 0;
        while self.store.write().sweep_postings(id, start, INDEX_CHUNK) {
            start += INDEX_CHUNK;
        }
        true
    }

    // Writing: for the informer.

    /// Applies a batch as one transaction and tells what changed, in order. `seen`: the version up to which the store
    /// is complete with it.
    pub fn apply(&self, batch: impl IntoIterator<Item = Delta>, seen: Option<&str>) -> Vec<Change> {
        let mut changes = Vec::new();
        {
            let mut store = self.store.write();
            for delta in batch {
                store.apply(delta, &mut |change| changes.push(change));
            }
        }
        self.progress(seen);
        changes
    }

    /// Takes a list over as one transaction and tells what changed: deletions first, then the list in its order.
    /// Objects whose version and UID did not change stay the ones held; `unchanged` tells whether they are reported.
    pub fn replace(&self, list: Vec<Object>, seen: Option<&str>, unchanged: bool) -> Vec<Change> {
        let mut changes = Vec::new();
        self.store.write().replace(list, unchanged, &mut |change| changes.push(change));
        self.progress(seen);
        changes
    }

    /// Notes that the store is complete up to a version.
    pub fn bookmark(&self, version: &str) {
        self.progress(Some(version));
    }

    fn progress(&self, version: Option<&str>) {
        self.seen.send_modify(|seen| {
            if let Some(version) = version.filter(|version| **version != *seen.version) {
                seen.version = version.into();
            }
        });
    }

    /// The object held when it is the same version, else the one given: what came again is not kept twice.
    #[must_use]
    pub fn canonical(&self, object: Object) -> Object {
        match self.store.read().get(object.key().as_str()) {
            Some(held) if same_version(held, &object) => held.clone(),
            _ => object,
        }
    }

    // How far the store has come.

    /// The version up to which the store is complete; empty before the first list.
    #[must_use]
    pub fn resource_version(&self) -> Arc<str> {
        self.seen.borrow().version.clone()
    }

    /// Whether a change made at `version` is in the store: any later event or bookmark of the kind counts.
    #[must_use]
    pub fn has_seen(&self, version: &str) -> bool {
        self.seen.borrow().covers(version)
    }

    /// Changes whenever the store or its version does.
    pub(crate) fn progress_signal(&self) -> watch::Receiver<Seen> {
        self.seen.subscribe()
    }

    /// Waits until a change made at `version` is in the store. Bound it: a version that is not a number is met only by
    /// itself, and a server that is away shows nothing.
    pub async fn wait_until_seen(&self, version: &str) {
        // The sender lives in `self`, so the wait cannot end with its loss.
        let _ = self.seen.subscribe().wait_for(|seen| seen.covers(version)).await;
    }

    /// Waits until the object of a key is gone, or has another UID than `uid`. Bound it.
    pub async fn wait_until_gone(&self, key: &ObjectKey, uid: &str) {
        let mut changes = self.seen.subscribe();
        while self.get(key).is_some_and(|object| object.uid() == uid) {
            let _ = changes.changed().await;
        }
    }

    /// Checks the invariants; for tests.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        self.store.read().check();
    }
}

/// The index of a name, `None` for the built-in one.
fn readable<'a>(store: &'a Store, name: &str) -> Result<Option<&'a Index>, CacheError> {
    match store.index(name) {
        Some(index) if index.ready => Ok(Some(index)),
        Some(_) => Err(CacheError::IndexBuilding(name.to_owned())),
        None if name == NAMESPACE_INDEX && store.namespaces().is_some() => Ok(None),
        None => Err(CacheError::UnknownIndex { name: name.to_owned(), have: names(store) }),
    }
}

fn names(store: &Store) -> Vec<String> {
    let built_in = store.namespaces().map(|_| NAMESPACE_INDEX.to_owned());
    let added = store.indexes().iter().filter(|index| index.ready).map(|index| index.name.to_string());
    built_in.into_iter().chain(added).collect()
}

impl std::fmt::Debug for Indexer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Indexer").field("len", &self.len()).field("seen", &self.resource_version()).finish()
    }
}
