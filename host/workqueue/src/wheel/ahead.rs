//! Spreading a bucket before its time comes, a few keys at a time.
//!
//! Half a million keys that wait in one bucket are not spread over the levels below it when the present comes to it, under
//! one lock, but from half of its width before, some with each tick, over levels that take the place of the wheel's own then.
//! What is left by then, since nobody called so often, is spread at once.
//!
//! Invariants: keys of the bucket are in its own list (`source` below) if it is not their turn yet, and in a list here else; a
//! key that is added is behind all of equal deadline. Called by the wheel only.

use super::{BITS, BucketIndex, LEVELS, Level, place_from};
use crate::slots::{ListEnds, Slots};

/// Keys that are spread with each tick: some 50 µs. Few in tests, so that these see a bucket half spread.
const KEYS: usize = if cfg!(test) { 2 } else { 512 };

/// Holds what is spread of a bucket.
#[derive(Debug)]
pub(super) struct Ahead {
    /// The bucket.
    pub(super) of: BucketIndex,
    /// Its first tick.
    start: u64,
    /// Keys of that tick.
    first: ListEnds,
    levels: [Option<Box<Level>>; LEVELS],
}

impl Ahead {
    /// Begins to spread a bucket if its time is near, at `elapsed`.
    pub(super) fn begin(of: BucketIndex, start: u64, elapsed: u64) -> Option<Self> {
        let half = 1 << (BITS * of.level as u32) >> 1;
        let levels = [const { None }; LEVELS];
        // Nothing is below the lowest level, and the highest is further away than any delay.
        let is_spread = of.level > 0 && of.level < LEVELS - 1;
        (is_spread && start - elapsed <= half).then_some(Self { of, start, first: ListEnds::EMPTY, levels })
    }

    /// Spreads some of the keys of the bucket.
    pub(super) fn advance<K, M>(&mut self, source: &mut ListEnds, slots: &mut Slots<K, M>) {
        for _ in 0..KEYS {
            let slot = source.head();
            if source.is_empty() {
                return;
            }
            slots.detach(source, slot);
            self.append(slot, slots);
        }
    }

    /// Adds a slot behind all that were spread.
    pub(super) fn append<K, M>(&mut self, slot: u32, slots: &mut Slots<K, M>) {
        let ends = match place_from(self.start, slots[slot].time) {
            None => &mut self.first,
            Some(place) => {
                let level = self.levels[place.level].get_or_insert_with(|| Box::new(Level::EMPTY));
                level.occupied |= 1 << place.bucket;
                &mut level.buckets[place.bucket]
            }
        };
        slots.append(ends, slot);
    }

    /// Takes a slot out that was spread, or is neither the first nor the last of its bucket, so that no list's ends change.
    pub(super) fn detach<K, M>(&mut self, slot: u32, slots: &mut Slots<K, M>) {
        self.with_ends(slot, slots, |ends, slots| slots.detach(ends, slot));
    }

    /// Puts `new` at the place of a slot as [`Self::detach`] takes.
    pub(super) fn replace<K, M>(&mut self, old: u32, new: u32, slots: &mut Slots<K, M>) {
        self.with_ends(old, slots, |ends, slots| slots.replace(ends, old, new));
    }

    fn with_ends<K, M>(
        &mut self,
        slot: u32,
        slots: &mut Slots<K, M>,
        change: impl FnOnce(&mut ListEnds, &mut Slots<K, M>),
    ) {
        let Some(place) = place_from(self.start, slots[slot].time) else {
            return change(&mut self.first, slots);
        };
        // None where nothing was spread to: then the slot is in its bucket still, between two others.
        let Some(level) = &mut self.levels[place.level] else {
            return change(&mut { ListEnds::EMPTY }, slots);
        };
        let ends = &mut level.buckets[place.bucket];
        change(ends, slots);
        if ends.is_empty() {
            level.occupied &= !(1 << place.bucket);
        }
    }

    /// The time has come: gives the levels, and the list of the keys that are near now.
    pub(super) fn end(self) -> (impl Iterator<Item = (usize, Box<Level>)>, ListEnds) {
        let levels = self.levels.into_iter().enumerate();
        (levels.filter_map(|(number, level)| Some((number, level?))), self.first)
    }

    /// All lists, those with equal deadlines in the order in which these were set.
    pub(super) fn lists(&self) -> impl Iterator<Item = &ListEnds> {
        let levels = self.levels.iter().flatten();
        std::iter::once(&self.first).chain(levels.flat_map(|level| &level.buckets))
    }

    /// All lists.
    pub(super) fn lists_mut(&mut self) -> impl Iterator<Item = &mut ListEnds> {
        let levels = self.levels.iter_mut().flatten();
        std::iter::once(&mut self.first).chain(levels.flat_map(|level| &mut level.buckets))
    }
}
