//! Waiting for the end of a drain.
//!
//! Invariant: ends when nothing is queued, delayed or processing, or at the next plain shut-down, whichever is first.
//! Dropping it ends the waiting only; the queue stays shut. Called by `Queue::shut_down_with_drain`.

use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::Merge;
use crate::shared::Shared;
use crate::state::State;
use crate::waiters::Ticket;

/// Holds the place of one drain among those that wait for the end.
pub(crate) struct Drain<K: Clone + Eq + Hash, M: Merge> {
    shared: Arc<Shared<K, M>>,
    /// Plain shut-downs before this drain.
    shut_downs: u32,
    ticket: Option<Ticket>,
}

impl<K: Clone + Eq + Hash, M: Merge> Drain<K, M> {
    /// Shuts the queue for adds at once, before the future is first polled.
    pub(crate) fn start(shared: Arc<Shared<K, M>>) -> Self {
        let shut_downs = shared.caught_up(State::drain);
        Self { shared, shut_downs, ticket: None }
    }
}

impl<K: Clone + Eq + Hash, M: Merge> Future for Drain<K, M> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { shared, shut_downs, ticket } = &mut *self;
        if shared.locked(|state| state.drained(*shut_downs, ticket, cx.waker())) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl<K: Clone + Eq + Hash, M: Merge> Drop for Drain<K, M> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.shared.locked(|state| state.give_up_drain(ticket));
        }
    }
}
