//! The order of a merged list.
//!
//! Its elements come from two sides: those that the patch names (or `$setElementOrder` does) stand in the order given
//! there, the others in the order of the live list. The two sequences are then interleaved without reordering either:
//! an element that only the server has comes before one of the patch if both are in the live list in that order,
//! otherwise after it. So an element new to the list stands before all that follow the last one the patch also names.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

/// An element and what identifies it: the JSON of its merge key, of itself in a list of scalars.
pub(super) struct Item {
    pub(super) identity: String,
    pub(super) value: Value,
}

/// Where identities stand in a list; the first place counts.
pub(super) struct ListOrder {
    ranks: HashMap<String, usize>,
}

impl ListOrder {
    pub(super) fn of(identities: impl IntoIterator<Item = String>) -> Self {
        let mut ranks = HashMap::new();
        for (rank, identity) in identities.into_iter().enumerate() {
            ranks.entry(identity).or_insert(rank);
        }
        Self { ranks }
    }

    pub(super) fn contains(&self, item: &Item) -> bool {
        self.ranks.contains_key(&item.identity)
    }

    fn rank(&self, item: &Item) -> Option<usize> {
        self.ranks.get(&item.identity).copied()
    }

    /// Sorts, keeping the order of equals.
    ///
    /// An item without a rank is taken for smaller than whatever it is compared with, as on the server, whose insertion
    /// sort then moves each such item to the front, and each other one behind the last of its rank or of the rank before.
    /// Only a `$setElementOrder` that is empty leaves items without a rank.
    fn sort(&self, items: &mut Vec<Item>) {
        if items.iter().all(|item| self.contains(item)) {
            items.sort_by_key(|item| self.rank(item));
            return;
        }
        // A linked list of places: the first, what follows each, and the last of each rank.
        let (mut first, mut following) = (None, vec![None; items.len()]);
        let mut last_of_rank = BTreeMap::new();
        for (place, item) in items.iter().enumerate() {
            let rank = self.rank(item);
            let previous = rank.and_then(|rank| last_of_rank.range(..=rank).next_back());
            let link = match previous {
                Some((_, previous)) => &mut following[*previous],
                None => &mut first,
            };
            let next = link.replace(place);
            following[place] = next;
            if let Some(rank) = rank {
                last_of_rank.insert(rank, place);
            }
        }
        let mut taken: Vec<Option<Item>> = items.drain(..).map(Some).collect();
        let mut next = first;
        while let Some(place) = next {
            items.extend(taken[place].take());
            next = following[place];
        }
    }
}

/// The values of all items, those that `named` contains in its order, the others in the order of the live list.
pub(super) fn arrange(items: Vec<Item>, named: &ListOrder, live: &ListOrder) -> Vec<Value> {
    let (mut patched, mut others): (Vec<_>, Vec<_>) =
        items.into_iter().partition(|item| named.contains(item));
    named.sort(&mut patched);
    live.sort(&mut others);

    let mut arranged = Vec::with_capacity(patched.len() + others.len());
    let mut patched = patched.into_iter().peekable();
    for other in others {
        let rank = live.rank(&other);
        while let Some(item) = patched
            .next_if(|item| !matches!((rank, live.rank(item)), (Some(rank), Some(item)) if rank < item))
        {
            arranged.push(item.value);
        }
        arranged.push(other.value);
    }
    arranged.extend(patched.map(|item| item.value));
    arranged
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn items(identities: &[u8]) -> Vec<Item> {
        // The value tells apart those of the same identity.
        let items = identities.iter().enumerate();
        items.map(|(place, id)| Item { identity: id.to_string(), value: place.into() }).collect()
    }

    /// The sort of the server, word by word.
    fn insertion_sort(order: &ListOrder, items: &mut [Item]) {
        for end in 1..items.len() {
            let mut at = end;
            while at > 0
                && match (order.rank(&items[at]), order.rank(&items[at - 1])) {
                    (Some(item), Some(previous)) => item < previous,
                    _ => true,
                }
            {
                items.swap(at, at - 1);
                at -= 1;
            }
        }
    }

    proptest! {
        #[test]
        fn items_with_and_without_rank_are_sorted_as_by_insertion(
            identities in prop::collection::vec(0..8_u8, 0..20), ranked in prop::collection::vec(0..8_u8, 0..6)
        ) {
            let order = ListOrder::of(ranked.iter().map(u8::to_string));
            let (mut sorted, mut expected) = (items(&identities), items(&identities));
            order.sort(&mut sorted);
            insertion_sort(&order, &mut expected);
            let values = |items: Vec<Item>| items.into_iter().map(|item| item.value).collect::<Vec<_>>();
            prop_assert_eq!(values(sorted), values(expected));
        }
    }
}
