//! Queues with a hook, whose time one timekeeper keeps.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pilothouse_workqueue::{Priority, Queue, QueueHook, Timekeeper};
use tokio::time::{Instant, sleep, sleep_until};

use crate::helpers::{Polled, Reasons, TestQueue, add_all, delay, drain, ms, take};

/// A queue, and how often its hook was called.
fn hooked(timekeeper: &Timekeeper) -> (TestQueue, Arc<AtomicUsize>) {
    let rung = Arc::new(AtomicUsize::new(0));
    let ring = Arc::clone(&rung);
    let queue =
        Queue::builder().build_with_hook(timekeeper, move || _ = ring.fetch_add(1, Ordering::Relaxed));
    (queue, rung)
}

fn running() -> Timekeeper {
    let timekeeper = Timekeeper::new();
    let runs = timekeeper.clone();
    tokio::spawn(async move { runs.run().await });
    timekeeper
}

fn count(rung: &AtomicUsize) -> usize {
    rung.swap(0, Ordering::Relaxed)
}

#[test]
fn each_key_that_becomes_ready_calls_the_hook_and_a_merge_does_not() {
    let (queue, rung) = hooked(&Timekeeper::new());
    queue.add("a");
    assert_eq!(count(&rung), 1);
    queue.add("a");
    assert_eq!(count(&rung), 0);
    queue.add("b");
    assert_eq!(count(&rung), 1);
    assert_eq!(drain(&queue), ["a", "b"]);
    assert_eq!(count(&rung), 0);
}

#[test]
fn a_batch_calls_the_hook_once() {
    let (queue, rung) = hooked(&Timekeeper::new());
    queue.add_batch(["a", "b", "c"].map(|key| (key, Reasons(0), Priority::NORMAL)));
    assert_eq!(count(&rung), 1);
}

#[test]
fn a_worker_that_gives_a_key_back_looks_for_itself() {
    let (queue, rung) = hooked(&Timekeeper::new());
    queue.add("a");
    let item = queue.try_get().unwrap();
    queue.add("a");
    count(&rung);
    queue.done(item);
    assert_eq!(count(&rung), 0);
    assert_eq!(take(&queue).key, "a");
}

#[tokio::test]
async fn the_hook_is_not_called_for_a_key_that_a_waiting_worker_gets() {
    let (queue, rung) = hooked(&Timekeeper::new());
    let mut worker = Polled::pending(queue.get());
    queue.add("a");
    assert_eq!(count(&rung), 0);
    assert_eq!(worker.output().map(|item| item.key), Some("a"));
    // It gives up after it was notified: somebody else must take the key.
    let worker = Polled::pending(queue.get());
    queue.add("b");
    drop(worker);
    assert_eq!(count(&rung), 1);
}

#[tokio::test(start_paused = true)]
async fn delayed_keys_call_the_hook_at_their_deadlines_without_any_worker() {
    let start = Instant::now();
    let timekeeper = running();
    let (first, first_rung) = hooked(&timekeeper);
    let (second, second_rung) = hooked(&timekeeper);
    delay(&first, "late", 50);
    delay(&second, "soon", 20);
    delay(&first, "early", 10);
    for (at, expected) in [(9, (0, 0)), (11, (1, 0)), (21, (0, 1)), (49, (0, 0)), (51, (1, 0))] {
        sleep_until(start + ms(at)).await;
        assert_eq!((count(&first_rung), count(&second_rung)), expected, "after {at} ms");
    }
    assert_eq!((drain(&first), drain(&second)), (vec!["early", "late"], vec!["soon"]));
}

#[tokio::test(start_paused = true)]
async fn an_earlier_deadline_wakes_a_timekeeper_that_sleeps() {
    let timekeeper = running();
    let (first, first_rung) = hooked(&timekeeper);
    let (second, second_rung) = hooked(&timekeeper);
    sleep(ms(1)).await;
    delay(&first, "late", 1000);
    sleep(ms(1)).await;
    delay(&second, "soon", 10);
    sleep(ms(11)).await;
    assert_eq!((count(&first_rung), count(&second_rung)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_or_expedited_deadline_calls_nothing_later() {
    let timekeeper = running();
    let (queue, rung) = hooked(&timekeeper);
    delay(&queue, "a", 10);
    delay(&queue, "b", 20);
    assert!(queue.cancel_delayed(&"a"));
    assert_eq!(queue.expedite_all(|_| true), 1);
    assert_eq!(count(&rung), 1);
    sleep(ms(100)).await;
    assert_eq!(count(&rung), 0);
    assert_eq!(drain(&queue), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn keys_that_come_due_together_become_ready_in_portions_between_which_other_tasks_run() {
    let timekeeper = running();
    // The hook is called once for each portion. What looks at the queue would make the rest ready itself.
    let (queue, rung) = hooked(&timekeeper);
    let keys: Vec<String> = (0..3000).map(|key| key.to_string()).collect();
    let keys: Vec<&'static str> = keys.into_iter().map(|key| &*key.leak()).collect();
    keys.iter().for_each(|key| delay(&queue, key, 10));
    count(&rung);
    sleep(ms(10)).await;
    // This task and the timekeeper take turns.
    let mut portions = Vec::new();
    while portions.iter().sum::<usize>() < 3 {
        portions.push(count(&rung));
        assert!(portions.len() < 100, "{portions:?}");
        tokio::task::yield_now().await;
    }
    portions.retain(|calls| *calls > 0);
    assert_eq!(portions, [1, 1, 1]);
    assert_eq!(drain(&queue).len(), 3000);
}

/// A hook that panics a few times, and counts what it is told.
struct Panicking {
    panics_left: AtomicUsize,
    ready: Arc<AtomicUsize>,
    panicked: Arc<AtomicUsize>,
}

impl QueueHook for Panicking {
    fn ready(&self) {
        let left =
            self.panics_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        assert!(left.is_err(), "a bug");
        self.ready.fetch_add(1, Ordering::Relaxed);
    }

    fn panicked(&self, panic: &(dyn Any + Send)) {
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"a bug"));
        self.panicked.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_at_a_deadline_is_reported_and_ends_neither_its_queue_nor_others() {
    let timekeeper = running();
    let (ready, panicked) = (Arc::default(), Arc::default());
    let hook = Panicking {
        panics_left: AtomicUsize::new(2),
        ready: Arc::clone(&ready),
        panicked: Arc::clone(&panicked),
    };
    let bad: TestQueue = Queue::builder().build_with_hook(&timekeeper, hook);
    let (good, rung) = hooked(&timekeeper);
    delay(&bad, "a", 10);
    delay(&good, "b", 20);
    sleep(ms(21)).await;
    assert_eq!((count(&panicked), count(&rung)), (1, 1));
    delay(&bad, "b", 10);
    delay(&good, "c", 10);
    sleep(ms(2000)).await;
    assert_eq!((count(&panicked), count(&rung)), (1, 1));
    delay(&bad, "c", 10);
    sleep(ms(2000)).await;
    assert_eq!((count(&panicked), count(&ready)), (0, 1));
    assert_eq!((drain(&bad), drain(&good)), (vec!["a", "b", "c"], vec!["b", "c"]));
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_gone_has_no_alarm_and_its_member_is_used_again() {
    let timekeeper = running();
    let (kept, rung) = hooked(&timekeeper);
    for _ in 0..3 {
        let (gone, _) = hooked(&timekeeper);
        delay(&gone, "a", 5);
        assert_eq!(format!("{timekeeper:?}"), "Timekeeper { queues: 2, alarms: 1 }");
        drop(gone);
    }
    delay(&kept, "b", 10);
    assert_eq!(format!("{timekeeper:?}"), "Timekeeper { queues: 1, alarms: 1 }");
    sleep(ms(11)).await;
    assert_eq!((count(&rung), drain(&kept)), (1, vec!["b"]));
    add_all(&kept, ["c"]);
    assert_eq!(count(&rung), 1);
}
