//! [`Delta`]: one notification of the reflector, in client-go's vocabulary, and [`Deltas`]: those waiting for one key.
//!
//! Only the last two deltas of a key are ever looked at for compression, and only two deletions in a row become one:
//! everything else a listener may want to see.

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
}

/// The deltas waiting for one key, oldest first; never empty.
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

    /// Adds a delta of the same key; tells whether there is one more than before.
    pub(crate) fn push(&mut self, delta: Delta) -> bool {
        let last = self.more.last_mut().unwrap_or(&mut self.first);
        match (&*last, &delta) {
            // The server's own word beats a guess; of two equal ones the first stays, as the deletion that happened.
            (Delta::DeletedFinalStateUnknown { .. }, Delta::Deleted(_)) => *last = delta,
            (
                Delta::Deleted(_) | Delta::DeletedFinalStateUnknown { .. },
                Delta::Deleted(_) | Delta::DeletedFinalStateUnknown { .. },
            ) => {}
            _ => {
                self.more.push(delta);
                return true;
            }
        }
        false
    }
}

impl IntoIterator for Deltas {
    type Item = Delta;
    type IntoIter = std::iter::Chain<std::iter::Once<Delta>, std::vec::IntoIter<Delta>>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self.first).chain(self.more)
    }
}
