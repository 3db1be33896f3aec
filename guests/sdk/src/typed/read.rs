//! Typed reads from the cache: methods of [`Context`].

use std::marker::PhantomData;

use super::Resource;
use crate::cache::{Objects, Query};
use crate::{Context, Error, Key, Kind};

impl Context {
    /// Reads one object from the cache; `None` if the cache does not have it. The descriptor must watch the type.
    ///
    /// Reading a few fields of a large object is cheaper with [`cache`](Context::cache), which parses nothing.
    ///
    /// # Errors
    /// When the manifest does not grant the read, the descriptor does not watch the type, or the object does not have
    /// its form.
    pub fn get<K: Resource>(&self, key: &Key) -> Result<Option<K>, Error> {
        self.cache().get(&Kind::of::<K>(), key)?.map(|object| object.parse()).transpose()
    }

    /// Reads all objects of a type from the cache, in the order of their keys.
    ///
    /// # Errors
    /// As [`get`](Context::get).
    pub fn list<K: Resource>(&self) -> Result<TypedObjects<'_, K>, Error> {
        self.query(&Query::all())
    }

    /// Reads the objects of a type with this value in an index of the plugin's descriptor, in the order of their keys.
    ///
    /// # Errors
    /// As [`get`](Context::get); and when the descriptor has no such index.
    pub fn by_index<K: Resource>(&self, index: &str, value: &str) -> Result<TypedObjects<'_, K>, Error> {
        self.query(&Query::by_index(index, value))
    }

    /// Reads the objects of a type that a query selects from the cache, in the order of their keys.
    ///
    /// # Errors
    /// As [`get`](Context::get).
    pub fn query<K: Resource>(&self, query: &Query) -> Result<TypedObjects<'_, K>, Error> {
        let objects = self.cache().list(&Kind::of::<K>(), query)?;
        Ok(TypedObjects { objects, kind: PhantomData })
    }

    /// Counts the objects of a type that a query selects, without reading them.
    ///
    /// # Errors
    /// As [`get`](Context::get).
    pub fn count<K: Resource>(&self, query: &Query) -> Result<u64, Error> {
        Ok(self.cache().count(&Kind::of::<K>(), query)?)
    }
}

/// An iterator over a snapshot of objects of a type.
pub struct TypedObjects<'call, K> {
    objects: Objects<'call>,
    kind: PhantomData<fn() -> K>,
}

impl<K> TypedObjects<'_, K> {
    /// The number of objects that were not returned yet, without reading them.
    pub fn remaining(&self) -> u64 {
        self.objects.remaining()
    }
}

impl<K: Resource> Iterator for TypedObjects<'_, K> {
    type Item = Result<K, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(match self.objects.next()? {
            Ok(object) => object.parse(),
            Err(refusal) => Err(refusal.into()),
        })
    }
}
