//! Priorities: their order, raising, ageing.

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
    let a = take(&queue);
    low(&queue, "a");
    queue.add("a");
    low(&queue, "a");
    low(&queue, "low");
    queue.done(a);
    assert_eq!(drain(&queue), ["a", "low"]);
}

#[test]
fn the_priority_of_a_run_is_not_kept_for_the_next() {
    let queue = TestQueue::new();
    queue.add("a");
    let a = take(&queue);
    low(&queue, "low");
    low(&queue, "a");
    queue.done(a);
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

#[test]
fn any_number_is_a_priority_and_the_larger_goes_first() {
    let queue: Queue<i32> = Queue::new();
    let numbers = [0, i32::MIN, 7, -100, i32::MAX, 1, -1, 2];
    for number in numbers {
        queue.add_with(number, (), Priority(number));
    }
    let depths: Vec<i32> = queue.stats().depths.iter().map(|(priority, _)| priority.0).collect();
    assert_eq!(depths, [i32::MAX, 7, 2, 1, 0, -1, -100, i32::MIN]);
    let items: Vec<_> = std::iter::from_fn(|| queue.try_get()).collect();
    assert!(items.iter().all(|item| item.priority == Priority(item.key)));
    assert!(items.iter().map(|item| item.key).eq(depths));
}

#[test]
fn a_key_is_raised_as_often_as_a_higher_add_comes() {
    let queue: Queue<u32> = Queue::new();
    for priority in 0..5 {
        queue.add_with(10 + priority as u32, (), Priority(priority));
        queue.add_with(0, (), Priority(priority));
    }
    assert_eq!((queue.len(), queue.stats().adds), (6, 6));
    let order = [14, 0, 13, 12, 11, 10];
    assert_eq!(keys(&queue), order);
}

#[test]
fn many_priorities_are_each_first_in_first_out() {
    let queue: Queue<u32> = Queue::new();
    // Few enough of each that none waits for more than 16 others in a row.
    (0..12).for_each(|key| queue.add_with(key, (), Priority(key as i32 % 4)));
    assert_eq!(keys(&queue), [3, 7, 11, 2, 6, 10, 1, 5, 9, 0, 4, 8]);
}

#[test]
fn every_17th_key_is_the_longest_waiting_of_the_other_priorities() {
    let queue: Queue<u32> = Queue::new();
    for (key, priority) in [(1, -5), (2, 3), (3, -5), (4, 1), (5, 3)] {
        queue.add_with(key, (), Priority(priority));
    }
    (100..200).for_each(|key| queue.add_with(key, (), Priority(9)));
    let others: Vec<(usize, u32)> =
        keys(&queue).into_iter().enumerate().filter(|(_, key)| *key < 100).collect();
    assert_eq!(others, [(16, 1), (33, 2), (50, 3), (67, 4), (84, 5)]);
}

#[tokio::test(start_paused = true)]
async fn ageing_goes_by_time_in_a_queue_with_a_name() {
    let queue: Queue<u32> = Queue::builder().name("test").build();
    queue.add_with(1, (), Priority(1));
    let running = queue.try_get().expect("queued");
    // Wanted first, but it runs; it waits since then all the same.
    queue.add_with(1, (), Priority(1));
    tokio::time::advance(ms(5)).await;
    queue.add_with(2, (), Priority(2));
    (100..150).for_each(|key| queue.add_with(key, (), Priority(9)));
    queue.done(running);
    let others: Vec<(usize, u32)> =
        keys(&queue).into_iter().enumerate().filter(|(_, key)| *key < 100).collect();
    assert_eq!(others, [(16, 1), (33, 2)]);
}

#[test]
fn no_priority_starves_under_endless_streams_of_higher_ones() {
    let queue: Queue<u32> = Queue::new();
    for key in 0..10 {
        queue.add_with(key, (), Priority(-1 - key as i32));
    }
    let mut next = 100;
    let mut waited = 0;
    while queue.stats().depths.last().is_some_and(|(priority, _)| priority.0 < 0) {
        // For each key taken there come two more of higher priorities.
        for priority in [5, 7] {
            queue.add_with(next, (), Priority(priority));
            next += 1;
        }
        queue.done(queue.try_get().expect("queued"));
        waited += 1;
        assert!(waited <= 17 * 20, "{:?}", queue.stats().depths);
    }
}

#[test]
fn the_longest_waiting_goes_first_though_the_highest_priority_changes() {
    let queue: Queue<u32> = Queue::new();
    queue.add_with(0, (), Priority::LOW);
    // Each key is of a higher priority than all before it.
    for n in 1..100_u32 {
        queue.add_with(n, (), Priority(n as i32));
        let key = queue.try_get().expect("queued").key;
        assert_eq!(key == 0, n == 17, "{n}: {key}");
        if key == 0 {
            return;
        }
    }
}

#[test]
fn a_key_overtaken_while_it_runs_keeps_nobody_waiting() {
    let queue = TestQueue::new();
    queue.add_with("a", Reasons(0), Priority(9));
    let a = take(&queue);
    queue.add_with("a", Reasons(0), Priority(9));
    low(&queue, "b");
    assert_eq!(take(&queue).key, "b", "the key with the highest priority is with a worker");
    queue.done(a);
    assert_eq!(drain(&queue), ["a"]);
}
