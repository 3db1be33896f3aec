//! What is counted: operations of the public API, as many as asked for.
//!
//! Invariant: what a scenario does besides its operations is the same for any number of them, so that it falls out of
//! the difference of two counts. Called by `main`.

use std::iter;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pilothouse_workqueue::{
    BucketRateLimiter, ItemExponentialFailureRateLimiter, MaxOfRateLimiter, Priority, Queue, RateLimiter,
    Verdict,
};

type Key = Arc<str>;

const HOUR: Duration = Duration::from_secs(3600);

/// Keys that wait beside those that are operated on, where that matters.
const OTHERS: usize = 1_000;

/// One kind of operation.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// N: enough to drown what a single growth of a table costs.
    pub(crate) operations: usize,
    /// Does so many operations: N or 2N.
    pub(crate) run: fn(usize),
}

/// All of them, in the order of the table.
pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario { name: "add, try_get, done: one key", operations: 10_000, run: add_get_done },
    Scenario { name: "add, get, done: one key", operations: 10_000, run: add_await_done },
    Scenario { name: "add, try_get, done: one key, metrics on", operations: 10_000, run: add_get_done_named },
    Scenario {
        name: "add, try_get, finish with a retry, cancel_delayed",
        operations: 10_000,
        run: fail_and_finish,
    },
    Scenario { name: "add, try_get, finish: one key", operations: 10_000, run: add_get_finish },
    Scenario { name: "add_batch, try_get, done_batch: of 50, a key", operations: 10_000, run: batches },
    Scenario { name: "add: a key that waits (merge)", operations: 10_000, run: merge },
    Scenario { name: "add_with: a higher priority", operations: RAISED / 2, run: raise },
    Scenario { name: "add_after, cancel_delayed", operations: 10_000, run: delay_and_cancel },
    Scenario { name: "add_rate_limited, cancel_delayed, forget", operations: 10_000, run: fail_and_forget },
    Scenario {
        name: "add, try_get, done: filled to 10,000 and drained",
        operations: FILL,
        run: fill_and_drain,
    },
    Scenario { name: "add_after, come due, try_get, done", operations: 10 * DUE, run: come_due },
];

/// Keys that `raise` has at hand: 2N.
const RAISED: usize = 10_000;

/// Keys that come due within two milliseconds.
const DUE: usize = 1_000;

/// To how many keys `fill_and_drain` fills its queue.
const FILL: usize = 10_000;

fn key(number: usize) -> Key {
    format!("namespace-{}/object-{number}", number % 100).into()
}

fn keys(count: usize) -> Vec<Key> {
    (0..count).map(key).collect()
}

/// Keys to operate on among the others, one after the other: what one key costs there depends on where its hash, of
/// which the seed is another each time, puts it.
fn in_turn() -> Vec<Key> {
    (OTHERS..OTHERS + 500).map(key).collect()
}

/// The default limiter of controllers, but that no delay can end before it is cancelled: valgrind is slow.
fn limiter() -> MaxOfRateLimiter {
    MaxOfRateLimiter::new([
        Box::new(ItemExponentialFailureRateLimiter::new(HOUR, 2 * HOUR)) as Box<dyn RateLimiter>,
        Box::new(BucketRateLimiter::new(10.0, 100)),
    ])
}

/// A queue in which others are delayed.
fn with_delayed_others() -> Queue<Key> {
    let queue = Queue::with_rate_limiter(limiter());
    for (number, key) in keys(OTHERS).into_iter().enumerate() {
        // In no order, as delays come.
        let delay = HOUR + Duration::from_secs((number as u64 * 7919) % 3600);
        queue.add_after(key, (), Priority::NORMAL, delay);
    }
    queue
}

fn add_get_done(operations: usize) {
    add_get_done_of(&Queue::new(), operations);
}

fn add_get_done_named(operations: usize) {
    add_get_done_of(&Queue::builder().name("named").build(), operations);
}

fn add_get_done_of(queue: &Queue<Key>, operations: usize) {
    let key = key(1);
    for _ in 0..operations {
        queue.add(Arc::clone(&key));
        let item = queue.try_get().expect("just added");
        queue.done(item);
    }
}

fn add_get_finish(operations: usize) {
    let (queue, key) = (Queue::<Key>::new(), key(1));
    for _ in 0..operations {
        queue.add(Arc::clone(&key));
        let mut item = queue.try_get().expect("just added");
        queue.finish(&mut item, Verdict::Done);
    }
}

fn fail_and_finish(operations: usize) {
    let (queue, keys) = (with_delayed_others(), in_turn());
    for key in keys.iter().cycle().take(operations) {
        queue.add(Arc::clone(key));
        let mut item = queue.try_get().expect("just added");
        queue.finish(&mut item, Verdict::Retry { at_least: Duration::ZERO });
        assert!(queue.cancel_delayed(key));
    }
}

/// Keys of a batch.
const BATCH: usize = 50;

fn batches(operations: usize) {
    let (queue, keys) = (Queue::<Key>::new(), keys(BATCH));
    for _ in 0..operations / BATCH {
        queue.add_batch(keys.iter().map(|key| (Arc::clone(key), (), Priority::NORMAL)));
        let items: Vec<_> = iter::from_fn(|| queue.try_get()).collect();
        queue.done_batch(items);
    }
}

fn add_await_done(operations: usize) {
    let (queue, key) = (Queue::<Key>::new(), key(1));
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..operations {
        queue.add(Arc::clone(&key));
        let Poll::Ready(Some(item)) = pin!(queue.get()).poll(&mut context) else { panic!("just added") };
        queue.done(item);
    }
}

fn merge(operations: usize) {
    let (queue, key) = (Queue::<Key>::new(), key(1));
    for _ in 0..operations {
        queue.add(Arc::clone(&key));
    }
}

fn raise(operations: usize) {
    let queue: Queue<Key> = Queue::new();
    let keys = keys(RAISED);
    for key in &keys {
        queue.add_with(Arc::clone(key), (), Priority::LOW);
    }
    for key in &keys[..operations] {
        queue.add_with(Arc::clone(key), (), Priority::NORMAL);
    }
}

fn delay_and_cancel(operations: usize) {
    let (queue, keys) = (with_delayed_others(), in_turn());
    for key in keys.iter().cycle().take(operations) {
        queue.add_after(Arc::clone(key), (), Priority::NORMAL, HOUR);
        assert!(queue.cancel_delayed(key));
    }
}

fn fail_and_forget(operations: usize) {
    let (queue, keys) = (with_delayed_others(), in_turn());
    for key in keys.iter().cycle().take(operations) {
        queue.add_rate_limited(Arc::clone(key), (), Priority::NORMAL);
        assert!(queue.cancel_delayed(key));
        queue.forget(key);
    }
}

fn fill_and_drain(operations: usize) {
    let keys = keys(FILL);
    for _ in 0..operations / FILL {
        let queue: Queue<Key> = Queue::new();
        for key in &keys {
            queue.add(Arc::clone(key));
        }
        while let Some(item) = queue.try_get() {
            queue.done(item);
        }
    }
}

/// On a paused clock, whose readings are the greater part.
fn come_due(operations: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let (queue, keys) = (Queue::<Key>::new(), keys(DUE));
        for _ in 0..operations / DUE {
            for (number, key) in keys.iter().enumerate() {
                // In no order, as delays come.
                let delay = Duration::from_micros(5_000 + (number as u64 * 7919) % 2_000);
                queue.add_after(Arc::clone(key), (), Priority::NORMAL, delay);
            }
            tokio::time::advance(Duration::from_millis(10)).await;
            while let Some(item) = queue.try_get() {
                queue.done(item);
            }
        }
        assert_eq!(queue.len_delayed(), 0);
    });
}
