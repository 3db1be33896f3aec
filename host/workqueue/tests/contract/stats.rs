//! What the host reads for its metrics.

use std::time::Duration;

use pilothouse_workqueue::Priority;
use tokio::time::advance;

use crate::helpers::{Reasons, TestQueue, delay, ms, take};

/// A queue that measures, since it has a name.
fn measured() -> TestQueue {
    TestQueue::builder().name("test").build()
}

#[tokio::test(start_paused = true)]
async fn queue_duration_starts_at_the_first_add_of_a_run() {
    let queue = measured();
    queue.add_with("a", Reasons(0), Priority::LOW);
    advance(ms(10)).await;
    queue.add("a");
    advance(ms(5)).await;
    let item = queue.try_get().expect("queued");
    assert_eq!(item.queued_for(), ms(15));
    advance(ms(100)).await;
    queue.add("a");
    advance(ms(1)).await;
    queue.done(item);
    advance(ms(1)).await;
    assert_eq!(queue.try_get().expect("dirty").queued_for(), ms(2));
    let histogram = queue.stats().queue_duration;
    assert_eq!((histogram.count(), histogram.sum()), (2, ms(17)));
}

#[tokio::test(start_paused = true)]
async fn queue_duration_of_a_delayed_key_starts_at_its_deadline() {
    let queue = measured();
    delay(&queue, "a", 10);
    advance(ms(17)).await;
    assert_eq!(queue.try_get().expect("due").queued_for(), ms(7));
}

#[tokio::test(start_paused = true)]
async fn work_duration_is_from_the_handing_out_to_done() {
    let queue = measured();
    for took in [30, 5] {
        queue.add("a");
        let item = queue.try_get().expect("queued");
        advance(ms(took)).await;
        queue.done(item);
    }
    let histogram = queue.stats().work_duration;
    assert_eq!((histogram.count(), histogram.sum()), (2, ms(35)));
    let filled: Vec<_> = histogram.buckets().filter(|(_, count)| *count > 0).collect();
    assert_eq!(filled, [(0.01, 1), (0.1, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_queue_without_a_name_counts_and_measures_no_time() {
    let queue = TestQueue::new();
    queue.add("a");
    advance(ms(10)).await;
    let item = queue.try_get().expect("queued");
    assert_eq!(item.queued_for(), Duration::ZERO);
    advance(ms(10)).await;
    let stats = queue.stats();
    assert_eq!((stats.adds, stats.processing, stats.unfinished_work), (1, 1, Duration::ZERO));
    queue.done(item);
    assert_eq!(queue.stats().work_duration.count(), 0);
    assert_eq!((queue.name(), measured().name()), (None, Some("test")));
}

#[test]
fn depth_is_told_by_priority_as_well() {
    let queue = TestQueue::new();
    queue.add("a");
    for (key, priority) in [("b", Priority::LOW), ("c", Priority(7)), ("d", Priority::LOW)] {
        queue.add_with(key, Reasons(0), priority);
    }
    let depths = [(Priority(7), 1), (Priority::NORMAL, 1), (Priority::LOW, 2)];
    assert_eq!((queue.stats().depth, queue.stats().depths), (4, depths.to_vec()));
    take(&queue);
    assert_eq!(queue.stats().depths, depths[1..]);
}

#[tokio::test(start_paused = true)]
async fn unfinished_work_is_the_sum_and_longest_running_the_maximum_over_processing() {
    let queue = measured();
    queue.add("a");
    queue.add("b");
    let a = take(&queue);
    advance(ms(30)).await;
    let b = take(&queue);
    advance(ms(10)).await;
    let stats = queue.stats();
    assert_eq!((stats.processing, stats.unfinished_work, stats.longest_running), (2, ms(50), ms(40)));
    queue.done(a);
    let stats = queue.stats();
    assert_eq!((stats.processing, stats.unfinished_work, stats.longest_running), (1, ms(10), ms(10)));
    queue.done(b);
    assert_eq!(queue.stats().unfinished_work, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn adds_count_runs_asked_for_and_retries_count_delayed_adds() {
    let queue = measured();
    queue.add("a");
    queue.add("a");
    take(&queue);
    queue.add("a");
    queue.add("a");
    delay(&queue, "b", 10);
    delay(&queue, "b", 5);
    delay(&queue, "c", 0);
    queue.add_rate_limited("d", Reasons(0), Priority::NORMAL);
    let stats = queue.stats();
    assert_eq!((stats.adds, stats.retries), (3, 4));
    assert_eq!((stats.depth, stats.delayed, stats.processing), (1, 2, 1));
    advance(ms(10)).await;
    assert_eq!(queue.stats().adds, 5);
}

#[tokio::test(start_paused = true)]
async fn debug_shows_the_figures() {
    let queue = measured();
    queue.add("a");
    assert!(format!("{queue:?}").contains("depth: 1"));
}
