//! The ring of one who is not the consumer yet: what it forgets, and what another ring takes over from it.

use std::collections::BTreeSet;

use pilothouse_object::Object;
use proptest::prelude::*;
use serde_json::json;

use super::tests::{Pair, reborn, x};
use super::{Delivery, RingOptions};
use crate::testing::{config_map, config_maps, object};
use crate::{Delta, Listener as _};

const SHOWS_ALL: fn(&Object) -> bool = |_| true;

fn standby(delivery: Delivery) -> Pair {
    Pair::new(RingOptions { delivery, told_elsewhere: true, ..RingOptions::default() })
}

#[test]
fn a_deletion_is_kept_over_one_turn_and_forgotten_with_the_second() {
    for delivery in [Delivery::Latest, Delivery::Every] {
        let pair = standby(delivery);
        pair.add_initial(&x("1"));
        pair.add_initial(&config_map("a/stays", "1"));
        pair.ring.on_initial_list_end();
        pair.update(&x("2"));
        pair.delete(&x("3"));
        pair.ring.forget_old_deletions();
        assert_eq!((pair.ring.len(), pair.ring.surplus()), (2, 1));
        pair.ring.forget_old_deletions();
        pair.ring.forget_old_deletions();
        assert_eq!(pair.ring.surplus(), 0);
        assert_eq!(pair.told(), ["add! a/stays 1"], "{delivery:?}");
        assert!(pair.ring.has_synced(), "what was forgotten is not waited for");
    }
}

#[test]
fn what_came_after_a_forgotten_deletion_stays() {
    for delivery in [Delivery::Latest, Delivery::Every] {
        let pair = standby(delivery);
        pair.add(&x("1"));
        pair.delete(&x("2"));
        pair.add(&reborn("3"));
        pair.ring.forget_old_deletions();
        assert_eq!(pair.ring.metrics().depth, 1);
        pair.ring.forget_old_deletions();
        assert_eq!(pair.told(), ["add a/x 3"], "{delivery:?}");
    }
}

#[test]
fn a_deletion_that_was_told_again_is_as_young_as_the_last() {
    for max_keys in [9, 0] {
        let options = RingOptions { max_keys, told_elsewhere: true, ..RingOptions::default() };
        let pair = Pair::new(options);
        pair.add(&x("1"));
        pair.delete(&x("2"));
        pair.ring.forget_old_deletions();
        // Merges with what waits, which is a deletion of before.
        pair.add(&reborn("3"));
        pair.delete(&reborn("4"));
        pair.ring.forget_old_deletions();
        let told = pair.told();
        assert!(told.len() == 1 && told[0].starts_with("del"), "{told:?}");
    }
}

#[test]
fn a_collapse_keeps_the_age_of_the_last_deletion() {
    let options =
        RingOptions { delivery: Delivery::Every, max_keys: 1, told_elsewhere: true, max_events: 99 };
    let pair = Pair::new(options);
    pair.add(&x("1"));
    pair.delete(&x("2"));
    pair.ring.forget_old_deletions();
    pair.add(&reborn("3"));
    pair.delete(&reborn("4"));
    // Too many keys: what waits is merged.
    pair.add(&config_map("a/other", "5"));
    pair.ring.forget_old_deletions();
    assert_eq!(pair.told(), ["del? a/x -", "add a/other 5"]);
}

#[test]
fn the_next_ring_takes_over_deletions_with_their_age_and_nothing_else() {
    let before = standby(Delivery::Latest);
    for name in ["a/old", "a/young", "a/both", "a/stays"] {
        before.add(&config_map(name, "1"));
    }
    before.delete(&config_map("a/old", "2"));
    before.ring.forget_old_deletions();
    before.delete(&config_map("a/young", "2"));
    before.delete(&config_map("a/both", "2"));
    before.add(&config_map("a/both", "3"));
    let after = standby(Delivery::Latest);
    // As a listener that joins is told.
    for object in before.indexer.list() {
        after.add_initial(&object);
    }
    // While both listen.
    before.ring.on_delete(&"a/stays".parse().unwrap(), None, true);
    after.delete(&config_map("a/stays", "4"));
    after.ring.adopt_deletions(&before.ring, &SHOWS_ALL);
    assert!(before.ring.is_empty());
    after.ring.pending.lock().check();
    after.ring.forget_old_deletions();
    after.ring.pending.lock().check();
    let mut told = after.told();
    told.sort();
    assert_eq!(told, ["add! a/both 3", "del a/both 2", "del a/stays 4", "del a/young 2"]);
}

proptest! {
    /// Whatever comes, and whenever turns and other rings do: what is there is told of as added, a deletion of this turn and
    /// the one before it is told of, older ones of what is gone are not.
    #[test]
    fn a_standby_s_ring_tells_what_is_there_and_what_went_lately(
        steps in prop::collection::vec((0_u8..5, 0_u8..16), 1..150),
        max_keys in 0_usize..5,
        max_events in 0_usize..8,
        every: bool,
    ) {
        let delivery = if every { Delivery::Every } else { Delivery::Latest };
        let options = RingOptions { delivery, max_keys, max_events, told_elsewhere: true };
        let mut pair = Pair::new(options);
        let (mut young, mut old) = (BTreeSet::new(), BTreeSet::new());
        for (version, (key, action)) in steps.into_iter().enumerate() {
            let key = format!("a/{key}");
            let made = |uid: &str| object(&config_maps().gvk, &key, uid, &version.to_string(), json!({}));
            let held = pair.indexer.get_by_key(&key);
            match (action, held) {
                (0, _) => {
                    pair.ring.forget_old_deletions();
                    old = std::mem::take(&mut young);
                }
                (1, _) => {
                    let next = Pair::new(options);
                    for object in pair.indexer.list() {
                        next.add_initial(&object);
                    }
                    next.ring.adopt_deletions(&pair.ring, &SHOWS_ALL);
                    pair = next;
                }
                (2..9, Some(held)) => {
                    pair.delete(&held);
                    young.insert(key);
                }
                (_, None) => pair.add(&made(&format!("born-{version}"))),
                (_, Some(held)) => pair.update(&made(held.uid())),
            }
            pair.ring.pending.lock().check();
        }
        // A key is told of as it waits: per key the last word is what counts.
        let mut deleted = BTreeSet::new();
        let mut there = BTreeSet::new();
        for event in pair.told() {
            let mut words = event.split(' ');
            let (what, key) = (words.next().unwrap(), words.next().unwrap().to_owned());
            match &what[..3] {
                "add" => prop_assert!(there.insert(key), "added twice"),
                "upd" => prop_assert!(there.contains(&key)),
                _ => {
                    there.remove(&key);
                    deleted.insert(key);
                }
            }
        }
        let is_there: BTreeSet<String> = pair.indexer.list().iter().map(|o| o.key().to_string()).collect();
        prop_assert_eq!(&there, &is_there);
        let lately: BTreeSet<String> = young.union(&old).cloned().collect();
        prop_assert_eq!(deleted, lately);
    }
}

#[test]
fn an_adopted_deletion_stands_before_an_object_that_the_store_has_lost_since() {
    let before = standby(Delivery::Latest);
    before.add(&x("1"));
    before.delete(&x("2"));
    let after = Pair::new(RingOptions { max_keys: 0, told_elsewhere: true, ..RingOptions::default() });
    after.add_initial(&reborn("3"));
    after.indexer.apply([Delta::Deleted(reborn("4"))], None);
    // Parked: its deletion is on its way.
    assert!(after.told().is_empty());
    after.ring.adopt_deletions(&before.ring, &SHOWS_ALL);
    assert_eq!(after.told(), ["del? a/x -"]);
    after.ring.on_delete(reborn("4").key(), Some(&reborn("4")), false);
    after.ring.pending.lock().check();
    assert_eq!(after.told(), ["del? a/x -"]);
}
