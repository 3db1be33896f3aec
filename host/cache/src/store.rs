//! [`Store`]: the objects and all their index entries, changed as one. No lock: that is the `Indexer`'s.
//!
//! Objects live in numbered slots; the key table and every index hold slot numbers only. Invariants:
//! - a slot number is in `by_key` exactly once iff the slot is filled, and in `free` iff it is not;
//! - a slot's `postings` are exactly the sets of `indexes` that hold its number (of indexes that are gone, none; of one
//!   that is being built, the writers' part at least);
//! - no set is empty: values that nobody has any more are not there.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet, HashTable};
use pilothouse_object::{Object, ObjectKey};

use crate::change::{Change, same_version};
use crate::delta::Delta;
use crate::index_fn::IndexFn;

pub(crate) type SlotSet = HashSet<u32, RandomState>;
type Values = HashMap<Arc<str>, SlotSet, RandomState>;

/// Holds objects by key and by index value.
pub(crate) struct Store {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    by_key: HashTable<u32>,
    hasher: RandomState,
    /// By namespace; `None` for cluster-scoped kinds.
    namespaces: Option<Values>,
    indexes: Vec<Index>,
    next_index: u32,
}

struct Slot {
    object: Object,
    postings: Box<[Posting]>,
}

/// One value under which a slot stands in one index.
#[derive(Clone, PartialEq, Eq)]
struct Posting {
    index: u32,
    value: Arc<str>,
}

/// One index.
pub(crate) struct Index {
    id: u32,
    pub(crate) name: Arc<str>,
    function: IndexFn,
    /// Whether every object is in it. Until then writers keep it up and readers are refused.
    pub(crate) ready: bool,
    values: Values,
}

impl Index {
    fn insert(&mut self, value: &Arc<str>, slot: u32) {
        self.values.entry(value.clone()).or_default().insert(slot);
    }

    fn remove(&mut self, value: &str, slot: u32) {
        remove_from(&mut self.values, value, slot);
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Arc<str>> {
        self.values.keys()
    }

    pub(crate) fn slots(&self, value: &str) -> Option<&SlotSet> {
        self.values.get(value)
    }
}

fn remove_from(values: &mut Values, value: &str, slot: u32) {
    if let Some(set) = values.get_mut(value) {
        set.remove(&slot);
        if set.is_empty() {
            values.remove(value);
        }
    }
}

impl Store {
    pub(crate) fn new(namespaced: bool) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_key: HashTable::new(),
            hasher: RandomState::default(),
            namespaces: namespaced.then(Values::default),
            indexes: Vec::new(),
            next_index: 0,
        }
    }

    // Reading.

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Object> {
        self.find(key).map(|id| self.object(id))
    }

    fn find(&self, key: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(key);
        self.by_key.find(hash, |&id| self.object(id).key().as_str() == key).copied()
    }

    fn object(&self, id: u32) -> &Object {
        &self.slot(id).object
    }

    fn slot(&self, id: u32) -> &Slot {
        self.slots[id as usize].as_ref().expect("a number in a table is that of a filled slot")
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = &Object> {
        self.slots.iter().flatten().map(|slot| &slot.object)
    }

    pub(crate) fn of<'a>(&'a self, set: Option<&'a SlotSet>) -> impl Iterator<Item = &'a Object> {
        set.into_iter().flatten().map(|&id| self.object(id))
    }

    pub(crate) fn namespace(&self, namespace: &str) -> Option<&SlotSet> {
        self.namespaces.as_ref()?.get(namespace)
    }

    pub(crate) fn namespaces(&self) -> Option<impl Iterator<Item = &Arc<str>>> {
        self.namespaces.as_ref().map(HashMap::keys)
    }

    pub(crate) fn index(&self, name: &str) -> Option<&Index> {
        self.indexes.iter().find(|index| *index.name == *name)
    }

    pub(crate) fn indexes(&self) -> &[Index] {
        &self.indexes
    }

    // Writing.

    /// Applies one delta and hands on what it changed.
    pub(crate) fn apply(&mut self, delta: Delta, changed: &mut impl FnMut(Change)) {
        match delta {
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) => {
                self.set(object, changed);
            }
            Delta::Deleted(object) => {
                if self.remove(object.key()).is_some() {
                    let key = object.key().clone();
                    changed(Change::Deleted { key, object: Some(object), final_state_unknown: false });
                }
            }
            Delta::DeletedFinalStateUnknown { key, object } => {
                if let Some(held) = self.remove(&key) {
                    let object = object.or(Some(held));
                    changed(Change::Deleted { key, object, final_state_unknown: true });
                }
            }
            Delta::Sync(key) => {
                if let Some(object) = self.get(key.as_str()) {
                    changed(Change::Updated { old: object.clone(), new: object.clone() });
                }
            }
        }
    }

    /// Makes the store equal to a list: first what is gone, then the list in its order. Objects whose version did not
    /// change stay the ones held; `unchanged` tells whether they are handed on as updates.
    pub(crate) fn replace(&mut self, list: Vec<Object>, unchanged: bool, changed: &mut impl FnMut(Change)) {
        let mut kept = vec![false; self.slots.len()];
        for object in &list {
            if let Some(id) = self.find(object.key().as_str()) {
                kept[id as usize] = true;
            }
        }
        for (id, kept) in kept.iter().enumerate() {
            let gone =
                if *kept { None } else { self.slots[id].as_ref().map(|slot| slot.object.key().clone()) };
            if let Some(key) = gone {
                let object = self.remove(&key);
                changed(Change::Deleted { key, object, final_state_unknown: true });
            }
        }
        for object in list {
            match self.get(object.key().as_str()) {
                Some(held) if same_version(held, &object) => {
                    if unchanged {
                        changed(Change::Updated { old: held.clone(), new: held.clone() });
                    }
                }
                _ => self.set(object, changed),
            }
        }
    }

    /// Stores an object. Another UID under the same key is the death of one object and the birth of another.
    fn set(&mut self, object: Object, changed: &mut impl FnMut(Change)) {
        let key = object.key().clone();
        match self.put(object.clone()) {
            None => changed(Change::Added(object)),
            Some(old) if old.uid() == object.uid() => changed(Change::Updated { old, new: object }),
            Some(old) => {
                changed(Change::Deleted { key, object: Some(old), final_state_unknown: true });
                changed(Change::Added(object));
            }
        }
    }

    fn put(&mut self, object: Object) -> Option<Object> {
        let postings = self.postings(&object);
        match self.find(object.key().as_str()) {
            Some(id) => {
                let slot =
                    self.slots[id as usize].as_mut().expect("a number in `by_key` is that of a filled slot");
                let old_object = std::mem::replace(&mut slot.object, object);
                if slot.postings != postings {
                    let old = std::mem::replace(&mut slot.postings, postings.clone());
                    for posting in old.iter().filter(|p| !postings.contains(p)) {
                        self.unpost(posting, id);
                    }
                    for posting in postings.iter().filter(|p| !old.contains(p)) {
                        self.post(posting, id);
                    }
                }
                Some(old_object)
            }
            None => {
                let key = object.key().clone();
                let id = self.free.pop().unwrap_or_else(|| {
                    self.slots.push(None);
                    u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 objects of one kind")
                });
                for posting in &postings {
                    self.post(posting, id);
                }
                if let (Some(namespaces), Some(namespace)) = (&mut self.namespaces, key.namespace()) {
                    // No `entry`: it would copy the name for every object.
                    match namespaces.get_mut(namespace) {
                        Some(set) => _ = set.insert(id),
                        None => _ = namespaces.entry(namespace.into()).or_default().insert(id),
                    }
                }
                self.slots[id as usize] = Some(Slot { object, postings });
                let Self { by_key, slots, hasher, .. } = self;
                by_key.insert_unique(hasher.hash_one(key.as_str()), id, |&id| {
                    let slot = slots[id as usize].as_ref();
                    hasher.hash_one(slot.map_or("", |slot| slot.object.key().as_str()))
                });
                None
            }
        }
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Object> {
        let Self { by_key, slots, hasher, .. } = self;
        let entry = by_key.find_entry(hasher.hash_one(key.as_str()), |&id| {
            slots[id as usize].as_ref().is_some_and(|slot| slot.object.key() == key)
        });
        let id = entry.ok()?.remove().0;
        let slot = self.slots[id as usize].take()?;
        for posting in &slot.postings {
            self.unpost(posting, id);
        }
        if let (Some(namespaces), Some(namespace)) = (&mut self.namespaces, key.namespace()) {
            remove_from(namespaces, namespace, id);
        }
        self.free.push(id);
        Some(slot.object)
    }

    fn postings(&self, object: &Object) -> Box<[Posting]> {
        let of = |index: &Index| {
            let id = index.id;
            index.function.values(object).into_iter().map(move |value| Posting { index: id, value })
        };
        self.indexes.iter().flat_map(of).collect()
    }

    fn post(&mut self, posting: &Posting, id: u32) {
        if let Some(index) = self.indexes.iter_mut().find(|index| index.id == posting.index) {
            index.insert(&posting.value, id);
        }
    }

    fn unpost(&mut self, posting: &Posting, id: u32) {
        if let Some(index) = self.indexes.iter_mut().find(|index| index.id == posting.index) {
            index.remove(&posting.value, id);
        }
    }

    // Adding and removing indexes, in steps short enough for a live store: the `Indexer` takes its lock anew for each.

    /// Registers an index that only writers fill as yet; its number.
    pub(crate) fn start_index(&mut self, name: &str, function: IndexFn) -> u32 {
        let id = self.next_index;
        self.next_index += 1;
        self.indexes.push(Index { id, name: name.into(), function, ready: false, values: Values::default() });
        id
    }

    /// The objects of some slots, for computing index values without the lock; `None` behind the last slot.
    pub(crate) fn slots_from(&self, start: usize, count: usize) -> Option<Vec<(u32, Object)>> {
        let end = self.slots.len().min(start + count);
        let slots = self.slots.get(start..end).filter(|slots| !slots.is_empty())?;
        let numbered = (u32::try_from(start).ok()?..).zip(slots);
        Some(numbered.filter_map(|(id, slot)| Some((id, slot.as_ref()?.object.clone()))).collect())
    }

    /// Enters values computed without the lock, unless the slot has got another object since: then its writer knew of
    /// the index already. Tells whether the index still exists.
    pub(crate) fn fill_index(&mut self, id: u32, computed: Vec<(u32, Object, Vec<Arc<str>>)>) -> bool {
        let Some(index) = self.indexes.iter_mut().find(|index| index.id == id) else { return false };
        for (slot_id, object, values) in computed {
            let Some(slot) = self.slots[slot_id as usize].as_mut() else { continue };
            let posted = slot.postings.iter().any(|posting| posting.index == id);
            if posted || values.is_empty() || !std::ptr::eq(slot.object.bytes(), object.bytes()) {
                continue;
            }
            for value in &values {
                index.insert(value, slot_id);
            }
            let new = values.into_iter().map(|value| Posting { index: id, value });
            slot.postings = slot.postings.iter().cloned().chain(new).collect();
        }
        true
    }

    /// Opens an index to readers.
    pub(crate) fn finish_index(&mut self, id: u32) {
        if let Some(index) = self.indexes.iter_mut().find(|index| index.id == id) {
            index.ready = true;
        }
    }

    /// Takes an index out; its postings stay behind in the slots until they are swept. Its number.
    pub(crate) fn drop_index(&mut self, name: &str) -> Option<(u32, Index)> {
        let at = self.indexes.iter().position(|index| *index.name == *name)?;
        let index = self.indexes.swap_remove(at);
        Some((index.id, index))
    }

    /// Sweeps the postings of a dropped index out of some slots; tells whether there are slots behind them.
    pub(crate) fn sweep_postings(&mut self, id: u32, start: usize, count: usize) -> bool {
        let end = self.slots.len().min(start + count);
        for slot in self.slots.get_mut(start..end).unwrap_or_default().iter_mut().flatten() {
            if slot.postings.iter().any(|posting| posting.index == id) {
                slot.postings = slot.postings.iter().filter(|posting| posting.index != id).cloned().collect();
            }
        }
        end < self.slots.len()
    }

    /// Checks the invariants; for tests.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        assert_eq!(self.by_key.len() + self.free.len(), self.slots.len());
        let mut posted = 0;
        for (id, slot) in self.slots.iter().enumerate() {
            let Some(slot) = slot else { continue };
            let id = u32::try_from(id).unwrap();
            assert_eq!(self.find(slot.object.key().as_str()), Some(id));
            for posting in &slot.postings {
                let index = self.indexes.iter().find(|index| index.id == posting.index).unwrap();
                assert!(index.values[&posting.value].contains(&id));
                posted += 1;
            }
            for index in self.indexes.iter().filter(|index| index.ready) {
                let values = index.function.values(&slot.object);
                let count = slot.postings.iter().filter(|p| p.index == index.id).count();
                assert_eq!(values.len(), count, "{}", slot.object.key());
            }
        }
        let entries: usize =
            self.indexes.iter().flat_map(|index| index.values.values()).map(SlotSet::len).sum();
        assert_eq!(entries, posted);
        assert!(self.indexes.iter().flat_map(|index| index.values.values()).all(|set| !set.is_empty()));
        if let Some(namespaces) = &self.namespaces {
            assert_eq!(namespaces.values().map(SlotSet::len).sum::<usize>(), self.len());
            assert!(namespaces.values().all(|set| !set.is_empty()));
        }
    }
}
