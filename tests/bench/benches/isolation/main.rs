//! What a neighbour notices of hostile plugins and users: the time from an API write to the start of its reconcile, alone and
//! beside each hostile mode by turns, and what the host uses meanwhile. The real binary on the development server, with all
//! defaults on and a Lease.
//!
//! `cargo bench -p pilothouse-bench --bench isolation` measures all modes; a word after `--` those whose name contains it.

mod modes;
mod neighbour;
mod sample;

use pilothouse_bench::{Better, Report};

use neighbour::Neighbour;
use sample::{Sample, median_of};

/// Measurements of each mode, each after one of the neighbour alone.
const REPETITIONS: usize = 5;

/// From the issue: the neighbour's p99 is at most twice the one alone and these milliseconds.
const SLACK_MS: f64 = 2.0;

/// From the issue: memory beside that of the instances that are allowed, in MiB.
const RSS_SLACK_MIB: f64 = 64.0;

fn main() -> anyhow::Result<()> {
    let command = "cargo bench -p pilothouse-bench --bench isolation";
    let mut report = Report::new("isolation", command);
    let neighbour = Neighbour::start()?;
    for mode in modes::all().iter().filter(|mode| mode.name.contains(&pilothouse_bench::word())) {
        measure(&mut report, &neighbour, mode)?;
    }
    report.finish()
}

/// What is measured, its unit, where it is in a sample, and its bound.
type Figure<'a> = (&'a str, &'a str, fn(&Sample) -> f64, Option<f64>);

fn measure(report: &mut Report, neighbour: &Neighbour, mode: &modes::Mode) -> anyhow::Result<()> {
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for repetition in 0..REPETITIONS {
        alone.push(neighbour.sample(&format!("{}-alone-{repetition}", mode.name))?);
        let acting = mode.start(neighbour)?;
        beside.push(neighbour.sample(&format!("{}-beside-{repetition}", mode.name))?);
        acting.stop(neighbour)?;
    }
    let quiet_p99 = median_of(&alone, |sample| sample.p99_ms);
    let quiet_rss = median_of(&alone, |sample| sample.rss_mib);
    let rows: [Figure<'_>; 5] = [
        ("write to reconcile, p50", "ms", |sample| sample.p50_ms, None),
        ("write to reconcile, p99", "ms", |sample| sample.p99_ms, Some(2.0 * quiet_p99 + SLACK_MS)),
        ("longest lateness of `io`, p99.9", "ms", |sample| sample.stall_ms, None),
        (
            "resident memory of the host",
            "MiB",
            |sample| sample.rss_mib,
            Some(quiet_rss + mode.instances_mib + RSS_SLACK_MIB),
        ),
        ("log of the host", "KiB/s", |sample| sample.log_kib_s, None),
    ];
    for (what, unit, figure, bound) in rows {
        let (mut alone, mut beside): (Vec<_>, Vec<_>) =
            (alone.iter().map(figure).collect(), beside.iter().map(figure).collect());
        report.bound(&format!("{}: {what}, alone", mode.name), unit, Better::Lower, &mut alone, None);
        report.bound(&format!("{}: {what}", mode.name), unit, Better::Lower, &mut beside, bound);
    }
    Ok(())
}
