//! [`Families`]: what packed objects of one kind have alike in labels and owners, kept once.
//!
//! The objects of one owner are made from one template: they have its owner references and most labels in common. The
//! first object of an owner founds a [`Family`] of the labels that other objects had before, the second settles it as what
//! the two have in common, and a later one that lacks some of that leaves it out for those to come. Objects without an
//! owner are a family when they have the same labels, counted without those that nobody else has.
//!
//! Invariants: a family never changes, an object keeps the one it got; its labels are a part of the object's, its owner
//! references are the object's. A label gets in at its second sight, so those of single objects are never kept here.
//! Families and labels that no object has any more are dropped.

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

    /// The family of an object by its owner references (JSON, empty for none) and labels (pairs).
    pub(crate) fn of(&self, owners: &str, pairs: &[&str]) -> Arc<Family> {
        if owners.is_empty() && pairs.is_empty() {
            return self.none.clone();
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.sweep();
        if owners.is_empty() { known.of_alike(pairs, &self.none) } else { known.of_owner(owners, pairs, &self.none) }
    }
}

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
    /// Whether a second object has told which labels are common.
    settled: bool,
}

/// The first sweep; each later one is at twice what the last one left.
const FIRST_SWEEP: usize = 1024;

impl Known {
    fn of_owner(&mut self, owners: &str, pairs: &[&str], none: &Family) -> Arc<Family> {
        let at = self.hash(owners);
        let mut labels = Vec::with_capacity(pairs.len());
        let founded = self.families.get(&at).filter(|founded| *founded.family.owners == *owners);
        let (owners, settled) = if let Some(founded) = founded {
            let (family, settled) = (founded.family.clone(), founded.settled);
            labels.extend(family.common(pairs).cloned());
            if settled && labels.len() == family.labels.len() {
                return family;
            }
            for pair in pairs.iter().filter(|pair| !settled && !family.has(pair)) {
                let hash = self.hash(&(at, pair));
                if self.seen.knew(hash) {
                    labels.push(self.kept(pair));
                }
            }
            (family.owners.clone(), true)
        } else {
            for pair in pairs {
                match self.seen_twice(pair) {
                    Some(pair) => labels.push(pair),
                    None => _ = self.seen.knew(self.hash(&(at, pair))),
                }
            }
            (owners.into(), false)
        };
        let family = Arc::new(Family { codec: none.codec.clone(), owners, labels: labels.into() });
        self.families.insert(at, Founded { family: family.clone(), settled });
        family
    }

    fn of_alike(&mut self, pairs: &[&str], none: &Arc<Family>) -> Arc<Family> {
        let labels: Vec<Arc<str>> = pairs.iter().filter_map(|pair| self.seen_twice(pair)).collect();
        let at = self.hash(&labels);
        let founded = self.families.get(&at).map(|founded| &founded.family);
        if let Some(family) = founded.filter(|family| family.owners.is_empty() && *family.labels == *labels) {
            return family.clone();
        }
        let again = !labels.is_empty() && self.seen.knew(at);
        // An object may have one for itself, where that is less than its labels.
        let text: usize = labels.iter().map(|pair| pair.len()).sum();
        if !again && text < size_of::<Family>() + 2 * size_of::<usize>() + size_of_val(&*labels) {
            return none.clone();
        }
        let family = Arc::new(Family { codec: none.codec.clone(), owners: none.owners.clone(), labels: labels.into() });
        if again {
            self.families.insert(at, Founded { family: family.clone(), settled: true });
        }
        family
    }

    /// The one copy of a pair that objects had before this one.
    fn seen_twice(&mut self, pair: &str) -> Option<Arc<str>> {
        if let Some(known) = self.pairs.get(pair) {
            return Some(known.clone());
        }
        self.seen.knew(self.hash(pair)).then(|| self.kept(pair))
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

/// Tells whether a hash was seen before, as far back as its memory reaches: what was seen last at each place of a table.
#[derive(Default)]
struct Doorkeeper(Vec<u32>);

impl Doorkeeper {
    /// 64 KB. The objects of a list come in the order of their names, so that those alike are near each other.
    const PLACES: usize = 16 << 10;

    /// Whether the hash was seen; from now on it is.
    #[expect(clippy::cast_possible_truncation, reason = "parts of a hash")]
    fn knew(&mut self, hash: u64) -> bool {
        if self.0.is_empty() {
            self.0 = vec![0; Self::PLACES];
        }
        // Not that of an empty place.
        let print = (hash >> 32) as u32 | 1;
        std::mem::replace(&mut self.0[hash as usize % Self::PLACES], print) == print
    }
}
