//! [`Gate`]: what stands between the changes of watched objects and the queue of a plugin.
//!
//! While the host stands by the gate is closed: what changed is in the caches for the moment in which the term begins, and
//! what went away is remembered for a while, so neither grows with what happens meanwhile. When the term begins the gate is
//! opened, once: from then on changes go into the queue, then what is remembered does, and then everything that the caches
//! show (`Plugin::take_over`).
//!
//! Invariant: a key whose object changed is added when the gate is open, or its change was in the cache before the gate was
//! opened, and is found by whoever reads the cache after that; both sides hold the memory's lock in between.
//!
//! Called by the mappers from inside the informers' calls, and by the plugin.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use pilothouse_object::ObjectKey;
use pilothouse_workqueue::{AddOptions, Priority, Queue};
use prometheus_client::metrics::gauge::Gauge;

use crate::dispatch::memory::{MOST_REMEMBERED, Memory};
use crate::dispatch::reasons::Reasons;

/// What stands between changes and the queue of a plugin.
pub(crate) struct Gate {
    plugin: Arc<str>,
    queue: Queue<ObjectKey, Reasons>,
    /// None once the gate is open.
    closed: Mutex<Option<Closed>>,
    /// Whether that is known without a look at it; turns true after it.
    open: AtomicBool,
}

struct Closed {
    memory: Memory,
    /// Keys that are remembered.
    remembered: Gauge,
    /// Somebody was told that keys had to be forgotten too early.
    warned: bool,
}

impl Gate {
    /// A gate that lets everything through.
    pub(crate) fn open(plugin: &Arc<str>, queue: &Queue<ObjectKey, Reasons>) -> Self {
        Self::new(plugin, queue, None)
    }

    /// The gate of a host that stands by; `remembered` shows the size of the memory.
    pub(crate) fn closed(plugin: &Arc<str>, queue: &Queue<ObjectKey, Reasons>, remembered: Gauge) -> Self {
        let closed = Closed { memory: Memory::new(MOST_REMEMBERED), remembered, warned: false };
        // Another plugin may have had the name.
        closed.show();
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

    /// The queue behind it.
    pub(crate) fn queue(&self) -> &Queue<ObjectKey, Reasons> {
        &self.queue
    }

    /// A key is to be reconciled for something that the cache shows.
    pub(crate) fn changed(&self, key: ObjectKey, reasons: Reasons, priority: Priority) {
        if !self.is_open() && self.still_closed().is_some() {
            return;
        }
        self.add(key, reasons, priority);
    }

    /// A key is to be reconciled for something that the cache does not show any more.
    pub(crate) fn gone(&self, key: ObjectKey, reasons: Reasons) {
        if !self.is_open()
            && let Some(mut closed) = self.still_closed()
        {
            closed.remember(&self.plugin, key, reasons);
            return;
        }
        self.add(key, reasons, Priority::NORMAL);
    }

    /// A change ends a pending `requeue-after` or backoff of its key, as in controller-runtime: both are one run.
    fn add(&self, key: ObjectKey, reasons: Reasons, priority: Priority) {
        self.queue.add_with_options(
            key,
            reasons,
            AddOptions { priority, coalesce: true, ..AddOptions::default() },
        );
    }

    /// Forgets what was remembered before the last call of this.
    pub(crate) fn turn(&self) {
        if let Some(mut closed) = self.still_closed() {
            closed.memory.turn();
            closed.show();
        }
    }

    /// Opens the gate, and adds what is remembered. How many keys that were; none when it was open already.
    pub(crate) fn let_through(&self) -> Option<usize> {
        let Closed { memory, remembered, .. } = self.closed.lock().take()?;
        self.open.store(true, Ordering::Release);
        remembered.set(0);
        let count = memory.len();
        let keys = memory.into_keys().map(|(key, reasons)| (key, reasons, Priority::NORMAL));
        self.queue.add_batch(keys);
        Some(count)
    }

    /// Keys that are remembered.
    #[cfg(test)]
    pub(crate) fn remembers(&self) -> usize {
        self.still_closed().map_or(0, |closed| closed.memory.len())
    }

    fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// The memory while the gate is closed, and stays so for as long as this is held.
    fn still_closed(&self) -> Option<MappedMutexGuard<'_, Closed>> {
        MutexGuard::try_map(self.closed.lock(), Option::as_mut).ok()
    }
}

impl Closed {
    fn remember(&mut self, plugin: &str, key: ObjectKey, reasons: Reasons) {
        if !self.memory.remember(key, reasons) && !mem::replace(&mut self.warned, true) {
            tracing::warn!(
                event = "standby_deletions_lost",
                plugin,
                most = MOST_REMEMBERED,
                "too many deletions to remember on a standby: after a takeover this plugin may miss deletions"
            );
        }
        self.show();
    }

    fn show(&self) {
        self.remembered.set(i64::try_from(self.memory.len()).unwrap_or(i64::MAX));
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

    fn gate() -> (Gate, Queue<ObjectKey, Reasons>, Gauge) {
        let (queue, gauge) = (Queue::new(), Gauge::default());
        (Gate::closed(&Arc::from("p"), &queue, gauge.clone()), queue, gauge)
    }

    #[test]
    fn a_closed_gate_adds_nothing_and_remembers_what_is_gone() {
        let (gate, queue, gauge) = gate();
        gate.changed(key(1), Reasons::UPDATED, Priority::NORMAL);
        gate.gone(key(2), Reasons::DELETED);
        assert_eq!((queue.len(), gauge.get()), (0, 1));
        gate.turn();
        assert_eq!(gauge.get(), 1);
        gate.gone(key(3), Reasons::OWNED);
        gate.turn();
        assert_eq!(gate.let_through(), Some(1));
        let item = queue.try_get().unwrap();
        assert_eq!((&item.key, item.payload, item.priority), (&key(3), Reasons::OWNED, Priority::NORMAL));
        assert_eq!((queue.len(), gauge.get()), (0, 0));
    }

    #[test]
    fn an_open_gate_adds_everything_and_opens_once() {
        let (gate, queue, gauge) = gate();
        assert_eq!(gate.let_through(), Some(0));
        gate.changed(key(1), Reasons::UPDATED, Priority::LOW);
        gate.gone(key(2), Reasons::DELETED);
        gate.turn();
        assert_eq!((gate.let_through(), queue.len(), gauge.get()), (None, 2, 0));
        assert_eq!(Gate::open(&Arc::from("p"), &Queue::new()).let_through(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_ends_the_delay_of_its_key() {
        let queue = Queue::new();
        let gate = Gate::open(&Arc::from("p"), &queue);
        for number in 1..=2 {
            queue.add_after(key(number), Reasons::REQUEUED, Priority::NORMAL, Duration::from_secs(30));
        }
        gate.changed(key(1), Reasons::UPDATED, Priority::NORMAL);
        gate.gone(key(2), Reasons::DELETED);
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
                            gate.gone(key(number), Reasons::DELETED);
                        } else {
                            cache.lock().insert(number);
                            gate.changed(key(number), Reasons::ADDED, Priority::NORMAL);
                        }
                    }
                });
                together.wait();
                // At another point of the other thread's way each time.
                (0..round * 40).for_each(|_| std::hint::spin_loop());
                gate.let_through();
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
