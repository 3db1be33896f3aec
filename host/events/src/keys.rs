//! [`KeyBuilder`]: keys of the correlator's caches, made from parts without ambiguity and without putting texts together.
//!
//! A key is 128 bits of hash over the parts, each behind its length: `"a", "bc"` and `"ab", "c"` are different keys (client-go
//! concatenates the texts, and mixes these up). The seeds are random, and different for the two halves; the caches compare keys and
//! not texts, as among a few thousand of them two of 128 bits do not meet by chance.

use std::hash::Hasher;

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;

use crate::event::Event;

/// The key of an entry in a cache of the correlator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key(pub(crate) u128);

/// Takes the parts of a key one after the other; where one ends counts.
#[derive(Clone)]
pub struct KeyBuilder<'a> {
    low: FoldHasher<'a>,
    high: FoldHasher<'a>,
}

impl KeyBuilder<'_> {
    /// Adds a part.
    pub fn part(&mut self, text: &str) -> &mut Self {
        for half in [&mut self.low, &mut self.high] {
            half.write_usize(text.len());
            half.write(text.as_bytes());
        }
        self
    }

    /// Adds another key as a part.
    pub(crate) fn key(&mut self, key: Key) -> &mut Self {
        self.low.write_u128(key.0);
        self.high.write_u128(key.0);
        self
    }

    pub(crate) fn finish(self) -> Key {
        Key(u128::from(self.high.finish()) << 64 | u128::from(self.low.finish()))
    }
}

/// Where keys begin; each has its own seeds.
#[derive(Debug, Clone)]
pub(crate) struct Keyer {
    low: (u64, SharedSeed),
    high: (u64, SharedSeed),
}

impl Keyer {
    pub(crate) fn new() -> Self {
        let seed = || (rand::random(), SharedSeed::from_u64(rand::random()));
        Self { low: seed(), high: seed() }
    }

    pub(crate) fn builder(&self) -> KeyBuilder<'_> {
        KeyBuilder {
            low: FoldHasher::with_seed(self.low.0, &self.low.1),
            high: FoldHasher::with_seed(self.high.0, &self.high.1),
        }
    }

    /// A key that begins with source and object, to which all further parts are added: each text is hashed once.
    pub(crate) fn source_and_object(&self, event: &Event) -> KeyBuilder<'_> {
        let (source, object) = (&event.body.source, &event.body.regarding);
        let mut key = self.builder();
        key.part(&source.component)
            .part(&source.host)
            .part(&object.kind)
            .part(&object.namespace)
            .part(&object.name)
            .part(&object.uid)
            .part(&object.api_version);
        key
    }
}
