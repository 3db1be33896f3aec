//! Deadlines of delayed keys: a timing wheel whose buckets are lists threaded through the slots.
//!
//! ```text
//! level 0   64 buckets of 1.05 ms       near   a heap: what is due within the present 1.05 ms, exactly
//! level 1   64 buckets of 67 ms
//!   ...
//! level 6   64 buckets of 2.3 years, more than any delay that is kept
//! ```
//!
//! A deadline goes to the level at which it first differs from the present; when the present comes to a bucket, what
//! is in it is spread over the levels below, and at last into `near`. So setting or cancelling a delay costs the same
//! however many there are, and a delay needs no memory but its slot's.
//!
//! Invariants:
//! - what is before the end of the present tick, `elapsed`, is in `near`, and nothing else is;
//! - nothing comes out before its deadline, and equal deadlines come out in the order in which they were set: lists are
//!   first in, first out, and a bucket is spread before anything is added to the buckets below it;
//! - an empty wheel holds no buckets.
//!
//! Called by `state` only, under the queue's mutex.

use crate::clock::Nanos;
use crate::near::Near;
use crate::slots::{Ends, NIL, Slots};

/// A tick is 2 to this power nanoseconds, 1.05 ms: about what tokio's timers tell apart.
const TICK: u32 = 20;
/// A level has 2 to this power buckets.
const BITS: u32 = 6;
const BUCKETS: usize = 1 << BITS;
/// 42 bits of ticks are 146 years.
const LEVELS: usize = 7;

#[derive(Debug)]
struct Level {
    /// A bit for each bucket that is not empty.
    occupied: u64,
    buckets: [Ends; BUCKETS],
}

impl Level {
    const EMPTY: Self = Self { occupied: 0, buckets: [Ends::EMPTY; BUCKETS] };
}

/// Holds the deadlines. Their number is looked at most often, and stands first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Wheel {
    len: usize,
    /// The present, in ticks.
    elapsed: u64,
    near: Near,
    levels: [Option<Box<Level>>; LEVELS],
}

impl Default for Wheel {
    fn default() -> Self {
        Self { elapsed: 0, levels: [const { None }; LEVELS], near: Near::default(), len: 0 }
    }
}

impl Wheel {
    /// Number of delayed slots.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// True if nothing is delayed.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// When to look again: the earliest deadline if it is near, or else a moment before it.
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.near.next().or_else(|| self.first_bucket().map(|(_, _, start)| start << TICK))
    }

    /// Adds a slot at its deadline; true if that is when to look next.
    pub(crate) fn insert<K, M>(&mut self, slot: u32, now: Nanos, slots: &mut Slots<K, M>) -> bool {
        if self.is_empty() {
            self.elapsed = now >> TICK;
        }
        let before = self.next();
        self.len += 1;
        self.place(slot, slots);
        before.is_none_or(|before| self.next().is_some_and(|next| next < before))
    }

    /// Takes a slot out.
    pub(crate) fn remove<K, M>(&mut self, slot: u32, slots: &mut Slots<K, M>) {
        match self.bucket(slots[slot].time) {
            None => self.near.remove(slot, slots),
            Some((level, bucket)) => {
                let level = self.level(level);
                let ends = &mut level.buckets[bucket];
                slots.detach(ends, slot);
                if ends.head() == NIL {
                    level.occupied &= !(1 << bucket);
                }
            }
        }
        self.taken();
    }

    /// Puts a slot with the same deadline at the place of another.
    pub(crate) fn replace<K, M>(&mut self, old: u32, new: u32, slots: &mut Slots<K, M>) {
        match self.bucket(slots[old].time) {
            None => self.near.replace(old, new, slots),
            Some((level, bucket)) => slots.replace(&mut self.level(level).buckets[bucket], old, new),
        }
    }

    /// Takes the slot with the earliest deadline, if it is due.
    #[inline]
    pub(crate) fn pop_due<K, M>(&mut self, now: Nanos, slots: &mut Slots<K, M>) -> Option<u32> {
        if now >> TICK > self.elapsed {
            self.advance(now >> TICK, slots);
        }
        let slot = self.near.pop_due(now, slots)?;
        self.taken();
        Some(slot)
    }

    /// Goes through all slots, those with equal deadlines in the order in which these were set.
    pub(crate) fn walk<K, M>(&self, slots: &Slots<K, M>, mut visit: impl FnMut(u32)) {
        self.near.in_order().into_iter().for_each(&mut visit);
        for ends in self.levels.iter().flatten().flat_map(|level| &level.buckets) {
            let mut slot = ends.head();
            while slot != NIL {
                visit(slot);
                slot = slots[slot].next;
            }
        }
    }

    /// Renames slots after they were compacted.
    pub(crate) fn rename<K, M>(&mut self, names: &[u32], slots: &mut Slots<K, M>) {
        self.near.rename(names, slots);
        for ends in self.levels.iter_mut().flatten().flat_map(|level| &mut level.buckets) {
            ends.rename(names);
        }
    }

    fn taken(&mut self) {
        self.len -= 1;
        if self.len == 0 {
            self.levels = [const { None }; LEVELS];
            self.near = Near::default();
        }
    }

    fn level(&mut self, level: usize) -> &mut Level {
        self.levels[level].get_or_insert_with(|| Box::new(Level::EMPTY))
    }

    /// Where a deadline belongs; none if it is near.
    fn bucket(&self, deadline: Nanos) -> Option<(usize, usize)> {
        let tick = deadline >> TICK;
        if tick <= self.elapsed {
            return None;
        }
        let level = ((u64::BITS - 1 - (tick ^ self.elapsed).leading_zeros()) / BITS) as usize;
        // Further than any delay that is kept only where the clock itself is.
        let level = level.min(LEVELS - 1);
        Some((level, (tick >> (BITS * level as u32)) as usize % BUCKETS))
    }

    fn place<K, M>(&mut self, slot: u32, slots: &mut Slots<K, M>) {
        let deadline = slots[slot].time;
        match self.bucket(deadline) {
            None => self.near.insert(deadline, slot, slots),
            Some((level, bucket)) => {
                let level = self.level(level);
                level.occupied |= 1 << bucket;
                slots.append(&mut level.buckets[bucket], slot);
            }
        }
    }

    /// The first bucket that is not empty: level, number and first tick.
    ///
    /// All of a level are after the present and before those of the levels above.
    fn first_bucket(&self) -> Option<(usize, usize, u64)> {
        let (level, bucket) = self.levels.iter().enumerate().find_map(|(number, level)| {
            let occupied = level.as_ref().map_or(0, |level| level.occupied);
            (occupied != 0).then(|| (number, occupied.trailing_zeros() as usize))
        })?;
        let shift = BITS * level as u32;
        let above = self.elapsed >> (shift + BITS) << (shift + BITS);
        Some((level, bucket, above | (bucket as u64) << shift))
    }

    /// Makes `tick` the present.
    fn advance<K, M>(&mut self, tick: u64, slots: &mut Slots<K, M>) {
        while let Some((level, bucket, start)) = self.first_bucket().filter(|(_, _, start)| *start <= tick) {
            self.elapsed = start;
            let level = self.level(level);
            level.occupied &= !(1 << bucket);
            let mut slot = std::mem::replace(&mut level.buckets[bucket], Ends::EMPTY).head();
            while slot != NIL {
                let next = slots[slot].next;
                self.place(slot, slots);
                slot = next;
            }
        }
        self.elapsed = tick;
    }
}

#[cfg(test)]
mod tests;
