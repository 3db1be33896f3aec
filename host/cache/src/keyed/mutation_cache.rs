//! [`MutationCache`]: a store as it is plus what its user has just written.
//!
//! A controller that writes an object and reads it back from an informer's store may read the state before its own write.
//! It puts the server's answers in here and reads through: the newer of the two states wins, by the integer order of
//! resource versions (KEP-5504); where versions cannot be ordered, the store is right. An entry is dropped when the store
//! has something as new, is known to be complete up to it, or after the TTL. An object that the user deleted does not come
//! back until the store has another one (another UID) under its key. The host waits for the store instead
//! (`Indexer::wait_until_seen`).

use std::cmp::Ordering;
use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use lru::LruCache;
use parking_lot::Mutex;
use pilothouse_object::{Object, ObjectKey};
use tokio::time::Instant;

use crate::error::CacheError;
use crate::indexer::Indexer;
use crate::version::compare_resource_versions;

/// A store with the user's own writes on top; the least recently used of more than 100 entries goes.
pub struct MutationCache {
    backing: Arc<Indexer>,
    ttl: Duration,
    include_adds: bool,
    entries: Mutex<Entries>,
}

/// What the user did, and when.
type Entries = LruCache<ObjectKey, (Mutation, Instant)>;

enum Mutation {
    Written(Object),
    /// The UID of what was deleted.
    Deleted(String),
}

impl MutationCache {
    const CAPACITY: NonZeroUsize = NonZeroUsize::new(100).unwrap();
    /// How long an entry counts as client-go's users have it.
    pub const DEFAULT_TTL: Duration = Duration::from_secs(5 * 60);

    /// A cache on top of a store. An entry counts for `ttl`; `include_adds` tells whether objects are found that the store
    /// does not have yet.
    #[must_use]
    pub fn new(backing: Arc<Indexer>, ttl: Duration, include_adds: bool) -> Self {
        Self { backing, ttl, include_adds, entries: Mutex::new(LruCache::new(Self::CAPACITY)) }
    }

    /// Takes in the server's answer to a write.
    pub fn mutation(&self, object: Object) {
        let mut entries = self.entries.lock();
        let outdated = match self.live(&mut entries, object.key()) {
            Some(Mutation::Written(held)) => is_newer(held, &object),
            Some(Mutation::Deleted(uid)) => object.uid() == uid,
            None => false,
        };
        if !outdated {
            entries.put(object.key().clone(), (Mutation::Written(object), Instant::now()));
        }
    }

    /// Notes that the user has deleted an object of this UID, for good: not one that waits for its finalizers.
    pub fn deleted(&self, key: &ObjectKey, uid: &str) {
        self.entries.lock().put(key.clone(), (Mutation::Deleted(uid.to_owned()), Instant::now()));
    }

    /// The newest state of an object that is known.
    #[must_use]
    pub fn get_by_key(&self, key: &ObjectKey) -> Option<Object> {
        self.resolve(&mut self.entries.lock(), key, self.backing.get(key))
    }

    /// The objects whose newest state has a value in an index, in no order.
    ///
    /// # Errors
    /// When the store has no such index, or it is still being built.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Object>, CacheError> {
        let mut entries = self.entries.lock();
        // Those that had the value, and those that may have got it.
        let mut keys: HashSet<_> = self.backing.index_keys(name, value)?.into_iter().collect();
        keys.extend(entries.iter().map(|(key, _)| key.clone()));
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            if let Some(object) = self.resolve(&mut entries, &key, self.backing.get(&key))
                && self.backing.values_of(name, &object).iter().any(|held| **held == *value)
            {
                found.push(object);
            }
        }
        Ok(found)
    }

    /// The entry of a key, as used now; one that has expired is removed.
    fn live<'a>(&self, entries: &'a mut Entries, key: &ObjectKey) -> Option<&'a Mutation> {
        if entries.peek(key)?.1.elapsed() >= self.ttl {
            entries.pop(key);
        }
        entries.get(key).map(|(mutation, _)| mutation)
    }

    /// The state that counts; drops an entry that does not.
    fn resolve(&self, entries: &mut Entries, key: &ObjectKey, stored: Option<Object>) -> Option<Object> {
        match (self.live(entries, key), &stored) {
            (None, _) => return stored,
            (Some(Mutation::Deleted(uid)), Some(object)) if object.uid() == uid => return None,
            (Some(Mutation::Written(written)), Some(object)) if is_newer(written, object) => {
                return Some(written.clone());
            }
            (Some(Mutation::Written(written)), None)
                if !self.backing.has_seen(written.resource_version()) =>
            {
                return self.include_adds.then(|| written.clone());
            }
            _ => {}
        }
        entries.pop(key);
        // The store has got as far as the entry, perhaps only since it was read.
        self.backing.get(key)
    }
}

/// Whether `a` is known to be newer than `b`.
fn is_newer(a: &Object, b: &Object) -> bool {
    compare_resource_versions(a.resource_version(), b.resource_version()) == Some(Ordering::Greater)
}

#[cfg(test)]
impl MutationCache {
    /// Entries held.
    pub(crate) fn len(&self) -> usize {
        self.entries.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config_map;

    #[tokio::test(start_paused = true)]
    async fn an_object_that_the_store_got_while_it_was_read_is_found() {
        let backing = Arc::new(Indexer::new(true));
        let cache = MutationCache::new(backing.clone(), MutationCache::DEFAULT_TTL, false);
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
        let cache = MutationCache::new(Arc::new(Indexer::new(true)), Duration::MAX, false);
        cache.mutation(config_map("a/x", "7"));
        assert_eq!(cache.len(), 1);
    }
}
