//! A thousand queues with a task each, or with a scheduler and a few workers for all: all at rest, or all but one. How soon
//! an add to one at rest reaches its worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pilothouse_bench::{Aim, Report, quantile};
use pilothouse_workqueue::Scheduler;
use tokio::sync::mpsc;
use tokio::task::coop::consume_budget;
use tokio::time::sleep;

use crate::api::{Key, Queue, done, keys};
use crate::contenders::{CLIENT_GO, PLAIN, PRIORITY, SCHEDULER, Table, quotient};
use crate::measure::{Figures, Variant, figures, multi, on, per, scattered};

const RUNS: usize = 3;
/// Queues, of which the first is the busy one.
const QUEUES: usize = 1_000;
/// Workers of the scheduler.
const WORKERS: usize = 2;
/// How often one of the others is woken, and how long all rest before.
const WAKES: usize = 2_000;
const PAUSE: Duration = Duration::from_millis(1);
/// Until all workers wait.
const START: Duration = Duration::from_millis(200);

pub(crate) fn measure(variant: Variant) -> anyhow::Result<Figures> {
    let scheduler = Scheduler::new();
    let open = |n| match variant.scheduler {
        true => Queue::builder().build_in(&scheduler, n, 1),
        false => (variant.open)(),
    };
    let queues: Vec<Queue> = (0..QUEUES).map(open).collect();
    let keys = keys(QUEUES);
    on(&multi()?, async move {
        let (came, mut comes) = mpsc::unbounded_channel();
        let worker = Worker { came, handed_out: Arc::default() };
        let handed_out = Arc::clone(&worker.handed_out);
        if variant.scheduler {
            (0..WORKERS).for_each(|_| drop(tokio::spawn(serve_all(scheduler.clone(), worker.clone()))));
        } else {
            for (n, queue) in queues.iter().cloned().enumerate() {
                tokio::spawn(serve(n, queue, worker.clone()));
            }
        }
        sleep(START).await;
        let (quiet50, quiet99) = wake(&queues, &keys, &mut comes).await;
        let (busy, of) = (queues[0].clone(), Arc::clone(&keys));
        tokio::spawn(async move {
            loop {
                for key in &*of {
                    busy.add(Arc::clone(key));
                    consume_budget().await;
                }
                // As the peers are asked, of which one would grow without end.
                let _ = busy.len();
            }
        });
        let began = Instant::now();
        let (busy50, busy99) = wake(&queues, &keys, &mut comes).await;
        figures([
            ("quiet_p50_us", quiet50),
            ("quiet_p99_us", quiet99),
            ("busy_p50_us", busy50),
            ("busy_p99_us", busy99),
            ("busy_ns", per(began.elapsed(), handed_out.load(Ordering::Relaxed))),
        ])
    })
}

/// Whom a worker tells that it has a key.
#[derive(Clone)]
struct Worker {
    came: mpsc::UnboundedSender<Instant>,
    /// Keys of the busy queue.
    handed_out: Arc<AtomicUsize>,
}

impl Worker {
    fn has(&self, queue: usize) {
        if queue == 0 {
            self.handed_out.fetch_add(1, Ordering::Relaxed);
        } else {
            let _ = self.came.send(Instant::now());
        }
    }
}

async fn serve(n: usize, queue: Queue, worker: Worker) {
    while let Some(item) = queue.get().await {
        worker.has(n);
        done(&queue, item);
    }
}

async fn serve_all(scheduler: Scheduler<Key, (), usize>, worker: Worker) {
    while let Some(turn) = scheduler.next().await {
        worker.has(*turn.owner());
        turn.done();
    }
}

/// Microseconds from an add to its worker, p50 and p99.
async fn wake(queues: &[Queue], keys: &[Key], comes: &mut mpsc::UnboundedReceiver<Instant>) -> (f64, f64) {
    let mut micros = Vec::with_capacity(WAKES);
    for n in 0..WAKES {
        sleep(PAUSE).await;
        let others = QUEUES as u64 - 1;
        let of = 1 + usize::try_from(scattered(n) % others).unwrap_or_default();
        let began = Instant::now();
        queues[of].add(Arc::clone(&keys[of]));
        if let Some(came) = comes.recv().await {
            micros.push((came - began).as_secs_f64() * 1e6);
        }
    }
    (quantile(&mut micros, 0.5), quantile(&mut micros, 0.99))
}

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let mut table = Table::race(report, "many", RUNS, &[PLAIN, SCHEDULER, CLIENT_GO, PRIORITY])?;
    let peers = [CLIENT_GO, PRIORITY];
    for percent in ["p50", "p99"] {
        let (quiet, busy) = (format!("quiet_{percent}_us"), format!("busy_{percent}_us"));
        let what = format!("wake of one of {QUEUES} queues, {percent}");
        table.row(&format!("{what}, all at rest"), ("us", &quiet), PLAIN, &peers, Aim::Shown)?;
        table.row(&format!("{what}, one busy"), ("us", &busy), PLAIN, &peers, Aim::Shown)?;
        let change = format!("{what}, one busy over all at rest");
        table.row_of(&change, "x", PLAIN, &peers, Aim::Shown, |table, contender| {
            Ok(quotient(&table.of(contender, &busy)?, &table.of(contender, &quiet)?))
        })?;
        table.row(
            &format!("{what}, all at rest, a scheduler"),
            ("us", &quiet),
            SCHEDULER,
            &[],
            Aim::Shown,
        )?;
        table.row(&format!("{what}, one busy, a scheduler"), ("us", &busy), SCHEDULER, &[], Aim::Shown)?;
    }
    // Whether the busy one was busy.
    let what = format!("keys of the busy one of {QUEUES} queues meanwhile");
    table.row(&what, ("ns/key", "busy_ns"), PLAIN, &peers, Aim::Shown)
}
