//! What the host reads for its metrics.

use std::time::Duration;

use pilothouse_workqueue::Priority;
use tokio::time::{Instant, advance};

use crate::helpers::{Reasons, TestQueue, delay, ms, take};

#[tokio::test(start_paused = true)]
async fn queue_duration_starts_at_the_first_add_of_a_run() {
    let queue = TestQueue::new();
    queue.add_with("a", Reasons(0), Priority::Low);
    advance(ms(10)).await;
    queue.add("a");
    advance(ms(5)).await;
    let item = queue.try_get().expect("queued");
    assert_eq!((item.queued_for, item.started), (ms(15), Instant::now()));
    advance(ms(100)).await;
    queue.add("a");
    advance(ms(1)).await;
    queue.done(&"a");
    advance(ms(1)).await;
    assert_eq!(queue.try_get().expect("dirty").queued_for, ms(2));
}

#[tokio::test(start_paused = true)]
async fn queue_duration_of_a_delayed_key_starts_at_its_deadline() {
    let queue = TestQueue::new();
    delay(&queue, "a", 10);
    advance(ms(17)).await;
    assert_eq!(queue.try_get().expect("due").queued_for, ms(7));
}

#[tokio::test(start_paused = true)]
async fn work_duration_is_what_passed_since_started() {
    let queue = TestQueue::new();
    queue.add("a");
    let item = queue.try_get().expect("queued");
    advance(ms(30)).await;
    assert_eq!(item.started.elapsed(), ms(30));
}

#[tokio::test(start_paused = true)]
async fn unfinished_work_is_the_sum_and_longest_running_the_maximum_over_processing() {
    let queue = TestQueue::new();
    queue.add("a");
    queue.add("b");
    take(&queue);
    advance(ms(30)).await;
    take(&queue);
    advance(ms(10)).await;
    let stats = queue.stats();
    assert_eq!((stats.processing, stats.unfinished_work, stats.longest_running), (2, ms(50), ms(40)));
    queue.done(&"a");
    let stats = queue.stats();
    assert_eq!((stats.processing, stats.unfinished_work, stats.longest_running), (1, ms(10), ms(10)));
    queue.done(&"b");
    assert_eq!(queue.stats().unfinished_work, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn adds_count_runs_asked_for_and_retries_count_delayed_adds() {
    let queue = TestQueue::new();
    queue.add("a");
    queue.add("a");
    take(&queue);
    queue.add("a");
    queue.add("a");
    delay(&queue, "b", 10);
    delay(&queue, "b", 5);
    delay(&queue, "c", 0);
    queue.add_rate_limited("d", Reasons(0), Priority::Normal);
    let stats = queue.stats();
    assert_eq!((stats.adds, stats.retries), (3, 4));
    assert_eq!((stats.depth, stats.delayed, stats.processing), (1, 2, 1));
    advance(ms(10)).await;
    assert_eq!(queue.stats().adds, 5);
}

#[tokio::test(start_paused = true)]
async fn debug_shows_the_figures() {
    let queue = TestQueue::new();
    queue.add("a");
    assert!(format!("{queue:?}").contains("depth: 1"));
}
