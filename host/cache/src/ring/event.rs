//! [`Event`]: what a ring hands to its consumer, and [`Item`]: the same while it waits, when bodies may be missing.

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

/// An event that waits. A body that is `None` in `Added` and in `new` is read from the store at delivery.
#[derive(Debug, Clone)]
pub(super) enum Item {
    Added { object: Option<Object>, initial: bool },
    Updated { old: Option<Object>, new: Option<Object> },
    Deleted { object: Option<Object>, final_state_unknown: bool },
}

impl Item {
    /// Lets go of the bodies.
    pub(super) fn drop_bodies(&mut self) {
        match self {
            Self::Added { object, .. } | Self::Deleted { object, .. } => *object = None,
            Self::Updated { old, new } => (*old, *new) = (None, None),
        }
    }

    /// Whether delivery needs a body that must come from the store.
    pub(super) fn lacks_body(&self) -> bool {
        matches!(self, Self::Added { object: None, .. } | Self::Updated { new: None, .. })
    }

    /// 1 for an initial add.
    pub(super) fn initial(&self) -> usize {
        usize::from(matches!(self, Self::Added { initial: true, .. }))
    }

    /// The event to deliver; `stored` is what the store has, asked for only when a body is missing.
    pub(super) fn into_event(self, key: ObjectKey, stored: Option<Object>) -> Option<Event> {
        Some(match self {
            Self::Added { object, initial } => Event::Added { object: object.or(stored)?, initial },
            Self::Updated { old, new } => Event::Updated { old, new: new.or(stored)? },
            Self::Deleted { object, final_state_unknown } => {
                let final_state_unknown = final_state_unknown || object.is_none();
                Event::Deleted { key, object, final_state_unknown }
            }
        })
    }
}
