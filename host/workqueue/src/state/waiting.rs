//! Workers that sleep in `get`, and the scheduler of the queue, if it has one.
//!
//! Invariants: see `sleepers`. The queue rings its scheduler once when it has a ready key and may have one more processed, until
//! the scheduler takes a turn; and gives it the next deadline whenever that is earlier than the last one given.
//!
//! Called by the future in `get`, by the scheduler, and by the rules in `state`.

use std::hash::Hash;
use std::task::Waker;

use super::{State, Take};
use crate::clock::Nanos;
use crate::waiters::Ticket;
use crate::{Item, Merge};

/// The state of a queue that belongs to a scheduler.
#[derive(Debug)]
pub(crate) struct SchedulerHook {
    /// The scheduler was rung and has not taken its turn yet.
    pub(crate) scheduled: bool,
    /// Keys that may be processed at once.
    pub(crate) limit: usize,
    /// The deadline that the scheduler has.
    pub(crate) alarm: Option<Nanos>,
}

impl<K: Clone + Eq + Hash, M: Merge> State<K, M> {
    /// Registers a worker that found nothing; says until when it may sleep at most.
    pub(crate) fn enrol(&mut self, ticket: &mut Option<Ticket>, waker: &Waker) -> Option<Nanos> {
        self.sleepers.enrol(ticket, self.next_deadline(), waker)
    }

    /// Keeps a worker registered with the waker of this poll; false if it was notified.
    pub(crate) fn still_sleeps(&mut self, ticket: Ticket, waker: &Waker) -> bool {
        self.sleepers.still_sleeps(ticket, waker)
    }

    /// Removes a worker that took a key.
    pub(crate) fn leave(&mut self, ticket: Ticket) {
        self.sleepers.leave(ticket, self.next_deadline().is_some(), &mut self.wakes);
    }

    /// Takes a worker out that gave up. It may have been notified of a key that another can take now.
    pub(crate) fn give_up(&mut self, ticket: Ticket) {
        self.leave(ticket);
        if !self.ready.is_empty() {
            self.sleepers.notify_one(&mut self.wakes);
        }
    }

    /// The next deadline changed.
    pub(super) fn deadline_changed(&mut self) {
        self.sleepers.deadline_changed(&mut self.wakes);
        self.tell_deadline();
    }

    /// The scheduler comes: takes a key if one is ready and a worker more is allowed.
    pub(crate) fn turn(&mut self) -> Option<Item<K, M>> {
        let hook = self.hook.as_mut()?;
        hook.scheduled = false;
        let item = match self.processing.len() < hook.limit {
            true => self.take(),
            false => return None,
        };
        self.invite();
        match item {
            Take::Item(item) => Some(item),
            Take::Empty | Take::Closed => None,
        }
    }

    /// The deadline that the scheduler has is over.
    pub(crate) fn alarm(&mut self) {
        if let Some(hook) = &mut self.hook {
            hook.alarm = None;
        }
        // If more keys are due, the next deadline has passed already.
        self.has_more_due();
        self.tell_deadline();
    }

    /// Lets so many keys be processed at once.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        if let Some(hook) = &mut self.hook {
            hook.limit = limit;
        }
        self.invite();
    }

    /// Rings the scheduler, unless it was rung or nothing may be processed.
    #[inline]
    pub(super) fn invite(&mut self) {
        if let Some(hook) = &mut self.hook
            && !hook.scheduled
            && !self.ready.is_empty()
            && self.processing.len() < hook.limit
        {
            hook.scheduled = true;
            self.wakes.ring = true;
        }
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
