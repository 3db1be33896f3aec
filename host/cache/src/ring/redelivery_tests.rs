//! Events that their consumer could not handle: they are held back, merged with later ones, and never lost.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::tests::{Pair, reborn, x};
use super::{Delivery, Event, RingOptions};
use crate::Listener as _;
use crate::testing::{config_map, config_maps, object};

/// Takes one event, and fails to handle it.
fn fail_one(pair: &Pair) {
    let mut batch = pair.ring.try_next_batch(1).expect("an event");
    pair.ring.put_in_front(batch.take().remove(0));
}

#[test]
fn an_event_is_held_back_until_its_release() {
    let pair = Pair::new(RingOptions::default());
    pair.add_initial(&x("1"));
    pair.ring.on_initial_list_end();
    fail_one(&pair);
    assert!(pair.ring.has_synced(), "the first list was told once");
    assert!(pair.told().is_empty() && !pair.ring.has_next() && pair.ring.len() == 1);
    pair.ring.release([x("1").key()]);
    assert_eq!(pair.told(), ["add a/x 1"]);
    pair.ring.release([x("1").key()]);
    assert!(pair.told().is_empty());
}

#[test]
fn a_further_event_of_the_key_brings_it_back_merged() {
    let pair = Pair::new(RingOptions::default());
    pair.add(&x("1"));
    fail_one(&pair);
    pair.update(&x("2"));
    assert_eq!(pair.told(), ["add+ a/x 2"]);
    pair.update(&x("3"));
    fail_one(&pair);
    pair.update(&x("4"));
    assert_eq!(pair.told(), ["upd a/x 2>4"]);
    // A deletion is told, although the addition was told in vain only.
    let pair = Pair::new(RingOptions::default());
    pair.add(&x("1"));
    fail_one(&pair);
    pair.delete(&x("1"));
    assert_eq!(pair.told(), ["del a/x 1"]);
}

#[test]
fn an_event_goes_before_what_came_during_its_call() {
    let pair = Pair::new(RingOptions::default());
    pair.add(&x("1"));
    let mut batch = pair.ring.try_next_batch(1).unwrap();
    pair.update(&x("2"));
    pair.add(&config_map("a/y", "1"));
    pair.ring.put_in_front(batch.take().remove(0));
    assert_eq!(pair.told(), ["add a/y 1"], "what came before the failure waits with it");
    pair.ring.release([x("1").key()]);
    assert_eq!(pair.told(), ["add+ a/x 2"]);
    let every = Pair::new(RingOptions { delivery: Delivery::Every, ..RingOptions::default() });
    every.add(&x("1"));
    let mut batch = every.ring.try_next_batch(1).unwrap();
    every.update(&x("2"));
    every.ring.put_in_front(batch.take().remove(0));
    every.update(&x("3"));
    assert!(every.told().is_empty(), "each is told in its turn");
    every.ring.release([x("1").key()]);
    assert_eq!(every.told(), ["add a/x 1", "upd a/x 1>2", "upd a/x 2>3"]);
}

/// The deletion of an object that is there again is not told again and again.
#[test]
fn what_stands_behind_a_failed_event_waits_with_it() {
    let pair = Pair::new(RingOptions::default());
    pair.add(&x("1"));
    pair.told();
    pair.delete(&x("2"));
    pair.add(&reborn("3"));
    let mut batch = pair.ring.try_next_batch(2).unwrap();
    let events = batch.take();
    events.into_iter().rev().for_each(|event| pair.ring.put_in_front(event));
    assert!(pair.told().is_empty() && !pair.ring.has_next());
    pair.ring.release([x("1").key()]);
    assert_eq!(pair.told(), ["del a/x 2", "add a/x 3"]);
}

/// An update that a consumer before failed to handle takes in the addition of the first list, and no further event comes.
#[test]
fn the_first_list_is_complete_when_its_last_event_joins_a_failed_one() {
    let pair = Pair::new(RingOptions::default());
    pair.add_initial(&x("2"));
    pair.ring.on_initial_list_end();
    assert!(!pair.ring.has_synced());
    pair.ring.put_in_front(Event::Updated { old: Some(x("1")), new: x("2") });
    assert!(pair.ring.has_synced());
    pair.ring.release_all();
    assert_eq!(pair.told(), ["upd a/x 1>2"]);
}

proptest! {
    /// Whatever fails and whenever it is released, a consumer that handles all in the end has what the store has.
    #[test]
    fn nothing_is_lost_whatever_fails(
        steps in prop::collection::vec((0_u8..4, 0_u8..3, 0_usize..4, any::<u8>()), 1..150),
        max_keys in 0_usize..4,
        max_events in 0_usize..6,
        every: bool,
    ) {
        let delivery = if every { Delivery::Every } else { Delivery::Latest };
        let pair = Pair::new(RingOptions { delivery, max_keys, max_events, ..RingOptions::default() });
        let mut view = BTreeMap::new();
        let mut handle = |event: Event| {
            let key = event.key().to_string();
            match event {
                Event::Added { object, .. } | Event::Updated { new: object, .. } => {
                    view.insert(key, object.resource_version().to_owned());
                }
                Event::Deleted { .. } => _ = view.remove(&key),
            }
        };
        for (version, (key, action, take, fails)) in steps.into_iter().enumerate() {
            let key = format!("a/{key}");
            let held = pair.indexer.get_by_key(&key);
            let uid = held.as_ref().map_or_else(|| format!("born-{version}"), |held| held.uid().to_owned());
            let new = object(&config_maps().gvk, &key, &uid, &version.to_string(), json!({}));
            match (held, action) {
                (None, _) => pair.add(&new),
                (Some(_), 0) => pair.delete(&new),
                (Some(_), _) => pair.update(&new),
            }
            if take > 0 && let Some(mut batch) = pair.ring.try_next_batch(take) {
                // Those of one key in their order, as a consumer that stops at a failure would see them.
                let mut failed: Vec<Event> = Vec::new();
                for (n, event) in batch.take().into_iter().enumerate() {
                    let follows = failed.iter().any(|before| before.key() == event.key());
                    if follows || fails & (1 << n) != 0 { failed.push(event) } else { handle(event) }
                }
                failed.into_iter().rev().for_each(|event| pair.ring.put_in_front(event));
            }
            if fails > 200 {
                pair.ring.release([new.key()]);
            }
            pair.ring.pending.lock().check();
        }
        pair.ring.release_all();
        while let Some(mut batch) = pair.ring.try_next_batch(3) {
            batch.take().into_iter().for_each(&mut handle);
        }
        let stored: BTreeMap<String, String> = pair
            .indexer
            .list()
            .iter()
            .map(|object| (object.key().to_string(), object.resource_version().to_owned()))
            .collect();
        prop_assert_eq!(view, stored);
        prop_assert!(pair.ring.is_empty());
    }
}
