//! Delayed keys: how they are set, brought forward, cancelled, and how they come due.
//!
//! Invariants: a key has one delay at most. It is in the key's slot if the key is nothing but delayed, and in `beside` if it
//! is also ready or running; either has the number of its entry in the wheel. Called by the rules in `state` and by the queue.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::mem;
use std::time::Duration;

use super::{Add, State};
use crate::clock::{self, Nanos};
use crate::slots::{Hash32, SlotState, Slots};
use crate::wheel::Entry;
use crate::{Merge, Priority};

/// Keys that are made ready under one lock at most, so that many that come due together do not keep all others out.
const PORTION: usize = 1024;

/// The delay of a key that is also ready or running.
#[derive(Debug)]
pub(super) struct Delay<M> {
    at: Nanos,
    /// Of its entry in the wheel.
    number: u32,
    /// The deadline was set by the rate limiter.
    is_backoff: bool,
    priority: Priority,
    payload: M,
}

/// What an add with a delay asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct DelayOptions {
    pub(super) delay: Duration,
    /// When the delay began.
    pub(super) began: Nanos,
    /// The key has one entry: a delayed add joins a run to come.
    pub(super) coalesce: bool,
    /// The rate limiter chose the delay.
    pub(super) is_backoff: bool,
}

/// Whether a delay has this entry.
fn is_live<K, M>(slots: &Slots<K, M>, beside: &BTreeMap<u32, Delay<M>>, entry: &Entry) -> bool {
    let slot = &slots[entry.slot];
    let number = match slot.state {
        SlotState::Delayed | SlotState::Backoff => slot.previous,
        _ if slot.has_delay => beside[&entry.slot].number,
        _ => return false,
    };
    number == entry.number
}

impl<K: Clone + Eq + Hash, M: Merge> State<K, M> {
    /// Adds a key after a delay that began at `began`. Returns false if the queue takes no adds.
    pub(crate) fn add_after(&mut self, add: Add<K, M>, delay: Duration, began: Nanos) -> bool {
        if self.shutting_down() {
            return false;
        }
        if delay.is_zero() {
            self.retries += 1;
            return self.add(add);
        }
        self.catch_up(Some(began));
        let Add { hash, key, payload, priority, coalesce } = add;
        let (own, _) = self.slots.find_or_insert(hash, key);
        self.delay(own, payload, priority, DelayOptions { delay, began, coalesce, is_backoff: false });
        true
    }

    /// Delays a key that has a slot.
    pub(super) fn delay(&mut self, own: u32, payload: M, priority: Priority, options: DelayOptions) {
        let DelayOptions { delay, began, coalesce, is_backoff } = options;
        self.retries += 1;
        let at = clock::deadline(began, delay);
        let now = self.clock.at_least(began);
        let mut before = self.deadline_of(own);
        // Due, and left for later: a deadline that has passed must not swallow this one.
        if let Some(due) = before.filter(|before| *before <= now) {
            self.end_delay_at(own, due);
            before = None;
        }
        let state = self.slots[own].state;
        if coalesce && matches!(state, SlotState::Ready | SlotState::Again) {
            return self.make_ready(own, payload, priority, None);
        }
        if let Some(before) = before {
            return self.bring_forward(own, payload, priority, (at < before).then_some((at, is_backoff)));
        }
        let number = self.insert_entry(own, at);
        if matches!(state, SlotState::Free | SlotState::Failed) {
            self.leave_failed(own, Some(now));
            let slot = &mut self.slots[own];
            slot.state = delayed(is_backoff);
            (slot.time, slot.previous) = (at, number);
            (slot.payload, slot.priority) = (payload, priority);
        } else {
            self.slots[own].has_delay = true;
            self.beside.insert(own, Delay { at, number, is_backoff, priority, payload });
        }
    }

    /// Merges into the delay that a key has: the higher priority counts, and the earlier deadline, if there is one.
    fn bring_forward(&mut self, own: u32, payload: M, priority: Priority, earlier: Option<(Nanos, bool)>) {
        let slot = &mut self.slots[own];
        let (merged, highest) = match self.beside.get_mut(&own) {
            Some(delay) => (&mut delay.payload, &mut delay.priority),
            None => (&mut slot.payload, &mut slot.priority),
        };
        merged.merge(payload);
        *highest = priority.max(*highest);
        let Some((at, is_backoff)) = earlier else { return };
        let number = self.insert_entry(own, at);
        match self.beside.get_mut(&own) {
            Some(delay) => (delay.at, delay.number, delay.is_backoff) = (at, number, is_backoff),
            None => {
                let slot = &mut self.slots[own];
                (slot.time, slot.previous, slot.state) = (at, number, delayed(is_backoff));
            }
        }
        self.entry_ended();
    }

    /// Drops the delay of a key that is not due and returns its payload, whose `Drop` must not run under the lock. None if it has no delay.
    pub(crate) fn cancel_delayed(&mut self, hash: Hash32, key: &K) -> Option<M> {
        let own = self.slots.find(hash, key)?;
        self.deadline_of(own)?;
        let (payload, _) = self.take_delay(own);
        self.entry_ended();
        // The caller has looked for due keys, by the clock.
        self.settle_free(own, Some(self.clock.last()));
        self.settle();
        Some(payload)
    }

    /// Makes delayed keys that are not due and that `wanted` accepts ready now; `wanted` gets the key and whether it is in backoff.
    pub(crate) fn expedite(&mut self, mut wanted: impl FnMut(&K, bool) -> bool) -> usize {
        let mut taken = self.live_delays();
        taken.sort_unstable();
        // Nothing changes before code of the user's has run, which may panic.
        taken.retain(|entry| {
            let slot = &self.slots[entry.slot];
            let beside = self.beside.get(&entry.slot);
            let is_backoff = beside.map_or(slot.state == SlotState::Backoff, |delay| delay.is_backoff);
            wanted(slot.key(), is_backoff)
        });
        let now = self.clock.last();
        taken.iter().for_each(|entry| self.end_delay_at(entry.slot, now));
        taken.len()
    }

    /// Drops all delays and returns their payloads, as [`Self::cancel_delayed`] does.
    pub(super) fn drop_delays(&mut self) -> Vec<M> {
        let delayed = self.live_delays();
        self.wheel.clear();
        let payloads = delayed.iter().map(|entry| self.take_delay(entry.slot).0).collect();
        let now = Some(self.clock.last());
        delayed.iter().for_each(|entry| self.settle_free(entry.slot, now));
        self.release_memory();
        payloads
    }

    /// The entries of all delays, in no order.
    pub(super) fn live_delays(&self) -> Vec<Entry> {
        self.wheel.live(|entry| is_live(&self.slots, &self.beside, entry))
    }

    /// Makes a portion of the due keys ready, by the time that the caller has read, or else by the cheap clock. Returns the
    /// time, if it was read by either.
    #[inline]
    pub(super) fn catch_up(&mut self, read: Option<Nanos>) -> Option<Nanos> {
        if self.wheel.is_empty() { read } else { Some(self.promote_by(read)) }
    }

    #[inline(never)]
    fn promote_by(&mut self, read: Option<Nanos>) -> Nanos {
        let now = self.clock.read_or_recent(read);
        self.promote(now);
        now
    }

    /// True if anything is to be done at some time.
    pub(crate) fn has_deadline(&self) -> bool {
        !self.wheel.is_empty() || self.release_at.is_some()
    }

    /// Makes a portion of the due keys ready, and releases memory that is due for it; true if more keys are due.
    pub(crate) fn has_more_due(&mut self) -> bool {
        if !self.has_deadline() {
            return false;
        }
        let now = self.clock.exact();
        self.release_if_due(now);
        self.promote(now)
    }

    /// Makes a portion of the keys ready that are due at `now`; true if more are due. The next calls make the others ready,
    /// at the latest that of the timekeeper.
    fn promote(&mut self, now: Nanos) -> bool {
        for _ in 0..PORTION {
            let Self { wheel, slots, beside, .. } = self;
            let Some(due) = wheel.pop_due(now, |entry| is_live(slots, beside, entry)) else { return false };
            let (payload, priority) = self.take_delay(due.slot);
            self.make_ready(due.slot, payload, priority, Some(due.at));
        }
        true
    }

    /// Ends a delay and makes its key ready; it counts as ready since `at`.
    fn end_delay_at(&mut self, own: u32, at: Nanos) {
        let (payload, priority) = self.take_delay(own);
        self.entry_ended();
        self.make_ready(own, payload, priority, Some(at));
    }

    /// Ends a delay because its key is added at once: both adds make one run.
    #[cold]
    pub(super) fn end_delay(&mut self, own: u32, payload: M, priority: Priority, at: Option<Nanos>) {
        let (delayed, delayed_priority) = self.take_delay(own);
        self.entry_ended();
        self.make_ready(own, payload, priority, at);
        self.make_ready(own, delayed, delayed_priority, at);
    }

    /// The deadline of a key that has a delay.
    #[inline]
    pub(super) fn deadline_of(&self, own: u32) -> Option<Nanos> {
        let slot = &self.slots[own];
        match slot.state {
            SlotState::Delayed | SlotState::Backoff => Some(slot.time),
            _ if slot.has_delay => Some(self.beside[&own].at),
            _ => None,
        }
    }

    /// The payload and the priority of a delay, which is over. Its entry in the wheel is out of it already, or stale.
    fn take_delay(&mut self, own: u32) -> (M, Priority) {
        let slot = &mut self.slots[own];
        if slot.has_delay {
            slot.has_delay = false;
            let delay = self.beside.remove(&own).expect("has_delay says so");
            return (delay.payload, delay.priority);
        }
        slot.state = SlotState::Free;
        (mem::take(&mut slot.payload), slot.priority)
    }

    fn insert_entry(&mut self, own: u32, at: Nanos) -> u32 {
        let (number, is_next) = self.wheel.insert(own, at, self.clock.last());
        if is_next {
            self.deadline_changed();
        }
        number
    }

    /// An entry in the wheel is stale.
    fn entry_ended(&mut self) {
        let Self { wheel, slots, beside, .. } = self;
        wheel.ended(|entry| is_live(slots, beside, entry));
    }

    /// Moves the delay of a slot to `beside`, so that its key can be something else as well.
    pub(super) fn split(&mut self, own: u32) {
        let slot = &mut self.slots[own];
        let is_backoff = slot.state == SlotState::Backoff;
        let (at, number, priority) = (slot.time, slot.previous, slot.priority);
        let payload = mem::take(&mut slot.payload);
        (slot.state, slot.has_delay) = (SlotState::Free, true);
        self.beside.insert(own, Delay { at, number, is_backoff, priority, payload });
    }

    /// Moves the delay of a key to its slot: the key is nothing but delayed from now on.
    pub(super) fn rejoin(&mut self, own: u32) {
        let delay = self.beside.remove(&own).expect("it has a delay");
        let slot = &mut self.slots[own];
        slot.has_delay = false;
        slot.state = delayed(delay.is_backoff);
        (slot.time, slot.previous) = (delay.at, delay.number);
        (slot.payload, slot.priority) = (delay.payload, delay.priority);
    }
}

fn delayed(is_backoff: bool) -> SlotState {
    if is_backoff { SlotState::Backoff } else { SlotState::Delayed }
}
