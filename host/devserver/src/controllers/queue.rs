//! [`Queue`]: what the controllers have to do, each piece once.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use pilothouse_object::ObjectKey;

use crate::store::Stored;

/// Where an object is stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Reference {
    pub(super) table: Arc<str>,
    /// Shared with the object.
    pub(super) key: ObjectKey,
}

impl Reference {
    pub(super) fn new(table: &Arc<str>, stored: &Stored) -> Self {
        Self { table: table.clone(), key: stored.object.key().clone() }
    }
}

/// A piece of work.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Work {
    /// Deletes what lives in a namespace that is being deleted, and lets it go when it is empty.
    EmptyNamespace(Box<str>),
    /// Deletes the objects of a definition that is being deleted, and lets it go when there are none.
    EmptyDefinition(Box<str>),
    /// Looks whether an object still has owners, and whether it waits for dependents.
    Collect(Reference),
    /// Looks whether an object that waits for its dependents still has any.
    Release(Reference),
    /// Frees the dependents of an object that is being deleted without them.
    Orphan(Reference),
    /// Takes the protection off a claim or a volume that is being deleted, if nobody uses it.
    Unprotect(Reference),
    /// Ends a pod, if it is still the one of this UID.
    EndPod(Reference, Box<str>),
}

/// Work in the order in which it was added.
#[derive(Debug, Default)]
pub(super) struct Queue {
    order: VecDeque<Work>,
    waiting: HashSet<Work>,
}

impl Queue {
    pub(super) fn add(&mut self, work: Work) {
        if self.waiting.insert(work.clone()) {
            self.order.push_back(work);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The next piece.
    pub(super) fn take(&mut self) -> Option<Work> {
        let next = self.order.pop_front()?;
        self.waiting.remove(&next);
        Some(next)
    }
}
