//! What queues hold on the heap, measured with an allocator that counts, for each thread by itself.

use std::cell::RefCell;
use std::hash::Hash;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_testkit::heap::{CountingAllocator, held};
use pilothouse_workqueue::{ItemExponentialFailureRateLimiter, Merge, Priority, Queue, Timekeeper};
use tokio::time::advance;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The bytes that this thread holds more than when the test began. Figures are shown at its end, with --nocapture: what the
/// test runner keeps of the output would count as well.
struct Held {
    before: isize,
    figures: RefCell<Vec<(&'static str, usize)>>,
}

impl Held {
    fn start() -> Self {
        let figures = RefCell::new(Vec::with_capacity(16));
        Self { before: held(), figures }
    }

    fn bytes(&self) -> usize {
        usize::try_from(held() - self.before).unwrap_or(0)
    }

    fn assert_below(&self, limit: usize, what: &'static str) {
        let bytes = self.bytes();
        self.figures.borrow_mut().push((what, bytes));
        assert!(bytes < limit, "{what} holds {bytes} bytes");
    }
}

impl Drop for Held {
    #[allow(clippy::print_stdout, reason = "shown with --nocapture, to follow the figures")]
    fn drop(&mut self) {
        for (what, bytes) in self.figures.get_mut() {
            println!("{what}: {bytes} B");
        }
    }
}

fn keys(number: usize) -> Vec<Arc<str>> {
    (0..number).map(|n| Arc::from(format!("namespace-{}/name-{n}", n % 500))).collect()
}

fn serve<M: Merge>(queue: &Queue<Arc<str>, M>) {
    while let Some(item) = queue.try_get() {
        queue.forget(&item.key);
        queue.done(item);
    }
}

/// Half a minute after a burst a queue releases memory, when somebody waits for a key or reads a figure.
async fn rest<K: Clone + Eq + Hash, M: Merge>(queue: &Queue<K, M>) {
    advance(Duration::from_secs(31)).await;
    black_box(queue.len());
}

#[tokio::test(start_paused = true)]
async fn an_idle_queue_holds_a_kibibyte_before_a_burst_and_one_and_a_half_after_it() {
    let keys = keys(20_000);
    let held = Held::start();
    let queue: Queue<Arc<str>> = Queue::new();
    held.assert_below(1024, "a new queue");

    for key in &keys {
        queue.add(Arc::clone(key));
        queue.add_after(Arc::clone(key), (), Priority::NORMAL, Duration::from_secs(3600));
        queue.add_rate_limited(Arc::clone(key), (), Priority::LOW);
    }
    held.assert_below(205 * keys.len(), "a queue of 20,000 keys that are queued, delayed and failing");

    queue.expedite_all(|_| true);
    serve(&queue);
    rest(&queue).await;
    held.assert_below(1536, "a queue that was full");

    // One key that stays does not keep the room of the many that went.
    for key in &keys {
        queue.add(Arc::clone(key));
    }
    queue.add_after(Arc::clone(&keys[0]), (), Priority::NORMAL, Duration::from_secs(3600));
    serve(&queue);
    rest(&queue).await;
    held.assert_below(16 * 1024, "a queue with one delayed key that was full");
    assert_eq!(black_box(&queue).len_delayed(), 1);
}

#[tokio::test(start_paused = true)]
async fn memory_stays_for_the_next_burst_and_goes_while_a_worker_sleeps() {
    let keys = keys(20_000);
    let queue: Queue<Arc<str>> = Queue::new();
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            while let Some(item) = queue.get().await {
                queue.done(item);
            }
        }
    });
    tokio::task::yield_now().await;
    let held = Held::start();
    queue.add_batch(keys.iter().map(|key| (Arc::clone(key), (), Priority::NORMAL)));
    let full = held.bytes();
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert!(queue.is_empty() && held.bytes() == full, "{} of {full} bytes", held.bytes());
    tokio::time::sleep(Duration::from_secs(2)).await;
    held.assert_below(2048, "a queue whose worker has slept for 30 s");
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_queue_with_a_name_holds_two_kibibytes_after_a_burst() {
    let keys = keys(20_000);
    let held = Held::start();
    let queue: Queue<Arc<str>> = Queue::builder().name("named").build();
    queue.add_batch(keys.iter().map(|key| (Arc::clone(key), (), Priority::NORMAL)));
    let items: Vec<_> = std::iter::from_fn(|| queue.try_get()).collect();
    // All are dirty while they are processed.
    queue.add_batch(keys.iter().map(|key| (Arc::clone(key), (), Priority::NORMAL)));
    queue.done_batch(items);
    serve(&queue);
    rest(&queue).await;
    held.assert_below(2 * 1024, "a queue with a name that was full of dirty keys");
}

#[tokio::test(start_paused = true)]
async fn priorities_that_were_used_once_are_not_kept() {
    let keys = keys(10_000);
    let held = Held::start();
    let queue: Queue<Arc<str>> = Queue::new();
    queue.add_batch(keys.iter().zip(0..).map(|(key, n)| (Arc::clone(key), (), Priority(n))));
    for _ in 1..keys.len() {
        queue.done(queue.try_get().expect("queued"));
    }
    assert_eq!(queue.stats().depths.len(), 1);
    rest(&queue).await;
    held.assert_below(8 * 1024, "a queue that had 10,000 priorities and has one left");
    serve(&queue);
    rest(&queue).await;
    held.assert_below(1536, "a queue that had 10,000 priorities");
}

/// What a cancelled delay carried; counted by its strong references.
#[derive(Default)]
struct Load(Option<Arc<()>>);

impl Merge for Load {
    fn merge(&mut self, other: Self) {
        self.0 = self.0.take().or(other.0);
    }
}

#[test]
fn what_a_cancelled_delay_carried_is_dropped_at_once() {
    let load = Arc::new(());
    let queue: Queue<u32, Load> = Queue::new();
    queue.add(0);
    for key in 0..2 {
        let delay = Duration::from_secs(3600);
        queue.add_after(key, Load(Some(Arc::clone(&load))), Priority::NORMAL, delay);
    }
    assert!(queue.cancel_delayed(&0) && queue.cancel_delayed(&1));
    assert_eq!(Arc::strong_count(&load), 1);
}

/// As wide as the key of the host, `pilothouse_object::ObjectKey`.
#[derive(Clone, PartialEq, Eq, Hash)]
struct HostKey(Arc<str>, u32);

/// As wide as the payload of the host.
#[derive(Clone, Copy, Default)]
struct HostPayload(u16);

impl Merge for HostPayload {
    fn merge(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_of_the_host_costs_69_bytes_at_a_million_queued_or_failing_and_17_more_delayed() {
    const KEYS: usize = 1_000_000;
    let keys: Vec<HostKey> = keys(KEYS).into_iter().map(|key| HostKey(key, 7)).collect();
    let held = Held::start();
    let limiter = ItemExponentialFailureRateLimiter::new(Duration::ZERO, Duration::ZERO);
    let queue: Queue<HostKey, HostPayload> = Queue::with_rate_limiter(limiter);
    keys.iter().for_each(|key| {
        queue.add_rate_limited(key.clone(), HostPayload(1), Priority::NORMAL);
    });
    held.assert_below(69 * KEYS, "a queue of 1,000,000 keys of 24 bytes");
    std::iter::from_fn(|| queue.try_get()).for_each(|item| queue.done(item));
    held.assert_below(69 * KEYS, "1,000,000 failing keys");
    keys.iter().for_each(|key| {
        queue.add_after(key.clone(), HostPayload(1), Priority::NORMAL, Duration::from_secs(3600));
    });
    held.assert_below(86 * KEYS, "1,000,000 delayed and failing keys");
    queue.shut_down();
    keys.iter().for_each(|key| queue.forget(key));
    rest(&queue).await;
    held.assert_below(1536, "a queue that forgot 1,000,000 keys");
}

#[test]
fn a_timekeeper_gives_back_what_its_queues_needed() {
    let held = Held::start();
    let timekeeper = Timekeeper::new();
    for _ in 0..2 {
        let queues: Vec<Queue<u32>> =
            (0..10_000).map(|_| Queue::builder().build_with_hook(&timekeeper, || {})).collect();
        for queue in &queues {
            queue.add_after(2, (), Priority::NORMAL, Duration::from_secs(3600));
        }
        held.assert_below(10_000 * 2048, "a timekeeper of 10,000 queues with a delayed key each");
    }
    held.assert_below(1024, "a timekeeper of queues that are gone");
}
