//! Many keys under one lock.

use pilothouse_workqueue::{Item, Priority, Queue};
use tokio::time::advance;

use crate::helpers::{Polled, Reasons, TestQueue, add_all, delay, drain, ms, take};

#[test]
fn a_batch_is_given_back_whole() {
    let queue = TestQueue::new();
    add_all(&queue, ["a", "b"]);
    let batch = [take(&queue), take(&queue)];
    queue.add_with("a", Reasons(1), Priority::LOW);
    queue.done_batch(batch);
    let again = take(&queue);
    assert_eq!((again.key, again.payload, queue.stats().processing), ("a", Reasons(1), 1));
}

#[test]
fn giving_a_batch_back_ends_a_drain() {
    let queue = TestQueue::new();
    add_all(&queue, ["a", "b"]);
    let mut batch = vec![take(&queue), take(&queue)];
    let mut end = Polled::pending(queue.shut_down_with_drain());
    queue.done_batch(batch.drain(..1));
    assert!(!end.woken());
    queue.done_batch(batch);
    end.output();
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
