//! Deadlines that are near: a binary heap of slot numbers in which each slot knows its position.
//!
//! Invariants: at most one entry per slot; every slot knows its position in the heap (in `previous`), so that it is found
//! without a search; equal deadlines come out in the order in which they came in. Called by `wheel` only.

use crate::clock::Nanos;
use crate::slots::Slots;

/// Below this many entries memory is not worth giving back.
const KEEP: usize = 4;

/// A slot and the moment it becomes ready.
#[derive(Debug, Clone, Copy)]
struct Due {
    at: Nanos,
    /// Rises with each entry. It may wrap, which disturbs the order of equal deadlines and nothing else.
    sequence: u32,
    slot: u32,
}

impl Due {
    fn rank(self) -> (Nanos, u32) {
        (self.at, self.sequence)
    }
}

/// Holds the deadlines, the earliest first.
#[derive(Debug, Default)]
pub(crate) struct Near {
    heap: Vec<Due>,
    sequence: u32,
}

impl Near {
    /// The earliest deadline.
    #[inline]
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.heap.first().map(|due| due.at)
    }

    /// Adds a slot that has no entry yet.
    pub(crate) fn insert<K, M>(&mut self, at: Nanos, slot: u32, slots: &mut Slots<K, M>) {
        self.sequence = self.sequence.wrapping_add(1);
        self.heap.push(Due { at, sequence: self.sequence, slot });
        self.rise(self.heap.len() - 1, slots);
    }

    /// Takes the earliest entry if it is due.
    #[inline]
    pub(crate) fn pop_due<K, M>(&mut self, now: Nanos, slots: &mut Slots<K, M>) -> Option<u32> {
        if self.next()? > now {
            return None;
        }
        let slot = self.heap[0].slot;
        self.remove(slot, slots);
        Some(slot)
    }

    /// Takes the entry of a slot.
    pub(crate) fn remove<K, M>(&mut self, slot: u32, slots: &mut Slots<K, M>) {
        let position = slots[slot].previous as usize;
        debug_assert_eq!(self.heap[position].slot, slot, "each entry knows its position");
        self.heap.swap_remove(position);
        if position < self.heap.len() && self.rise(position, slots) == position {
            self.sink(position, slots);
        }
        let (used, held) = (self.heap.len(), self.heap.capacity());
        if held > KEEP && used * 8 <= held {
            self.heap.shrink_to(used * 2);
        }
    }

    /// Gives the entry of one slot to another.
    pub(crate) fn replace<K, M>(&mut self, old: u32, new: u32, slots: &mut Slots<K, M>) {
        let position = slots[old].previous as usize;
        self.heap[position].slot = new;
        slots[new].previous = position as u32;
    }

    /// All slots, the earliest first.
    pub(crate) fn in_order(&self) -> Vec<u32> {
        let mut entries = self.heap.clone();
        entries.sort_unstable_by_key(|due| due.rank());
        entries.into_iter().map(|due| due.slot).collect()
    }

    /// Renames slots after they were compacted.
    pub(crate) fn rename<K, M>(&mut self, numbers: &[u32], slots: &mut Slots<K, M>) {
        for (position, due) in self.heap.iter_mut().enumerate() {
            due.slot = numbers[due.slot as usize];
            slots[due.slot].previous = position as u32;
        }
    }

    /// Moves the entry at `position` up to where it belongs, and returns where that is.
    fn rise<K, M>(&mut self, mut position: usize, slots: &mut Slots<K, M>) -> usize {
        let due = self.heap[position];
        while position > 0 {
            let parent = (position - 1) / 2;
            if self.heap[parent].rank() <= due.rank() {
                break;
            }
            self.put(position, self.heap[parent], slots);
            position = parent;
        }
        self.put(position, due, slots);
        position
    }

    fn sink<K, M>(&mut self, mut position: usize, slots: &mut Slots<K, M>) {
        let due = self.heap[position];
        loop {
            let left = 2 * position + 1;
            let Some(first) = self.heap.get(left) else { break };
            let right_is_less = self.heap.get(left + 1).is_some_and(|right| right.rank() < first.rank());
            let child = left + usize::from(right_is_less);
            if due.rank() <= self.heap[child].rank() {
                break;
            }
            self.put(position, self.heap[child], slots);
            position = child;
        }
        self.put(position, due, slots);
    }

    fn put<K, M>(&mut self, position: usize, due: Due, slots: &mut Slots<K, M>) {
        self.heap[position] = due;
        slots[due.slot].previous = position as u32;
    }
}
