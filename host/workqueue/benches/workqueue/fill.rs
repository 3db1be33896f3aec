//! A million keys: what it takes to add them, and what a cycle takes beside them.

use std::sync::Arc;
use std::time::Instant;

use pilothouse_bench::{Aim, Report};
use tokio::runtime::Runtime;

use crate::api::{Queue, done, keys};
use crate::contenders::{CLIENT_GO, CLIENT_GO_GOGC, PLAIN, PRIORITY, Table, quotient};
use crate::measure::{CYCLES, Figures, MILLION, Variant, figures, per, single};

const RUNS: usize = 3;

pub(crate) fn measure(variant: Variant) -> anyhow::Result<Figures> {
    let (keys, runtime) = (keys(MILLION), single()?);
    let one = (variant.open)();
    one.add(Arc::clone(&keys[0]));
    let at_one = around(&runtime, &one);
    let queue = (variant.open)();
    let began = Instant::now();
    for key in &*keys {
        queue.add(Arc::clone(key));
    }
    // As the peers are asked.
    let _ = queue.len();
    let spent = per(began.elapsed(), MILLION);
    let at_million = around(&runtime, &queue);
    Ok(figures([("ns", spent), ("cycle_at_1", at_one), ("cycle_at_million", at_million)]))
}

/// Nanoseconds of taking a key, giving it back and adding it again.
fn around(runtime: &Runtime, queue: &Queue) -> f64 {
    runtime.block_on(async {
        let began = Instant::now();
        for _ in 0..CYCLES {
            if let Some(item) = queue.get().await {
                let key = Arc::clone(&item.key);
                done(queue, item);
                queue.add(key);
            }
        }
        per(began.elapsed(), CYCLES)
    })
}

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let mut table = Table::race(report, "fill", RUNS, &[PLAIN, CLIENT_GO, CLIENT_GO_GOGC, PRIORITY])?;
    let fill = "fill with 1,000,000 keys";
    table.row(fill, ("ns/key", "ns"), PLAIN, &[CLIENT_GO], Aim::Ratio(3.0))?;
    let others = [CLIENT_GO_GOGC, PRIORITY];
    table.row(&format!("{fill}, beside others"), ("ns/key", "ns"), PLAIN, &others, Aim::Shown)?;
    let peers = [CLIENT_GO, PRIORITY];
    let million = ("ns/cycle", "cycle_at_million");
    table.row("get, done, add with 1,000,000 waiting", million, PLAIN, &peers, Aim::Shown)?;
    table.row("get, done, add with 1 waiting", ("ns/cycle", "cycle_at_1"), PLAIN, &peers, Aim::Shown)?;
    let what = "a cycle at 1,000,000 keys over one at 1";
    table.row_of(what, "x", PLAIN, &peers, Aim::Value(4.0), |table, contender| {
        Ok(quotient(&table.of(contender, "cycle_at_million")?, &table.of(contender, "cycle_at_1")?))
    })
}
