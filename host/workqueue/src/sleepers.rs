//! Futures that sleep until they can take something, and the one of them that keeps the time.
//!
//! Invariants:
//! - for each thing to take that appears one sleeper is notified, and one that is notified and gives up passes it on;
//! - while there is a deadline and somebody sleeps, one sleeper, the *timekeeper*, sleeps no longer than until then, or
//!   has been notified and will become it.
//!
//! A queue calls this under its mutex. [`sleep_until_taken`] is the wait of its futures.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tokio::time::{Instant, sleep_until};

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

    /// Keeps one registered with the waker of this poll; false if it was notified.
    pub(crate) fn still_sleeps(&mut self, ticket: Ticket, waker: &Waker) -> bool {
        self.waiting.refresh(ticket, waker)
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

/// Something to take from, with sleepers.
pub(crate) trait Source {
    /// The type of what a future takes.
    type Taken;

    /// Takes something, or registers with `ticket` and `waker`.
    fn attempt(&self, ticket: &mut Option<Ticket>, waker: &Waker) -> Attempt<Self::Taken>;

    /// Keeps a sleeper registered with the waker of this poll; false if it was notified.
    fn still_sleeps(&self, ticket: Ticket, waker: &Waker) -> bool;

    /// Removes a sleeper that gave up. Its notice, if it had one, goes to another.
    fn give_up(&self, ticket: Ticket);
}

/// How an attempt ended.
pub(crate) enum Attempt<T> {
    /// With something taken, or nothing because there will be nothing any more.
    Over(Option<T>),
    /// Sleep until notified; the timekeeper until this moment at most.
    Sleep(Option<Instant>),
}

/// Waits until something can be taken; `None` once there will be nothing.
///
/// An item leaves the source in the poll that returns it, so a dropped future loses nothing.
pub(crate) async fn sleep_until_taken<S: Source>(source: &S) -> Option<S::Taken> {
    let mut place = SleeperGuard { source, ticket: None };
    loop {
        let deadline = match poll_fn(|cx| Poll::Ready(source.attempt(&mut place.ticket, cx.waker()))).await {
            Attempt::Over(taken) => {
                place.ticket = None;
                return taken;
            }
            Attempt::Sleep(deadline) => deadline,
        };
        let mut timer = pin!(deadline.map(sleep_until));
        poll_fn(|cx| {
            if !place.still_sleeps(cx) {
                return Poll::Ready(());
            }
            timer.as_mut().as_pin_mut().map_or(Poll::Pending, |timer| timer.poll(cx))
        })
        .await;
    }
}

/// Holds the place of one future among the sleepers; when dropped, passes on a notice it has not used and the keeping
/// of time.
struct SleeperGuard<'a, S: Source> {
    source: &'a S,
    ticket: Option<Ticket>,
}

impl<S: Source> SleeperGuard<'_, S> {
    fn still_sleeps(&self, cx: &Context<'_>) -> bool {
        self.ticket.is_some_and(|ticket| self.source.still_sleeps(ticket, cx.waker()))
    }
}

impl<S: Source> Drop for SleeperGuard<'_, S> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.source.give_up(ticket);
        }
    }
}
