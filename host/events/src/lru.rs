//! [`LruCache`]: a table of bounded size that evicts the least recently used entry.
//!
//! Invariants: each node in `nodes` is in `table` under its key and in the list from `newest` to `oldest` once; there are at most
//! `capacity` of them. When full, the node of the oldest is used again, so a cache that is full allocates nothing.

use hashbrown::HashTable;

use crate::keys::Key;

/// No node.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct LruCache<V> {
    table: HashTable<u32>,
    nodes: Vec<Node<V>>,
    newest: u32,
    oldest: u32,
    capacity: usize,
}

#[derive(Debug)]
struct Node<V> {
    key: Key,
    value: V,
    newer: u32,
    older: u32,
}

impl<V> LruCache<V> {
    /// A cache of at least one entry.
    pub(crate) fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, NONE as usize);
        Self { table: HashTable::new(), nodes: Vec::new(), newest: NONE, oldest: NONE, capacity }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The entry of the key, now the newest; where there is none, `fresh` makes it, or `reuse` out of the oldest if that must go.
    pub(crate) fn entry(
        &mut self,
        key: Key,
        fresh: impl FnOnce() -> V,
        reuse: impl FnOnce(&mut V),
    ) -> &mut V {
        let at = match self.find(key) {
            Some(at) => {
                self.unlink(at);
                self.link(at);
                at
            }
            None if self.nodes.len() < self.capacity => self.push(key, fresh()),
            None => {
                let at = self.oldest;
                self.unlink(at);
                self.leave(at);
                let node = &mut self.nodes[at as usize];
                node.key = key;
                reuse(&mut node.value);
                self.enter(at);
                at
            }
        };
        &mut self.nodes[at as usize].value
    }

    /// Puts a value in under a key that has none, as the newest, and gives the oldest if that had to go.
    pub(crate) fn insert(&mut self, key: Key, value: V) -> Option<V> {
        let displaced = if self.nodes.len() < self.capacity {
            None
        } else {
            self.remove(self.nodes[self.oldest as usize].key)
        };
        self.push(key, value);
        displaced
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<V> {
        let at = self.find(key)?;
        self.unlink(at);
        self.leave(at);
        let node = self.nodes.swap_remove(at as usize);
        let last = self.nodes.len() as u32;
        if at != last {
            // The last entry moved to the free place.
            let Node { key, newer, older, .. } = self.nodes[at as usize];
            if let Some(place) = self.table.find_mut(key.hash(), |other| *other == last) {
                *place = at;
            }
            match self.nodes.get_mut(newer as usize) {
                Some(newer) => newer.older = at,
                None => self.newest = at,
            }
            match self.nodes.get_mut(older as usize) {
                Some(older) => older.newer = at,
                None => self.oldest = at,
            }
        }
        Some(node.value)
    }

    /// All entries, in no order; their age stays as it is.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut V)> {
        self.nodes.iter_mut().map(|node| (node.key, &mut node.value))
    }

    /// The entry of the key, now the newest.
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut V> {
        let at = self.find(key)?;
        self.unlink(at);
        self.link(at);
        Some(&mut self.nodes[at as usize].value)
    }

    /// The entry of the key, whose age stays as it is.
    pub(crate) fn peek_mut(&mut self, key: Key) -> Option<&mut V> {
        let at = self.find(key)?;
        Some(&mut self.nodes[at as usize].value)
    }

    fn find(&self, key: Key) -> Option<u32> {
        self.table.find(key.hash(), |at| self.nodes[*at as usize].key == key).copied()
    }

    fn enter(&mut self, at: u32) {
        let nodes = &self.nodes;
        let hash = nodes[at as usize].key.hash();
        self.table.insert_unique(hash, at, |other| nodes[*other as usize].key.hash());
        self.link(at);
    }

    fn push(&mut self, key: Key, value: V) -> u32 {
        let at = self.nodes.len() as u32;
        self.nodes.push(Node { key, value, newer: NONE, older: NONE });
        self.enter(at);
        at
    }

    /// Takes a node out of the table.
    fn leave(&mut self, at: u32) {
        let hash = self.nodes[at as usize].key.hash();
        if let Ok(entry) = self.table.find_entry(hash, |other| *other == at) {
            entry.remove();
        }
    }

    fn link(&mut self, at: u32) {
        let second = std::mem::replace(&mut self.newest, at);
        let node = &mut self.nodes[at as usize];
        (node.newer, node.older) = (NONE, second);
        match self.nodes.get_mut(second as usize) {
            Some(second) => second.newer = at,
            None => self.oldest = at,
        }
    }

    fn unlink(&mut self, at: u32) {
        let Node { newer, older, .. } = self.nodes[at as usize];
        match self.nodes.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        match self.nodes.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Entry,
        Insert,
        Get,
        Peek,
        Remove,
    }

    fn steps() -> impl Strategy<Value = Vec<(u128, Step)>> {
        use Step::{Entry, Get, Insert, Peek, Remove};
        let step = prop::sample::select(vec![Entry, Entry, Insert, Get, Peek, Remove]);
        prop::collection::vec((0_u128..9, step), 0..200)
    }

    proptest! {
        #[test]
        fn it_forgets_as_a_list_would(capacity in 1_usize..6, steps in steps()) {
            let mut cache = LruCache::new(capacity);
            // Newest in front.
            let mut list: VecDeque<(u128, usize)> = VecDeque::new();
            for (at, (key, step)) in steps.into_iter().enumerate() {
                let place = list.iter().position(|(other, _)| *other == key);
                let known = place.map(|place| list[place].1);
                // All in one chain of the table.
                let hashed = Key(key << 64);
                let full = place.is_none() && list.len() == capacity;
                match step {
                    Step::Peek => prop_assert_eq!(cache.peek_mut(hashed).copied(), known),
                    Step::Get => {
                        prop_assert_eq!(cache.get_mut(hashed).copied(), known);
                        if let Some(place) = place {
                            let entry = list.remove(place).unwrap();
                            list.push_front(entry);
                        }
                    }
                    Step::Remove => {
                        prop_assert_eq!(cache.remove(hashed), known);
                        place.map(|place| list.remove(place));
                    }
                    Step::Insert if place.is_some() => {}
                    Step::Insert => {
                        let displaced = if full { list.pop_back().map(|(_, value)| value) } else { None };
                        prop_assert_eq!(cache.insert(hashed, at), displaced);
                        list.push_front((key, at));
                    }
                    Step::Entry => {
                        let displaced = if full { list.pop_back().map(|(_, value)| value) } else { None };
                        let entry = place.and_then(|place| list.remove(place)).unwrap_or((key, at));
                        list.push_front(entry);
                        let mut reused = None;
                        let found = *cache.entry(hashed, || at, |old| reused = Some(std::mem::replace(old, at)));
                        prop_assert_eq!((found, reused), (entry.1, displaced));
                    }
                }
                let mut all: Vec<_> = cache.iter_mut().map(|(key, value)| (key.0 >> 64, *value)).collect();
                let mut expected: Vec<_> = list.iter().copied().collect();
                all.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(all, expected);
            }
        }
    }
}
