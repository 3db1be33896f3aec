//! What a neighbour notices of hostile plugins and users, and what the host uses meanwhile: the real binary on the development
//! server, with all defaults on and a Lease. The replay server of the other benches has no Leases and takes no writes.
//!
//! | part | measures |
//! |---|---|
//! | a name of a mode, or `modes` | the neighbour alone and beside each hostile mode by turns |
//! | `start` | a start with 1,000 plugins on 100,000 objects |
//! | `churn` | 10,000 loads and unloads |
//!
//! `cargo bench --workspace --bench isolation` measures all; a word after `--` those parts and modes whose name contains it.
//! `--small` shows in a few minutes that everything works; its figures mean nothing.

mod churn;
mod modes;
mod neighbour;
#[path = "../shared/plugins.rs"]
mod plugins;
mod process;
mod sample;
mod start;
mod user;

use pilothouse_bench::{Better, Report, is_small, word};

use neighbour::Neighbour;
use sample::{Sample, median_of};

/// From the issue: the neighbour's p99 is at most twice the one alone and these milliseconds.
const SLACK_MS: f64 = 2.0;

/// From the issue: memory beside that of the instances that are allowed, in MiB.
const RSS_SLACK_MIB: f64 = 64.0;

/// From the issue: CPU time of a poll on `io`.
const POLL_MS: f64 = 20.0;

fn main() -> anyhow::Result<()> {
    let mut report = Report::new("isolation", "cargo bench --workspace --bench isolation");
    let is_wanted = |name: &str| name.contains(&word());
    let all = modes::all();
    let modes: Vec<_> = all.iter().filter(|mode| is_wanted(mode.name) || word() == "modes").collect();
    if !modes.is_empty() {
        let neighbour = Neighbour::start()?;
        for mode in modes {
            measure(&mut report, &neighbour, mode)?;
        }
    }
    if is_wanted("start") {
        start::run(&mut report)?;
    }
    if is_wanted("churn") {
        churn::run(&mut report)?;
    }
    report.finish()
}

/// What is measured, its unit, where it is in a sample, and its bound.
type Figure<'a> = (&'a str, &'a str, fn(&Sample) -> f64, Option<f64>);

fn measure(report: &mut Report, neighbour: &Neighbour, mode: &modes::Mode) -> anyhow::Result<()> {
    // Each after one of the neighbour alone.
    let repetitions = if is_small() { 1 } else { 5 };
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for repetition in 0..repetitions {
        alone.push(neighbour.sample(&format!("{}-alone-{repetition}", mode.name))?);
        let acting = mode.start(neighbour)?;
        beside.push(neighbour.sample(&format!("{}-beside-{repetition}", mode.name))?);
        acting.stop(neighbour)?;
    }
    let quiet_p99 = median_of(&alone, |sample| sample.p99_ms);
    let quiet_rss = median_of(&alone, |sample| sample.rss_mib);
    let rows: [Figure<'_>; 6] = [
        ("write to reconcile, p50", "ms", |sample| sample.p50_ms, None),
        ("write to reconcile, p99", "ms", |sample| sample.p99_ms, Some(2.0 * quiet_p99 + SLACK_MS)),
        ("lateness of tasks on `io`, p99.9", "ms", |sample| sample.stall_ms, None),
        ("CPU time of the longest poll of an informer", "ms", |sample| sample.poll_ms, Some(POLL_MS)),
        (
            "resident memory of the host",
            "MiB",
            |sample| sample.rss_mib,
            Some(quiet_rss + mode.instances_mib + RSS_SLACK_MIB),
        ),
        ("log of the host", "KiB/s", |sample| sample.log_kib_s, Some(modes::LOG_KIB_S)),
    ];
    for (what, unit, figure, bound) in rows {
        let (mut alone, mut beside): (Vec<_>, Vec<_>) =
            (alone.iter().map(figure).collect(), beside.iter().map(figure).collect());
        report.bound(&format!("{}: {what}, alone", mode.name), unit, Better::Lower, &mut alone, None);
        report.bound(&format!("{}: {what}", mode.name), unit, Better::Lower, &mut beside, bound);
    }
    Ok(())
}
