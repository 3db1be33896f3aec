//! Delayed keys.

use std::time::Duration;

use pilothouse_workqueue::{AddOptions, Priority, Queue};
use tokio::time::{Instant, advance};

use crate::helpers::{Polled, Reasons, TestQueue, delay, drain, ms, take};

#[tokio::test(start_paused = true)]
async fn a_delayed_key_is_ready_at_its_deadline_and_not_before() {
    let queue = TestQueue::new();
    delay(&queue, "a", 50);
    advance(ms(49)).await;
    assert_eq!((queue.len(), queue.len_delayed()), (0, 1));
    assert!(queue.try_get().is_none());
    advance(ms(1)).await;
    assert_eq!((queue.len(), queue.len_delayed()), (1, 0));
    assert_eq!(drain(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_delay_of_zero_adds_at_once() {
    let queue = TestQueue::new();
    delay(&queue, "a", 0);
    assert_eq!((queue.len(), queue.len_delayed()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_immense_delay_is_kept_without_overflow() {
    let queue = TestQueue::new();
    queue.add_after("a", Reasons(0), Priority::NORMAL, Duration::MAX);
    let _get = Polled::pending(queue.get());
    advance(Duration::from_secs(10 * 365 * 24 * 3600)).await;
    assert_eq!(queue.len_delayed(), 1);
}

#[tokio::test(start_paused = true)]
async fn get_sleeps_until_the_next_deadline() {
    let queue = TestQueue::new();
    let start = Instant::now();
    delay(&queue, "b", 70);
    delay(&queue, "a", 50);
    assert_eq!(queue.get().await.expect("due").key, "a");
    assert_eq!(start.elapsed(), ms(50));
    assert_eq!(queue.get().await.expect("due").key, "b");
    assert_eq!(start.elapsed(), ms(70));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_get_sees_a_key_delayed_later() {
    let queue = TestQueue::new();
    let mut get = Polled::pending(queue.get());
    delay(&queue, "a", 10);
    assert!(get.woken() && get.poll().is_pending());
    advance(ms(10)).await;
    assert_eq!(get.output().expect("due").key, "a");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_get_sees_an_earlier_deadline() {
    let queue = TestQueue::new();
    let worker = queue.clone();
    let start = Instant::now();
    delay(&queue, "a", 10_000);
    let get = tokio::spawn(async move { worker.get().await.expect("due").key });
    tokio::task::yield_now().await;
    delay(&queue, "b", 20);
    assert_eq!(get.await.expect("ends"), "b");
    assert_eq!(start.elapsed(), ms(20));
}

#[tokio::test(start_paused = true)]
async fn another_waiter_keeps_time_when_the_first_leaves() {
    let queue = TestQueue::new();
    delay(&queue, "a", 10);
    let first = Polled::pending(queue.get());
    let mut second = Polled::pending(queue.get());
    drop(first);
    assert!(second.woken() && second.poll().is_pending());
    advance(ms(10)).await;
    assert_eq!(second.output().expect("due").key, "a");
}

#[tokio::test(start_paused = true)]
async fn another_waiter_keeps_time_when_the_first_gets_a_key() {
    let queue = TestQueue::new();
    delay(&queue, "a", 10);
    let mut first = Polled::pending(queue.get());
    let mut second = Polled::pending(queue.get());
    queue.add("b");
    assert_eq!(first.output().expect("added").key, "b");
    assert!(second.woken() && second.poll().is_pending());
    advance(ms(10)).await;
    assert_eq!(second.output().expect("due").key, "a");
}

#[tokio::test(start_paused = true)]
async fn all_waiters_get_what_comes_due_together() {
    let queue = TestQueue::new();
    for key in ["a", "b", "c"] {
        delay(&queue, key, 10);
    }
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.get().await.expect("due").key })
        })
        .collect();
    let mut keys = Vec::new();
    for worker in workers {
        keys.push(worker.await.expect("ends"));
    }
    keys.sort_unstable();
    assert_eq!(keys, ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn keys_come_due_in_the_order_of_their_deadlines_and_then_of_their_adds() {
    let queue = TestQueue::new();
    for (key, millis) in [("d", 30), ("b", 20), ("a", 10), ("c", 20)] {
        delay(&queue, key, millis);
    }
    advance(ms(100)).await;
    assert_eq!(drain(&queue), ["a", "b", "c", "d"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_came_due_goes_before_one_added_after_its_deadline() {
    let queue = TestQueue::new();
    delay(&queue, "due", 10);
    advance(ms(20)).await;
    queue.add("added");
    assert_eq!(drain(&queue), ["due", "added"]);
}

#[tokio::test(start_paused = true)]
async fn the_earlier_deadline_wins_and_is_never_postponed() {
    let queue = TestQueue::new();
    delay(&queue, "earlier second", 100);
    delay(&queue, "earlier second", 50);
    delay(&queue, "earlier first", 60);
    delay(&queue, "earlier first", 100);
    assert_eq!(queue.len_delayed(), 2);
    advance(ms(50)).await;
    assert_eq!(drain(&queue), ["earlier second"]);
    advance(ms(10)).await;
    assert_eq!(drain(&queue), ["earlier first"]);
    advance(ms(100)).await;
    assert!(drain(&queue).is_empty(), "one deadline a key");
}

#[tokio::test(start_paused = true)]
async fn delayed_adds_merge_their_payloads() {
    let queue = TestQueue::new();
    queue.add_after("a", Reasons(1), Priority::NORMAL, ms(10));
    queue.add_after("a", Reasons(2), Priority::NORMAL, ms(20));
    advance(ms(10)).await;
    assert_eq!(queue.try_get().expect("due").payload, Reasons(3));
}

#[tokio::test(start_paused = true)]
async fn an_add_leaves_the_delay_and_its_payload_for_later() {
    let queue = TestQueue::new();
    queue.add_after("a", Reasons(1), Priority::NORMAL, ms(10));
    queue.add_with("a", Reasons(2), Priority::NORMAL);
    let added = take(&queue);
    assert_eq!(added.payload, Reasons(2));
    queue.done(added);
    assert_eq!(queue.len_delayed(), 1);
    advance(ms(10)).await;
    assert_eq!(queue.try_get().expect("due").payload, Reasons(1));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_comes_due_while_queued_runs_once() {
    let queue = TestQueue::new();
    queue.add_after("a", Reasons(1), Priority::NORMAL, ms(10));
    queue.add_with("a", Reasons(2), Priority::NORMAL);
    advance(ms(10)).await;
    let due = take(&queue);
    assert_eq!(due.payload, Reasons(3));
    queue.done(due);
    assert!(queue.try_get().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_comes_due_in_processing_runs_once_more() {
    let queue = TestQueue::new();
    queue.add("a");
    let a = take(&queue);
    delay(&queue, "a", 10);
    advance(ms(10)).await;
    assert!(queue.try_get().is_none(), "one worker a key");
    queue.done(a);
    assert_eq!(drain(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passed_does_not_swallow_a_new_delay() {
    let queue = TestQueue::new();
    queue.add("a");
    let a = take(&queue);
    delay(&queue, "a", 10);
    advance(ms(20)).await;
    delay(&queue, "a", 100);
    queue.done(a);
    assert_eq!(drain(&queue), ["a"]);
    assert_eq!(queue.len_delayed(), 1);
    advance(ms(100)).await;
    assert_eq!(drain(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn cancel_drops_the_delay_and_its_payload_and_nothing_else() {
    let queue = TestQueue::new();
    for (key, millis) in [("a", 30), ("b", 10), ("c", 20), ("d", 40), ("e", 50)] {
        queue.add_after(key, Reasons(1), Priority::NORMAL, ms(millis));
    }
    queue.add_with("c", Reasons(2), Priority::NORMAL);
    assert!(queue.cancel_delayed(&"c") && queue.cancel_delayed(&"b"));
    assert!(!queue.cancel_delayed(&"b") && !queue.cancel_delayed(&"unknown"));
    let item = queue.try_get().expect("added");
    assert_eq!((item.key, item.payload), ("c", Reasons(2)));
    queue.add_after("b", Reasons(4), Priority::NORMAL, ms(45));
    advance(ms(100)).await;
    let due: Vec<_> = std::iter::from_fn(|| queue.try_get()).map(|item| (item.key, item.payload.0)).collect();
    assert_eq!(due, [("a", 1), ("d", 1), ("b", 4), ("e", 1)]);
}

#[tokio::test(start_paused = true)]
async fn cancel_cannot_take_back_a_key_that_came_due() {
    let queue = TestQueue::new();
    delay(&queue, "a", 10);
    advance(ms(10)).await;
    assert!(!queue.cancel_delayed(&"a"));
    assert_eq!(drain(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn expedited_keys_are_ready_now_in_the_order_of_their_deadlines() {
    let queue = TestQueue::new();
    for (key, millis) in [("c", 30), ("a", 10), ("kept", 15), ("b", 20)] {
        delay(&queue, key, millis);
    }
    let mut get = Polled::pending(queue.get());
    assert_eq!(queue.expedite_all(|key| *key != "kept"), 3);
    assert_eq!(get.output().expect("ready").key, "a");
    assert_eq!(drain(&queue), ["b", "c"]);
    assert_eq!(queue.len_delayed(), 1);
    advance(ms(15)).await;
    assert_eq!(drain(&queue), ["kept"]);
}

/// A queue with more keys due than one call makes ready, and nobody looked since.
async fn many_due() -> Queue<u32> {
    let queue = Queue::new();
    for key in 0..5_000 {
        queue.add_after(key, (), Priority::NORMAL, ms(1 + u64::from(key)));
    }
    advance(ms(10_000)).await;
    queue
}

fn taken(queue: &Queue<u32>) -> Vec<u32> {
    std::iter::from_fn(|| queue.try_get()).map(|item| item.key).collect()
}

#[tokio::test(start_paused = true)]
async fn thousands_that_come_due_together_come_out_in_the_order_of_their_deadlines() {
    let queue = many_due().await;
    assert!(taken(&queue).into_iter().eq(0..5_000));
}

#[tokio::test(start_paused = true)]
async fn shut_down_keeps_all_of_thousands_that_came_due_before() {
    let queue = many_due().await;
    queue.shut_down();
    assert!(taken(&queue).into_iter().eq(0..5_000));
}

#[tokio::test(start_paused = true)]
async fn cancel_cannot_take_back_any_of_thousands_that_came_due() {
    let queue = many_due().await;
    assert!(!queue.cancel_delayed(&4_999));
    assert!(taken(&queue).into_iter().eq(0..5_000));
}

#[tokio::test(start_paused = true)]
async fn expediting_counts_none_of_thousands_that_came_due() {
    let queue = many_due().await;
    queue.add_after(5_000, (), Priority::NORMAL, ms(1));
    assert_eq!(queue.expedite_all(|_| true), 1);
    assert!(taken(&queue).into_iter().eq(0..5_001));
}

#[tokio::test(start_paused = true)]
async fn none_of_thousands_of_deadlines_that_passed_swallows_a_new_delay() {
    let queue = many_due().await;
    queue.add_after(4_999, (), Priority::NORMAL, ms(100));
    let due: Vec<_> = std::iter::from_fn(|| queue.try_get()).collect();
    assert!(due.len() == 5_000 && due.iter().any(|item| item.key == 4_999));
    due.into_iter().for_each(|item| queue.done(item));
    advance(ms(100)).await;
    assert_eq!(taken(&queue), [4_999]);
}

fn coalesced(queue: &TestQueue, bits: u8, priority: Priority, after: u64) {
    let options = AddOptions { priority, after: ms(after), coalesce: true, ..AddOptions::default() };
    assert_eq!(queue.add_with_options("a", Reasons(bits), options), Some(ms(after)));
}

#[tokio::test(start_paused = true)]
async fn a_coalesced_add_ends_a_delay_and_takes_what_it_carried() {
    let queue = TestQueue::new();
    queue.add_after("a", Reasons(1), Priority(5), ms(30_000));
    advance(ms(1_000)).await;
    coalesced(&queue, 2, Priority::NORMAL, 0);
    assert_eq!((queue.len(), queue.len_delayed()), (1, 0));
    let item = queue.try_get().expect("ready");
    assert_eq!((item.payload, item.priority), (Reasons(3), Priority(5)));
    // The next delay is counted from its own beginning.
    coalesced(&queue, 0, Priority::NORMAL, 30_000);
    queue.done(item);
    advance(ms(29_999)).await;
    assert!(queue.is_empty(), "no run at the end of the first delay");
    advance(ms(1)).await;
    assert_eq!(drain(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_coalesced_add_ends_the_delay_of_a_key_in_processing() {
    let queue = TestQueue::new();
    queue.add("a");
    let item = queue.try_get().expect("ready");
    delay(&queue, "a", 1_000);
    coalesced(&queue, 0, Priority::NORMAL, 0);
    assert_eq!(queue.len_delayed(), 0);
    queue.done(item);
    assert_eq!(drain(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_coalesced_delay_joins_a_run_that_is_queued() {
    let queue = TestQueue::new();
    queue.add("a");
    coalesced(&queue, 1, Priority(5), 1_000);
    assert_eq!((queue.len(), queue.len_delayed()), (1, 0));
    let item = queue.try_get().expect("ready");
    assert_eq!((item.payload, item.priority), (Reasons(1), Priority(5)));
    // Also one that follows the present run.
    queue.add("a");
    coalesced(&queue, 2, Priority::NORMAL, 1_000);
    queue.done(item);
    assert_eq!(queue.try_get().map(|item| item.payload), Some(Reasons(2)));
    assert_eq!(queue.len_delayed(), 0);
}
