//! Slot numbers by hash, in hashbrown's table.
//!
//! An entry is a slot number alone: the hash is in the slot. A table that is full is therefore filled anew from the slots
//! in their order (`Slots`), because hashbrown would read them in the order of the table, a cache miss for each.
//!
//! No list of keys forms long probe sequences in every process: each queue has a random seed, and hashbrown's triangular
//! probing does not let entries with neighbouring hashes form runs. Their length has no bound against somebody who knows
//! the seed (decision record 10). Called by `slots`.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::slots::Hash32;

/// Holds slot numbers.
#[derive(Debug, Default)]
pub(crate) struct Table(HashTable<u32>);

/// hashbrown takes the place from the low bits and a tag of seven bits from the high ones.
#[inline]
fn spread(hash: Hash32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

/// The hash of an entry that moves: none does in a table that is not full.
fn never_grows(_: &u32) -> u64 {
    unreachable!("the table is not full")
}

impl Table {
    /// A table with room for so many slots, which contains these.
    pub(crate) fn filled(room: usize, slots: impl Iterator<Item = (Hash32, u32)>) -> Self {
        let mut table = HashTable::with_capacity(room);
        slots.for_each(|(hash, slot)| _ = table.insert_unique(spread(hash), slot, never_grows));
        Self(table)
    }

    /// Number of slots.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// True if one more slot needs more memory.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() == self.0.capacity()
    }

    /// The slot that `is` accepts of those with this hash, and of a few others.
    #[inline]
    pub(crate) fn find(&self, hash: Hash32, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        self.0.find(spread(hash), |&slot| is(slot)).copied()
    }

    /// The same; if there is none, adds `slot`, which the table does not contain. The table is not full.
    #[inline]
    pub(crate) fn find_or_insert(
        &mut self,
        hash: Hash32,
        slot: u32,
        mut is: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        match self.0.entry(spread(hash), |&other| is(other), never_grows) {
            Entry::Occupied(entry) => Some(*entry.get()),
            Entry::Vacant(entry) => {
                entry.insert(slot);
                None
            }
        }
    }

    /// Removes a slot.
    #[inline]
    pub(crate) fn remove(&mut self, hash: Hash32, slot: u32) {
        if let Ok(entry) = self.0.find_entry(spread(hash), |&other| other == slot) {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests;
