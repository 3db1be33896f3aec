//! Slices of calls, and replays in turns.

use std::sync::Arc;

use pilothouse_object::ObjectKey;
use tokio::sync::watch;

use super::*;
use crate::indexer::Indexer;
use crate::listener::Listener;
use crate::testing::{Recorder, config_map, config_maps};

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
    fn on_add(&self, object: &pilothouse_object::Object, _: bool) {
        self.0.lock().push(object.key().to_string());
    }
    fn on_update(&self, _: &pilothouse_object::Object, _: &pilothouse_object::Object, _: bool) {}
    fn on_delete(&self, _: &ObjectKey, _: Option<&pilothouse_object::Object>, _: bool) {}
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
