//! Waiting for the next key.
//!
//! Invariants: a key leaves the queue in the very poll that returns it, so a future that is dropped loses none; its
//! [`Turn`], when dropped, passes on a notice it has not used and the keeping of time. Called by `Queue::get`.

use std::future::{Future, poll_fn};
use std::hash::Hash;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tokio::task::coop::consume_budget;
use tokio::time::{Instant, sleep_until};

use crate::shared::Shared;
use crate::state::Take;
use crate::waiters::Ticket;
use crate::{Item, Merge};

/// Waits for the next key; `None` once there will be none.
pub(crate) async fn get<K, M>(shared: &Shared<K, M>) -> Option<Item<K, M>>
where
    K: Clone + Eq + Hash,
    M: Merge,
{
    // A worker that always finds a key would otherwise never let other tasks of its thread run.
    consume_budget().await;
    let mut turn = Turn { shared, ticket: None };
    loop {
        let deadline = match poll_fn(|cx| Poll::Ready(turn.step(cx.waker()))).await {
            Step::Over(item) => return item,
            Step::Sleep(deadline) => deadline,
        };
        let mut timer = pin!(deadline.map(sleep_until));
        poll_fn(|cx| {
            if !turn.still_waits(cx) {
                return Poll::Ready(());
            }
            timer.as_mut().as_pin_mut().map_or(Poll::Pending, |timer| timer.poll(cx))
        })
        .await;
    }
}

enum Step<K, M> {
    /// There is a key, or there will be none.
    Over(Option<Item<K, M>>),
    /// Sleep until notified; the timekeeper until this moment at most.
    Sleep(Option<Instant>),
}

/// Holds the place of one `get` among the waiters.
struct Turn<'a, K: Clone + Eq + Hash, M: Merge> {
    shared: &'a Shared<K, M>,
    ticket: Option<Ticket>,
}

impl<K: Clone + Eq + Hash, M: Merge> Turn<'_, K, M> {
    fn step(&mut self, waker: &Waker) -> Step<K, M> {
        let clock = &self.shared.clock;
        let now = clock.now();
        self.shared.locked(|state| {
            let over = match state.take(now, clock) {
                Take::Item(item) => Some(item),
                Take::Closed => None,
                Take::Empty => {
                    let (ticket, deadline) = state.enrol(self.ticket, waker);
                    self.ticket = Some(ticket);
                    return Step::Sleep(deadline.map(|at| clock.instant(at)));
                }
            };
            if let Some(ticket) = self.ticket.take() {
                state.leave(ticket);
            }
            Step::Over(over)
        })
    }

    fn still_waits(&self, cx: &Context<'_>) -> bool {
        self.ticket.is_some_and(|ticket| self.shared.locked(|state| state.still_waits(ticket, cx.waker())))
    }
}

impl<K: Clone + Eq + Hash, M: Merge> Drop for Turn<'_, K, M> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.shared.locked(|state| state.give_up(ticket));
        }
    }
}
