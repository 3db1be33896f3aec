//! [`Delta`]: one notification of the reflector, in client-go's vocabulary, and [`Deltas`]: those of one key, grouped for
//! the `Controller`.
//!
//! Only two deletions of a key in a row are merged into one; every other delta is kept.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use foldhash::fast::RandomState;
use pilothouse_object::{Object, ObjectKey};

/// The kind of a [`Delta`], as metrics and logs name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeltaType {
    /// Seen as new on a watch.
    Added,
    /// Seen as changed on a watch.
    Updated,
    /// Seen as deleted on a watch, or found missing.
    Deleted,
    /// Seen in a list.
    Replaced,
    /// Announced again, unchanged.
    Sync,
}

/// One notification about one key.
#[derive(Debug, Clone)]
pub enum Delta {
    /// The object came into view.
    Added(Object),
    /// The object changed.
    Updated(Object),
    /// The server said that the object is gone; its last state.
    Deleted(Object),
    /// The object is gone, but nobody saw it go.
    DeletedFinalStateUnknown {
        /// Its key: all that is certain.
        key: ObjectKey,
        /// What was last known of it; may be out of date or absent.
        object: Option<Object>,
    },
    /// The object was in a list.
    Replaced(Object),
    /// Announce the stored object again; nothing when there is none any more.
    Sync(ObjectKey),
}

impl Delta {
    /// The key concerned.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        match self {
            Self::Added(object) | Self::Updated(object) | Self::Deleted(object) | Self::Replaced(object) => {
                object.key()
            }
            Self::DeletedFinalStateUnknown { key, .. } | Self::Sync(key) => key,
        }
    }

    /// The kind of notification.
    #[must_use]
    pub fn kind(&self) -> DeltaType {
        match self {
            Self::Added(_) => DeltaType::Added,
            Self::Updated(_) => DeltaType::Updated,
            Self::Deleted(_) | Self::DeletedFinalStateUnknown { .. } => DeltaType::Deleted,
            Self::Replaced(_) => DeltaType::Replaced,
            Self::Sync(_) => DeltaType::Sync,
        }
    }

    pub(crate) fn is_deletion(&self) -> bool {
        self.kind() == DeltaType::Deleted
    }

    /// Merges another deletion of the same key into this one. An object that the server sent wins over a
    /// `DeletedFinalStateUnknown`; of two equal kinds the first stays.
    pub(crate) fn merge_deletion(&mut self, other: Self) {
        if let (Self::DeletedFinalStateUnknown { .. }, Self::Deleted(_)) = (&*self, &other) {
            *self = other;
        }
    }
}

/// Deltas of one key, oldest first; never empty.
#[derive(Debug, Clone)]
pub struct Deltas {
    // Nearly always there is one: it costs no allocation of its own.
    first: Delta,
    more: Vec<Delta>,
}

impl Deltas {
    /// The first delta of a key.
    #[must_use]
    pub fn new(first: Delta) -> Self {
        Self { first, more: Vec::new() }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        self.first.key()
    }

    /// How many there are.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        1 + self.more.len()
    }

    /// The deltas in order.
    pub fn iter(&self) -> impl Iterator<Item = &Delta> {
        std::iter::once(&self.first).chain(&self.more)
    }

    /// Groups a batch by key: keys in the order of their first delta, the deltas of a key in arrival order.
    pub(crate) fn group(batch: Vec<Delta>) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::with_capacity(batch.len());
        let mut places: HashMap<ObjectKey, usize, RandomState> = HashMap::default();
        for delta in batch {
            match places.entry(delta.key().clone()) {
                Entry::Occupied(place) => groups[*place.get()].push(delta),
                Entry::Vacant(place) => {
                    place.insert(groups.len());
                    groups.push(Self::new(delta));
                }
            }
        }
        groups
    }

    /// Adds a delta of the same key.
    pub(crate) fn push(&mut self, delta: Delta) {
        let last = self.more.last_mut().unwrap_or(&mut self.first);
        if last.is_deletion() && delta.is_deletion() {
            last.merge_deletion(delta);
        } else {
            self.more.push(delta);
        }
    }
}
