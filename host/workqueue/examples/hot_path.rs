//! What the queue's main operations cost: `cargo run --release -p pilothouse-workqueue --example hot_path`.
//!
//! A plain timing loop, the best of several rounds, for a first figure; not a benchmark to compare machines with.
#![allow(clippy::print_stdout, reason = "a program whose purpose is its output")]

use std::hint::black_box;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pilothouse_workqueue::{Priority, Queue};

const ROUNDS: usize = 10;

fn main() {
    let key: Arc<str> = Arc::from("some-namespace/some-object-name");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");

    report("reading the clock once", 1_000_000, |n| {
        for _ in 0..n {
            black_box(Instant::now());
        }
    });
    let mutex = parking_lot::Mutex::new(0_u64);
    report("locking and unlocking a mutex once", 1_000_000, |n| {
        for _ in 0..n {
            *black_box(&mutex).lock() += 1;
        }
    });
    report("cloning and dropping an Arc once", 1_000_000, |n| {
        for _ in 0..n {
            black_box(Arc::clone(black_box(&key)));
        }
    });
    report("add → try_get → done, one number", 1_000_000, |n| {
        let queue: Queue<u64> = Queue::new();
        for _ in 0..n {
            queue.add(black_box(7));
            let item = queue.try_get().expect("just added");
            queue.done(&item);
        }
    });
    report("add → try_get → done, one key", 1_000_000, |n| {
        let queue: Queue<Arc<str>> = Queue::new();
        for _ in 0..n {
            queue.add(Arc::clone(&key));
            let item = queue.try_get().expect("just added");
            queue.done(&item);
        }
    });
    report("add → get.await → done, one key", 1_000_000, |n| {
        let queue: Queue<Arc<str>> = Queue::new();
        runtime.block_on(async {
            for _ in 0..n {
                queue.add(Arc::clone(&key));
                let item = queue.get().await.expect("just added");
                queue.done(&item);
            }
        });
    });
    report("the same, another key delayed", 1_000_000, |n| {
        let queue: Queue<Arc<str>> = Queue::new();
        queue.add_after(Arc::from("another"), (), Priority::NORMAL, Duration::from_secs(3600));
        for _ in 0..n {
            queue.add(Arc::clone(&key));
            let item = queue.try_get().expect("just added");
            queue.done(&item);
        }
    });
    report("add of a key that waits already", 1_000_000, |n| {
        let queue: Queue<Arc<str>> = Queue::new();
        for _ in 0..n {
            queue.add(Arc::clone(&key));
        }
    });

    let keys: Vec<Arc<str>> =
        (0..1_000_000).map(|n| Arc::from(format!("namespace-{}/object-{n}", n % 100))).collect();
    report("fill with 1,000,000 keys, per key", keys.len(), |_| {
        let queue: Queue<Arc<str>> = Queue::new();
        for key in &keys {
            queue.add(Arc::clone(key));
        }
    });
    report("add_after of 1,000,000 keys, per key", keys.len(), |_| {
        let queue: Queue<Arc<str>> = Queue::new();
        for (n, key) in keys.iter().enumerate() {
            let delay = Duration::from_millis(60_000 + (n as u64 * 7919) % 60_000);
            queue.add_after(Arc::clone(key), (), Priority::NORMAL, delay);
        }
    });
    report("add → try_get → done, 1,000,000 keys wait", 1_000_000, |n| {
        let queue: Queue<Arc<str>> = Queue::new();
        for key in &keys {
            queue.add(Arc::clone(key));
        }
        let start = Instant::now();
        for _ in 0..n {
            let item = queue.try_get().expect("many wait");
            queue.done(&item);
            queue.add(item.key);
        }
        println!("    of which the cycles themselves: {:.1} ns", per(start.elapsed(), n));
    });
    report("4 producers, 4 consumers, per key handed out", 400_000, |n| contended(n, &keys));
}

fn contended(total: usize, keys: &[Arc<str>]) {
    let queue: Queue<Arc<str>> = Queue::new();
    thread::scope(|scope| {
        for part in keys[..total].chunks(total / 4) {
            let queue = queue.clone();
            scope.spawn(move || part.iter().for_each(|key| queue.add(Arc::clone(key))));
        }
        for _ in 0..4 {
            let queue = queue.clone();
            scope.spawn(move || {
                let mut taken = 0;
                while taken < total / 4 {
                    if let Some(item) = queue.try_get() {
                        queue.done(&item);
                        taken += 1;
                    } else {
                        thread::yield_now();
                    }
                }
            });
        }
    });
}

fn report(what: &str, operations: usize, mut round: impl FnMut(usize)) {
    let best = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            round(operations);
            start.elapsed()
        })
        .min()
        .unwrap_or_default();
    println!("{what:<48} {:>8.1} ns", per(best, operations));
}

fn per(time: Duration, operations: usize) -> f64 {
    time.as_secs_f64() * 1e9 / operations as f64
}
