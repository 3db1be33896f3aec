//! Bytes that a million keys take, queued, delayed and failing; the texts of the keys, which others hold as well, left out.

use std::hint::black_box;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use pilothouse_bench::{Aim, Report, usage};

use crate::api::{Key, NORMAL, keys, limited};
use crate::contenders::{CLIENT_GO, CLIENT_GO_STRINGS, Contender, PLAIN, PRIORITY, Table};
use crate::measure::{Figures, MILLION, Variant, figures};

/// The figures hardly differ.
const RUNS: usize = 3;
/// A delay that does not end during a run.
const FAR: Duration = Duration::from_secs(3600);
/// For an allocator, or a collector, to give back what it is about to.
const REST: Duration = Duration::from_secs(1);

pub(crate) fn queued(variant: Variant) -> Figures {
    memory(|keys| {
        let queue = (variant.open)();
        keys.iter().for_each(|key| queue.add(Arc::clone(key)));
        queue
    })
}

pub(crate) fn delayed(variant: Variant) -> Figures {
    memory(|keys| {
        let queue = (variant.open)();
        keys.iter().for_each(|key| queue.add_after(Arc::clone(key), (), NORMAL, FAR));
        queue
    })
}

/// Keys that failed and wait for their next try.
pub(crate) fn failing() -> Figures {
    memory(|keys| {
        let queue = limited(FAR);
        for key in keys {
            queue.add_rate_limited(Arc::clone(key), (), NORMAL);
        }
        queue
    })
}

/// Resident bytes a key that `hold` leaves.
fn memory<T>(hold: impl FnOnce(&[Key]) -> T) -> Figures {
    let keys = keys(MILLION);
    let resident = || usage::kilobytes("smaps_rollup", "Rss") * 1024.0;
    sleep(REST);
    let base = resident();
    let held = black_box(hold(&keys));
    sleep(REST);
    let figures = figures([("rss", (resident() - base) / MILLION as f64)]);
    drop(black_box((held, keys)));
    figures
}

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let peers = [CLIENT_GO, CLIENT_GO_STRINGS, PRIORITY];
    for scenario in ["queued", "delayed", "failing"] {
        let mut table = Table::race(report, scenario, RUNS, &[&[PLAIN], &peers[..]].concat())?;
        rows(&mut table, scenario, "", CLIENT_GO, Aim::Ratio(2.0))?;
        rows(&mut table, scenario, " beside string keys", CLIENT_GO_STRINGS, Aim::Shown)?;
        rows(&mut table, scenario, " beside priority queue", PRIORITY, Aim::Ratio(5.0))?;
    }
    Ok(())
}

fn rows(
    table: &mut Table<'_>,
    scenario: &str,
    beside: &str,
    peer: Contender,
    aim: Aim,
) -> anyhow::Result<()> {
    let what = format!("memory of a {scenario} key");
    // The better of what a peer has by itself and after its garbage was given back.
    table.row_of(&format!("{what}: RSS{beside}"), "B", PLAIN, &[peer], aim, |table, contender| {
        let rss = table.of(contender, "rss")?;
        Ok(match contender == PLAIN {
            true => rss,
            false => rss.iter().zip(&table.of(contender, "trimmed")?).map(|(a, b)| a.min(*b)).collect(),
        })
    })?;
    // Theirs without garbage, ours with all that the allocator keeps.
    let what_alive = format!("{what}: our RSS, their live heap{beside}");
    table.row_of(&what_alive, "B", PLAIN, &[peer], aim, |table, contender| {
        table.of(contender, if contender == PLAIN { "rss" } else { "heap" })
    })?;
    table.row(&format!("{what}: RSS{beside}, left alone"), ("B", "rss"), PLAIN, &[peer], Aim::Shown)
}
