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
    /// Of those that are in, the one at this place.
    Remove(usize),
    /// All numbers rise by one.
    Rename,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => hashes().prop_map(Step::Insert),
        5 => any::<usize>().prop_map(Step::Remove),
        1 => Just(Step::Rename),
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
            match step {
                Step::Insert(hash) => {
                    table.insert(hash, next);
                    model.insert(next, hash);
                    next += 1;
                }
                Step::Remove(place) => {
                    let Some((&slot, &hash)) = model.iter().nth(place % model.len().max(1)) else { continue };
                    table.remove(hash, slot);
                    model.remove(&slot);
                }
                Step::Rename => {
                    let names: Vec<u32> = (1..=next).collect();
                    table.rename(&names, model.len() * 2);
                    model = model.into_iter().map(|(slot, hash)| (slot + 1, hash)).collect();
                    next += 1;
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
                let expected: Vec<u32> =
                    model.iter().filter(|(_, other)| **other == hash).map(|(slot, _)| *slot).collect();
                prop_assert_eq!(seen, expected);
            }
        }
    }
}

#[test]
fn many_entries_are_found_near_the_place_they_ask_for() {
    let mut table = Table::default();
    let hash = |n: u32| n.wrapping_mul(0x9e37_79b9);
    (0..100_000).for_each(|n| table.insert(hash(n), n));
    assert!((0..100_000).all(|n| table.find(hash(n), |slot| slot == n) == Some(n)));
    (0..100_000).filter(|n| n % 3 != 0).for_each(|n| table.remove(hash(n), n));
    assert!((0..100_000).all(|n| table.find(hash(n), |slot| slot == n) == (n % 3 == 0).then_some(n)));
}
