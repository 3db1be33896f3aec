//! [`Snapshot`]: all objects of one kind as they were at one moment; [`Cursor`]: some of them, handed out in portions.
//!
//! A snapshot costs a reference count. While it is held, the parts of the store that change meanwhile are kept twice, so
//! hold it for as long as something is read, not for good. The last holder of a large store that was replaced has it freed
//! on a thread for blocking work: that may take tens of milliseconds.

use std::ops::Deref;
use std::sync::Arc;

use pilothouse_object::{Held, LabelSelector, Object, ObjectKey};

use crate::aside::{drop_aside, is_large};
use crate::error::CacheError;
use crate::indexer::NAMESPACE_INDEX;
use crate::store::{SlotSet, Store, Values};

/// The objects of one kind and their indexes at one moment; a cheap clone.
#[derive(Clone)]
pub struct Snapshot {
    store: HeldStore,
}

/// A store as it was at one moment.
#[derive(Clone)]
struct HeldStore(Arc<Store>);

impl Deref for HeldStore {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.0
    }
}

impl Drop for HeldStore {
    fn drop(&mut self) {
        if Arc::strong_count(&self.0) == 1 && is_large(self.len()) {
            drop_aside(std::mem::replace(&mut self.0, Arc::new(Store::new(false))));
        }
    }
}

impl Snapshot {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self { store: HeldStore(store) }
    }

    /// The object of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Held> {
        self.store.get(key)
    }

    /// Whether both are of the same version of the store; for tests.
    #[cfg(test)]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.store.0, &other.store.0)
    }

    /// The store, as long as somebody holds it; for tests.
    #[cfg(test)]
    pub(crate) fn downgrade(&self) -> std::sync::Weak<Store> {
        Arc::downgrade(&self.store.0)
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Whether there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All objects, in no order.
    pub fn objects(&self) -> impl Iterator<Item = &Held> {
        self.store.objects()
    }

    /// The objects of a namespace, in no order; none for a cluster-scoped kind.
    pub fn namespace(&self, namespace: &str) -> impl Iterator<Item = &Held> {
        self.store.of(self.store.namespaces().and_then(|names| names.slots(namespace)))
    }

    /// The objects that have a value in an index, in no order.
    ///
    /// # Errors
    /// When there is no such index, or it is still being built.
    pub fn by_index(&self, name: &str, value: &str) -> Result<impl Iterator<Item = &Held>, CacheError> {
        Ok(self.store.of(readable(&self.store, name)?.slots(value)))
    }

    /// The values that at least one object has in an index, in no order.
    ///
    /// # Errors
    /// When there is no such index, or it is still being built.
    pub fn index_values(&self, name: &str) -> Result<impl Iterator<Item = &Arc<str>>, CacheError> {
        Ok(readable(&self.store, name)?.names())
    }

    /// A cursor over all objects.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        Cursor::new(self.store.clone(), CursorScope::All, self.len())
    }

    /// A cursor over the objects of a namespace.
    #[must_use]
    pub fn cursor_of_namespace(&self, namespace: &str) -> Cursor {
        self.cursor_of(self.store.namespaces().and_then(|names| names.slots(namespace)).cloned())
    }

    /// A cursor over the objects that have a value in an index.
    ///
    /// # Errors
    /// When there is no such index, or it is still being built.
    pub fn cursor_of_index(&self, name: &str, value: &str) -> Result<Cursor, CacheError> {
        Ok(self.cursor_of(readable(&self.store, name)?.slots(value).cloned()))
    }

    fn cursor_of(&self, slots: Option<SlotSet>) -> Cursor {
        let count = slots.as_ref().map_or(0, SlotSet::len);
        Cursor::new(self.store.clone(), slots.map_or(CursorScope::Nowhere, CursorScope::Of), count)
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Objects of one moment, handed out one after the other; later changes do not show. A clone goes on from the same place.
#[derive(Clone)]
pub struct Cursor {
    store: HeldStore,
    place: CursorScope,
    next: u32,
    selector: LabelSelector,
    /// Of those before the selector.
    left: usize,
}

#[derive(Clone)]
enum CursorScope {
    All,
    Of(SlotSet),
    Nowhere,
}

impl Cursor {
    fn new(store: HeldStore, place: CursorScope, left: usize) -> Self {
        Self { store, place, next: 0, selector: LabelSelector::default(), left }
    }

    /// Only objects whose labels match. Nothing is decompressed for that.
    #[must_use]
    pub fn select(mut self, selector: LabelSelector) -> Self {
        self.selector = selector;
        self
    }

    /// How many objects may follow; with a selector, at most so many.
    #[must_use]
    pub fn at_most(&self) -> usize {
        self.left
    }

    fn next_held(&mut self) -> Option<&Held> {
        let slot = match &self.place {
            CursorScope::All => (self.next..self.store.end()).find(|slot| self.store.slot(*slot).is_some()),
            CursorScope::Of(slots) => slots.next_from(self.next),
            CursorScope::Nowhere => None,
        };
        let Some(slot) = slot else {
            self.place = CursorScope::Nowhere;
            return None;
        };
        self.next = slot.saturating_add(1);
        self.left = self.left.saturating_sub(1);
        self.store.slot(slot)
    }

    /// The keys of what follows.
    pub fn keys(mut self) -> impl Iterator<Item = ObjectKey> {
        std::iter::from_fn(move || self.next().map(|object| object.key().clone()))
    }
}

impl Iterator for Cursor {
    type Item = Object;

    fn next(&mut self) -> Option<Object> {
        loop {
            let object = self.next_held()?.object();
            if self.selector.is_empty() || self.selector.matches(&object) {
                return Some(object);
            }
        }
    }
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("at_most", &self.left).finish_non_exhaustive()
    }
}

/// The index of a name, the built-in one among them.
pub(crate) fn readable<'a>(store: &'a Store, name: &str) -> Result<&'a Values, CacheError> {
    match store.index(name) {
        Some(index) if index.ready => return Ok(&index.values),
        Some(_) => return Err(CacheError::IndexBuilding(name.to_owned())),
        None => {}
    }
    match store.namespaces() {
        Some(namespaces) if name == NAMESPACE_INDEX => Ok(namespaces),
        _ => Err(CacheError::UnknownIndex { name: name.to_owned(), have: names(store) }),
    }
}

/// The names of all indexes that can be read.
pub(crate) fn names(store: &Store) -> Vec<String> {
    let built_in = store.namespaces().map(|_| NAMESPACE_INDEX.to_owned());
    let added = store.indexes().iter().filter(|index| index.ready).map(|index| index.name.to_string());
    built_in.into_iter().chain(added).collect()
}
