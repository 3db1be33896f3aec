//! Waiting for the next keys of a queue.
//!
//! Invariant: keys leave the queue in the very poll that returns them. Called by `Queue::get` and `Queue::get_batch`.

use std::hash::Hash;
use std::task::Waker;

use tokio::task::coop::consume_budget;

use crate::shared::Shared;
use crate::sleepers::{Attempt, Source, sleep_until_taken};
use crate::state::{State, Take};
use crate::waiters::Ticket;
use crate::{Item, Merge};

/// Waits for the next key; `None` once there will be none.
pub(crate) async fn one<K, M>(shared: &Shared<K, M>) -> Option<Item<K, M>>
where
    K: Clone + Eq + Hash,
    M: Merge,
{
    // A worker that always finds a key would otherwise never let other tasks of its thread run.
    consume_budget().await;
    match shared.locked(State::take) {
        Take::Item(item) => Some(item),
        Take::Closed => None,
        Take::Empty => sleep_until_taken(&One(shared)).await,
    }
}

/// Waits for a key, and takes up to `max` of those that are ready then; none once there will be none.
pub(crate) async fn batch<K, M>(shared: &Shared<K, M>, max: usize) -> Vec<Item<K, M>>
where
    K: Clone + Eq + Hash,
    M: Merge,
{
    consume_budget().await;
    sleep_until_taken(&Batch(shared, max.max(1))).await.unwrap_or_default()
}

struct One<'a, K, M>(&'a Shared<K, M>);

impl<K: Clone + Eq + Hash, M: Merge> Source for One<'_, K, M> {
    type Taken = Item<K, M>;

    fn attempt(&self, ticket: &mut Option<Ticket>, waker: &Waker) -> Attempt<Self::Taken> {
        self.0.attempt(ticket, waker, |_, first| first)
    }

    fn still_sleeps(&self, ticket: Ticket, waker: &Waker) -> bool {
        self.0.locked(|state| state.still_sleeps(ticket, waker))
    }

    fn give_up(&self, ticket: Ticket) {
        self.0.locked(|state| state.give_up(ticket));
    }
}

struct Batch<'a, K, M>(&'a Shared<K, M>, usize);

impl<K: Clone + Eq + Hash, M: Merge> Source for Batch<'_, K, M> {
    type Taken = Vec<Item<K, M>>;

    fn attempt(&self, ticket: &mut Option<Ticket>, waker: &Waker) -> Attempt<Self::Taken> {
        self.0.attempt(ticket, waker, |state, first| {
            let mut items = Vec::with_capacity(self.1.min(state.ready_now() + 1));
            items.push(first);
            while items.len() < self.1
                && let Take::Item(item) = state.take()
            {
                items.push(item);
            }
            items
        })
    }

    fn still_sleeps(&self, ticket: Ticket, waker: &Waker) -> bool {
        One(self.0).still_sleeps(ticket, waker)
    }

    fn give_up(&self, ticket: Ticket) {
        One(self.0).give_up(ticket);
    }
}
