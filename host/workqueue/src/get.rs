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

/// Waits for the next key; `None` once there will be none.
pub(crate) async fn one<K, M>(shared: &Shared<K, M>) -> Option<Item<K, M>>
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
    sleep_until_taken(&One(shared)).await
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
        if is_due() {
            consume_budget().await;
        }
        let taken = shared.locked(|state| {
            let now = state.read_for_measures();
            held.item.iter().for_each(|item| state.done(item, now));
            state.take_at(now)
        });
        // The key ends without the lock.
        drop(held.item.take());
        if taken.is_some() {
            return taken;
        }
        sleep_until_taken(&One(shared)).await
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
            self.shared.locked(|state| state.done(item, None));
        }
    }
}

/// Waits for a key, and takes up to `max` of those that are ready then; none once there will be none.
pub(crate) async fn batch<K, M>(shared: &Shared<K, M>, max: usize) -> Vec<Item<K, M>>
where
    K: Clone + Eq + Hash,
    M: Merge,
{
    if is_due() {
        consume_budget().await;
    }
    sleep_until_taken(&Batch(shared, max.max(1))).await.unwrap_or_default()
}

struct One<'a, K, M>(&'a Shared<K, M>);

impl<K: Clone + Eq + Hash, M: Merge> Source for One<'_, K, M> {
    type Taken = Item<K, M>;

    fn attempt(&self, ticket: &mut Option<Ticket>, waker: &Waker) -> Attempt<Self::Taken> {
        self.0.attempt(ticket, waker, |_, first| first)
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

    fn give_up(&self, ticket: Ticket) {
        One(self.0).give_up(ticket);
    }
}
