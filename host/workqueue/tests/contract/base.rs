//! The base queue: dirty and processing sets, one worker a key, waiting for a key.

use std::collections::HashSet;

use pilothouse_workqueue::{Priority, Queue};

use crate::helpers::{Polled, Reasons, TestQueue, drain, ms, take};

#[test]
fn keys_are_handed_out_in_the_order_of_their_first_add() {
    let queue = TestQueue::new();
    for key in ["c", "a", "b", "a", "c"] {
        queue.add(key);
    }
    assert_eq!(drain(&queue), ["c", "a", "b"]);
}

#[test]
fn handles_show_the_same_queue() {
    let queue = TestQueue::new();
    queue.clone().add("a");
    assert_eq!(queue.len(), 1);
}

#[test]
fn adds_of_a_queued_key_merge_into_one_run() {
    let queue = TestQueue::new();
    queue.add_with("a", Reasons(0b001), Priority::NORMAL);
    queue.add_with("a", Reasons(0b100), Priority::NORMAL);
    queue.add_with("a", Reasons(0b010), Priority::LOW);
    assert_eq!(queue.len(), 1);
    let item = queue.try_get().expect("queued");
    assert_eq!((item.key, item.payload, item.priority), ("a", Reasons(0b111), Priority::NORMAL));
    queue.done_key(&"a");
    assert!(queue.try_get().is_none());
}

#[test]
fn a_payload_is_handed_out_once() {
    let queue = TestQueue::new();
    queue.add_with("a", Reasons(1), Priority::NORMAL);
    take(&queue);
    queue.add_with("a", Reasons(2), Priority::NORMAL);
    queue.done_key(&"a");
    assert_eq!(queue.try_get().expect("dirty").payload, Reasons(2));
}

#[test]
fn a_key_in_processing_is_not_handed_out_again() {
    let queue = TestQueue::new();
    queue.add("a");
    take(&queue);
    queue.add("a");
    assert_eq!(queue.len(), 0);
    assert!(queue.try_get().is_none());
}

#[test]
fn any_number_of_adds_during_processing_gives_exactly_one_more_run() {
    let queue = TestQueue::new();
    queue.add("a");
    take(&queue);
    for bit in 0..5 {
        queue.add_with("a", Reasons(1 << bit), Priority::NORMAL);
    }
    queue.done_key(&"a");
    assert_eq!(queue.len(), 1);
    assert_eq!(queue.try_get().expect("dirty").payload, Reasons(0b1_1111));
    queue.done_key(&"a");
    assert_eq!(queue.len(), 0);
}

#[test]
fn a_key_added_during_processing_joins_the_end_when_it_is_given_back() {
    let queue = TestQueue::new();
    queue.add("a");
    take(&queue);
    queue.add("a");
    queue.add("b");
    queue.done_key(&"a");
    assert_eq!(drain(&queue), ["b", "a"]);
}

#[test]
fn other_keys_are_handed_out_during_processing() {
    let queue = TestQueue::new();
    queue.add("a");
    queue.add("b");
    assert_eq!((take(&queue), take(&queue)), ("a", "b"));
    queue.done_key(&"b");
    queue.done_key(&"a");
    assert_eq!(queue.stats().processing, 0);
}

#[test]
fn done_of_a_key_that_nobody_processes_does_nothing() {
    let queue = TestQueue::new();
    queue.done_key(&"unknown");
    queue.add("queued");
    queue.done_key(&"queued");
    assert_eq!(queue.len(), 1);
    assert_eq!(drain(&queue), ["queued"]);
    queue.done_key(&"queued");
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn len_excludes_processing_and_delayed() {
    let queue = TestQueue::new();
    for key in ["a", "b", "c"] {
        queue.add(key);
    }
    queue.add_after("d", Reasons(0), Priority::NORMAL, ms(1));
    take(&queue);
    assert_eq!((queue.len(), queue.len_delayed(), queue.stats().processing), (2, 1, 1));
}

#[test]
fn get_waits_until_an_add() {
    let queue = TestQueue::new();
    let mut get = Polled::pending(queue.get());
    assert!(!get.woken());
    queue.add("a");
    assert_eq!(get.output().expect("added").key, "a");
}

#[test]
fn get_waits_until_a_key_added_during_processing_is_given_back() {
    let queue = TestQueue::new();
    queue.add("a");
    take(&queue);
    let mut get = Polled::pending(queue.get());
    queue.add("a");
    assert!(!get.woken());
    queue.done_key(&"a");
    assert_eq!(get.output().expect("dirty").key, "a");
}

#[test]
fn each_add_wakes_one_waiter_the_longest_waiting_first() {
    let queue = TestQueue::new();
    let mut first = Polled::pending(queue.get());
    let mut second = Polled::pending(queue.get());
    queue.add("a");
    assert!(first.woken() && !second.woken());
    queue.add("b");
    assert_eq!(second.output().expect("added").key, "a");
    assert_eq!(first.output().expect("added").key, "b");
}

#[test]
fn a_dropped_get_loses_no_key() {
    let queue = TestQueue::new();
    let get = Polled::pending(queue.get());
    queue.add("a");
    drop(get);
    assert_eq!(queue.len(), 1);
    assert_eq!(take(&queue), "a");
}

#[test]
fn a_dropped_get_passes_its_wake_up_on() {
    let queue = TestQueue::new();
    let first = Polled::pending(queue.get());
    let mut second = Polled::pending(queue.get());
    queue.add("a");
    assert!(first.woken() && !second.woken());
    drop(first);
    assert_eq!(second.output().expect("added").key, "a");
}

#[test]
fn a_dropped_get_that_was_not_woken_takes_no_wake_up() {
    let queue = TestQueue::new();
    let first = Polled::pending(queue.get());
    let mut second = Polled::pending(queue.get());
    drop(first);
    queue.add("a");
    assert_eq!(second.output().expect("added").key, "a");
}

#[test]
fn a_waiter_whose_key_was_snatched_waits_on() {
    let queue = TestQueue::new();
    let mut get = Polled::pending(queue.get());
    queue.add("a");
    assert_eq!(take(&queue), "a");
    assert!(get.poll().is_pending());
    queue.add("b");
    assert_eq!(get.output().expect("added").key, "b");
}

#[tokio::test]
async fn a_worker_that_always_finds_a_key_lets_other_tasks_run() {
    let queue = TestQueue::new();
    let worker = queue.clone();
    let busy = tokio::spawn(async move {
        while let Some(item) = worker.get().await {
            worker.add(item.key);
            worker.done(item);
        }
    });
    queue.add("a");
    tokio::task::yield_now().await;
    queue.shut_down();
    busy.await.expect("ends");
}

#[test]
fn handles_and_futures_may_go_to_other_threads() {
    fn is_send<T: Send>(_: &T) {}
    fn is_sync<T: Sync>(_: &T) {}
    let queue: Queue<String, Reasons> = Queue::default();
    is_send(&queue);
    is_sync(&queue);
    is_send(&queue.get());
    is_send(&queue.shut_down_with_drain());
}

#[test]
fn keys_can_be_raised_out_of_the_middle_of_a_class_after_compaction() {
    let queue: Queue<u32> = Queue::new();
    (0..4_000).for_each(|key| queue.add(key));
    let held: Vec<u32> = (0..4_000).map(|_| queue.try_get().expect("queued").key).collect();
    (0..4_000).step_by(400).for_each(|key| queue.add_with(key, (), Priority::LOW));
    // Given back from the last to the first, so that the list of keys in processing is cut at its end.
    held.iter().rev().for_each(|key| queue.done_key(key));
    queue.add(2_000);
    queue.add(400);
    let rest: Vec<u32> = std::iter::from_fn(|| queue.try_get()).map(|item| item.key).collect();
    assert_eq!(rest, [2_000, 400, 3_600, 3_200, 2_800, 2_400, 1_600, 1_200, 800, 0]);
    rest.iter().for_each(|key| queue.done_key(key));
    assert_eq!((queue.len(), queue.stats().processing), (0, 0));
}

#[test]
fn all_keys_survive_the_growth_and_compaction_of_the_table() {
    let queue: Queue<u32> = Queue::new();
    (0..5_000).for_each(|key| queue.add(key));
    let held: Vec<u32> = (0..5_000).map(|_| queue.try_get().expect("queued").key).collect();
    assert!(held.iter().copied().eq(0..5_000), "first in, first out");
    // Every 50th key is wanted again or delayed when the others go; the table shrinks around them.
    for key in (0..5_000).step_by(50) {
        if key % 100 == 0 {
            queue.add(key);
        } else {
            queue.add_after(key, (), Priority::NORMAL, ms(3_600_000));
        }
    }
    held.iter().for_each(|key| queue.done_key(key));
    assert_eq!((queue.len(), queue.len_delayed()), (50, 50));
    assert_eq!(queue.expedite_all(|_| true), 50);
    let rest: Vec<u32> = std::iter::from_fn(|| queue.try_get()).map(|item| item.key).collect();
    let expected: HashSet<u32> = (0..5_000).step_by(50).collect();
    assert_eq!(rest.len(), expected.len());
    assert!(rest[..50].iter().copied().eq((0..5_000).step_by(100)), "first in, first out");
    assert!(rest[50..].iter().copied().eq((50..5_000).step_by(100)), "in the order of the deadlines");
    rest.iter().for_each(|key| queue.done_key(key));
    queue.add(7);
    assert_eq!(queue.try_get().expect("added").key, 7);
}
