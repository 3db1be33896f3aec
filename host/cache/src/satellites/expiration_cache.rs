//! [`ExpirationCache`]: client-go's store whose entries go when they are old.
//!
//! Invariant: no call hands out an entry that has expired. Nothing runs in the background: an entry is looked at when it is
//! read, and removed then.
//!
//! For programs that use this crate alone.

use std::hash::Hash;
use std::time::Duration;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::satellites::fifo::KeyFn;

/// Tells whether an entry has expired: the item, and when it was put in.
type Policy<T> = Box<dyn Fn(&T, Instant) -> bool + Send + Sync>;

/// A store by key whose entries expire.
pub struct ExpirationCache<T, K> {
    key: KeyFn<T, K>,
    expired: Policy<T>,
    entries: Mutex<HashMap<K, (T, Instant), RandomState>>,
}

impl<T: Clone, K: Hash + Eq + Clone> ExpirationCache<T, K> {
    /// A cache whose entries expire when they are older than `ttl`; client-go's `NewTTLStore`.
    pub fn with_ttl(key: impl Fn(&T) -> K + Send + Sync + 'static, ttl: Duration) -> Self {
        Self::with_policy(key, move |_, since| since.elapsed() > ttl)
    }

    /// A cache whose entries expire when `expired` says so of an item and of the time it was put in.
    pub fn with_policy(
        key: impl Fn(&T) -> K + Send + Sync + 'static,
        expired: impl Fn(&T, Instant) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { key: Box::new(key), expired: Box::new(expired), entries: Mutex::default() }
    }

    /// Puts an item in, as of now.
    pub fn add(&self, item: T) {
        self.entries.lock().insert((self.key)(&item), (item, Instant::now()));
    }

    /// As [`add`](Self::add): the entry is new.
    pub fn update(&self, item: T) {
        self.add(item);
    }

    /// Takes out the item of this one's key.
    pub fn delete(&self, item: &T) {
        self.entries.lock().remove(&(self.key)(item));
    }

    /// Puts these in the place of all there are, as of now.
    pub fn replace(&self, list: impl IntoIterator<Item = T>) {
        let now = Instant::now();
        let entries = list.into_iter().map(|item| ((self.key)(&item), (item, now))).collect();
        *self.entries.lock() = entries;
    }

    /// The item of a key; one that has expired is removed.
    #[must_use]
    pub fn get_by_key(&self, key: &K) -> Option<T> {
        let mut entries = self.entries.lock();
        let (item, since) = entries.get(key)?;
        if (self.expired)(item, *since) {
            entries.remove(key);
            return None;
        }
        Some(item.clone())
    }

    /// The item of this one's key; one that has expired is removed.
    #[must_use]
    pub fn get(&self, item: &T) -> Option<T> {
        self.get_by_key(&(self.key)(item))
    }

    /// The items that have not expired, in no order; the others are removed.
    #[must_use]
    pub fn list(&self) -> Vec<T> {
        let mut entries = self.entries.lock();
        entries.retain(|_, (item, since)| !(self.expired)(item, *since));
        entries.values().map(|(item, _)| item.clone()).collect()
    }

    /// All keys, in no order, also of entries that have expired and were not read since.
    #[must_use]
    pub fn list_keys(&self) -> Vec<K> {
        self.entries.lock().keys().cloned().collect()
    }
}

impl<T, K> std::fmt::Debug for ExpirationCache<T, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExpirationCache").field("entries", &self.entries.lock().len()).finish_non_exhaustive()
    }
}
