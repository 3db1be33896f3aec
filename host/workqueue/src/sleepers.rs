//! Futures that sleep until they can take something, and the one of them that keeps the time.
//!
//! Invariants:
//! - for each thing to take that appears one sleeper is notified, and one that is notified and gives up passes it on;
//! - while there is a deadline and somebody sleeps, one sleeper, the *timekeeper*, sleeps no longer than until then, or
//!   has been notified and will become it.
//!
//! A queue calls this under its mutex.

use std::task::Waker;

use crate::clock::Nanos;
use crate::waiters::{Ticket, Waiters, Wakes};

/// Holds the sleepers.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    waiting: Waiters,
    timekeeper: Option<Ticket>,
}

impl Sleepers {
    /// Registers one that found nothing, or refreshes it; says until when it may sleep at most, `next` being the next
    /// deadline.
    pub(crate) fn enrol(
        &mut self,
        ticket: &mut Option<Ticket>,
        next: Option<Nanos>,
        waker: &Waker,
    ) -> Option<Nanos> {
        let mine = match *ticket {
            Some(ticket) if self.waiting.refresh(ticket, waker) => ticket,
            notified => {
                let mine = self.waiting.register(waker);
                if notified.is_some() && self.timekeeper == notified {
                    self.timekeeper = Some(mine);
                }
                mine
            }
        };
        *ticket = Some(mine);
        if self.timekeeper.is_none() && next.is_some() {
            self.timekeeper = Some(mine);
        }
        next.filter(|_| self.timekeeper == Some(mine))
    }

    /// Removes a sleeper that took something.
    pub(crate) fn leave(&mut self, ticket: Ticket, is_deadline: bool, wakes: &mut Wakes) {
        self.waiting.remove(ticket);
        if self.timekeeper == Some(ticket) {
            self.timekeeper = None;
        }
        if self.timekeeper.is_none() && is_deadline {
            self.waiting.notify_one(wakes);
        }
    }

    /// Notifies one of something to take; false if none sleeps.
    #[inline]
    pub(crate) fn notify_one(&mut self, wakes: &mut Wakes) -> bool {
        self.waiting.notify_one(wakes)
    }

    /// Notifies all.
    pub(crate) fn notify_all(&mut self, wakes: &mut Wakes) {
        self.waiting.notify_all(wakes);
    }

    /// The next deadline changed: wakes the timekeeper, or a sleeper that becomes it.
    pub(crate) fn deadline_changed(&mut self, wakes: &mut Wakes) {
        match self.timekeeper {
            Some(ticket) => self.waiting.notify(ticket, wakes),
            None => _ = self.waiting.notify_one(wakes),
        }
    }
}
