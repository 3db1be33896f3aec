//! Delayed keys: how they are set, brought forward, cancelled, and how they come due.
//!
//! Invariants: a key has one delay at most, in its own slot if it is nothing but delayed, in a twin else (see `slots`).
//! Called by the rules in `state` and by the queue.

use std::hash::Hash;
use std::mem;
use std::time::Duration;

use super::{Add, State};
use crate::clock::{self, Nanos};
use crate::slots::{Hash32, SlotState};
use crate::wheel::Wheel;
use crate::{Merge, Priority};

/// Keys that are made ready under one lock at most, so that many that come due together do not keep all others out.
const PORTION: usize = 1024;

impl<K: Clone + Eq + Hash, M: Merge> State<K, M> {
    /// Adds a key after a delay that began at `now`; `backoff` says whether the rate limiter chose it. Returns false if the
    /// queue takes no adds.
    pub(crate) fn add_after(&mut self, add: Add<K, M>, delay: Duration, backoff: bool, now: Nanos) -> bool {
        if self.shutting_down() {
            return false;
        }
        self.retries += 1;
        if delay.is_zero() {
            return self.add(add);
        }
        let began = now;
        let now = self.clock.at_least(now);
        // Due delays first: a deadline that has passed must not swallow this one.
        self.promote(now);
        let at = clock::deadline(began, delay);
        let Add { hash, key, payload, priority, coalesce } = add;
        let own = self.slots.find_or_insert(hash, key);
        if let Some(delay) = self.delay_of(own) {
            self.fire_if_due(delay, now);
        }
        if coalesce && matches!(self.slots[own].place, SlotState::Ready | SlotState::Again) {
            self.make_ready(own, payload, priority, None);
            return true;
        }
        if let Some(delay) = self.delay_of(own) {
            self.bring_forward(delay, at, now, payload, priority, backoff);
            return true;
        }
        let (index, place) = match self.slots[own].place {
            SlotState::Free => (own, SlotState::Delayed),
            _ => (self.slots.make_twin(own), SlotState::Twin),
        };
        let slot = &mut self.slots[index];
        (slot.place, slot.time, slot.backoff) = (place, at, backoff);
        (slot.payload, slot.priority) = (payload, priority);
        if self.wheel.insert(index, now, &mut self.slots) {
            self.deadline_changed();
        }
        true
    }

    /// The slot that holds the delay of a key, if it has one.
    pub(super) fn delay_of(&self, own: u32) -> Option<u32> {
        if self.slots[own].place == SlotState::Delayed { Some(own) } else { self.slots.twin(own) }
    }

    /// Merges into an existing delay: the earlier deadline and the higher priority count.
    fn bring_forward(
        &mut self,
        index: u32,
        at: Nanos,
        now: Nanos,
        payload: M,
        priority: Priority,
        backoff: bool,
    ) {
        let slot = &mut self.slots[index];
        slot.payload.merge(payload);
        slot.priority = slot.priority.max(priority);
        if slot.time <= at {
            return;
        }
        slot.backoff = backoff;
        self.wheel.remove(index, &mut self.slots);
        self.slots[index].time = at;
        if self.wheel.insert(index, now, &mut self.slots) {
            self.deadline_changed();
        }
    }

    /// Drops the delay of a key and returns its payload, whose `Drop` must not run under the lock. None if it has no delay.
    pub(crate) fn cancel_delayed(&mut self, hash: Hash32, key: &K) -> Option<M> {
        self.catch_up_exactly();
        let own = self.slots.find(hash, key)?;
        let delay = self.delay_of(own)?;
        let payload = mem::take(&mut self.slots[delay].payload);
        self.wheel.remove(delay, &mut self.slots);
        if delay == own {
            self.slots.release_hashed(own, hash);
        } else {
            self.slots.release_twin(delay);
        }
        self.plan_release();
        self.settle();
        Some(payload)
    }

    /// Makes delayed keys that `wanted` accepts ready now; `wanted` gets the key and whether it is in backoff.
    pub(crate) fn expedite(&mut self, mut wanted: impl FnMut(&K, bool) -> bool) -> usize {
        let now = self.catch_up_exactly();
        // Nothing changes before code of the user's has run, which may panic.
        let mut taken: Vec<u32> = Vec::new();
        self.wheel.walk(&self.slots, |index| {
            if wanted(self.slots.key_of(index), self.slots[index].backoff) {
                taken.push(index);
            }
        });
        // Stable, as equal deadlines are walked in the order in which they were set.
        taken.sort_by_key(|&index| self.slots[index].time);
        for &index in &taken {
            self.wheel.remove(index, &mut self.slots);
            self.fire(index, now);
        }
        taken.len()
    }

    /// Drops all delays and returns their payloads, as [`Self::cancel_delayed`] does.
    pub(super) fn drop_delays(&mut self) -> Vec<M> {
        let mut delayed: Vec<u32> = Vec::with_capacity(self.wheel.len());
        self.wheel.walk(&self.slots, |index| delayed.push(index));
        let payloads = delayed.iter().map(|&index| mem::take(&mut self.slots[index].payload)).collect();
        self.wheel = Wheel::default();
        for index in delayed {
            match self.slots[index].place {
                SlotState::Twin => drop(self.slots.release_twin(index)),
                _ => self.slots.release(index),
            }
        }
        self.release_memory();
        payloads
    }

    /// Makes a portion of the due keys ready, by the cheap clock.
    #[inline]
    pub(super) fn catch_up(&mut self) {
        if !self.wheel.is_empty() {
            let now = self.clock.recent();
            self.promote(now);
        }
    }

    /// Makes a portion of the due keys ready; true if the queue has any deadline.
    pub(crate) fn catches_up(&mut self) -> bool {
        let waits = !self.wheel.is_empty() || self.release_at.is_some();
        if waits {
            self.has_more_due();
        }
        waits
    }

    /// Makes a portion of the due keys ready, and releases memory that is due for it; true if more keys are due.
    pub(crate) fn has_more_due(&mut self) -> bool {
        let now = self.clock.exact();
        self.release_if_due(now);
        self.promote(now)
    }

    /// Makes all due keys ready, and returns the time. Callers have had [`Self::has_more_due`] do most of it, so that
    /// the lock is not held for all of it at once.
    pub(super) fn catch_up_exactly(&mut self) -> Nanos {
        let now = self.clock.exact();
        while self.promote(now) {}
        now
    }

    /// Makes a portion of the keys ready that are due at `now`; true if more are due. The next calls make the others ready,
    /// at the latest that of the timekeeper.
    fn promote(&mut self, now: Nanos) -> bool {
        for _ in 0..PORTION {
            let Some(index) = self.wheel.pop_due(now, &mut self.slots) else { return false };
            self.fire(index, self.slots[index].time);
        }
        true
    }

    /// Makes the delay in a slot ready if it is due at `now` and was left for later.
    fn fire_if_due(&mut self, index: u32, now: Nanos) {
        let at = self.slots[index].time;
        if at <= now {
            self.wheel.remove(index, &mut self.slots);
            self.fire(index, at);
        }
    }

    /// Makes a slot ready that just left the wheel.
    fn fire(&mut self, index: u32, at: Nanos) {
        let (own, payload, priority) = self.take_delay(index);
        self.make_ready(own, payload, priority, Some(at));
    }

    /// Ends a delay because its key is added at once: both adds make one run.
    #[cold]
    pub(super) fn end_delay(&mut self, index: u32, payload: M, priority: Priority) {
        self.wheel.remove(index, &mut self.slots);
        let (own, delayed, delayed_priority) = self.take_delay(index);
        self.make_ready(own, payload, priority, None);
        self.make_ready(own, delayed, delayed_priority, None);
    }

    /// The key's slot, the payload and the priority of a delay that left the wheel, which is over.
    fn take_delay(&mut self, index: u32) -> (u32, M, Priority) {
        let slot = &mut self.slots[index];
        let (payload, priority) = (mem::take(&mut slot.payload), slot.priority);
        let own = match slot.place {
            SlotState::Twin => self.slots.release_twin(index),
            _ => {
                slot.place = SlotState::Free;
                index
            }
        };
        (own, payload, priority)
    }

    /// Moves the delay of a slot to a twin, so that its key can be something else as well.
    pub(super) fn split(&mut self, own: u32) {
        let twin = self.slots.make_twin(own);
        self.wheel.replace(own, twin, &mut self.slots);
        self.move_delay(own, twin);
        self.slots[own].place = SlotState::Free;
        self.slots[twin].place = SlotState::Twin;
    }

    /// Moves the delay of a twin to the slot of its key, which is nothing but delayed from now on.
    pub(super) fn rejoin(&mut self, own: u32, twin: u32) {
        self.wheel.replace(twin, own, &mut self.slots);
        self.move_delay(twin, own);
        self.slots.release_twin(twin);
        self.slots[own].place = SlotState::Delayed;
    }

    fn move_delay(&mut self, from: u32, to: u32) {
        let slot = &mut self.slots[from];
        let (time, priority, backoff) = (slot.time, slot.priority, slot.backoff);
        let payload = mem::take(&mut slot.payload);
        let slot = &mut self.slots[to];
        (slot.time, slot.priority, slot.backoff, slot.payload) = (time, priority, backoff, payload);
    }
}
