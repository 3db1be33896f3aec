//! Code of the user's that the queue calls: it may panic or change its mind, and the queue goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pilothouse_workqueue::{Merge, Priority, Queue, Timekeeper};
use tokio::time::advance;

use crate::helpers::{Polled, ms};

fn panics(action: impl FnOnce()) {
    assert!(catch_unwind(AssertUnwindSafe(action)).is_err());
}

fn drain<M: Merge>(queue: &Queue<u32, M>) -> Vec<u32> {
    let mut keys: Vec<u32> = std::iter::from_fn(|| queue.try_get())
        .map(|item| {
            let key = item.key;
            queue.done(item);
            key
        })
        .collect();
    keys.sort_unstable();
    keys
}

/// Two of them cannot be merged.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Unmergeable;

impl Merge for Unmergeable {
    fn merge(&mut self, _: Self) {
        panic!("a test's");
    }
}

#[test]
fn a_payload_that_panics_when_merged_leaves_the_key_where_it_is() {
    let queue: Queue<u32, Unmergeable> = Queue::new();
    queue.add(0);
    panics(|| queue.add(0));
    let item = queue.try_get().expect("it waits still");
    queue.done(item);
    // Enough keys that come and go for slots to be compacted.
    (0..1000).for_each(|key| queue.add(key));
    assert_eq!(drain(&queue).len(), 1000);
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_filter_that_panics_expedites_nothing_and_loses_nothing() {
    let queue: Queue<u32> = Queue::new();
    for key in 0..10 {
        queue.add_after(key, (), Priority::NORMAL, ms(100 + u64::from(key)));
    }
    panics(|| {
        queue.expedite_all(|key| {
            assert!(*key < 5, "a test's");
            true
        });
    });
    assert_eq!((queue.len(), queue.len_delayed()), (0, 10));
    for key in 0..5 {
        assert!(queue.cancel_delayed(&key));
    }
    advance(ms(200)).await;
    assert_eq!(drain(&queue), [5, 6, 7, 8, 9]);
}

#[tokio::test(start_paused = true)]
async fn of_many_keys_that_come_due_together_none_is_forgotten() {
    let queue: Queue<u32> = Queue::new();
    for key in 0..5000 {
        queue.add_after(key, (), Priority::NORMAL, ms(10));
    }
    advance(ms(10)).await;
    // A worker that sleeps is woken for all of them, though a call makes only some ready.
    for _ in 0..5000 {
        let item = tokio::time::timeout(ms(5), queue.get()).await.expect("it is due").expect("open");
        queue.done(item);
    }
    assert_eq!((queue.len(), queue.len_delayed()), (0, 0));
}

/// Its end panics, unless it is nothing.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Endless(bool);

impl Merge for Endless {
    fn merge(&mut self, other: Self) {
        std::mem::forget(std::mem::replace(self, other));
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        assert!(!self.0, "a test's");
    }
}

#[tokio::test(start_paused = true)]
async fn a_payload_whose_end_panics_loses_no_other_key_and_no_wake_up() {
    let queue: Queue<u32, Endless> = Queue::new();
    let delay = |key, payload| queue.add_after(key, payload, Priority::NORMAL, ms(1000));
    delay(1, Endless(true));
    delay(2, Endless(false));
    panics(|| assert!(queue.cancel_delayed(&1)));
    assert_eq!(queue.len_delayed(), 1);
    (3..=5).for_each(|key| queue.add(key));
    assert_eq!(drain(&queue), [3, 4, 5]);
    advance(ms(1000)).await;
    assert_eq!(drain(&queue), [2]);

    delay(6, Endless(true));
    delay(7, Endless(false));
    let draining = queue.clone();
    let drained = tokio::spawn(async move { draining.shut_down_with_drain().await });
    tokio::task::yield_now().await;
    panics(|| queue.shut_down());
    drained.await.expect("the drain ends");
    assert_eq!(queue.len_delayed(), 0);
    assert!(!queue.cancel_delayed(&6) && !queue.cancel_delayed(&7));
}

#[tokio::test]
async fn a_batch_that_panics_wakes_a_worker_for_the_keys_before() {
    let queue: Queue<u32, Unmergeable> = Queue::new();
    queue.add(1);
    let _running = queue.try_get().expect("just added");
    let mut worker = Polled::pending(queue.get());
    // Key 2 becomes ready; the payload of key 1, which is in processing, cannot be merged.
    panics(|| queue.add_batch([2, 1].map(|key| (key, Unmergeable, Priority::NORMAL))));
    assert_eq!(worker.output().map(|item| item.key), Some(2));
}

#[tokio::test]
async fn a_batch_that_panics_calls_the_hook_for_the_keys_before() {
    let rung = Arc::new(AtomicUsize::new(0));
    let ring = Arc::clone(&rung);
    let hook = move || _ = ring.fetch_add(1, Ordering::Relaxed);
    let queue: Queue<u32, Unmergeable> = Queue::builder().build_with_hook(&Timekeeper::new(), hook);
    queue.add(1);
    let _running = queue.try_get().expect("just added");
    panics(|| queue.add_batch([2, 1].map(|key| (key, Unmergeable, Priority::NORMAL))));
    assert_eq!(rung.load(Ordering::Relaxed), 2);
}
