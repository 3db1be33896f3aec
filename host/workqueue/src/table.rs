//! Numbers of slots by hash: open addressing in one array, a word for each entry.
//!
//! Invariants:
//! - an entry stands at the place that the high bits of its hash say, or behind it with no empty place between;
//! - at most three quarters of the places are used.
//!
//! An entry holds its whole hash. So a search touches one cache line of the table and, but for one time in four thousand million,
//! no slot but the right one; and growing touches no slot at all and goes through both arrays from front to back. (A table
//! whose entries are slot numbers alone, as hashbrown's would be, needs a cache miss for each key then, and two
//! for each search.) Called by `slots`, and by the limiters' failures with places of their own.

use crate::slots::Hash32;

/// An entry: the hash, and the slot's number plus one. Zero where there is none.
type Entry = u64;

const EMPTY: Entry = 0;

/// Places of the smallest table that is not empty.
const SMALLEST: usize = 4;

/// Holds the numbers.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// None, or a power of two.
    entries: Vec<Entry>,
    len: usize,
}

fn entry(hash: Hash32, slot: u32) -> Entry {
    u64::from(hash) << 32 | (u64::from(slot) + 1)
}

fn hash_of(entry: Entry) -> Hash32 {
    (entry >> 32) as Hash32
}

fn slot_of(entry: Entry) -> u32 {
    (entry as u32).wrapping_sub(1)
}

/// The place that a hash asks for among so many.
#[inline]
fn wanted(hash: Hash32, places: usize) -> usize {
    ((u64::from(hash) * places as u64) >> 32) as usize
}

impl Table {
    /// Number of slots in it.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// True if there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slot with this hash that `is` accepts.
    #[inline]
    pub(crate) fn find(&self, hash: Hash32, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let mask = self.entries.len().checked_sub(1)?;
        let mut place = wanted(hash, self.entries.len());
        loop {
            let entry = self.entries[place];
            if entry == EMPTY {
                return None;
            }
            if hash_of(entry) == hash && is(slot_of(entry)) {
                return Some(slot_of(entry));
            }
            place = (place + 1) & mask;
        }
    }

    /// Adds a slot that is not in it.
    #[inline]
    pub(crate) fn insert(&mut self, hash: Hash32, slot: u32) {
        if (self.len + 1) * 4 > self.entries.len() * 3 {
            self.resize((self.entries.len() * 2).max(SMALLEST));
        }
        self.put(entry(hash, slot));
        self.len += 1;
    }

    /// Takes a slot out that is in it.
    #[inline]
    pub(crate) fn remove(&mut self, hash: Hash32, slot: u32) {
        let Some(mask) = self.entries.len().checked_sub(1) else { return };
        let mut hole = wanted(hash, self.entries.len());
        while self.entries[hole] != entry(hash, slot) {
            if self.entries[hole] == EMPTY {
                return;
            }
            hole = (hole + 1) & mask;
        }
        // Those behind move up, as far as that does not bring them in front of the place they ask for.
        let mut place = hole;
        loop {
            place = (place + 1) & mask;
            let entry = self.entries[place];
            if entry == EMPTY {
                break;
            }
            let way = place.wrapping_sub(wanted(hash_of(entry), self.entries.len())) & mask;
            if way >= place.wrapping_sub(hole) & mask {
                self.entries[hole] = entry;
                hole = place;
            }
        }
        self.entries[hole] = EMPTY;
        self.len -= 1;
    }

    /// Gives all slots the numbers that `numbers` has at their old ones, and keeps room for so many.
    pub(crate) fn rename(&mut self, numbers: &[u32], room: usize) {
        for place in self.entries.iter_mut().filter(|place| **place != EMPTY) {
            *place = entry(hash_of(*place), numbers[slot_of(*place) as usize]);
        }
        let places = (room.max(self.len) * 4).div_ceil(3).next_power_of_two().max(SMALLEST);
        if places < self.entries.len() {
            self.resize(places);
        }
    }

    #[cold]
    fn resize(&mut self, places: usize) {
        let old = std::mem::replace(&mut self.entries, vec![EMPTY; places]);
        old.into_iter().filter(|entry| *entry != EMPTY).for_each(|entry| self.put(entry));
    }

    #[inline]
    fn put(&mut self, entry: Entry) {
        let mask = self.entries.len() - 1;
        let mut place = wanted(hash_of(entry), self.entries.len());
        while self.entries[place] != EMPTY {
            place = (place + 1) & mask;
        }
        self.entries[place] = entry;
    }
}

#[cfg(test)]
mod tests;
