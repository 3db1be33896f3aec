//! Deadlines of delayed keys: a timing wheel whose buckets are arrays.
//!
//! ```text
//! level 0   up to 64 buckets of 1.05 ms       near   sorted: all deadlines until the end of the present 1.05 ms
//! level 1   up to 64 buckets of 67 ms
//!   ...
//! level 6   up to 64 buckets of 2.3 years, more than any delay that is kept
//! ```
//!
//! A deadline goes to the level at which it first differs from the present. When the present comes to a bucket, its entries
//! move to the levels below, and at last into `near`, where they are sorted once. A move reads and writes arrays in their
//! order and reads no slot.
//!
//! A delay that ends early leaves its entry behind as *stale*. The slots tell stale entries from live ones: an entry is
//! live if its slot has a delay with the number of the entry. Stale entries are removed when they are more than the others.
//!
//! Invariants:
//! - deadlines before the end of the present tick, `elapsed`, are in `near`, and no others are;
//! - no entry comes out before its deadline; entries come out by deadline and then by number;
//! - an empty wheel holds no buckets.
//!
//! Called by `state` only, under the queue's mutex.

use std::collections::VecDeque;
use std::mem;

use crate::chunks::Chunks;
use crate::clock::Nanos;

/// A tick is 2 to this power nanoseconds, 1.05 ms: about the resolution of tokio's timers.
const TICK: u32 = 20;
/// A level has at most 2 to this power buckets.
const BITS: u32 = 6;
/// 42 bits of ticks are 146 years.
const LEVELS: usize = 7;
/// Stale entries that are tolerated beside as many as there are live ones.
const STALE: usize = 64;
/// Capacity of `near` that an empty wheel keeps.
const KEEP: usize = 4;

/// The deadline of a slot. Equal deadlines come in the order of their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) at: Nanos,
    /// Rises with each entry. It may wrap, which disturbs the order of equal deadlines and nothing else.
    pub(crate) number: u32,
    pub(crate) slot: u32,
}

/// The entries of one bucket, in no order.
#[derive(Debug)]
struct Bucket {
    entries: Chunks<Entry>,
    earliest: Nanos,
}

#[derive(Debug, Default)]
struct Level {
    /// A bit for each bucket that is not empty.
    occupied: u64,
    /// Those buckets, in the order of their bits.
    buckets: Vec<Bucket>,
}

impl Level {
    fn add(&mut self, bucket: u32, entry: Entry) {
        let bit = 1_u64 << bucket;
        let place = (self.occupied & (bit - 1)).count_ones() as usize;
        if self.occupied & bit == 0 {
            self.occupied |= bit;
            self.buckets.insert(place, Bucket { entries: Chunks::default(), earliest: Nanos::MAX });
        }
        let bucket = &mut self.buckets[place];
        bucket.earliest = bucket.earliest.min(entry.at);
        bucket.entries.push(entry);
    }
}

/// Holds the deadlines. Their number is looked at most often, and stands first.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Wheel {
    /// Number of live entries.
    len: usize,
    stale: usize,
    /// The present, in ticks.
    elapsed: u64,
    near: VecDeque<Entry>,
    levels: Vec<Level>,
    /// Of the last entry.
    number: u32,
}

impl Wheel {
    /// Number of delays.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// True if nothing is delayed.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The earliest deadline, or that of a delay which ended early, if it is earlier.
    pub(crate) fn next(&self) -> Option<Nanos> {
        if self.is_empty() {
            return None;
        }
        // All entries of a level are earlier than those of the levels above.
        let later = || self.levels.iter().find_map(|level| Some(level.buckets.first()?.earliest));
        self.near.front().map(|entry| entry.at).or_else(later)
    }

    /// Adds the delay of a slot; returns its number, and whether it is the next deadline.
    pub(crate) fn insert(&mut self, slot: u32, at: Nanos, now: Nanos) -> (u32, bool) {
        if self.is_empty() {
            self.elapsed = now >> TICK;
        }
        let is_next = self.next().is_none_or(|next| at < next);
        self.len += 1;
        self.number = self.number.wrapping_add(1);
        let entry = Entry { at, number: self.number, slot };
        if self.is_near(&entry) {
            let place = self.near.partition_point(|other| *other < entry);
            self.near.insert(place, entry);
        } else {
            self.place(entry);
        }
        (self.number, is_next)
    }

    /// A delay has ended early, and its entry is no longer live.
    pub(crate) fn ended(&mut self, is_live: impl Fn(&Entry) -> bool) {
        self.len -= 1;
        self.stale += 1;
        if self.is_empty() {
            self.clear();
        } else if self.stale > self.len + STALE {
            self.refill(self.live(is_live));
        }
    }

    /// Takes the earliest live entry if it is due; the delay of its slot has ended then.
    #[inline]
    pub(crate) fn pop_due(&mut self, now: Nanos, is_live: impl Fn(&Entry) -> bool) -> Option<Entry> {
        if now >> TICK > self.elapsed {
            self.advance(now >> TICK);
        }
        while self.near.front()?.at <= now {
            let entry = self.near.pop_front()?;
            if is_live(&entry) {
                self.len -= 1;
                if self.is_empty() {
                    self.clear();
                }
                return Some(entry);
            }
            self.stale -= 1;
        }
        None
    }

    /// The live entries, in no order.
    pub(crate) fn live(&self, is_live: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        let far =
            self.levels.iter().flat_map(|level| &level.buckets).flat_map(|bucket| bucket.entries.iter());
        self.near.iter().chain(far).filter(|entry| is_live(entry)).copied().collect()
    }

    /// Replaces all entries by these, which are the live ones: slots were compacted, or many entries are stale.
    pub(crate) fn refill(&mut self, live: impl IntoIterator<Item = Entry>) {
        self.stale = 0;
        self.levels.clear();
        self.near = VecDeque::new();
        self.place_all(live);
    }

    /// Forgets all entries.
    pub(crate) fn clear(&mut self) {
        (self.len, self.stale) = (0, 0);
        self.levels.clear();
        self.near.clear();
        self.near.shrink_to(KEEP);
    }

    fn is_near(&self, entry: &Entry) -> bool {
        entry.at >> TICK <= self.elapsed
    }

    /// Adds entries, of which those that are near are later than all that are near already.
    fn place_all(&mut self, entries: impl IntoIterator<Item = Entry>) {
        let sorted = self.near.len();
        for entry in entries {
            if self.is_near(&entry) {
                self.near.push_back(entry);
            } else {
                self.place(entry);
            }
        }
        self.near.make_contiguous()[sorted..].sort_unstable();
    }

    /// Adds an entry that is not near.
    fn place(&mut self, entry: Entry) {
        let tick = entry.at >> TICK;
        let level = ((u64::BITS - 1 - (tick ^ self.elapsed).leading_zeros()) / BITS) as usize;
        // Further than any delay that is kept only where the clock itself is.
        let level = level.min(LEVELS - 1);
        if self.levels.len() <= level {
            self.levels.resize_with(level + 1, Level::default);
        }
        let bucket = (tick >> (BITS * level as u32)) as u32 % (1 << BITS);
        self.levels[level].add(bucket, entry);
    }

    /// Makes `tick` the present.
    fn advance(&mut self, tick: u64) {
        let before = mem::replace(&mut self.elapsed, tick);
        let mut moved = Vec::new();
        for (level, shift) in self.levels.iter_mut().zip((0..).step_by(BITS as usize)) {
            let parent = before >> (shift + BITS) << (shift + BITS);
            while level.occupied != 0 && parent | u64::from(level.occupied.trailing_zeros()) << shift <= tick
            {
                level.occupied &= level.occupied - 1;
                moved.push(level.buckets.remove(0).entries);
            }
        }
        self.place_all(moved.into_iter().flat_map(Chunks::into_iter));
    }
}

#[cfg(test)]
mod tests;
