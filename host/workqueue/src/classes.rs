//! Ready keys: for each priority in use a list.
//!
//! Invariants:
//! - priorities are kept the highest first, and each has a key or is one of the few that are kept for the next;
//! - within a priority keys come out in the order in which they went in.
//!
//! Called by `state` only, under the queue's mutex.

use std::hash::Hash;

use crate::Priority;
use crate::slots::{List, NIL, Slot, Slots};

/// While keys of several priorities wait, so many in a row are of the highest; then it is the turn of another: of the
/// priority whose next key has waited longest.
const RUN: u8 = 16;

/// Priorities without keys that are kept.
const KEEP: usize = 2;

/// Up to so many entries memory is not worth giving back.
const SMALL: usize = 4;

/// Holds the ready keys of one priority.
#[derive(Debug)]
struct Class {
    priority: Priority,
    keys: List,
}

/// Holds all ready keys.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    classes: Vec<Class>,
    len: usize,
    /// Keys of the highest priority that were handed out in a row while others waited.
    run: u8,
}

impl Classes {
    /// Number of ready keys.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of ready keys by priority, the highest first.
    pub(crate) fn depths(&self) -> impl Iterator<Item = (Priority, usize)> {
        self.classes.iter().map(|class| (class.priority, class.keys.len())).filter(|(_, len)| *len > 0)
    }

    /// Renames slots after they were compacted.
    pub(crate) fn rename(&mut self, numbers: &[u32]) {
        self.classes.iter_mut().for_each(|class| class.keys.rename(numbers));
    }

    /// Appends a slot to those of a priority, which becomes that of the slot. Returns the slot.
    #[inline(always)]
    pub(crate) fn push_back<'a, K: Eq + Hash, M>(
        &mut self,
        slots: &'a mut Slots<K, M>,
        index: u32,
        priority: Priority,
    ) -> &'a mut Slot<K, M> {
        let place = match self.classes.first() {
            Some(class) if class.priority == priority => 0,
            _ => self.find_or_insert(priority),
        };
        let slot = slots.push_back(&mut self.classes[place].keys, index);
        self.len += 1;
        slot.priority = priority;
        slot
    }

    /// Takes a slot out that waits.
    pub(crate) fn unlink<K: Eq + Hash, M>(&mut self, slots: &mut Slots<K, M>, index: u32) {
        let Ok(place) = self.find(slots[index].priority) else { return };
        self.len -= 1;
        slots.unlink(&mut self.classes[place].keys, index);
        self.tidy(place);
    }

    /// Takes the slot whose turn it is, and returns it with its number.
    #[inline(always)]
    pub(crate) fn pop<'a, K: Eq + Hash, M>(
        &mut self,
        slots: &'a mut Slots<K, M>,
    ) -> Option<(u32, &'a mut Slot<K, M>)> {
        if self.len == 0 {
            self.run = 0;
            return None;
        }
        let place = self.next_class(slots)?;
        self.len -= 1;
        let popped = slots.pop_front(&mut self.classes[place].keys);
        self.tidy(place);
        Some(popped)
    }

    /// The class whose turn it is. There are keys.
    #[inline]
    fn next_class<K, M>(&mut self, slots: &Slots<K, M>) -> Option<usize> {
        match self.classes.first() {
            Some(class) if class.keys.len() == self.len => {
                self.run = 0;
                Some(0)
            }
            _ => self.next_of_several(slots),
        }
    }

    #[inline(never)]
    fn next_of_several<K, M>(&mut self, slots: &Slots<K, M>) -> Option<usize> {
        let first = self.classes.iter().position(|class| !class.keys.is_empty())?;
        if self.classes[first].keys.len() == self.len {
            self.run = 0;
            return Some(first);
        }
        if self.run < RUN {
            self.run += 1;
            return Some(first);
        }
        self.run = 0;
        let others = self.classes.iter().enumerate().skip(first + 1);
        let heads = others.filter(|(_, class)| class.keys.head() != NIL);
        heads.map(|(place, class)| (slots[class.keys.head()].time, place)).min().map(|(_, place)| place)
    }

    fn find(&self, priority: Priority) -> Result<usize, usize> {
        self.classes.binary_search_by(|class| priority.cmp(&class.priority))
    }

    #[inline(never)]
    fn find_or_insert(&mut self, priority: Priority) -> usize {
        self.find(priority).unwrap_or_else(|place| {
            self.classes.insert(place, Class { priority, keys: List::EMPTY });
            place
        })
    }

    /// Lets a priority go that has no key left.
    #[inline]
    fn tidy(&mut self, place: usize) {
        if self.classes.len() > KEEP && self.classes[place].keys.is_empty() {
            self.let_go(place);
        }
    }

    #[inline(never)]
    fn let_go(&mut self, place: usize) {
        self.classes.remove(place);
        if self.classes.capacity() > SMALL && self.classes.len() * 8 <= self.classes.capacity() {
            self.classes.shrink_to(self.classes.len() * 2);
        }
    }
}
