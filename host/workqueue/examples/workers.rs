//! A controller's loop without Kubernetes: `cargo run -p pilothouse-workqueue --example workers`.
//!
//! Two workers serve one queue. A key fails twice and is tried again after its delays; a burst of keys at low priority does
//! not keep the others waiting; at the end the queue is drained.
#![allow(clippy::print_stdout, reason = "a program whose purpose is its output")]

use std::time::Duration;

use pilothouse_workqueue::{Item, ItemExponentialFailureRateLimiter, Priority, Queue};

type Key = &'static str;

#[tokio::main]
async fn main() {
    let limiter = ItemExponentialFailureRateLimiter::new(Duration::from_millis(5), Duration::from_secs(1000));
    let queue: Queue<Key> = Queue::builder().name("example").rate_limiter(limiter).build();
    let workers: Vec<_> = (0..2).map(|_| tokio::spawn(work(queue.clone()))).collect();

    queue.add_batch(["a/1", "a/2", "a/3", "a/4"].map(|key| (key, (), Priority::LOW)));
    queue.add("b/fails");
    queue.add_after("c/later", (), Priority::NORMAL, Duration::from_millis(20));

    // A program would wait here until it is told to end. A queue that drains takes no retries any more, but waits for what
    // is delayed already.
    tokio::time::sleep(Duration::from_millis(100)).await;
    queue.shut_down_with_drain().await;
    let stats = queue.stats();
    println!("{} adds, {} retries", stats.adds, stats.retries);
    for worker in workers {
        worker.await.expect("the worker does not panic");
    }
}

async fn work(queue: Queue<Key>) {
    while let Some(item) = queue.get().await {
        reconcile(&queue, &item);
        queue.done(item);
    }
}

fn reconcile(queue: &Queue<Key>, item: &Item<Key>) {
    let failures = queue.num_requeues(&item.key);
    if item.key == "b/fails" && failures < 2 {
        let delay = queue.add_rate_limited(item.key, (), item.priority);
        println!("{} failed, again in {delay:?}", item.key);
        return;
    }
    queue.forget(&item.key);
    println!("{} after {failures} failures", item.key);
}
