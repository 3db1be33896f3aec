//! [`DeltaFifo`]: what the reflector has seen and the informer has not handled yet.
//!
//! The queue is a sequence of *rounds*. A round of deltas holds keys in the order in which they became pending, and per
//! key all its deltas. A list (Replace) or a resync is a round of its own, and so a barrier: what came before is handled
//! before, what comes later starts a new round, and nothing is merged across. Whether a delta is news, and what a list
//! deletes, is decided against the store when it is handled, not here: by then the store is what the server had.
//!
//! Invariants:
//! - a key stands in a round of deltas at most once, and the round's table has the number of its place;
//! - two rounds of deltas are never neighbours;
//! - `deltas` counts all waiting deltas; producers wait while it is at the capacity;
//! - what [`Work::seen`] promises has been handed out completely.
//!
//! One consumer. Producer: the reflector. The lock is never held while work is handled.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use pilothouse_object::{Object, ObjectKey};
use tokio::sync::{Notify, watch};

use crate::delta::{Delta, Deltas};
use crate::error::CacheError;
use crate::sync::Mutex;
use crate::version::Version;

/// Holds deltas between the reflector and the informer.
pub struct DeltaFifo {
    state: Mutex<State>,
    capacity: usize,
    /// There is work, or the queue was closed.
    work: Notify,
    /// There is room, or the queue was closed.
    room: Notify,
    synced: watch::Sender<bool>,
}

/// What a consumer takes at once.
#[derive(Debug)]
pub struct Work {
    /// What is to be done.
    pub kind: WorkKind,
    /// The version up to which the store is complete once this is done; `None` before the first list.
    pub seen: Option<Arc<str>>,
    /// Whether this is the first list.
    pub initial: bool,
}

/// The kinds of [`Work`].
#[derive(Debug)]
pub enum WorkKind {
    /// Deltas of one or more keys, each key once; one transaction.
    Deltas(Vec<Deltas>),
    /// The store becomes equal to this list.
    Replace(Vec<Object>),
    /// Listeners that asked for it are told of every object again, except of keys that have deltas waiting.
    Resync,
    /// Nothing but `seen`.
    Bookmark,
}

#[derive(Default)]
struct State {
    rounds: VecDeque<Round>,
    deltas: usize,
    /// The version of the newest thing pushed.
    version: Version,
    /// Whether `version` was handed out.
    version_taken: bool,
    /// Lists pushed.
    lists: u64,
    closed: bool,
    /// The consumer found nothing and is to be woken.
    consumer_waits: bool,
    /// A producer found no room and is to be woken.
    producer_waits: bool,
    /// An empty round, so that a steady trickle allocates nothing.
    spare: Option<Keys>,
}

/// An empty round with room for more keys is not kept.
const SPARE: usize = 4096;

enum Round {
    Deltas(Keys),
    Replace {
        list: Vec<Object>,
        /// The version before it.
        before: Version,
        initial: bool,
    },
    Resync {
        before: Version,
    },
}

/// The deltas of one round, in the order in which their keys became pending.
struct Keys {
    pending: VecDeque<Pending>,
    /// The number of the first place.
    first: u64,
    /// Finds the number of a key's place.
    table: HashTable<u64>,
    hasher: RandomState,
}

impl Default for Keys {
    fn default() -> Self {
        // Far from both ends: places are added on either side.
        let first = u64::MAX / 2;
        Self { pending: VecDeque::new(), first, table: HashTable::new(), hasher: RandomState::default() }
    }
}

struct Pending {
    deltas: Deltas,
    hash: u64,
    /// The version before its first delta: with everything ahead of this key handled, the store is complete up to it.
    before: Version,
}

impl Keys {
    fn place(&self, hash: u64, key: &ObjectKey) -> Option<usize> {
        let at = |number: u64| usize::try_from(number - self.first).expect("places are counted in memory");
        self.table
            .find(hash, |number| self.pending[at(*number)].deltas.key() == key)
            .map(|number| at(*number))
    }

    fn contains(&self, key: &ObjectKey) -> bool {
        !self.pending.is_empty() && self.place(self.hasher.hash_one(key.as_str()), key).is_some()
    }

    /// Adds a delta to those of its key; tells whether there is one more than before.
    fn push(&mut self, delta: Delta, before: Version) -> bool {
        let hash = self.hasher.hash_one(delta.key().as_str());
        if let Some(place) = self.place(hash, delta.key()) {
            return self.pending[place].deltas.push(delta);
        }
        self.append(Deltas::new(delta), hash, before);
        true
    }

    fn append(&mut self, deltas: Deltas, hash: u64, before: Version) {
        let number = self.first + self.pending.len() as u64;
        self.pending.push_back(Pending { deltas, hash, before });
        self.enter(number, hash);
    }

    /// Puts the deltas of a key that is not there before all others. The store is not complete before they are handled.
    fn prepend(&mut self, deltas: Deltas) {
        let hash = self.hasher.hash_one(deltas.key().as_str());
        self.first -= 1;
        self.pending.push_front(Pending { deltas, hash, before: Version::None });
        self.enter(self.first, hash);
    }

    fn enter(&mut self, number: u64, hash: u64) {
        let Self { pending, first, table, .. } = self;
        let hash_of = |number: &u64| pending[usize::try_from(number - *first).unwrap_or_default()].hash;
        table.insert_unique(hash, number, hash_of);
    }

    /// Takes the first keys out.
    fn take(&mut self, count: usize) -> Vec<Deltas> {
        if count >= self.pending.len() {
            self.table.clear();
            self.first += self.pending.len() as u64;
            return self.pending.drain(..).map(|pending| pending.deltas).collect();
        }
        for (number, pending) in (self.first..).zip(self.pending.iter().take(count)) {
            if let Ok(entry) = self.table.find_entry(pending.hash, |place| *place == number) {
                entry.remove();
            }
        }
        self.first += count as u64;
        self.pending.drain(..count).map(|pending| pending.deltas).collect()
    }
}

impl DeltaFifo {
    /// Waiting deltas above which a producer has to wait, unless told otherwise: enough for bursts, and at 5.5 KB an
    /// object no more than 90 MB.
    pub const DEFAULT_CAPACITY: usize = 16_384;

    /// Keys handed out at once by the informer.
    pub const BATCH: usize = 1000;

    /// An empty queue that holds about `capacity` deltas.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            state: Mutex::new(State { version_taken: true, ..State::default() }),
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
    pub async fn push(&self, delta: Delta, version: Option<&str>) -> Result<(), CacheError> {
        self.when(|state| state.deltas < self.capacity, |state| state.push(delta, version)).await
    }

    /// Takes in a whole list as of `version`; waits while another one has not been taken out.
    ///
    /// # Errors
    /// When the queue is closed.
    pub async fn replace(&self, list: Vec<Object>, version: &str) -> Result<(), CacheError> {
        let no_other =
            |state: &State| !state.rounds.iter().any(|round| matches!(round, Round::Replace { .. }));
        self.when(no_other, |state| {
            let before = state.version.clone();
            let initial = state.lists == 0;
            state.lists += 1;
            state.rounds.push_back(Round::Replace { list, before, initial });
            state.advance(Some(version));
        })
        .await
    }

    /// Puts deltas back whose handling failed, unless newer ones of the key wait, or the queue was closed. Until they have
    /// been handled the store is not complete: the next work says so by naming no version.
    pub fn add_if_not_present(&self, deltas: Deltas) {
        self.state.lock().put_back(deltas);
        self.work.notify_one();
    }

    /// Whether it was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Notes that everything up to `version` has been pushed.
    pub fn bookmark(&self, version: &str) {
        self.state.lock().advance(Some(version));
        self.work.notify_one();
    }

    /// Asks for every object to be announced again; one request that waits stands for several.
    pub fn resync(&self) {
        {
            let mut state = self.state.lock();
            if state.closed || matches!(state.rounds.back(), Some(Round::Resync { .. })) {
                return;
            }
            let before = state.version.clone();
            state.rounds.push_back(Round::Resync { before });
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
        room: impl Fn(&State) -> bool,
        change: impl FnOnce(&mut State),
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

    /// Waits for work and takes up to `max` keys of it. `None`: closed and empty. Tell [`done`](Self::done) when it has
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

    /// How many lists have been pushed, and the version of the newest thing pushed.
    pub(crate) fn pushed(&self) -> (u64, Arc<str>) {
        let state = self.state.lock();
        (state.lists, state.version.to_text().unwrap_or_default())
    }

    /// Whether deltas of a key wait.
    #[must_use]
    pub fn is_pending(&self, key: &ObjectKey) -> bool {
        self.state.lock().rounds.iter().any(|round| match round {
            Round::Deltas(keys) => keys.contains(key),
            _ => false,
        })
    }

    /// Waiting deltas.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.lock().deltas
    }

    /// Whether nothing waits, neither deltas nor a list nor a resync.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state.lock().rounds.is_empty()
    }
}

impl State {
    fn advance(&mut self, version: Option<&str>) {
        if let Some(version) = version {
            self.version = version.into();
            self.version_taken = false;
        }
    }

    fn push(&mut self, delta: Delta, version: Option<&str>) {
        let before = self.version.clone();
        self.advance(version);
        let more = self.last_keys().push(delta, before);
        self.deltas += usize::from(more);
    }

    /// The round that takes deltas in.
    fn last_keys(&mut self) -> &mut Keys {
        if !matches!(self.rounds.back(), Some(Round::Deltas(_))) {
            self.rounds.push_back(Round::Deltas(self.spare.take().unwrap_or_default()));
        }
        match self.rounds.back_mut() {
            Some(Round::Deltas(keys)) => keys,
            _ => unreachable!("it was put there"),
        }
    }

    fn put_back(&mut self, deltas: Deltas) {
        let waits = |round: &Round| match round {
            Round::Deltas(keys) => keys.contains(deltas.key()),
            // A list has every key, or deletes it.
            Round::Replace { .. } => true,
            Round::Resync { .. } => false,
        };
        if self.closed || self.rounds.iter().any(waits) {
            return;
        }
        self.deltas += deltas.len();
        // At the front of the last round: what is behind it must not claim to be complete.
        self.last_keys().prepend(deltas);
    }

    fn pop(&mut self, max: usize) -> Option<Work> {
        let (kind, initial) = match self.rounds.front_mut() {
            Some(Round::Deltas(round)) => {
                let batch = round.take(max);
                if round.pending.is_empty()
                    && let Some(Round::Deltas(keys)) = self.rounds.pop_front()
                    && keys.pending.capacity() <= SPARE
                {
                    self.spare = Some(keys);
                }
                self.deltas -= batch.iter().map(Deltas::len).sum::<usize>();
                (WorkKind::Deltas(batch), false)
            }
            Some(_) => match self.rounds.pop_front()? {
                Round::Replace { list, initial, .. } => (WorkKind::Replace(list), initial),
                _ => (WorkKind::Resync, false),
            },
            None if self.version_taken => return None,
            None => (WorkKind::Bookmark, false),
        };
        // Complete up to what came before the first thing that still waits.
        let seen = match self.rounds.front() {
            Some(Round::Deltas(round)) => {
                round.pending.front().map_or(&self.version, |pending| &pending.before)
            }
            Some(Round::Replace { before, .. } | Round::Resync { before }) => before,
            None => {
                self.version_taken = true;
                &self.version
            }
        };
        let seen = seen.to_text();
        Some(Work { kind, seen, initial })
    }
}

impl std::fmt::Debug for DeltaFifo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeltaFifo").field("len", &self.len()).field("synced", &self.has_synced()).finish()
    }
}
