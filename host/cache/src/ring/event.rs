//! [`Event`]: what a ring hands to its consumer, and [`Item`]: the same while it waits, when bodies may be missing.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use pilothouse_object::{Object, ObjectKey};

/// One event for one consumer.
#[derive(Debug, Clone)]
pub enum Event {
    /// The key was not there before, as far as this consumer was told.
    Added {
        /// The object.
        object: Object,
        /// Whether it stands for what was there when the consumer joined.
        initial: bool,
        /// Whether updates that came before it was delivered are merged into it.
        updated: bool,
    },
    /// The key was there, with the same UID.
    Updated {
        /// The state the consumer was told last, or an older one if that was read at delivery; `None` when it was not
        /// kept.
        old: Option<Object>,
        /// The newest state. The same version as `old` for a resync.
        new: Object,
    },
    /// The key is gone.
    Deleted {
        /// The key.
        key: ObjectKey,
        /// The last state; `None` when it was not kept or never known.
        object: Option<Object>,
        /// Whether the last state is a guess; always so without an object.
        final_state_unknown: bool,
    },
}

impl Event {
    /// The key concerned.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        match self {
            Self::Added { object, .. } | Self::Updated { new: object, .. } => object.key(),
            Self::Deleted { key, .. } => key,
        }
    }
}

/// An object that an event stands for.
#[derive(Debug, Clone)]
pub(super) enum RingBody {
    /// Kept.
    Kept(Object),
    /// Let go: to be read from the store at delivery. What is left tells whether the store still has the same object
    /// and not the next one under its key.
    Dropped { uid_hash: u64 },
}

impl RingBody {
    fn let_go(&mut self) {
        if let Self::Kept(object) = self {
            *self = Self::Dropped { uid_hash: hash(object.uid()) };
        }
    }

    fn read(self, stored: Option<Object>) -> Option<Object> {
        match self {
            Self::Kept(object) => Some(object),
            Self::Dropped { uid_hash } => stored.filter(|object| hash(object.uid()) == uid_hash),
        }
    }
}

fn hash(uid: &str) -> u64 {
    FixedState::default().hash_one(uid)
}

/// An event that waits.
#[derive(Debug, Clone)]
pub(super) enum Item {
    Added {
        object: RingBody,
        initial: bool,
        updated: bool,
    },
    Updated {
        old: Option<Object>,
        new: RingBody,
    },
    /// `turn`: that of the ring when it was told.
    Deleted {
        object: Option<Object>,
        final_state_unknown: bool,
        turn: u32,
    },
}

impl From<Event> for Item {
    fn from(event: Event) -> Self {
        match event {
            Event::Added { object, initial, updated } => {
                Self::Added { object: RingBody::Kept(object.fresh()), initial, updated }
            }
            Event::Updated { old, new } => {
                Self::Updated { old: old.as_ref().map(Object::fresh), new: RingBody::Kept(new.fresh()) }
            }
            Event::Deleted { object, final_state_unknown, .. } => {
                Self::Deleted { object: object.as_ref().map(Object::fresh), final_state_unknown, turn: 0 }
            }
        }
    }
}

impl Item {
    /// Lets go of the bodies.
    pub(super) fn drop_bodies(&mut self) {
        match self {
            Self::Added { object, .. } => object.let_go(),
            Self::Updated { old, new } => {
                *old = None;
                new.let_go();
            }
            Self::Deleted { object, .. } => *object = None,
        }
    }

    /// Whether delivery needs a body that must come from the store.
    pub(super) fn lacks_body(&self) -> bool {
        matches!(
            self,
            Self::Added { object: RingBody::Dropped { .. }, .. }
                | Self::Updated { new: RingBody::Dropped { .. }, .. }
        )
    }

    /// Whether it is a deletion that was told before a turn.
    pub(super) fn is_deletion_before(&self, before: u32) -> bool {
        matches!(self, Self::Deleted { turn, .. } if *turn < before)
    }

    /// A deletion stands for another one that was told in a later turn.
    pub(super) fn told_again(&mut self, later: u32) {
        if let Self::Deleted { turn, .. } = self {
            *turn = later;
        }
    }

    /// 1 for an initial add.
    pub(super) fn initial(&self) -> usize {
        usize::from(matches!(self, Self::Added { initial: true, .. }))
    }

    /// The event to deliver; `stored` is what the store has, asked for only when a body is missing. `None`: the store
    /// does not have the object any more.
    pub(super) fn event(&self, key: &ObjectKey, stored: Option<Object>) -> Option<Event> {
        Some(match self.clone() {
            Self::Added { object, initial, updated } => {
                Event::Added { object: object.read(stored)?, initial, updated }
            }
            Self::Updated { old, new } => Event::Updated { old, new: new.read(stored)? },
            Self::Deleted { object, final_state_unknown, .. } => {
                let final_state_unknown = final_state_unknown || object.is_none();
                Event::Deleted { key: key.clone(), object, final_state_unknown }
            }
        })
    }
}
