//! Waiting for the next keys of a queue.
//!
//! Invariant: keys leave the queue in the very poll that returns them. Called by `Queue::get` and `Queue::get_batch`.

use std::cell::Cell;
use std::future::Future;
use std::hash::Hash;
use std::task::Waker;

use tokio::task::coop::consume_budget;

use crate::shared::Shared;
use crate::sleepers::{Attempt, Source, sleep_until_taken};
use crate::state::State;
use crate::waiters::Ticket;
use crate::{Item, Merge};

/// Gets of a thread for which one unit of tokio's budget is consumed. A power of two.
const PER_UNIT: u32 = 32;

/// Lets other tasks of the thread run now and then: a worker that always finds a key would otherwise never do so. A unit of
/// the budget costs half as much as taking a key.
#[inline]
async fn cooperate() {
    thread_local! {
        static GETS: Cell<u32> = const { Cell::new(0) };
    }
    let gets = GETS.get().wrapping_add(1);
    GETS.set(gets);
    if gets.is_multiple_of(PER_UNIT) {
        consume_budget().await;
    }
}

/// Waits for the next key; `None` once there will be none.
pub(crate) async fn one<K, M>(shared: &Shared<K, M>) -> Option<Item<K, M>>
where
    K: Clone + Eq + Hash,
    M: Merge,
{
    cooperate().await;
    or_next(shared, shared.locked(State::take)).await
}

/// Gives a key back and waits for the next one; `None` once there will be none.
pub(crate) fn next<K, M>(
    shared: &Shared<K, M>,
    item: Item<K, M>,
) -> impl Future<Output = Option<Item<K, M>>> + use<'_, K, M>
where
    K: Clone + Eq + Hash,
    M: Merge,
{
    let mut held = HeldItem { shared, item: Some(item) };
    async move {
        cooperate().await;
        let taken = shared.locked(|state| {
            held.item.iter().for_each(|item| state.done(item));
            state.take()
        });
        // The key ends without the lock.
        drop(held.item.take());
        or_next(shared, taken).await
    }
}

/// A key that is given back when this is dropped.
struct HeldItem<'a, K: Clone + Eq + Hash, M: Merge> {
    shared: &'a Shared<K, M>,
    item: Option<Item<K, M>>,
}

impl<K: Clone + Eq + Hash, M: Merge> Drop for HeldItem<'_, K, M> {
    fn drop(&mut self) {
        if let Some(item) = &self.item {
            self.shared.locked(|state| state.done(item));
        }
    }
}

/// The key that an attempt has taken, or the next one if there was none.
async fn or_next<K, M>(shared: &Shared<K, M>, taken: Option<Item<K, M>>) -> Option<Item<K, M>>
where
    K: Clone + Eq + Hash,
    M: Merge,
{
    match taken {
        None => sleep_until_taken(&One(shared)).await,
        taken => taken,
    }
}

/// Waits for a key, and takes up to `max` of those that are ready then; none once there will be none.
pub(crate) async fn batch<K, M>(shared: &Shared<K, M>, max: usize) -> Vec<Item<K, M>>
where
    K: Clone + Eq + Hash,
    M: Merge,
{
    cooperate().await;
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
            let mut items = Vec::with_capacity(self.1.min(state.len() + 1));
            items.push(first);
            while items.len() < self.1
                && let Some(item) = state.take()
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
