//! [`LeadershipGate`]: between the listeners of a plugin's watches and its queue.
//!
//! On a standby the gate is closed: a changed object stays in the cache until the term begins, and the key of a deleted
//! object goes into the [`TombstoneBuffer`]. So the queue does not grow on a standby. When the term begins the gate opens,
//! once. From then on changes go into the queue; the tombstones follow, and then the keys of all cached objects
//! (`lifecycle/standby.rs`).
//!
//! Invariant: for each changed object, either the gate was open and the key was added, or the change was in the cache before
//! the gate opened and a reader of the cache finds it. Both sides take the lock of `closed` in between.
//!
//! Callers: the mappers, from inside the informers' calls, and the standby task of the plugin.

use std::mem;
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
    /// None once the gate is open.
    closed: Mutex<Option<Closed>>,
    /// Whether `closed` is none, readable without its lock; set after it.
    open: AtomicBool,
}

struct Closed {
    tombstones: TombstoneBuffer,
    /// Shows the number of tombstones.
    size: Gauge,
    /// The loss of tombstones was logged.
    warned: bool,
}

impl LeadershipGate {
    /// A gate that lets everything through.
    pub(crate) fn opened(plugin: &Arc<str>, queue: &Queue<ObjectKey, Reasons>) -> Self {
        Self::new(plugin, queue, None)
    }

    /// The gate of a standby; `size` shows the number of tombstones.
    pub(crate) fn closed(plugin: &Arc<str>, queue: &Queue<ObjectKey, Reasons>, size: Gauge) -> Self {
        let closed = Closed { tombstones: TombstoneBuffer::new(MAX_TOMBSTONES), size, warned: false };
        // Another plugin may have had the name.
        closed.update_size();
        Self::new(plugin, queue, Some(closed))
    }

    fn new(plugin: &Arc<str>, queue: &Queue<ObjectKey, Reasons>, closed: Option<Closed>) -> Self {
        Self {
            plugin: Arc::clone(plugin),
            queue: queue.clone(),
            open: AtomicBool::new(closed.is_none()),
            closed: Mutex::new(closed),
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
        if !self.is_open()
            && let Some(mut closed) = self.still_closed()
        {
            closed.insert(&self.plugin, key, reasons);
            return;
        }
        self.enqueue(key, reasons, Priority::NORMAL);
    }

    /// A change ends a pending `requeue-after` or backoff of its key, as in controller-runtime: both are one run.
    fn enqueue(&self, key: ObjectKey, reasons: Reasons, priority: Priority) {
        self.queue.add_with_options(
            key,
            reasons,
            AddOptions { priority, coalesce: true, ..AddOptions::default() },
        );
    }

    /// Drops the tombstones that are older than the last rotation.
    pub(crate) fn rotate(&self) {
        if let Some(mut closed) = self.still_closed() {
            closed.tombstones.rotate();
            closed.update_size();
        }
    }

    /// Opens the gate and adds the tombstones to the queue. Returns their number; none when the gate was open already.
    pub(crate) fn open(&self) -> Option<usize> {
        let Closed { tombstones, size, .. } = self.closed.lock().take()?;
        self.open.store(true, Ordering::Release);
        size.set(0);
        let count = tombstones.len();
        let keys = tombstones.into_keys().map(|(key, reasons)| (key, reasons, Priority::NORMAL));
        self.queue.add_batch(keys);
        Some(count)
    }

    /// Number of tombstones.
    #[cfg(test)]
    pub(crate) fn tombstones(&self) -> usize {
        self.still_closed().map_or(0, |closed| closed.tombstones.len())
    }

    /// Whether changes go into the queue.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// The content of a closed gate. The gate stays closed while the guard is held.
    fn still_closed(&self) -> Option<MappedMutexGuard<'_, Closed>> {
        MutexGuard::try_map(self.closed.lock(), Option::as_mut).ok()
    }
}

impl Closed {
    fn insert(&mut self, plugin: &str, key: ObjectKey, reasons: Reasons) {
        if !self.tombstones.insert(key, reasons) && !mem::replace(&mut self.warned, true) {
            tracing::warn!(
                event = "standby_deletions_lost",
                plugin,
                most = MAX_TOMBSTONES,
                "too many deletions to remember on a standby: after a takeover this plugin may miss deletions"
            );
        }
        self.update_size();
    }

    fn update_size(&self) {
        self.size.set(i64::try_from(self.tombstones.len()).unwrap_or(i64::MAX));
    }
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
        assert_eq!((&item.key, item.payload, item.priority), (&key(3), Reasons::OWNED, Priority::NORMAL));
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
