//! [`Families`]: deduplicates the labels and owner references that packed objects of one kind have in common.
//!
//! The objects of one owner are created from one template, so they share the owner references and most labels. A
//! [`Family`] stores these once:
//!
//! - The first object of an owner creates a family with those of its labels that other objects had before.
//! - The second object replaces that family by one with the labels that both have.
//! - A later object that lacks some of these labels replaces it by a smaller one.
//! - Objects without an owner share a family when they have the same labels, not counting labels that only one object
//!   has.
//!
//! Invariants: a family is immutable, and an object keeps the family that it was packed with; the labels of a family
//! are a subset of the object's labels, its owner references equal the object's. A label enters a family only after a
//! second object had it, so labels of single objects are never stored here. A sweep drops families and labels that no
//! object uses; it runs when their number has doubled since the last sweep.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::quality::{RandomState, SeedableRandomState};

use crate::dictionary::Codec;

/// The owner references and labels that some objects have in common.
pub(crate) struct Family {
    pub(crate) codec: Arc<Codec>,
    /// The owner references as JSON; empty for none.
    pub(crate) owners: Arc<str>,
    /// The common labels, as pairs of [`Labels`](crate::labels::Labels).
    pub(crate) labels: Box<[Arc<str>]>,
}

impl Family {
    pub(crate) fn has(&self, pair: &str) -> bool {
        self.labels.iter().any(|known| **known == *pair)
    }

    /// The labels that are also in `pairs`.
    fn common<'a>(&'a self, pairs: &'a [&str]) -> impl Iterator<Item = &'a Arc<str>> {
        self.labels.iter().filter(|known| pairs.contains(&known.as_ref()))
    }
}

/// The families of one dictionary.
pub(crate) struct Families {
    /// The family of objects that have nothing in common with others.
    none: Arc<Family>,
    known: Mutex<FamilyTable>,
}

impl Families {
    pub(crate) fn new(codec: Arc<Codec>) -> Self {
        let none = Arc::new(Family { codec, owners: "".into(), labels: Box::default() });
        Self { none, known: Mutex::default() }
    }

    pub(crate) fn codec(&self) -> &Arc<Codec> {
        &self.none.codec
    }

    /// The family for an object with this key, these owner references (JSON, empty for none) and these labels (pairs).
    /// Creates or replaces a family where the rules above require it.
    pub(crate) fn of(&self, key: &str, owners: &str, pairs: &[&str]) -> Arc<Family> {
        if owners.is_empty() && pairs.is_empty() {
            return self.none.clone();
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.sweep();
        #[expect(clippy::cast_possible_truncation, reason = "part of a hash")]
        let object = ObjectHash(known.hash(key) as u32);
        if owners.is_empty() {
            known.of_labels(object, pairs, &self.none)
        } else {
            known.of_owner(object, owners, pairs, &self.none)
        }
    }
}

/// The hash of an object's key. It tells two objects with the same label from one object that is packed again after a
/// change.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct ObjectHash(u32);

#[derive(Default)]
struct FamilyTable {
    hasher: SeedableRandomState,
    seen: Doorkeeper,
    pairs: HashSet<Arc<str>, RandomState>,
    /// By the hash of the owner references; without an owner, by the hash of the labels.
    families: HashMap<u64, FamilyEntry, RandomState>,
    /// Number of families and pairs at which the next sweep runs.
    sweep_at: usize,
}

struct FamilyEntry {
    family: Arc<Family>,
    /// The first object of the family, until a second object has determined the common labels.
    founder: Option<ObjectHash>,
}

/// Number of families and pairs at which the first sweep runs. Each later sweep runs at twice the number that the last
/// one left.
const FIRST_SWEEP: usize = 1024;

impl FamilyTable {
    fn of_owner(&mut self, object: ObjectHash, owners: &str, pairs: &[&str], none: &Family) -> Arc<Family> {
        let at = self.hash(owners);
        let mut labels = Vec::with_capacity(pairs.len());
        let entry = self.families.get(&at).filter(|entry| *entry.family.owners == *owners);
        let entry = entry.map(|entry| (entry.family.clone(), entry.founder));
        let (owners, founder) = match entry {
            Some((family, founder)) if founder != Some(object) => {
                labels.extend(family.common(pairs).cloned());
                if founder.is_none() && labels.len() == family.labels.len() {
                    return family;
                }
                for pair in pairs.iter().filter(|pair| founder.is_some() && !family.has(pair)) {
                    if self.seen.seen_by_another(object, self.hash(&(at, pair))) {
                        labels.push(self.shared(pair));
                    }
                }
                (family.owners.clone(), None)
            }
            Some((family, _)) if family.common(pairs).count() == family.labels.len() => return family,
            _ => {
                for pair in pairs {
                    match self.seen_twice(object, pair) {
                        Some(pair) => labels.push(pair),
                        None => _ = self.seen.seen_by_another(object, self.hash(&(at, pair))),
                    }
                }
                (owners.into(), Some(object))
            }
        };
        let family = Arc::new(Family { codec: none.codec.clone(), owners, labels: labels.into() });
        self.families.insert(at, FamilyEntry { family: family.clone(), founder });
        family
    }

    fn of_labels(&mut self, object: ObjectHash, pairs: &[&str], none: &Arc<Family>) -> Arc<Family> {
        let labels: Vec<Arc<str>> = pairs.iter().filter_map(|pair| self.seen_twice(object, pair)).collect();
        let at = self.hash(&labels);
        let entry = self.families.get(&at).map(|entry| &entry.family);
        if let Some(family) = entry.filter(|family| family.owners.is_empty() && *family.labels == *labels) {
            return family.clone();
        }
        let again = !labels.is_empty() && self.seen.seen_by_another(object, at);
        // A family for one object is worthwhile when it takes less memory than the labels that it replaces.
        let text: usize = labels.iter().map(|pair| pair.len()).sum();
        if !again && text < size_of::<Family>() + 2 * size_of::<usize>() + size_of_val(&*labels) {
            return none.clone();
        }
        let family = Arc::new(Family {
            codec: none.codec.clone(),
            owners: none.owners.clone(),
            labels: labels.into(),
        });
        if again {
            self.families.insert(at, FamilyEntry { family: family.clone(), founder: None });
        }
        family
    }

    /// The shared copy of a pair, if another object had the pair before.
    fn seen_twice(&mut self, object: ObjectHash, pair: &str) -> Option<Arc<str>> {
        if let Some(known) = self.pairs.get(pair) {
            return Some(known.clone());
        }
        self.seen.seen_by_another(object, self.hash(pair)).then(|| self.shared(pair))
    }

    /// The shared copy of a pair, made if necessary.
    fn shared(&mut self, pair: &str) -> Arc<str> {
        if let Some(known) = self.pairs.get(pair) {
            return known.clone();
        }
        let kept: Arc<str> = pair.into();
        self.pairs.insert(kept.clone());
        kept
    }

    fn hash(&self, of: &(impl Hash + ?Sized)) -> u64 {
        self.hasher.hash_one(of)
    }

    fn sweep(&mut self) {
        if self.families.len() + self.pairs.len() < self.sweep_at.max(FIRST_SWEEP) {
            return;
        }
        self.families.retain(|_, entry| Arc::strong_count(&entry.family) > 1);
        self.pairs.retain(|pair| Arc::strong_count(pair) > 1);
        self.sweep_at = (self.families.len() + self.pairs.len()) * 2;
    }
}

/// Detects the second object with a hash, with bounded memory: each slot of a table stores the last hash that fell
/// there and the object that had it. A later hash in the same slot overwrites the earlier one, so a repetition can be
/// missed.
#[derive(Default)]
struct Doorkeeper(Vec<(u32, ObjectHash)>);

impl Doorkeeper {
    /// Number of slots: 64 KB. The objects of a list are sorted by name, so similar objects follow each other closely.
    const PLACES: usize = 8 << 10;

    /// Whether the hash was last seen with another object than `object`. Records it for `object`.
    #[expect(clippy::cast_possible_truncation, reason = "parts of a hash")]
    fn seen_by_another(&mut self, object: ObjectHash, hash: u64) -> bool {
        if self.0.is_empty() {
            self.0 = vec![(0, ObjectHash::default()); Self::PLACES];
        }
        // The lowest bit is set, so that no fingerprint equals that of an empty slot.
        let print = (hash >> 32) as u32 | 1;
        let last = std::mem::replace(&mut self.0[hash as usize % Self::PLACES], (print, object));
        last.0 == print && last.1 != object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn families() -> Families {
        let object =
            |n| format!(r#"{{"apiVersion":"v1","kind":"A","metadata":{{"name":"n{n}"}},"a":"{n}"}}"#);
        let samples: Vec<_> =
            (0..128).map(|n| crate::Object::decode(object(n).as_bytes()).unwrap()).collect();
        let dictionary = crate::Dictionary::train(&samples).unwrap();
        let families = Families::new(dictionary.codec().clone());
        // The doorkeeper may miss a repetition, with other hashes at other times.
        families.known.lock().unwrap().hasher = SeedableRandomState::fixed();
        families
    }

    fn labels(family: &Family) -> Vec<&str> {
        let mut labels: Vec<&str> = family.labels.iter().map(AsRef::as_ref).collect();
        labels.sort_unstable();
        labels
    }

    #[test]
    fn a_label_of_one_object_is_not_kept_here() {
        let families = families();
        for n in 0..100 {
            let family = families.of(&n.to_string(), "owner", &["a", &format!("b{n}")]);
            assert!(!family.has(&format!("b{n}")));
        }
        let known = families.known.lock().unwrap();
        assert_eq!((known.families.len(), known.pairs.len()), (1, 1));
    }

    #[test]
    fn an_owner_has_the_labels_that_all_its_objects_have() {
        let families = families();
        let first = families.of("1", "owner", &["a", "b", "c"]);
        assert_eq!(labels(&first), [""; 0]);
        assert_eq!(labels(&families.of("2", "owner", &["a", "b", "d"])), ["a", "b"]);
        assert_eq!(labels(&families.of("3", "owner", &["b", "d", "c"])), ["b"]);
        let now = families.of("4", "owner", &["a", "b", "c"]);
        assert_eq!(labels(&now), ["b"]);
        assert!(Arc::ptr_eq(&now, &families.of("5", "owner", &["b"])));
        assert!(Arc::ptr_eq(&first.owners, &now.owners) && !Arc::ptr_eq(&first, &now));
        assert_eq!(&*families.of("6", "other", &["b"]).owners, "other");
    }

    #[test]
    fn objects_without_an_owner_are_a_family_by_the_labels_that_others_have_too() {
        let families = families();
        let of = |n: u32| families.of(&n.to_string(), "", &["a", "b", &format!("own {n}")]);
        // The labels are recorded; then they are known, but not as a set; then the set is a family.
        assert!(labels(&of(0)).is_empty() && labels(&of(1)).is_empty());
        let family = of(2);
        assert_eq!(labels(&family), ["a", "b"]);
        assert!(Arc::ptr_eq(&family, &of(3)));
        assert!(Arc::ptr_eq(&family, &of(0)) && Arc::ptr_eq(&family, &families.of("x", "", &["a", "b"])));
        assert!(Arc::ptr_eq(&families.none, &families.of("x", "", &[])));
    }

    #[test]
    fn labels_that_are_never_alike_as_a_whole_are_shared_one_by_one_where_that_is_less() {
        let families = families();
        let pairs: Vec<String> = (0..8).map(|n| format!("{n}{}", "x".repeat(60))).collect();
        let some = |bits: u32| {
            let pairs: Vec<&str> = (0..8).filter(|n| bits >> n & 1 == 1).map(|n| pairs[n].as_str()).collect();
            families.of(&bits.to_string(), "", &pairs)
        };
        some(0xff);
        let [a, b] = [some(0x7f), some(0xfe)];
        assert_eq!((a.labels.len(), b.labels.len()), (7, 7));
        assert!(Arc::ptr_eq(&a.labels[1], &b.labels[0]));
        assert!(families.known.lock().unwrap().families.is_empty());
    }

    #[test]
    fn what_no_object_has_any_more_is_dropped() {
        let families = families();
        families.of("1", "kept", &["a", "b"]);
        let kept = families.of("2", "kept", &["a", "b"]);
        for n in 0..5000 {
            let (owner, pair) = (format!("gone {}", n / 2), format!("pair {}", n / 2));
            families.of(&n.to_string(), &owner, &[&pair]);
        }
        let known = families.known.lock().unwrap();
        assert!(known.families.len() + known.pairs.len() <= FIRST_SWEEP + 2);
        drop(known);
        assert_eq!(labels(&kept), ["a", "b"]);
        assert!(Arc::ptr_eq(&kept, &families.of("3", "kept", &["a", "b"])));
    }

    /// The object is packed again after each change.
    #[test]
    fn an_object_that_changes_is_not_two_that_have_something_alike() {
        let families = families();
        for _ in 0..5 {
            assert_eq!(labels(&families.of("1", "owner", &["a", "own"])), [""; 0]);
            assert!(Arc::ptr_eq(&families.none, &families.of("2", "", &["x", "own too"])));
        }
        assert!(families.known.lock().unwrap().pairs.is_empty());
        assert_eq!(labels(&families.of("3", "owner", &["a", "other"])), ["a"]);
    }

    #[test]
    fn the_doorkeeper_knows_what_it_saw_last() {
        let mut door = Doorkeeper::default();
        let [a, b] = [1, 2].map(ObjectHash);
        assert!(
            !door.seen_by_another(a, 0)
                && !door.seen_by_another(a, 0)
                && door.seen_by_another(b, 0)
                && door.seen_by_another(a, 0)
        );
        let same_place = 1 << 40;
        assert!(
            !door.seen_by_another(b, same_place) && !door.seen_by_another(b, 0) && door.seen_by_another(a, 0)
        );
    }
}
