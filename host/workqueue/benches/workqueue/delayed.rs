//! A million keys with delays of one to ten seconds: how late they come, and the processor time of it all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pilothouse_bench::usage::cpu;
use pilothouse_bench::{Aim, Report, quantile};
use tokio::task::{JoinSet, coop::consume_budget};

use crate::api::{Key, NORMAL, Queue, done, keys, number};
use crate::contenders::{CLIENT_GO, PLAIN, PRIORITY, Table};
use crate::measure::{Figures, HANDS, MILLION, Variant, figures, multi, on, scattered};

const RUNS: usize = 3;
/// The shortest delay; the longest is ten seconds.
const SHORTEST: Duration = Duration::from_secs(1);
const SPREAD_NANOS: u64 = 9_000_000_000;

/// What producer and consumers share.
struct Race {
    began: Instant,
    /// When each key should come, in nanoseconds since the beginning.
    wanted: Vec<AtomicU64>,
    taken: AtomicUsize,
}

impl Race {
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

fn delay(number: usize) -> Duration {
    SHORTEST + Duration::from_nanos(scattered(number) % SPREAD_NANOS)
}

pub(crate) fn measure(variant: Variant) -> anyhow::Result<Figures> {
    let (keys, queue, runtime) = (keys(MILLION), (variant.open)(), multi()?);
    let wanted = (0..MILLION).map(|_| AtomicU64::new(0)).collect();
    let spent = cpu();
    let race = Arc::new(Race { began: Instant::now(), wanted, taken: AtomicUsize::new(0) });
    let mut late = on(&runtime, run_race(race, keys, queue))?;
    let spent = (cpu() - spent).as_secs_f64();
    Ok(figures([
        ("cpu_s", spent),
        ("p50_ms", quantile(&mut late, 0.5)),
        ("p99_ms", quantile(&mut late, 0.99)),
    ]))
}

async fn run_race(race: Arc<Race>, keys: Arc<[Key]>, queue: Queue) -> Vec<f64> {
    let mut consumers = JoinSet::new();
    for _ in 0..HANDS {
        let (race, queue) = (Arc::clone(&race), queue.clone());
        consumers.spawn(async move {
            let mut late = Vec::with_capacity(MILLION);
            while let Some(item) = queue.get().await {
                let wanted = race.wanted[number(&item.key)].load(Ordering::Relaxed);
                late.push((race.now() as f64 - wanted as f64) / 1e6);
                done(&queue, item);
                if race.taken.fetch_add(1, Ordering::Relaxed) + 1 == MILLION {
                    queue.shut_down();
                }
            }
            late
        });
    }
    for (n, key) in keys.iter().enumerate() {
        let delay = delay(n);
        let at = race.now() + u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        race.wanted[n].store(at, Ordering::Relaxed);
        queue.add_after(Arc::clone(key), (), NORMAL, delay);
        consume_budget().await;
    }
    consumers.join_all().await.concat()
}

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let mut table = Table::race(report, "late", RUNS, &[PLAIN, CLIENT_GO, PRIORITY])?;
    let what = "add_after of 1,000,000 keys, 1-10 s";
    let both = [CLIENT_GO, PRIORITY];
    table.row(&format!("{what}: late, p50"), ("ms", "p50_ms"), PLAIN, &both, Aim::Shown)?;
    table.row(&format!("{what}: late, p99"), ("ms", "p99_ms"), PLAIN, &both, Aim::Value(2.0))?;
    table.row(&format!("{what}: CPU"), ("s", "cpu_s"), PLAIN, &[CLIENT_GO], Aim::Ratio(5.0))?;
    let beside = format!("{what}: CPU, beside priority queue");
    table.row(&beside, ("s", "cpu_s"), PLAIN, &[PRIORITY], Aim::Shown)
}
