//! The table beside a plain map, with hashes that meet.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Hashes that stand close together, at both ends of the table and anywhere.
fn hashes() -> impl Strategy<Value = Hash32> {
    prop_oneof![0..4_u32, (u32::MAX - 3)..=u32::MAX, (0..8_u32).prop_map(|n| n << 29), any::<u32>()]
}

#[derive(Debug, Clone)]
enum Step {
    Insert(Hash32),
    /// Of those that are in, the one at this place once more.
    InsertAgain(usize),
    /// Of those that are in, the one at this place.
    Remove(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => hashes().prop_map(Step::Insert),
        2 => any::<usize>().prop_map(Step::InsertAgain),
        5 => any::<usize>().prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 0..400)
}

proptest! {
    #[test]
    fn finds_what_was_inserted_and_nothing_else(steps in steps()) {
        let mut table = Table::default();
        let mut model: BTreeMap<u32, Hash32> = BTreeMap::new();
        let mut next = 0;
        for step in steps {
            if table.is_full() {
                let slots = model.iter().map(|(&slot, &hash)| (hash, slot));
                table = Table::filled(model.len() + 1, slots);
            }
            let at = |place: usize| model.iter().nth(place % model.len().max(1)).map(|(&slot, &hash)| (slot, hash));
            match step {
                Step::Insert(hash) => {
                    prop_assert_eq!(table.find_or_insert(hash, next, |_| false), None);
                    model.insert(next, hash);
                    next += 1;
                }
                Step::InsertAgain(place) => {
                    let Some((slot, hash)) = at(place) else { continue };
                    prop_assert_eq!(table.find_or_insert(hash, next, |found| found == slot), Some(slot));
                }
                Step::Remove(place) => {
                    let Some((slot, hash)) = at(place) else { continue };
                    table.remove(hash, slot);
                    model.remove(&slot);
                }
            }
            prop_assert_eq!(table.len(), model.len());
            for (&slot, &hash) in &model {
                prop_assert_eq!(table.find(hash, |found| found == slot), Some(slot));
            }
            for hash in [0, 1, 1 << 29, u32::MAX] {
                let mut seen = Vec::new();
                prop_assert_eq!(table.find(hash, |slot| { seen.push(slot); false }), None);
                seen.sort_unstable();
                let with_hash = |slot: &u32| model.get(slot) == Some(&hash);
                seen.retain(with_hash);
                let expected: Vec<u32> = model.keys().copied().filter(with_hash).collect();
                prop_assert_eq!(seen, expected);
            }
        }
    }
}
