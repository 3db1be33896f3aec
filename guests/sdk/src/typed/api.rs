//! [`Api`]: typed live calls.

use std::marker::PhantomData;

use serde::Serialize;

use super::Resource;
use super::resource::body_of;
use crate::client::{ApplyOptions, Client, DeleteOptions, ListOptions, WriteOptions};
use crate::{Context, Error, Key, Kind, Object};

impl Context {
    /// Live calls to the API server for objects of a type.
    pub fn api<K: Resource>(&self) -> Api<'_, K> {
        Api { client: self.client(), kind: Kind::of::<K>(), of: PhantomData }
    }
}

/// Live calls to the API server for objects of a type. Made with [`Context::api`].
///
/// # Errors
/// As the calls of [`client`](crate::client); and when the answer does not have the form of the type.
pub struct Api<'call, K> {
    client: Client<'call>,
    kind: Kind,
    of: PhantomData<fn() -> K>,
}

impl<K: Resource> Api<'_, K> {
    /// Reads one object. A missing object is an error ([`Error::is_not_found`]).
    ///
    /// # Errors
    /// See [`Api`].
    pub fn get(&self, key: &Key) -> Result<K, Error> {
        self.client.get(&self.kind, key)?.parse()
    }

    /// Reads one object; `None` if it does not exist.
    ///
    /// # Errors
    /// See [`Api`].
    pub fn get_opt(&self, key: &Key) -> Result<Option<K>, Error> {
        self.client.get_opt(&self.kind, key)?.map(|object| object.parse()).transpose()
    }

    /// Lists objects, fetched page by page during the iteration.
    pub fn list(&self, options: &ListOptions) -> impl Iterator<Item = Result<K, Error>> {
        self.client.list(&self.kind, options).map(|object| object?.parse())
    }

    /// Creates an object.
    ///
    /// # Errors
    /// See [`Api`].
    pub fn create(&self, object: &K) -> Result<K, Error> {
        self.client.create_json(&self.kind, body_of(object)?.as_bytes(), &WriteOptions::default())?.parse()
    }

    /// Replaces an object. If it has a resource version, that must be the current one.
    ///
    /// **All of it**: fields of the kind that the type does not have are deleted. For a struct of your own with some
    /// fields of a kind, use [`Context::apply`], [`Context::create_or_update`] or [`patch_merge`](Api::patch_merge).
    ///
    /// # Errors
    /// See [`Api`].
    pub fn update(&self, object: &K) -> Result<K, Error> {
        self.client.update_json(&self.kind, body_of(object)?.as_bytes(), &WriteOptions::default())?.parse()
    }

    /// Applies an object (server-side apply). [`Context::apply`] is usually better: it forces, and skips what would
    /// change nothing.
    ///
    /// # Errors
    /// See [`Api`].
    pub fn apply(&self, object: &K, options: &ApplyOptions) -> Result<K, Error> {
        self.client.apply_json(&self.kind, &object.key(), body_of(object)?.as_bytes(), options)?.parse()
    }

    /// Patches an object with an RFC 7396 merge patch.
    ///
    /// # Errors
    /// See [`Api`].
    pub fn patch_merge(&self, key: &Key, patch: &impl Serialize) -> Result<K, Error> {
        self.client.patch_merge(&self.kind, key, patch, &WriteOptions::default())?.parse()
    }

    /// Patches the status of an object with an RFC 7396 merge patch, `{"status": …}`. See also
    /// [`Context::patch_status`], which sends only what is different.
    ///
    /// # Errors
    /// See [`Api`].
    pub fn patch_status(&self, key: &Key, patch: &impl Serialize) -> Result<K, Error> {
        self.client.patch_merge(&self.kind, key, patch, &WriteOptions::status())?.parse()
    }

    /// Deletes an object. A missing object is an error ([`Error::is_not_found`]).
    ///
    /// # Errors
    /// See [`Api`].
    pub fn delete(&self, key: &Key, options: &DeleteOptions) -> Result<(), Error> {
        self.client.delete(&self.kind, key, options).map(drop::<Option<Object<'_>>>)
    }

    /// Deletes an object if it exists; returns whether it did.
    ///
    /// # Errors
    /// See [`Api`].
    pub fn delete_opt(&self, key: &Key, options: &DeleteOptions) -> Result<bool, Error> {
        match self.delete(key, options) {
            Ok(()) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }
}
