//! Workers that sleep in `get`, and the hook and the timekeeper of the queue, if it has them.
//!
//! Invariants: see `sleepers`. The hook is called for each key that becomes ready while nobody sleeps, unless `done` made it
//! ready. The timekeeper has the next deadline or an earlier moment.
//!
//! Called by the future in `get`, by the timekeeper, and by the rules in `state`.

use std::hash::Hash;
use std::task::Waker;

use super::State;
use crate::Merge;
use crate::clock::Nanos;
use crate::waiters::Ticket;

/// The state of a queue with a hook.
#[derive(Debug, Default)]
pub(crate) struct HookState {
    /// The deadline that the timekeeper has.
    alarm: Option<Nanos>,
}

impl<K: Clone + Eq + Hash, M: Merge> State<K, M> {
    /// Registers a worker that found nothing; says until when it may sleep at most.
    pub(crate) fn enrol(&mut self, ticket: &mut Option<Ticket>, waker: &Waker) -> Option<Nanos> {
        self.sleepers.enrol(ticket, self.next_deadline(), waker)
    }

    /// Removes a worker that took a key.
    pub(crate) fn leave(&mut self, ticket: Ticket) {
        self.sleepers.leave(ticket, self.next_deadline().is_some(), &mut self.wakes);
    }

    /// Takes a worker out that gave up. It may have been notified of a key that another can take now.
    pub(crate) fn give_up(&mut self, ticket: Ticket) {
        self.leave(ticket);
        if !self.ready.is_empty() {
            self.invite_worker();
        }
    }

    /// A key is ready: notifies a future that waits, or else the hook.
    #[inline]
    pub(super) fn invite_worker(&mut self) {
        if !self.sleepers.notify_one(&mut self.wakes) && self.hook.is_some() {
            self.wakes.ready = true;
        }
    }

    /// The next deadline changed.
    pub(super) fn deadline_changed(&mut self) {
        self.sleepers.deadline_changed(&mut self.wakes);
        self.tell_deadline();
    }

    /// The deadline that the timekeeper has is over.
    pub(crate) fn alarm(&mut self) {
        if let Some(hook) = &mut self.hook {
            hook.alarm = None;
        }
        // If more keys are due, the next deadline has passed already.
        self.has_more_due();
        self.tell_deadline();
    }

    fn tell_deadline(&mut self) {
        let next = self.next_deadline();
        if let Some(hook) = &mut self.hook
            && let Some(next) = next
            && hook.alarm.is_none_or(|alarm| next < alarm)
        {
            hook.alarm = Some(next);
            self.wakes.alarm = Some(next);
        }
    }
}
