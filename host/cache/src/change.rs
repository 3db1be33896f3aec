//! [`Change`]: what a delta turned out to be once it met the store; what listeners are told.
//!
//! A delta says what the server said ("modified"); only the store knows whether that is news, an update or nothing. The
//! store answers with changes whose sequence per key is legal by construction: it never has a `Deleted` for a key that
//! it did not hold, nor an `Updated` across two UIDs.

use pilothouse_object::{Object, ObjectKey};

use crate::delta::Delta;

/// One change of the store.
#[derive(Debug, Clone)]
pub enum Change {
    /// The key was not held before.
    Added(Object),
    /// The key was held, with the same UID.
    Updated {
        /// What the store held.
        old: Object,
        /// What it holds now; the same version for a resync.
        new: Object,
    },
    /// The key is not held any more.
    Deleted {
        /// The key.
        key: ObjectKey,
        /// The last state: as deleted when the server sent it, as last held when the deletion was only inferred.
        object: Option<Object>,
        /// Whether the deletion was inferred, so that `object` may be out of date (`DeletedFinalStateUnknown`).
        final_state_unknown: bool,
    },
}

impl Change {
    /// The key concerned.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        match self {
            Self::Added(object) | Self::Updated { new: object, .. } => object.key(),
            Self::Deleted { key, .. } => key,
        }
    }

    /// The delta that makes this change in another store.
    pub(crate) fn to_delta(&self) -> Delta {
        match self {
            Self::Added(object) => Delta::Added(object.clone()),
            Self::Updated { new, .. } => Delta::Updated(new.clone()),
            Self::Deleted { object: Some(object), final_state_unknown: false, .. } => {
                Delta::Deleted(object.clone())
            }
            Self::Deleted { key, object, .. } => {
                Delta::DeletedFinalStateUnknown { key: key.clone(), object: object.clone() }
            }
        }
    }
}
