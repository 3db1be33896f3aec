//! [`Fifo`] and [`Heap`]: client-go's `FIFO` and `cache.Heap`, queues that hold the newest state of each key. Any number of
//! producers and consumers; the lock is not held while an item is processed.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;
use std::task::Poll;

use crate::keyed::{Items, KeyedStore, Rule};

/// A queue that gives the newest state of a key at the place of the first. A key that was deleted before its turn is skipped.
pub type Fifo<T, K> = Heap<T, K, ()>;

/// A queue that gives the item of the least rank first, and the older one of equal ones.
pub type Heap<T, K, R> = KeyedStore<T, K, Queue<T, K, R>>;

/// The rule of a queue: where each key stands, and how far the first list is.
pub struct Queue<T, K, R> {
    rank: Box<dyn Fn(&T) -> R + Send + Sync>,
    places: BTreeMap<(R, u64), K>,
    /// The number of the next item.
    next: u64,
    closed: bool,
    takes_when_closed: bool,
    /// Whether there was an item or a list.
    populated: bool,
    /// Whether the items that are put in now are of the first list.
    listing: bool,
    /// Cloned for each item of the first list that waits or is being processed.
    first: Arc<()>,
}

impl<T: Clone, K: Hash + Eq + Clone> Fifo<T, K> {
    /// An empty queue in the order of arrival. A closed one still takes items in.
    pub fn new(key: impl Fn(&T) -> K + Send + Sync + 'static) -> Self {
        Self::queue(key, |_| (), true)
    }
}

impl<T: Clone, K: Hash + Eq + Clone, R: Ord + Clone> Heap<T, K, R> {
    /// An empty queue in the order of ranks. A closed one takes nothing in.
    pub fn by_rank(
        key: impl Fn(&T) -> K + Send + Sync + 'static,
        rank: impl Fn(&T) -> R + Send + Sync + 'static,
    ) -> Self {
        Self::queue(key, rank, false)
    }

    fn queue(
        key: impl Fn(&T) -> K + Send + Sync + 'static,
        rank: impl Fn(&T) -> R + Send + Sync + 'static,
        takes_when_closed: bool,
    ) -> Self {
        let rule = Queue {
            rank: Box::new(rank),
            places: BTreeMap::new(),
            next: 0,
            closed: false,
            takes_when_closed,
            populated: false,
            listing: false,
            first: Arc::default(),
        };
        Self::with_rule(key, rule)
    }

    /// Waits for the first item and processes it; `None` once the queue is closed and empty. `process` gets the item, and
    /// whether it was in the first [`replace`](Self::replace); it may put it back with `add_if_not_present`. Several
    /// consumers may wait. Cancel-safe.
    pub async fn pop<C>(&self, process: impl FnOnce(T, bool) -> C) -> Option<C> {
        loop {
            let notified = self.work.notified();
            if let Poll::Ready(taken) = self.take() {
                // What marks it as one of the first list lives until `process` has returned or panicked.
                let (item, first) = taken?;
                return Some(process(item, first.is_some()));
            }
            notified.await;
        }
    }

    fn take(&self) -> Poll<Option<(T, Option<Arc<()>>)>> {
        let mut state = self.state.lock();
        let first = state.rule.places.first_key_value().map(|(_, key)| key.clone());
        let Some((item, (_, first))) = first.and_then(|key| state.remove(&key)) else {
            return if state.rule.closed { Poll::Ready(None) } else { Poll::Pending };
        };
        if !state.items.is_empty() {
            self.work.notify_one();
        }
        Poll::Ready(Some((item, first)))
    }

    /// Whether the queue has got its first items, and those of the first `replace` have all been processed or deleted.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        let rule = &self.state.lock().rule;
        rule.populated && Arc::strong_count(&rule.first) == 1
    }

    /// Ends the queue: what is in it is still handed out.
    pub fn close(&self) {
        self.state.lock().rule.closed = true;
        self.work.notify_waiters();
        self.work.notify_one();
    }

    /// Whether it was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state.lock().rule.closed
    }
}

impl<T, K: Clone, R: Ord + Clone> Rule<T, K> for Queue<T, K, R> {
    type Mark = ((R, u64), Option<Arc<()>>);

    fn put(&mut self, key: &K, item: &T, held: Option<Self::Mark>) -> Self::Mark {
        held.iter().for_each(|held| self.removed(held));
        let first = || self.listing.then(|| self.first.clone());
        let (number, first) =
            held.map_or_else(|| (self.next, first()), |((_, number), first)| (number, first));
        self.next = self.next.max(number + 1);
        let place = ((self.rank)(item), number);
        self.places.insert(place.clone(), key.clone());
        (place, first)
    }

    fn removed(&mut self, (place, _): &Self::Mark) {
        self.places.remove(place);
    }

    fn clear(&mut self) {
        // A list that replaces the first one before that was through takes its place.
        self.listing = !self.populated || Arc::strong_count(&self.first) > 1;
        self.places.clear();
    }

    fn changed(&mut self, _: &Items<T, K, Self::Mark>) {
        self.populated = true;
        self.listing = false;
    }

    fn is_open(&self) -> bool {
        !self.closed || self.takes_when_closed
    }
}
