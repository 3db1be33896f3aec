//! Many keys under one lock.

use pilothouse_workqueue::{Item, Priority, Queue};
use tokio::time::{Instant, advance};

use crate::helpers::{Polled, Reasons, TestQueue, add_all, delay, drain, ms, take};

fn keys<M>(items: &[Item<&'static str, M>]) -> Vec<&'static str> {
    items.iter().map(|item| item.key).collect()
}

#[tokio::test]
async fn a_batch_holds_what_is_ready_up_to_so_many_in_their_order() {
    let queue = TestQueue::new();
    add_all(&queue, ["a", "b", "c", "d", "e"]);
    assert_eq!(keys(&queue.get_batch(3).await), ["a", "b", "c"]);
    assert_eq!(keys(&queue.get_batch(3).await), ["d", "e"]);
    assert_eq!((queue.len(), queue.stats().processing), (0, 5));
}

#[tokio::test]
async fn a_batch_has_a_key_at_least() {
    let queue = TestQueue::new();
    queue.add("a");
    assert_eq!(keys(&queue.get_batch(0).await), ["a"]);
}

#[tokio::test]
async fn a_batch_follows_priorities_and_ageing_as_single_keys_do() {
    let [one_by_one, batch]: [Queue<u32>; 2] = [(); 2].map(|()| Queue::new());
    for queue in [&one_by_one, &batch] {
        (0..40).for_each(|key| queue.add_with(key, (), Priority(i32::from(key % 10 != 0))));
    }
    let expected: Vec<u32> = std::iter::from_fn(|| one_by_one.try_get()).map(|item| item.key).collect();
    let taken: Vec<u32> = batch.get_batch(100).await.into_iter().map(|item| item.key).collect();
    assert_eq!(taken, expected);
}

#[test]
fn a_batch_waits_for_the_first_key_and_for_no_more() {
    let queue = TestQueue::new();
    let mut batch = Polled::pending(queue.get_batch(10));
    queue.add("a");
    assert_eq!(keys(&batch.output()), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_sleeps_until_the_next_deadline() {
    let queue = TestQueue::new();
    let start = Instant::now();
    for (key, millis) in [("a", 20), ("b", 20), ("c", 30)] {
        delay(&queue, key, millis);
    }
    assert_eq!(keys(&queue.get_batch(10).await), ["a", "b"]);
    assert_eq!(start.elapsed(), ms(20));
    advance(ms(10)).await;
    assert_eq!(keys(&queue.get_batch(10).await), ["c"]);
}

#[tokio::test]
async fn a_key_of_a_batch_is_with_one_worker_until_it_is_given_back() {
    let queue = TestQueue::new();
    queue.add("a");
    let batch = queue.get_batch(10).await;
    queue.add_with("a", Reasons(1), Priority::LOW);
    queue.add("b");
    let other = queue.get_batch(10).await;
    assert_eq!(keys(&other), ["b"]);
    queue.done_batch(batch);
    queue.done_batch(other);
    let again = queue.get_batch(10).await;
    assert_eq!((again[0].key, again[0].payload, again.len()), ("a", Reasons(1), 1));
}

#[tokio::test]
async fn a_batch_is_empty_only_when_shut_down_and_empty() {
    let queue = TestQueue::new();
    queue.add("a");
    queue.shut_down();
    assert_eq!(keys(&queue.get_batch(10).await), ["a"]);
    assert!(queue.get_batch(10).await.is_empty());
}

#[test]
fn shut_down_ends_a_waiting_batch() {
    let queue = TestQueue::new();
    let mut batch = Polled::pending(queue.get_batch(10));
    queue.shut_down();
    assert!(batch.output().is_empty());
}

#[test]
fn giving_a_batch_back_ends_a_drain() {
    let queue = TestQueue::new();
    add_all(&queue, ["a", "b"]);
    let batch = Polled::new(queue.get_batch(2)).poll();
    let std::task::Poll::Ready(mut batch) = batch else { panic!("both are ready") };
    let mut end = Polled::pending(queue.shut_down_with_drain());
    queue.done_batch(batch.drain(..1));
    assert!(!end.woken());
    queue.done_batch(batch);
    end.output();
}

#[test]
fn a_dropped_batch_loses_no_key_and_passes_its_wake_up_on() {
    let queue = TestQueue::new();
    let first = Polled::pending(queue.get_batch(10));
    let mut second = Polled::pending(queue.get_batch(10));
    queue.add("a");
    drop(first);
    assert_eq!(keys(&second.output()), ["a"]);
}

#[test]
fn keys_added_as_a_batch_are_added_as_one_after_another() {
    let queue = TestQueue::new();
    let running = have_one_running(&queue);
    queue.add_batch([
        ("low", Reasons(1), Priority::LOW),
        ("a", Reasons(1), Priority::NORMAL),
        ("running", Reasons(4), Priority::NORMAL),
        ("a", Reasons(2), Priority::LOW),
        ("urgent", Reasons(1), Priority(7)),
    ]);
    assert_eq!((queue.len(), queue.stats().adds), (3, 5));
    assert_eq!(take(&queue).key, "urgent");
    assert_eq!(queue.try_get().expect("added").payload, Reasons(3));
    queue.done(running);
    assert_eq!(drain(&queue), ["running", "low"]);
}

/// Has one key with a worker.
fn have_one_running(queue: &TestQueue) -> Item<&'static str, Reasons> {
    queue.add("running");
    take(queue)
}

#[test]
fn a_large_batch_is_added_whole_and_wakes_a_worker_for_each_key() {
    let queue: Queue<u32> = Queue::new();
    let mut gets: Vec<_> = (0..200).map(|_| Polled::pending(queue.get())).collect();
    queue.add_batch((0..300).map(|key| (key, (), Priority::NORMAL)));
    assert_eq!(queue.len(), 300);
    for (key, get) in (0..).zip(&mut gets) {
        assert_eq!(get.output().expect("added").key, key);
    }
}

#[test]
fn a_batch_added_after_shut_down_is_dropped() {
    let queue: Queue<u32> = Queue::new();
    queue.shut_down();
    queue.add_batch((0..300).map(|key| (key, (), Priority::NORMAL)));
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_coalesced_batch_ends_the_delays_of_its_keys_and_another_one_does_not() {
    for coalesces in [true, false] {
        let queue = TestQueue::new();
        delay(&queue, "a", 1_000);
        let batch = [("a", Reasons(2), Priority::NORMAL), ("b", Reasons(2), Priority::NORMAL)];
        if coalesces {
            queue.add_batch_coalesced(batch);
        } else {
            queue.add_batch(batch);
        }
        assert_eq!(drain(&queue), ["a", "b"]);
        advance(ms(1_000)).await;
        assert_eq!(drain(&queue).len(), usize::from(!coalesces), "coalesced: {coalesces}");
    }
}
