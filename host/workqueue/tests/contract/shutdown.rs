//! Both ways to shut down.

use pilothouse_workqueue::Priority;
use tokio::time::{Instant, advance};

use crate::helpers::{Polled, Reasons, TestQueue, delay, drain, ms, take};

#[test]
fn after_shut_down_adds_are_dropped_and_queued_keys_are_handed_out() {
    let queue = TestQueue::new();
    queue.add("a");
    assert!(!queue.shutting_down());
    queue.shut_down();
    assert!(queue.shutting_down());
    queue.add("b");
    queue.add_after("c", Reasons(0), Priority::NORMAL, ms(0));
    delay(&queue, "d", 1);
    assert_eq!((queue.len(), queue.len_delayed(), queue.stats().retries), (1, 0, 0));
    assert_eq!(drain(&queue), ["a"]);
}

#[tokio::test]
async fn get_ends_only_when_shut_down_and_empty() {
    let queue = TestQueue::new();
    queue.add("a");
    queue.shut_down();
    assert_eq!(queue.get().await.expect("queued").key, "a");
    assert_eq!(queue.get().await, None);
}

#[test]
fn shut_down_ends_every_waiting_get() {
    let queue = TestQueue::new();
    let mut gets = [(); 3].map(|()| Polled::pending(queue.get()));
    queue.shut_down();
    for get in &mut gets {
        assert_eq!(get.output(), None);
    }
}

#[test]
fn shut_down_may_be_called_again() {
    let queue = TestQueue::new();
    queue.shut_down();
    queue.shut_down();
    assert!(queue.shutting_down());
}

#[test]
fn shut_down_does_not_wait_and_hands_out_a_key_that_is_given_back_dirty() {
    let queue = TestQueue::new();
    queue.add("a");
    let a = take(&queue);
    queue.add("a");
    queue.shut_down();
    let mut get = Polled::new(queue.get());
    assert!(get.poll().is_ready(), "nothing is queued now");
    queue.done(a);
    assert_eq!(drain(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn shut_down_drops_delayed_keys() {
    let queue = TestQueue::new();
    delay(&queue, "a", 10);
    delay(&queue, "b", 10);
    queue.add("b");
    queue.shut_down();
    assert_eq!(queue.len_delayed(), 0);
    advance(ms(10)).await;
    assert_eq!(drain(&queue), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn shut_down_keeps_keys_that_came_due_before() {
    let queue = TestQueue::new();
    delay(&queue, "a", 10);
    advance(ms(10)).await;
    queue.shut_down();
    assert_eq!(drain(&queue), ["a"]);
}

#[test]
fn a_drain_shuts_the_queue_before_it_is_awaited() {
    let queue = TestQueue::new();
    let _drain = queue.shut_down_with_drain();
    assert!(queue.shutting_down());
    queue.add("a");
    assert!(queue.is_empty());
}

#[test]
fn a_drain_of_an_idle_queue_ends_at_once() {
    let queue = TestQueue::new();
    assert!(Polled::new(queue.shut_down_with_drain()).poll().is_ready());
}

#[test]
fn a_drain_waits_for_done() {
    let queue = TestQueue::new();
    queue.add("a");
    queue.add("b");
    let (a, b) = (take(&queue), take(&queue));
    let mut drain = Polled::pending(queue.shut_down_with_drain());
    queue.done(a);
    assert!(!drain.woken() && drain.poll().is_pending());
    queue.done(b);
    drain.output();
}

#[test]
fn a_drain_waits_for_queued_keys_even_if_no_worker_is_busy() {
    let queue = TestQueue::new();
    queue.add("a");
    let mut end = Polled::pending(queue.shut_down_with_drain());
    assert_eq!(drain(&queue), ["a"]);
    end.output();
}

#[test]
fn a_drain_waits_for_a_key_that_is_dirty_and_in_processing() {
    let queue = TestQueue::new();
    queue.add("a");
    let a = take(&queue);
    queue.add("a");
    let mut drain = Polled::pending(queue.shut_down_with_drain());
    let mut worker = Polled::pending(queue.get());
    queue.done(a);
    assert!(!drain.woken());
    let again = worker.output().expect("dirty");
    assert_eq!(again.key, "a");
    queue.done(again);
    drain.output();
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_delayed_keys() {
    let queue = TestQueue::new();
    let start = Instant::now();
    delay(&queue, "a", 500);
    delay(&queue, "b", 1_000);
    let worker = queue.clone();
    let worker = tokio::spawn(async move {
        let mut done = Vec::new();
        while let Some(item) = worker.get().await {
            done.push(item.key);
            worker.done(item);
        }
        done
    });
    queue.shut_down_with_drain().await;
    assert_eq!(start.elapsed().as_millis(), 1_000);
    assert_eq!(worker.await.expect("ends"), ["a", "b"]);
}

#[test]
fn a_drain_ends_gets_as_soon_as_nothing_is_to_come() {
    let queue = TestQueue::new();
    queue.add("a");
    let a = take(&queue);
    let mut end = Polled::pending(queue.shut_down_with_drain());
    let mut get = Polled::new(queue.get());
    assert!(get.poll().is_ready(), "the key in processing is clean, and adds are dropped");
    queue.done(a);
    end.output();
}

#[test]
fn the_last_key_of_a_drain_ends_the_gets_of_all_other_workers() {
    let queue = TestQueue::new();
    queue.add("a");
    let a = take(&queue);
    queue.add("a");
    let _drain = queue.shut_down_with_drain();
    let mut first = Polled::pending(queue.get());
    let mut second = Polled::pending(queue.get());
    queue.done(a);
    assert!(first.output().is_some());
    assert_eq!(second.output(), None);
}

#[test]
fn shut_down_ends_a_drain() {
    let queue = TestQueue::new();
    queue.add("a");
    take(&queue);
    let mut drain = Polled::pending(queue.shut_down_with_drain());
    queue.shut_down();
    drain.output();
}

#[tokio::test(start_paused = true)]
async fn shut_down_ends_a_drain_that_waits_for_a_delay_and_its_workers() {
    let queue = TestQueue::new();
    delay(&queue, "a", 3_600_000);
    let mut drain = Polled::pending(queue.shut_down_with_drain());
    let mut get = Polled::pending(queue.get());
    queue.shut_down();
    drain.output();
    assert_eq!(get.output(), None);
}

#[test]
fn shut_down_ends_a_drain_even_if_another_begins_before_it_looks() {
    let queue = TestQueue::new();
    queue.add("a");
    let mut first = Polled::pending(queue.shut_down_with_drain());
    queue.shut_down();
    let mut second = Polled::pending(queue.shut_down_with_drain());
    first.output();
    assert_eq!(drain(&queue), ["a"]);
    second.output();
}

#[test]
fn several_drains_end_together() {
    let queue = TestQueue::new();
    queue.add("a");
    let mut drains = [(); 2].map(|()| Polled::pending(queue.shut_down_with_drain()));
    assert_eq!(drain(&queue), ["a"]);
    for drain in &mut drains {
        drain.output();
    }
    assert!(Polled::new(queue.shut_down_with_drain()).poll().is_ready(), "and so does a later one");
}

#[test]
fn a_dropped_drain_leaves_the_queue_draining() {
    let queue = TestQueue::new();
    queue.add("a");
    drop(Polled::pending(queue.shut_down_with_drain()));
    queue.add("b");
    assert_eq!(drain(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_when_the_last_delay_is_cancelled() {
    let queue = TestQueue::new();
    delay(&queue, "a", 10);
    let mut drain = Polled::pending(queue.shut_down_with_drain());
    let mut get = Polled::pending(queue.get());
    assert!(queue.cancel_delayed(&"a"));
    drain.output();
    assert_eq!(get.output(), None);
}

#[tokio::test(start_paused = true)]
async fn a_drain_can_be_hastened_by_expediting_what_is_delayed() {
    let queue = TestQueue::new();
    delay(&queue, "a", 3_600_000);
    let mut end = Polled::pending(queue.shut_down_with_drain());
    assert_eq!(queue.expedite_all(|_| true), 1);
    assert_eq!(drain(&queue), ["a"]);
    end.output();
}
