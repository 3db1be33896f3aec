//! [`DeltaFifo`]: the deltas that the reflector has pushed and the informer has not handled, in arrival order.
//!
//! The order is that of client-go's `RealFIFO`: deltas leave in the order in which they were pushed, across keys as well as
//! within a key, and none is merged with another, except a deletion that directly follows a deletion of the same key. A
//! list (Replace) and a resync are entries of their own, and barriers: a pop takes deltas up to the next one, or that one
//! alone. Whether a delta is news, and what a list deletes, is decided against the store when it is handled.
//!
//! Invariants:
//! - the version of an entry is that up to which everything has been pushed with it, so after a pop the store is complete
//!   up to the version of the last entry taken;
//! - a bookmark moves the version of the last entry; only in an empty queue it is work of its own;
//! - `deltas` counts the waiting deltas and `lists_waiting` the waiting lists; producers wait while one is at its limit.
//!
//! One consumer. Producer: the reflector. The lock is never held while work is handled.

use std::collections::{HashSet, VecDeque};

use foldhash::fast::RandomState;
use pilothouse_object::{Object, ObjectKey};
use tokio::sync::{Notify, watch};

use crate::delta::Delta;
use crate::error::CacheError;
use crate::sync::Mutex;
use crate::version::ResourceVersion;

/// Holds deltas between the reflector and the informer.
pub struct DeltaFifo {
    state: Mutex<FifoState>,
    capacity: usize,
    /// Wakes the consumer: there is work, or the queue was closed.
    work: Notify,
    /// Wakes producers: there is room, or the queue was closed.
    room: Notify,
    synced: watch::Sender<bool>,
}

/// What a consumer takes at once.
#[derive(Debug)]
pub struct Work {
    /// What is to be done.
    pub kind: WorkKind,
    /// The version up to which the store is complete once this is done; `None` before the first list.
    pub seen: Option<ResourceVersion>,
    /// Whether this is the first list.
    pub initial: bool,
}

/// The kinds of [`Work`].
#[derive(Debug)]
pub enum WorkKind {
    /// Deltas in arrival order, a key perhaps several times; one transaction.
    Deltas(Vec<Delta>),
    /// The store becomes equal to this list.
    Replace(Vec<Object>),
    /// Every object is announced again to the listeners that asked for it, except keys that have deltas waiting.
    Resync,
    /// Nothing but `seen`.
    Bookmark,
}

#[derive(Default)]
struct FifoState {
    entries: VecDeque<FifoEntry>,
    deltas: usize,
    lists_waiting: usize,
    /// The version up to which everything has been pushed; `None` before the first list.
    version: Option<ResourceVersion>,
    /// A bookmark moved `version` while the queue was empty.
    bookmarked: bool,
    lists_pushed: u64,
    closed: bool,
    /// The consumer found nothing and waits on `work`.
    consumer_waits: bool,
    /// A producer found no room and waits on `room`.
    producer_waits: bool,
}

/// Entries for which an empty queue keeps its memory, so that a steady trickle allocates nothing.
const KEPT_CAPACITY: usize = 1024;

struct FifoEntry {
    kind: FifoEntryKind,
    version: Option<ResourceVersion>,
}

enum FifoEntryKind {
    Delta(Delta),
    Replace { list: Vec<Object>, initial: bool },
    Resync,
}

impl DeltaFifo {
    /// Waiting deltas above which a producer has to wait, unless told otherwise: enough for bursts, and at 5.5 KB an
    /// object no more than 90 MB.
    pub const DEFAULT_CAPACITY: usize = 16_384;

    /// Deltas handed out at once to the informer.
    pub const BATCH: usize = 1000;

    /// An empty queue that holds about `capacity` deltas.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            state: Mutex::new(FifoState::default()),
            capacity: capacity.max(1),
            work: Notify::new(),
            room: Notify::new(),
            synced: watch::Sender::new(false),
        }
    }

    // The producer's side.

    /// Takes in a delta; waits while the consumer is far behind. `version`: everything up to it has been pushed with
    /// this delta; `None` when the delta came out of order (the synthetic adds of a watch from "0").
    ///
    /// # Errors
    /// When the queue is closed.
    pub async fn push(&self, delta: Delta, version: Option<ResourceVersion>) -> Result<(), CacheError> {
        self.when(|state| state.deltas < self.capacity, |state| state.push(delta, version)).await
    }

    /// Takes in a whole list as of `version`; waits while another one has not been taken out.
    ///
    /// # Errors
    /// When the queue is closed.
    pub async fn replace(
        &self,
        list: Vec<Object>,
        version: impl Into<ResourceVersion>,
    ) -> Result<(), CacheError> {
        let version = version.into();
        self.when(
            |state| state.lists_waiting == 0,
            |state| {
                let initial = state.lists_pushed == 0;
                state.lists_pushed += 1;
                state.lists_waiting += 1;
                state.append(FifoEntryKind::Replace { list, initial }, Some(version));
            },
        )
        .await
    }

    /// Notes that everything up to `version` has been pushed.
    pub fn bookmark(&self, version: impl Into<ResourceVersion>) {
        self.state.lock().bookmark(version.into());
        self.work.notify_one();
    }

    /// Asks for every object to be announced again; one request that waits stands for several.
    pub fn resync(&self) {
        {
            let mut state = self.state.lock();
            let last = state.entries.back().map(|entry| &entry.kind);
            if state.closed || matches!(last, Some(FifoEntryKind::Resync)) {
                return;
            }
            state.append(FifoEntryKind::Resync, None);
        }
        self.work.notify_one();
    }

    /// Ends the queue: nothing more is taken in, what is in it is still handed out.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.work.notify_one();
        self.room.notify_waiters();
    }

    async fn when(
        &self,
        room: impl Fn(&FifoState) -> bool,
        change: impl FnOnce(&mut FifoState),
    ) -> Result<(), CacheError> {
        loop {
            let made = {
                let mut state = self.state.lock();
                if state.closed {
                    return Err(CacheError::Closed);
                }
                if room(&state) {
                    change(&mut state);
                    if std::mem::take(&mut state.consumer_waits) {
                        self.work.notify_one();
                    }
                    return Ok(());
                }
                state.producer_waits = true;
                // Under the lock, so that no room that is made from here on is missed.
                self.room.notified()
            };
            made.await;
        }
    }

    // The consumer's side.

    /// Waits for work and takes up to `max` deltas of it. `None`: closed and empty. Tell [`done`](Self::done) when it has
    /// been handled. Cancel-safe.
    pub async fn pop(&self, max: usize) -> Option<Work> {
        loop {
            let notified = self.work.notified();
            {
                let mut state = self.state.lock();
                if let Some(work) = state.pop(max.max(1)) {
                    let producer_waits = std::mem::take(&mut state.producer_waits);
                    drop(state);
                    if producer_waits {
                        self.room.notify_waiters();
                    }
                    return Some(work);
                }
                if state.closed {
                    return None;
                }
                state.consumer_waits = true;
            }
            notified.await;
        }
    }

    /// The work was handled: after the first list, the queue counts as synced.
    pub fn done(&self, initial: bool) {
        if initial {
            self.synced.send_replace(true);
        }
    }

    // Both.

    /// Whether the first list has been handled.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Turns true when the first list has been handled.
    #[must_use]
    pub fn synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }

    /// How many lists have been pushed.
    pub(crate) fn lists_pushed(&self) -> u64 {
        self.state.lock().lists_pushed
    }

    /// The keys of the waiting deltas.
    #[must_use]
    pub fn pending_keys(&self) -> HashSet<ObjectKey, RandomState> {
        let state = self.state.lock();
        let key = |entry: &FifoEntry| match &entry.kind {
            FifoEntryKind::Delta(delta) => Some(delta.key().clone()),
            _ => None,
        };
        state.entries.iter().filter_map(key).collect()
    }

    /// Waiting deltas.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.lock().deltas
    }

    /// Whether nothing waits, neither deltas nor a list nor a resync.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state.lock().entries.is_empty()
    }
}

impl FifoState {
    fn append(&mut self, kind: FifoEntryKind, version: Option<ResourceVersion>) {
        if version.is_some() {
            self.version = version;
        }
        // The version of this entry covers that of a bookmark before it.
        self.bookmarked = false;
        self.entries.push_back(FifoEntry { kind, version: self.version.clone() });
    }

    fn push(&mut self, delta: Delta, version: Option<ResourceVersion>) {
        if let Some(FifoEntry { kind: FifoEntryKind::Delta(last), .. }) = self.entries.back_mut()
            && last.is_deletion()
            && delta.is_deletion()
            && last.key() == delta.key()
        {
            last.merge_deletion(delta);
            if let Some(version) = version {
                self.bookmark(version);
            }
            return;
        }
        self.deltas += 1;
        self.append(FifoEntryKind::Delta(delta), version);
    }

    fn bookmark(&mut self, version: ResourceVersion) {
        self.version = Some(version);
        match self.entries.back_mut() {
            Some(last) => last.version = self.version.clone(),
            None => self.bookmarked = true,
        }
    }

    fn pop(&mut self, max: usize) -> Option<Work> {
        let Some(FifoEntry { kind, version: mut seen }) = self.entries.pop_front() else {
            let bookmarked = std::mem::take(&mut self.bookmarked);
            let seen = self.version.clone();
            return bookmarked.then_some(Work { kind: WorkKind::Bookmark, seen, initial: false });
        };
        let (kind, initial) = match kind {
            FifoEntryKind::Delta(first) => {
                let mut batch = Vec::with_capacity(max.min(self.deltas));
                batch.push(first);
                let is_delta = |entry: &mut FifoEntry| matches!(entry.kind, FifoEntryKind::Delta(_));
                while batch.len() < max
                    && let Some(entry) = self.entries.pop_front_if(is_delta)
                    && let FifoEntryKind::Delta(delta) = entry.kind
                {
                    batch.push(delta);
                    seen = entry.version;
                }
                self.deltas -= batch.len();
                (WorkKind::Deltas(batch), false)
            }
            FifoEntryKind::Replace { list, initial } => {
                self.lists_waiting -= 1;
                (WorkKind::Replace(list), initial)
            }
            FifoEntryKind::Resync => (WorkKind::Resync, false),
        };
        if self.entries.is_empty() {
            self.entries.shrink_to(KEPT_CAPACITY);
        }
        Some(Work { kind, seen, initial })
    }
}

impl std::fmt::Debug for DeltaFifo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeltaFifo").field("len", &self.len()).field("synced", &self.has_synced()).finish()
    }
}
