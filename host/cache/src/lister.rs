//! [`Lister`] and [`NamespaceLister`]: reading an informer's store the way client-go's listers do.
//!
//! They hold the store, not the informer: one that outlives its informer reads the last state.

use std::sync::Arc;

use pilothouse_object::{LabelSelector, Object, ObjectKey};

use crate::indexer::Indexer;

/// Reads the objects of one kind; a cheap clone.
#[derive(Debug, Clone)]
pub struct Lister {
    indexer: Arc<Indexer>,
}

impl Lister {
    /// A lister over a store.
    #[must_use]
    pub fn new(indexer: Arc<Indexer>) -> Self {
        Self { indexer }
    }

    /// The objects that match, in no order.
    #[must_use]
    pub fn list(&self, selector: &LabelSelector) -> Vec<Object> {
        select(self.indexer.list(), selector)
    }

    /// The object of a key.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Object> {
        self.indexer.get(key)
    }

    /// A lister of one namespace.
    #[must_use]
    pub fn namespace(&self, namespace: &str) -> NamespaceLister {
        NamespaceLister { indexer: self.indexer.clone(), namespace: namespace.to_owned() }
    }
}

/// Reads the objects of one kind in one namespace; a cheap clone.
#[derive(Debug, Clone)]
pub struct NamespaceLister {
    indexer: Arc<Indexer>,
    namespace: String,
}

impl NamespaceLister {
    /// The objects of the namespace that match, in no order.
    #[must_use]
    pub fn list(&self, selector: &LabelSelector) -> Vec<Object> {
        select(self.indexer.list_namespace(&self.namespace), selector)
    }

    /// The object of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Object> {
        self.indexer.get(&ObjectKey::new(Some(&self.namespace), name).ok()?)
    }
}

/// Labels are read outside the store's lock.
fn select(mut objects: Vec<Object>, selector: &LabelSelector) -> Vec<Object> {
    if !selector.is_empty() {
        objects.retain(|object| selector.matches(object));
    }
    objects
}
