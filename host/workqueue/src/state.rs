//! The rules of the queue, under its mutex.
//!
//! Invariants, with the words of client-go: a key is *dirty* if it needs a run, *processing* while a worker has it.
//! - Dirty and not processing: it is in the list of its class (`ready`). Dirty and processing: it joins that list when
//!   the worker gives it back.
//! - Delays are moved into the lists by whoever looks next, in the order of their deadlines, before anything else
//!   joins a list at a later time. Only `done`, which reads no clock, may put a key in front of one that came due.
//! - While something is delayed and somebody waits in `get`, one waiter, the *timekeeper*, sleeps no longer than until
//!   the next deadline, or has been notified and will become it.
//! - For each key that joins a list one waiter is notified. A notified waiter that gives up passes the notice on.
//!
//! Called by `queue` and by the futures in `get` and `drain`, through `Shared::locked`, which calls the wakers that
//! are collected in `wakes`.

use std::hash::Hash;
use std::mem;
use std::task::Waker;
use std::time::Duration;

use foldhash::fast::RandomState;

use crate::clock::{self, Clock, Nanos};
use crate::delays::{Delays, Due};
use crate::slots::{List, Slots};
use crate::waiters::{Ticket, Waiters, Wakes};
use crate::{Item, Merge, Priority, QueueStats};

/// So many normal keys in a row are handed out while low ones wait; then one low key is.
const NORMAL_RUN: u8 = 16;

/// Where the queue is on its way from open to shut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Takes adds.
    Open,
    /// Takes no adds; what is delayed is waited for.
    Draining,
    /// Takes no adds; what was delayed is gone.
    Shut,
}

/// A call that adds a key.
#[derive(Debug)]
pub(crate) struct Add<K, M> {
    /// The key's hash, computed outside the mutex.
    pub(crate) hash: u64,
    pub(crate) key: K,
    pub(crate) payload: M,
    pub(crate) priority: Priority,
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
#[derive(Debug)]
pub(crate) struct State<K, M> {
    slots: Slots<K, M>,
    ready: [List; Priority::COUNT],
    processing: List,
    /// Number of keys that are dirty and processing.
    dirty_in_processing: usize,
    delays: Delays,
    /// Normal keys handed out in a row while low ones waited.
    normal_run: u8,
    phase: Phase,
    /// Number of calls of `shut_down`, by which a drain sees that it was cut short.
    shut_downs: u32,
    adds: u64,
    retries: u64,
    getters: Waiters,
    timekeeper: Option<Ticket>,
    drainers: Waiters,
    /// To be called when the mutex is free.
    pub(crate) wakes: Wakes,
}

impl<K, M> State<K, M> {
    pub(crate) fn new(hasher: RandomState) -> Self {
        Self {
            slots: Slots::new(hasher),
            ready: [List::EMPTY; Priority::COUNT],
            processing: List::EMPTY,
            dirty_in_processing: 0,
            delays: Delays::default(),
            normal_run: 0,
            phase: Phase::Open,
            shut_downs: 0,
            adds: 0,
            retries: 0,
            getters: Waiters::default(),
            timekeeper: None,
            drainers: Waiters::default(),
            wakes: Wakes::default(),
        }
    }

    #[inline]
    pub(crate) fn shutting_down(&self) -> bool {
        self.phase != Phase::Open
    }

    #[inline]
    fn nothing_ready(&self) -> bool {
        self.ready.iter().all(List::is_empty)
    }

    /// True if no key will be handed out any more. After a plain shut-down that is client-go's rule, by which a key
    /// that is dirty and in processing does not keep others waiting; a drain waits for it.
    fn is_closed(&self) -> bool {
        let nothing_to_come = self.delays.is_empty() && self.dirty_in_processing == 0;
        match self.phase {
            Phase::Open => false,
            Phase::Draining => self.nothing_ready() && nothing_to_come,
            Phase::Shut => self.nothing_ready(),
        }
    }

    fn is_at_rest(&self) -> bool {
        self.nothing_ready() && self.delays.is_empty() && self.processing.is_empty()
    }

    /// Wakes those who wait for the end, if this is it. To be called after whatever removes something.
    #[inline]
    fn settle(&mut self) {
        if self.phase == Phase::Open {
            return;
        }
        if self.is_closed() {
            self.getters.notify_all(&mut self.wakes);
        }
        if self.is_at_rest() {
            self.drainers.notify_all(&mut self.wakes);
        }
    }
}

impl<K: Clone + Eq + Hash, M: Merge> State<K, M> {
    /// Adds a key at once.
    #[inline]
    pub(crate) fn add(&mut self, add: Add<K, M>, clock: &Clock) {
        if self.shutting_down() {
            return;
        }
        let Add { hash, key, payload, priority } = add;
        let index = self.slots.find_or_insert(hash, key);
        let slot = &mut self.slots[index];
        if slot.dirty && priority <= slot.priority {
            slot.payload.merge(payload);
            return;
        }
        let now = clock.now();
        self.promote(now);
        self.make_ready(index, payload, priority, now);
    }

    /// Adds a key after a delay, of which `backoff` says whether the rate limiter chose it.
    pub(crate) fn add_after(&mut self, add: Add<K, M>, delay: Duration, backoff: bool, clock: &Clock) {
        if self.shutting_down() {
            return;
        }
        self.retries += 1;
        if delay.is_zero() {
            return self.add(add, clock);
        }
        let Add { hash, key, payload, priority } = add;
        let now = clock.now();
        // First what is due: a deadline that has passed must not swallow this one.
        self.promote(now);
        let at = clock::deadline(now, delay);
        let index = self.slots.find_or_insert(hash, key);
        let slot = &mut self.slots[index];
        slot.delayed_payload.merge(payload);
        let earliest = match slot.position() {
            None => {
                slot.delayed_priority = priority;
                slot.backoff = backoff;
                self.delays.insert(at, index, &mut self.slots)
            }
            Some(position) => {
                slot.delayed_priority = slot.delayed_priority.max(priority);
                if self.delays.at(position) <= at {
                    return;
                }
                slot.backoff = backoff;
                self.delays.bring_forward(position, at, &mut self.slots)
            }
        };
        if earliest {
            self.wake_timekeeper();
        }
    }

    /// Takes the next key, if any.
    #[inline]
    pub(crate) fn take(&mut self, now: Nanos, clock: &Clock) -> Take<K, M> {
        self.promote(now);
        let Some(index) = self.pop_ready() else {
            return if self.is_closed() { Take::Closed } else { Take::Empty };
        };
        self.slots.push_back(&mut self.processing, index);
        let slot = &mut self.slots[index];
        slot.dirty = false;
        slot.processing = true;
        slot.started = now;
        let item = Item {
            key: slot.key().clone(),
            payload: mem::take(&mut slot.payload),
            priority: slot.priority,
            queued_for: Duration::from_nanos(now.saturating_sub(slot.added)),
            started: clock.instant(now),
        };
        self.settle();
        Take::Item(item)
    }

    /// Gives a key back.
    #[inline]
    pub(crate) fn done(&mut self, hash: u64, key: &K) {
        let Some(index) = self.slots.find(hash, key) else { return };
        let slot = &mut self.slots[index];
        if !slot.processing {
            return;
        }
        slot.processing = false;
        let (dirty, priority) = (slot.dirty, slot.priority);
        self.slots.unlink(&mut self.processing, index);
        if dirty {
            self.dirty_in_processing -= 1;
            self.push_ready(index, priority);
        } else {
            self.release_if_idle(hash, index);
        }
        self.settle();
    }

    /// Drops the delay of a key; false if it has none.
    pub(crate) fn cancel_delayed(&mut self, hash: u64, key: &K, now: Nanos) -> bool {
        self.promote(now);
        let Some(index) = self.slots.find(hash, key) else { return false };
        let Some(position) = self.slots[index].position() else { return false };
        self.delays.remove(position, &mut self.slots);
        self.slots[index].delayed_payload = M::default();
        self.release_if_idle(hash, index);
        self.settle();
        true
    }

    /// Makes delayed keys that `wanted` accepts ready now; `wanted` is told the key and whether it is in backoff.
    pub(crate) fn expedite(&mut self, now: Nanos, mut wanted: impl FnMut(&K, bool) -> bool) -> usize {
        self.promote(now);
        let taken = self.delays.extract(&mut self.slots, |slots, index| {
            let slot = &slots[index];
            wanted(slot.key(), slot.backoff)
        });
        for due in &taken {
            self.undelay(due.slot, now);
        }
        taken.len()
    }

    /// Takes no adds from now on. What is delayed is waited for if `drain`, and dropped otherwise.
    pub(crate) fn shut_down(&mut self, drain: bool, now: Nanos) -> u32 {
        self.promote(now);
        if drain {
            self.phase = Phase::Draining;
        } else {
            self.phase = Phase::Shut;
            self.shut_downs = self.shut_downs.wrapping_add(1);
            for Due { slot: index, .. } in self.delays.extract(&mut self.slots, |_, _| true) {
                self.slots[index].delayed_payload = M::default();
                if self.slots[index].is_idle() {
                    self.slots.release(self.slots.hash_of(index), index);
                }
            }
            self.shrink();
            self.drainers.notify_all(&mut self.wakes);
        }
        self.settle();
        self.shut_downs
    }

    /// Number of keys in the lists.
    pub(crate) fn len(&mut self, clock: &Clock) -> usize {
        if !self.delays.is_empty() {
            self.promote(clock.now());
        }
        self.ready.iter().map(List::len).sum()
    }

    /// Number of delayed keys.
    pub(crate) fn len_delayed(&mut self, clock: &Clock) -> usize {
        if !self.delays.is_empty() {
            self.promote(clock.now());
        }
        self.delays.len()
    }

    /// The figures of this moment.
    pub(crate) fn stats(&mut self, clock: &Clock) -> QueueStats {
        let now = clock.now();
        self.promote(now);
        let mut stats = QueueStats {
            depth: self.ready.iter().map(List::len).sum(),
            delayed: self.delays.len(),
            processing: self.processing.len(),
            adds: self.adds,
            retries: self.retries,
            ..QueueStats::default()
        };
        for slot in self.slots.walk(&self.processing) {
            let running = Duration::from_nanos(now.saturating_sub(slot.started));
            stats.unfinished_work += running;
            stats.longest_running = stats.longest_running.max(running);
        }
        stats
    }

    /// Registers a waiter that found nothing, or refreshes it; says until when it may sleep at most.
    pub(crate) fn enrol(&mut self, ticket: Option<Ticket>, waker: &Waker) -> (Ticket, Option<Nanos>) {
        let ticket = match ticket {
            Some(ticket) if self.getters.refresh(ticket, waker) => ticket,
            notified => {
                let ticket = self.getters.register(waker);
                if notified.is_some() && self.timekeeper == notified {
                    self.timekeeper = Some(ticket);
                }
                ticket
            }
        };
        if self.timekeeper.is_none() && !self.delays.is_empty() {
            self.timekeeper = Some(ticket);
        }
        let deadline = if self.timekeeper == Some(ticket) { self.delays.next() } else { None };
        (ticket, deadline)
    }

    /// Keeps a waiter registered with the waker of this poll; false if it was notified.
    pub(crate) fn still_waits(&mut self, ticket: Ticket, waker: &Waker) -> bool {
        self.getters.refresh(ticket, waker)
    }

    /// Takes a waiter out that got what it waited for.
    pub(crate) fn leave(&mut self, ticket: Ticket) {
        self.getters.remove(ticket);
        if self.timekeeper == Some(ticket) {
            self.timekeeper = None;
        }
        if self.timekeeper.is_none() && !self.delays.is_empty() {
            self.getters.notify_one(&mut self.wakes);
        }
    }

    /// Takes a waiter out that gave up. It may have been notified of a key that another can take now.
    pub(crate) fn give_up(&mut self, ticket: Ticket) {
        self.leave(ticket);
        if !self.nothing_ready() {
            self.getters.notify_one(&mut self.wakes);
        }
    }

    /// True if a drain that began after `shut_downs` plain shut-downs is over; otherwise registers its waker.
    pub(crate) fn drained(&mut self, shut_downs: u32, ticket: &mut Option<Ticket>, waker: &Waker) -> bool {
        if self.is_at_rest() || self.shut_downs != shut_downs {
            if let Some(ticket) = ticket.take() {
                self.drainers.remove(ticket);
            }
            return true;
        }
        if !ticket.is_some_and(|ticket| self.drainers.refresh(ticket, waker)) {
            *ticket = Some(self.drainers.register(waker));
        }
        false
    }

    /// Takes a drain out that gave up.
    pub(crate) fn give_up_drain(&mut self, ticket: Ticket) {
        self.drainers.remove(ticket);
    }

    /// Moves what is due into the lists.
    #[inline]
    fn promote(&mut self, now: Nanos) {
        while let Some(due) = self.delays.pop_due(now, &mut self.slots) {
            self.undelay(due.slot, due.at);
        }
    }

    /// Makes a slot that just left the delays ready.
    fn undelay(&mut self, index: u32, at: Nanos) {
        let slot = &mut self.slots[index];
        let (payload, priority) = (mem::take(&mut slot.delayed_payload), slot.delayed_priority);
        self.make_ready(index, payload, priority, at);
    }

    /// Makes a slot dirty, or merges into the run that waits; a higher class raises it to the end of that class.
    #[inline]
    fn make_ready(&mut self, index: u32, payload: M, priority: Priority, at: Nanos) {
        let slot = &mut self.slots[index];
        slot.payload.merge(payload);
        let (dirty, processing, before) = (slot.dirty, slot.processing, slot.priority);
        if dirty && priority <= before {
            return;
        }
        slot.priority = priority;
        if !dirty {
            slot.dirty = true;
            slot.added = at;
            self.adds += 1;
        }
        match (dirty, processing) {
            (false, false) => self.push_ready(index, priority),
            (false, true) => self.dirty_in_processing += 1,
            (true, true) => {}
            (true, false) => {
                self.slots.unlink(&mut self.ready[before.class()], index);
                self.slots.push_back(&mut self.ready[priority.class()], index);
            }
        }
    }

    #[inline]
    fn push_ready(&mut self, index: u32, priority: Priority) {
        self.slots.push_back(&mut self.ready[priority.class()], index);
        self.getters.notify_one(&mut self.wakes);
    }

    /// Takes the next slot of the class whose turn it is.
    #[inline]
    fn pop_ready(&mut self) -> Option<u32> {
        let [low, normal] = &mut self.ready;
        if low.is_empty() {
            self.normal_run = 0;
            return self.slots.pop_front(normal);
        }
        if normal.is_empty() || self.normal_run >= NORMAL_RUN {
            self.normal_run = 0;
            return self.slots.pop_front(low);
        }
        self.normal_run += 1;
        self.slots.pop_front(normal)
    }

    /// The earliest deadline changed: whoever keeps time must look again, or somebody must begin to.
    fn wake_timekeeper(&mut self) {
        match self.timekeeper {
            Some(ticket) => self.getters.notify(ticket, &mut self.wakes),
            None => self.getters.notify_one(&mut self.wakes),
        }
    }

    #[inline]
    fn release_if_idle(&mut self, hash: u64, index: u32) {
        if self.slots[index].is_idle() {
            self.slots.release(hash, index);
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        if let Some(names) = self.slots.shrink() {
            self.ready.iter_mut().for_each(|list| list.rename(&names));
            self.processing.rename(&names);
            self.delays.rename(&names);
        }
    }
}
