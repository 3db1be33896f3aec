//! [`Undelivered`]: the events of one pump that are not delivered.

use std::collections::{HashSet, VecDeque};

use pilothouse_cache::Event;
use pilothouse_object::ObjectKey;
use tokio::sync::oneshot;

/// What a pump had not delivered when it ended.
#[derive(Default)]
pub(super) struct Leftover {
    /// The events, in order.
    pub(super) events: Vec<Event>,
    /// Keys with an event among them that was told in vain.
    pub(super) failing: HashSet<ObjectKey>,
}

/// What a pump has not delivered.
#[derive(Default)]
pub(super) struct Undelivered {
    /// Events out of the ring, in order. The first one may be in a call.
    pub(super) events: VecDeque<Event>,
    /// Brings the events of the pump before, which are older, when its call has ended.
    pub(super) predecessor: Option<oneshot::Receiver<Leftover>>,
    /// Of the events that a pump before left, which may be many: the keys with several of them.
    repeated: Option<HashSet<ObjectKey>>,
}

impl Undelivered {
    /// Whether there is nothing to deliver to this generation.
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.predecessor.is_none()
    }

    /// Takes in the events that a pump before left, which are older.
    pub(super) fn push_older(&mut self, events: impl DoubleEndedIterator<Item = Event>) {
        events.rev().for_each(|event| self.events.push_front(event));
        let mut seen = HashSet::new();
        let repeated = self.events.iter().map(Event::key).filter(|key| !seen.insert(*key));
        self.repeated = Some(repeated.cloned().collect());
    }

    /// Takes out the events of these keys, in their order.
    pub(super) fn take_of(&mut self, keys: &HashSet<&ObjectKey>) -> VecDeque<Event> {
        if self.events.is_empty() {
            self.repeated = None;
        }
        let is_elsewhere = |repeated: &HashSet<ObjectKey>| !keys.iter().any(|key| repeated.contains(*key));
        if self.repeated.as_ref().is_some_and(is_elsewhere) {
            return VecDeque::new();
        }
        let (taken, left): (VecDeque<Event>, _) =
            self.events.drain(..).partition(|event| keys.contains(event.key()));
        self.events = left;
        taken
    }
}
