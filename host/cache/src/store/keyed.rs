//! [`Keyed`]: a persistent table of numbered things, found by their text key; of the store's objects, and of the values
//! of an index.
//!
//! Things live in numbered slots; a hash table of slot numbers finds them by key. Its place for a key is the upper bits
//! of the hash, of which it keeps 32, so that it grows without hashing anything again. Invariants: a filled slot's
//! number is in the table exactly once, at or behind the place of its key with no empty place between; free slots are a
//! list through themselves.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;

use super::array::Array;

/// What can be found by a text.
pub(super) trait HasKey {
    fn key(&self) -> &str;
}

/// A persistent table; a clone costs three reference counts.
pub(super) struct Keyed<T> {
    /// 32 bits of the hash above a slot number plus one; 0 is an empty place. Leaves of 4 KB: plain numbers are copied
    /// fast, and a reader has one step less to go.
    places: Array<u64, 512>,
    /// Number of places, as a power of two.
    bits: u32,
    slots: Array<Slot<T>, 8>,
    /// Slots ever used.
    used: u32,
    /// The first free one among them.
    free: Option<u32>,
    len: usize,
    hasher: RandomState,
}

enum Slot<T> {
    Filled(T),
    Free { next: Option<u32> },
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self::Free { next: None }
    }
}

impl<T: Clone> Clone for Slot<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Filled(thing) => Self::Filled(thing.clone()),
            Self::Free { next } => Self::Free { next: *next },
        }
    }
}

impl<T> Clone for Keyed<T> {
    fn clone(&self) -> Self {
        Self {
            places: self.places.clone(),
            bits: self.bits,
            slots: self.slots.clone(),
            used: self.used,
            free: self.free,
            len: self.len,
            hasher: self.hasher.clone(),
        }
    }
}

impl<T> Default for Keyed<T> {
    fn default() -> Self {
        Self {
            places: Array::default(),
            bits: 5,
            slots: Array::default(),
            used: 0,
            free: None,
            len: 0,
            hasher: RandomState::default(),
        }
    }
}

impl<T: HasKey + Clone> Keyed<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// One above the highest slot number ever used.
    pub(super) fn end(&self) -> u32 {
        self.used
    }

    /// What is in a slot.
    pub(super) fn get(&self, slot: u32) -> Option<&T> {
        match self.slots.get(slot as usize)? {
            Slot::Filled(thing) => Some(thing),
            Slot::Free { .. } => None,
        }
    }

    /// What is in a slot, for writing. Its key must stay.
    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.get(slot)?;
        match self.slots.get_mut(slot as usize) {
            Slot::Filled(thing) => Some(thing),
            Slot::Free { .. } => None,
        }
    }

    /// All things with their slots, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..self.used.div_ceil(8))
            .filter_map(|leaf| Some((leaf * 8, self.slots.leaf(leaf as usize * 8)?)))
            .flat_map(|(first, leaf)| {
                (first..).zip(leaf).filter_map(|(slot, thing)| match thing {
                    Slot::Filled(thing) => Some((slot, thing)),
                    Slot::Free { .. } => None,
                })
            })
    }

    /// The slot of a key.
    pub(super) fn find(&self, key: &str) -> Option<u32> {
        self.locate(key).map(|(_, slot)| slot)
    }

    /// Puts a thing whose key is not there; its slot.
    pub(super) fn insert(&mut self, thing: T) -> u32 {
        // At most three quarters full.
        if (self.len + 1) * 4 > 3 << self.bits {
            self.grow();
        }
        let tag = self.tag(thing.key());
        let slot = match self.free {
            Some(slot) => slot,
            None => {
                self.used = self.used.checked_add(1).expect("fewer than 2^32 objects of one kind");
                self.used - 1
            }
        };
        if let Slot::Free { next } = std::mem::replace(self.slots.get_mut(slot as usize), Slot::Filled(thing))
            && self.free == Some(slot)
        {
            self.free = next;
        }
        let place = self.empty_place(tag);
        *self.places.get_mut(place) = tag | (u64::from(slot) + 1);
        self.len += 1;
        slot
    }

    /// Takes a key out; its slot and what was in it.
    pub(super) fn remove(&mut self, key: &str) -> Option<(u32, T)> {
        let (mut hole, slot) = self.locate(key)?;
        // What stands behind the hole and may stand in it moves up.
        let mask = (1 << self.bits) - 1;
        let mut place = hole;
        loop {
            place = (place + 1) & mask;
            let entry = self.place(place);
            if entry == 0 {
                break;
            }
            let home = self.home(entry);
            if (place.wrapping_sub(home) & mask) >= (place.wrapping_sub(hole) & mask) {
                *self.places.get_mut(hole) = entry;
                hole = place;
            }
        }
        *self.places.get_mut(hole) = 0;
        self.len -= 1;
        let free = Slot::Free { next: self.free.replace(slot) };
        match std::mem::replace(self.slots.get_mut(slot as usize), free) {
            Slot::Filled(thing) => Some((slot, thing)),
            Slot::Free { .. } => None,
        }
    }

    fn tag(&self, key: &str) -> u64 {
        self.hasher.hash_one(key) & !u64::from(u32::MAX)
    }

    /// The place that an entry would like best.
    #[expect(clippy::cast_possible_truncation, reason = "fewer bits than 32")]
    fn home(&self, entry: u64) -> usize {
        (entry >> (64 - self.bits)) as usize
    }

    fn place(&self, place: usize) -> u64 {
        self.places.get(place).copied().unwrap_or(0)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the lower half is a slot number plus one")]
    fn locate(&self, key: &str) -> Option<(usize, u32)> {
        let tag = self.tag(key);
        let mask = (1 << self.bits) - 1;
        let mut place = self.home(tag);
        loop {
            let entry = self.place(place);
            if entry == 0 {
                return None;
            }
            if entry & !u64::from(u32::MAX) == tag {
                let slot = (entry as u32) - 1;
                if self.get(slot).is_some_and(|thing| thing.key() == key) {
                    return Some((place, slot));
                }
            }
            place = (place + 1) & mask;
        }
    }

    fn empty_place(&self, tag: u64) -> usize {
        let mask = (1 << self.bits) - 1;
        let mut place = self.home(tag);
        while self.place(place) != 0 {
            place = (place + 1) & mask;
        }
        place
    }

    fn grow(&mut self) {
        let old = std::mem::take(&mut self.places);
        let count = 1_usize << self.bits;
        self.bits += 1;
        for entry in (0..count).filter_map(|place| old.get(place)).copied().filter(|entry| *entry != 0) {
            let place = self.empty_place(entry);
            *self.places.get_mut(place) = entry;
        }
    }

    /// Checks the invariants.
    #[cfg(test)]
    pub(super) fn check(&self) {
        assert_eq!(self.iter().count(), self.len);
        for (slot, thing) in self.iter() {
            assert_eq!(self.find(thing.key()), Some(slot), "{}", thing.key());
        }
        let filled = (0..1 << self.bits).filter(|place| self.place(*place) != 0).count();
        assert_eq!(filled, self.len);
        let mut free = 0;
        let mut next = self.free;
        while let Some(slot) = next {
            free += 1;
            match self.slots.get(slot as usize) {
                Some(Slot::Free { next: behind }) => next = *behind,
                _ => panic!("slot {slot} is in the list of free ones and filled"),
            }
        }
        assert_eq!(free + self.len, self.used as usize);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    impl HasKey for String {
        fn key(&self) -> &str {
            self
        }
    }

    proptest! {
        #[test]
        fn finds_what_a_map_finds_and_copies_stay(
            steps in proptest::collection::vec((0_u16..300, proptest::bool::weighted(0.6)), 0..900)
        ) {
            let mut table = Keyed::<String>::default();
            let mut model: HashMap<String, u32> = HashMap::new();
            let mut kept = None;
            for (n, (key, add)) in steps.into_iter().enumerate() {
                let key = format!("key-{key}");
                if add && !model.contains_key(&key) {
                    model.insert(key.clone(), table.insert(key.clone()));
                } else if !add {
                    prop_assert_eq!(table.remove(&key).map(|(slot, _)| slot), model.remove(&key));
                }
                if n == 400 {
                    kept = Some((table.clone(), model.clone()));
                }
            }
            for (table, model) in std::iter::once((table, model)).chain(kept) {
                table.check();
                prop_assert_eq!(table.len(), model.len());
                for (key, slot) in model {
                    prop_assert_eq!(table.find(&key), Some(slot));
                }
                prop_assert_eq!(table.find("no"), None);
            }
        }
    }
}
