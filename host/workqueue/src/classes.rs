//! Ready keys: for each priority in use a list, or with fair sharing a list for each group.
//!
//! Invariants:
//! - priorities are kept the highest first, and each has a key or is one of the few that are kept for the next;
//! - within a priority (and group) keys come out in the order in which they went in;
//! - groups of one priority take turns, a key each; one that gets its first key joins at the end. One that loses its last
//!   key to a higher priority is passed over when its turn comes, unless it got another by then.
//!
//! Called by `state` only, under the queue's mutex.

use std::collections::VecDeque;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::Priority;
use crate::slots::{List, NIL, Slot, Slots};

/// While keys of several priorities wait, so many in a row are of the highest; then it is the turn of another: of the
/// priority whose next key has waited longest.
const RUN: u8 = 16;

/// Priorities without keys that are kept.
const KEEP: usize = 2;

/// Up to so many entries memory is not worth giving back.
const SMALL: usize = 4;

/// The group of a key, hashed. Groups that meet in one hash share their turns.
pub(crate) type GroupOf<K> = Arc<dyn Fn(&K) -> u64 + Send + Sync>;

/// Holds the ready keys of one priority.
#[derive(Debug)]
struct Class {
    priority: Priority,
    keys: Keys,
}

#[derive(Debug)]
enum Keys {
    InOrder(List),
    Fair(Box<GroupTurns>),
}

/// Holds the ready keys of one priority by their groups.
#[derive(Debug, Default)]
struct GroupTurns {
    /// The list of each group that is in `turns`.
    groups: HashMap<u64, List, RandomState>,
    /// Groups in the order of their turns. One whose list was emptied meanwhile is skipped.
    turns: VecDeque<u64>,
    len: usize,
}

/// Holds all ready keys.
pub(crate) struct Classes<K> {
    classes: Vec<Class>,
    grouping: Option<Box<Grouping<K>>>,
    len: usize,
    /// Keys of the highest priority that were handed out in a row while others waited.
    run: u8,
}

/// Of a queue with fair sharing.
struct Grouping<K> {
    of: GroupOf<K>,
    /// The group that each ready slot went to: asked a second time, the function may say another.
    of_slots: HashMap<u32, u64, RandomState>,
}

impl<K> Grouping<K> {
    /// The group of a key. A function that panics has said nothing: such keys are a group.
    fn of(&self, key: &K) -> u64 {
        catch_unwind(AssertUnwindSafe(|| (self.of)(key))).unwrap_or(0)
    }
}

impl<K> Classes<K> {
    pub(crate) fn new(group: Option<GroupOf<K>>) -> Self {
        let grouping = group.map(|of| Box::new(Grouping { of, of_slots: HashMap::default() }));
        Self { classes: Vec::new(), grouping, len: 0, run: 0 }
    }

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
        self.classes.iter().map(|class| (class.priority, class.len())).filter(|(_, len)| *len > 0)
    }

    /// Renames slots after they were compacted.
    pub(crate) fn rename(&mut self, numbers: &[u32]) {
        for class in &mut self.classes {
            match &mut class.keys {
                Keys::InOrder(list) => list.rename(numbers),
                Keys::Fair(turns) => turns.groups.values_mut().for_each(|list| list.rename(numbers)),
            }
        }
        if let Some(grouping) = &mut self.grouping {
            let slots = grouping.of_slots.drain();
            grouping.of_slots = slots.map(|(slot, group)| (numbers[slot as usize], group)).collect();
        }
    }
}

impl Class {
    #[inline]
    fn len(&self) -> usize {
        match &self.keys {
            Keys::InOrder(list) => list.len(),
            Keys::Fair(turns) => turns.len,
        }
    }
}

impl<K: Eq + Hash> Classes<K> {
    /// Appends a slot to those of a priority, which becomes that of the slot. Returns the slot.
    #[inline(always)]
    pub(crate) fn push_back<'a, M>(
        &mut self,
        slots: &'a mut Slots<K, M>,
        index: u32,
        priority: Priority,
    ) -> &'a mut Slot<K, M> {
        let place = match self.classes.first() {
            Some(class) if class.priority == priority => 0,
            _ => self.find_or_insert(priority),
        };
        let slot = match &mut self.classes[place].keys {
            Keys::InOrder(list) => slots.push_back(list, index),
            Keys::Fair(turns) => turns.push_back(self.grouping.as_deref_mut(), slots, index),
        };
        self.len += 1;
        slot.priority = priority;
        slot
    }

    /// Takes a slot out that waits.
    pub(crate) fn unlink<M>(&mut self, slots: &mut Slots<K, M>, index: u32) {
        let Ok(place) = self.find(slots[index].priority) else { return };
        self.len -= 1;
        match &mut self.classes[place].keys {
            Keys::InOrder(list) => slots.unlink(list, index),
            Keys::Fair(turns) => {
                let group = self.grouping.as_mut().and_then(|grouping| grouping.of_slots.remove(&index));
                if let Some(list) = group.and_then(|group| turns.groups.get_mut(&group)) {
                    slots.unlink(list, index);
                    turns.len -= 1;
                }
            }
        }
        self.tidy(place);
    }

    /// Takes the slot whose turn it is, and returns it with its number.
    #[inline(always)]
    pub(crate) fn pop<'a, M>(&mut self, slots: &'a mut Slots<K, M>) -> Option<(u32, &'a mut Slot<K, M>)> {
        if self.len == 0 {
            self.run = 0;
            return None;
        }
        let place = self.next_class(slots)?;
        self.len -= 1;
        let popped = match &mut self.classes[place].keys {
            Keys::InOrder(list) => slots.pop_front(list),
            Keys::Fair(turns) => turns.pop(self.grouping.as_deref_mut(), slots)?,
        };
        self.tidy(place);
        Some(popped)
    }

    /// The class whose turn it is. There are keys.
    #[inline]
    fn next_class<M>(&mut self, slots: &Slots<K, M>) -> Option<usize> {
        match self.classes.first() {
            Some(class) if class.len() == self.len => {
                self.run = 0;
                Some(0)
            }
            _ => self.next_of_several(slots),
        }
    }

    #[inline(never)]
    fn next_of_several<M>(&mut self, slots: &Slots<K, M>) -> Option<usize> {
        let first = self.classes.iter().position(|class| class.len() > 0)?;
        if self.classes[first].len() == self.len {
            self.run = 0;
            return Some(first);
        }
        if self.run < RUN {
            self.run += 1;
            return Some(first);
        }
        self.run = 0;
        let others = self.classes.iter_mut().enumerate().skip(first + 1);
        let heads = others.filter_map(|(place, class)| Some((slots[class.head()?].time, place)));
        heads.min().map(|(_, place)| place)
    }

    fn find(&self, priority: Priority) -> Result<usize, usize> {
        self.classes.binary_search_by(|class| priority.cmp(&class.priority))
    }

    #[inline(never)]
    fn find_or_insert(&mut self, priority: Priority) -> usize {
        self.find(priority).unwrap_or_else(|place| {
            let keys = match &self.grouping {
                None => Keys::InOrder(List::EMPTY),
                Some(_) => Keys::Fair(Box::default()),
            };
            self.classes.insert(place, Class { priority, keys });
            place
        })
    }

    /// Lets a priority go that has no key left.
    #[inline]
    fn tidy(&mut self, place: usize) {
        let has_rest = self.classes.len() > KEEP || self.grouping.is_some();
        if has_rest && self.classes[place].len() == 0 {
            self.let_go(place);
        }
    }

    #[inline(never)]
    fn let_go(&mut self, place: usize) {
        if let Keys::Fair(turns) = &mut self.classes[place].keys {
            turns.clear();
        }
        if self.classes.len() > KEEP {
            self.classes.remove(place);
            if self.classes.capacity() > SMALL && self.classes.len() * 8 <= self.classes.capacity() {
                self.classes.shrink_to(self.classes.len() * 2);
            }
        }
        if self.len == 0
            && let Some(grouping) = &mut self.grouping
            && grouping.of_slots.capacity() > SMALL
        {
            grouping.of_slots = HashMap::default();
        }
    }
}

impl Class {
    /// The slot that would be taken next.
    fn head(&mut self) -> Option<u32> {
        let head = match &mut self.keys {
            Keys::InOrder(list) => list.head(),
            Keys::Fair(turns) => turns.front()?.1.head(),
        };
        (head != NIL).then_some(head)
    }
}

impl GroupTurns {
    /// The group whose turn it is.
    fn front(&mut self) -> Option<(u64, &mut List)> {
        loop {
            let group = *self.turns.front()?;
            if self.groups.get(&group).is_some_and(|list| !list.is_empty()) {
                return Some((group, self.groups.get_mut(&group)?));
            }
            self.turns.pop_front();
            self.forget(group);
        }
    }

    /// Appends a slot to those of its group, and returns it.
    #[inline(never)]
    fn push_back<'a, K: Eq + Hash, M>(
        &mut self,
        grouping: Option<&mut Grouping<K>>,
        slots: &'a mut Slots<K, M>,
        index: u32,
    ) -> &'a mut Slot<K, M> {
        let group = grouping.map_or(0, |grouping| {
            let group = grouping.of(slots[index].key());
            grouping.of_slots.insert(index, group);
            group
        });
        let list = self.groups.entry(group).or_insert_with(|| {
            self.turns.push_back(group);
            List::EMPTY
        });
        self.len += 1;
        slots.push_back(list, index)
    }

    /// Takes the next slot of the group whose turn it is, and returns it with its number.
    #[inline(never)]
    fn pop<'a, K: Eq + Hash, M>(
        &mut self,
        grouping: Option<&mut Grouping<K>>,
        slots: &'a mut Slots<K, M>,
    ) -> Option<(u32, &'a mut Slot<K, M>)> {
        let (group, list) = self.front()?;
        let popped = slots.pop_front(list);
        if let Some(grouping) = grouping {
            grouping.of_slots.remove(&popped.0);
        }
        let over = list.is_empty();
        self.len -= 1;
        self.turns.pop_front();
        if over {
            self.forget(group);
        } else {
            self.turns.push_back(group);
        }
        Some(popped)
    }

    /// Nothing is left; small memory is kept for the next.
    fn clear(&mut self) {
        if self.groups.capacity() > SMALL || self.turns.capacity() > SMALL {
            *self = Self::default();
        }
        self.groups.clear();
        self.turns.clear();
    }

    fn forget(&mut self, group: u64) {
        self.groups.remove(&group);
        if self.groups.capacity() > SMALL && self.groups.len() * 8 < self.groups.capacity() {
            self.groups.shrink_to(self.groups.len() * 2);
            self.turns.shrink_to(self.groups.len() * 2);
        }
    }
}
