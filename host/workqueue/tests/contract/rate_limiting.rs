//! Retries through the limiter, and their release.

use pilothouse_workqueue::{
    AddOptions, BucketRateLimiter, ItemExponentialFailureRateLimiter, MaxOfRateLimiter, Priority, Queue,
    RateLimiter,
};
use tokio::time::advance;

use crate::helpers::{Reasons, TestQueue, delay, drain, ms, take};

fn exponential() -> TestQueue {
    Queue::with_rate_limiter(ItemExponentialFailureRateLimiter::new(ms(1), ms(1_000)))
}

fn retry(queue: &TestQueue, key: &'static str) -> u64 {
    queue.add_rate_limited(key, Reasons(0), Priority::NORMAL).expect("open").as_millis() as u64
}

#[tokio::test(start_paused = true)]
async fn add_rate_limited_delays_by_what_the_limiter_says() {
    let queue = exponential();
    assert_eq!((retry(&queue, "a"), retry(&queue, "b")), (1, 1));
    advance(ms(1)).await;
    assert_eq!(drain(&queue), ["a", "b"]);
    assert_eq!(retry(&queue, "a"), 2);
    advance(ms(1)).await;
    assert!(drain(&queue).is_empty());
    advance(ms(1)).await;
    assert_eq!(drain(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn num_requeues_counts_until_forget() {
    let queue = exponential();
    for _ in 0..3 {
        retry(&queue, "a");
    }
    assert_eq!((queue.num_requeues(&"a"), queue.num_requeues(&"b")), (3, 0));
    queue.forget(&"a");
    assert_eq!(queue.num_requeues(&"a"), 0);
    assert_eq!(retry(&queue, "a"), 1);
}

#[tokio::test(start_paused = true)]
async fn forget_leaves_a_delay_that_was_set() {
    let queue = exponential();
    retry(&queue, "a");
    queue.forget(&"a");
    assert_eq!(queue.len_delayed(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_default_limiter_is_that_of_controllers() {
    let queue = TestQueue::new();
    assert_eq!((retry(&queue, "a"), retry(&queue, "a"), retry(&queue, "a")), (5, 10, 20));
}

#[tokio::test(start_paused = true)]
async fn release_backoff_makes_failing_keys_ready_and_leaves_requeue_after_alone() {
    let queue = exponential();
    for _ in 0..8 {
        retry(&queue, "failing");
    }
    delay(&queue, "waiting", 10);
    retry(&queue, "other");
    take_all_due(&queue).await;
    for _ in 0..3 {
        retry(&queue, "other");
    }
    retry(&queue, "failing");
    delay(&queue, "waiting", 500);
    assert_eq!(queue.len_delayed(), 3);
    assert_eq!(queue.release_backoff(), 2);
    assert_eq!(drain(&queue), ["other", "failing"]);
    assert_eq!((queue.num_requeues(&"failing"), queue.num_requeues(&"other")), (0, 0));
    advance(ms(499)).await;
    assert!(drain(&queue).is_empty());
    advance(ms(1)).await;
    assert_eq!(drain(&queue), ["waiting"]);
}

async fn take_all_due(queue: &TestQueue) {
    advance(ms(200)).await;
    drain(queue);
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_backoff_if_its_deadline_is_the_limiters() {
    let queue = exponential();
    delay(&queue, "limiter's is earlier", 100);
    retry(&queue, "limiter's is earlier");
    retry(&queue, "limiter's is later");
    retry(&queue, "limiter's is later");
    queue.cancel_delayed(&"limiter's is later");
    delay(&queue, "limiter's is later", 1);
    retry(&queue, "limiter's is later");
    assert_eq!(queue.release_backoff(), 1);
    assert_eq!(drain(&queue), ["limiter's is earlier"]);
}

#[tokio::test(start_paused = true)]
async fn release_backoff_keeps_payload_and_priority() {
    let queue = exponential();
    queue.add_rate_limited("a", Reasons(4), Priority::LOW);
    assert_eq!(queue.release_backoff(), 1);
    let item = queue.try_get().expect("released");
    assert_eq!((item.payload, item.priority), (Reasons(4), Priority::LOW));
}

#[tokio::test(start_paused = true)]
async fn a_key_released_in_processing_runs_once_more() {
    let queue = exponential();
    queue.add("a");
    let a = take(&queue);
    retry(&queue, "a");
    assert_eq!(queue.release_backoff(), 1);
    assert!(queue.try_get().is_none());
    queue.done(a);
    assert_eq!(drain(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn release_backoff_voids_the_reservations_it_made_useless() {
    let limiter = MaxOfRateLimiter::new([Box::new(BucketRateLimiter::new(1.0, 1)) as Box<dyn RateLimiter>]);
    let queue: TestQueue = Queue::with_rate_limiter(limiter);
    assert_eq!((retry(&queue, "a"), retry(&queue, "b"), retry(&queue, "c")), (0, 1_000, 2_000));
    assert_eq!(queue.release_backoff(), 2);
    assert_eq!(retry(&queue, "d"), 0);
}

#[tokio::test(start_paused = true)]
async fn of_the_options_after_and_rate_limited_the_shorter_delay_counts() {
    let queue: TestQueue =
        Queue::with_rate_limiter(ItemExponentialFailureRateLimiter::new(ms(100), ms(10_000)));
    let add = |after, at_least| {
        let options = AddOptions {
            after: ms(after),
            at_least: ms(at_least),
            rate_limited: true,
            ..AddOptions::default()
        };
        queue.add_with_options("a", Reasons(0), options)
    };
    assert_eq!(add(0, 0), Some(ms(100)));
    assert_eq!(add(150, 0), Some(ms(150)), "the limiter says 200");
    assert_eq!(add(1_000, 0), Some(ms(400)));
    assert_eq!(add(0, 900), Some(ms(900)), "the limiter says 800");
    assert_eq!(queue.num_requeues(&"a"), 4);
}

#[test]
fn a_queue_that_is_shut_down_counts_no_failure() {
    let queue = exponential();
    queue.shut_down();
    assert_eq!(queue.add_rate_limited("a", Reasons(0), Priority::NORMAL), None);
    assert_eq!(queue.num_requeues(&"a"), 0);
}

#[tokio::test(start_paused = true)]
async fn keys_that_fail_together_take_one_token_of_a_bucket_and_each_its_own_backoff() {
    let limiter = MaxOfRateLimiter::new([
        Box::new(ItemExponentialFailureRateLimiter::new(ms(1), ms(1_000))) as Box<dyn RateLimiter>,
        Box::new(BucketRateLimiter::new(1.0, 2)),
    ]);
    let queue: TestQueue = Queue::with_rate_limiter(limiter);
    queue.add_rate_limited("b", Reasons(0), Priority::NORMAL);
    advance(ms(1)).await;
    assert_eq!(drain(&queue), ["b"]);
    let failed = ["a", "b", "c"].map(|key| (key, Reasons(0), Priority::NORMAL)).into();
    queue.add_rate_limited_batch(failed, AddOptions::default());
    advance(ms(1)).await;
    assert_eq!(drain(&queue), ["a", "c"]);
    advance(ms(1)).await;
    assert_eq!(drain(&queue), ["b"], "it failed for the second time");
    // Two tokens are gone, of the single key and of the batch; 3 ms have refilled a little.
    assert_eq!(retry(&queue, "d"), 997);
    queue.shut_down();
    queue.add_rate_limited_batch(vec![("e", Reasons(0), Priority::NORMAL)], AddOptions::default());
    assert_eq!((queue.len_delayed(), queue.num_requeues(&"e")), (0, 0));
}
