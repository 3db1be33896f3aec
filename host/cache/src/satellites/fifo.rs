//! [`Fifo`]: client-go's `FIFO`, a queue that holds the newest state of each key.
//!
//! Invariants: a key stands in the queue at most once; of several states of a key only the newest is handed out, at the
//! place of the first; a key that was deleted before its turn is skipped. Unlike [`DeltaFifo`](crate::DeltaFifo) it says
//! nothing of deletions and of states in between.
//!
//! For programs that use this crate alone. Any number of producers and consumers; the lock is not held while an item is
//! processed.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Gives the key of an item.
pub type KeyFn<T, K> = Box<dyn Fn(&T) -> K + Send + Sync>;

/// A queue of items by key.
pub struct Fifo<T, K> {
    key: KeyFn<T, K>,
    state: Mutex<QueuedItems<T, K>>,
    /// There is work, or the queue was closed.
    work: Notify,
}

struct QueuedItems<T, K> {
    items: HashMap<K, T, RandomState>,
    /// May hold keys that are not in `items` any more.
    queue: VecDeque<K>,
    populated: bool,
    /// How many at the front of the queue are of the first list.
    initial: usize,
    /// How many of the first list are being processed.
    initial_running: usize,
    closed: bool,
}

/// Why processing an item failed, as the consumer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessError<E> {
    /// Put it back, unless there is a newer state by now; client-go's `ErrRequeue`.
    Requeue(E),
    /// Drop it.
    Drop(E),
}

/// Why [`Fifo::pop`] gave nothing, or nothing that was processed well.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PopError<E> {
    /// The queue was closed and is empty.
    #[error("the queue is closed")]
    Closed,
    /// Processing failed; the item was put back if that was asked for.
    #[error("{0}")]
    Process(E),
}

impl<T: Clone, K: Hash + Eq + Clone> Fifo<T, K> {
    /// An empty queue.
    pub fn new(key: impl Fn(&T) -> K + Send + Sync + 'static) -> Self {
        let state = QueuedItems {
            items: HashMap::default(),
            queue: VecDeque::new(),
            populated: false,
            initial: 0,
            initial_running: 0,
            closed: false,
        };
        Self { key: Box::new(key), state: Mutex::new(state), work: Notify::new() }
    }

    /// Puts an item in, or its newer state in the place of what is there.
    pub fn add(&self, item: T) {
        let key = (self.key)(&item);
        let mut state = self.state.lock();
        state.populated = true;
        if state.items.insert(key.clone(), item).is_none() {
            state.queue.push_back(key);
        }
        drop(state);
        self.work.notify_one();
    }

    /// Puts an item in, if there is none of its key.
    pub fn add_if_not_present(&self, item: T) {
        let key = (self.key)(&item);
        let mut state = self.state.lock();
        state.populated = true;
        if state.items.contains_key(&key) {
            return;
        }
        state.items.insert(key.clone(), item);
        state.queue.push_back(key);
        drop(state);
        self.work.notify_one();
    }

    /// As [`add`](Self::add).
    pub fn update(&self, item: T) {
        self.add(item);
    }

    /// Takes out the item of this one's key.
    pub fn delete(&self, item: &T) {
        let key = (self.key)(item);
        let mut state = self.state.lock();
        state.populated = true;
        state.items.remove(&key);
        state.drop_deleted();
    }

    /// Puts these in the place of all there are, in this order.
    pub fn replace(&self, list: impl IntoIterator<Item = T>) {
        let keyed: Vec<_> = list.into_iter().map(|item| ((self.key)(&item), item)).collect();
        let mut state = self.state.lock();
        state.items.clear();
        state.queue.clear();
        for (key, item) in keyed {
            if state.items.insert(key.clone(), item).is_none() {
                state.queue.push_back(key);
            }
        }
        // A list that replaces the first one before that was through takes its place.
        let first = !std::mem::replace(&mut state.populated, true);
        state.initial = if first || state.initial > 0 { state.queue.len() } else { 0 };
        drop(state);
        self.work.notify_one();
    }

    /// Waits for an item and processes it. `process` gets it, and whether it was in the first [`replace`](Self::replace).
    /// Several consumers may wait. Cancel-safe: nothing is awaited once an item has been taken.
    ///
    /// # Errors
    /// When the queue was closed and is empty, or processing failed.
    pub async fn pop<E>(
        &self,
        process: impl FnOnce(&T, bool) -> Result<(), ProcessError<E>>,
    ) -> Result<T, PopError<E>> {
        let (item, initial) = loop {
            let notified = self.work.notified();
            {
                let mut state = self.state.lock();
                if let Some(taken) = state.take() {
                    if !state.queue.is_empty() {
                        self.work.notify_one();
                    }
                    break taken;
                }
                if state.closed {
                    return Err(PopError::Closed);
                }
            }
            notified.await;
        };
        // Also when `process` panics.
        let _running = initial.then(|| InitialRunning(&self.state));
        let outcome = process(&item, initial);
        if let Err(ProcessError::Requeue(_)) = &outcome {
            self.add_if_not_present(item.clone());
        }
        match outcome {
            Ok(()) => Ok(item),
            Err(ProcessError::Requeue(error) | ProcessError::Drop(error)) => Err(PopError::Process(error)),
        }
    }

    /// Whether the queue has got its first items, and those of the first `replace` have all been processed or deleted.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        let state = self.state.lock();
        state.populated && state.initial == 0 && state.initial_running == 0
    }

    /// Ends the queue: what is in it is still handed out.
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

    /// The item that waits under a key.
    #[must_use]
    pub fn get_by_key(&self, key: &K) -> Option<T> {
        self.state.lock().items.get(key).cloned()
    }

    /// All that wait, in no order.
    #[must_use]
    pub fn list(&self) -> Vec<T> {
        self.state.lock().items.values().cloned().collect()
    }

    /// The keys of all that wait, in no order.
    #[must_use]
    pub fn list_keys(&self) -> Vec<K> {
        self.state.lock().items.keys().cloned().collect()
    }
}

/// Keys of deleted items that may stay in the queue.
const MOST_DELETED: usize = 64;

/// Counts an item of the first list as processed.
struct InitialRunning<'a, T, K>(&'a Mutex<QueuedItems<T, K>>);

impl<T, K> Drop for InitialRunning<'_, T, K> {
    fn drop(&mut self) {
        self.0.lock().initial_running -= 1;
    }
}

impl<T, K: Hash + Eq + Clone> QueuedItems<T, K> {
    /// Drops keys without an item, and those that are in the queue again before, once they are most of it.
    fn drop_deleted(&mut self) {
        if self.queue.len() < 2 * self.items.len() + MOST_DELETED {
            return;
        }
        let mut kept = HashSet::with_capacity(self.items.len());
        let (mut at, mut initial) = (0, 0);
        self.queue.retain(|key| {
            let keep = self.items.contains_key(key) && kept.insert(key.clone());
            initial += usize::from(keep && at < self.initial);
            at += 1;
            keep
        });
        self.initial = initial;
    }

    /// The first item that has not been deleted, and whether it is of the first list.
    fn take(&mut self) -> Option<(T, bool)> {
        while let Some(key) = self.queue.pop_front() {
            let initial = self.initial > 0;
            self.initial -= usize::from(initial);
            if let Some(item) = self.items.remove(&key) {
                self.initial_running += usize::from(initial);
                return Some((item, initial));
            }
        }
        None
    }
}

impl<T, K> std::fmt::Debug for Fifo<T, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fifo").field("len", &self.state.lock().items.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_comes_and_goes_does_not_fill_the_queue() {
        let fifo = Fifo::new(|item: &(u32, u32)| item.0);
        fifo.replace([(1, 0), (2, 0), (3, 0)]);
        for n in 0..10_000 {
            fifo.add((9, n));
            fifo.delete(&(9, n));
            fifo.delete(&(2, 0));
        }
        let state = fifo.state.lock();
        assert!(state.queue.len() < 200, "{}", state.queue.len());
        assert_eq!((state.items.len(), state.initial), (2, 2));
    }

    #[tokio::test]
    async fn a_panic_while_the_first_list_is_processed_does_not_keep_the_queue_from_being_synced() {
        let fifo = std::sync::Arc::new(Fifo::new(|item: &u32| *item));
        fifo.replace([1]);
        let other = fifo.clone();
        let panicked = tokio::spawn(async move {
            let _ = other.pop(|_, _| -> Result<(), ProcessError<()>> { panic!("no") }).await;
        });
        assert!(panicked.await.is_err());
        assert!(fifo.has_synced());
    }
}
