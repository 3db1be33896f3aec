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
    /// Gives a key back, whose run ended at `ended` or now.
    #[inline(always)]
    pub(crate) fn done(&mut self, item: &Item<K, M>, ended: Option<Nanos>) {
        if let Some(own) = self.running(item) {
            self.give_back(own, ended);
            self.settle_free(own, ended);
            self.settle();
        }
    }

    /// Gives keys back whose runs end now, but for those that are finished.
    pub(crate) fn done_all(&mut self, items: &[Item<K, M>]) {
        let now = self.read_for_measures();
        let unfinished = items.iter().filter(|item| !item.is_finished());
        unfinished.for_each(|item| self.done(item, now));
    }

    /// Gives a key back and does what follows from its run, which ended at `ended` or now. Returns the delay until its next
    /// run.
    pub(crate) fn finish(
        &mut self,
        item: &mut Item<K, M>,
        verdict: Verdict,
        ended: Option<Nanos>,
    ) -> Option<Duration> {
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
        let mut next = delay.map(|delay| DelayOptions {
            delay,
            began: ended.unwrap_or_else(|| self.clock.exact()),
            coalesce: true,
            is_backoff: matches!(verdict, Verdict::Retry { .. }),
        });
        let read = next.map(|options| options.began);
        // A run that the key joins: before the key is ready for it, at a priority that may be lower. What may panic comes
        // before the key is given back, or when it is delayed again.
        if let Some(options) = next {
            self.catch_up(Some(options.began));
            if options.delay.is_zero() {
                self.retries += 1;
                self.add_at(own, mem::take(&mut item.payload), priority, true, Some(options.began));
                next = None;
            } else if self.slots[own].state == SlotState::Again {
                self.delay(own, mem::take(&mut item.payload), priority, options);
                next = None;
            }
        }
        item.slot = NIL;
        let ended = ended.or(read);
        self.give_back(own, ended);
        if let Some(options) = next {
            self.delay(own, mem::take(&mut item.payload), priority, options);
        }
        self.settle_free(own, ended);
        self.settle();
        delay
    }

    /// The slot of a key in processing.
    #[inline(always)]
    fn running(&self, item: &Item<K, M>) -> Option<u32> {
        let (own, slot) = self.slots.find_near(item.slot, &item.key)?;
        matches!(slot.state, SlotState::Running | SlotState::Again).then_some(own)
    }

    /// Ends the processing of a key, at `ended` or now. Its slot is left [`SlotState::Free`] if it is neither ready nor delayed
    /// then.
    #[inline(always)]
    fn give_back(&mut self, own: u32, ended: Option<Nanos>) {
        self.processing -= 1;
        let dirty_since = self.measure_work(own, ended);
        let slot = &mut self.slots[own];
        if slot.state == SlotState::Again {
            self.again -= 1;
            slot.state = SlotState::Ready;
            slot.time = dirty_since.unwrap_or_else(|| next_number(&mut self.sequence));
            let priority = slot.priority;
            // No hook: the worker that gives the key back looks for the next one.
            self.ready.push_back(&mut self.slots, own, priority);
            self.sleepers.notify_one(&mut self.wakes);
        } else if slot.has_delay {
            self.rejoin(own);
        } else {
            slot.state = SlotState::Free;
        }
    }

    /// Measures a run that ended at `ended` or now, in a queue with a name. Returns since when the key has been dirty again.
    #[inline]
    fn measure_work(&mut self, own: u32, ended: Option<Nanos>) -> Option<Nanos> {
        let measures = self.measures.as_mut()?;
        let slot = &self.slots[own];
        let ended = ended.unwrap_or_else(|| self.clock.recent());
        measures.work_duration.observe(ended.saturating_sub(slot.time));
        let position = slot.previous;
        let run = measures.running.swap_remove(position as usize);
        if let Some(moved) = measures.running.get(position as usize) {
            self.slots[moved.slot].previous = position;
        }
        run.dirty_since
    }
}
