//! The merge table, the bounds and the acknowledgement of the ring.

use std::sync::Arc;

use pilothouse_object::{Dictionary, Object};
use proptest::prelude::*;
use serde_json::json;

use super::{Delivery, Event, Ring, RingOptions};
use crate::testing::{View, config_map, config_maps, object};
use crate::{Delta, Indexer, Listener};

/// A ring and the store it stands behind, as an informer would drive them.
pub(super) struct Pair {
    pub(super) indexer: Arc<Indexer>,
    pub(super) ring: Arc<Ring>,
}

impl Pair {
    pub(super) fn new(options: RingOptions) -> Self {
        let indexer = Arc::new(Indexer::new(true));
        let ring = Ring::new(indexer.clone(), options);
        Self { indexer, ring }
    }

    fn latest() -> Self {
        Self::new(RingOptions::default())
    }

    pub(super) fn add(&self, object: &Object) {
        self.indexer.apply([Delta::Added(object.clone())], None);
        self.ring.on_add(object, false);
    }

    pub(super) fn add_initial(&self, object: &Object) {
        self.indexer.apply([Delta::Added(object.clone())], None);
        self.ring.on_add(object, true);
    }

    pub(super) fn update(&self, new: &Object) {
        let old = self.indexer.get(new.key()).expect("a legal test");
        self.indexer.apply([Delta::Updated(new.clone())], None);
        self.ring.on_update(&old, new, false);
    }

    pub(super) fn delete(&self, object: &Object) {
        self.indexer.apply([Delta::Deleted(object.clone())], None);
        self.ring.on_delete(object.key(), Some(object), false);
    }

    /// Takes everything that waits.
    pub(super) fn told(&self) -> Vec<String> {
        let mut told = Vec::new();
        while let Some(batch) = self.ring.try_next_batch(1000) {
            told.extend(batch.iter().map(describe));
        }
        self.ring.pending.lock().check();
        told
    }
}

fn describe(event: &Event) -> String {
    let version = |object: &Object| object.resource_version().to_owned();
    match event {
        Event::Added { object, initial, updated } => {
            let marks = format!("{}{}", if *initial { "!" } else { "" }, if *updated { "+" } else { "" });
            format!("add{marks} {} {}", object.key(), version(object))
        }
        Event::Updated { old, new } => {
            format!("upd {} {}>{}", new.key(), old.as_ref().map_or("-".into(), version), version(new))
        }
        Event::Deleted { key, object, final_state_unknown } => {
            let object = object.as_ref().map_or("-".into(), version);
            format!("del{} {key} {object}", if *final_state_unknown { "?" } else { "" })
        }
    }
}

pub(super) fn x(version: &str) -> Object {
    config_map("a/x", version)
}

pub(super) fn reborn(version: &str) -> Object {
    object(&config_maps().gvk, "a/x", "another", version, json!({}))
}

#[test]
fn added_and_updated_become_added_with_the_new_object() {
    let pair = Pair::latest();
    pair.add_initial(&x("1"));
    pair.update(&x("2"));
    assert_eq!(pair.told(), ["add!+ a/x 2"]);
}

#[test]
fn added_and_deleted_become_nothing() {
    let pair = Pair::latest();
    pair.add(&x("1"));
    pair.delete(&x("2"));
    assert!(pair.told().is_empty() && pair.ring.is_empty());
}

#[test]
fn updated_and_updated_become_one_from_the_first_old_to_the_last_new() {
    let pair = Pair::latest();
    pair.add(&x("1"));
    pair.told();
    for version in ["2", "3", "4"] {
        pair.update(&x(version));
    }
    assert_eq!(pair.told(), ["upd a/x 1>4"]);
    assert_eq!(pair.ring.metrics().coalesced, 2);
}

#[test]
fn updated_and_deleted_become_deleted() {
    let pair = Pair::latest();
    pair.add(&x("1"));
    pair.told();
    pair.update(&x("2"));
    pair.delete(&x("3"));
    assert_eq!(pair.told(), ["del a/x 3"]);
}

#[test]
fn deleted_and_added_stay_two_events_and_what_follows_joins_the_second() {
    let pair = Pair::latest();
    pair.add(&x("1"));
    pair.told();
    pair.delete(&x("2"));
    pair.add(&reborn("3"));
    pair.update(&reborn("4"));
    assert_eq!(pair.ring.len(), 1);
    assert_eq!(pair.told(), ["del a/x 2", "add+ a/x 4"]);

    pair.delete(&reborn("5"));
    pair.add(&x("6"));
    pair.delete(&x("7"));
    assert_eq!(pair.told(), ["del a/x 5"], "the first deletion is not lost with the short life after it");
}

#[test]
fn what_another_may_have_told_of_is_told_of_as_gone() {
    for (delivery, max_keys) in [(Delivery::Latest, 9), (Delivery::Latest, 0), (Delivery::Every, 0)] {
        let options = RingOptions { delivery, max_keys, told_elsewhere: true, ..RingOptions::default() };
        let pair = Pair::new(options);
        pair.add_initial(&x("1"));
        pair.update(&x("2"));
        pair.delete(&x("3"));
        // Many short lives leave no more than one deletion.
        for life in 2..20 {
            pair.add(&x(&format!("{life}0")));
            pair.delete(&x(&format!("{life}1")));
        }
        pair.ring.change(super::pending::Pending::end_initial_list);
        let told = pair.told();
        let wanted = if max_keys == 0 { "del? a/x -" } else { "del a/x 3" };
        assert_eq!(told, [wanted], "{delivery:?} {max_keys}");
        assert!(pair.ring.has_synced());
    }
    // Kept one by one until they are too many; then as above.
    let options = RingOptions { delivery: Delivery::Every, max_events: 4, told_elsewhere: true, max_keys: 9 };
    let pair = Pair::new(options);
    for life in 0..20 {
        pair.add(&x(&format!("{life}0")));
        pair.delete(&x(&format!("{life}1")));
    }
    assert_eq!(pair.told().len(), 4);
}

#[test]
fn two_events_of_a_key_may_be_handed_out_apart() {
    let pair = Pair::latest();
    pair.add(&x("1"));
    pair.told();
    pair.delete(&x("2"));
    pair.add(&reborn("3"));
    let first = pair.ring.try_next_batch(1).unwrap();
    assert_eq!(describe(&first[0]), "del a/x 2");
    pair.delete(&reborn("4"));
    assert!(pair.told().is_empty());
}

#[test]
fn keys_come_in_the_order_of_their_first_pending_event() {
    let pair = Pair::latest();
    for key in ["a/1", "a/2", "a/3"] {
        pair.add(&config_map(key, "1"));
    }
    pair.update(&config_map("a/1", "2"));
    pair.delete(&config_map("a/2", "3"));
    pair.add(&config_map("a/2", "4"));
    assert_eq!(pair.told(), ["add+ a/1 2", "add a/3 1", "add a/2 4"]);
}

#[test]
fn above_the_bound_bodies_are_read_again_at_delivery_and_no_key_is_lost() {
    let pair = Pair::new(RingOptions { max_keys: 4, ..RingOptions::default() });
    for key in ["a/1", "a/2", "a/3"] {
        pair.add(&config_map(key, "1"));
    }
    pair.told();
    pair.update(&config_map("a/1", "2"));
    pair.delete(&config_map("a/2", "3"));
    for key in ["a/4", "a/5", "a/6"] {
        pair.add(&config_map(key, "1"));
    }
    // Past the bound: what comes now has no body from the start.
    pair.update(&config_map("a/1", "4"));
    pair.update(&config_map("a/4", "5"));
    pair.delete(&config_map("a/3", "6"));
    assert_eq!(pair.ring.metrics().body_drops, 1);
    assert_eq!(
        pair.told(),
        ["upd a/1 ->4", "del? a/2 -", "add+ a/4 5", "add a/5 1", "add a/6 1", "del? a/3 -"]
    );
    // Down again: bodies are kept.
    pair.update(&config_map("a/1", "7"));
    assert_eq!(pair.told(), ["upd a/1 4>7"]);
}

#[test]
fn an_event_that_lost_its_body_takes_in_the_next_one_instead_of_telling_it_twice() {
    let every = RingOptions { delivery: Delivery::Every, max_keys: 2, ..RingOptions::default() };
    let pair = Pair::new(every);
    for key in ["a/1", "a/2", "a/3"] {
        pair.add(&config_map(key, "1"));
    }
    assert_eq!(pair.ring.try_next_batch(2).unwrap().len(), 2);
    pair.update(&config_map("a/3", "2"));
    pair.update(&config_map("a/3", "3"));
    assert_eq!(pair.told(), ["add+ a/3 2", "upd a/3 2>3"]);
}

#[test]
fn an_event_whose_object_the_store_has_dropped_waits_for_the_deletion_on_its_way() {
    let pair = Pair::new(RingOptions { max_keys: 1, ..RingOptions::default() });
    pair.add(&config_map("a/1", "1"));
    pair.told();
    pair.update(&config_map("a/1", "2"));
    pair.add(&config_map("a/2", "1"));
    // The informer changes the store first and tells us second; we come in between.
    for key in ["a/1", "a/2"] {
        pair.indexer.apply([Delta::Deleted(config_map(key, "9"))], None);
    }
    assert!(pair.told().is_empty());
    assert_eq!(pair.ring.len(), 2);
    for key in ["a/1", "a/2"] {
        pair.ring.on_delete(&key.parse().unwrap(), Some(&config_map(key, "9")), false);
    }
    assert_eq!(pair.told(), ["del? a/1 -"], "the update became a deletion, the add was settled by it");
    assert!(pair.ring.is_empty());
}

#[test]
fn every_keeps_each_event_up_to_the_bound_then_falls_back_and_counts() {
    let pair = Pair::new(RingOptions { delivery: Delivery::Every, max_events: 4, ..RingOptions::default() });
    pair.add(&x("1"));
    pair.update(&x("2"));
    pair.delete(&x("3"));
    pair.add(&reborn("4"));
    assert_eq!(pair.ring.metrics().fallbacks, 0);
    pair.update(&reborn("5"));
    pair.update(&reborn("6"));
    pair.add(&config_map("a/new", "7"));
    assert_eq!(pair.ring.metrics().fallbacks, 2);
    assert_eq!(pair.told(), ["add a/x 1", "upd a/x 1>2", "del a/x 3", "add+ a/x 6", "add a/new 7"]);
    pair.update(&reborn("8"));
    pair.update(&reborn("9"));
    assert_eq!(pair.told(), ["upd a/x 6>8", "upd a/x 8>9"], "below the bound each is kept again");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_that_is_dropped_has_taken_nothing() {
    let pair = Pair::latest();
    {
        let mut waiting = Box::pin(pair.ring.next_batch(10));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        pair.add(&x("1"));
    }
    let batch = pair.ring.next_batch(10).await.unwrap();
    assert_eq!(describe(&batch[0]), "add a/x 1");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_wakes_for_an_event_and_for_the_end() {
    let pair = Pair::latest();
    let ring = pair.ring.clone();
    let consumer = tokio::spawn(async move {
        let first = ring.next_batch(10).await.is_some();
        (first, ring.next_batch(10).await.is_none())
    });
    tokio::task::yield_now().await;
    pair.add(&x("1"));
    tokio::task::yield_now().await;
    pair.ring.close();
    assert_eq!(consumer.await.unwrap(), (true, true));
}

#[test]
fn a_closed_ring_takes_nothing_in_and_gives_nothing_out() {
    let pair = Pair::latest();
    pair.add(&x("1"));
    pair.ring.close();
    pair.update(&x("2"));
    assert!(pair.told().is_empty() && pair.ring.is_empty());
}

#[test]
fn synced_only_when_each_initial_event_was_acknowledged() {
    let pair = Pair::latest();
    pair.add_initial(&config_map("a/1", "1"));
    pair.add_initial(&config_map("a/2", "1"));
    let first = pair.ring.try_next_batch(1).unwrap();
    pair.ring.on_initial_list_end();
    let mut second = pair.ring.try_next_batch(1).unwrap();
    drop(first);
    assert!(!pair.ring.has_synced());
    drop(second.take());
    assert!(!pair.ring.has_synced(), "taking the events is not dealing with them");
    drop(second);
    assert!(pair.ring.has_synced());
    pair.add(&config_map("a/3", "1"));
    assert!(pair.ring.has_synced());
}

#[test]
fn an_empty_initial_list_is_synced_at_its_end_and_one_that_was_deleted_before_delivery_too() {
    let pair = Pair::latest();
    assert!(!pair.ring.has_synced());
    pair.ring.on_initial_list_end();
    assert!(pair.ring.has_synced());

    let pair = Pair::latest();
    pair.add_initial(&x("1"));
    pair.ring.on_initial_list_end();
    pair.delete(&x("2"));
    assert!(pair.ring.has_synced());
}

/// Whether a handle of a packed object keeps its text: copies of it share that, and else each unpacks its own.
fn keeps_text(object: &Object) -> bool {
    let copies = [object.clone(), object.clone()];
    std::ptr::eq(copies[0].json(), copies[1].json())
}

#[test]
fn what_waits_keeps_no_text_that_others_have_unpacked() {
    let numbers: Vec<u32> = (0..200).collect();
    let body = |n: u32| json!({"data": {"n": n, "numbers": format!("{numbers:?}")}});
    let make = |key: &str, n: u32| object(&config_maps().gvk, key, key, &n.to_string(), body(n));
    let plain: Vec<Object> = (0..100).map(|n| make(&format!("a/{n}"), n)).collect();
    let dictionary = Dictionary::train(&plain).unwrap();
    let packed = |key: &str, n: u32| {
        let object = make(key, n).packed(&dictionary);
        // As a filter does, or a listener that is called before the ring.
        assert!(object.is_packed() && object.get("/data/n").is_some() && keeps_text(&object));
        object
    };
    for (delivery, max_keys) in [(Delivery::Latest, 9), (Delivery::Every, 9), (Delivery::Latest, 0)] {
        let pair = Pair::new(RingOptions { delivery, max_keys, ..RingOptions::default() });
        pair.add(&packed("a/added", 1));
        pair.ring.on_update(&packed("a/updated", 1), &packed("a/updated", 2), false);
        // One that waits already, and the last of which stays.
        pair.ring.on_update(&packed("a/again", 1), &packed("a/again", 2), false);
        pair.ring.on_update(&packed("a/again", 2), &packed("a/again", 3), false);
        pair.ring.on_delete(&"a/deleted".parse().unwrap(), Some(&packed("a/deleted", 1)), false);
        let batch = pair.ring.try_next_batch(9).unwrap();
        let objects = batch.iter().flat_map(|event| match event {
            Event::Added { object, .. } => vec![object],
            Event::Updated { old, new } => old.iter().chain([new]).collect(),
            Event::Deleted { object, .. } => object.iter().collect(),
        });
        let kept: Vec<bool> = objects.map(keeps_text).collect();
        let wanted = match (delivery, max_keys) {
            (Delivery::Every, _) => 8,
            (Delivery::Latest, 0) => 1,
            _ => 6,
        };
        assert_eq!(kept, vec![false; wanted], "{delivery:?}, {max_keys} keys");
    }
}

#[test]
fn each_event_that_is_taken_in_calls_the_newest_waker_which_may_take_it() {
    let pair = Pair::latest();
    let calls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = || calls.swap(0, std::sync::atomic::Ordering::Relaxed);
    pair.ring.set_waker(|| panic!("it was replaced"));
    let (counted, same) = (Arc::clone(&calls), Arc::downgrade(&pair.ring));
    pair.ring.set_waker(move || {
        // Without the ring's lock.
        assert!(same.upgrade().is_some_and(|ring| ring.has_next()));
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    });
    pair.add(&x("1"));
    pair.update(&x("2"));
    assert_eq!(count(), 2);
    assert_eq!(pair.told().len(), 1);
    assert!(!pair.ring.has_next());
    pair.update(&x("3"));
    assert_eq!(count(), 1);
}

#[test]
fn it_shrinks_after_a_burst() {
    let pair = Pair::latest();
    for i in 0..50_000 {
        pair.add(&config_map(&format!("a/{i}"), "1"));
    }
    assert!(pair.ring.metrics().capacity >= 50_000);
    pair.told();
    assert!(pair.ring.metrics().capacity <= 4096, "{:?}", pair.ring.metrics());
    assert_eq!(pair.ring.metrics().peak_depth, 50_000);
}

proptest! {
    #[test]
    fn any_legal_sequence_stays_legal_and_ends_in_the_same_view(
        steps in prop::collection::vec((0_u8..4, 0_u8..4, 0_usize..4), 1..120),
        max_keys in 0_usize..4,
        max_events in 0_usize..6,
        every: bool,
    ) {
        let delivery = if every { Delivery::Every } else { Delivery::Latest };
        let pair = Pair::new(RingOptions { delivery, max_keys, max_events, ..RingOptions::default() });
        let mut view = View::default();
        let mut initial = true;
        for (version, (key, action, take)) in steps.into_iter().enumerate() {
            let key = format!("a/{key}");
            let held = pair.indexer.get_by_key(&key);
            let uid = held.as_ref().map_or_else(|| format!("born-{version}"), |held| held.uid().to_owned());
            let new = object(&config_maps().gvk, &key, &uid, &version.to_string(), json!({}));
            match (held, action) {
                (None, _) if initial => pair.add_initial(&new),
                (None, _) => pair.add(&new),
                (Some(_), 0) => pair.delete(&new),
                // The store is ahead of the ring while the consumer takes.
                (Some(_), 1) => {
                    pair.indexer.apply([Delta::Deleted(new.clone())], None);
                    if let Some(batch) = pair.ring.try_next_batch(take + 1) {
                        batch.iter().for_each(|event| view.event(event));
                    }
                    pair.ring.on_delete(new.key(), Some(&new), false);
                }
                (Some(_), _) => pair.update(&new),
            }
            if version == 20 {
                pair.ring.on_initial_list_end();
                initial = false;
            }
            if take > 0 && let Some(batch) = pair.ring.try_next_batch(take) {
                prop_assert!(batch.len() <= take);
                batch.iter().for_each(|event| view.event(event));
            }
            pair.ring.pending.lock().check();
        }
        pair.ring.on_initial_list_end();
        while let Some(batch) = pair.ring.try_next_batch(3) {
            batch.iter().for_each(|event| view.event(event));
        }
        prop_assert_eq!(view, View::of(&pair.indexer.list()));
        prop_assert!(pair.ring.is_empty() && pair.ring.has_synced());
    }
}

#[test]
fn a_body_let_go_is_not_replaced_by_the_next_object_under_its_key() {
    let pair = Pair::new(RingOptions { max_keys: 0, ..RingOptions::default() });
    pair.add(&x("1"));
    pair.told();
    pair.update(&x("2"));
    // Deleted and created again in the store; we have not been told yet.
    pair.indexer.apply([Delta::Deleted(x("3")), Delta::Added(reborn("4"))], None);
    assert!(pair.told().is_empty());
    pair.ring.on_delete(x("3").key(), Some(&x("3")), false);
    pair.ring.on_add(&reborn("4"), false);
    assert_eq!(pair.told(), ["del? a/x -", "add a/x 4"]);
}

/// A consumer on a thread of its own, with bodies let go most of the time: whatever comes between changing the store
/// and telling the ring, what the consumer is told is legal, across UIDs too.
#[test]
fn beside_a_real_thread_sequences_stay_legal_and_views_agree_at_rest() {
    let pair = Pair::new(RingOptions { max_keys: 3, ..RingOptions::default() });
    let ring = pair.ring.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let consumer = std::thread::spawn(move || {
        let mut view = View::default();
        // Ends with the key that is created last.
        while !view.objects.contains_key("end") {
            let batch = runtime.block_on(ring.next_batch(2)).unwrap();
            for event in batch.iter() {
                match event {
                    // An update read from the store may come again with an older `old`.
                    Event::Updated { new, .. } => view.update(None, new),
                    event => view.event(event),
                }
            }
        }
        while let Some(batch) = ring.try_next_batch(9) {
            batch.iter().for_each(|event| view.event(event));
        }
        view
    });
    for step in 0..40_000_u32 {
        let key = format!("a/{}", step.wrapping_mul(2_654_435_761) >> 16 & 7);
        let held = pair.indexer.get_by_key(&key);
        let uid = held.as_ref().map_or_else(|| format!("born-{step}"), |held| held.uid().to_owned());
        let new = object(&config_maps().gvk, &key, &uid, &step.to_string(), json!({}));
        match held {
            None => pair.add(&new),
            Some(_) if step % 3 == 0 => pair.delete(&new),
            Some(old) if step % 7 == 0 => {
                // A new UID: the store changes once, the ring is told twice.
                let reborn =
                    object(&config_maps().gvk, &key, &format!("re-{step}"), &step.to_string(), json!({}));
                pair.indexer.apply([Delta::Updated(reborn.clone())], None);
                pair.ring.on_delete(old.key(), Some(&old), true);
                pair.ring.on_add(&reborn, false);
            }
            Some(_) => pair.update(&new),
        }
    }
    pair.add(&object(&config_maps().gvk, "end", "end", "99999", json!({})));
    assert_eq!(consumer.join().unwrap(), View::of(&pair.indexer.list()));
}
