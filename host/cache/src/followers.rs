//! [`Followers`]: the informers of single namespaces that an informer of all namespaces keeps up to date.
//!
//! They are grouped by namespace, so a change of a namespace that no informer follows costs one look-up. Guarded by the
//! lock under which the informer of all namespaces handles its work.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use foldhash::fast::RandomState;

use crate::change::Change;
use crate::delta::Delta;

/// Informers of type `T` by namespace.
pub(crate) struct Followers<T> {
    by_namespace: HashMap<Arc<str>, Vec<Weak<T>>, RandomState>,
}

impl<T> Default for Followers<T> {
    fn default() -> Self {
        Self { by_namespace: HashMap::default() }
    }
}

impl<T> Followers<T> {
    pub(crate) fn add(&mut self, namespace: &str, follower: &Arc<T>) {
        self.by_namespace.entry(namespace.into()).or_default().push(Arc::downgrade(follower));
    }

    pub(crate) fn remove(&mut self, namespace: &str, follower: &Arc<T>) {
        if let Some(followers) = self.by_namespace.get_mut(namespace) {
            followers.retain(|one| !std::ptr::eq(one.as_ptr(), Arc::as_ptr(follower)));
            if followers.is_empty() {
                self.by_namespace.remove(namespace);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_namespace.is_empty()
    }

    /// Each follower with its namespace.
    pub(crate) fn all(&self) -> Vec<(Arc<str>, Arc<T>)> {
        let with_namespace = |(namespace, followers): (&Arc<str>, &Vec<Weak<T>>)| {
            let namespace = namespace.clone();
            followers
                .iter()
                .filter_map(Weak::upgrade)
                .map(move |one| (namespace.clone(), one))
                .collect::<Vec<_>>()
        };
        self.by_namespace.iter().flat_map(with_namespace).collect()
    }

    /// The followers of the namespaces that changes are of, each with its changes as deltas.
    pub(crate) fn group(&self, changes: &[Change]) -> Vec<(Vec<Arc<T>>, Vec<Delta>)> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut groups: HashMap<&str, Vec<Delta>, RandomState> = HashMap::default();
        for change in changes {
            if let Some(namespace) = change.key().namespace()
                && let Some((namespace, _)) = self.by_namespace.get_key_value(namespace)
            {
                groups.entry(&**namespace).or_default().push(delta_of(change));
            }
        }
        let of = |namespace: &str| self.by_namespace[namespace].iter().filter_map(Weak::upgrade).collect();
        groups.into_iter().map(|(namespace, deltas)| (of(namespace), deltas)).collect()
    }
}

/// The delta that makes a change in another store.
fn delta_of(change: &Change) -> Delta {
    match change {
        Change::Added(object) => Delta::Added(object.clone()),
        Change::Updated { new, .. } => Delta::Updated(new.clone()),
        Change::Deleted { object: Some(object), final_state_unknown: false, .. } => {
            Delta::Deleted(object.clone())
        }
        Change::Deleted { key, object, .. } => {
            Delta::DeletedFinalStateUnknown { key: key.clone(), object: object.clone() }
        }
    }
}
