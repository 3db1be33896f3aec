//! [`LeadershipGate`]: between the listeners of a plugin's watches and its queue.
//!
//! On a standby the gate is closed: a changed object stays in the cache until the term begins, and the key of a deleted
//! object goes into the [`TombstoneBuffer`]. So the queue does not grow on a standby. When the term begins the gate opens.
//! From then on changes go into the queue; the tombstones follow, and then the keys of all cached objects
//! (`lifecycle/standby.rs`).
//!
//! A gate opens once. It closes when the plugin gives way to a successor, whose gate gets its tombstones.
//!
//! Invariant: for each changed object, either the gate was open and the key was added, or the change was in the cache before
//! the gate opened and a reader of the cache finds it. Both sides take the lock of `closed` in between.
//!
//! Callers: the mappers, from inside the informers' calls, and the tasks that begin and end terms.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use pilothouse_object::ObjectKey;
use pilothouse_workqueue::{AddOptions, Priority, Queue};
use prometheus_client::metrics::gauge::Gauge;

use crate::dispatch::reasons::Reasons;
use crate::dispatch::tombstones::{MAX_TOMBSTONES, TombstoneBuffer};

/// Adds keys to the queue of a plugin on the leader, and keeps the keys of deleted objects on a standby.
pub(crate) struct LeadershipGate {
    plugin: Arc<str>,
    queue: Queue<ObjectKey, Reasons>,
    /// The tombstones; none while the gate is open.
    closed: Mutex<Option<TombstoneBuffer>>,
    /// Whether `closed` is none, readable without its lock; set under it.
    open: AtomicBool,
    /// Most tombstones.
    most: usize,
    /// The loss of tombstones was logged, since the gate was opened.
    warned: AtomicBool,
    /// Shows the number of tombstones.
    size: Gauge,
}

impl LeadershipGate {
    /// A gate that lets everything through.
    pub(crate) fn opened(plugin: &Arc<str>, queue: &Queue<ObjectKey, Reasons>) -> Self {
        let gate = Self::closed(plugin, queue, Gauge::default());
        gate.open();
        gate
    }

    /// The gate of a standby; `size` shows the number of tombstones.
    pub(crate) fn closed(plugin: &Arc<str>, queue: &Queue<ObjectKey, Reasons>, size: Gauge) -> Self {
        Self::with_bound(plugin, queue, size, MAX_TOMBSTONES)
    }

    /// The gate of a standby, with at most so many tombstones.
    fn with_bound(plugin: &Arc<str>, queue: &Queue<ObjectKey, Reasons>, size: Gauge, most: usize) -> Self {
        Self {
            plugin: Arc::clone(plugin),
            queue: queue.clone(),
            closed: Mutex::new(Some(TombstoneBuffer::new(most))),
            open: AtomicBool::new(false),
            most,
            warned: AtomicBool::new(false),
            size,
        }
    }

    /// The queue behind the gate.
    pub(crate) fn queue(&self) -> &Queue<ObjectKey, Reasons> {
        &self.queue
    }

    /// Adds a key because of a cached object. A standby adds nothing: the object is still in the cache when the term begins.
    pub(crate) fn add(&self, key: ObjectKey, reasons: Reasons, priority: Priority) {
        if !self.is_open() && self.still_closed().is_some() {
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

    /// A change ends a pending `requeue-after` or backoff of its key, as in controller-runtime: both are one run.
    fn enqueue(&self, key: ObjectKey, reasons: Reasons, priority: Priority) {
        self.queue.add_with_options(
            key,
            reasons,
            AddOptions { priority, coalesce: true, ..AddOptions::default() },
        );
    }

    /// Keeps a key if the gate is closed; returns it otherwise.
    fn remember(&self, key: ObjectKey, reasons: Reasons) -> Option<ObjectKey> {
        if self.is_open() {
            return Some(key);
        }
        let Some(mut tombstones) = self.still_closed() else { return Some(key) };
        self.change(&mut tombstones, |tombstones| tombstones.insert(key, reasons));
        while tombstones.len() > self.most {
            if !self.warned.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    event = "standby_deletions_lost",
                    plugin = &*self.plugin,
                    most = self.most,
                    "too many deletions to remember on a standby: after a takeover this plugin may miss deletions"
                );
            }
            self.change(&mut tombstones, TombstoneBuffer::drop_oldest);
        }
        None
    }

    /// Changes the tombstones, and counts them.
    fn change(&self, tombstones: &mut TombstoneBuffer, change: impl FnOnce(&mut TombstoneBuffer)) {
        let before = tombstones.len();
        change(tombstones);
        self.size.inc_by(signed(tombstones.len()) - signed(before));
    }

    /// Drops the tombstones that are older than the last rotation.
    pub(crate) fn rotate(&self) {
        if let Some(mut tombstones) = self.still_closed() {
            self.change(&mut tombstones, TombstoneBuffer::rotate);
        }
    }

    /// Opens the gate and adds the tombstones to the queue. Returns their number; none when it was open already.
    pub(crate) fn open(&self) -> Option<usize> {
        let tombstones = {
            let mut closed = self.closed.lock();
            let tombstones = closed.take()?;
            self.open.store(true, Ordering::Release);
            tombstones
        };
        self.warned.store(false, Ordering::Relaxed);
        let count = tombstones.len();
        self.size.dec_by(signed(count));
        let keys = tombstones.into_keys().map(|(key, reasons)| (key, reasons, Priority::NORMAL));
        self.queue.add_batch(keys);
        Some(count)
    }

    /// Closes the gate of a plugin whose term is over.
    pub(crate) fn close(&self) {
        let mut closed = self.closed.lock();
        self.open.store(false, Ordering::Release);
        closed.get_or_insert_with(|| TombstoneBuffer::new(self.most));
    }

    /// Passes the tombstones on to the gate of the plugin that takes the place of this one, as deletions of now.
    pub(crate) fn hand_over(&self, successor: &Self) {
        let mut tombstones = TombstoneBuffer::new(self.most);
        if let Some(mut own) = self.still_closed() {
            self.change(&mut own, |own| std::mem::swap(own, &mut tombstones));
        }
        tombstones.into_keys().for_each(|(key, reasons)| successor.add_deleted(key, reasons));
    }

    /// Number of tombstones.
    #[cfg(test)]
    pub(crate) fn tombstones(&self) -> usize {
        self.still_closed().map_or(0, |tombstones| tombstones.len())
    }

    /// Whether changes go into the queue.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// The tombstones of a closed gate. It stays closed while the guard is held.
    fn still_closed(&self) -> Option<MappedMutexGuard<'_, TombstoneBuffer>> {
        MutexGuard::try_map(self.closed.lock(), Option::as_mut).ok()
    }
}

/// A plugin and its successor have one gauge.
impl Drop for LeadershipGate {
    fn drop(&mut self) {
        let left = self.closed.get_mut().as_ref().map_or(0, TombstoneBuffer::len);
        self.size.dec_by(signed(left));
    }
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Barrier;
    use std::time::Duration;

    use super::*;

    fn key(number: usize) -> ObjectKey {
        format!("ns/{number}").parse().unwrap()
    }

    fn gate() -> (LeadershipGate, Queue<ObjectKey, Reasons>, Gauge) {
        let (queue, gauge) = (Queue::new(), Gauge::default());
        (LeadershipGate::closed(&Arc::from("p"), &queue, gauge.clone()), queue, gauge)
    }

    #[test]
    fn a_closed_gate_adds_nothing_and_remembers_what_is_gone() {
        let (gate, queue, gauge) = gate();
        gate.add(key(1), Reasons::UPDATED, Priority::NORMAL);
        gate.add_deleted(key(2), Reasons::DELETED);
        assert_eq!((queue.len(), gauge.get()), (0, 1));
        gate.rotate();
        assert_eq!(gauge.get(), 1);
        gate.add_deleted(key(3), Reasons::OWNED);
        gate.rotate();
        assert_eq!(gate.open(), Some(1));
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
        assert_eq!(gate.open(), Some(0));
        gate.add(key(1), Reasons::UPDATED, Priority::LOW);
        gate.add_deleted(key(2), Reasons::DELETED);
        gate.rotate();
        assert_eq!((gate.open(), queue.len(), gauge.get()), (None, 2, 0));
        assert_eq!(LeadershipGate::opened(&Arc::from("p"), &Queue::new()).open(), None);
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

    #[test]
    fn a_gate_hands_its_tombstones_over_to_a_closed_gate_or_into_the_queue_behind_an_open_one() {
        let (gate, queue, gauge) = gate();
        let before = || LeadershipGate::closed(&Arc::from("p"), &Queue::new(), gauge.clone());
        let first = before();
        (1..=2).for_each(|n| first.add_deleted(key(n), Reasons::OWNED));
        gate.add_deleted(key(1), Reasons::DELETED);
        assert_eq!(gauge.get(), 3);
        first.hand_over(&gate);
        assert_eq!((first.tombstones(), gate.tombstones(), gauge.get()), (0, 2, 2));
        assert_eq!((gate.open(), queue.len()), (Some(2), 2));
        let second = before();
        second.open();
        // Its plugin is replaced.
        second.close();
        (3..=4).for_each(|n| second.add_deleted(key(n), Reasons::DELETED));
        second.hand_over(&gate);
        assert_eq!((queue.len(), gauge.get()), (4, 0));
        second.add_deleted(key(5), Reasons::DELETED);
        assert_eq!(gauge.get(), 1);
        drop(second);
        assert_eq!(gauge.get(), 0, "what is gone is not counted");
    }

    #[test]
    fn a_gate_opens_and_closes_again_with_the_place_of_its_plugin() {
        let (gate, queue, gauge) = gate();
        assert_eq!(gate.open(), Some(0));
        gate.close();
        gate.close();
        gate.add(key(1), Reasons::UPDATED, Priority::NORMAL);
        gate.add_deleted(key(2), Reasons::DELETED);
        assert_eq!((gate.is_open(), queue.len(), gauge.get(), gate.tombstones()), (false, 0, 1, 1));
        gate.rotate();
        assert_eq!((gate.open(), queue.len(), gauge.get()), (Some(1), 1, 0));
    }

    #[test]
    fn a_plugin_has_a_bounded_number_of_tombstones_and_the_youngest_stay() {
        let (queue, gauge) = (Queue::new(), Gauge::default());
        let gate = LeadershipGate::with_bound(&Arc::from("p"), &queue, gauge.clone(), 320);
        (0..320).for_each(|n| gate.add_deleted(key(n), Reasons::DELETED));
        assert_eq!((gate.tombstones(), gauge.get()), (320, 320));
        gate.add_deleted(key(320), Reasons::DELETED);
        assert_eq!((gate.tombstones(), gauge.get()), (311, 311), "the oldest portion is dropped");
        for n in 321..10_000 {
            gate.add_deleted(key(n), Reasons::DELETED);
            assert!(gate.tombstones() <= 320);
        }
        let left = gate.tombstones();
        assert!((311..=320).contains(&left) && gauge.get() == signed(left), "{left}");
        let tombstones = gate.closed.lock().take().unwrap();
        let kept: BTreeSet<ObjectKey> = tombstones.into_keys().map(|(key, _)| key).collect();
        assert_eq!(kept, (10_000 - left..10_000).map(key).collect::<BTreeSet<_>>());
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
                gate.open();
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
