//! The process in which ours is measured: it reads a scenario and a queue, and writes figures, as `peers workqueue` does.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::BufRead;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use pilothouse_bench::median;
use pilothouse_bench::usage::cpu;
use tokio::runtime::{Builder, Runtime};

use crate::api::{Queue, named, unnamed};
use crate::{contended, cycle, delayed, fill, limited, many, memory};

/// First word of the command line of such a process.
pub(crate) const COMMAND: &str = "measure";

/// Keys of what is done with one key after the other; as in tests/peers/clientgo/workqueue_speed.go, like all sizes.
pub(crate) const KEYS_IN_TURN: usize = 1_000;
/// How often what takes one key at a time is repeated.
pub(crate) const CYCLES: usize = 1_000_000;
/// Keys of what fills a queue.
pub(crate) const MILLION: usize = 1_000_000;
/// How often a process repeats what several threads do.
const ROUNDS: usize = 5;
/// Producers, and consumers.
pub(crate) const HANDS: usize = 4;

/// What a run has found, by name.
pub(crate) type Figures = BTreeMap<String, f64>;

/// How a queue is made and used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variant {
    pub(crate) open: fn() -> Queue,
    /// Keys are added and given back in batches.
    pub(crate) batches: bool,
    /// With threads instead of tasks.
    pub(crate) threads: bool,
    /// With `finish` instead of `done` and `forget`.
    pub(crate) fused: bool,
    /// Many queues have hooks that start a worker for a key, instead of a task each.
    pub(crate) hooks: bool,
}

impl Variant {
    fn parse(queue: &str) -> anyhow::Result<Self> {
        let plain = Self { open: unnamed, batches: false, threads: false, fused: false, hooks: false };
        Ok(match queue {
            "plain" => plain,
            "named" => Self { open: named, ..plain },
            "batches" => Self { batches: true, ..plain },
            "threads" => Self { threads: true, ..plain },
            "fused" => Self { fused: true, ..plain },
            "hooks" => Self { hooks: true, ..plain },
            _ => bail!("unknown queue {queue:?}"),
        })
    }
}

/// Runs until told to quit, by the end of standard input.
#[allow(clippy::print_stdout, reason = "the conversation with the benchmark")]
pub(crate) fn run() -> anyhow::Result<()> {
    for command in std::io::stdin().lock().lines() {
        let command = command?;
        let (scenario, queue) = command.split_once(' ').context("SCENARIO QUEUE")?;
        let variant = Variant::parse(queue)?;
        let figures = match scenario {
            "cycle" => cycle::cycle(variant)?,
            "bursts" => cycle::bursts(variant)?,
            "priorities" => cycle::priorities(variant)?,
            "contended" => contended::measure(variant)?,
            "limited" => limited::measure(variant)?,
            "fill" => fill::measure(variant)?,
            "queued" => memory::queued(variant),
            "delayed" => memory::delayed(variant),
            "failing" => memory::failing(),
            "late" => delayed::measure(variant)?,
            "many" => many::measure(variant)?,
            _ => bail!("unknown scenario {scenario:?}"),
        };
        println!("{}", serde_json::to_string(&figures)?);
    }
    Ok(())
}

/// Figures from pairs.
pub(crate) fn figures<const N: usize>(pairs: [(&str, f64); N]) -> Figures {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// One thread, as the peers' one goroutine.
pub(crate) fn single() -> anyhow::Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// As many threads as there are cores, as the peers have it.
pub(crate) fn multi() -> anyhow::Result<Runtime> {
    Ok(Builder::new_multi_thread().enable_all().build()?)
}

/// Runs something on a runtime's own threads: as a task, and not by the thread that waits for it.
pub(crate) fn on<T: Send + 'static>(
    runtime: &Runtime,
    work: impl Future<Output = T> + Send + 'static,
) -> anyhow::Result<T> {
    Ok(runtime.block_on(runtime.spawn(work))?)
}

/// Nanoseconds of one of so many.
pub(crate) fn per(spent: Duration, count: usize) -> f64 {
    spent.as_secs_f64() * 1e9 / count as f64
}

/// Nanoseconds of one of so many, by the clock (`ns`) and by processor time (`cpu_ns`); the middle of some rounds, as it is
/// a matter of luck on which processors threads run.
pub(crate) fn timed<T>(count: usize, mut work: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<Figures> {
    let (mut walls, mut cpus) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (spent, began) = (cpu(), Instant::now());
        work()?;
        walls.push(per(began.elapsed(), count));
        cpus.push(per(cpu() - spent, count));
    }
    Ok(figures([("ns", median(&mut walls)), ("cpu_ns", median(&mut cpus))]))
}

/// splitmix64: numbers without order, the same in every run and for every contender.
pub(crate) fn scattered(number: usize) -> u64 {
    let mut z = (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
