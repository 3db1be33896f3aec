//! One slot per known key: everything the queue knows about the key, in one place.
//!
//! Invariants:
//! - a slot is used iff the table has its number, iff its key is dirty, processing or delayed;
//! - a used slot is in at most one list: that of its class if it is dirty and not processing, that of keys in
//!   processing if it is processing;
//! - the memory held is a small multiple of what the used slots need: all of it is released when the last slot is
//!   (but for a handful), and the slots are compacted when few of many are left.
//!
//! Lists and the heap of deadlines hold slot numbers instead of keys, so handing a key out hashes nothing, and raising
//! or cancelling one searches nothing. Called by `state` only, under the queue's mutex.

use std::hash::{BuildHasher, Hash};
use std::mem;
use std::ops::{Index, IndexMut};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::Priority;
use crate::clock::Nanos;
use crate::delays::Positions;

/// No slot, or no position.
pub(crate) const NIL: u32 = u32::MAX;

/// An empty queue keeps this many slots, so that one key that comes and goes costs no allocation.
const KEEP: usize = 4;

/// Up to this many slots compaction is not worth its time.
const SMALL: usize = 64;

/// Holds a key and its state.
#[derive(Debug)]
pub(crate) struct Slot<K, M> {
    /// Empty iff the slot is free.
    key: Option<K>,
    /// What came with the adds of the run to come; neutral unless dirty.
    pub(crate) payload: M,
    /// What came with the delayed adds; neutral unless delayed.
    pub(crate) delayed_payload: M,
    /// Time of the add that made the key dirty.
    pub(crate) added: Nanos,
    /// Time at which the key was handed out.
    pub(crate) started: Nanos,
    next: u32,
    previous: u32,
    /// Place in the heap of deadlines, [`NIL`] unless delayed.
    position: u32,
    /// The key needs a run.
    pub(crate) dirty: bool,
    /// A worker has the key.
    pub(crate) processing: bool,
    /// The class of the run to come.
    pub(crate) priority: Priority,
    /// The class of the delayed add.
    pub(crate) delayed_priority: Priority,
    /// The deadline was set by the rate limiter.
    pub(crate) backoff: bool,
}

impl<K, M: Default> Slot<K, M> {
    fn new(key: K) -> Self {
        Self {
            key: Some(key),
            payload: M::default(),
            delayed_payload: M::default(),
            added: 0,
            started: 0,
            next: NIL,
            previous: NIL,
            position: NIL,
            dirty: false,
            processing: false,
            priority: Priority::Low,
            delayed_priority: Priority::Low,
            backoff: false,
        }
    }
}

impl<K, M> Slot<K, M> {
    /// The key of a used slot.
    #[inline]
    pub(crate) fn key(&self) -> &K {
        self.key.as_ref().expect("a slot in use holds a key")
    }

    /// Where its deadline stands in the heap, if it has one.
    #[inline]
    pub(crate) fn position(&self) -> Option<u32> {
        (self.position != NIL).then_some(self.position)
    }

    /// True if there is no reason left to keep the slot.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        !self.dirty && !self.processing && self.position == NIL
    }

    #[inline]
    fn holds(&self, key: &K) -> bool
    where
        K: Eq,
    {
        self.key.as_ref() == Some(key)
    }
}

/// A list threaded through slots.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl List {
    /// A list without slots.
    pub(crate) const EMPTY: Self = Self { head: NIL, tail: NIL, len: 0 };

    /// Number of slots in it.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// True if there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Renames slots after they were compacted.
    pub(crate) fn rename(&mut self, names: &[u32]) {
        self.head = renamed(names, self.head);
        self.tail = renamed(names, self.tail);
    }
}

/// Holds all slots, and finds them by key.
#[derive(Debug)]
pub(crate) struct Slots<K, M> {
    slots: Vec<Slot<K, M>>,
    table: HashTable<u32>,
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

impl<K, M> Positions for Slots<K, M> {
    fn moved(&mut self, slot: u32, position: u32) {
        self[slot].position = position;
    }
}

impl<K, M> Slots<K, M> {
    /// No slots; `hasher` must be the one with which callers hash keys.
    pub(crate) fn new(hasher: RandomState) -> Self {
        Self { slots: Vec::new(), table: HashTable::new(), free: NIL, hasher }
    }

    /// Appends a slot to a list.
    #[inline]
    pub(crate) fn push_back(&mut self, list: &mut List, index: u32) {
        let tail = list.tail;
        let slot = &mut self[index];
        slot.previous = tail;
        slot.next = NIL;
        if tail == NIL {
            list.head = index;
        } else {
            self[tail].next = index;
        }
        list.tail = index;
        list.len += 1;
    }

    /// Takes the first slot of a list.
    #[inline]
    pub(crate) fn pop_front(&mut self, list: &mut List) -> Option<u32> {
        let head = list.head;
        if head == NIL {
            return None;
        }
        self.unlink(list, head);
        Some(head)
    }

    /// Takes a slot that is in `list` out of it.
    #[inline]
    pub(crate) fn unlink(&mut self, list: &mut List, index: u32) {
        let slot = &mut self[index];
        let (previous, next) = (slot.previous, slot.next);
        slot.previous = NIL;
        slot.next = NIL;
        if previous == NIL {
            list.head = next;
        } else {
            self[previous].next = next;
        }
        if next == NIL {
            list.tail = previous;
        } else {
            self[next].previous = previous;
        }
        list.len -= 1;
    }

    /// Walks a list from the front.
    pub(crate) fn walk(&self, list: &List) -> impl Iterator<Item = &Slot<K, M>> {
        let mut index = list.head;
        std::iter::from_fn(move || {
            let slot = self.slots.get(index as usize)?;
            index = slot.next;
            Some(slot)
        })
    }
}

impl<K: Eq + Hash, M: Default> Slots<K, M> {
    /// The slot of a key, if it has one.
    #[inline]
    pub(crate) fn find(&self, hash: u64, key: &K) -> Option<u32> {
        self.table.find(hash, |&index| self.slots[index as usize].holds(key)).copied()
    }

    /// The slot of a key, made if it has none.
    #[inline]
    pub(crate) fn find_or_insert(&mut self, hash: u64, key: K) -> u32 {
        let Self { slots, table, free, hasher } = self;
        let entry = table.entry(
            hash,
            |&index| slots[index as usize].holds(&key),
            |&index| hasher.hash_one(slots[index as usize].key()),
        );
        match entry {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                let index = allocate(slots, free, Slot::new(key));
                entry.insert(index);
                index
            }
        }
    }

    /// Frees the slot of a key.
    #[inline]
    pub(crate) fn release(&mut self, hash: u64, index: u32) {
        if let Ok(entry) = self.table.find_entry(hash, |&other| other == index) {
            entry.remove();
        }
        let free = self.free;
        let slot = &mut self[index];
        debug_assert!(slot.is_idle(), "only an idle slot is released");
        slot.key = None;
        slot.next = free;
        self.free = index;
    }

    /// The hash of the key of a used slot.
    pub(crate) fn hash_of(&self, index: u32) -> u64 {
        self.hasher.hash_one(self[index].key())
    }

    /// Gives memory back after releases, if that is due. If slots got other numbers thereby, returns the new ones by
    /// the old ones, and whoever holds numbers must rename them.
    ///
    /// Costs as much as there are used slots, and comes after seven times as many releases at least.
    #[inline]
    pub(crate) fn shrink(&mut self) -> Option<Vec<u32>> {
        let used = self.table.len();
        if used == 0 {
            if self.slots.capacity() > KEEP {
                self.slots = Vec::new();
                self.table = HashTable::new();
                self.free = NIL;
            }
            return None;
        }
        if self.slots.len() <= SMALL || used * 8 > self.slots.len() {
            return None;
        }
        Some(self.compact())
    }

    fn compact(&mut self) -> Vec<u32> {
        let room = self.table.len() * 2;
        let mut names = vec![NIL; self.slots.len()];
        let mut kept = Vec::with_capacity(room);
        for (old, slot) in mem::take(&mut self.slots).into_iter().enumerate() {
            if slot.key.is_some() {
                names[old] = kept.len() as u32;
                kept.push(slot);
            }
        }
        for slot in &mut kept {
            slot.next = renamed(&names, slot.next);
            slot.previous = renamed(&names, slot.previous);
        }
        for index in self.table.iter_mut() {
            *index = names[*index as usize];
        }
        self.table.shrink_to(room, |&index| self.hasher.hash_one(kept[index as usize].key()));
        self.slots = kept;
        self.free = NIL;
        names
    }
}

fn renamed(names: &[u32], index: u32) -> u32 {
    if index == NIL { NIL } else { names[index as usize] }
}

fn allocate<K, M>(slots: &mut Vec<Slot<K, M>>, free: &mut u32, slot: Slot<K, M>) -> u32 {
    if *free == NIL {
        let index = u32::try_from(slots.len()).ok().filter(|&index| index != NIL);
        slots.push(slot);
        return index.expect("a queue holds fewer than 2^32 - 1 keys");
    }
    let index = *free;
    let place = &mut slots[index as usize];
    *free = place.next;
    *place = slot;
    index
}
