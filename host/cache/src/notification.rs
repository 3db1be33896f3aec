//! [`Notification`]: one change as listeners are called for it, and [`Verdict`]: what it is to a listener with a filter.
//!
//! Judges and listeners read its objects through [`FieldValues`], so each field is read once for all of them.

use pilothouse_object::{FieldValues, Object, ObjectKey};

use crate::change::Change;
use crate::listener::Listener;

/// One change, with the values that were read of its objects.
#[derive(Debug)]
pub enum Notification<'a> {
    /// As [`Listener::on_add`].
    Added {
        /// The object.
        object: FieldValues<'a>,
        /// Whether it was there when the listener joined.
        is_in_initial_list: bool,
    },
    /// As [`Listener::on_update`].
    Updated {
        /// The state before.
        old: FieldValues<'a>,
        /// The state now.
        new: FieldValues<'a>,
        /// Whether nothing changed.
        is_sync: bool,
    },
    /// As [`Listener::on_delete`].
    Deleted {
        /// The key.
        key: &'a ObjectKey,
        /// The last state, if it is known.
        object: Option<FieldValues<'a>>,
        /// Whether nobody saw it go.
        final_state_unknown: bool,
    },
}

/// What a change is to a listener with a filter. A change that is nothing to it has no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The object was added, or came into view.
    Added,
    /// The object changed, and was and is in view.
    Updated,
    /// The object was deleted, or went out of view.
    Deleted,
    /// The object was deleted and the listener wants no event of that: it drops what it keeps about the key.
    Forgotten,
}

impl<'a> Notification<'a> {
    /// A call of [`Listener::on_add`].
    #[must_use]
    pub fn added(object: &'a Object, is_in_initial_list: bool) -> Self {
        Self::Added { object: FieldValues::new(object), is_in_initial_list }
    }

    /// A call of [`Listener::on_update`].
    #[must_use]
    pub fn updated(old: &'a Object, new: &'a Object, is_sync: bool) -> Self {
        Self::Updated { old: FieldValues::new(old), new: FieldValues::new(new), is_sync }
    }

    /// A call of [`Listener::on_delete`].
    #[must_use]
    pub fn deleted(key: &'a ObjectKey, object: Option<&'a Object>, final_state_unknown: bool) -> Self {
        Self::Deleted { key, object: object.map(FieldValues::new), final_state_unknown }
    }

    /// A change of the store. An add is `initial` while the first list is handed over.
    pub(crate) fn of(change: &'a Change, initial: bool) -> Self {
        match change {
            Change::Added(object) => Self::added(object, initial),
            Change::Updated { old, new } => Self::updated(old, new, is_sync(old, new)),
            Change::Deleted { key, object, final_state_unknown } => {
                Self::deleted(key, object.as_ref(), *final_state_unknown)
            }
        }
    }

    /// The key concerned.
    #[must_use]
    pub fn key(&self) -> &'a ObjectKey {
        match self {
            Self::Added { object, .. } | Self::Updated { new: object, .. } => object.object().key(),
            Self::Deleted { key, .. } => key,
        }
    }

    /// Whether it is an update that changed nothing.
    pub(crate) fn is_sync(&self) -> bool {
        matches!(self, Self::Updated { is_sync: true, .. })
    }

    /// Calls a listener that has no interest, or judges for itself.
    pub(crate) fn call(&self, listener: &(impl Listener + ?Sized)) {
        match self {
            Self::Added { object, is_in_initial_list } => {
                listener.on_add(object.object(), *is_in_initial_list);
            }
            Self::Updated { old, new, is_sync } => listener.on_update(old.object(), new.object(), *is_sync),
            Self::Deleted { key, object, final_state_unknown } => {
                listener.on_delete(key, object.as_ref().map(FieldValues::object), *final_state_unknown);
            }
        }
    }

    /// Calls a listener behind a filter for what the change is to the filter.
    pub(crate) fn call_as(&self, verdict: Verdict, listener: &(impl Listener + ?Sized)) {
        match (verdict, self) {
            (Verdict::Added, Self::Updated { new, .. }) => listener.on_add(new.object(), false),
            (Verdict::Deleted, Self::Updated { old, new, .. }) => {
                listener.on_delete(new.object().key(), Some(old.object()), false);
            }
            (Verdict::Forgotten, _) => {}
            _ => self.call(listener),
        }
    }
}

/// Whether an object came again unchanged, or with other fields of the same version. Two whole objects of one version
/// differ where a server was restored from a backup.
fn is_sync(old: &Object, new: &Object) -> bool {
    !new.resource_version().is_empty()
        && old.resource_version() == new.resource_version()
        && (old.is_partial() || new.is_partial() || old.held().is_same_text(new.held()))
}
