//! [`Queue`]: the public handle.
//!
//! Invariant: all handles of one queue show the same queue; none of the calls but `get` and a drain waits. Called by
//! the manager: event listeners and outcomes of reconciles add, workers get and give back.

use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::Nanos;
use crate::drain::Drain;
use crate::limiter::RateLimiter;
use crate::shared::Shared;
use crate::slots::{self, Hash32};
use crate::state::{Add, State};
use crate::{AddOptions, Item, Merge, Priority, QueueBuilder, QueueStats, Verdict, get};

/// Keys that a batch adds or gives back under one lock.
const BATCH: usize = 64;

/// A work queue of keys `K`, with an `M` that travels along with a key; a handle that is cheap to clone.
///
/// Time is tokio's, so a test may pause it. A delayed key counts as ready from its deadline on, without any task that
/// would move it: the next call finds it, and a worker that waits in [`get`](Self::get) wakes for it. (A queue that
/// is called more than some 8,000 times a second reads the clock for every 16th call only, and may find it a few
/// milliseconds later; and of many that come due together, each call makes 1,024 ready.)
///
/// Code that the queue calls under its lock must not call the queue: `Clone`, `Eq`, `Hash` and `Drop` of keys, [`Merge`] and
/// `Drop` of payloads, [`RateLimiter`], and closures. Keys must not panic. A panic of the others loses no other key and no wake-up.
///
/// ```
/// use pilothouse_workqueue::{Priority, Queue};
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let queue: Queue<&str> = Queue::new();
/// queue.add("default/web");
/// queue.add_with("default/web", (), Priority::LOW); // waits already: one run
/// queue.shut_down();
/// while let Some(item) = queue.get().await {
///     assert_eq!(item.key, "default/web");
///     queue.forget(&item.key);
///     queue.done(item);
/// }
/// # }
/// ```
pub struct Queue<K, M = ()> {
    pub(crate) shared: Arc<Shared<K, M>>,
}

impl<K, M> Clone for Queue<K, M> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K: Clone + Eq + Hash + Send + 'static, M: Merge> Default for Queue<K, M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Clone + Eq + Hash, M: Merge> fmt::Debug for Queue<K, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("name", &self.name())
            .field("shutting_down", &self.shutting_down())
            .field("stats", &self.stats())
            .finish()
    }
}

impl<K: Clone + Eq + Hash + Send + 'static, M: Merge> Queue<K, M> {
    /// An empty queue with [`default_controller_rate_limiter`](crate::default_controller_rate_limiter).
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A queue with options.
    pub fn builder() -> QueueBuilder<K, M> {
        QueueBuilder::new()
    }

    /// An empty queue with this limiter for [`add_rate_limited`](Self::add_rate_limited).
    #[must_use]
    pub fn with_rate_limiter(limiter: impl RateLimiter + 'static) -> Self {
        Self::builder().rate_limiter(limiter).build()
    }
}

impl<K: Clone + Eq + Hash, M: Merge> Queue<K, M> {
    /// Adds a key with a neutral payload at normal priority.
    pub fn add(&self, key: K) {
        self.add_with(key, M::default(), Priority::NORMAL);
    }

    /// Adds a key: it will be handed out once, however often it is added before that.
    ///
    /// A key that waits already keeps its place and merges the payload; a higher priority moves it to the end of that
    /// priority, a lower one changes nothing. A key in processing is handed out again after [`done`](Self::done). Dropped
    /// if the queue is shutting down. A delay of the same key stays and fires later all the same, unless
    /// [`AddOptions::coalesce`] is set.
    pub fn add_with(&self, key: K, payload: M, priority: Priority) {
        let add = self.hashed((key, payload, priority), false);
        self.shared.locked(|state| state.add(add));
    }

    /// Adds a key with options, as controller-runtime's `AddWithOpts`. Returns the delay, zero if there is none; `None` if
    /// the queue is shutting down and does not take the key. A failure is not counted then.
    pub fn add_with_options(&self, key: K, payload: M, options: AddOptions) -> Option<Duration> {
        let AddOptions { priority, rate_limited, after, coalesce, .. } = options;
        let add = Add { hash: self.hash(&key), key, payload, priority, coalesce };
        if !rate_limited && after.is_zero() {
            return self.shared.locked(|state| state.add(add)).then_some(Duration::ZERO);
        }
        let now = self.shared.clock.now();
        self.shared.locked(|state| match rate_limited {
            true => state.add_rate_limited(add, &options, now),
            false => state.add_after(add, after, now).then_some(after),
        })
    }

    /// Adds keys that failed together as [`add_with_options`](Self::add_with_options) does with `rate_limited`. The limiter
    /// counts one failure of each key, and one try of all keys together ([`RateLimiter::when_all`]).
    pub fn add_rate_limited_batch(&self, adds: Vec<(K, M, Priority)>, options: AddOptions) {
        let now = self.shared.clock.now();
        let adds: Vec<_> = adds.into_iter().map(|add| self.hashed(add, options.coalesce)).collect();
        let keys = adds.iter().map(|add| (add.hash, &add.key));
        let delays = self.shared.locked(|state| state.delays_of_all(keys));
        let mut adds = adds.into_iter().zip(delays).peekable();
        while adds.peek().is_some() {
            self.shared.locked(|state| {
                for (add, delay) in adds.by_ref().take(BATCH) {
                    state.add_failed(add, delay, &options, now);
                }
            });
        }
    }

    /// Adds keys in their order as [`add_with`](Self::add_with) does, 64 under one lock.
    pub fn add_batch(&self, adds: impl IntoIterator<Item = (K, M, Priority)>) {
        self.add_in_chunks(adds, false);
    }

    /// Adds keys as [`add_batch`](Self::add_batch) does, each with [`AddOptions::coalesce`]: a delay of a key ends.
    pub fn add_batch_coalesced(&self, adds: impl IntoIterator<Item = (K, M, Priority)>) {
        self.add_in_chunks(adds, true);
    }

    fn add_in_chunks(&self, adds: impl IntoIterator<Item = (K, M, Priority)>, coalesce: bool) {
        let mut adds = adds.into_iter().map(|add| self.hashed(add, coalesce)).fuse();
        let mut chunk = Vec::with_capacity(adds.size_hint().0.min(BATCH));
        loop {
            chunk.extend(adds.by_ref().take(BATCH));
            if chunk.is_empty() {
                return;
            }
            self.shared.locked(|state| state.add_all(chunk.drain(..)));
        }
    }

    /// Adds a key once `delay` has passed; at once if it is zero.
    ///
    /// A key has one delay: the earlier deadline wins and is never postponed, payloads merge, the higher priority
    /// counts. Delays beyond 30 years are taken for 30 years. Dropped if the queue is shutting down.
    pub fn add_after(&self, key: K, payload: M, priority: Priority, delay: Duration) {
        let (now, add) = (self.shared.clock.now(), self.hashed((key, payload, priority), false));
        self.shared.locked(|state| state.add_after(add, delay, now));
    }

    /// Counts a failure of the key and adds it after the delay that the limiter returns. Returns that delay; `None` if the
    /// queue is shutting down: it takes no key then, and counts no failure.
    ///
    /// The key is then *in backoff*, see [`release_backoff`](Self::release_backoff), unless it has an earlier deadline
    /// by [`add_after`](Self::add_after).
    pub fn add_rate_limited(&self, key: K, payload: M, priority: Priority) -> Option<Duration> {
        let options = AddOptions { priority, rate_limited: true, ..AddOptions::default() };
        self.add_with_options(key, payload, options)
    }

    /// Forgets the failures of a key. To be called on success, on a terminal error and when the object is gone, or the
    /// queue remembers the key for an hour. A delay that was set already stays.
    pub fn forget(&self, key: &K) {
        self.shared.locked(|state| state.forget(key));
    }

    /// How often the key was added rate-limited since it was last forgotten.
    #[must_use]
    pub fn num_requeues(&self, key: &K) -> u32 {
        let hash = self.hash(key);
        self.shared.locked(|state| state.num_requeues(hash, key))
    }

    /// Replaces the limiter, and forgets the failures of all keys. Delays that were set already stay.
    pub fn set_rate_limiter(&self, limiter: impl RateLimiter + 'static) {
        drop(self.shared.locked(|state| state.set_rate_limiter(Box::new(limiter))));
    }

    /// Waits for a key and takes it; `None` if the queue is shutting down and has nothing left to hand out.
    ///
    /// During a drain, keys that are delayed and keys that must run again after their present run are waited for.
    /// The key must be given back with [`done`](Self::done). May be dropped at any time: no key and no wake-up is lost.
    pub async fn get(&self) -> Option<Item<K, M>> {
        get::get(&self.shared).await
    }

    /// Takes a key if one is ready.
    #[must_use]
    pub fn try_get(&self) -> Option<Item<K, M>> {
        self.shared.locked(State::take)
    }

    /// Gives a key back after its work. If it was added meanwhile it joins the end of its priority. Does nothing for a
    /// key that is not in processing.
    #[allow(clippy::needless_pass_by_value, reason = "an item is given back once")]
    pub fn done(&self, item: Item<K, M>) {
        if !item.is_finished() {
            self.shared.locked(|state| state.done(&item, None));
        }
    }

    /// Gives a key back as [`done`](Self::done) does, and does what follows from its run, under one lock: forgets or counts
    /// its failures, and adds it again, with the payload and the priority of the item and [`AddOptions::coalesce`]. Returns
    /// the delay until the next run; none if there is no next run, or the queue is shutting down.
    ///
    /// The item keeps its key for the caller. It is finished: a further call, or `done`, does nothing.
    pub fn finish(&self, item: &mut Item<K, M>, verdict: Verdict) -> Option<Duration> {
        self.finish_run(item, verdict, None)
    }

    /// Does the same for a run that `ended` a moment ago, for a caller that has read the clock then: the delay begins there, and
    /// `workqueue_work_duration_seconds` ends there.
    pub fn finish_at(&self, item: &mut Item<K, M>, verdict: Verdict, ended: Instant) -> Option<Duration> {
        self.finish_run(item, verdict, Some(self.shared.clock.nanos(ended)))
    }

    fn finish_run(&self, item: &mut Item<K, M>, verdict: Verdict, ended: Option<Nanos>) -> Option<Duration> {
        if item.is_finished() {
            return None;
        }
        self.shared.locked(|state| state.finish(item, verdict, ended))
    }

    /// Gives keys back as [`done`](Self::done) does, 64 under one lock.
    pub fn done_batch(&self, items: impl IntoIterator<Item = Item<K, M>>) {
        // A vector is taken as it is; its keys end without the lock.
        let items: Vec<_> = items.into_iter().collect();
        for chunk in items.chunks(BATCH) {
            self.shared.locked(|state| state.done_all(chunk));
        }
    }

    /// Number of keys that are ready; excludes those in processing and those delayed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.caught_up(|state| state.len())
    }

    /// True if the queue holds the key (ready, delayed or in processing) or fewer than `most` keys: to bound the keys that
    /// another party adds. Concurrent adds may exceed the bound by a few keys.
    #[must_use]
    pub fn has_room_for(&self, key: &K, most: usize) -> bool {
        let hash = self.hash(key);
        self.shared.locked(|state| state.has_room_for(hash, key, most))
    }

    /// [`has_room_for`](Self::has_room_for) all of these keys.
    #[must_use]
    pub fn has_room_for_all(&self, keys: &[K], most: usize) -> bool {
        let hashes: Vec<_> = keys.iter().map(|key| self.hash(key)).collect();
        self.shared.locked(|state| {
            // Keys that are named twice count twice, unless the queue holds them.
            let held = |(hash, key): (&Hash32, &K)| state.holds(*hash, key);
            let new = hashes.iter().zip(keys).filter(|of| !held((of.0, of.1))).count();
            new == 0 || state.held() + new <= most
        })
    }

    /// True if no key is ready.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of keys that wait for a deadline.
    #[must_use]
    pub fn len_delayed(&self) -> usize {
        self.shared.caught_up(|state| state.len_delayed())
    }

    /// Whether a delayed key is due within this time. May also be true for a deadline of a delay that ended early.
    #[must_use]
    pub fn is_due_within(&self, time: Duration) -> bool {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.shared.caught_up(|state| state.is_due_within(nanos))
    }

    /// Drops the delay of a key and its payload; false if it has none. Its failure count stays.
    pub fn cancel_delayed(&self, key: &K) -> bool {
        let hash = self.hash(key);
        self.shared.caught_up(|state| state.cancel_delayed(hash, key)).is_some()
    }

    /// Makes the delayed keys that `filter` accepts ready now, in the order of their deadlines; returns how many.
    ///
    /// `filter` runs under the queue's lock and must not call the queue.
    pub fn expedite_all(&self, mut filter: impl FnMut(&K) -> bool) -> usize {
        self.shared.caught_up(|state| state.expedite(|key, _| filter(key)))
    }

    /// Makes all keys in backoff ready now, forgets all failures and clears the limiter; keys that wait by [`add_after`](Self::add_after)
    /// keep their time. Returns how many became ready. For the reload of a plugin, whose new version deserves a new
    /// chance.
    pub fn release_backoff(&self) -> usize {
        self.shared.caught_up(|state| {
            state.forget_all();
            state.expedite(|_, is_backoff| is_backoff)
        })
    }

    /// Takes no further adds and drops delayed keys; queued keys are still handed out. Ends drains.
    pub fn shut_down(&self) {
        drop(self.shared.caught_up(State::shut_down));
    }

    /// Takes no adds from now on (at once, not when first polled) and waits until nothing is queued, delayed or
    /// processing, or until [`shut_down`](Self::shut_down).
    ///
    /// The wait ends only if workers go on to get and give back keys, and it includes long delays, unless the
    /// caller cancels or expedites them. May be called several times; all callers return. Dropping the future stops
    /// the waiting and leaves the queue draining.
    pub fn shut_down_with_drain(&self) -> impl Future<Output = ()> + use<K, M> {
        Drain::start(Arc::clone(&self.shared))
    }

    /// True after [`shut_down`](Self::shut_down) or [`shut_down_with_drain`](Self::shut_down_with_drain).
    #[must_use]
    pub fn shutting_down(&self) -> bool {
        self.shared.locked(|state| state.shutting_down())
    }

    /// The name it was made with.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.shared.name.as_deref()
    }

    /// The figures of this moment; costs as much as there are keys in processing.
    #[must_use]
    pub fn stats(&self) -> QueueStats {
        self.shared.caught_up(State::stats)
    }

    #[inline]
    fn hashed(&self, (key, payload, priority): (K, M, Priority), coalesce: bool) -> Add<K, M> {
        Add { hash: self.hash(&key), key, payload, priority, coalesce }
    }

    #[inline]
    fn hash(&self, key: &K) -> Hash32 {
        slots::hash(&self.shared.hasher, key)
    }
}
