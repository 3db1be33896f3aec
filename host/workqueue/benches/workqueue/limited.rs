//! Keys that fail once: added rate-limited by one task, taken with success by another.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_bench::{Aim, Report};
use tokio::task::coop::consume_budget;

use crate::api::{Key, NORMAL, Queue, done, forget_and_done, keys, limited};
use crate::contenders::{CLIENT_GO, FUSED, PLAIN, PRIORITY, Table};
use crate::measure::{Figures, Variant, multi, on, timed};

const RUNS: usize = 5;
const KEYS: usize = 100_000;

pub(crate) fn measure(variant: Variant) -> anyhow::Result<Figures> {
    let (keys, runtime) = (keys(KEYS), multi()?);
    timed(KEYS, || on(&runtime, race(Arc::clone(&keys), limited(Duration::from_millis(1)), variant.fused)))
}

async fn race(keys: Arc<[Key]>, queue: Queue, fused: bool) {
    let consumer = queue.clone();
    let producer = tokio::spawn(async move {
        for key in &*keys {
            queue.add_rate_limited(Arc::clone(key), (), NORMAL);
            consume_budget().await;
        }
    });
    for _ in 0..KEYS {
        let Some(item) = consumer.get().await else { continue };
        if fused {
            forget_and_done(&consumer, item);
        } else {
            consumer.forget(&item.key);
            done(&consumer, item);
        }
    }
    let _ = producer.await;
}

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let mut table = Table::race(report, "limited", RUNS, &[PLAIN, FUSED, CLIENT_GO, PRIORITY])?;
    let what = "add_rate_limited, get, forget, done";
    let beside = format!("{what}, beside priority queue");
    let (cpu, wall) = (("CPU ns/key", "cpu_ns"), ("ns/key", "ns"));
    table.row(what, cpu, PLAIN, &[CLIENT_GO], Aim::Ratio(4.0))?;
    table.row(&beside, cpu, PLAIN, &[PRIORITY], Aim::Ratio(30.0))?;
    table.row(&format!("{what}, by finish"), cpu, FUSED, &[CLIENT_GO], Aim::Ratio(4.0))?;
    table.row(what, wall, PLAIN, &[CLIENT_GO, PRIORITY], Aim::Shown)
}
