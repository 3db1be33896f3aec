//! [`Families`]: what packed objects of one kind have alike in labels and owners, kept once.
//!
//! The objects of one owner are made from one template: they have its owner references and most labels in common. The
//! first object of an owner founds a [`Family`] of the labels that other objects had before, the second settles it as what
//! the two have in common, and a later one that lacks some of that leaves it out for those to come. Objects without an
//! owner are a family when they have the same labels, counted without those that nobody else has.
//!
//! Invariants: a family never changes, an object keeps the one it got; its labels are a part of the object's, its owner
//! references are the object's. A label gets in at its second sight, so those of single objects are never kept here.
//! Families and labels that no object has any more are dropped when there have come to be twice as many as were in use.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::quality::RandomState;

use crate::dictionary::Codec;

/// What some objects have alike.
pub(crate) struct Family {
    pub(crate) codec: Arc<Codec>,
    /// JSON; empty for none.
    pub(crate) owners: Arc<str>,
    /// Pairs of [`Labels`](crate::labels::Labels).
    pub(crate) labels: Box<[Arc<str>]>,
}

impl Family {
    pub(crate) fn has(&self, pair: &str) -> bool {
        self.labels.iter().any(|known| **known == *pair)
    }

    /// The labels that some object has too.
    fn common<'a>(&'a self, pairs: &'a [&str]) -> impl Iterator<Item = &'a Arc<str>> {
        self.labels.iter().filter(|known| pairs.contains(&known.as_ref()))
    }
}

/// The families of one dictionary.
pub(crate) struct Families {
    /// Of objects that have nothing alike with others.
    none: Arc<Family>,
    known: Mutex<Known>,
}

impl Families {
    pub(crate) fn new(codec: Arc<Codec>) -> Self {
        let none = Arc::new(Family { codec, owners: "".into(), labels: Box::default() });
        Self { none, known: Mutex::default() }
    }

    pub(crate) fn codec(&self) -> &Arc<Codec> {
        &self.none.codec
    }

    /// The family of an object by its key, owner references (JSON, empty for none) and labels (pairs).
    pub(crate) fn of(&self, key: &str, owners: &str, pairs: &[&str]) -> Arc<Family> {
        if owners.is_empty() && pairs.is_empty() {
            return self.none.clone();
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.sweep();
        #[expect(clippy::cast_possible_truncation, reason = "part of a hash")]
        let who = Who(known.hash(key) as u32);
        if owners.is_empty() {
            known.of_alike(who, pairs, &self.none)
        } else {
            known.of_owner(who, owners, pairs, &self.none)
        }
    }
}

/// An object, by a hash: one that changes is packed again, and is not two that have something alike.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Who(u32);

#[derive(Default)]
struct Known {
    hasher: RandomState,
    seen: Doorkeeper,
    pairs: HashSet<Arc<str>, RandomState>,
    /// By the hash of what makes one.
    families: HashMap<u64, Founded, RandomState>,
    /// When this many are known, those that no object has any more are dropped.
    sweep_at: usize,
}

struct Founded {
    family: Arc<Family>,
    /// Who founded it, until a second object has told which labels are common.
    founder: Option<Who>,
}

/// The first sweep; each later one is at twice what the last one left.
const FIRST_SWEEP: usize = 1024;

impl Known {
    fn of_owner(&mut self, who: Who, owners: &str, pairs: &[&str], none: &Family) -> Arc<Family> {
        let at = self.hash(owners);
        let mut labels = Vec::with_capacity(pairs.len());
        let founded = self.families.get(&at).filter(|founded| *founded.family.owners == *owners);
        let founded = founded.map(|founded| (founded.family.clone(), founded.founder));
        let (owners, founder) = match founded {
            Some((family, founder)) if founder != Some(who) => {
                labels.extend(family.common(pairs).cloned());
                if founder.is_none() && labels.len() == family.labels.len() {
                    return family;
                }
                for pair in pairs.iter().filter(|pair| founder.is_some() && !family.has(pair)) {
                    if self.seen.knew(who, self.hash(&(at, pair))) {
                        labels.push(self.kept(pair));
                    }
                }
                (family.owners.clone(), None)
            }
            Some((family, _)) if family.common(pairs).count() == family.labels.len() => return family,
            _ => {
                for pair in pairs {
                    match self.seen_twice(who, pair) {
                        Some(pair) => labels.push(pair),
                        None => _ = self.seen.knew(who, self.hash(&(at, pair))),
                    }
                }
                (owners.into(), Some(who))
            }
        };
        let family = Arc::new(Family { codec: none.codec.clone(), owners, labels: labels.into() });
        self.families.insert(at, Founded { family: family.clone(), founder });
        family
    }

    fn of_alike(&mut self, who: Who, pairs: &[&str], none: &Arc<Family>) -> Arc<Family> {
        let labels: Vec<Arc<str>> = pairs.iter().filter_map(|pair| self.seen_twice(who, pair)).collect();
        let at = self.hash(&labels);
        let founded = self.families.get(&at).map(|founded| &founded.family);
        if let Some(family) = founded.filter(|family| family.owners.is_empty() && *family.labels == *labels) {
            return family.clone();
        }
        let again = !labels.is_empty() && self.seen.knew(who, at);
        // An object may have one for itself, where that is less than its labels.
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
            self.families.insert(at, Founded { family: family.clone(), founder: None });
        }
        family
    }

    /// The one copy of a pair that another object had before this one.
    fn seen_twice(&mut self, who: Who, pair: &str) -> Option<Arc<str>> {
        if let Some(known) = self.pairs.get(pair) {
            return Some(known.clone());
        }
        self.seen.knew(who, self.hash(pair)).then(|| self.kept(pair))
    }

    /// The one copy of a pair.
    fn kept(&mut self, pair: &str) -> Arc<str> {
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
        self.families.retain(|_, founded| Arc::strong_count(&founded.family) > 1);
        self.pairs.retain(|pair| Arc::strong_count(pair) > 1);
        self.sweep_at = (self.families.len() + self.pairs.len()) * 2;
    }
}

/// Tells whether another object had a hash before, as far back as its memory reaches: each place of a table has what
/// was seen there last, and with whom.
#[derive(Default)]
struct Doorkeeper(Vec<(u32, Who)>);

impl Doorkeeper {
    /// 64 KB. The objects of a list come in the order of their names, so that those alike are near each other.
    const PLACES: usize = 8 << 10;

    /// Whether the hash was seen with somebody else than `who`; from now on it was seen with `who`.
    #[expect(clippy::cast_possible_truncation, reason = "parts of a hash")]
    fn knew(&mut self, who: Who, hash: u64) -> bool {
        if self.0.is_empty() {
            self.0 = vec![(0, Who::default()); Self::PLACES];
        }
        // Not that of an empty place.
        let print = (hash >> 32) as u32 | 1;
        let last = std::mem::replace(&mut self.0[hash as usize % Self::PLACES], (print, who));
        last.0 == print && last.1 != who
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
        Families::new(dictionary.codec().clone())
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
        // Seen; known, but nobody has both; a family.
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

    /// It is packed anew each time.
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
        let [a, b] = [1, 2].map(Who);
        assert!(!door.knew(a, 0) && !door.knew(a, 0) && door.knew(b, 0) && door.knew(a, 0));
        let same_place = 1 << 40;
        assert!(!door.knew(b, same_place) && !door.knew(b, 0) && door.knew(a, 0));
    }
}
