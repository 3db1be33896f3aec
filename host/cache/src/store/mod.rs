//! [`Store`]: the objects and all their index entries as one value; a copy is a snapshot and costs a few reference
//! counts. No lock: the `Indexer` publishes whole stores.
//!
//! Objects live in numbered slots; the key table and every index hold slot numbers only. Invariants:
//! - a slot's postings are exactly the sets of `indexes` that hold its number (of indexes that are gone, none, once
//!   they are swept; of one that is being built, the writers' part at least);
//! - no value stands in an index without a slot.

mod array;
mod index;
mod keyed;
mod slot_set;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;
use pilothouse_object::{Held, Object, ObjectKey};

use crate::change::Change;
use crate::delta::Delta;
use crate::distinct_values::MOST_SCANNED;
use crate::index_fn::IndexFn;
pub(crate) use index::{Index, Values};
use keyed::{HasKey, Keyed};
pub(crate) use slot_set::SlotSet;

/// Holds objects by key and by index value.
#[derive(Clone)]
pub(crate) struct Store {
    objects: Keyed<Slot>,
    /// By namespace; `None` for cluster-scoped kinds.
    namespaces: Option<Values>,
    indexes: Vec<Index>,
    next_index: u32,
    /// Changes with `indexes`; no two stores that have others have the same.
    index_set: u64,
}

/// The index values of an object, as a note of its handle: computed while it was plain, so that a store that takes it packed
/// need not unpack it.
struct Computed {
    /// For which indexes.
    index_set: u64,
    values: Vec<IndexValues>,
}

/// Values in one index: its place among the indexes, and the values in their order.
type IndexValues = (usize, Vec<Arc<str>>);

fn new_index_set() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

#[derive(Clone)]
struct Slot {
    held: Held,
    postings: Postings,
}

impl HasKey for Slot {
    fn key(&self) -> &str {
        self.held.key().as_str()
    }
}

/// The index values of a slot. Most have none or one: that costs no allocation.
#[derive(Clone, PartialEq, Eq)]
enum Postings {
    None,
    One(Posting),
    Many(Arc<[Posting]>),
}

/// One value under which a slot stands in one index, both by number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Posting {
    index: u32,
    value: u32,
}

impl Postings {
    fn as_slice(&self) -> &[Posting] {
        match self {
            Self::None => &[],
            Self::One(posting) => std::slice::from_ref(posting),
            Self::Many(postings) => postings,
        }
    }
}

impl Postings {
    /// Those that are not among others.
    fn without(&self, others: &Self) -> impl Iterator<Item = Posting> {
        let others = others.as_slice();
        let set: HashSet<Posting, RandomState> =
            if others.len() > MOST_SCANNED { others.iter().copied().collect() } else { HashSet::default() };
        let is_among = move |posting: &Posting| match set.is_empty() {
            true => others.contains(posting),
            false => set.contains(posting),
        };
        self.as_slice().iter().copied().filter(move |posting| !is_among(posting))
    }
}

impl FromIterator<Posting> for Postings {
    fn from_iter<I: IntoIterator<Item = Posting>>(postings: I) -> Self {
        let mut postings = postings.into_iter();
        match (postings.next(), postings.next()) {
            (None, _) => Self::None,
            (Some(one), None) => Self::One(one),
            (Some(first), Some(second)) => Self::Many([first, second].into_iter().chain(postings).collect()),
        }
    }
}

/// Tables with fewer slots are small enough to stay: 1,024 empty ones take some tens of kilobytes.
const SMALLEST_SHRUNK: u32 = 1024;

/// What a list did to one key.
pub(crate) enum Replaced {
    /// The slot was filled.
    Added(u32),
    /// The slot holds another version of the object.
    Updated { old: Held, slot: u32 },
    /// The slot holds what it held.
    Unchanged(u32),
    /// The key is gone, or its object is another one now.
    Deleted(Held),
}

impl Store {
    pub(crate) fn new(namespaced: bool) -> Self {
        Self {
            objects: Keyed::default(),
            namespaces: namespaced.then(Values::default),
            indexes: Vec::new(),
            next_index: 0,
            index_set: new_index_set(),
        }
    }

    /// How many indexes there are, the one of namespaces not counted.
    pub(crate) fn index_count(&self) -> usize {
        self.indexes.len()
    }

    // Reading.

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// One above the highest slot number.
    pub(crate) fn end(&self) -> u32 {
        self.objects.end()
    }

    pub(crate) fn find(&self, key: &str) -> Option<u32> {
        self.objects.find(key)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Held> {
        self.slot(self.find(key)?)
    }

    /// The object in a slot.
    pub(crate) fn slot(&self, slot: u32) -> Option<&Held> {
        Some(&self.objects.get(slot)?.held)
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = &Held> {
        self.objects.iter().map(|(_, slot)| &slot.held)
    }

    pub(crate) fn of<'a>(&'a self, set: Option<&'a SlotSet>) -> impl Iterator<Item = &'a Held> {
        set.into_iter().flat_map(SlotSet::iter).filter_map(|slot| self.slot(slot))
    }

    pub(crate) fn namespaces(&self) -> Option<&Values> {
        self.namespaces.as_ref()
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
                let (_, old) = self.put(&object);
                match old {
                    None => changed(Change::Added(object)),
                    Some(old) if old.uid() == object.uid() => {
                        changed(Change::Updated { old: old.object(), new: object });
                    }
                    // The death of one object and the birth of another.
                    Some(old) => {
                        let (key, old) = (old.key().clone(), old.object());
                        changed(Change::Deleted { key, object: Some(old), final_state_unknown: true });
                        changed(Change::Added(object));
                    }
                }
            }
            Delta::Deleted(object) => {
                if self.remove(object.key()).is_some() {
                    let key = object.key().clone();
                    changed(Change::Deleted { key, object: Some(object), final_state_unknown: false });
                }
            }
            Delta::DeletedFinalStateUnknown { key, object } => {
                if let Some(held) = self.remove(&key) {
                    let object = object.or_else(|| Some(held.object()));
                    changed(Change::Deleted { key, object, final_state_unknown: true });
                }
            }
            Delta::Sync(key) => {
                if let Some(slot) = self.find(key.as_str())
                    && let Some(held) = self.slot(slot)
                {
                    let object = held.object();
                    changed(Change::Updated { old: object.clone(), new: object });
                }
            }
        }
    }

    /// The slots that hold some keys, a bit for each.
    pub(crate) fn slots_of<'a>(&self, keys: impl Iterator<Item = &'a ObjectKey>) -> Vec<u64> {
        let mut slots = vec![0; (self.end() as usize).div_ceil(64)];
        for slot in keys.filter_map(|key| self.find(key.as_str())) {
            slots[slot as usize / 64] |= 1 << (slot % 64);
        }
        slots
    }

    /// Makes the store equal to a list and hands on what it did, in the order that listeners are told: first what is
    /// gone, then the list in its order. Objects whose version did not change stay the ones held. `kept`: the
    /// [`slots_of`](Self::slots_of) the list's keys.
    pub(crate) fn replace(
        &mut self,
        list: impl IntoIterator<Item = Object>,
        kept: &[u64],
        did: &mut impl FnMut(Replaced),
    ) {
        for slot in 0..self.end() {
            if kept[slot as usize / 64] >> (slot % 64) & 1 == 0
                && let Some(key) = self.slot(slot).map(|held| held.key().clone())
                && let Some(held) = self.remove(&key)
            {
                did(Replaced::Deleted(held));
            }
        }
        self.shrink();
        for object in list {
            let known = self.find(object.key().as_str());
            if let Some(slot) = known
                && self.slot(slot).is_some_and(|known| same_version(known, object.held()))
            {
                did(Replaced::Unchanged(slot));
                continue;
            }
            let (slot, old) = self.put(&object);
            match old {
                None => did(Replaced::Added(slot)),
                Some(old) if old.uid() == object.uid() => did(Replaced::Updated { old, slot }),
                Some(old) => {
                    did(Replaced::Deleted(old));
                    did(Replaced::Added(slot));
                }
            }
        }
    }

    /// Rebuilds the tables when at most a quarter of the slots is in use: they never shrink by themselves. Slots get other
    /// numbers. Not while an index is being built, which goes by them.
    pub(crate) fn shrink(&mut self) {
        let sparse = self.end() >= SMALLEST_SHRUNK && self.len() <= self.end() as usize / 4;
        if !sparse || !self.indexes.iter().all(|index| index.ready) {
            return;
        }
        let former = std::mem::take(&mut self.objects);
        let values: Vec<Values> =
            self.indexes.iter_mut().map(|index| std::mem::take(&mut index.values)).collect();
        self.namespaces = self.namespaces.is_some().then(Values::default);
        for (_, slot) in former.iter() {
            let held = slot.held.clone();
            let id = self.objects.insert(Slot { held: held.clone(), postings: Postings::None });
            if let (Some(namespaces), Some(namespace)) = (&mut self.namespaces, held.key().namespace()) {
                namespaces.insert(namespace, id);
            }
            // Those of an index that was dropped and not swept yet go with the former slot.
            let of_indexes = slot.postings.as_slice().iter().filter_map(|posting| {
                let at = self.indexes.iter().position(|index| index.id == posting.index)?;
                Some((at, values[at].name(posting.value)?.clone()))
            });
            let of_indexes: Vec<_> = of_indexes.collect();
            let postings = self.post(of_indexes.into_iter(), id);
            if let Some(slot) = self.objects.get_mut(id) {
                slot.postings = postings;
            }
        }
    }

    /// Takes over the handles of the same objects of another store, so that both keep one copy.
    pub(crate) fn share(&mut self, objects: &[Object]) {
        for object in objects {
            if let Some(slot) = self.find(object.key().as_str())
                && self
                    .slot(slot)
                    .is_some_and(|held| !held.is_same(object.held()) && same_version(held, object.held()))
            {
                self.swap(slot, object.held().clone());
            }
        }
    }

    /// Puts another form of the object that a slot holds in its place.
    pub(crate) fn swap(&mut self, slot: u32, held: Held) {
        if let Some(slot) = self.objects.get_mut(slot) {
            slot.held = held;
        }
    }

    /// Stores an object; its slot, and what that held before.
    fn put(&mut self, object: &Object) -> (u32, Option<Held>) {
        let held = object.held().clone();
        if let Some(id) = self.objects.find(held.key().as_str()) {
            let changed = self.changed_values(self.objects.get(id), object);
            let postings = (!changed.is_empty()).then(|| self.repost(id, changed));
            let slot = self.objects.get_mut(id).expect("it was found");
            if let Some(postings) = postings {
                slot.postings = postings;
            }
            return (id, Some(std::mem::replace(&mut slot.held, held)));
        }
        let values = self.changed_values(None, object);
        let key = held.key().clone();
        let id = self.objects.insert(Slot { held, postings: Postings::None });
        if !values.is_empty() {
            let postings = self.post(flat(values), id);
            if let Some(slot) = self.objects.get_mut(id) {
                slot.postings = postings;
            }
        }
        if let (Some(namespaces), Some(namespace)) = (&mut self.namespaces, key.namespace()) {
            namespaces.insert(namespace, id);
        }
        (id, None)
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Held> {
        let (id, slot) = self.objects.remove(key.as_str())?;
        for posting in slot.postings.as_slice() {
            self.unpost(*posting, id);
        }
        if let (Some(namespaces), Some(namespace)) = (&mut self.namespaces, key.namespace()) {
            namespaces.remove_by_name(namespace, id);
        }
        Some(slot.held)
    }

    /// The values of an object in the indexes in which they are not those of the slot that it is for.
    fn changed_values(&self, slot: Option<&Slot>, object: &Object) -> Vec<IndexValues> {
        if self.indexes.is_empty() {
            return Vec::new();
        }
        let computed = object.note::<Computed>().filter(|note| note.index_set == self.index_set);
        // What a function unpacks is not to stay with the handle, which goes on to listeners.
        let fresh = object.fresh();
        let postings = slot.map_or(&[][..], |slot| slot.postings.as_slice());
        let changed = |(at, index): (usize, &Index)| {
            // In an index that is being built the slot may have no values yet: it gets them from the store as it is then.
            if slot.is_some_and(|slot| index.function.reads_same(&slot.held, object.held())) {
                return None;
            }
            let of_index = postings.iter().filter(|posting| posting.index == index.id);
            let held = of_index.filter_map(|posting| index.values.name(posting.value));
            let values = match computed {
                Some(computed) => {
                    let values = computed.values.iter().find(|(of, _)| *of == at);
                    let values = values.map_or(&[][..], |(_, values)| values.as_slice());
                    (!held.eq(values)).then(|| values.to_vec())
                }
                None => index.function.changed_values(&fresh, held),
            };
            values.map(|values| (at, values))
        };
        self.indexes.iter().enumerate().filter_map(changed).collect()
    }

    /// Computes the index values of an object that is still plain, and notes them with the packed form of it.
    pub(crate) fn note_values(&self, plain: &Object, packed: &Object) {
        if !self.indexes.is_empty() {
            let values = self.changed_values(None, plain);
            packed.set_note(Computed { index_set: self.index_set, values });
        }
    }

    /// Enters a slot under the changed values of some indexes, and takes it out of what it had there; its postings then.
    fn repost(&mut self, id: u32, changed: Vec<IndexValues>) -> Postings {
        let old = self.objects.get(id).map_or(Postings::None, |slot| slot.postings.clone());
        let indexes: Vec<u32> = changed.iter().map(|(at, _)| self.indexes[*at].id).collect();
        let kept = old.as_slice().iter().copied().filter(|posting| !indexes.contains(&posting.index));
        let posted = self.post(flat(changed), id);
        let new: Postings = kept.chain(posted.as_slice().iter().copied()).collect();
        old.without(&new).for_each(|posting| self.unpost(posting, id));
        new
    }

    fn post(&mut self, values: impl Iterator<Item = (usize, Arc<str>)>, slot: u32) -> Postings {
        let post = |(at, value): (usize, Arc<str>)| {
            let index: &mut Index = &mut self.indexes[at];
            Posting { index: index.id, value: index.values.insert(value, slot) }
        };
        values.map(post).collect()
    }

    fn unpost(&mut self, posting: Posting, slot: u32) {
        if let Some(index) = self.indexes.iter_mut().find(|index| index.id == posting.index) {
            index.values.remove(posting.value, slot);
        }
    }

    // Adding and removing indexes, in steps short enough for a live store: the `Indexer` publishes each.

    /// Registers an index that only writers fill as yet; its number.
    pub(crate) fn start_index(&mut self, name: &str, function: IndexFn) -> u32 {
        let id = self.next_index;
        self.next_index += 1;
        self.index_set = new_index_set();
        self.indexes.push(Index { id, name: name.into(), function, ready: false, values: Values::default() });
        id
    }

    /// Enters values computed beside the writers, unless the slot has got another object since: then its writer knew of
    /// the index already. Tells whether the index still exists.
    pub(crate) fn fill_index(&mut self, id: u32, computed: Vec<(u32, Held, Vec<Arc<str>>)>) -> bool {
        let Some(at) = self.indexes.iter().position(|index| index.id == id) else { return false };
        for (slot_id, held, values) in computed {
            let Some(slot) = self.objects.get(slot_id) else { continue };
            let old = slot.postings.as_slice();
            let posted = old.iter().any(|posting| posting.index == id);
            if posted {
                continue;
            }
            let values = if slot.held.is_same(&held) {
                values
            } else {
                // Another object, or the same in another form.
                self.indexes[at].function.values(&slot.held.object())
            };
            if values.is_empty() {
                continue;
            }
            let old = slot.postings.clone();
            let new = self.post(values.into_iter().map(|value| (at, value)), slot_id);
            if let Some(slot) = self.objects.get_mut(slot_id) {
                slot.postings = old.as_slice().iter().chain(new.as_slice()).copied().collect();
            }
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
    pub(crate) fn drop_index(&mut self, name: &str) -> Option<u32> {
        let at = self.indexes.iter().position(|index| *index.name == *name)?;
        self.index_set = new_index_set();
        Some(self.indexes.swap_remove(at).id)
    }

    /// Sweeps the postings of a dropped index out of some slots.
    pub(crate) fn sweep_postings(&mut self, id: u32, slots: std::ops::Range<u32>) {
        for slot in slots {
            let stale = |slot: &Slot| slot.postings.as_slice().iter().any(|posting| posting.index == id);
            if self.objects.get(slot).is_some_and(stale)
                && let Some(slot) = self.objects.get_mut(slot)
            {
                let kept = slot.postings.as_slice().iter().copied().filter(|posting| posting.index != id);
                slot.postings = kept.collect();
            }
        }
    }

    /// Checks the invariants; for tests.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        self.objects.check();
        let mut posted = 0;
        for (id, slot) in self.objects.iter() {
            for posting in slot.postings.as_slice() {
                let index = self.indexes.iter().find(|index| index.id == posting.index).unwrap();
                assert!(index.values.contains(posting.value, id));
                posted += 1;
            }
            for index in self.indexes.iter().filter(|index| index.ready) {
                let postings = slot.postings.as_slice().iter().filter(|p| p.index == index.id);
                let held: Vec<_> = postings.filter_map(|p| index.values.name(p.value).cloned()).collect();
                assert_eq!(held, index.function.values(&slot.held.object()), "{}", slot.held.key());
            }
        }
        assert_eq!(self.indexes.iter().map(|index| index.values.entries()).sum::<usize>(), posted);
        if let Some(namespaces) = &self.namespaces {
            assert_eq!(namespaces.entries(), self.len());
        }
    }
}

/// Each value with the place of its index.
fn flat(values: Vec<IndexValues>) -> impl Iterator<Item = (usize, Arc<str>)> {
    values.into_iter().flat_map(|(at, values)| values.into_iter().map(move |value| (at, value)))
}

/// Whether two are the same version of the same object, with the same content, so that either can stand for both. The
/// content is compared since a server that was restored from a backup gives versions out again.
pub(crate) fn same_version(a: &Held, b: &Held) -> bool {
    !a.resource_version().is_empty()
        && a.resource_version() == b.resource_version()
        && a.uid() == b.uid()
        && a.is_partial() == b.is_partial()
        && a.is_same_text(b)
}
