//! [`LeadershipGate`]: between the listeners of a plugin's watches and its queue.
//!
//! On a standby the gate is closed: a changed object stays in the cache until the term begins, and the key of a deleted
//! object goes into the [`TombstoneBuffer`]. So the queue does not grow on a standby. When the term begins the gate opens.
//! From then on changes go into the queue; the tombstones follow, and then the keys of all cached objects
//! (`lifecycle/standby.rs`).
//!
//! Where hosts share the keys of the plugin, the gate has a part for each shard, which opens and closes with the terms of that
//! shard. Of other plugins it has one part, which opens once. It closes when the plugin gives way to a successor, whose gate
//! gets its tombstones.
//!
//! Invariant: for each changed object, either the part of its key was open and the key was added, or the change was in the cache
//! before the part opened and a reader of the cache finds it. Both sides take the lock of `closed` in between. A key that
//! is added while its part closes may still get into the queue: the worker that takes it drops it (`worker/take.rs`).
//!
//! Callers: the mappers, from inside the informers' calls, the workers, and the tasks that begin and end terms.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use pilothouse_election::KeyShards;
use pilothouse_object::ObjectKey;
use pilothouse_workqueue::{AddOptions, Priority, Queue};
use prometheus_client::metrics::gauge::Gauge;

use crate::dispatch::reasons::Reasons;
use crate::dispatch::tombstones::{MAX_TOMBSTONES, TombstoneBuffer};

/// How long a key without a term waits before it is added again. The end of the term closes the gate long before.
const KEPT_AGAIN: Duration = Duration::from_secs(1);

/// Adds keys to the queue of a plugin on the leader, and keeps the keys of deleted objects on a standby.
pub(crate) struct LeadershipGate {
    plugin: Arc<str>,
    queue: Queue<ObjectKey, Reasons>,
    /// Which key is in which part; none if there is one part.
    shards: Option<KeyShards>,
    parts: Vec<GatePart>,
    /// Most tombstones of all parts.
    most: usize,
    /// Tombstones of all parts.
    kept: AtomicUsize,
    /// The loss of tombstones was logged, since a part was opened.
    warned: AtomicBool,
    /// Shows the number of tombstones.
    size: Gauge,
}

struct GatePart {
    /// The tombstones; none while it is open.
    closed: Mutex<Option<TombstoneBuffer>>,
    /// Whether `closed` is none, readable without its lock; set under it.
    open: AtomicBool,
}

impl LeadershipGate {
    /// A gate that lets everything through.
    pub(crate) fn opened(plugin: &Arc<str>, queue: &Queue<ObjectKey, Reasons>) -> Self {
        let gate = Self::closed(plugin, queue, Gauge::default(), None);
        gate.open(0);
        gate
    }

    /// The gate of a standby; `size` shows the number of tombstones. It has a part for each shard of the keys, if there are any.
    pub(crate) fn closed(
        plugin: &Arc<str>,
        queue: &Queue<ObjectKey, Reasons>,
        size: Gauge,
        shards: Option<KeyShards>,
    ) -> Self {
        Self::with_bound(plugin, queue, size, shards, MAX_TOMBSTONES)
    }

    /// The gate of a standby, with at most so many tombstones.
    fn with_bound(
        plugin: &Arc<str>,
        queue: &Queue<ObjectKey, Reasons>,
        size: Gauge,
        shards: Option<KeyShards>,
        most: usize,
    ) -> Self {
        let part = |_| GatePart {
            closed: Mutex::new(Some(TombstoneBuffer::new(most))),
            open: AtomicBool::new(false),
        };
        Self {
            plugin: Arc::clone(plugin),
            queue: queue.clone(),
            parts: (0..shards.as_ref().map_or(1, KeyShards::count)).map(part).collect(),
            shards,
            most,
            kept: AtomicUsize::new(0),
            warned: AtomicBool::new(false),
            size,
        }
    }

    /// The queue behind the gate.
    pub(crate) fn queue(&self) -> &Queue<ObjectKey, Reasons> {
        &self.queue
    }

    /// The number of the part of a key.
    fn number_of(&self, key: &ObjectKey) -> usize {
        self.shards.as_ref().map_or(0, |shards| shards.of(key.namespace()))
    }

    /// The part that the terms of a shard open.
    fn part(&self, shard: usize) -> &GatePart {
        &self.parts[self.shards.as_ref().map_or(0, |_| shard)]
    }

    /// Adds a key because of a cached object. A standby adds nothing: the object is still in the cache when the term begins.
    pub(crate) fn add(&self, key: ObjectKey, reasons: Reasons, priority: Priority) {
        let part = &self.parts[self.number_of(&key)];
        if !part.is_open() && part.still_closed().is_some() {
            return;
        }
        self.enqueue(key, reasons, priority);
    }

    /// Adds a key because of an object that is not in the cache any more, or not visible. A standby keeps the key.
    pub(crate) fn add_deleted(&self, key: ObjectKey, reasons: Reasons) {
        let reasons = reasons.of_gone();
        if let Some(key) = self.remember(key, reasons) {
            self.enqueue(key, reasons, Priority::NORMAL);
        }
    }

    /// Keeps a key of an object that is gone, which was taken from the queue when the host had no term of its shard. If its part
    /// is open all the same, because the term has not been ended yet or the next one has begun, the key comes again later.
    pub(crate) fn keep_deleted(&self, key: ObjectKey, reasons: Reasons) {
        if let Some(key) = self.remember(key, reasons) {
            self.queue.add_after(key, reasons, Priority::NORMAL, KEPT_AGAIN);
        }
    }

    /// A change ends a pending `requeue-after` or backoff of its key, as in controller-runtime: both are one run.
    fn enqueue(&self, key: ObjectKey, reasons: Reasons, priority: Priority) {
        self.queue.add_with_options(
            key,
            reasons,
            AddOptions { priority, coalesce: true, ..AddOptions::default() },
        );
    }

    /// Keeps a key if its part is closed; returns it otherwise.
    fn remember(&self, key: ObjectKey, reasons: Reasons) -> Option<ObjectKey> {
        let part = &self.parts[self.number_of(&key)];
        if part.is_open() {
            return Some(key);
        }
        let closed = part.still_closed();
        if closed.is_none() {
            return Some(key);
        }
        self.change(closed, |tombstones| tombstones.insert(key, reasons));
        while self.kept.load(Ordering::Relaxed) > self.most {
            self.drop_oldest();
        }
        None
    }

    /// Changes the tombstones of a part, if it is closed, and counts them.
    fn change(
        &self,
        closed: Option<MappedMutexGuard<'_, TombstoneBuffer>>,
        change: impl FnOnce(&mut TombstoneBuffer),
    ) {
        let Some(mut tombstones) = closed else { return };
        let before = tombstones.len();
        change(&mut tombstones);
        let after = tombstones.len();
        self.size.inc_by(signed(after) - signed(before));
        // Under the lock of the part, so that no other one subtracts what was not added yet.
        self.kept.fetch_add(after.saturating_sub(before), Ordering::Relaxed);
        self.kept.fetch_sub(before.saturating_sub(after), Ordering::Relaxed);
    }

    /// Drops the oldest tombstones of the part that has the most.
    fn drop_oldest(&self) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                event = "standby_deletions_lost",
                plugin = &*self.plugin,
                most = self.most,
                "too many deletions to remember on a standby: after a takeover this plugin may miss deletions"
            );
        }
        let len = |part: &&GatePart| part.still_closed().map_or(0, |tombstones| tombstones.len());
        if let Some(fullest) = self.parts.iter().max_by_key(len) {
            self.change(fullest.still_closed(), TombstoneBuffer::drop_oldest);
        }
    }

    /// Drops the tombstones of a shard that are older than the last rotation.
    pub(crate) fn rotate(&self, shard: usize) {
        self.change(self.part(shard).still_closed(), TombstoneBuffer::rotate);
    }

    /// Opens the part of a shard and adds its tombstones to the queue. Returns their number; none when it was open already.
    pub(crate) fn open(&self, shard: usize) -> Option<usize> {
        let part = self.part(shard);
        let tombstones = {
            let mut closed = part.closed.lock();
            let tombstones = closed.take()?;
            part.open.store(true, Ordering::Release);
            self.kept.fetch_sub(tombstones.len(), Ordering::Relaxed);
            tombstones
        };
        self.warned.store(false, Ordering::Relaxed);
        let count = tombstones.len();
        self.size.dec_by(signed(count));
        let keys = tombstones.into_keys().map(|(key, reasons)| (key, reasons, Priority::NORMAL));
        self.queue.add_batch(keys);
        Some(count)
    }

    /// Closes the part of a shard, whose term is over.
    pub(crate) fn close(&self, shard: usize) {
        let part = self.part(shard);
        let mut closed = part.closed.lock();
        part.open.store(false, Ordering::Release);
        closed.get_or_insert_with(|| TombstoneBuffer::new(self.most));
    }

    /// Passes the tombstones on to the gate of the plugin that takes the place of this one, as deletions of now.
    pub(crate) fn hand_over(&self, successor: &Self) {
        for part in &self.parts {
            let mut tombstones = TombstoneBuffer::new(self.most);
            self.change(part.still_closed(), |own| std::mem::swap(own, &mut tombstones));
            tombstones.into_keys().for_each(|(key, reasons)| successor.add_deleted(key, reasons));
        }
    }

    /// Number of tombstones.
    #[cfg(test)]
    pub(crate) fn tombstones(&self) -> usize {
        let of = |part: &GatePart| part.still_closed().map_or(0, |tombstones| tombstones.len());
        self.parts.iter().map(of).sum()
    }

    /// Whether changes go into the queue; where the keys are shared, some of them.
    pub(crate) fn is_open(&self) -> bool {
        self.parts.iter().any(GatePart::is_open)
    }

    /// Whether changes of a key go into the queue, and the key is in one of the shards that are asked for, if any are.
    pub(crate) fn is_open_for(&self, key: &ObjectKey, only: Option<&BTreeSet<usize>>) -> bool {
        let own = self.number_of(key);
        self.parts[own].is_open() && only.is_none_or(|only| only.contains(&own))
    }
}

/// A plugin and its successor have one gauge.
impl Drop for LeadershipGate {
    fn drop(&mut self) {
        self.size.dec_by(signed(*self.kept.get_mut()));
    }
}

impl GatePart {
    fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// The tombstones of a closed part. It stays closed while the guard is held.
    fn still_closed(&self) -> Option<MappedMutexGuard<'_, TombstoneBuffer>> {
        MutexGuard::try_map(self.closed.lock(), Option::as_mut).ok()
    }
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    fn key(number: usize) -> ObjectKey {
        format!("ns/{number}").parse().unwrap()
    }

    fn gate() -> (LeadershipGate, Queue<ObjectKey, Reasons>, Gauge) {
        let (queue, gauge) = (Queue::new(), Gauge::default());
        (LeadershipGate::closed(&Arc::from("p"), &queue, gauge.clone(), None), queue, gauge)
    }

    #[test]
    fn a_closed_gate_adds_nothing_and_remembers_what_is_gone() {
        let (gate, queue, gauge) = gate();
        gate.add(key(1), Reasons::UPDATED, Priority::NORMAL);
        gate.add_deleted(key(2), Reasons::DELETED);
        assert_eq!((queue.len(), gauge.get()), (0, 1));
        gate.rotate(0);
        assert_eq!(gauge.get(), 1);
        gate.add_deleted(key(3), Reasons::OWNED);
        gate.rotate(0);
        assert_eq!(gate.open(0), Some(1));
        let item = queue.try_get().unwrap();
        assert_eq!(
            (&item.key, item.payload, item.priority),
            (&key(3), Reasons::OWNED.of_gone(), Priority::NORMAL)
        );
        assert_eq!((queue.len(), gauge.get()), (0, 0));
    }

    #[test]
    fn an_open_gate_adds_everything_and_opens_once() {
        let (gate, queue, gauge) = gate();
        assert_eq!(gate.open(0), Some(0));
        gate.add(key(1), Reasons::UPDATED, Priority::LOW);
        gate.add_deleted(key(2), Reasons::DELETED);
        gate.rotate(0);
        assert_eq!((gate.open(0), queue.len(), gauge.get()), (None, 2, 0));
        assert_eq!(LeadershipGate::opened(&Arc::from("p"), &Queue::new()).open(0), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_ends_the_delay_of_its_key() {
        let queue = Queue::new();
        let gate = LeadershipGate::opened(&Arc::from("p"), &queue);
        for number in 1..=2 {
            queue.add_after(key(number), Reasons::ASKED, Priority::NORMAL, Duration::from_secs(30));
        }
        gate.add(key(1), Reasons::UPDATED, Priority::NORMAL);
        gate.add_deleted(key(2), Reasons::DELETED);
        assert_eq!((queue.len(), queue.len_delayed()), (2, 0));
    }

    /// The first shard has `a`, the second `b`.
    fn shared() -> (LeadershipGate, Queue<ObjectKey, Reasons>, Gauge, [String; 2]) {
        shared_with_bound(MAX_TOMBSTONES)
    }

    fn shared_with_bound(most: usize) -> (LeadershipGate, Queue<ObjectKey, Reasons>, Gauge, [String; 2]) {
        let (queue, gauge, shards) = (Queue::new(), Gauge::default(), KeyShards::new("p", 2));
        let namespace = |shard| {
            let of = |name: &String| shards.of(Some(name)) == shard;
            (0..).map(|n| format!("team-{n}")).find(of).unwrap()
        };
        let namespaces = [namespace(0), namespace(1)];
        let gate = LeadershipGate::with_bound(&Arc::from("p"), &queue, gauge.clone(), Some(shards), most);
        (gate, queue, gauge, namespaces)
    }

    #[test]
    fn where_keys_are_shared_each_shard_opens_and_closes_by_itself() {
        let (gate, queue, gauge, [a, b]) = shared();
        let key = |namespace: &str, name: &str| format!("{namespace}/{name}").parse::<ObjectKey>().unwrap();
        let [in_a, in_b] = [&a, &b].map(|namespace| key(namespace, "x"));
        let taken = || {
            let mut keys = Vec::new();
            while let Some(item) = queue.try_get() {
                keys.push(item.key.clone());
                queue.done(item);
            }
            keys
        };
        for key in [&in_a, &in_b] {
            gate.add_deleted(key.clone(), Reasons::DELETED);
        }
        assert_eq!((gate.is_open(), gauge.get(), gate.open(0)), (false, 2, Some(1)));
        assert_eq!((taken(), gauge.get()), (vec![in_a.clone()], 1));
        for key in [&in_a, &in_b] {
            gate.add(key.clone(), Reasons::UPDATED, Priority::NORMAL);
        }
        assert_eq!(taken(), std::slice::from_ref(&in_a));
        let (second, both) = (BTreeSet::from([1]), BTreeSet::from([0, 1]));
        let open_for = |only| [&in_a, &in_b].map(|key| gate.is_open_for(key, only));
        assert_eq!([open_for(None), open_for(Some(&both))], [[true, false], [true, false]]);
        assert_eq!(open_for(Some(&second)), [false, false]);
        // The terms of the shards change places.
        gate.close(0);
        gate.close(0);
        gate.add_deleted(in_a.clone(), Reasons::DELETED);
        assert_eq!((gate.open(1), gate.open(1), taken()), (Some(1), None, vec![in_b.clone()]));
        gate.add(in_a.clone(), Reasons::UPDATED, Priority::NORMAL);
        assert_eq!((taken(), gauge.get(), gate.tombstones()), (vec![], 1, 1));
        gate.rotate(0);
        gate.rotate(1);
        assert_eq!((gate.open(0), taken(), gauge.get()), (Some(1), vec![in_a], 0));
    }

    #[test]
    fn a_gate_hands_its_tombstones_over_to_a_closed_gate_or_into_the_queue_behind_an_open_one() {
        let (gate, queue, gauge) = gate();
        let before = || LeadershipGate::closed(&Arc::from("p"), &Queue::new(), gauge.clone(), None);
        let first = before();
        (1..=2).for_each(|n| first.add_deleted(key(n), Reasons::OWNED));
        gate.add_deleted(key(1), Reasons::DELETED);
        assert_eq!(gauge.get(), 3);
        first.hand_over(&gate);
        assert_eq!((first.tombstones(), gate.tombstones(), gauge.get()), (0, 2, 2));
        assert_eq!((gate.open(0), queue.len()), (Some(2), 2));
        let second = before();
        second.open(0);
        // Its plugin is replaced.
        second.close(0);
        (3..=4).for_each(|n| second.add_deleted(key(n), Reasons::DELETED));
        second.hand_over(&gate);
        assert_eq!((queue.len(), gauge.get()), (4, 0));
        second.add_deleted(key(5), Reasons::DELETED);
        assert_eq!(gauge.get(), 1);
        drop(second);
        assert_eq!(gauge.get(), 0, "what is gone is not counted");
    }

    #[test]
    fn all_shards_together_have_as_many_tombstones_as_a_plugin_and_the_youngest_stay() {
        let (gate, _, gauge, namespaces) = shared_with_bound(320);
        let key = |shard: usize, n: usize| format!("{}/{n}", namespaces[shard]).parse::<ObjectKey>().unwrap();
        // One shard may have them all.
        (0..320).for_each(|n| gate.add_deleted(key(0, n), Reasons::DELETED));
        assert_eq!((gate.tombstones(), gauge.get()), (320, 320));
        gate.add_deleted(key(1, 0), Reasons::DELETED);
        assert_eq!((gate.tombstones(), gauge.get()), (311, 311), "a portion of the fullest one is dropped");
        for n in 320..10_000 {
            gate.add_deleted(key(0, n), Reasons::DELETED);
            assert!(gate.tombstones() <= 320);
        }
        assert_eq!(gate.open(1), Some(1), "the shard with few loses none");
        let left = gate.parts[0].still_closed().map(|tombstones| tombstones.len()).unwrap();
        assert!((309..320).contains(&left) && gauge.get() == signed(left), "{left}");
        let tombstones = gate.parts[0].closed.lock().take().unwrap();
        let kept: BTreeSet<ObjectKey> = tombstones.into_keys().map(|(key, _)| key).collect();
        assert_eq!(kept, (10_000 - left..10_000).map(|n| key(0, n)).collect::<BTreeSet<_>>());
    }

    /// A cache, a gate and an informer on a thread of its own that changes first the one and then tells the other, while
    /// this one opens the gate and reads the cache: every key whose object changed or went is added.
    #[test]
    fn nothing_falls_between_the_opening_and_the_look_at_the_cache() {
        const KEYS: usize = 400;
        for round in 0..300 {
            let (gate, queue, _) = gate();
            let cache: Mutex<BTreeSet<usize>> = Mutex::new((0..KEYS / 2).collect());
            let together = Barrier::new(2);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    together.wait();
                    for number in 0..KEYS {
                        // The first half goes, the second comes.
                        if number < KEYS / 2 {
                            cache.lock().remove(&number);
                            gate.add_deleted(key(number), Reasons::DELETED);
                        } else {
                            cache.lock().insert(number);
                            gate.add(key(number), Reasons::ADDED, Priority::NORMAL);
                        }
                    }
                });
                together.wait();
                // At another point of the other thread's way each time.
                (0..round * 40).for_each(|_| std::hint::spin_loop());
                gate.open(0);
                let there = cache.lock().clone();
                queue.add_batch(there.into_iter().map(|n| (key(n), Reasons::ADDED, Priority::LOW)));
            });
            let mut added: BTreeSet<ObjectKey> = BTreeSet::new();
            while let Some(item) = queue.try_get() {
                added.insert(item.key.clone());
                queue.done(item);
            }
            assert_eq!(added.len(), KEYS, "round {round}");
        }
    }
}
