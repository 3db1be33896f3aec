//! Sleeping futures of a queue, and the wake-ups that are due.
//!
//! Invariants: ticket numbers in the list rise from front to back (so a ticket is found by bisection); a waiter is
//! notified exactly by leaving the list, so "my ticket is gone" means "look again". The list is guarded by the
//! queue's mutex; wakers are collected in [`Wakes`] and called after the mutex is free, since waking may call the queue.
//! Called by `sleepers`, and by `state` for drains.

use std::collections::VecDeque;
use std::task::Waker;

use crate::clock::Nanos;

/// Up to so many places memory is not worth giving back.
const SMALL: usize = 16;

/// Names one registration of one waiting future.
pub(crate) type Ticket = u64;

/// Holds the waiting futures, the longest waiting first.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    waiting: VecDeque<(Ticket, Waker)>,
    next: Ticket,
}

impl Waiters {
    /// Appends a waiter.
    pub(crate) fn register(&mut self, waker: &Waker) -> Ticket {
        let ticket = self.next;
        self.next += 1;
        self.waiting.push_back((ticket, waker.clone()));
        ticket
    }

    /// Takes over the waker of a later poll; false if the ticket was notified meanwhile.
    pub(crate) fn refresh(&mut self, ticket: Ticket, waker: &Waker) -> bool {
        let Some(place) = self.place(ticket) else { return false };
        self.waiting[place].1.clone_from(waker);
        true
    }

    /// Takes a waiter out without waking it; false if it was notified meanwhile.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> bool {
        let removed = self.place(ticket).and_then(|place| self.waiting.remove(place)).is_some();
        let (used, held) = (self.waiting.len(), self.waiting.capacity());
        if held > SMALL && used * 8 <= held {
            self.waiting.shrink_to(used * 2);
        }
        removed
    }

    /// Notifies the longest waiting one; false if there is none.
    #[inline]
    pub(crate) fn notify_one(&mut self, wakes: &mut Wakes) -> bool {
        let Some((_, waker)) = self.waiting.pop_front() else { return false };
        wakes.push(waker);
        true
    }

    /// Notifies one in particular, if it still waits.
    pub(crate) fn notify(&mut self, ticket: Ticket, wakes: &mut Wakes) {
        if let Some((_, waker)) = self.place(ticket).and_then(|place| self.waiting.remove(place)) {
            wakes.push(waker);
        }
    }

    /// Notifies all.
    pub(crate) fn notify_all(&mut self, wakes: &mut Wakes) {
        for (_, waker) in self.waiting.drain(..) {
            wakes.push(waker);
        }
    }

    fn place(&self, ticket: Ticket) -> Option<usize> {
        self.waiting.binary_search_by_key(&ticket, |(other, _)| *other).ok()
    }
}

/// Holds wake-ups that are delivered when the mutex is unlocked. One waker costs no allocation.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    first: Option<Waker>,
    rest: Vec<Waker>,
    /// The hook is called: a key is ready, and no future waits for it.
    pub(crate) ready: bool,
    /// The deadline to give to the timekeeper.
    pub(crate) alarm: Option<Nanos>,
}

impl Wakes {
    /// True if there are no wake-ups.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && !self.ready && self.alarm.is_none()
    }

    /// Wakes the collected wakers.
    pub(crate) fn wake(self) {
        self.first.into_iter().chain(self.rest).for_each(Waker::wake);
    }

    fn push(&mut self, waker: Waker) {
        if self.first.is_none() {
            self.first = Some(waker);
        } else {
            self.rest.push(waker);
        }
    }
}
