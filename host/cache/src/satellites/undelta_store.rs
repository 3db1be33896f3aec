//! [`UndeltaStore`]: client-go's store that tells the whole list after each change.
//!
//! Invariant: the lists are told in the order of the changes, each as it was right after its change: the receiver is called
//! under the store's lock (client-go's is not, and may be told an older list last). It must not call the store.
//!
//! For programs that use this crate alone.

use std::hash::Hash;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::satellites::fifo::KeyFn;

/// A store by key that tells the whole list after each change.
pub struct UndeltaStore<T, K> {
    key: KeyFn<T, K>,
    push: Box<dyn Fn(Vec<T>) + Send + Sync>,
    items: Mutex<HashMap<K, T, RandomState>>,
}

impl<T: Clone, K: Hash + Eq + Clone> UndeltaStore<T, K> {
    /// An empty store; `push` gets all items, in no order, after each change.
    pub fn new(
        key: impl Fn(&T) -> K + Send + Sync + 'static,
        push: impl Fn(Vec<T>) + Send + Sync + 'static,
    ) -> Self {
        Self { key: Box::new(key), push: Box::new(push), items: Mutex::default() }
    }

    /// Puts an item in.
    pub fn add(&self, item: T) {
        self.change(|items| _ = items.insert((self.key)(&item), item));
    }

    /// As [`add`](Self::add).
    pub fn update(&self, item: T) {
        self.add(item);
    }

    /// Takes out the item of this one's key.
    pub fn delete(&self, item: &T) {
        self.change(|items| _ = items.remove(&(self.key)(item)));
    }

    /// Puts these in the place of all there are: one change.
    pub fn replace(&self, list: impl IntoIterator<Item = T>) {
        let list = list.into_iter().map(|item| ((self.key)(&item), item)).collect();
        self.change(|items| *items = list);
    }

    /// The item of a key.
    #[must_use]
    pub fn get_by_key(&self, key: &K) -> Option<T> {
        self.items.lock().get(key).cloned()
    }

    /// All items, in no order.
    #[must_use]
    pub fn list(&self) -> Vec<T> {
        self.items.lock().values().cloned().collect()
    }

    /// All keys, in no order.
    #[must_use]
    pub fn list_keys(&self) -> Vec<K> {
        self.items.lock().keys().cloned().collect()
    }

    fn change(&self, change: impl FnOnce(&mut HashMap<K, T, RandomState>)) {
        let mut items = self.items.lock();
        change(&mut items);
        (self.push)(items.values().cloned().collect());
    }
}

impl<T, K> std::fmt::Debug for UndeltaStore<T, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UndeltaStore").field("items", &self.items.lock().len()).finish_non_exhaustive()
    }
}
