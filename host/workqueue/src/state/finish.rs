//! The end of a run: the key is given back, and what follows for it.
//!
//! Invariant: a key is given back once; an item of another queue changes nothing unless its key is in processing here. Called
//! by the queue.

use std::hash::Hash;
use std::mem;
use std::time::Duration;

use super::delays::DelayOptions;
use super::{State, next_number};
use crate::clock::Nanos;
use crate::slots::{NIL, SlotState};
use crate::{Item, Merge, Verdict};

impl<K: Clone + Eq + Hash, M: Merge> State<K, M> {
    /// Gives a key back.
    #[inline]
    pub(crate) fn done(&mut self, item: &Item<K, M>) {
        if let Some(own) = self.running(item) {
            self.give_back(own);
            self.settle_free(own);
            self.settle();
        }
    }

    /// Gives a key back and does what follows from its run, which ended at `now`. Returns the delay until its next run.
    pub(crate) fn finish(&mut self, item: &mut Item<K, M>, verdict: Verdict, now: Nanos) -> Option<Duration> {
        let own = self.running(item)?;
        let priority = item.priority;
        let delay = match verdict {
            Verdict::Retry { at_least } if !self.shutting_down() => {
                // Code of the user's, which may panic: nothing has changed before it.
                let delay = self.limiter.when(self.slots[own].failures);
                self.count_failure(own);
                Some(delay.max(at_least))
            }
            Verdict::Retry { .. } => None,
            Verdict::Done | Verdict::After(_) => {
                self.forget_at(own);
                verdict.after().filter(|_| !self.shutting_down())
            }
        };
        // What may panic comes before the key is given back, or when it is ready again.
        if let Some(delay) = delay {
            self.catch_up_at(now);
            if delay.is_zero() {
                self.retries += 1;
                self.add_at(own, mem::take(&mut item.payload), priority, true);
            }
        }
        item.slot = NIL;
        self.give_back(own);
        if let Some(delay) = delay.filter(|delay| !delay.is_zero()) {
            let is_backoff = matches!(verdict, Verdict::Retry { .. });
            let options = DelayOptions { delay, began: now, coalesce: true, is_backoff };
            self.delay(own, mem::take(&mut item.payload), priority, options);
        }
        self.settle_free(own);
        self.settle();
        delay
    }

    /// The slot of a key in processing.
    #[inline]
    fn running(&self, item: &Item<K, M>) -> Option<u32> {
        let own = self.slots.find_near(item.slot, &item.key)?;
        matches!(self.slots[own].state, SlotState::Running | SlotState::Again).then_some(own)
    }

    /// Ends the processing of a key. Its slot is left [`SlotState::Free`] if it is neither ready nor delayed then.
    #[inline]
    fn give_back(&mut self, own: u32) {
        self.processing -= 1;
        if self.measures.is_some() {
            self.measure_work(own);
        }
        let slot = &mut self.slots[own];
        if slot.state == SlotState::Again {
            self.again -= 1;
            let since = self.measures.as_mut().and_then(|measures| measures.again_since.remove(&own));
            slot.state = SlotState::Ready;
            slot.time = since.unwrap_or_else(|| next_number(&mut self.sequence));
            // No hook: the worker that gives the key back looks for the next one.
            self.ready.push_back(&mut self.slots, own);
            self.sleepers.notify_one(&mut self.wakes);
        } else if slot.has_delay {
            self.rejoin(own);
        } else {
            slot.state = SlotState::Free;
        }
    }

    fn measure_work(&mut self, own: u32) {
        let Some(measures) = &mut self.measures else { return };
        let slot = &self.slots[own];
        measures.work_duration.observe(self.clock.recent().saturating_sub(slot.time));
        let position = slot.previous;
        measures.running.swap_remove(position as usize);
        if let Some(&moved) = measures.running.get(position as usize) {
            self.slots[moved].previous = position;
        }
    }
}
