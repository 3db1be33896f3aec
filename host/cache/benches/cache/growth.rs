//! How figures grow: with the objects of a store, and with the listeners of an informer.

use std::sync::Arc;

use pilothouse_bench::{Better, Report, is_full};

use crate::client::Variant;
use crate::{events, samples, store};

const RUNS: usize = 3;
/// Pods of the rows about listeners.
const OBJECTS: usize = 1_000;
/// Calls of listeners in a run, about.
const CALLS: usize = 1_000_000;

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let sizes: &[usize] = if is_full() { &[1_000, 10_000, 150_000] } else { &[1_000, 10_000, 50_000] };
    for &size in sizes {
        let bench = store::Bench::new(size)?;
        let mut gets: Vec<f64> = (0..RUNS).map(|_| bench.get()).collect();
        report.bound(&format!("growth, {size} pods: get"), "ns", Better::Lower, &mut gets, None);
        let mut updates: Vec<f64> = (0..RUNS).map(|_| bench.update()).collect();
        report.bound(
            &format!("growth, {size} pods: update with three indexes"),
            "ns",
            Better::Lower,
            &mut updates,
            None,
        );
    }
    let listed = samples::objects(OBJECTS)?;
    for listeners in [1, 10, 100, 1000] {
        let lines = Arc::new(samples::event_lines(OBJECTS, (CALLS / listeners).clamp(1_000, 10_000))?);
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            let spent = events::time(Variant::Plain, &listed, &lines, listeners)?;
            runs.push(spent.as_secs_f64() * 1e6 / lines.len() as f64);
        }
        let scenario = format!("growth, {listeners} listeners: watch bytes to all listeners");
        report.bound(&scenario, "us/event", Better::Lower, &mut runs, None);
    }
    Ok(())
}
