//! Delayed keys of many queues: one timer for all of them.

use std::time::Duration;

use pilothouse_workqueue::{Priority, Queue, Scheduler};
use tokio::time::{Instant, advance};

use crate::helpers::{Polled, Reasons, delay, ms};
use crate::scheduler::{TestScheduler, seat, serve};

const HOUR: u64 = 3_600_000;

#[tokio::test(start_paused = true)]
async fn a_delayed_key_gets_its_turn_at_its_deadline_and_not_before() {
    let scheduler = TestScheduler::new();
    let queue = seat(&scheduler, "a", 1);
    delay(&queue, "1", 50);
    advance(ms(49)).await;
    assert_eq!(serve(&scheduler), []);
    advance(ms(1)).await;
    assert_eq!(serve(&scheduler), [("a", "1")]);
}

#[tokio::test(start_paused = true)]
async fn one_worker_sleeps_until_the_next_deadline_of_all_queues() {
    let scheduler = TestScheduler::new();
    let start = Instant::now();
    let [a, b, c] = ["a", "b", "c"].map(|owner| seat(&scheduler, owner, 1));
    delay(&a, "1", 5_000);
    delay(&b, "1", 70);
    delay(&c, "1", 1_000);
    delay(&b, "2", 2_000);
    let mut seen = Vec::new();
    for _ in 0..4 {
        let turn = scheduler.next().await.expect("not shut down");
        seen.push((*turn.owner(), *turn.key(), start.elapsed().as_millis()));
    }
    assert_eq!(seen, [("b", "1", 70), ("c", "1", 1_000), ("b", "2", 2_000), ("a", "1", 5_000)]);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_worker_learns_of_an_earlier_deadline_of_any_queue() {
    let scheduler = TestScheduler::new();
    let [a, b] = ["a", "b"].map(|owner| seat(&scheduler, owner, 1));
    delay(&a, "1", 10_000);
    let start = Instant::now();
    let worker = scheduler.clone();
    let worker = tokio::spawn(async move { *worker.next().await.expect("not shut down").owner() });
    tokio::task::yield_now().await;
    delay(&b, "1", 20);
    assert_eq!(worker.await.expect("ends"), "b");
    assert_eq!(start.elapsed(), ms(20));
}

#[tokio::test(start_paused = true)]
async fn another_worker_keeps_time_when_the_first_leaves() {
    let scheduler = TestScheduler::new();
    let queue = seat(&scheduler, "a", 1);
    delay(&queue, "1", 10);
    let first = Polled::pending(scheduler.next());
    let mut second = Polled::pending(scheduler.next());
    drop(first);
    assert!(second.woken() && second.poll().is_pending());
    advance(ms(10)).await;
    assert_eq!(*second.output().expect("due").owner(), "a");
}

#[tokio::test(start_paused = true)]
async fn another_worker_keeps_time_when_the_first_gets_a_key() {
    let scheduler = TestScheduler::new();
    let [a, b] = ["a", "b"].map(|owner| seat(&scheduler, owner, 1));
    delay(&a, "1", 10);
    let mut first = Polled::pending(scheduler.next());
    let mut second = Polled::pending(scheduler.next());
    b.add("1");
    let _turn = first.output().expect("of b");
    assert!(second.woken() && second.poll().is_pending());
    advance(ms(10)).await;
    assert_eq!(*second.output().expect("due").owner(), "a");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_delay_costs_one_look_and_no_turn() {
    let scheduler = TestScheduler::new();
    let queue = seat(&scheduler, "a", 1);
    delay(&queue, "1", 10);
    assert!(queue.cancel_delayed(&"1"));
    advance(ms(10)).await;
    assert_eq!(serve(&scheduler), []);
    assert_eq!(format!("{scheduler:?}"), "Scheduler { queues: 1, turns: 0, alarms: 0 }");
}

#[tokio::test(start_paused = true)]
async fn expedited_keys_get_their_turns_at_once() {
    let scheduler = TestScheduler::new();
    let queue = seat(&scheduler, "a", 1);
    delay(&queue, "2", HOUR);
    delay(&queue, "1", HOUR / 2);
    let mut next = Polled::pending(scheduler.next());
    assert_eq!(queue.expedite_all(|_| true), 2);
    assert_eq!(*next.output().expect("ready").key(), "1");
    assert_eq!(serve(&scheduler), [("a", "2")]);
}

#[tokio::test(start_paused = true)]
async fn a_retry_gets_its_turn_when_its_limiter_says() {
    let scheduler = TestScheduler::new();
    let queue = seat(&scheduler, "a", 1);
    let start = Instant::now();
    queue.add("1");
    for waited in [0, 5, 15, 35] {
        let turn = scheduler.next().await.expect("not shut down");
        assert_eq!(start.elapsed(), ms(waited));
        queue.add_rate_limited(*turn.key(), Reasons(0), Priority::NORMAL);
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_the_delays_of_its_queue_alone() {
    let scheduler = TestScheduler::new();
    let [a, b] = ["a", "b"].map(|owner| seat(&scheduler, owner, 1));
    delay(&a, "1", 500);
    delay(&b, "1", HOUR);
    let start = Instant::now();
    let worker = scheduler.clone();
    let worker = tokio::spawn(async move { while worker.next().await.is_some() {} });
    a.shut_down_with_drain().await;
    assert_eq!(start.elapsed(), ms(500));
    scheduler.shut_down();
    worker.await.expect("ends");
}

#[tokio::test(start_paused = true)]
async fn a_queue_has_one_alarm_however_often_its_next_deadline_changes() {
    let scheduler = TestScheduler::new();
    let queue = seat(&scheduler, "a", 1);
    delay(&queue, "far", HOUR);
    for _ in 0..1_000 {
        delay(&queue, "retry", 50);
        delay(&queue, "sooner", 20);
        delay(&queue, "sooner", 5);
        assert_eq!(format!("{scheduler:?}"), "Scheduler { queues: 1, turns: 0, alarms: 1 }");
        advance(ms(60)).await;
        assert_eq!(serve(&scheduler), [("a", "sooner"), ("a", "retry")]);
    }
    advance(ms(HOUR)).await;
    assert_eq!(serve(&scheduler), [("a", "far")]);
    assert_eq!(format!("{scheduler:?}"), "Scheduler { queues: 1, turns: 0, alarms: 0 }");
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_dropped_leaves_no_alarm_to_itself_or_to_who_gets_its_seat() {
    let scheduler = TestScheduler::new();
    let gone = seat(&scheduler, "gone", 1);
    delay(&gone, "1", 10);
    drop(gone);
    assert_eq!(format!("{scheduler:?}"), "Scheduler { queues: 0, turns: 0, alarms: 0 }");
    let queue = seat(&scheduler, "new", 1);
    delay(&queue, "2", 30);
    let mut next = Polled::pending(scheduler.next());
    advance(ms(20)).await;
    assert!(next.poll().is_pending());
    advance(ms(10)).await;
    assert_eq!(*next.output().expect("due").owner(), "new");
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_delayed_queues_are_woken_for_once_each() {
    let scheduler: Scheduler<u32, (), u32> = Scheduler::new();
    let start = Instant::now();
    let queues: Vec<Queue<u32>> =
        (0..10_000).map(|owner| Queue::builder().build_in(&scheduler, owner, 1)).collect();
    // Not in the order of the queues.
    let due = |n: u32| Duration::from_millis(u64::from(n * 7_919 % 10_000) + 1);
    for (n, queue) in (0..).zip(&queues) {
        queue.add_after(n, (), Priority::NORMAL, due(n));
    }
    for _ in 0..10_000 {
        let turn = scheduler.next().await.expect("not shut down");
        assert_eq!((*turn.owner(), due(*turn.owner())), (*turn.key(), start.elapsed()));
    }
    assert_eq!(format!("{scheduler:?}"), "Scheduler { queues: 10000, turns: 0, alarms: 0 }");
}

#[tokio::test(start_paused = true)]
async fn of_many_keys_that_come_due_together_all_get_their_turns() {
    let scheduler: Scheduler<u32, (), ()> = Scheduler::new();
    let queue: Queue<u32> = Queue::builder().build_in(&scheduler, (), 1);
    for key in 0..5_000 {
        queue.add_after(key, (), Priority::NORMAL, ms(10));
    }
    for key in 0..5_000 {
        let turn = tokio::time::timeout(ms(50), scheduler.next()).await.expect("it is due").expect("open");
        assert_eq!(*turn.key(), key);
    }
    assert_eq!((queue.len(), queue.len_delayed()), (0, 0));
}
