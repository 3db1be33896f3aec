//! The order of a merged list.
//!
//! Its elements come from two sides: those that the patch names (or `$setElementOrder` does) stand in the order given
//! there, the others in the order of the live list. The two sequences are then interleaved without reordering either:
//! an element that only the server has comes before one of the patch if both are in the live list in that order,
//! otherwise after it. So an element new to the list stands before all that follow the last one the patch also names.

use std::collections::HashMap;

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
    /// An item without a rank is taken for smaller than whatever it is compared with, as on the server: an insertion
    /// sort then moves each such item to the front. Only a `$setElementOrder` that is empty leaves items without a
    /// rank.
    fn sort(&self, items: &mut [Item]) {
        if items.iter().all(|item| self.contains(item)) {
            items.sort_by_key(|item| self.rank(item));
            return;
        }
        for end in 1..items.len() {
            let mut at = end;
            while at > 0
                && match (self.rank(&items[at]), self.rank(&items[at - 1])) {
                    (Some(item), Some(previous)) => item < previous,
                    _ => true,
                }
            {
                items.swap(at, at - 1);
                at -= 1;
            }
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
