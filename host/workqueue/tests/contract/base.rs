//! The base queue: dirty and processing sets, one worker a key, waiting for a key.

use pilothouse_workqueue::{Item, Priority, Queue};
use tokio::time::advance;

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
    queue.done(item);
    assert!(queue.try_get().is_none());
}

#[test]
fn a_payload_is_handed_out_once() {
    let queue = TestQueue::new();
    queue.add_with("a", Reasons(1), Priority::NORMAL);
    let a = take(&queue);
    queue.add_with("a", Reasons(2), Priority::NORMAL);
    queue.done(a);
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
    let a = take(&queue);
    for bit in 0..5 {
        queue.add_with("a", Reasons(1 << bit), Priority::NORMAL);
    }
    queue.done(a);
    assert_eq!(queue.len(), 1);
    let again = take(&queue);
    assert_eq!(again.payload, Reasons(0b1_1111));
    queue.done(again);
    assert_eq!(queue.len(), 0);
}

#[test]
fn a_key_added_during_processing_joins_the_end_when_it_is_given_back() {
    let queue = TestQueue::new();
    queue.add("a");
    let a = take(&queue);
    queue.add("a");
    queue.add("b");
    queue.done(a);
    assert_eq!(drain(&queue), ["b", "a"]);
}

#[test]
fn other_keys_are_handed_out_during_processing() {
    let queue = TestQueue::new();
    queue.add("a");
    queue.add("b");
    let (a, b) = (take(&queue), take(&queue));
    assert_eq!((a.key, b.key), ("a", "b"));
    queue.done(b);
    queue.done(a);
    assert_eq!(queue.stats().processing, 0);
}

#[test]
fn done_of_a_key_that_nobody_processes_does_nothing() {
    let queue = TestQueue::new();
    let done_elsewhere = |key| {
        let other = TestQueue::new();
        other.add(key);
        queue.done(take(&other));
    };
    done_elsewhere("unknown");
    queue.add("queued");
    done_elsewhere("queued");
    assert_eq!(queue.len(), 1);
    assert_eq!(drain(&queue), ["queued"]);
    done_elsewhere("queued");
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
    let a = take(&queue);
    let mut get = Polled::pending(queue.get());
    queue.add("a");
    assert!(!get.woken());
    queue.done(a);
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
    assert_eq!(take(&queue).key, "a");
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
    assert_eq!(take(&queue).key, "a");
    assert!(get.poll().is_pending());
    queue.add("b");
    assert_eq!(get.output().expect("added").key, "b");
}

#[test]
fn a_get_that_is_polled_without_a_wake_up_takes_a_key_and_the_one_that_was_woken_waits_on() {
    let queue = TestQueue::new();
    let mut woken = Polled::pending(queue.get());
    let mut other = Polled::pending(queue.get());
    queue.add("a");
    assert!(woken.woken() && !other.woken());
    assert_eq!(other.ready().expect("added").key, "a");
    assert!(woken.poll().is_pending());
    let last = Polled::pending(queue.get());
    queue.add("b");
    assert!(!last.woken(), "the one before it waits longer");
    assert_eq!(woken.ready().expect("added").key, "b");
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

fn keys(items: &[Item<u32>]) -> Vec<u32> {
    items.iter().map(|item| item.key).collect()
}

#[tokio::test(start_paused = true)]
async fn a_key_held_while_its_slot_was_moved_is_given_back_and_no_other() {
    let queue: Queue<u32> = Queue::new();
    (0..100).for_each(|key| queue.add(key));
    let mut held: Vec<_> = (0..100).map(|_| queue.try_get().expect("queued")).collect();
    let (last, fifth) = (held.remove(99), held.remove(5));
    held.into_iter().for_each(|item| queue.done(item));
    advance(ms(30_000)).await;
    assert_eq!(queue.len(), 0, "looks at the queue, which now moves the two keys to its first slots");
    (200..210).for_each(|key| queue.add(key));
    let others: Vec<_> = (0..10).map(|_| queue.try_get().expect("queued")).collect();
    // Its slot is another key's by now.
    queue.done(fifth);
    queue.done(last);
    assert_eq!(queue.stats().processing, 10);
    [5, 99].into_iter().chain(200..210).for_each(|key| queue.add(key));
    assert_eq!(keys(&[queue.try_get().expect("5"), queue.try_get().expect("99")]), [5, 99]);
    assert!(queue.try_get().is_none(), "the others are with their worker");
    others.into_iter().for_each(|item| queue.done(item));
    assert_eq!((queue.len(), queue.stats().processing), (10, 2));
}

#[test]
fn keys_can_be_raised_out_of_the_middle_of_a_class_after_compaction() {
    let queue: Queue<u32> = Queue::new();
    (0..4_000).for_each(|key| queue.add(key));
    let held: Vec<_> = (0..4_000).map(|_| queue.try_get().expect("queued")).collect();
    (0..4_000).step_by(400).for_each(|key| queue.add_with(key, (), Priority::LOW));
    // Given back from the last to the first, so that the list of keys in processing is cut at its end.
    held.into_iter().rev().for_each(|item| queue.done(item));
    queue.add(2_000);
    queue.add(400);
    let rest: Vec<_> = std::iter::from_fn(|| queue.try_get()).collect();
    assert_eq!(keys(&rest), [2_000, 400, 3_600, 3_200, 2_800, 2_400, 1_600, 1_200, 800, 0]);
    rest.into_iter().for_each(|item| queue.done(item));
    assert_eq!((queue.len(), queue.stats().processing), (0, 0));
}

#[test]
fn all_keys_survive_the_growth_and_compaction_of_the_table() {
    let queue: Queue<u32> = Queue::new();
    (0..5_000).for_each(|key| queue.add(key));
    let held: Vec<_> = (0..5_000).map(|_| queue.try_get().expect("queued")).collect();
    assert!(keys(&held).into_iter().eq(0..5_000), "first in, first out");
    // Every 50th key is wanted again or delayed when the others go; the table shrinks around them.
    for key in (0..5_000).step_by(50) {
        if key % 100 == 0 {
            queue.add(key);
        } else {
            queue.add_after(key, (), Priority::NORMAL, ms(3_600_000));
        }
    }
    held.into_iter().for_each(|item| queue.done(item));
    assert_eq!((queue.len(), queue.len_delayed()), (50, 50));
    assert_eq!(queue.expedite_all(|_| true), 50);
    let rest: Vec<_> = std::iter::from_fn(|| queue.try_get()).collect();
    // First in, first out; then in the order of the deadlines.
    assert!(keys(&rest).into_iter().eq((0..5_000).step_by(100).chain((50..5_000).step_by(100))));
    rest.into_iter().for_each(|item| queue.done(item));
    queue.add(7);
    assert_eq!(queue.try_get().expect("added").key, 7);
}

#[test]
fn keys_have_room_together_or_not_at_all() {
    let queue = TestQueue::new();
    queue.add("a");
    queue.add("b");
    assert!(queue.has_room_for(&"c", 3) && queue.has_room_for(&"a", 2) && !queue.has_room_for(&"c", 2));
    assert!(queue.has_room_for_all(&["a", "c"], 3), "one of them is there");
    assert!(!queue.has_room_for_all(&["a", "c", "d"], 3));
    assert!(queue.has_room_for_all(&["a", "b"], 0) && queue.has_room_for_all(&[], 0));
}

#[tokio::test(start_paused = true)]
async fn a_key_is_due_within_a_time_when_its_deadline_is_near() {
    let queue = TestQueue::new();
    assert!(!queue.is_due_within(ms(1000)));
    queue.add("ready");
    queue.add_after("far", Reasons(0), Priority::NORMAL, ms(3_600_000));
    assert!(!queue.is_due_within(ms(1000)));
    queue.add_after("near", Reasons(0), Priority::NORMAL, ms(20));
    assert!(queue.is_due_within(ms(1000)));
    assert!(!queue.is_due_within(ms(1)));
}
