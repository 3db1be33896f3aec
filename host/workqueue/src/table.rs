//! Slot numbers by hash, in hashbrown's table.
//!
//! Invariant: an entry holds 32 bits of the hash of its key. A search therefore compares keys only where those bits are
//! equal, and a table that grows moves its entries without reading a slot.
//!
//! No list of keys forms long probe sequences in every process: each queue has a random seed, and hashbrown's triangular
//! probing does not let entries with neighbouring hashes form runs. Their length has no bound against somebody who knows
//! the seed (decision record 10). Called by `slots`, and by the failures of the limiters.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::slots::Hash32;

/// Holds slot numbers.
#[derive(Debug, Default)]
pub(crate) struct Table(HashTable<(Hash32, u32)>);

/// hashbrown takes the place from the low bits and a tag of seven bits from the high ones.
#[inline]
fn spread(hash: Hash32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

impl Table {
    /// Number of slots.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are no slots.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The slot with this hash that `is` accepts.
    #[inline]
    pub(crate) fn find(&self, hash: Hash32, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        self.0.find(spread(hash), |entry| entry.0 == hash && is(entry.1)).map(|entry| entry.1)
    }

    /// The entry with this hash whose slot `is` accepts, or the place of a new one.
    #[inline]
    pub(crate) fn entry(
        &mut self,
        hash: Hash32,
        mut is: impl FnMut(u32) -> bool,
    ) -> Entry<'_, (Hash32, u32)> {
        self.0.entry(spread(hash), |entry| entry.0 == hash && is(entry.1), |entry| spread(entry.0))
    }

    /// Adds a slot that the table does not contain.
    #[inline]
    pub(crate) fn insert(&mut self, hash: Hash32, slot: u32) {
        self.0.insert_unique(spread(hash), (hash, slot), |entry| spread(entry.0));
    }

    /// Removes a slot.
    #[inline]
    pub(crate) fn remove(&mut self, hash: Hash32, slot: u32) {
        if let Ok(entry) = self.0.find_entry(spread(hash), |entry| entry.1 == slot) {
            entry.remove();
        }
    }

    /// Replaces each slot number by the element of `numbers` at it, and shrinks to a capacity of `room`.
    pub(crate) fn rename(&mut self, numbers: &[u32], room: usize) {
        self.0.iter_mut().for_each(|entry| entry.1 = numbers[entry.1 as usize]);
        self.0.shrink_to(room, |entry| spread(entry.0));
    }
}

#[cfg(test)]
mod tests;
