//! Deadlines of delayed keys: a timing wheel whose buckets are lists threaded through the slots.
//!
//! ```text
//! level 0   64 buckets of 1.05 ms       near   a heap: what is due within the present 1.05 ms, exactly
//! level 1   64 buckets of 67 ms
//!   ...
//! level 6   64 buckets of 2.3 years, more than any delay that is kept
//! ```
//!
//! A deadline goes to the level at which it first differs from the present; when the present comes to a bucket, or a little
//! before (`ahead`), what is in it is spread over the levels below, and at last into `near`. So setting or cancelling a delay costs the same
//! however many there are, and a delay needs no memory but its slot's.
//!
//! Invariants:
//! - what is before the end of the present tick, `elapsed`, is in `near`, and nothing else is;
//! - nothing comes out before its deadline, and equal deadlines come out in the order in which they were set: lists are
//!   first in, first out, and a bucket is spread before anything is added to the buckets below it;
//! - an empty wheel holds no buckets.
//!
//! Called by `state` only, under the queue's mutex.

mod ahead;

use crate::clock::Nanos;
use crate::near::Near;
use crate::slots::{ListEnds, NIL, Slots};
use ahead::Ahead;

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
    buckets: [ListEnds; BUCKETS],
}

impl Level {
    const EMPTY: Self = Self { occupied: 0, buckets: [ListEnds::EMPTY; BUCKETS] };
}

/// A bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BucketIndex {
    level: usize,
    bucket: usize,
}

/// Where a deadline belongs as seen from the tick `present`; none if it is near then.
fn place_from(present: u64, deadline: Nanos) -> Option<BucketIndex> {
    let tick = deadline >> TICK;
    if tick <= present {
        return None;
    }
    let level = ((u64::BITS - 1 - (tick ^ present).leading_zeros()) / BITS) as usize;
    // Further than any delay that is kept only where the clock itself is.
    let level = level.min(LEVELS - 1);
    Some(BucketIndex { level, bucket: (tick >> (BITS * level as u32)) as usize % BUCKETS })
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
    /// The buckets that are being spread: at most one of each level, the first of it.
    ahead: Vec<Ahead>,
}

impl Default for Wheel {
    fn default() -> Self {
        Self {
            elapsed: 0,
            levels: [const { None }; LEVELS],
            near: Near::default(),
            ahead: Vec::new(),
            len: 0,
        }
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
        self.near.next().or_else(|| self.first_bucket().map(|(_, start)| start << TICK))
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
        match place_from(self.elapsed, slots[slot].time) {
            None => self.near.remove(slot, slots),
            Some(place) => match self.spread_from(place, slot) {
                Some(ahead) => ahead.detach(slot, slots),
                None => {
                    let is_spread = self.ahead.iter().any(|ahead| ahead.of == place);
                    let level = self.level(place.level);
                    let ends = &mut level.buckets[place.bucket];
                    slots.detach(ends, slot);
                    if ends.is_empty() && !is_spread {
                        level.occupied &= !(1 << place.bucket);
                    }
                }
            },
        }
        self.taken();
    }

    /// Puts a slot with the same deadline at the place of another.
    pub(crate) fn replace<K, M>(&mut self, old: u32, new: u32, slots: &mut Slots<K, M>) {
        match place_from(self.elapsed, slots[old].time) {
            None => self.near.replace(old, new, slots),
            Some(place) => match self.spread_from(place, old) {
                Some(ahead) => ahead.replace(old, new, slots),
                None => slots.replace(&mut self.level(place.level).buckets[place.bucket], old, new),
            },
        }
    }

    /// What was spread of a bucket that is being spread, if the slot is in that, or in the middle of the bucket's list.
    fn spread_from(&mut self, place: BucketIndex, slot: u32) -> Option<&mut Ahead> {
        let ahead = self.ahead.iter_mut().find(|ahead| ahead.of == place)?;
        let source = self.levels[place.level].as_ref()?.buckets[place.bucket];
        (!source.is_end(slot)).then_some(ahead)
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
        let ahead = self.ahead.iter().flat_map(Ahead::lists);
        let levels = self.levels.iter().flatten().flat_map(|level| &level.buckets);
        for ends in ahead.chain(levels) {
            let mut slot = ends.head();
            while slot != NIL {
                visit(slot);
                slot = slots[slot].next;
            }
        }
    }

    /// Renames slots after they were compacted.
    pub(crate) fn rename<K, M>(&mut self, numbers: &[u32], slots: &mut Slots<K, M>) {
        self.near.rename(numbers, slots);
        let ahead = self.ahead.iter_mut().flat_map(Ahead::lists_mut);
        let levels = self.levels.iter_mut().flatten().flat_map(|level| &mut level.buckets);
        ahead.chain(levels).for_each(|ends| ends.rename(numbers));
    }

    fn taken(&mut self) {
        self.len -= 1;
        if self.len == 0 {
            self.levels = [const { None }; LEVELS];
            self.near = Near::default();
            self.ahead = Vec::new();
        }
    }

    fn level(&mut self, level: usize) -> &mut Level {
        self.levels[level].get_or_insert_with(|| Box::new(Level::EMPTY))
    }

    fn place<K, M>(&mut self, slot: u32, slots: &mut Slots<K, M>) {
        let deadline = slots[slot].time;
        let Some(place) = place_from(self.elapsed, deadline) else {
            return self.near.insert(deadline, slot, slots);
        };
        let level = self.levels[place.level].get_or_insert_with(|| Box::new(Level::EMPTY));
        let ends = &mut level.buckets[place.bucket];
        match self.ahead.iter_mut().find(|ahead| ahead.of == place && ends.is_empty()) {
            Some(ahead) => ahead.append(slot, slots),
            None => slots.append(ends, slot),
        }
        level.occupied |= 1 << place.bucket;
    }

    /// The first bucket that is not empty, and its first tick. One that is being spread counts as not empty.
    ///
    /// All of a level are after the present and before those of the levels above.
    fn first_bucket(&self) -> Option<(BucketIndex, u64)> {
        (0..LEVELS).find_map(|level| self.first_bucket_of(level))
    }

    /// The same, of one level.
    fn first_bucket_of(&self, level: usize) -> Option<(BucketIndex, u64)> {
        let occupied = self.levels[level].as_ref().map_or(0, |level| level.occupied);
        if occupied == 0 {
            return None;
        }
        let bucket = occupied.trailing_zeros() as usize;
        let shift = BITS * level as u32;
        let above = self.elapsed >> (shift + BITS) << (shift + BITS);
        Some((BucketIndex { level, bucket }, above | (bucket as u64) << shift))
    }

    /// Makes `tick` the present.
    fn advance<K, M>(&mut self, tick: u64, slots: &mut Slots<K, M>) {
        while let Some((place, start)) = self.first_bucket().filter(|(_, start)| *start <= tick) {
            self.elapsed = start;
            let level = self.level(place.level);
            level.occupied &= !(1 << place.bucket);
            let rest = std::mem::replace(&mut level.buckets[place.bucket], ListEnds::EMPTY);
            if let Some(number) = self.ahead.iter().position(|ahead| ahead.of == place) {
                let (levels, first) = self.ahead.swap_remove(number).end();
                // What is below the bucket is before it, and so there is nothing any more.
                levels.for_each(|(number, level)| self.levels[number] = Some(level));
                self.place_all(first, slots);
            }
            self.place_all(rest, slots);
        }
        self.elapsed = tick;
        self.look_ahead(slots);
    }

    fn place_all<K, M>(&mut self, list: ListEnds, slots: &mut Slots<K, M>) {
        let mut slot = list.head();
        while slot != NIL {
            let next = slots[slot].next;
            self.place(slot, slots);
            slot = next;
        }
    }

    /// Spreads some of the buckets whose time comes soon: of each level the first, since those of a level may be few while the one
    /// that the level above gives next holds very many.
    fn look_ahead<K, M>(&mut self, slots: &mut Slots<K, M>) {
        for level in 1..LEVELS {
            let Some((place, start)) = self.first_bucket_of(level) else { continue };
            let known = self.ahead.iter().position(|ahead| ahead.of == place);
            let number = known.or_else(|| {
                self.ahead.push(Ahead::begin(place, start, self.elapsed)?);
                Some(self.ahead.len() - 1)
            });
            if let Some(number) = number
                && let Some(level) = &mut self.levels[level]
            {
                self.ahead[number].advance(&mut level.buckets[place.bucket], slots);
            }
        }
    }
}

#[cfg(test)]
mod tests;
