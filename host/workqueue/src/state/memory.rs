//! Release of unused memory, half a minute after a burst.
//!
//! Invariant: while most slots are unused, `release_at` is set; it is one of the queue's deadlines, so that the worker that
//! keeps the time (or the timekeeper) wakes for it. A queue that is filled and emptied by turns therefore allocates nothing,
//! and an idle one holds a few slots. Called by the rules in `state`.

use std::hash::Hash;
use std::mem;
use std::time::Duration;

use super::State;
use crate::Merge;
use crate::clock::{self, Nanos};
use crate::wheel::Entry;

/// How long unused memory is kept for the next burst.
const KEPT: Duration = Duration::from_secs(30);

impl<K: Clone + Eq + Hash, M: Merge> State<K, M> {
    /// The earlier of the next deadline of a key and the planned release of memory.
    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        self.wheel.next().into_iter().chain(self.release_at).min()
    }

    /// Plans a release of memory if most slots are unused.
    #[inline]
    pub(super) fn plan_release(&mut self) {
        if self.slots.is_sparse() && self.release_at.is_none() {
            self.set_release();
        }
    }

    #[cold]
    fn set_release(&mut self) {
        let at = clock::deadline(self.clock.exact(), KEPT);
        self.release_at = Some(at);
        if self.wheel.next().is_none_or(|next| at < next) {
            self.deadline_changed();
        }
    }

    /// Releases memory if that is planned for `now` or earlier, and most slots are still unused.
    #[inline]
    pub(super) fn release_if_due(&mut self, now: Nanos) {
        if self.release_at.is_some_and(|at| at <= now) {
            self.release_memory();
        }
    }

    /// Releases the memory of unused slots if these are most.
    pub(super) fn release_memory(&mut self) {
        self.release_at = None;
        if !self.slots.is_sparse() {
            return;
        }
        // Before slots move: entries of delays that have ended name slots that may be gone afterwards.
        let live = self.live_delays();
        let numbers = self.slots.compact();
        let new = |slot: u32| numbers[slot as usize];
        self.ready.rename(&numbers);
        self.failed.rename(&numbers);
        self.wheel.refill(live.into_iter().map(|entry| Entry { slot: new(entry.slot), ..entry }));
        let beside = mem::take(&mut self.beside).into_iter();
        self.beside = beside.map(|(slot, delay)| (new(slot), delay)).collect();
        if let Some(measures) = &mut self.measures {
            measures.running.iter_mut().for_each(|key| key.slot = new(key.slot));
            measures.running.shrink_to_fit();
        }
    }
}
