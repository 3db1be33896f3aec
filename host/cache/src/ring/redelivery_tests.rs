//! Events that their consumer could not handle: they are held back, merged with later ones, and never lost.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::tests::{Pair, x};
use super::{Delivery, Event, RingOptions};
use crate::Listener as _;
use crate::testing::{config_map, config_maps, object};

/// Takes one event, and fails to handle it.
fn fail_one(pair: &Pair) -> bool {
    let mut batch = pair.ring.try_next_batch(1).expect("an event");
    pair.ring.put_in_front(batch.take().remove(0))
}

#[test]
fn an_event_is_held_back_until_its_release() {
    let pair = Pair::new(RingOptions::default());
    pair.add_initial(&x("1"));
    pair.ring.on_initial_list_end();
    assert!(fail_one(&pair), "nothing else waits");
    assert!(pair.ring.has_synced(), "the first list was told once");
    assert!(pair.told().is_empty() && !pair.ring.has_next() && pair.ring.len() == 1);
    pair.ring.release([x("1").key()]);
    assert_eq!(pair.told(), ["add a/x 1"]);
    pair.ring.release([x("1").key()]);
    assert!(pair.told().is_empty());
}

#[test]
fn a_later_event_of_the_key_brings_it_back_merged() {
    let pair = Pair::new(RingOptions::default());
    pair.add(&x("1"));
    assert!(fail_one(&pair));
    pair.update(&x("2"));
    assert_eq!(pair.told(), ["add+ a/x 2"]);
    pair.update(&x("3"));
    assert!(fail_one(&pair));
    pair.update(&x("4"));
    assert_eq!(pair.told(), ["upd a/x 2>4"]);
    // A deletion is told, although the addition was told in vain only.
    let pair = Pair::new(RingOptions::default());
    pair.add(&x("1"));
    assert!(fail_one(&pair));
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
    assert!(!pair.ring.put_in_front(batch.take().remove(0)), "there is more to tell");
    assert_eq!(pair.told(), ["add+ a/x 2", "add a/y 1"]);
    let every = Pair::new(RingOptions { delivery: Delivery::Every, ..RingOptions::default() });
    every.add(&x("1"));
    let mut batch = every.ring.try_next_batch(1).unwrap();
    every.update(&x("2"));
    every.ring.put_in_front(batch.take().remove(0));
    assert_eq!(every.told(), ["add a/x 1", "upd a/x 1>2"]);
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
                failed.into_iter().rev().for_each(|event| _ = pair.ring.put_in_front(event));
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
