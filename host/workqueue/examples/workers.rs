//! A controller's loop without Kubernetes: `cargo run -p pilothouse-workqueue --example workers`.
//!
//! Two workers serve the queues of three tenants by turns. A key of tenant `b` fails twice and is tried again after its
//! delays; a burst of tenant `a` does not keep the others waiting; at the end each queue is drained.
#![allow(clippy::print_stdout, reason = "a program whose purpose is its output")]

use std::time::Duration;

use pilothouse_workqueue::{ItemExponentialFailureRateLimiter, Priority, Queue, Scheduler, Turn};

type Key = &'static str;
type Workers = Scheduler<Key, (), &'static str>;

#[tokio::main]
async fn main() {
    let scheduler = Workers::new();
    let queues: Vec<Queue<Key>> = ["a", "b", "c"]
        .into_iter()
        .map(|tenant| {
            Queue::builder()
                .name(tenant)
                .rate_limiter(ItemExponentialFailureRateLimiter::new(
                    Duration::from_millis(5),
                    Duration::from_secs(1000),
                ))
                .build_in(&scheduler, tenant, 1)
        })
        .collect();
    let workers: Vec<_> = (0..2).map(|_| tokio::spawn(work(scheduler.clone()))).collect();

    queues[0].add_batch(["a/1", "a/2", "a/3", "a/4"].map(|key| (key, (), Priority::LOW)));
    queues[1].add("b/fails");
    queues[2].add_after("c/later", (), Priority::NORMAL, Duration::from_millis(20));

    // A program would wait here until it is told to end. A queue that drains takes no retries any more, but waits for what
    // is delayed already.
    tokio::time::sleep(Duration::from_millis(100)).await;
    for queue in &queues {
        queue.shut_down_with_drain().await;
        let stats = queue.stats();
        println!("{}: {} adds, {} retries", queue.name().unwrap_or_default(), stats.adds, stats.retries);
    }
    scheduler.shut_down();
    for worker in workers {
        worker.await.expect("the worker does not panic");
    }
}

async fn work(scheduler: Workers) {
    while let Some(turn) = scheduler.next().await {
        reconcile(&turn);
        turn.done();
    }
}

fn reconcile(turn: &Turn<Key, (), &'static str>) {
    let (queue, key) = (turn.queue(), *turn.key());
    let failures = queue.num_requeues(&key);
    if key == "b/fails" && failures < 2 {
        let delay = queue.add_rate_limited(key, (), turn.priority());
        println!("{key} failed, again in {delay:?}");
        return;
    }
    queue.forget(&key);
    println!("{key} of {} after {failures} failures", turn.owner());
}
