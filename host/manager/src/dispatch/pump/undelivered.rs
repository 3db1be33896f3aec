//! [`Undelivered`]: the events of one pump that are not delivered, and those whose calls faulted on probation.
//!
//! A rollback delivers the latter again. They are kept in a ring of their own: bounded, and merged by key with each later
//! event of that key, which was delivered to the generation that is replaced. So the next generation gets the newest state
//! of an object, and never an older event after a newer one.

use std::collections::VecDeque;
use std::sync::Arc;

use pilothouse_cache::{Event, Ring};
use tokio::sync::oneshot;

use crate::lifecycle::plugin::Plugin;

/// What a pump has not delivered.
#[derive(Default)]
pub(super) struct Undelivered {
    /// Events out of the ring, in order. The first one may be in a call.
    pub(super) events: VecDeque<Event>,
    /// Brings the events of the pump before, which are older, when its call has ended.
    pub(super) predecessor: Option<oneshot::Receiver<Vec<Event>>>,
    /// Events whose calls faulted while the generation is on probation, and the later ones of the same keys.
    faulted: Option<Arc<Ring>>,
}

impl Undelivered {
    /// Whether there is nothing to deliver to this generation.
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.predecessor.is_none()
    }

    /// An event of `ring` was delivered. It is kept if its call faulted, or an earlier one of its key did, as long as the
    /// generation may be rolled back.
    pub(super) fn keep_faulted(&mut self, event: Event, is_answered: bool, plugin: &Plugin, ring: &Ring) {
        if is_answered && self.faulted.is_none() {
            return;
        }
        if !plugin.is_on_probation() {
            self.faulted = None;
            return;
        }
        let faulted = self.faulted.get_or_insert_with(|| ring.sibling());
        if !is_answered || faulted.holds(event.key()) {
            faulted.put_back(event);
        }
    }

    /// All events for the next generation, in order.
    pub(super) fn into_events(self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(mut batch) = self.faulted.as_ref().and_then(|ring| ring.try_next_batch(usize::MAX)) {
            events.append(&mut batch.take());
        }
        events.extend(self.events);
        events
    }
}
