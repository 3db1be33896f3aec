//! Four producers and four consumers of distinct keys: tasks on as many threads as there are cores, or a thread each.

use std::sync::Arc;
use std::thread;

use pilothouse_bench::{Aim, Report};
use tokio::task::{JoinSet, coop::consume_budget};

use crate::api::{Key, Queue, done, keys};
use crate::contenders::{
    CLIENT_GO, CLIENT_GO_GOGC, CLIENT_GO_METRICS, CLIENT_GO_STRINGS, Contender, NAMED, PLAIN, PRIORITY,
    THREADS, Table, quotient,
};
use crate::measure::{Figures, HANDS, Variant, multi, on, single, timed};

const RUNS: usize = 5;
/// Of what is shown beside.
const FEW_RUNS: usize = 3;
const KEYS: usize = 400_000;
/// Keys of one producer, and of one consumer.
const SHARE: usize = KEYS / HANDS;

pub(crate) fn measure(variant: Variant) -> anyhow::Result<Figures> {
    let keys = keys(KEYS);
    if variant.threads {
        return timed(KEYS, || threads(&keys, &(variant.open)()));
    }
    let runtime = multi()?;
    timed(KEYS, || on(&runtime, tasks(Arc::clone(&keys), (variant.open)())))
}

async fn tasks(keys: Arc<[Key]>, queue: Queue) {
    let mut all = JoinSet::new();
    for hand in 0..HANDS {
        let (keys, producer, consumer) = (Arc::clone(&keys), queue.clone(), queue.clone());
        all.spawn(async move {
            for key in &keys[hand * SHARE..(hand + 1) * SHARE] {
                producer.add(Arc::clone(key));
                // A task that never waits would have its thread for itself; Go takes it away.
                consume_budget().await;
            }
        });
        all.spawn(async move { consume(&consumer).await });
    }
    all.join_all().await;
}

async fn consume(queue: &Queue) {
    for _ in 0..SHARE {
        if let Some(item) = queue.get().await {
            done(queue, item);
        }
    }
}

fn threads(keys: &[Key], queue: &Queue) -> anyhow::Result<()> {
    thread::scope(|scope| {
        let consumers: Vec<_> = (0..HANDS)
            .map(|_| {
                scope.spawn(|| {
                    single()?.block_on(consume(queue));
                    anyhow::Ok(())
                })
            })
            .collect();
        for share in keys.chunks(SHARE) {
            scope.spawn(|| share.iter().for_each(|key| queue.add(Arc::clone(key))));
        }
        consumers.into_iter().try_for_each(|consumer| match consumer.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let what = format!("{HANDS} producers, {HANDS} consumers");
    let units = [("ns/key", "ns"), ("CPU ns/key", "cpu_ns")];
    let mut table = Table::race(report, "contended", RUNS, &[PLAIN, CLIENT_GO, PRIORITY])?;
    for figure in units {
        table.row(&what, figure, PLAIN, &[CLIENT_GO], Aim::Ratio(8.0))?;
        table.row(&format!("{what}, beside priority queue"), figure, PLAIN, &[PRIORITY], Aim::Ratio(30.0))?;
    }
    processors(&mut table, &what, &[PLAIN, CLIENT_GO, PRIORITY])?;
    let ours = [NAMED, THREADS];
    let peers = [CLIENT_GO, CLIENT_GO_METRICS, CLIENT_GO_STRINGS, CLIENT_GO_GOGC];
    let mut table = Table::race(report, "contended", FEW_RUNS, &[&ours[..], &peers].concat())?;
    for figure in units {
        table.row(&format!("{what}, metrics on"), figure, NAMED, &[CLIENT_GO_METRICS], Aim::Ratio(8.0))?;
        let others = [CLIENT_GO, CLIENT_GO_STRINGS, CLIENT_GO_GOGC];
        table.row(
            &format!("{what}, a thread each, beside all settings"),
            figure,
            THREADS,
            &others,
            Aim::Shown,
        )?;
    }
    processors(&mut table, &what, &ours)
}

/// One that had a single processor had nobody to contend with.
fn processors(table: &mut Table<'_>, what: &str, contenders: &[Contender]) -> anyhow::Result<()> {
    for contender in contenders {
        let scenario = format!("{what}: processors in use, {}", contender.name());
        table.row_of(&scenario, "x", *contender, &[], Aim::Shown, |table, contender| {
            Ok(quotient(&table.of(contender, "cpu_ns")?, &table.of(contender, "ns")?))
        })?;
    }
    Ok(())
}
