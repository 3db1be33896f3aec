//! Waiting for the next key of a queue.
//!
//! Invariant: a key leaves the queue in the very poll that returns it. Called by `Queue::get`.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::hash::Hash;
use std::pin::pin;
use std::task::{Poll, ready};

use tokio::task::coop::consume_budget;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::shared::Shared;
use crate::state::State;
use crate::waiters::Ticket;
use crate::{Item, Merge};

/// Gets of a thread for which one unit of tokio's budget is consumed. A power of two.
const PER_UNIT: u32 = 32;

/// Whether a get consumes a unit of the budget, so that other tasks of the thread run now and then: a worker that always finds a
/// key would otherwise never let them. A unit of the budget costs half as much as taking a key.
#[inline]
fn is_due() -> bool {
    thread_local! {
        static GETS: Cell<u32> = const { Cell::new(0) };
    }
    let gets = GETS.get().wrapping_add(1);
    GETS.set(gets);
    gets.is_multiple_of(PER_UNIT)
}

/// How an attempt to take a key ended.
pub(crate) enum Attempt<K, M> {
    /// With a key taken, or nothing because there will be nothing any more.
    Over(Option<Item<K, M>>),
    /// Sleep until notified; the timekeeper until this moment at most.
    Sleep(Option<Instant>),
}

/// Waits for the next key; `None` once there will be none.
pub(crate) async fn get<K, M>(shared: &Shared<K, M>) -> Option<Item<K, M>>
where
    K: Clone + Eq + Hash,
    M: Merge,
{
    if is_due() {
        consume_budget().await;
    }
    let taken = shared.locked(State::take);
    if taken.is_some() {
        return taken;
    }
    sleep_until_taken(shared).await
}

/// A dropped future loses nothing. A poll without a notice takes what there is, as a worker that does not sleep would: a
/// sleeper that was notified of it then registers anew.
async fn sleep_until_taken<K: Clone + Eq + Hash, M: Merge>(shared: &Shared<K, M>) -> Option<Item<K, M>> {
    let mut sleeper = SleeperGuard { shared, ticket: None };
    let mut timer = pin!(None::<Sleep>);
    poll_fn(|cx| {
        loop {
            let deadline = match shared.attempt(&mut sleeper.ticket, cx.waker()) {
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
struct SleeperGuard<'a, K: Clone + Eq + Hash, M: Merge> {
    shared: &'a Shared<K, M>,
    ticket: Option<Ticket>,
}

impl<K: Clone + Eq + Hash, M: Merge> Drop for SleeperGuard<'_, K, M> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.shared.locked(|state| state.give_up(ticket));
        }
    }
}
