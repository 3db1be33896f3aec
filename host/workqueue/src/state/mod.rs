//! The rules of the queue, under its mutex.
//!
//! Invariants, with the words of client-go: a key is *dirty* if it needs a run, *processing* while a worker has it.
//! - Dirty and not processing: `SlotState::Ready`, in `ready`. Processing: `SlotState::Running`, or `SlotState::Again` if it is also
//!   dirty; it joins `ready` when the worker gives it back.
//! - The next call moves due delays to `ready`, in the order of their deadlines, before it adds anything else.
//!   Only `done` may put a key in front of one that came due.
//! - For each key that joins `ready` one future that waits in `get` is notified, or else the hook is called.
//!
//! Called by `queue`, the timekeeper and the futures in `get` and `drain`, through `Shared::locked`, which calls the wakers that
//! are collected in `wakes`. Delays are in `delays`, the end of a queue in `closing`, sleeping workers in `waiting`, memory in `memory`.

mod closing;
mod delays;
mod memory;
mod waiting;

use std::hash::Hash;
use std::mem;
use std::time::Duration;

use crate::classes::Classes;
use crate::clock::{Nanos, Reader};
use crate::shared::Settings;
use crate::sleepers::Sleepers;
use crate::slots::{Hash32, List, Slot, SlotState, Slots};
use crate::stats::Measures;
use crate::waiters::{Waiters, Wakes};
use crate::wheel::Wheel;
use crate::{Item, Merge, Priority, QueueStats};
use closing::Phase;
use waiting::HookState;

/// A call that adds a key.
#[derive(Debug)]
pub(crate) struct Add<K, M> {
    /// Of the key, computed outside the mutex.
    pub(crate) hash: Hash32,
    pub(crate) key: K,
    pub(crate) payload: M,
    pub(crate) priority: Priority,
    /// The key has one entry: an add at once ends its delay, and a delayed add joins a run to come.
    pub(crate) coalesce: bool,
}

/// How an attempt to take a key ended.
#[derive(Debug)]
pub(crate) enum Take<K, M> {
    /// With a key.
    Item(Item<K, M>),
    /// There is none now.
    Empty,
    /// There is none and there will be none.
    Closed,
}

/// Holds everything that changes.
///
/// The fields that each add, get and done touches come first, in as few cache lines as it takes: where several threads work on one
/// queue, moving these between the cores is most of the cost.
#[repr(C)]
pub(crate) struct State<K, M> {
    slots: Slots<K, M>,
    ready: Classes<K>,
    processing: List,
    phase: Phase,
    adds: u64,
    /// The order of ready keys where time is not measured.
    sequence: u64,
    /// Of a queue with a name.
    measures: Option<Box<Measures>>,
    sleepers: Sleepers,
    /// Of a queue with a hook.
    hook: Option<HookState>,
    /// To be called when the mutex is free.
    pub(crate) wakes: Wakes,
    wheel: Wheel,
    clock: Reader,
    /// Number of keys that are dirty and processing.
    again: usize,
    /// Number of calls of `shut_down`, by which a drain sees that it was cut short.
    shut_downs: u32,
    retries: u64,
    /// When memory of unused slots is released.
    release_at: Option<Nanos>,
    drainers: Waiters,
}

impl<K, M> State<K, M> {
    pub(crate) fn new(settings: &Settings<K>) -> Self {
        Self {
            slots: Slots::new(settings.hasher.clone()),
            ready: Classes::new(settings.group.clone()),
            processing: List::EMPTY,
            again: 0,
            wheel: Wheel::default(),
            clock: Reader::new(settings.clock),
            sequence: 0,
            phase: Phase::Open,
            shut_downs: 0,
            adds: 0,
            retries: 0,
            release_at: None,
            measures: settings.name.as_ref().map(|_| Box::default()),
            sleepers: Sleepers::default(),
            hook: settings.has_hook.then(HookState::default),
            drainers: Waiters::default(),
            wakes: Wakes::default(),
        }
    }
}

impl<K: Clone + Eq + Hash, M: Merge> State<K, M> {
    /// Adds a key at once; false if the queue takes no adds.
    #[inline]
    pub(crate) fn add(&mut self, add: Add<K, M>) -> bool {
        if self.shutting_down() {
            return false;
        }
        self.catch_up();
        let Add { hash, key, payload, priority, coalesce } = add;
        let index = self.slots.find_or_insert(hash, key);
        if coalesce && let Some(delay) = self.delay_of(index) {
            self.end_delay(delay, payload, priority);
            return true;
        }
        self.make_ready(index, payload, priority, None);
        true
    }

    /// Takes the next key, if any.
    #[inline]
    pub(crate) fn take(&mut self) -> Take<K, M> {
        self.catch_up();
        let Some(index) = self.ready.pop(&mut self.slots) else {
            return if self.is_closed() { Take::Closed } else { Take::Empty };
        };
        let now = if self.measures.is_some() { self.clock.recent() } else { 0 };
        self.slots.push_back(&mut self.processing, index);
        let slot = &mut self.slots[index];
        slot.place = SlotState::Running;
        let added = mem::replace(&mut slot.time, now);
        let mut item = Item {
            key: slot.key().clone(),
            payload: mem::take(&mut slot.payload),
            priority: slot.priority,
            waited: 0,
            slot: index,
        };
        if let Some(measures) = &mut self.measures {
            item.waited = now.saturating_sub(added);
            measures.queue_duration.observe(item.waited);
        }
        self.settle();
        Take::Item(item)
    }

    /// Gives a key back.
    #[inline]
    pub(crate) fn done(&mut self, hash: Hash32, item: &Item<K, M>) {
        let Some(index) = self.slots.find_near(item.slot, hash, &item.key) else { return };
        let Slot { place, time: began, .. } = self.slots[index];
        if !matches!(place, SlotState::Running | SlotState::Again) {
            return;
        }
        self.slots.unlink(&mut self.processing, index);
        if let Some(measures) = &mut self.measures {
            let took = self.clock.recent().saturating_sub(began);
            measures.work_duration.observe(took);
        }
        if place == SlotState::Again {
            self.again -= 1;
            let since = self.measures.as_mut().and_then(|measures| measures.again_since.remove(&index));
            let slot = &mut self.slots[index];
            slot.place = SlotState::Ready;
            slot.time = since.unwrap_or_else(|| next_number(&mut self.sequence));
            // No hook: the worker that gives the key back looks for the next one.
            self.ready.push_back(&mut self.slots, index);
            self.sleepers.notify_one(&mut self.wakes);
        } else if let Some(twin) = self.slots.twin(index) {
            self.rejoin(index, twin);
        } else {
            self.slots.release_hashed(index, hash);
            self.plan_release();
        }
        self.settle();
    }

    /// Number of keys that were ready when delays were last looked at.
    pub(crate) fn ready_now(&self) -> usize {
        self.ready.len()
    }

    /// Number of ready keys.
    pub(crate) fn len(&mut self) -> usize {
        self.catch_up_exactly();
        self.ready.len()
    }

    /// True if it holds the key, or fewer than `most`.
    pub(crate) fn has_room_for(&self, hash: Hash32, key: &K, most: usize) -> bool {
        self.held() < most || self.holds(hash, key)
    }

    /// True if it holds the key.
    pub(crate) fn holds(&self, hash: Hash32, key: &K) -> bool {
        self.slots.find(hash, key).is_some()
    }

    /// Number of keys that it holds.
    pub(crate) fn held(&self) -> usize {
        self.slots.len()
    }

    /// Number of delayed keys.
    pub(crate) fn len_delayed(&mut self) -> usize {
        self.catch_up_exactly();
        self.wheel.len()
    }

    /// Whether a delayed key is due within so many nanoseconds.
    pub(crate) fn is_due_within(&mut self, time: Nanos) -> bool {
        let now = self.catch_up_exactly();
        self.wheel.next().is_some_and(|next| next <= now.saturating_add(time))
    }

    /// The figures of this moment.
    pub(crate) fn stats(&mut self) -> QueueStats {
        let now = self.catch_up_exactly();
        let mut stats = QueueStats {
            depth: self.ready.len(),
            depths: self.ready.depths().collect(),
            delayed: self.wheel.len(),
            processing: self.processing.len(),
            adds: self.adds,
            retries: self.retries,
            ..QueueStats::default()
        };
        let Some(measures) = &self.measures else { return stats };
        stats.queue_duration = measures.queue_duration;
        stats.work_duration = measures.work_duration;
        for slot in self.slots.walk(&self.processing) {
            let running = Duration::from_nanos(now.saturating_sub(slot.time));
            stats.unfinished_work += running;
            stats.longest_running = stats.longest_running.max(running);
        }
        stats
    }

    /// Makes a key ready, beside its delay if it has one, or merges into the run that waits; a higher priority raises it to
    /// the end of its list. `at` is when it became ready; none means now.
    #[inline]
    fn make_ready(&mut self, index: u32, payload: M, priority: Priority, at: Option<Nanos>) {
        let slot = &mut self.slots[index];
        // A merge runs code of the user's, which may panic: the key has its run by then.
        match slot.place {
            SlotState::Ready => {
                slot.payload.merge(payload);
                if priority > slot.priority {
                    self.ready.unlink(&mut self.slots, index);
                    self.slots[index].priority = priority;
                    self.ready.push_back(&mut self.slots, index);
                }
            }
            SlotState::Again => {
                slot.priority = slot.priority.max(priority);
                slot.payload.merge(payload);
            }
            SlotState::Running => {
                slot.place = SlotState::Again;
                slot.priority = priority;
                self.again += 1;
                self.adds += 1;
                if let Some(measures) = &mut self.measures {
                    let since = at.unwrap_or_else(|| self.clock.recent());
                    measures.again_since.insert(index, since);
                }
                slot.payload.merge(payload);
            }
            SlotState::Free => {
                slot.place = SlotState::Ready;
                slot.priority = priority;
                slot.payload = payload;
                self.adds += 1;
                slot.time = match at {
                    _ if self.measures.is_none() => next_number(&mut self.sequence),
                    Some(at) => at,
                    None => self.clock.recent(),
                };
                self.push_ready(index);
            }
            SlotState::Delayed => {
                self.split(index);
                self.make_ready(index, payload, priority, at);
            }
            SlotState::Twin => unreachable!("a twin has no key"),
        }
    }

    #[inline]
    fn push_ready(&mut self, index: u32) {
        self.ready.push_back(&mut self.slots, index);
        self.invite_worker();
    }
}

#[inline]
fn next_number(sequence: &mut u64) -> u64 {
    *sequence += 1;
    *sequence
}
