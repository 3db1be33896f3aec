//! Real threads on one queue: no key is with two workers at once, and no add is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use pilothouse_workqueue::{ItemExponentialFailureRateLimiter, Priority, Queue};

const KEYS: usize = 64;
const PRODUCERS: usize = 4;
const WORKERS: usize = 4;
const ADDS: usize = 20_000;

/// What the test knows of a key.
#[derive(Default)]
struct Ledger {
    /// Raised before each add.
    wanted: AtomicU64,
    /// What a worker saw of `wanted` when it last ran.
    seen: AtomicU64,
    /// A worker has the key.
    busy: AtomicBool,
}

/// A small generator of numbers without a pattern; each thread starts elsewhere.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % below
    }
}

#[test]
fn no_key_is_processed_twice_at_once_and_none_is_lost() {
    let limiter = ItemExponentialFailureRateLimiter::new(Duration::from_micros(10), Duration::from_millis(1));
    let queue: Queue<usize> = Queue::with_rate_limiter(limiter);
    let ledgers: Arc<Vec<Ledger>> = Arc::new((0..KEYS).map(|_| Ledger::default()).collect());
    let runs = Arc::new(AtomicUsize::new(0));

    let workers: Vec<_> = (0..WORKERS)
        .map(|n| {
            let (queue, ledgers, runs) = (queue.clone(), Arc::clone(&ledgers), Arc::clone(&runs));
            thread::spawn(move || work(n, &queue, &ledgers, &runs))
        })
        .collect();
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|n| {
            let (queue, ledgers) = (queue.clone(), Arc::clone(&ledgers));
            thread::spawn(move || produce(n, &queue, &ledgers))
        })
        .collect();
    for producer in producers {
        producer.join().expect("the producer does not panic");
    }

    runtime().block_on(queue.shut_down_with_drain());
    for worker in workers {
        worker.join().expect("no key was with two workers");
    }
    for (key, ledger) in ledgers.iter().enumerate() {
        let (wanted, seen) = (ledger.wanted.load(Ordering::SeqCst), ledger.seen.load(Ordering::SeqCst));
        assert_eq!(wanted, seen, "key {key}: the last add was not followed by a run");
    }
    let stats = queue.stats();
    assert_eq!((stats.depth, stats.delayed, stats.processing), (0, 0, 0));
    assert_eq!(runs.load(Ordering::SeqCst) as u64, stats.adds, "one run for each add that asked for one");
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
}

fn produce(n: usize, queue: &Queue<usize>, ledgers: &[Ledger]) {
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15 + n as u64);
    for _ in 0..ADDS {
        let key = numbers.next(KEYS as u64) as usize;
        ledgers[key].wanted.fetch_add(1, Ordering::SeqCst);
        match numbers.next(8) {
            0 => queue.add_after(key, (), Priority::NORMAL, Duration::from_micros(numbers.next(2_000))),
            1 => {
                queue.add_rate_limited(key, (), Priority::NORMAL);
            }
            2 => queue.add_with(key, (), Priority::LOW),
            _ => queue.add(key),
        }
    }
}

fn work(n: usize, queue: &Queue<usize>, ledgers: &[Ledger], runs: &AtomicUsize) {
    let mut numbers = Numbers(0xD1B5_4A32_D192_ED03 + n as u64);
    runtime().block_on(async {
        loop {
            // Now and then a worker changes its mind, which must cost nobody a key.
            let item = if numbers.next(4) == 0 {
                match tokio::time::timeout(Duration::from_micros(numbers.next(300)), queue.get()).await {
                    Ok(item) => item,
                    Err(_) => continue,
                }
            } else {
                queue.get().await
            };
            let Some(item) = item else { break };
            let ledger = &ledgers[item.key];
            assert!(!ledger.busy.swap(true, Ordering::SeqCst), "key {} is with two workers", item.key);
            ledger.seen.store(ledger.wanted.load(Ordering::SeqCst), Ordering::SeqCst);
            runs.fetch_add(1, Ordering::SeqCst);
            if numbers.next(16) == 0 {
                thread::yield_now();
            }
            ledger.busy.store(false, Ordering::SeqCst);
            queue.forget(&item.key);
            queue.done(item);
        }
    });
}
