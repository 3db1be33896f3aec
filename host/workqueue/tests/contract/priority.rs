//! The two classes.

use pilothouse_workqueue::{Priority, Queue};

use crate::helpers::{Reasons, TestQueue, drain, ms, take};

fn low(queue: &TestQueue, key: &'static str) {
    queue.add_with(key, Reasons(0), Priority::LOW);
}

/// A queue with the keys of `low` and `normal` added in these classes.
fn queue_of(low: impl Iterator<Item = u32>, normal: impl Iterator<Item = u32>) -> Queue<u32> {
    let queue = Queue::new();
    low.for_each(|key| queue.add_with(key, (), Priority::LOW));
    normal.for_each(|key| queue.add(key));
    queue
}

fn keys(queue: &Queue<u32>) -> Vec<u32> {
    std::iter::from_fn(|| queue.try_get()).map(|item| item.key).collect()
}

#[test]
fn normal_goes_before_low_and_each_class_is_first_in_first_out() {
    let queue = TestQueue::new();
    low(&queue, "low 1");
    queue.add("normal 1");
    low(&queue, "low 2");
    queue.add("normal 2");
    assert_eq!(drain(&queue), ["normal 1", "normal 2", "low 1", "low 2"]);
}

#[test]
fn an_item_tells_its_priority() {
    let queue = TestQueue::new();
    low(&queue, "a");
    queue.add("b");
    let priorities: Vec<Priority> =
        std::iter::from_fn(|| queue.try_get()).map(|item| item.priority).collect();
    assert_eq!(priorities, [Priority::NORMAL, Priority::LOW]);
}

#[test]
fn a_higher_add_raises_a_queued_key_to_the_end_of_that_class() {
    let queue = TestQueue::new();
    low(&queue, "low");
    low(&queue, "raised");
    queue.add("normal 1");
    queue.add("raised");
    queue.add("normal 2");
    assert_eq!(queue.len(), 4);
    assert_eq!(drain(&queue), ["normal 1", "raised", "normal 2", "low"]);
}

#[test]
fn a_lower_add_lowers_nothing() {
    let queue = TestQueue::new();
    low(&queue, "low");
    queue.add("a");
    low(&queue, "a");
    assert_eq!(drain(&queue), ["a", "low"]);
}

#[test]
fn a_key_added_during_processing_takes_the_highest_priority_of_these_adds() {
    let queue = TestQueue::new();
    queue.add("a");
    take(&queue);
    low(&queue, "a");
    queue.add("a");
    low(&queue, "a");
    low(&queue, "low");
    queue.done_key(&"a");
    assert_eq!(drain(&queue), ["a", "low"]);
}

#[test]
fn the_priority_of_a_run_is_not_kept_for_the_next() {
    let queue = TestQueue::new();
    queue.add("a");
    take(&queue);
    low(&queue, "low");
    low(&queue, "a");
    queue.done_key(&"a");
    assert_eq!(drain(&queue), ["low", "a"]);
}

#[test]
fn one_low_key_is_handed_out_after_every_sixteen_normal_ones() {
    let queue = queue_of(100..103, 0..40);
    let mut expected: Vec<u32> = (0..40).collect();
    expected.insert(16, 100);
    expected.insert(33, 101);
    expected.push(102);
    assert_eq!(keys(&queue), expected);
}

#[test]
fn only_normal_keys_handed_out_while_low_ones_wait_count() {
    let queue = queue_of(0..0, 0..50);
    for _ in 0..20 {
        queue.try_get().expect("queued");
    }
    queue.add_with(100, (), Priority::LOW);
    let rest = keys(&queue);
    assert_eq!(rest.iter().position(|&key| key == 100), Some(16));
}

#[test]
fn a_low_key_handed_out_for_want_of_normal_ones_restarts_the_count() {
    let queue = queue_of(100..102, 0..10);
    for _ in 0..11 {
        queue.try_get().expect("queued");
    }
    (10..40).for_each(|key| queue.add(key));
    assert_eq!(keys(&queue).iter().position(|&key| key == 101), Some(16));
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_keeps_the_highest_priority_of_its_adds() {
    let queue = TestQueue::new();
    queue.add_after("a", Reasons(0), Priority::LOW, ms(10));
    queue.add_after("b", Reasons(0), Priority::LOW, ms(10));
    queue.add_after("b", Reasons(0), Priority::NORMAL, ms(20));
    queue.add_after("b", Reasons(0), Priority::LOW, ms(30));
    tokio::time::advance(ms(10)).await;
    assert_eq!(drain(&queue), ["b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_delay_that_ends_raises_a_key_that_is_queued_lower() {
    let queue = TestQueue::new();
    low(&queue, "low");
    low(&queue, "a");
    queue.add_after("a", Reasons(0), Priority::NORMAL, ms(10));
    tokio::time::advance(ms(10)).await;
    assert_eq!(drain(&queue), ["a", "low"]);
}
