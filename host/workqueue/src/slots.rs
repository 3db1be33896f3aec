//! One slot per known key: everything the queue knows about the key, in 40 bytes (beside a key of 16 and a payload of 1).
//!
//! Invariants:
//! - the table has the number of a slot iff that slot holds a key; a key is held iff it is ready, running or delayed;
//! - a slot is in at most one list, that of its [`SlotState`];
//! - a key that is delayed and also ready or running has a second slot without key, its *twin*, for the delay,
//!   which `twins` leads to and which leads back. A key that is only delayed needs no twin;
//! - slots are compacted when few of many are used for a while (`state::memory`).
//!
//! Lists hold slot numbers instead of keys, so handing a key out hashes nothing, and raising or cancelling one searches
//! nothing. Called by `state` and its parts, under the queue's mutex.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash};
use std::mem;
use std::ops::{Index, IndexMut};

use foldhash::fast::RandomState;
use hashbrown::hash_table::Entry;

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
    /// Nowhere: in the chain of free slots, or about to get its place.
    Free,
    /// In the list of its priority.
    Ready,
    /// With a worker.
    Running,
    /// With a worker, and to be run again after that.
    Again,
    /// In the wheel, holding its key.
    Delayed,
    /// In the wheel, for a key whose own slot is elsewhere.
    Twin,
}

/// Half of a key's hash.
pub(crate) type Hash32 = u32;

/// The use of a slot.
#[derive(Debug)]
enum SlotUse<K> {
    /// This key.
    Key(K),
    /// The delay of the key of that slot; for nothing if that is [`NIL`].
    Delay(u32),
}

/// Holds a key and its state.
#[derive(Debug)]
pub(crate) struct Slot<K, M> {
    of: SlotUse<K>,
    /// Ready: when it became so, or its number where no time is measured. Running: when it was handed out. Delayed and
    /// twin: the deadline.
    pub(crate) time: Nanos,
    pub(crate) next: u32,
    /// In the heap of deadlines that are near, the position there.
    pub(crate) previous: u32,
    /// Of the run to come.
    pub(crate) priority: Priority,
    /// The merged payloads of the adds of the run to come.
    pub(crate) payload: M,
    pub(crate) place: SlotState,
    /// The deadline was set by the rate limiter.
    pub(crate) backoff: bool,
    /// It has a twin.
    twinned: bool,
}

impl<K, M: Default> Slot<K, M> {
    fn new(of: SlotUse<K>) -> Self {
        Self {
            of,
            time: 0,
            next: NIL,
            previous: NIL,
            priority: Priority::default(),
            payload: M::default(),
            place: SlotState::Free,
            backoff: false,
            twinned: false,
        }
    }
}

impl<K, M> Slot<K, M> {
    /// The key of a slot that holds one.
    #[inline]
    pub(crate) fn key(&self) -> &K {
        match &self.of {
            SlotUse::Key(key) => key,
            SlotUse::Delay(_) => panic!("only twins and free slots hold no key"),
        }
    }

    #[inline]
    fn holds(&self, key: &K) -> bool
    where
        K: Eq,
    {
        matches!(&self.of, SlotUse::Key(held) if held == key)
    }
}

/// First and last slot of a list that is threaded through slots.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListEnds {
    head: u32,
    tail: u32,
}

impl ListEnds {
    /// Of a list without slots.
    pub(crate) const EMPTY: Self = Self { head: NIL, tail: NIL };

    /// The first slot, [`NIL`] if there is none.
    #[inline]
    pub(crate) fn head(self) -> u32 {
        self.head
    }

    /// True if there are no slots.
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.head == NIL
    }

    /// True if the slot is the first or the last.
    pub(crate) fn is_end(self, slot: u32) -> bool {
        self.head == slot || self.tail == slot
    }

    /// Renames slots after they were compacted.
    pub(crate) fn rename(&mut self, numbers: &[u32]) {
        self.head = renamed(numbers, self.head);
        self.tail = renamed(numbers, self.tail);
    }
}

/// A list that knows how many slots are in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    pub(crate) ends: ListEnds,
    len: u32,
}

impl List {
    /// A list without slots.
    pub(crate) const EMPTY: Self = Self { ends: ListEnds::EMPTY, len: 0 };

    /// Number of slots in it.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// True if there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Holds all slots, and finds them by key.
#[derive(Debug)]
pub(crate) struct Slots<K, M> {
    slots: Chunks<Slot<K, M>>,
    table: Table,
    /// First of the free slots, which are chained by `next`.
    free: u32,
    /// The twin of each slot that has one.
    twins: BTreeMap<u32, u32>,
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
        Self { slots: Chunks::default(), table: Table::default(), free: NIL, twins: BTreeMap::new(), hasher }
    }

    /// Appends a slot to a list.
    #[inline]
    pub(crate) fn push_back(&mut self, list: &mut List, index: u32) {
        list.len += 1;
        self.append(&mut list.ends, index);
    }

    /// Takes a slot that is in `list` out of it.
    #[inline]
    pub(crate) fn unlink(&mut self, list: &mut List, index: u32) {
        list.len -= 1;
        self.detach(&mut list.ends, index);
    }

    /// Appends a slot to a list with these ends.
    #[inline]
    pub(crate) fn append(&mut self, ends: &mut ListEnds, index: u32) {
        let tail = mem::replace(&mut ends.tail, index);
        let slot = &mut self[index];
        slot.previous = tail;
        slot.next = NIL;
        self.lead_to(ends, tail, index);
    }

    /// Takes a slot out of the list with these ends.
    #[inline]
    pub(crate) fn detach(&mut self, ends: &mut ListEnds, index: u32) {
        let (previous, next) = (self[index].previous, self[index].next);
        self.lead_to(ends, previous, next);
        self.lead_back_to(ends, next, previous);
    }

    /// Puts `new` at the place of `old` in the list with these ends.
    pub(crate) fn replace(&mut self, ends: &mut ListEnds, old: u32, new: u32) {
        let (previous, next) = (self[old].previous, self[old].next);
        (self[new].previous, self[new].next) = (previous, next);
        self.lead_to(ends, previous, new);
        self.lead_back_to(ends, next, new);
    }

    #[inline]
    fn lead_to(&mut self, ends: &mut ListEnds, from: u32, to: u32) {
        *(if from == NIL { &mut ends.head } else { &mut self[from].next }) = to;
    }

    #[inline]
    fn lead_back_to(&mut self, ends: &mut ListEnds, from: u32, to: u32) {
        *(if from == NIL { &mut ends.tail } else { &mut self[from].previous }) = to;
    }

    /// Walks a list from the front.
    pub(crate) fn walk(&self, list: &List) -> impl Iterator<Item = &Slot<K, M>> {
        let mut index = list.ends.head;
        std::iter::from_fn(move || {
            let slot = self.slots.get(index as usize)?;
            index = slot.next;
            Some(slot)
        })
    }

    /// The key that a slot is about: its own, or that of the slot it is the twin of.
    pub(crate) fn key_of(&self, index: u32) -> &K {
        match &self[index].of {
            SlotUse::Key(key) => key,
            SlotUse::Delay(of) => self[*of].key(),
        }
    }

    /// The twin of a slot, if it has one.
    #[inline]
    pub(crate) fn twin(&self, index: u32) -> Option<u32> {
        if self[index].twinned { self.twins.get(&index).copied() } else { None }
    }
}

impl<K: Eq + Hash, M: Default> Slots<K, M> {
    /// Number of keys.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// The slot that holds a key, if one does.
    #[inline]
    pub(crate) fn find(&self, hash: Hash32, key: &K) -> Option<u32> {
        self.table.find(hash, |index| self[index].holds(key))
    }

    /// The slot that holds a key, if one does: tries `slot` first.
    #[inline]
    pub(crate) fn find_near(&self, slot: u32, hash: Hash32, key: &K) -> Option<u32> {
        match self.slots.get(slot as usize) {
            Some(near) if near.holds(key) => Some(slot),
            _ => self.find(hash, key),
        }
    }

    /// The slot of a key, made if it has none; its place is then [`SlotState::Free`].
    #[inline]
    pub(crate) fn find_or_insert(&mut self, hash: Hash32, key: K) -> u32 {
        let Self { slots, table, free, .. } = self;
        match table.entry(hash, |index| slots[index as usize].holds(&key)) {
            Entry::Occupied(entry) => entry.get().1,
            Entry::Vacant(place) => {
                let index = allocate(slots, free, SlotUse::Key(key));
                place.insert((hash, index));
                index
            }
        }
    }

    /// Makes a twin of a slot; its place is [`SlotState::Free`] until it has one.
    pub(crate) fn make_twin(&mut self, of: u32) -> u32 {
        let twin = allocate(&mut self.slots, &mut self.free, SlotUse::Delay(of));
        self.twins.insert(of, twin);
        self[of].twinned = true;
        twin
    }

    /// Frees a twin, whose payload was taken; returns the slot of its key.
    pub(crate) fn release_twin(&mut self, twin: u32) -> u32 {
        let SlotUse::Delay(of) = self[twin].of else { panic!("a twin is for a delay") };
        self.twins.remove(&of);
        self[of].twinned = false;
        self.free(twin);
        of
    }

    /// Frees a slot that holds a key and no payload, and has no twin.
    pub(crate) fn release(&mut self, index: u32) {
        self.release_hashed(index, hash(&self.hasher, self[index].key()));
    }

    /// Frees a slot as [`Self::release`] does, of whose key the hash is known.
    #[inline]
    pub(crate) fn release_hashed(&mut self, index: u32, hash: Hash32) {
        debug_assert!(!self[index].twinned, "its twin still needs the key");
        self.table.remove(hash, index);
        self.free(index);
    }

    #[inline]
    fn free(&mut self, index: u32) {
        let free = mem::replace(&mut self.free, index);
        let slot = &mut self[index];
        slot.of = SlotUse::Delay(NIL);
        slot.place = SlotState::Free;
        slot.twinned = false;
        slot.next = free;
    }

    /// True if seven in eight slots are unused, and they are more than a handful.
    #[inline]
    pub(crate) fn is_sparse(&self) -> bool {
        self.slots.len() > KEEP && self.used() * 8 <= self.slots.len()
    }

    fn used(&self) -> usize {
        self.table.len() + self.twins.len()
    }

    /// Moves the used slots together and releases the memory of the others. Returns the new slot numbers by the old ones;
    /// whoever holds numbers must rename them. Costs as much as there are slots.
    pub(crate) fn compact(&mut self) -> Vec<u32> {
        let room = self.used() * 2;
        let mut numbers = vec![NIL; self.slots.len()];
        let mut kept = Chunks::default();
        for (old, slot) in mem::take(&mut self.slots).into_iter().enumerate() {
            if slot.place != SlotState::Free {
                numbers[old] = kept.len() as u32;
                kept.push(slot);
            }
        }
        for slot in kept.iter_mut() {
            slot.next = renamed(&numbers, slot.next);
            // In the heap of near deadlines it is no slot, but then that writes it anew.
            slot.previous = renamed(&numbers, slot.previous);
            if let SlotUse::Delay(of) = &mut slot.of {
                *of = renamed(&numbers, *of);
            }
        }
        self.table.rename(&numbers, room);
        let twins = mem::take(&mut self.twins).into_iter();
        self.twins = twins.map(|(of, twin)| (numbers[of as usize], numbers[twin as usize])).collect();
        self.slots = kept;
        self.free = NIL;
        numbers
    }
}

/// Half of the hash of a key.
#[inline]
pub(crate) fn hash<K: Hash>(hasher: &RandomState, key: &K) -> Hash32 {
    (hasher.hash_one(key) >> 32) as Hash32
}

/// The new number of a slot; [`NIL`] stays.
pub(crate) fn renamed(numbers: &[u32], index: u32) -> u32 {
    numbers.get(index as usize).copied().unwrap_or(NIL)
}

fn allocate<K, M: Default>(slots: &mut Chunks<Slot<K, M>>, free: &mut u32, of: SlotUse<K>) -> u32 {
    if *free == NIL {
        let index = u32::try_from(slots.len()).ok().filter(|&index| index != NIL);
        slots.push(Slot::new(of));
        return index.expect("a queue holds fewer than 2^32 - 1 keys");
    }
    let index = *free;
    // The rest of a free slot is as in a new one, or written when the slot gets its state.
    let reused = &mut slots[index as usize];
    *free = reused.next;
    reused.of = of;
    index
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_slot_takes_40_bytes() {
        assert_eq!(size_of::<Slot<Arc<str>, ()>>(), 40);
        assert_eq!(size_of::<Slot<Arc<str>, u8>>(), 40);
    }
}
