//! [`Heap`]: client-go's `cache.Heap`, a blocking priority queue of items by key.
//!
//! Invariants: a key is in the heap at most once; `at` says where each key stands; no item is less than its parent.
//!
//! For programs that use this crate alone. Any number of producers and consumers.

use std::hash::Hash;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::error::CacheError;
use crate::satellites::fifo::KeyFn;

type Less<T> = Box<dyn Fn(&T, &T) -> bool + Send + Sync>;

/// A priority queue of items by key.
pub struct Heap<T, K> {
    key: KeyFn<T, K>,
    state: Mutex<HeapState<T, K>>,
    /// There is work, or the heap was closed.
    work: Notify,
}

struct HeapState<T, K> {
    less: Less<T>,
    items: Vec<(K, T)>,
    at: HashMap<K, usize, RandomState>,
    closed: bool,
}

impl<T: Clone, K: Hash + Eq + Clone> Heap<T, K> {
    /// An empty heap; `less` tells which of two items comes first.
    pub fn new(
        key: impl Fn(&T) -> K + Send + Sync + 'static,
        less: impl Fn(&T, &T) -> bool + Send + Sync + 'static,
    ) -> Self {
        let state =
            HeapState { less: Box::new(less), items: Vec::new(), at: HashMap::default(), closed: false };
        Self { key: Box::new(key), state: Mutex::new(state), work: Notify::new() }
    }

    /// Puts an item in, or its newer state in the place of what is there, where it then belongs.
    ///
    /// # Errors
    /// When the heap was closed.
    pub fn add(&self, item: T) -> Result<(), CacheError> {
        self.bulk_add([item])
    }

    /// Puts items in as one: nobody gets one before all are in.
    ///
    /// # Errors
    /// When the heap was closed.
    pub fn bulk_add(&self, items: impl IntoIterator<Item = T>) -> Result<(), CacheError> {
        let keyed: Vec<_> = items.into_iter().map(|item| ((self.key)(&item), item)).collect();
        let mut state = self.open()?;
        for (key, item) in keyed {
            state.put(key, item);
        }
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    /// Puts an item in, if there is none of its key.
    ///
    /// # Errors
    /// When the heap was closed.
    pub fn add_if_not_present(&self, item: T) -> Result<(), CacheError> {
        let key = (self.key)(&item);
        let mut state = self.open()?;
        if !state.at.contains_key(&key) {
            state.put(key, item);
        }
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    /// As [`add`](Self::add).
    ///
    /// # Errors
    /// When the heap was closed.
    pub fn update(&self, item: T) -> Result<(), CacheError> {
        self.add(item)
    }

    /// Takes out the item of this one's key; `None` when there was none.
    pub fn delete(&self, item: &T) -> Option<T> {
        let mut state = self.state.lock();
        let at = state.at.get(&(self.key)(item)).copied()?;
        Some(state.take(at))
    }

    /// The first item, left in the heap.
    #[must_use]
    pub fn peek(&self) -> Option<T> {
        self.state.lock().items.first().map(|(_, item)| item.clone())
    }

    /// Waits for an item and takes the first one. Several consumers may wait. Cancel-safe.
    ///
    /// # Errors
    /// When the heap was closed and is empty.
    pub async fn pop(&self) -> Result<T, CacheError> {
        loop {
            let notified = self.work.notified();
            {
                let mut state = self.state.lock();
                if !state.items.is_empty() {
                    let item = state.take(0);
                    if !state.items.is_empty() {
                        self.work.notify_one();
                    }
                    return Ok(item);
                }
                if state.closed {
                    return Err(CacheError::Closed);
                }
            }
            notified.await;
        }
    }

    /// The item of a key.
    #[must_use]
    pub fn get_by_key(&self, key: &K) -> Option<T> {
        let state = self.state.lock();
        state.at.get(key).map(|at| state.items[*at].1.clone())
    }

    /// The item of this one's key.
    #[must_use]
    pub fn get(&self, item: &T) -> Option<T> {
        self.get_by_key(&(self.key)(item))
    }

    /// All items, in no order.
    #[must_use]
    pub fn list(&self) -> Vec<T> {
        self.state.lock().items.iter().map(|(_, item)| item.clone()).collect()
    }

    /// All keys, in no order.
    #[must_use]
    pub fn list_keys(&self) -> Vec<K> {
        self.state.lock().items.iter().map(|(key, _)| key.clone()).collect()
    }

    /// Ends the heap: nothing more is taken in, what is in it is still handed out.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.work.notify_waiters();
        self.work.notify_one();
    }

    /// Whether it was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    fn open(&self) -> Result<parking_lot::MutexGuard<'_, HeapState<T, K>>, CacheError> {
        let state = self.state.lock();
        if state.closed { Err(CacheError::Closed) } else { Ok(state) }
    }
}

impl<T, K: Hash + Eq + Clone> HeapState<T, K> {
    fn put(&mut self, key: K, item: T) {
        let at = match self.at.get(&key) {
            Some(&at) => {
                self.items[at].1 = item;
                at
            }
            None => {
                self.at.insert(key.clone(), self.items.len());
                self.items.push((key, item));
                self.items.len() - 1
            }
        };
        self.settle(at);
    }

    fn take(&mut self, at: usize) -> T {
        let last = self.items.len() - 1;
        self.swap(at, last);
        let (key, item) = self.items.swap_remove(last);
        self.at.remove(&key);
        if at < last {
            self.settle(at);
        }
        item
    }

    /// Moves an item to where it belongs.
    fn settle(&mut self, mut at: usize) {
        while at > 0 && self.is_less(at, (at - 1) / 2) {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
        loop {
            let children = 2 * at + 1..(2 * at + 3).min(self.items.len());
            let Some(least) = children.reduce(|a, b| if self.is_less(b, a) { b } else { a }) else { return };
            if !self.is_less(least, at) {
                return;
            }
            self.swap(at, least);
            at = least;
        }
    }

    fn is_less(&self, a: usize, b: usize) -> bool {
        (self.less)(&self.items[a].1, &self.items[b].1)
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.items.swap(a, b);
        for at in [a, b] {
            if let Some(held) = self.at.get_mut(&self.items[at].0) {
                *held = at;
            }
        }
    }
}

impl<T, K> std::fmt::Debug for Heap<T, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Heap").field("len", &self.state.lock().items.len()).finish_non_exhaustive()
    }
}
