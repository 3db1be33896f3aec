//! A thousand queues with a task each, or with hooks that start a worker: all at rest, or all but one. How soon
//! an add to one at rest reaches its worker.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pilothouse_bench::{Aim, Report, quantile};
use pilothouse_workqueue::{Timekeeper, WorkerCount};
use tokio::sync::mpsc;
use tokio::task::coop::consume_budget;
use tokio::time::sleep;

use crate::api::{Key, Queue, done, keys};
use crate::contenders::{CLIENT_GO, HOOKS, PLAIN, PRIORITY, Table, quotient};
use crate::measure::{Figures, Variant, figures, multi, on, per, scattered};

const RUNS: usize = 3;
/// Queues, of which the first is the busy one.
const QUEUES: usize = 1_000;
/// How often one of the others is woken, and how long all rest before.
const WAKES: usize = 2_000;
const PAUSE: Duration = Duration::from_millis(1);
/// Until all workers wait.
const START: Duration = Duration::from_millis(200);

pub(crate) fn measure(variant: Variant) -> anyhow::Result<Figures> {
    let keys = keys(QUEUES);
    on(&multi()?, async move {
        let (came, mut comes) = mpsc::unbounded_channel();
        let worker = Worker { came, handed_out: Arc::default() };
        let handed_out = Arc::clone(&worker.handed_out);
        let timekeeper = Timekeeper::new();
        let open = |n| {
            if variant.hooks {
                return hooked(n, &timekeeper, &worker);
            }
            let queue = (variant.open)();
            tokio::spawn(serve(n, queue.clone(), worker.clone()));
            queue
        };
        let queues: Vec<Queue> = (0..QUEUES).map(open).collect();
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

/// A queue whose hook starts a worker.
fn hooked(n: usize, timekeeper: &Timekeeper, worker: &Worker) -> Queue {
    let workers = Arc::new(WorkerCount::default());
    workers.set_limit(1);
    let own: Arc<OnceLock<Queue>> = Arc::default();
    let (worker, of) = (worker.clone(), Arc::clone(&own));
    let hook = move || {
        if workers.try_add()
            && let Some(queue) = of.get()
        {
            tokio::spawn(serve_ready(n, queue.clone(), worker.clone(), Arc::clone(&workers)));
        }
    };
    let queue = Queue::builder().build_with_hook(timekeeper, hook);
    own.get_or_init(|| queue).clone()
}

async fn serve_ready(n: usize, queue: Queue, worker: Worker, workers: Arc<WorkerCount>) {
    loop {
        workers.started();
        while let Some(item) = queue.try_get() {
            worker.has(n);
            done(&queue, item);
            consume_budget().await;
        }
        workers.remove();
        if queue.is_empty() || !workers.try_add() {
            return;
        }
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
    let mut table = Table::race(report, "many", RUNS, &[PLAIN, HOOKS, CLIENT_GO, PRIORITY])?;
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
        table.row(&format!("{what}, all at rest, hooks"), ("us", &quiet), HOOKS, &[], Aim::Shown)?;
        table.row(&format!("{what}, one busy, hooks"), ("us", &busy), HOOKS, &[], Aim::Shown)?;
    }
    // Whether the busy one was busy.
    let what = format!("keys of the busy one of {QUEUES} queues meanwhile");
    table.row(&what, ("ns/key", "busy_ns"), PLAIN, &peers, Aim::Shown)
}
