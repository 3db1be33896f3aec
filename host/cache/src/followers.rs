//! [`Followers`]: the informers of single namespaces that an informer of all namespaces keeps up to date.
//!
//! They are grouped by namespace, so a change in a namespace that no informer follows costs one look-up. Guarded by the
//! lock under which the informer of all namespaces handles its work.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use foldhash::fast::RandomState;
use pilothouse_object::ObjectKey;

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

    /// The followers of the namespaces that items belong to, each with what `make` makes of its items.
    pub(crate) fn group<I, O>(
        &self,
        items: &[I],
        key: fn(&I) -> &ObjectKey,
        make: fn(&I) -> O,
    ) -> Vec<(Vec<Arc<T>>, Vec<O>)> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut groups: HashMap<&str, Vec<O>, RandomState> = HashMap::default();
        for item in items {
            if let Some(namespace) = key(item).namespace()
                && let Some((namespace, _)) = self.by_namespace.get_key_value(namespace)
            {
                groups.entry(&**namespace).or_default().push(make(item));
            }
        }
        let of = |namespace: &str| self.by_namespace[namespace].iter().filter_map(Weak::upgrade).collect();
        groups.into_iter().map(|(namespace, made)| (of(namespace), made)).collect()
    }
}
