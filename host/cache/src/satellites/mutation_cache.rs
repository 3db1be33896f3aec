//! [`MutationCache`]: a store as it is plus what its user has just written.
//!
//! A controller that writes an object and reads it back from an informer's store may read the state before its own write.
//! It puts the server's answers in here and reads through: the newer of the two states wins, by the integer order of
//! resource versions (KEP-5504). Invariants:
//! - a newer state is never replaced by an older one, whichever side it comes from; where versions cannot be ordered, the
//!   store is right;
//! - an entry is dropped when the store has something as new, is known to be complete up to it, or after the TTL;
//! - an object that the user deleted does not come back until the store has another one (another UID) under its key.
//!
//! For programs that use this crate alone; the host waits for the store instead (`Indexer::wait_until_seen`).

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use parking_lot::Mutex;
use pilothouse_object::{Object, ObjectKey};
use tokio::time::Instant;

use crate::error::CacheError;
use crate::index_fn::IndexFn;
use crate::indexer::{Indexer, NAMESPACE_INDEX};
use crate::version::compare_resource_versions;

/// How a [`MutationCache`] behaves.
#[derive(Debug, Clone)]
pub struct MutationCacheOptions {
    /// How long an entry counts; client-go's usual value by default.
    pub ttl: Duration,
    /// Entries held; the least recently used goes first. client-go's value by default.
    pub capacity: usize,
    /// Whether objects that the store does not have yet are found as well.
    pub include_adds: bool,
}

impl Default for MutationCacheOptions {
    fn default() -> Self {
        Self { ttl: Duration::from_secs(5 * 60), capacity: 100, include_adds: false }
    }
}

/// A store with the user's own writes on top.
pub struct MutationCache {
    backing: Arc<Indexer>,
    indexes: Vec<(String, IndexFn)>,
    options: MutationCacheOptions,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    by_key: HashMap<ObjectKey, Entry, RandomState>,
    uses: u64,
}

struct Entry {
    mutation: Mutation,
    /// `None`: never.
    expires: Option<Instant>,
    used: u64,
}

enum Mutation {
    Written(Object),
    /// The UID of what was deleted.
    Deleted(String),
}

impl MutationCache {
    /// A cache on top of a store.
    #[must_use]
    pub fn new(backing: Arc<Indexer>, options: MutationCacheOptions) -> Self {
        Self { backing, indexes: Vec::new(), options, entries: Mutex::default() }
    }

    /// Tells how an index of the store is computed, so that [`by_index`](Self::by_index) is right about the entries. The
    /// namespace index is known.
    #[must_use]
    pub fn with_index(mut self, name: &str, function: IndexFn) -> Self {
        self.indexes.push((name.to_owned(), function));
        self
    }

    /// Takes in the server's answer to a write.
    pub fn mutation(&self, object: Object) {
        let mut entries = self.entries.lock();
        let outdated = match entries.live(object.key()).map(|entry| &entry.mutation) {
            Some(Mutation::Written(held)) => is_newer(held, &object),
            Some(Mutation::Deleted(uid)) => object.uid() == uid,
            None => false,
        };
        if outdated {
            return;
        }
        let key = object.key().clone();
        entries.put(key, Mutation::Written(object), &self.options);
    }

    /// Notes that the user has deleted an object of this UID, for good: not one that waits for its finalizers.
    pub fn deleted(&self, key: &ObjectKey, uid: &str) {
        self.entries.lock().put(key.clone(), Mutation::Deleted(uid.to_owned()), &self.options);
    }

    /// The newest state of an object that is known.
    #[must_use]
    pub fn get_by_key(&self, key: &ObjectKey) -> Option<Object> {
        // Before the lock: nothing is held while the store is read.
        let backing = self.backing.get(key);
        self.resolve(&mut self.entries.lock(), key, backing)
    }

    /// The objects whose newest state has a value in an index, in no order.
    ///
    /// # Errors
    /// When the store has no such index, or its function was not given.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Object>, CacheError> {
        let by_name = self.indexes.iter().find(|(index, _)| index == name);
        if by_name.is_none() && name != NAMESPACE_INDEX {
            let have = self.indexes.iter().map(|(name, _)| name.clone()).collect();
            return Err(CacheError::UnknownIndex { name: name.to_owned(), have });
        }
        let has = |object: &Object| match by_name {
            Some((_, function)) => function.values(object).iter().any(|held| **held == *value),
            None => object.namespace() == Some(value),
        };
        let indexed = self.backing.by_index(name, value)?;
        let mut entries = self.entries.lock();
        let mut found = Vec::with_capacity(indexed.len());
        let mut others: Vec<_> = entries.by_key.keys().cloned().collect();
        for object in indexed {
            let key = object.key().clone();
            others.retain(|other| *other != key);
            // A newer state may not have the value any more.
            found.extend(self.resolve(&mut entries, &key, Some(object)).filter(has));
        }
        // And others may have got it.
        for key in others {
            let backing = self.backing.get(&key);
            found.extend(self.resolve(&mut entries, &key, backing).filter(has));
        }
        Ok(found)
    }

    /// Entries held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.lock().by_key.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The state that counts; drops an entry that does not.
    fn resolve(&self, entries: &mut Entries, key: &ObjectKey, backing: Option<Object>) -> Option<Object> {
        let Some(entry) = entries.live(key) else { return backing };
        match (&entry.mutation, &backing) {
            (Mutation::Deleted(uid), Some(object)) if object.uid() == uid => return None,
            (Mutation::Written(written), Some(object)) if is_newer(written, object) => {
                return Some(written.clone());
            }
            (Mutation::Written(written), None) if !self.backing.has_seen(written.resource_version()) => {
                return self.options.include_adds.then(|| written.clone());
            }
            _ => {}
        }
        // The store has got as far as the entry, perhaps only since it was read.
        let absent = matches!((&entry.mutation, &backing), (Mutation::Written(_), None));
        entries.by_key.remove(key);
        if absent { self.backing.get(key) } else { backing }
    }
}

/// Whether `a` is known to be newer than `b`.
fn is_newer(a: &Object, b: &Object) -> bool {
    compare_resource_versions(a.resource_version(), b.resource_version()) == Some(Ordering::Greater)
}

impl Entries {
    fn put(&mut self, key: ObjectKey, mutation: Mutation, options: &MutationCacheOptions) {
        self.uses += 1;
        let entry = Entry { mutation, expires: Instant::now().checked_add(options.ttl), used: self.uses };
        self.by_key.insert(key, entry);
        while self.by_key.len() > options.capacity {
            let oldest = self.by_key.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
            oldest.iter().for_each(|key| _ = self.by_key.remove(key));
        }
    }

    /// The entry of a key, as used now; one that has expired is removed.
    fn live(&mut self, key: &ObjectKey) -> Option<&Entry> {
        if self.by_key.get(key)?.expires.is_some_and(|expires| expires <= Instant::now()) {
            self.by_key.remove(key);
            return None;
        }
        self.uses += 1;
        let entry = self.by_key.get_mut(key)?;
        entry.used = self.uses;
        Some(entry)
    }
}

impl std::fmt::Debug for MutationCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MutationCache").field("entries", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config_map;

    #[tokio::test(start_paused = true)]
    async fn an_object_that_the_store_got_while_it_was_read_is_found() {
        let backing = Arc::new(Indexer::new(true));
        let cache = MutationCache::new(backing.clone(), MutationCacheOptions::default());
        let created = config_map("a/x", "7");
        cache.mutation(created.clone());
        // The reader found nothing in the store; then the store got the object, and said so.
        let read = backing.get(created.key());
        backing.apply([crate::Delta::Added(created.clone())], Some("7"));
        let found = cache.resolve(&mut cache.entries.lock(), created.key(), read);
        assert_eq!(found.unwrap().resource_version(), "7");
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_may_have_no_end() {
        let options =
            MutationCacheOptions { ttl: std::time::Duration::MAX, ..MutationCacheOptions::default() };
        let cache = MutationCache::new(Arc::new(Indexer::new(true)), options);
        cache.mutation(config_map("a/x", "7"));
        assert_eq!(cache.len(), 1);
    }
}
