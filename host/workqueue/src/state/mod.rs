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
//! are collected in `wakes`. Delays are in `delays`, failures in `failures`, the
//! end of a run in `finish`, that of a queue in `closing`, sleeping workers in `waiting`, memory in `memory`.

mod closing;
mod delays;
mod failures;
mod finish;
mod memory;
mod waiting;

use std::collections::BTreeMap;
use std::hash::Hash;
use std::mem;
use std::time::Duration;

use crate::classes::Classes;
use crate::clock::{Nanos, Reader};
use crate::limiter::RateLimiter;
use crate::shared::Settings;
use crate::sleepers::Sleepers;
use crate::slots::{Hash32, List, SlotState, Slots};
use crate::stats::{Measures, RunningKey};
use crate::waiters::{Waiters, Wakes};
use crate::wheel::Wheel;
use crate::{Item, Merge, Priority, QueueStats};
use closing::Phase;
use delays::Delay;
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

/// Holds everything that changes.
///
/// The fields that each add, get and done touches come first, in as few cache lines as it takes: where several threads work on one
/// queue, moving these between the cores is most of the cost.
#[repr(C)]
pub(crate) struct State<K, M> {
    slots: Slots<K, M>,
    ready: Classes,
    /// Number of keys that are with a worker.
    processing: usize,
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
    /// The delays of keys that are also ready or running, by slot.
    beside: BTreeMap<u32, Delay<M>>,
    /// Number of keys with failures.
    failing: usize,
    /// Keys with failures that wait for nothing.
    failed: List,
    limiter: Box<dyn RateLimiter>,
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
    pub(crate) fn new(settings: &Settings, limiter: Box<dyn RateLimiter>) -> Self {
        Self {
            slots: Slots::new(settings.hasher.clone()),
            ready: Classes::default(),
            processing: 0,
            again: 0,
            wheel: Wheel::default(),
            beside: BTreeMap::new(),
            failing: 0,
            failed: List::EMPTY,
            limiter,
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
    #[inline(always)]
    pub(crate) fn add(&mut self, add: Add<K, M>) -> bool {
        if self.shutting_down() {
            return false;
        }
        let now = self.catch_up(None);
        self.add_caught_up(add, now);
        true
    }

    /// Adds keys at once, at the same time.
    pub(crate) fn add_all(&mut self, adds: impl Iterator<Item = Add<K, M>>) {
        if !self.shutting_down() {
            let read = self.read_for_measures();
            let now = self.catch_up(read);
            adds.for_each(|add| self.add_caught_up(add, now));
        }
    }

    #[inline(always)]
    fn add_caught_up(&mut self, add: Add<K, M>, now: Option<Nanos>) {
        let Add { hash, key, payload, priority, coalesce } = add;
        let (own, is_new) = self.slots.find_or_insert(hash, key);
        if is_new {
            self.join_ready(own, payload, priority, now);
        } else {
            self.add_at(own, payload, priority, coalesce, now);
        }
    }

    /// The time, if the queue measures durations.
    #[inline]
    pub(crate) fn read_for_measures(&mut self) -> Option<Nanos> {
        self.measures.is_some().then(|| self.clock.recent())
    }

    /// Adds the key of a slot. `at` is the time; none means now.
    #[inline]
    fn add_at(&mut self, own: u32, payload: M, priority: Priority, coalesce: bool, at: Option<Nanos>) {
        if coalesce && self.deadline_of(own).is_some() {
            self.end_delay(own, payload, priority, at);
        } else {
            self.make_ready(own, payload, priority, at);
        }
    }

    /// Takes the next key, if any.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Item<K, M>> {
        let now = self.catch_up(None);
        let (index, slot) = self.ready.pop(&mut self.slots)?;
        self.processing += 1;
        slot.state = SlotState::Running;
        let mut item = Item {
            key: slot.key().clone(),
            payload: mem::take(&mut slot.payload),
            priority: slot.priority,
            failures: slot.failures,
            waited: 0,
            slot: index,
        };
        if let Some(measures) = &mut self.measures {
            let now = now.unwrap_or_else(|| self.clock.recent());
            item.waited = now.saturating_sub(mem::replace(&mut slot.time, now));
            slot.previous = measures.running.len() as u32;
            measures.running.push(RunningKey { slot: index, dirty_since: None });
            measures.queue_duration.observe(item.waited);
        }
        self.settle();
        Some(item)
    }

    /// Number of keys that were ready when delays were last looked at.
    pub(crate) fn len(&self) -> usize {
        self.ready.len()
    }

    /// True if it holds the key, or fewer than `most`.
    pub(crate) fn has_room_for(&self, hash: Hash32, key: &K, most: usize) -> bool {
        self.held() < most || self.holds(hash, key)
    }

    /// True if it holds the key.
    pub(crate) fn holds(&self, hash: Hash32, key: &K) -> bool {
        self.slots.find(hash, key).is_some_and(|own| self.slots[own].state != SlotState::Failed)
    }

    /// Number of keys that it holds: ready, delayed or in processing.
    pub(crate) fn held(&self) -> usize {
        self.slots.len() - self.failed.len()
    }

    /// Number of delayed keys.
    pub(crate) fn len_delayed(&self) -> usize {
        self.wheel.len()
    }

    /// Whether a delayed key is due within so many nanoseconds.
    pub(crate) fn is_due_within(&self, time: Nanos) -> bool {
        self.wheel.next().is_some_and(|next| next <= self.clock.last().saturating_add(time))
    }

    /// The figures of this moment.
    pub(crate) fn stats(&mut self) -> QueueStats {
        let now = self.clock.exact();
        let mut stats = QueueStats {
            depth: self.ready.len(),
            depths: self.ready.depths().collect(),
            delayed: self.wheel.len(),
            processing: self.processing,
            adds: self.adds,
            retries: self.retries,
            ..QueueStats::default()
        };
        let Some(measures) = &self.measures else { return stats };
        stats.queue_duration = measures.queue_duration;
        stats.work_duration = measures.work_duration;
        for key in &measures.running {
            let running = Duration::from_nanos(now.saturating_sub(self.slots[key.slot].time));
            stats.unfinished_work += running;
            stats.longest_running = stats.longest_running.max(running);
        }
        stats
    }

    /// Makes a key ready that is nothing else. `at` is when it became so; none means now.
    #[inline(always)]
    fn join_ready(&mut self, index: u32, payload: M, priority: Priority, at: Option<Nanos>) {
        let time = match at {
            _ if self.measures.is_none() => next_number(&mut self.sequence),
            Some(at) => at,
            None => self.clock.recent(),
        };
        self.adds += 1;
        let slot = self.ready.push_back(&mut self.slots, index, priority);
        (slot.state, slot.time) = (SlotState::Ready, time);
        slot.payload = payload;
        self.invite_worker();
    }

    /// Makes a key ready, beside its delay if it has one, or merges into the run that waits; a higher priority raises it to
    /// the end of its list. `at` is when it became ready; none means now.
    #[inline]
    fn make_ready(&mut self, index: u32, payload: M, priority: Priority, at: Option<Nanos>) {
        let slot = &mut self.slots[index];
        // A merge runs code of the user's, which may panic: the key has its run by then.
        match slot.state {
            SlotState::Ready => {
                slot.payload.merge(payload);
                if priority > slot.priority {
                    self.ready.unlink(&mut self.slots, index);
                    self.ready.push_back(&mut self.slots, index, priority);
                }
            }
            SlotState::Again => {
                slot.priority = slot.priority.max(priority);
                slot.payload.merge(payload);
            }
            SlotState::Running => {
                slot.state = SlotState::Again;
                slot.priority = priority;
                self.again += 1;
                self.adds += 1;
                if let Some(measures) = &mut self.measures {
                    let since = at.unwrap_or_else(|| self.clock.recent());
                    measures.running[slot.previous as usize].dirty_since = Some(since);
                }
                slot.payload.merge(payload);
            }
            SlotState::Free => self.join_ready(index, payload, priority, at),
            SlotState::Delayed | SlotState::Backoff => {
                self.split(index);
                self.make_ready(index, payload, priority, at);
            }
            SlotState::Failed => {
                self.leave_failed(index, at);
                self.make_ready(index, payload, priority, at);
            }
        }
    }
}

#[inline]
fn next_number(sequence: &mut u64) -> u64 {
    *sequence += 1;
    *sequence
}
