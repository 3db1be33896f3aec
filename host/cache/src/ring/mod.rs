//! [`Ring`]: the listener between an informer and one slow consumer (a guest's handler); client-go's
//! `processorListener` with a bound.
//!
//! The informer never waits for the consumer: what comes meanwhile is merged per key by the table in [`merge`], so a
//! ring never holds more than two events a key (with [`Delivery::Every`]: up to a bound in all). Above
//! [`RingOptions::max_keys`] keys the bodies are let go and read again from the store at delivery; keys are never lost.
//! Order between keys is not promised.
//!
//! One consumer: events of a key are in order only when one task calls [`Ring::next_batch`].

mod event;
mod merge;
mod pending;
#[cfg(test)]
mod redelivery_tests;
#[cfg(test)]
mod standby_tests;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use pilothouse_object::{Object, ObjectKey};
use tokio::sync::{Notify, watch};

use crate::handlers::EventFilter;
use crate::indexer::Indexer;
use crate::listener::Listener;
pub use event::Event;
use event::{Item, RingBody};
use pending::Pending;

/// Which events a ring keeps for one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delivery {
    /// What brings the consumer to the newest state.
    #[default]
    Latest,
    /// Each one, as long as there are not too many; then as `Latest`, counted.
    Every,
}

/// How a ring behaves.
#[derive(Debug, Clone, Copy)]
pub struct RingOptions {
    /// Which events are kept.
    pub delivery: Delivery,
    /// Above this many pending keys bodies are not kept: 65,536 keys of 5.5-KB objects would pin 360 MB.
    pub max_keys: usize,
    /// With [`Delivery::Every`]: above this many pending events they are merged.
    pub max_events: usize,
    /// Another consumer may have been told of what this one was not, as that of a host that led before: an object that came
    /// and went is then told of as gone.
    pub told_elsewhere: bool,
}

impl Default for RingOptions {
    fn default() -> Self {
        Self { delivery: Delivery::Latest, max_keys: 65_536, max_events: 65_536, told_elsewhere: false }
    }
}

/// What a ring has done; counters grow from its making.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RingMetrics {
    /// Keys that wait.
    pub depth: usize,
    /// Most keys that ever waited.
    pub peak_depth: usize,
    /// Slots held for keys that wait.
    pub capacity: usize,
    /// Events taken in.
    pub received: u64,
    /// Events handed out.
    pub delivered: u64,
    /// Events merged into one that waited.
    pub coalesced: u64,
    /// Events that `Every` would have kept and had to merge.
    pub fallbacks: u64,
    /// Times the bodies were let go.
    pub body_drops: u64,
}

/// What a ring calls when there are events.
type Waker = Box<dyn Fn() + Send + Sync>;

/// Holds the events that one consumer has not had time for.
pub struct Ring {
    indexer: Arc<Indexer>,
    pending: Mutex<Pending>,
    wake: Notify,
    waker: ArcSwapOption<Waker>,
    synced: watch::Sender<bool>,
}

impl Ring {
    /// An empty ring; `indexer` is the store of the informer that it will listen to.
    #[must_use]
    pub fn new(indexer: Arc<Indexer>, options: RingOptions) -> Arc<Self> {
        Arc::new(Self {
            indexer,
            pending: Mutex::new(Pending::new(options)),
            wake: Notify::new(),
            waker: ArcSwapOption::empty(),
            synced: watch::Sender::new(false),
        })
    }

    /// From now on `waker` is called after each event was taken in, without the lock of the ring; the one before is not. For
    /// a consumer that does not wait in [`next_batch`](Self::next_batch). It runs inside the call of the informer, so it
    /// must not block.
    pub fn set_waker(&self, waker: impl Fn() + Send + Sync + 'static) {
        self.waker.store(Some(Arc::new(Box::new(waker))));
    }

    /// Waits for events and hands out up to `max` of them (at least one). `None` once the ring is closed.
    ///
    /// Cancel-safe: a call that is dropped has taken nothing. Dropping the batch acknowledges it.
    pub async fn next_batch(self: &Arc<Self>, max: usize) -> Option<Batch> {
        loop {
            // Before looking, so that what comes between the look and the wait is not missed.
            let notified = self.wake.notified();
            if self.pending.lock().closed {
                return None;
            }
            if let Some(batch) = self.try_next_batch(max) {
                return Some(batch);
            }
            notified.await;
        }
    }

    /// Hands out up to `max` events (at least one) that wait now.
    pub fn try_next_batch(self: &Arc<Self>, max: usize) -> Option<Batch> {
        let events = self.pending.lock().take(max.max(1), |key| self.indexer.get(key));
        if events.is_empty() {
            return None;
        }
        let initial = events.iter().filter(|e| matches!(e, Event::Added { initial: true, .. })).count();
        Some(Batch { ring: self.clone(), events, initial })
    }

    /// Takes in an event that was handed out and must be told again, before what waits of its key by now. All of them are held
    /// back until [`release`](Self::release). With [`Delivery::Latest`] a further event of the key, with which they are
    /// merged, ends that too.
    pub fn put_in_front(&self, event: Event) {
        self.change(|pending| pending.put_in_front(&event.key().clone(), Item::from(event)));
    }

    /// Events of these keys are not held back any longer.
    pub fn release<'a>(&self, keys: impl IntoIterator<Item = &'a ObjectKey>) {
        self.change(|pending| keys.into_iter().for_each(|key| pending.release(key)));
        self.wake_consumer();
    }

    /// No event is held back any longer. For the consumer, who is not woken.
    pub fn release_all(&self) {
        self.pending.lock().release_all();
    }

    /// Whether there may be an event to hand out. After [`try_next_batch`](Self::try_next_batch) had none, there is none
    /// until another one is taken in.
    #[must_use]
    pub fn has_next(&self) -> bool {
        self.pending.lock().has_next()
    }

    /// Forgets the deletions that were told before the last call of this, and what waits in front of them. For one who is
    /// not the consumer yet, and is not to keep what another consumer has long been told of; each deletion is kept over
    /// one call at least.
    pub fn forget_old_deletions(&self) {
        self.change(Pending::forget_old_deletions);
    }

    /// Takes over the deletions of a ring before that `filter` shows, and closes that one. This ring listens by now, and so has
    /// what is there; that one does not any more. For a ring that replaces another of which nothing was consumed.
    pub fn adopt_deletions(&self, before: &Self, filter: &impl EventFilter) {
        let mut deletions = before.pending.lock().take_deletions();
        before.close();
        deletions.retain(|(key, item, _)| match item {
            Item::Deleted { object: Some(last), .. } => filter.shows(last),
            _ => filter.shows_key(key),
        });
        self.change(|pending| {
            for (key, item, age) in deletions {
                pending.adopt(key, item, age);
            }
        });
        self.wake_consumer();
    }

    /// How many more keys wait than the store has objects: at least so many deletions wait.
    #[must_use]
    pub fn surplus(&self) -> usize {
        self.len().saturating_sub(self.indexer.len())
    }

    /// Drops what waits; from now on nothing is taken in or handed out.
    pub fn close(&self) {
        let mut pending = self.pending.lock();
        pending.closed = true;
        pending.clear();
        drop(pending);
        self.wake_consumer();
    }

    /// Whether the initial list was handed over completely and each of its events acknowledged.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Keys that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pending.lock().len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the ring has done.
    #[must_use]
    pub fn metrics(&self) -> RingMetrics {
        let pending = self.pending.lock();
        let counters = pending.counters;
        RingMetrics {
            depth: pending.len(),
            peak_depth: counters.peak,
            capacity: pending.capacity(),
            received: counters.received,
            delivered: counters.delivered,
            coalesced: counters.coalesced,
            fallbacks: counters.fallbacks,
            body_drops: counters.body_drops,
        }
    }

    fn push(&self, key: &ObjectKey, item: Item) {
        let mut pending = self.pending.lock();
        if pending.closed {
            return;
        }
        pending.push(key, item);
        // An add and a delete that cancel out may have been the last initial event.
        let synced = pending.synced();
        drop(pending);
        self.signal(synced);
        self.wake_consumer();
    }

    fn wake_consumer(&self) {
        self.wake.notify_one();
        if let Some(waker) = &*self.waker.load() {
            waker();
        }
    }

    fn signal(&self, synced: bool) {
        if synced && self.synced.send_if_modified(|was| !std::mem::replace(was, true)) {
            self.wake_consumer();
        }
    }

    fn change(&self, change: impl FnOnce(&mut Pending)) {
        let mut pending = self.pending.lock();
        change(&mut pending);
        let synced = pending.synced();
        drop(pending);
        self.signal(synced);
    }
}

impl Listener for Ring {
    fn on_add(&self, object: &Object, is_in_initial_list: bool) {
        let (object_kept, initial) = (RingBody::Kept(object.fresh()), is_in_initial_list);
        let item = Item::Added { object: object_kept, initial, updated: false };
        self.push(object.key(), item);
    }

    fn on_update(&self, old: &Object, new: &Object, _is_sync: bool) {
        self.push(new.key(), Item::Updated { old: Some(old.fresh()), new: RingBody::Kept(new.fresh()) });
    }

    fn on_delete(&self, key: &ObjectKey, object: Option<&Object>, final_state_unknown: bool) {
        self.push(key, Item::Deleted { object: object.map(Object::fresh), final_state_unknown, turn: 0 });
    }

    fn on_initial_list_end(&self) {
        self.change(Pending::end_initial_list);
    }

    fn synced(&self) -> Option<watch::Receiver<bool>> {
        Some(self.synced.subscribe())
    }

    fn depth(&self) -> usize {
        self.len()
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("metrics", &self.metrics()).finish_non_exhaustive()
    }
}

/// Events handed out together. Dropping it tells the ring that they were dealt with, well or badly: a handler that
/// failed must not keep its plugin from ever being synced.
#[derive(Debug)]
pub struct Batch {
    ring: Arc<Ring>,
    events: Vec<Event>,
    initial: usize,
}

impl Batch {
    /// The events, to be had by value; the batch stays what acknowledges them.
    #[must_use]
    pub fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }
}

impl std::ops::Deref for Batch {
    type Target = [Event];

    fn deref(&self) -> &[Event] {
        &self.events
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let initial = self.initial;
        if initial > 0 {
            self.ring.change(|pending| pending.acknowledge(initial));
        }
    }
}
