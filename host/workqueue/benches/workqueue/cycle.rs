//! One thread: a key is added, taken and given back, one after the other, in bursts, and with three priorities.

use std::sync::Arc;
use std::time::Instant;

use pilothouse_bench::{Aim, Report};

use crate::api::{PRIORITIES, add_batch, done, done_batch, keys};
use crate::contenders::{
    BATCHES, CLIENT_GO, CLIENT_GO_METRICS, CLIENT_GO_STRINGS, NAMED, PLAIN, PRIORITY, PRIORITY_METRICS, Table,
};
use crate::measure::{CYCLES, Figures, KEYS_IN_TURN, Variant, figures, per, single};

const RUNS: usize = 5;
/// Keys that come at once.
const BURST: usize = 50;

/// One key after the other, by waiting for it and by asking for it.
pub(crate) fn cycle(variant: Variant) -> anyhow::Result<Figures> {
    let (keys, queue) = (keys(KEYS_IN_TURN), (variant.open)());
    let runtime = single()?;
    let (waited, ranked) = runtime.block_on(async {
        let began = Instant::now();
        for n in 0..CYCLES {
            queue.add(Arc::clone(&keys[n % KEYS_IN_TURN]));
            if let Some(item) = queue.get().await {
                done(&queue, item);
            }
        }
        let waited = per(began.elapsed(), CYCLES);
        let began = Instant::now();
        for n in 0..CYCLES {
            queue.add_with(Arc::clone(&keys[n % KEYS_IN_TURN]), (), PRIORITIES[n % PRIORITIES.len()]);
            if let Some(item) = queue.get().await {
                done(&queue, item);
            }
        }
        (waited, per(began.elapsed(), CYCLES))
    });
    let began = Instant::now();
    for n in 0..CYCLES {
        queue.add(Arc::clone(&keys[n % KEYS_IN_TURN]));
        if let Some(item) = queue.try_get() {
            done(&queue, item);
        }
    }
    let tried = per(began.elapsed(), CYCLES);
    Ok(figures([("ns", waited), ("priorities_ns", ranked), ("try_ns", tried)]))
}

/// Some keys, and then all of them out.
pub(crate) fn bursts(variant: Variant) -> anyhow::Result<Figures> {
    let (keys, queue) = (keys(KEYS_IN_TURN), (variant.open)());
    let spent = single()?.block_on(async {
        let began = Instant::now();
        for burst in keys.chunks_exact(BURST).cycle().take(CYCLES / BURST) {
            if variant.batches {
                add_batch(&queue, burst);
                done_batch(&queue, std::iter::from_fn(|| queue.try_get()));
                continue;
            }
            burst.iter().for_each(|key| queue.add(Arc::clone(key)));
            for _ in burst {
                if let Some(item) = queue.get().await {
                    done(&queue, item);
                }
            }
        }
        began.elapsed()
    });
    Ok(figures([("ns", per(spent, CYCLES))]))
}

/// All keys, each with one of three priorities, and then all of them out.
pub(crate) fn priorities(variant: Variant) -> anyhow::Result<Figures> {
    let (keys, queue) = (keys(KEYS_IN_TURN), (variant.open)());
    let spent = single()?.block_on(async {
        let began = Instant::now();
        for _ in 0..CYCLES / KEYS_IN_TURN {
            for (n, key) in keys.iter().enumerate() {
                queue.add_with(Arc::clone(key), (), PRIORITIES[n % PRIORITIES.len()]);
            }
            for _ in 0..KEYS_IN_TURN {
                if let Some(item) = queue.get().await {
                    done(&queue, item);
                }
            }
        }
        began.elapsed()
    });
    Ok(figures([("ns", per(spent, CYCLES))]))
}

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let all = [PLAIN, NAMED, CLIENT_GO, CLIENT_GO_METRICS, CLIENT_GO_STRINGS, PRIORITY, PRIORITY_METRICS];
    let mut table = Table::race(report, "cycle", RUNS, &all)?;
    let (unit, plain) = ("ns/cycle", "add, get, done on one thread");
    let ns = (unit, "ns");
    table.row(plain, ns, PLAIN, &[CLIENT_GO], Aim::Ratio(4.0))?;
    table.row(&format!("{plain}, beside string keys"), ns, PLAIN, &[CLIENT_GO_STRINGS], Aim::Shown)?;
    table.row(&format!("{plain}, metrics on"), ns, NAMED, &[CLIENT_GO_METRICS], Aim::Ratio(4.0))?;
    table.row(&format!("{plain}, beside priority queue"), ns, PLAIN, &[PRIORITY], Aim::Ratio(30.0))?;
    let what = format!("{plain}, metrics on, beside priority queue");
    table.row(&what, ns, NAMED, &[PRIORITY_METRICS], Aim::Ratio(30.0))?;
    let what = format!("{plain}, three priorities in turn");
    table.row(&what, (unit, "priorities_ns"), PLAIN, &[PRIORITY], Aim::Ratio(30.0))?;
    table.row("add, try_get, done on one thread", (unit, "try_ns"), PLAIN, &[], Aim::Shown)?;

    let mut table = Table::race(report, "bursts", RUNS, &[PLAIN, BATCHES, CLIENT_GO, PRIORITY])?;
    let what = format!("bursts of {BURST} on one thread");
    table.row(&what, ns, PLAIN, &[CLIENT_GO], Aim::Ratio(4.0))?;
    table.row(
        &format!("{what}, by add_batch, try_get and done_batch"),
        ns,
        BATCHES,
        &[CLIENT_GO, PRIORITY],
        Aim::Ratio(4.0),
    )?;

    let mut table = Table::race(report, "priorities", RUNS, &[PLAIN, NAMED, PRIORITY, PRIORITY_METRICS])?;
    let what = format!("{KEYS_IN_TURN} keys of three priorities in and out");
    table.row(&what, ns, PLAIN, &[PRIORITY], Aim::Ratio(30.0))?;
    table.row(&format!("{what}, metrics on"), ns, NAMED, &[PRIORITY_METRICS], Aim::Ratio(30.0))
}
