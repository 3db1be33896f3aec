//! The end of a queue: shut-down, drain, and the wake-ups of both.
//!
//! Invariants: a queue that is shut for adds never opens again; futures that wait for a key are woken once none will come,
//! and drains once nothing is queued, delayed or processing. Called by the queue and its futures.

use std::hash::Hash;
use std::task::Waker;

use super::State;
use crate::Merge;
use crate::waiters::Ticket;

/// Where the queue is on its way from open to shut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Takes adds.
    Open,
    /// Takes no adds; delayed keys are waited for.
    Draining,
    /// Takes no adds; delayed keys were dropped.
    Shut,
}

impl<K, M> State<K, M> {
    #[inline]
    pub(crate) fn shutting_down(&self) -> bool {
        self.phase != Phase::Open
    }

    /// True if no key will be handed out any more. After a plain shut-down that is client-go's rule, by which a key
    /// that is dirty and in processing does not keep others waiting; a drain waits for it.
    pub(crate) fn is_closed(&self) -> bool {
        match self.phase {
            Phase::Open => false,
            Phase::Draining => self.ready.is_empty() && self.wheel.is_empty() && self.again == 0,
            Phase::Shut => self.ready.is_empty(),
        }
    }

    fn is_at_rest(&self) -> bool {
        self.ready.is_empty() && self.wheel.is_empty() && self.processing == 0
    }

    /// Wakes drains and closed-out workers if the end has come. To be called after each removal.
    #[inline]
    pub(super) fn settle(&mut self) {
        if self.phase != Phase::Open {
            self.wake_if_ended();
        }
    }

    #[cold]
    fn wake_if_ended(&mut self) {
        if self.is_closed() {
            self.sleepers.notify_all(&mut self.wakes);
        }
        if self.is_at_rest() {
            self.drainers.notify_all(&mut self.wakes);
        }
    }
}

impl<K: Clone + Eq + Hash, M: Merge> State<K, M> {
    /// Takes no further adds and drops delayed keys that are not due; returns their payloads, to be dropped without the lock.
    pub(crate) fn shut_down(&mut self) -> Vec<M> {
        self.phase = Phase::Shut;
        self.shut_downs = self.shut_downs.wrapping_add(1);
        let payloads = self.drop_delays();
        self.drainers.notify_all(&mut self.wakes);
        self.settle();
        payloads
    }

    /// Takes no further adds and keeps delayed keys; returns the number of plain shut-downs so far.
    pub(crate) fn drain(&mut self) -> u32 {
        if self.phase == Phase::Open {
            self.phase = Phase::Draining;
        }
        self.settle();
        self.shut_downs
    }

    /// True if a drain that began after `shut_downs` plain shut-downs is over; otherwise registers its waker.
    pub(crate) fn drained(&mut self, shut_downs: u32, ticket: &mut Option<Ticket>, waker: &Waker) -> bool {
        if self.is_at_rest() || self.shut_downs != shut_downs {
            if let Some(ticket) = ticket.take() {
                self.drainers.remove(ticket);
            }
            return true;
        }
        if !ticket.is_some_and(|ticket| self.drainers.refresh(ticket, waker)) {
            *ticket = Some(self.drainers.register(waker));
        }
        false
    }

    /// Takes a drain out that gave up.
    pub(crate) fn give_up_drain(&mut self, ticket: Ticket) {
        self.drainers.remove(ticket);
    }
}
