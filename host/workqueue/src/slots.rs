//! One slot per known key: everything the queue knows about the key, in 48 bytes (beside a key of 16 and a payload of up
//! to 2).
//!
//! Invariants:
//! - the table has the number of a slot iff that slot holds a key; a key is held iff it is ready, running, delayed or
//!   failing;
//! - a slot is in at most one list, that of its [`SlotState`];
//! - slots are compacted when few of many are used for a while (`state::memory`).
//!
//! Lists hold slot numbers instead of keys, so handing a key out hashes nothing, and raising or cancelling one searches
//! nothing. Called by `state` and its parts, under the queue's mutex.

use std::hash::{BuildHasher, Hash};
use std::mem;
use std::ops::{Index, IndexMut};

use foldhash::fast::RandomState;

use crate::Priority;
use crate::chunks::Chunks;
use crate::clock::Nanos;
use crate::table::Table;

/// No slot.
pub(crate) const NIL: u32 = u32::MAX;

/// Up to this many slots are kept, used or not.
const KEEP: usize = 4;

/// The state of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// In no list: about to get its state, or without a key in the chain of free slots.
    Free,
    /// In the list of failing keys that wait for nothing.
    Failed,
    /// In the list of its priority.
    Ready,
    /// With a worker.
    Running,
    /// With a worker, and to be run again after that.
    Again,
    /// In the wheel.
    Delayed,
    /// In the wheel, with a deadline that the rate limiter set.
    Backoff,
}

/// Half of a key's hash.
pub(crate) type Hash32 = u32;

/// Holds a key and its state.
#[derive(Debug)]
pub(crate) struct Slot<K, M> {
    /// None in a free slot.
    key: Option<K>,
    /// Ready: when it became so, or its number where no time is measured. Running: when it was handed out. Delayed: the
    /// deadline. Failed: since when.
    pub(crate) time: Nanos,
    /// In a list: the slot after this one, unless this is the last. Free: the next free one.
    pub(crate) next: u32,
    /// In a list: the slot before this one, unless this is the first. Running in a queue with a name: the position among
    /// those. Delayed: the number of the entry in the wheel.
    pub(crate) previous: u32,
    hash: Hash32,
    /// How often the key failed since it was forgotten.
    pub(crate) failures: u32,
    /// Of the run to come.
    pub(crate) priority: Priority,
    /// The merged payloads of the adds of the run to come.
    pub(crate) payload: M,
    pub(crate) state: SlotState,
    /// The key is ready or running, and delayed as well (`state::delays`).
    pub(crate) has_delay: bool,
}

impl<K, M> Slot<K, M> {
    /// The key of a slot that holds one.
    #[inline]
    pub(crate) fn key(&self) -> &K {
        self.key.as_ref().expect("only free slots hold no key")
    }

    #[inline]
    fn holds(&self, key: &K) -> bool
    where
        K: Eq,
    {
        self.key.as_ref() == Some(key)
    }
}

/// First and last slot of a list that is threaded through slots, and the number of slots in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    head: u32,
    /// Any number if the list is empty.
    tail: u32,
    len: u32,
}

impl List {
    /// A list without slots.
    pub(crate) const EMPTY: Self = Self { head: NIL, tail: NIL, len: 0 };

    /// The first slot, [`NIL`] if there is none.
    #[inline]
    pub(crate) fn head(self) -> u32 {
        self.head
    }

    /// Number of slots in it.
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.len as usize
    }

    /// True if there are none.
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Renames slots after they were compacted.
    pub(crate) fn rename(&mut self, numbers: &[u32]) {
        self.head = renamed(numbers, self.head);
        self.tail = renamed(numbers, self.tail);
    }
}

/// Holds all slots, and finds them by key.
#[derive(Debug)]
pub(crate) struct Slots<K, M> {
    slots: Chunks<Slot<K, M>>,
    table: Table,
    /// First of the free slots, which are chained by `next`.
    free: u32,
    hasher: RandomState,
}

impl<K, M> Index<u32> for Slots<K, M> {
    type Output = Slot<K, M>;

    #[inline]
    fn index(&self, index: u32) -> &Self::Output {
        &self.slots[index as usize]
    }
}

impl<K, M> IndexMut<u32> for Slots<K, M> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Self::Output {
        &mut self.slots[index as usize]
    }
}

impl<K, M> Slots<K, M> {
    /// No slots; `hasher` must be the one with which callers hash keys.
    pub(crate) fn new(hasher: RandomState) -> Self {
        Self { slots: Chunks::default(), table: Table::default(), free: NIL, hasher }
    }

    /// Appends a slot to a list, and returns it.
    #[inline(always)]
    pub(crate) fn push_back(&mut self, list: &mut List, index: u32) -> &mut Slot<K, M> {
        let tail = mem::replace(&mut list.tail, index);
        *(if list.is_empty() { &mut list.head } else { &mut self[tail].next }) = index;
        list.len += 1;
        let slot = &mut self[index];
        slot.previous = tail;
        slot
    }

    /// Takes the first slot out of a list that is not empty, and returns it with its number. No other slot is touched.
    #[inline]
    pub(crate) fn pop_front(&mut self, list: &mut List) -> (u32, &mut Slot<K, M>) {
        let head = list.head;
        let slot = &mut self[head];
        list.len -= 1;
        list.head = if list.is_empty() { NIL } else { slot.next };
        (head, slot)
    }

    /// Takes a slot that is in `list` out of it.
    pub(crate) fn unlink(&mut self, list: &mut List, index: u32) {
        let Slot { previous, next, .. } = self[index];
        list.len -= 1;
        let (is_first, is_last) = (index == list.head, index == list.tail);
        match is_first {
            true => list.head = if is_last { NIL } else { next },
            false => self[previous].next = next,
        }
        *(if is_last { &mut list.tail } else { &mut self[next].previous }) = previous;
    }

    /// Number of keys.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Number of all slots that hold a key, with it.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Slot<K, M>)> {
        (0..).zip(self.slots.iter_mut()).filter(|(_, slot)| slot.key.is_some())
    }

    /// Frees a slot that holds a key and is in no list.
    #[inline(always)]
    pub(crate) fn release(&mut self, index: u32) {
        let free = mem::replace(&mut self.free, index);
        let slot = &mut self.slots[index as usize];
        debug_assert!(slot.state == SlotState::Free && !slot.has_delay && slot.failures == 0, "it is used");
        slot.next = free;
        self.table.remove(slot.hash, index);
        slot.key = None;
    }

    /// True if seven in eight slots are unused, and they are more than a handful.
    #[inline]
    pub(crate) fn is_sparse(&self) -> bool {
        self.slots.len() > KEEP && self.len() * 8 <= self.slots.len()
    }

    /// Moves the used slots together and releases the memory of the others. Returns the new slot numbers by the old ones;
    /// the holders of numbers must rename them. Costs as much as there are slots.
    pub(crate) fn compact(&mut self) -> Vec<u32> {
        let mut numbers = vec![NIL; self.slots.len()];
        let mut kept = Chunks::default();
        for (old, slot) in mem::take(&mut self.slots).into_iter().enumerate() {
            if slot.key.is_some() {
                numbers[old] = kept.len() as u32;
                kept.push(slot);
            }
        }
        for slot in kept.iter_mut() {
            if matches!(slot.state, SlotState::Ready | SlotState::Failed) {
                slot.next = renamed(&numbers, slot.next);
                slot.previous = renamed(&numbers, slot.previous);
            }
        }
        self.slots = kept;
        self.free = NIL;
        self.fill_table();
        numbers
    }

    /// Makes a table with room for as many more keys.
    #[cold]
    fn fill_table(&mut self) {
        let keys = (0..).zip(self.slots.iter()).filter(|(_, slot)| slot.key.is_some());
        self.table = Table::filled((self.len() * 2).max(KEEP), keys.map(|(index, slot)| (slot.hash, index)));
    }
}

impl<K: Eq + Hash, M: Default> Slots<K, M> {
    /// The slot that holds a key, if one does.
    #[inline]
    pub(crate) fn find(&self, hash: Hash32, key: &K) -> Option<u32> {
        self.table.find(hash, |index| {
            let slot = &self[index];
            slot.hash == hash && slot.holds(key)
        })
    }

    /// The number and the slot that holds a key, if one does: tries `slot` first.
    #[inline(always)]
    pub(crate) fn find_near(&self, slot: u32, key: &K) -> Option<(u32, &Slot<K, M>)> {
        match self.slots.get(slot as usize) {
            Some(near) if near.holds(key) => Some((slot, near)),
            _ => self.find_unhashed(key).map(|own| (own, &self[own])),
        }
    }

    /// The slot that holds a key, if one does; hashes the key, which a caller that can should do without the lock.
    #[inline(never)]
    pub(crate) fn find_unhashed(&self, key: &K) -> Option<u32> {
        self.find(hash(&self.hasher, key), key)
    }

    /// The slot of a key, and whether it is new: its state is then [`SlotState::Free`].
    #[inline(always)]
    pub(crate) fn find_or_insert(&mut self, hash: Hash32, key: K) -> (u32, bool) {
        if self.table.is_full() {
            self.fill_table();
        }
        let Self { slots, table, free, .. } = self;
        let unused = if *free == NIL { slot_number(slots.len()) } else { *free };
        let found = table.find_or_insert(hash, unused, |index| {
            let slot = &slots[index as usize];
            slot.hash == hash && slot.holds(&key)
        });
        if let Some(own) = found {
            return (own, false);
        }
        if *free == NIL {
            self.append(hash, key);
        } else {
            // The rest of a free slot is as in a new one, or written when the slot gets its state.
            let reused = &mut slots[unused as usize];
            *free = reused.next;
            (reused.key, reused.hash) = (Some(key), hash);
        }
        (unused, true)
    }

    #[inline(never)]
    fn append(&mut self, hash: Hash32, key: K) {
        self.slots.push(Slot {
            key: Some(key),
            time: 0,
            next: NIL,
            previous: NIL,
            hash,
            failures: 0,
            priority: Priority::default(),
            payload: M::default(),
            state: SlotState::Free,
            has_delay: false,
        });
    }
}

/// The number of the slot that is appended to so many.
#[inline]
fn slot_number(slots: usize) -> u32 {
    u32::try_from(slots).ok().filter(|&number| number != NIL).expect("a queue holds fewer than 2^32 - 1 keys")
}

/// Half of the hash of a key.
#[inline]
pub(crate) fn hash<K: Hash>(hasher: &RandomState, key: &K) -> Hash32 {
    (hasher.hash_one(key) >> 32) as Hash32
}

/// The new number of a slot; [`NIL`] stays.
fn renamed(numbers: &[u32], index: u32) -> u32 {
    numbers.get(index as usize).copied().unwrap_or(NIL)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_slot_takes_48_bytes_and_56_with_a_key_of_24() {
        assert_eq!(size_of::<Slot<Arc<str>, ()>>(), 48);
        assert_eq!(size_of::<Slot<Arc<str>, u16>>(), 48);
        assert_eq!(size_of::<Slot<(Arc<str>, u32), u16>>(), 56);
    }
}
