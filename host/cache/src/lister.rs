//! [`Lister`] and [`NamespaceLister`]: reading an informer's store the way client-go's listers do; [`TypedLister`] and
//! [`TypedNamespaceLister`] do so with objects of a Rust type.
//!
//! They hold the store, not the informer: one that outlives its informer reads the last state. A typed lister decodes
//! what it hands out, each time: nothing typed is kept.

use std::marker::PhantomData;
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

    /// The same with objects of a Rust type.
    #[must_use]
    pub fn typed<K: DeserializeOwned>(&self) -> TypedLister<K> {
        TypedLister { raw: self.clone(), kind: PhantomData }
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

    /// The same with objects of a Rust type.
    #[must_use]
    pub fn typed<K: DeserializeOwned>(&self) -> TypedNamespaceLister<K> {
        TypedNamespaceLister { raw: self.clone(), kind: PhantomData }
    }
}

/// Reads the objects of one kind as values of a Rust type; a cheap clone.
pub struct TypedLister<K> {
    raw: Lister,
    kind: PhantomData<fn() -> K>,
}

impl<K: DeserializeOwned> TypedLister<K> {
    /// The objects that match, in no order. Only those that match are decoded.
    ///
    /// # Errors
    /// [`CacheError::Decode`] for the first object that is not of the type.
    pub fn list(&self, selector: &LabelSelector) -> Result<Vec<K>, CacheError> {
        self.raw.list(selector).iter().map(decode).collect()
    }

    /// The object of a key.
    ///
    /// # Errors
    /// [`CacheError::NotFound`], or [`CacheError::Decode`] when it is not of the type.
    pub fn get(&self, key: &ObjectKey) -> Result<K, CacheError> {
        decode(&self.raw.get(key)?)
    }

    /// A lister of one namespace.
    #[must_use]
    pub fn namespace(&self, namespace: &str) -> TypedNamespaceLister<K> {
        self.raw.namespace(namespace).typed()
    }
}

/// Reads the objects of one kind in one namespace as values of a Rust type; a cheap clone.
pub struct TypedNamespaceLister<K> {
    raw: NamespaceLister,
    kind: PhantomData<fn() -> K>,
}

impl<K: DeserializeOwned> TypedNamespaceLister<K> {
    /// The objects of the namespace that match, in no order. Only those that match are decoded.
    ///
    /// # Errors
    /// [`CacheError::Decode`] for the first object that is not of the type.
    pub fn list(&self, selector: &LabelSelector) -> Result<Vec<K>, CacheError> {
        self.raw.list(selector).iter().map(decode).collect()
    }

    /// The object of a name.
    ///
    /// # Errors
    /// [`CacheError::NotFound`], or [`CacheError::Decode`] when it is not of the type.
    pub fn get(&self, name: &str) -> Result<K, CacheError> {
        decode(&self.raw.get(name)?)
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

// Derived ones would ask the same of the type.

impl<K> Clone for TypedLister<K> {
    fn clone(&self) -> Self {
        Self { raw: self.raw.clone(), kind: PhantomData }
    }
}

impl<K> Clone for TypedNamespaceLister<K> {
    fn clone(&self) -> Self {
        Self { raw: self.raw.clone(), kind: PhantomData }
    }
}

impl<K> std::fmt::Debug for TypedLister<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TypedLister").field(&self.raw).finish()
    }
}

impl<K> std::fmt::Debug for TypedNamespaceLister<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TypedNamespaceLister").field(&self.raw).finish()
    }
}
