//! [`Indexer`]: the cache of one kind, shared by all who read it; client-go's `Store`, `Indexer` and `ThreadSafeStore`.
//!
//! The store is one immutable value. A writer makes the next one from it, which shares all that did not change, and
//! publishes it; readers take the present one and never wait. So an object and all its index entries change as one, a
//! batch and a list as well, and a [`Snapshot`] is to keep what one took. Invariant: what
//! [`resource_version`](Indexer::resource_version) says has been applied completely.
//!
//! Written by the informer alone (or by whoever uses it without one); read by listers, rings and host imports of guests.

use std::sync::Arc;

use pilothouse_object::{Held, Object, ObjectKey};
use tokio::sync::watch;

use crate::aside::aside_if_large;
use crate::change::Change;
use crate::delta::Delta;
use crate::error::CacheError;
use crate::hot_reads::HotReads;
use crate::index_fn::IndexFn;
use crate::packing::{Compression, Hot, Packing};
use crate::snapshot::{self, Snapshot, readable};
use crate::store::{Replaced, Store, same_version};
use crate::sync::{Mutex, Published};
use crate::version::ResourceVersion;

/// The name of the index that every namespaced kind has.
pub const NAMESPACE_INDEX: &str = "namespace";

/// Slots handled between two publications while an index is built or swept, or objects are packed anew: well under a
/// millisecond, save for objects that must be unpacked.
const CHUNK: u32 = 512;

/// The objects of one kind by key and by index.
pub struct Indexer {
    store: Published<Store>,
    /// Held by whoever makes the next store.
    writer: Mutex<Hot>,
    packing: Packing,
    hot_reads: HotReads,
    /// The version of the store, and the signal of every change. An informer that follows another one shares that one's.
    progress: Published<watch::Sender<ResourceVersion>>,
}

impl Indexer {
    /// An empty store that compresses nothing; with the namespace index for a namespaced kind.
    #[must_use]
    pub fn new(namespaced: bool) -> Self {
        Self::with_compression(namespaced, Compression::Off)
    }

    /// An empty store; with the namespace index for a namespaced kind.
    #[must_use]
    pub fn with_compression(namespaced: bool, compression: Compression) -> Self {
        Self {
            store: Published::from_pointee(Store::new(namespaced)),
            writer: Mutex::default(),
            packing: Packing::new(compression),
            hot_reads: HotReads::default(),
            progress: Published::from_pointee(watch::Sender::new(ResourceVersion::default())),
        }
    }

    /// All objects and indexes as they are now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.store.load_full())
    }

    /// The object of a key.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Object> {
        self.get_by_key(key.as_str())
    }

    /// The object of a key in its text form.
    #[must_use]
    pub fn get_by_key(&self, key: &str) -> Option<Object> {
        let store = self.store.load();
        let slot = store.find(key)?;
        Some(self.hot_reads.object(slot, store.slot(slot)?))
    }

    /// All objects, in no order.
    #[must_use]
    pub fn list(&self) -> Vec<Object> {
        self.store.load().objects().map(Held::object).collect()
    }

    /// All keys, in no order; client-go's `ListKeys`.
    #[must_use]
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.store.load().objects().map(|held| held.key().clone()).collect()
    }

    /// The objects of a namespace, in no order; none for a cluster-scoped kind.
    #[must_use]
    pub fn list_namespace(&self, namespace: &str) -> Vec<Object> {
        self.snapshot().namespace(namespace).map(Held::object).collect()
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.store.load().len()
    }

    /// Whether there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects that have a value in an index, in no order.
    ///
    /// # Errors
    /// When there is no such index, or it is still being built.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Object>, CacheError> {
        let store = self.store.load();
        Ok(store.of(readable(&store, name)?.slots(value)).map(Held::object).collect())
    }

    /// The objects that share at least one value of an index with `object`, each once, in no order; client-go's `Index`.
    ///
    /// # Errors
    /// When there is no such index, or it is still being built.
    pub fn index(&self, name: &str, object: &Object) -> Result<Vec<Object>, CacheError> {
        let store = self.store.load();
        let values = readable(&store, name)?;
        let of = computed(&store, name, object);
        let mut slots: Vec<u32> =
            of.iter().filter_map(|value| values.slots(value)).flat_map(|set| set.iter()).collect();
        slots.sort_unstable();
        slots.dedup();
        Ok(slots.into_iter().filter_map(|slot| store.slot(slot)).map(Held::object).collect())
    }

    /// The sorted keys of the objects that have a value in an index.
    ///
    /// # Errors
    /// When there is no such index, or it is still being built.
    pub fn index_keys(&self, name: &str, value: &str) -> Result<Vec<ObjectKey>, CacheError> {
        let store = self.store.load();
        let mut keys: Vec<_> =
            store.of(readable(&store, name)?.slots(value)).map(|held| held.key().clone()).collect();
        keys.sort_unstable();
        Ok(keys)
    }

    /// The sorted values that at least one object has in an index; client-go's `ListIndexFuncValues`.
    ///
    /// # Errors
    /// When there is no such index, or it is still being built.
    pub fn index_values(&self, name: &str) -> Result<Vec<Arc<str>>, CacheError> {
        let mut values: Vec<_> = readable(&self.store.load(), name)?.names().cloned().collect();
        values.sort_unstable();
        Ok(values)
    }

    /// The values that `object`, which need not be in the store, has in an index.
    pub(crate) fn values_of(&self, name: &str, object: &Object) -> Vec<Arc<str>> {
        computed(&self.store.load(), name, object)
    }

    /// The names of all indexes that can be read.
    #[must_use]
    pub fn index_names(&self) -> Vec<String> {
        snapshot::names(&self.store.load())
    }

    /// How many indexes there are, the one of namespaces not counted.
    #[must_use]
    pub fn index_count(&self) -> usize {
        self.store.load().index_count()
    }

    /// Adds an index to a store that may be full and in use: readers never wait, writers for a moment at a time. When
    /// this returns the index is complete. It computes for as long as the store is large: on a runtime with threads,
    /// other tasks go on meanwhile.
    ///
    /// # Errors
    /// When the name is taken.
    pub fn add_indexer(&self, name: &str, function: IndexFn) -> Result<(), CacheError> {
        self.add_indexers([(name, function)])
    }

    /// Adds several indexes as [`add_indexer`](Self::add_indexer) does; none when one name is taken.
    ///
    /// # Errors
    /// When a name is taken, or comes twice.
    pub fn add_indexers<'a>(
        &self,
        indexers: impl IntoIterator<Item = (&'a str, IndexFn)>,
    ) -> Result<(), CacheError> {
        let mut added: Vec<(u32, IndexFn)> = Vec::new();
        self.write(|store, _| {
            let before = store.clone();
            for (name, function) in indexers {
                let built_in = name == NAMESPACE_INDEX && store.namespaces().is_some();
                if built_in || store.index(name).is_some() {
                    *store = before;
                    return Err(CacheError::IndexExists(name.to_owned()));
                }
                added.push((store.start_index(name, function.clone()), function));
            }
            Ok(())
        })?;
        aside_if_large(self.len().saturating_mul(added.len()), || self.fill_indexes(&added));
        Ok(())
    }

    /// Fills new indexes with what was in the store before. Writers keep them up already.
    fn fill_indexes(&self, added: &[(u32, IndexFn)]) {
        let before = self.store.load_full();
        let mut start = 0;
        while start < before.end() {
            let slots = start..before.end().min(start + CHUNK);
            for (id, function) in added {
                let compute = |slot: u32| {
                    let held = before.slot(slot)?;
                    Some((slot, held.clone(), function.values(&held.object())))
                };
                let computed: Vec<_> = slots.clone().filter_map(compute).collect();
                self.write(|store, _| store.fill_index(*id, computed));
            }
            start = slots.end;
        }
        self.write(|store, _| added.iter().for_each(|(id, _)| store.finish_index(*id)));
    }

    /// Removes an index; tells whether there was one. The namespace index stays.
    pub fn remove_indexer(&self, name: &str) -> bool {
        let Some(id) = self.write(|store, _| store.drop_index(name)) else { return false };
        let end = self.store.load().end();
        let mut start = 0;
        while start < end {
            self.write(|store, _| store.sweep_postings(id, start..end.min(start + CHUNK)));
            start += CHUNK;
        }
        true
    }

    // Writing: for the informer.

    /// Makes the next store and publishes it.
    fn write<R>(&self, change: impl FnOnce(&mut Store, &mut Hot) -> R) -> R {
        let mut hot = self.writer.lock();
        let mut store = Store::clone(&self.store.load());
        let outcome = change(&mut store, &mut hot);
        self.store.store(Arc::new(store));
        outcome
    }

    /// Puts an object in, whether its key is there or not; client-go's `Add` and `Update`.
    pub fn add(&self, object: Object) {
        self.apply([Delta::Updated(object)], None);
    }

    /// Takes the object of a key out; client-go's `Delete`.
    pub fn delete(&self, key: &ObjectKey) {
        self.apply([Delta::DeletedFinalStateUnknown { key: key.clone(), object: None }], None);
    }

    /// Applies a batch as one transaction and tells what changed, in order. `seen`: the version up to which the store
    /// is complete with it.
    pub fn apply(&self, batch: impl IntoIterator<Item = Delta>, seen: Option<&str>) -> Vec<Change> {
        let changes = self.apply_hot(batch);
        self.announce(seen.map(ResourceVersion::from).as_ref());
        self.cool();
        changes
    }

    /// As [`apply`](Self::apply), and leaves packing to [`cool`](Self::cool), and the version to
    /// [`announce`](Self::announce).
    pub(crate) fn apply_hot(&self, batch: impl IntoIterator<Item = Delta>) -> Vec<Change> {
        self.apply_noting(batch, |hot, new| self.packing.changed(hot, new))
    }

    /// As [`apply_hot`](Self::apply_hot), for objects of another store, which packs them.
    pub(crate) fn apply_shared(&self, batch: impl IntoIterator<Item = Delta>) -> Vec<Change> {
        self.apply_noting(batch, |_, _| {})
    }

    fn apply_noting(
        &self,
        batch: impl IntoIterator<Item = Delta>,
        note: impl Fn(&mut Hot, &Held),
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        self.write(|store, hot| {
            for delta in batch {
                store.apply(delta, &mut |change| {
                    let new = match &change {
                        Change::Added(object) => Some(object),
                        // Announced again, it has not changed.
                        Change::Updated { old, new } if !new.is_same(old) => Some(new),
                        _ => None,
                    };
                    if let Some(new) = new {
                        note(hot, new.held());
                    }
                    changes.push(change);
                });
            }
            store.shrink();
        });
        changes
    }

    /// Takes over the handles of the same objects of another store, so that both keep one copy.
    pub(crate) fn share(&self, objects: &[Object]) {
        self.write(|store, _| store.share(objects));
    }

    /// Puts the form in which another store keeps objects in place of the same objects here.
    pub(crate) fn adopt(&self, packed: &[(Held, Held)]) {
        self.write(|store, _| {
            for (old, new) in packed {
                if let Some(slot) = store.find(old.key().as_str())
                    && store.slot(slot).is_some_and(|held| held.is_same(old))
                {
                    store.swap(slot, new.clone());
                }
            }
        });
    }

    /// Packs the objects that left the set of recently changed ones, once there are enough. Returns each before and after.
    pub(crate) fn cool(&self) -> Vec<(Held, Held)> {
        let mut hot = self.writer.lock();
        let store = self.store.load();
        if !self.packing.has_cooled(&hot, &store) {
            return Vec::new();
        }
        let mut store = Store::clone(&store);
        let packed = self.packing.cool(&mut hot, &mut store);
        self.store.store(Arc::new(store));
        packed
    }

    /// Takes a list over as one transaction and tells what changed: deletions first, then the list in its order.
    /// Objects whose version and UID did not change stay the ones held; `unchanged` tells whether they are reported.
    pub fn replace(&self, list: Vec<Object>, seen: Option<&str>, unchanged: bool) -> Vec<Change> {
        let changes = self.replace_lazily(list, unchanged);
        self.announce(seen.map(ResourceVersion::from).as_ref());
        changes.collect()
    }

    /// As [`replace`](Self::replace), and leaves the version to `announce`. The whole list is in the
    /// store when this returns, and each change is made as it is asked for, so that the changes of a large list are never
    /// in memory together.
    pub fn replace_lazily(&self, list: Vec<Object>, unchanged: bool) -> impl Iterator<Item = Change> + use<> {
        let mut did = Vec::new();
        self.packing.list_ended();
        let dictionary = self.packing.dictionary();
        let store = self.write(|store, _| {
            let kept = store.slots_of(list.iter().map(Object::key));
            let before = store.clone();
            let list = list.into_iter().map(|object| match &dictionary {
                Some(dictionary) => {
                    with_values(&before, object, |object| self.packing.pack(object, dictionary))
                }
                None => object,
            });
            store.replace(list, &kept, &mut |one| {
                if unchanged || !matches!(one, Replaced::Unchanged(_)) {
                    did.push(one);
                }
            });
            store.clone()
        });
        did.into_iter().filter_map(move |one| {
            let now = |slot| store.slot(slot).map(Held::object);
            match one {
                Replaced::Deleted(held) => {
                    let (key, object) = (held.key().clone(), Some(held.object()));
                    Some(Change::Deleted { key, object, final_state_unknown: true })
                }
                Replaced::Added(slot) => now(slot).map(Change::Added),
                Replaced::Updated { old, slot } => {
                    now(slot).map(|new| Change::Updated { old: old.object(), new })
                }
                Replaced::Unchanged(slot) => now(slot).map(|new| Change::Updated { old: new.clone(), new }),
            }
        })
    }

    /// Notes that the store is complete up to a version.
    pub fn bookmark(&self, version: &str) {
        self.announce(Some(&version.into()));
    }

    /// Tells those who wait that the store has changed, and up to which version it is complete.
    pub(crate) fn announce(&self, version: Option<&ResourceVersion>) {
        self.progress.load().send_modify(|seen| {
            if let Some(version) = version {
                seen.clone_from(version);
            }
        });
    }

    /// From now on the version and the signal are those of another store, which this one is a part of.
    pub(crate) fn share_progress(&self, other: &Indexer) {
        self.set_progress(other.progress.load_full());
    }

    /// From now on the version and the signal are its own again.
    pub(crate) fn own_progress(&self) {
        let seen = self.progress.load().borrow().clone();
        self.set_progress(Arc::new(watch::Sender::new(seen)));
    }

    fn set_progress(&self, progress: Arc<watch::Sender<ResourceVersion>>) {
        let before = self.progress.load_full();
        self.progress.store(progress);
        // Those who wait on the former signal look again.
        before.send_modify(|_| {});
    }

    /// An object of a list in the form that the store will keep: the one held when it is the same version, so that what
    /// came again is not there twice, else packed where packing pays.
    #[must_use]
    pub fn canonical(&self, object: Object) -> Object {
        let store = self.store.load();
        known(&store, &object)
            .unwrap_or_else(|| with_values(&store, object, |object| self.packing.listed(object)))
    }

    /// The object held when it is the same version, else the one given.
    #[must_use]
    pub fn held_or(&self, object: Object) -> Object {
        known(&self.store.load(), &object).unwrap_or(object)
    }

    /// Whether [`maintain`](Self::maintain) has something to do.
    #[must_use]
    pub fn wants_maintenance(&self) -> bool {
        self.packing.is_wanted()
    }

    /// Trains a new dictionary from what the store holds now and packs the objects with it; computes for some 20 µs for
    /// each object. For a thread that may be busy; readers never wait, writers for a moment at a time.
    pub fn maintain(&self) {
        self.maintain_with(|_| {});
    }

    /// As [`maintain`](Self::maintain), and hands on what was packed, the objects before and after.
    pub(crate) fn maintain_with(&self, packed_now: impl Fn(&[(Held, Held)])) {
        if !self.packing.take_wanted() {
            return;
        }
        let Some(dictionary) = self.packing.retrain(&self.store.load_full()) else { return };
        let mut start = 0;
        loop {
            // Not one snapshot for all: it would keep the former objects in memory to the end.
            let store = self.store.load_full();
            if start >= store.end() {
                break;
            }
            let slots = start..store.end().min(start + CHUNK);
            let pack = |slot: u32| {
                let held = store.slot(slot).filter(|held| !held.is_packed_with(&dictionary))?;
                let packed = self.packing.pack(held.object().unpacked(), &dictionary);
                packed.is_packed().then(|| (held.clone(), packed.into_held()))
            };
            let packed: Vec<_> = slots.clone().filter_map(pack).collect();
            drop(store);
            self.adopt(&packed);
            packed_now(&packed);
            start = slots.end;
        }
        self.packing.end_retraining();
    }

    // How far the store has come.

    /// The version up to which the store is complete; empty before the first list.
    #[must_use]
    pub fn resource_version(&self) -> Arc<str> {
        self.progress.load().borrow().to_text()
    }

    /// Whether a change made at `version` is in the store: any later event or bookmark of the kind counts.
    #[must_use]
    pub fn has_seen(&self, version: &str) -> bool {
        self.progress.load().borrow().covers(version)
    }

    /// Waits until a change made at `version` is in the store. Bound it: a version that is not a number is met only by
    /// itself, and a server that is away shows nothing.
    pub async fn wait_until_seen(&self, version: &str) {
        self.wait_until(|| self.has_seen(version)).await;
    }

    /// Waits until the object of a key is gone, or has another UID than `uid`. Bound it.
    pub async fn wait_until_gone(&self, key: &ObjectKey, uid: &str) {
        self.wait_until(|| self.get(key).is_none_or(|object| object.uid() != uid)).await;
    }

    /// Waits until the store and its version are as wanted; looks at each change of them.
    async fn wait_until(&self, is_met: impl Fn() -> bool) {
        loop {
            let progress = self.progress.load_full();
            let mut changes = progress.subscribe();
            if is_met() {
                return;
            }
            // A replaced sender wakes those who had subscribed by then, and nobody later.
            if Arc::ptr_eq(&progress, &self.progress.load_full()) {
                // It cannot fail: `progress` is the sender.
                let _ = changes.changed().await;
            }
        }
    }

    /// Slots of the tables; for tests.
    #[cfg(test)]
    pub(crate) fn slots(&self) -> u32 {
        self.store.load().end()
    }

    /// Checks the invariants; for tests.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        self.store.load().check();
    }
}

/// The values of an object in an index: without such an index, its namespace.
fn computed(store: &Store, name: &str, object: &Object) -> Vec<Arc<str>> {
    match store.index(name) {
        Some(index) => index.function().values(object),
        None => object.namespace().into_iter().map(Into::into).collect(),
    }
}

/// The object held when it is the same version as one that came.
fn known(store: &Store, object: &Object) -> Option<Object> {
    let held = store.get(object.key().as_str())?;
    same_version(held, object.held()).then(|| held.object())
}

/// An object as `pack` makes it; its index values go with it, so that it need not be unpacked for them.
fn with_values(store: &Store, object: Object, pack: impl FnOnce(Object) -> Object) -> Object {
    let plain = object.clone();
    let packed = pack(object);
    if packed.is_packed() && !plain.is_packed() {
        store.note_values(&plain, &packed);
    }
    packed
}

impl std::fmt::Debug for Indexer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Indexer").field("len", &self.len()).field("seen", &self.resource_version()).finish()
    }
}
