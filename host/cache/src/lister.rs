//! [`Lister`] and [`NamespaceLister`]: reading an informer's store the way client-go's listers do, raw objects or values of a
//! Rust type.
//!
//! They hold the store, not the informer: one that outlives its informer reads the last state. Values are decoded each time:
//! nothing typed is kept.

use std::sync::Arc;

use pilothouse_object::{LabelSelector, Object, ObjectKey};
use serde::de::DeserializeOwned;

use crate::error::CacheError;
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
    ///
    /// # Errors
    /// [`CacheError::NotFound`].
    pub fn get(&self, key: &ObjectKey) -> Result<Object, CacheError> {
        self.indexer.get(key).ok_or_else(|| CacheError::NotFound(key.to_string()))
    }

    /// A lister of one namespace.
    #[must_use]
    pub fn namespace(&self, namespace: &str) -> NamespaceLister {
        NamespaceLister { all: self.clone(), namespace: namespace.to_owned() }
    }

    /// As [`list`](Self::list), as values of a Rust type. Only objects that match are decoded.
    ///
    /// # Errors
    /// [`CacheError::Decode`] for the first object that is not of the type.
    pub fn list_as<K: DeserializeOwned>(&self, selector: &LabelSelector) -> Result<Vec<K>, CacheError> {
        self.list(selector).iter().map(decode).collect()
    }

    /// As [`get`](Self::get), as a value of a Rust type.
    ///
    /// # Errors
    /// [`CacheError::NotFound`], or [`CacheError::Decode`] when it is not of the type.
    pub fn get_as<K: DeserializeOwned>(&self, key: &ObjectKey) -> Result<K, CacheError> {
        decode(&self.get(key)?)
    }
}

/// Reads the objects of one kind in one namespace, by the namespace index; a cheap clone.
#[derive(Debug, Clone)]
pub struct NamespaceLister {
    all: Lister,
    namespace: String,
}

impl NamespaceLister {
    /// The objects of the namespace that match, in no order.
    #[must_use]
    pub fn list(&self, selector: &LabelSelector) -> Vec<Object> {
        select(self.all.indexer.list_namespace(&self.namespace), selector)
    }

    /// The object of a name.
    ///
    /// # Errors
    /// [`CacheError::NotFound`].
    pub fn get(&self, name: &str) -> Result<Object, CacheError> {
        match ObjectKey::new(Some(&self.namespace), name) {
            Ok(key) => self.all.get(&key),
            // No object has such a name.
            Err(_) => Err(CacheError::NotFound(format!("{}/{name}", self.namespace))),
        }
    }

    /// As [`Lister::list_as`].
    ///
    /// # Errors
    /// As there.
    pub fn list_as<K: DeserializeOwned>(&self, selector: &LabelSelector) -> Result<Vec<K>, CacheError> {
        self.list(selector).iter().map(decode).collect()
    }

    /// As [`Lister::get_as`].
    ///
    /// # Errors
    /// As there.
    pub fn get_as<K: DeserializeOwned>(&self, name: &str) -> Result<K, CacheError> {
        decode(&self.get(name)?)
    }
}

/// Labels are read outside the store's lock.
fn select(mut objects: Vec<Object>, selector: &LabelSelector) -> Vec<Object> {
    if !selector.is_empty() {
        objects.retain(|object| selector.matches(object));
    }
    objects
}

fn decode<K: DeserializeOwned>(object: &Object) -> Result<K, CacheError> {
    serde_json::from_slice(object.bytes()).map_err(|error| CacheError::Decode {
        kind: object.kind().to_owned(),
        key: object.key().to_string(),
        message: error.to_string(),
    })
}
