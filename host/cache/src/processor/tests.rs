//! Slices of calls, and replays in turns.

use std::collections::BTreeSet;
use std::sync::Arc;

use pilothouse_object::{Object, ObjectKey};
use serde_json::json;
use tokio::sync::watch;

use super::*;
use crate::handlers::{EventFilter, FilteringResourceEventHandler};
use crate::indexer::Indexer;
use crate::interest::{Interest, Judge};
use crate::listener::Listener;
use crate::notification::{Notification, Verdict};
use crate::testing::{Recorder, config_map, config_maps, object};

#[test]
fn a_short_replay_does_not_wait_for_a_long_one() {
    let indexer = Indexer::new(true);
    indexer.replace((0..5000).map(|n| config_map(&format!("a/{n}"), "1")).collect(), Some("1"), false);
    let mut processor = Processor { slice: Duration::MAX, ..Processor::new(config_maps().gvr(), None) };
    processor.end_initial_list(&|_| false);
    let mut join = |id, snapshot: &Snapshot| {
        let listener = Recorder::new();
        let (delivered, is_delivered) = watch::channel(false);
        let new = NewMember { id, listener: listener.clone(), resync: None, delivered };
        processor.add(new, snapshot);
        (listener, is_delivered)
    };
    let long = join(0, &indexer.snapshot());
    indexer.replace(vec![config_map("a/1", "1")], Some("2"), false);
    let short = join(1, &indexer.snapshot());
    assert!(processor.replay(&|_| false));
    assert_eq!((*short.1.borrow(), *long.1.borrow()), (true, false));
    assert_eq!((short.0.calls().len(), long.0.calls().len()), (2, CHUNK / 2));
    while processor.replay(&|_| false) {}
    assert_eq!((*long.1.borrow(), long.0.calls().len()), (true, 5001));
}

/// Keeps the keys that were added.
struct Keys(parking_lot::Mutex<Vec<String>>);

impl Listener for Keys {
    fn on_add(&self, object: &Object, _: bool) {
        self.0.lock().push(object.key().to_string());
    }
    fn on_update(&self, _: &Object, _: &Object, _: bool) {}
    fn on_delete(&self, _: &ObjectKey, _: Option<&Object>, _: bool) {}
}

fn listeners(processor: &mut Processor, count: u64) -> Vec<Arc<Keys>> {
    let empty = Indexer::new(true).snapshot();
    let join = |id| {
        let listener = Arc::new(Keys(parking_lot::Mutex::default()));
        let (delivered, _) = watch::channel(false);
        let new = NewMember { id, listener: listener.clone(), resync: None, delivered };
        processor.add(new, &empty);
        while processor.replay(&|_| false) {}
        listener
    };
    (0..count).map(join).collect()
}

/// The number of listeners is that of the plugins: a batch of changes must not hold the thread for all of them.
#[test]
fn a_slice_ends_between_two_listeners_and_none_is_called_twice_or_left_out() {
    let mut processor = Processor { slice: Duration::MAX, ..Processor::new(config_maps().gvr(), None) };
    processor.end_initial_list(&|_| false);
    let count = CHUNK as u64 * 2 / 3;
    let mut all = listeners(&mut processor, count);
    let changes = ["a/1", "a/2", "a/3"].map(|key| Change::Added(config_map(key, "1")));
    processor.enqueue(changes.into_iter(), false, Audience::Due);
    assert!(processor.distribute(&|_| false));
    let calls = |all: &[Arc<Keys>]| all.iter().map(|one| one.0.lock().len()).sum::<usize>();
    assert!((CHUNK - 3..=CHUNK).contains(&calls(&all)), "{} calls", calls(&all));
    // One that has left, and one that has come: it gets the objects with the store.
    processor.remove(0);
    all.extend(listeners(&mut processor, 1));
    while processor.distribute(&|_| false) {}
    for (at, listener) in all.iter().enumerate() {
        let calls = listener.0.lock().clone();
        match at {
            0 => assert!(calls.len() < 3, "it had left"),
            _ if at == all.len() - 1 => assert_eq!(calls, [""; 0], "it came later"),
            _ => assert_eq!(calls, ["a/1", "a/2", "a/3"], "listener {at}"),
        }
    }
}

#[test]
fn a_slice_ends_when_its_time_is_over() {
    let mut processor = Processor { slice: Duration::MAX, ..Processor::new(config_maps().gvr(), None) };
    processor.end_initial_list(&|_| false);
    let all = listeners(&mut processor, 2);
    processor.slice = Duration::from_nanos(1);
    let changes = ["a/1", "a/2"].map(|key| Change::Added(config_map(key, "1")));
    processor.enqueue(changes.into_iter(), false, Audience::Due);
    let mut slices = 0;
    while processor.distribute(&|_| false) {
        slices += 1;
    }
    assert_eq!((slices, all[0].0.lock().len(), all[1].0.lock().len()), (4, 2, 2));
}

/// Notes what it is called for, and takes the place of another listener.
struct Successor(Arc<parking_lot::Mutex<Vec<String>>>);

impl Listener for Successor {
    fn on_add(&self, object: &Object, is_in_initial_list: bool) {
        let word = if is_in_initial_list { "initial" } else { "add" };
        self.0.lock().push(format!("{word} {}", object.key()));
    }

    fn on_update(&self, _: &Object, new: &Object, _: bool) {
        self.0.lock().push(format!("update {}", new.key()));
    }

    fn on_delete(&self, key: &ObjectKey, _: Option<&Object>, _: bool) {
        self.0.lock().push(format!("delete {key}"));
    }

    fn takes_waiting_changes(&self) -> bool {
        true
    }
}

/// Shows objects with the label `app=web`.
#[derive(Clone, PartialEq)]
struct Web;

impl EventFilter for Web {
    fn shows(&self, object: &Object) -> bool {
        object.label("app").as_deref() == Some("web")
    }

    fn interest(&self) -> Option<Interest> {
        Some(Interest::new(Self).with_labels(&"app=web".parse().unwrap()))
    }
}

impl Judge for Web {
    fn judge(&self, notification: &Notification<'_>) -> Option<Verdict> {
        self.verdict(notification)
    }

    fn is_equal(&self, other: &dyn Judge) -> bool {
        (other as &dyn std::any::Any).downcast_ref() == Some(self)
    }
}

/// An object that the filter of [`join_behind_filter`] shows.
fn web(key: &str, version: &str) -> Object {
    let labels = json!({"metadata": {"labels": {"app": "web"}}});
    object(&config_maps().gvk, key, &format!("uid-of-{key}"), version, labels)
}

/// Adds a listener behind a filter, and gives it its initial objects. Returns what it is called for.
fn join_behind_filter(processor: &mut Processor, id: u64) -> Arc<parking_lot::Mutex<Vec<String>>> {
    let calls = Arc::<parking_lot::Mutex<Vec<String>>>::default();
    let successor = Arc::new(Successor(Arc::clone(&calls)));
    let listener = Arc::new(FilteringResourceEventHandler::new(Web, successor));
    let (delivered, _) = watch::channel(false);
    let snapshot = Indexer::new(true).snapshot();
    processor.add(NewMember { id, listener, resync: None, delivered }, &snapshot);
    while processor.replay(&|_| false) {}
    calls
}

/// A reload adds the listeners of the next generation, and then removes those of the one before: what waits in the informer at
/// that moment comes to one of the two.
#[test]
fn a_listener_that_takes_the_place_of_another_is_called_for_what_that_one_was_still_to_get() {
    // No list shows the first one.
    let changes = || {
        let gone = web("a/1", "1");
        [
            Change::Deleted { key: gone.key().clone(), object: Some(gone), final_state_unknown: false },
            Change::Added(web("a/2", "2")),
            Change::Updated { old: web("a/3", "1"), new: web("a/3", "3") },
        ]
    };
    let all = ["delete a/1", "add a/2", "update a/3"];
    let mut moments = BTreeSet::new();
    // Three listeners and two groups: a change takes four slices.
    for slices in 0..=4 * all.len() {
        let mut processor = Processor { slice: Duration::MAX, ..Processor::new(config_maps().gvr(), None) };
        processor.end_initial_list(&|_| false);
        let before = join_behind_filter(&mut processor, 1000);
        listeners(&mut processor, 2);
        processor.slice = Duration::from_nanos(1);
        processor.enqueue(changes().into_iter(), false, Audience::Resyncing);
        (0..slices).for_each(|_| _ = processor.distribute(&|_| false));
        let after = join_behind_filter(&mut processor, 1001);
        processor.remove(1000);
        while processor.distribute(&|_| false) || processor.replay(&|_| false) {}
        let (before, after) = (before.lock().clone(), after.lock().clone());
        let are_in_order = all[..before.len()] == before[..] && all[all.len() - after.len()..] == after[..];
        assert!(are_in_order, "{slices}: {before:?}, {after:?}");
        assert!(before.len() + after.len() >= all.len(), "{slices}: {before:?}, {after:?}");
        moments.insert((before.len(), after.len()));
    }
    for moment in [(0, 3), (1, 3), (1, 2), (3, 0)] {
        assert!(moments.contains(&moment), "{moment:?} is none of {moments:?}");
    }
}

#[test]
fn a_listener_that_takes_the_place_of_another_gets_the_first_list_as_its_initial_objects_alone() {
    let mut processor = Processor { slice: Duration::MAX, ..Processor::new(config_maps().gvr(), None) };
    processor.enqueue([Change::Added(web("a/1", "1"))].into_iter(), true, Audience::Resyncing);
    // The store would have shown it.
    let calls = join_behind_filter(&mut processor, 0);
    while processor.distribute(&|_| false) {}
    assert_eq!(*calls.lock(), [""; 0]);
}
