//! The fused calls: `finish`, which gives a key back with what follows from its run, and `next`.

use std::time::Duration;

use pilothouse_workqueue::{
    BucketRateLimiter, Item, ItemExponentialFailureRateLimiter, Priority, Queue, RateLimiter, Timekeeper,
    Verdict,
};
use tokio::time::{Instant, advance};

use crate::helpers::{Polled, Reasons, TestQueue, delay, drain, ms, take};

const RETRY: Verdict = Verdict::Retry { at_least: Duration::ZERO };

fn exponential() -> TestQueue {
    Queue::with_rate_limiter(ItemExponentialFailureRateLimiter::new(ms(1), ms(1_000)))
}

fn finish(queue: &TestQueue, mut item: Item<&'static str, Reasons>, verdict: Verdict) -> Option<Duration> {
    let delay = queue.finish(&mut item, verdict);
    queue.done(item);
    delay
}

/// A key that was added and taken.
fn running(queue: &TestQueue, key: &'static str) -> Item<&'static str, Reasons> {
    queue.add(key);
    take(queue)
}

#[tokio::test(start_paused = true)]
async fn retry_counts_failures_and_delays_as_the_limiter_says() {
    let queue = exponential();
    for (failures, wait) in [(0, 1), (1, 2), (2, 4)] {
        let item = running(&queue, "a");
        assert_eq!(item.num_requeues(), failures);
        assert_eq!(finish(&queue, item, RETRY), Some(ms(wait)));
        advance(ms(wait) - Duration::from_nanos(1)).await;
        assert!(queue.is_empty());
        advance(Duration::from_nanos(1)).await;
        assert_eq!(drain(&queue), ["a"]);
    }
    assert_eq!(queue.num_requeues(&"a"), 3);
    assert_eq!(queue.stats().retries, 3);
}

#[test]
fn an_item_is_finished_once() {
    let queue = exponential();
    let mut item = running(&queue, "a");
    assert!(!item.is_finished());
    queue.finish(&mut item, RETRY);
    assert!(item.is_finished() && item.key == "a");
    queue.cancel_delayed(&"a");
    let _other = running(&queue, "a");
    assert_eq!(queue.finish(&mut item, RETRY), None);
    queue.done_batch([item]);
    assert_eq!((queue.stats().processing, queue.num_requeues(&"a")), (1, 1), "the other run goes on");
}

#[tokio::test(start_paused = true)]
async fn retry_waits_at_least_as_long_as_asked() {
    let queue = exponential();
    let retry = |at_least| finish(&queue, running(&queue, "a"), Verdict::Retry { at_least });
    assert_eq!(retry(ms(500)), Some(ms(500)));
    assert!(queue.cancel_delayed(&"a"));
    assert_eq!(retry(ms(1)), Some(ms(2)), "the limiter says 2");
}

#[tokio::test(start_paused = true)]
async fn done_and_after_forget_the_failures() {
    let queue = exponential();
    for (verdict, wait) in
        [(Verdict::Done, None), (Verdict::After(ms(50)), Some(ms(50))), (Verdict::After(ms(0)), Some(ms(0)))]
    {
        finish(&queue, running(&queue, "a"), RETRY);
        queue.cancel_delayed(&"a");
        assert_eq!(queue.num_requeues(&"a"), 1);
        assert_eq!(finish(&queue, running(&queue, "a"), verdict), wait);
        assert_eq!(queue.num_requeues(&"a"), 0);
        advance(wait.unwrap_or_default()).await;
        assert_eq!(drain(&queue).len(), usize::from(wait.is_some()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ended_a_moment_ago_is_measured_and_delayed_from_there() {
    let queue: TestQueue = Queue::builder().name("named").build();
    for (delay, waited) in [(ms(20), ms(1)), (ms(0), ms(21))] {
        let mut item = running(&queue, "a");
        advance(ms(30)).await;
        let ended = Instant::now();
        advance(ms(5)).await;
        let before = queue.stats().work_duration.sum();
        assert_eq!(queue.finish_at(&mut item, Verdict::After(delay), ended), Some(delay));
        assert_eq!(queue.stats().work_duration.sum() - before, ms(30));
        advance(ms(15) - Duration::from_nanos(1)).await;
        assert_eq!(queue.is_empty(), delay > ms(0));
        advance(ms(1) + Duration::from_nanos(1)).await;
        let item = take(&queue);
        assert_eq!(item.queued_for(), waited);
        queue.done(item);
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_run_has_the_payload_and_the_priority_of_the_item() {
    let queue = exponential();
    for verdict in [RETRY, Verdict::After(ms(5)), Verdict::After(ms(0))] {
        let mut item = running(&queue, "a");
        (item.payload, item.priority) = (Reasons(4), Priority::LOW);
        finish(&queue, item, verdict);
        advance(ms(5)).await;
        let item = take(&queue);
        assert_eq!((item.payload, item.priority), (Reasons(4), Priority::LOW));
        finish(&queue, item, Verdict::Done);
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_of_a_key_that_was_added_meanwhile_joins_that_run() {
    let queue = exponential();
    for verdict in [RETRY, Verdict::After(ms(5)), Verdict::After(ms(0))] {
        let mut item = running(&queue, "a");
        item.payload = Reasons(4);
        queue.add_with("a", Reasons(1), Priority::LOW);
        finish(&queue, item, verdict);
        assert_eq!(queue.len_delayed(), 0);
        let item = take(&queue);
        assert_eq!((item.payload, item.priority), (Reasons(5), Priority::NORMAL));
        finish(&queue, item, Verdict::Done);
        assert!(queue.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_of_a_key_that_is_delayed_keeps_the_earlier_deadline() {
    let queue = exponential();
    for (other, wait) in [(3, 3), (9, 5)] {
        let item = running(&queue, "a");
        delay(&queue, "a", other);
        finish(&queue, item, Verdict::After(ms(5)));
        assert_eq!(queue.len_delayed(), 1);
        advance(ms(wait) - Duration::from_nanos(1)).await;
        assert!(queue.is_empty());
        advance(Duration::from_nanos(1)).await;
        assert_eq!(drain(&queue), ["a"]);
    }
    let item = running(&queue, "a");
    delay(&queue, "a", 3);
    finish(&queue, item, Verdict::After(ms(0)));
    assert_eq!((drain(&queue), queue.len_delayed()), (vec!["a"], 0), "an add at once ends the delay");
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_shut_down_takes_no_retry_and_counts_no_failure() {
    let queue = exponential();
    let items = [running(&queue, "a"), running(&queue, "b")];
    let mut drained = Polled::pending(queue.shut_down_with_drain());
    for (item, verdict) in items.into_iter().zip([RETRY, Verdict::After(ms(1))]) {
        assert_eq!(finish(&queue, item, verdict), None);
    }
    assert!(drained.woken() && drained.poll().is_ready());
    assert_eq!((queue.num_requeues(&"a"), queue.len_delayed()), (0, 0));
}

#[test]
fn an_item_of_another_queue_finishes_nothing_unless_its_key_runs_here() {
    let (queue, other) = (exponential(), exponential());
    assert_eq!(finish(&queue, running(&other, "a"), RETRY), None);
    assert_eq!((queue.num_requeues(&"a"), queue.len_delayed()), (0, 0));
    let _held = running(&queue, "b");
    assert_eq!(finish(&queue, running(&other, "b"), Verdict::Done), None);
    assert_eq!(queue.stats().processing, 0);
}

/// Panics when it is asked for a delay.
struct Panics;

impl RateLimiter for Panics {
    fn when(&self, _: u32) -> Duration {
        panic!("a test's");
    }
}

#[test]
fn a_limiter_that_panics_changes_nothing() {
    let queue: TestQueue = Queue::with_rate_limiter(Panics);
    let panics = |action: &dyn Fn()| {
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(action)).is_err());
    };
    panics(&|| _ = queue.add_rate_limited("a", Reasons(0), Priority::NORMAL));
    panics(&|| _ = finish(&queue, running(&queue, "a"), RETRY));
    let stats = queue.stats();
    assert_eq!((stats.processing, stats.delayed, queue.num_requeues(&"a")), (1, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn another_limiter_takes_over_with_no_failures() {
    let queue = exponential();
    finish(&queue, running(&queue, "a"), RETRY);
    finish(&queue, running(&queue, "b"), RETRY);
    queue.set_rate_limiter(BucketRateLimiter::new(1.0, 1));
    assert_eq!((queue.num_requeues(&"a"), queue.len_delayed()), (0, 2));
    advance(ms(1)).await;
    assert_eq!(finish(&queue, take(&queue), RETRY), Some(ms(0)));
    assert_eq!(finish(&queue, take(&queue), RETRY), Some(ms(1_000)));
}

#[tokio::test(start_paused = true)]
async fn failures_of_a_key_that_waits_for_nothing_count_for_an_hour() {
    const HOUR: Duration = Duration::from_secs(3_600);
    let queue = exponential();
    let fail = |key| {
        finish(&queue, running(&queue, key), RETRY);
        assert!(queue.cancel_delayed(&key));
    };
    (0..3).for_each(|_| fail("a"));
    advance(HOUR).await;
    assert_eq!(queue.num_requeues(&"a"), 3);
    fail("a");
    advance(HOUR).await;
    assert_eq!(running(&queue, "a").num_requeues(), 4, "the hour begins with each run");
    let queue = exponential();
    let fail = |key| {
        finish(&queue, running(&queue, key), RETRY);
        assert!(queue.cancel_delayed(&key));
    };
    fail("a");
    fail("b");
    advance(HOUR + ms(1)).await;
    assert_eq!((queue.num_requeues(&"a"), running(&queue, "a").num_requeues()), (0, 0));
    assert_eq!(queue.add_rate_limited("b", Reasons(0), Priority::NORMAL), Some(ms(1)));
}

#[tokio::test(start_paused = true)]
async fn what_is_released_after_an_hour_leaves_no_failures_to_new_keys() {
    let queue = exponential();
    let fail = |key| {
        finish(&queue, running(&queue, key), RETRY);
        assert!(queue.cancel_delayed(&key));
    };
    ["a", "b"].into_iter().for_each(fail);
    advance(Duration::from_secs(3_600) + ms(1)).await;
    fail("c");
    // These two have the room of the first two.
    assert_eq!(["d", "e"].map(|key| running(&queue, key).num_requeues()), [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_held_is_not_forgotten_however_long_it_waits() {
    let queue = exponential();
    finish(&queue, running(&queue, "a"), Verdict::Retry { at_least: Duration::from_secs(7 * 24 * 3_600) });
    advance(Duration::from_secs(7 * 24 * 3_600)).await;
    assert_eq!(take(&queue).num_requeues(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failing_key_that_waits_for_nothing_is_not_held() {
    let queue = exponential();
    finish(&queue, running(&queue, "a"), RETRY);
    queue.cancel_delayed(&"a");
    assert!(queue.has_room_for(&"b", 1) && !queue.has_room_for(&"a", 0));
    assert!(queue.has_room_for_all(&["b"], 1) && !queue.has_room_for_all(&["a", "b"], 1));
    let mut drained = Polled::new(queue.shut_down_with_drain());
    assert!(drained.poll().is_ready());
}

#[test]
fn a_key_that_is_finished_and_due_at_once_calls_no_hook() {
    let rung = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let ring = std::sync::Arc::clone(&rung);
    let hook = move || _ = ring.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let queue: TestQueue = Queue::builder().build_with_hook(&Timekeeper::new(), hook);
    let a = running(&queue, "a");
    finish(&queue, a, Verdict::After(ms(0)));
    assert_eq!(rung.load(std::sync::atomic::Ordering::Relaxed), 1, "that of the add");
    assert_eq!(drain(&queue), ["a"]);
}
