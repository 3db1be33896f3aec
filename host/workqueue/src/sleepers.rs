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
use std::task::{Poll, Waker, ready};

use tokio::time::{Instant, Sleep, sleep_until};

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

/// Something to take from, with sleepers.
pub(crate) trait Source {
    /// The type of what a future takes.
    type Taken;

    /// Takes something and ends the registration of `ticket`, or registers `waker` with it.
    fn attempt(&self, ticket: &mut Option<Ticket>, waker: &Waker) -> Attempt<Self::Taken>;

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
/// An item leaves the source in the poll that returns it, so a dropped future loses nothing. A poll without a notice takes
/// what there is, as a worker that does not sleep would: a sleeper that was notified of it then registers anew.
pub(crate) async fn sleep_until_taken<S: Source>(source: &S) -> Option<S::Taken> {
    let mut sleeper = SleeperGuard { source, ticket: None };
    let mut timer = pin!(None::<Sleep>);
    poll_fn(|cx| {
        loop {
            let deadline = match source.attempt(&mut sleeper.ticket, cx.waker()) {
                Attempt::Over(taken) => return Poll::Ready(taken),
                Attempt::Sleep(deadline) => deadline,
            };
            if timer.as_ref().as_pin_ref().map(|timer| timer.deadline()) != deadline {
                timer.set(deadline.map(sleep_until));
            }
            match timer.as_mut().as_pin_mut() {
                Some(timer) => ready!(timer.poll(cx)),
                None => return Poll::Pending,
            }
        }
    })
    .await
}

/// Holds the place of one future among the sleepers; when dropped, passes on a notice it has not used and the keeping
/// of time.
struct SleeperGuard<'a, S: Source> {
    source: &'a S,
    ticket: Option<Ticket>,
}

impl<S: Source> Drop for SleeperGuard<'_, S> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.source.give_up(ticket);
        }
    }
}
