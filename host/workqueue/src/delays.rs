//! Deadlines of delayed keys: a binary heap of slot numbers that knows where each of them stands.
//!
//! Invariants: at most one entry per slot; every move of an entry is reported to [`Positions`], so that a slot can be
//! found in the heap without a search (to bring its deadline forward, or to cancel it); equal deadlines come out in
//! the order in which they were set. Called by `state` only, under the queue's mutex.

use crate::clock::Nanos;
use crate::slots::NIL;

/// Below this many entries memory is not worth giving back.
const KEEP: usize = 4;

/// Told where an entry of the heap stands; [`NIL`] when it left.
pub(crate) trait Positions {
    /// The entry of `slot` now stands at `position`.
    fn moved(&mut self, slot: u32, position: u32);
}

/// A delayed slot and the moment it becomes ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    /// When.
    pub(crate) at: Nanos,
    /// Rises with each deadline set. It may wrap, which disturbs the order of equal deadlines and nothing else.
    sequence: u32,
    /// Who.
    pub(crate) slot: u32,
}

impl Due {
    fn rank(self) -> (Nanos, u32) {
        (self.at, self.sequence)
    }
}

/// Holds the deadlines, the earliest first.
#[derive(Debug, Default)]
pub(crate) struct Delays {
    heap: Vec<Due>,
    sequence: u32,
}

impl Delays {
    /// Number of delayed slots.
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// True if nothing is delayed.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// The earliest deadline.
    #[inline]
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.heap.first().map(|due| due.at)
    }

    /// The deadline of the entry at `position`.
    pub(crate) fn at(&self, position: u32) -> Nanos {
        self.heap[position as usize].at
    }

    /// Adds a slot that has no entry yet; true if it is now the earliest.
    pub(crate) fn insert(&mut self, at: Nanos, slot: u32, positions: &mut impl Positions) -> bool {
        let due = Due { at, sequence: self.next_sequence(), slot };
        self.heap.push(due);
        self.rise(self.heap.len() - 1, positions) == 0
    }

    /// Gives the entry at `position` an earlier deadline; true if it is now the earliest.
    pub(crate) fn bring_forward(&mut self, position: u32, at: Nanos, positions: &mut impl Positions) -> bool {
        let sequence = self.next_sequence();
        let due = &mut self.heap[position as usize];
        debug_assert!(at < due.at, "a deadline is never postponed");
        due.at = at;
        due.sequence = sequence;
        self.rise(position as usize, positions) == 0
    }

    /// Takes the earliest entry if it is due.
    #[inline]
    pub(crate) fn pop_due(&mut self, now: Nanos, positions: &mut impl Positions) -> Option<Due> {
        if self.next()? > now {
            return None;
        }
        Some(self.remove(0, positions))
    }

    /// Takes the entry at `position`.
    pub(crate) fn remove(&mut self, position: u32, positions: &mut impl Positions) -> Due {
        let position = position as usize;
        let removed = self.heap.swap_remove(position);
        positions.moved(removed.slot, NIL);
        if position < self.heap.len() && self.rise(position, positions) == position {
            self.sink(position, positions);
        }
        self.give_back();
        removed
    }

    /// Takes every entry whose slot `wanted` accepts, the earliest first.
    pub(crate) fn extract<P: Positions>(
        &mut self,
        positions: &mut P,
        mut wanted: impl FnMut(&P, u32) -> bool,
    ) -> Vec<Due> {
        let mut taken: Vec<Due> = Vec::new();
        self.heap.retain(|due| {
            let take = wanted(positions, due.slot);
            if take {
                taken.push(*due);
            }
            !take
        });
        if taken.is_empty() {
            return taken;
        }
        for due in &taken {
            positions.moved(due.slot, NIL);
        }
        // One sorted run is a heap; cheaper to reason about than to sift what is left.
        self.heap.sort_unstable_by_key(|due| due.rank());
        for (position, due) in self.heap.iter().enumerate() {
            positions.moved(due.slot, position as u32);
        }
        self.give_back();
        taken.sort_unstable_by_key(|due| due.rank());
        taken
    }

    /// Renames slots after they were compacted.
    pub(crate) fn rename(&mut self, names: &[u32]) {
        for due in &mut self.heap {
            due.slot = names[due.slot as usize];
        }
    }

    fn next_sequence(&mut self) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    /// Moves the entry at `position` up to where it belongs, and returns where that is.
    fn rise(&mut self, mut position: usize, positions: &mut impl Positions) -> usize {
        let due = self.heap[position];
        while position > 0 {
            let parent = (position - 1) / 2;
            if self.heap[parent].rank() <= due.rank() {
                break;
            }
            self.put(position, self.heap[parent], positions);
            position = parent;
        }
        self.put(position, due, positions);
        position
    }

    fn sink(&mut self, mut position: usize, positions: &mut impl Positions) {
        let due = self.heap[position];
        loop {
            let left = 2 * position + 1;
            let Some(first) = self.heap.get(left) else { break };
            let right_is_less = self.heap.get(left + 1).is_some_and(|right| right.rank() < first.rank());
            let child = left + usize::from(right_is_less);
            if due.rank() <= self.heap[child].rank() {
                break;
            }
            self.put(position, self.heap[child], positions);
            position = child;
        }
        self.put(position, due, positions);
    }

    fn put(&mut self, position: usize, due: Due, positions: &mut impl Positions) {
        self.heap[position] = due;
        positions.moved(due.slot, position as u32);
    }

    fn give_back(&mut self) {
        let (used, held) = (self.heap.len(), self.heap.capacity());
        if held > KEEP && used * 8 <= held {
            self.heap.shrink_to(used * 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Where the entry of each slot stands.
    struct Places(Vec<u32>);

    impl Positions for Places {
        fn moved(&mut self, slot: u32, position: u32) {
            self.0[slot as usize] = position;
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn entries_come_out_in_order_whatever_was_moved_or_removed(
            times in prop::collection::vec(1..1_000_u64, 1..100),
            forward in prop::collection::vec((any::<prop::sample::Index>(), 0..1_000_u64), 0..30),
            removed in prop::collection::vec(any::<prop::sample::Index>(), 0..50),
        ) {
            let mut places = Places(vec![NIL; times.len()]);
            let mut delays = Delays::default();
            let mut expected: Vec<Option<Nanos>> = times.iter().copied().map(Some).collect();
            for (slot, at) in times.iter().enumerate() {
                let earliest = delays.next().is_none_or(|next| *at < next);
                prop_assert_eq!(delays.insert(*at, slot as u32, &mut places), earliest);
            }
            for (slot, at) in forward {
                let slot = slot.index(times.len());
                if expected[slot] > Some(at) {
                    delays.bring_forward(places.0[slot], at, &mut places);
                    expected[slot] = Some(at);
                }
            }
            for slot in removed {
                let slot = slot.index(times.len());
                if let Some(at) = expected[slot].take() {
                    let due = delays.remove(places.0[slot], &mut places);
                    prop_assert_eq!((due.at, due.slot, places.0[slot]), (at, slot as u32, NIL));
                }
            }
            for (position, due) in delays.heap.iter().enumerate() {
                prop_assert_eq!(places.0[due.slot as usize] as usize, position);
            }
            let mut left: Vec<Nanos> = expected.into_iter().flatten().collect();
            left.sort_unstable();
            let out: Vec<Nanos> =
                std::iter::from_fn(|| delays.pop_due(Nanos::MAX, &mut places)).map(|due| due.at).collect();
            prop_assert_eq!(out, left);
        }
    }
}
