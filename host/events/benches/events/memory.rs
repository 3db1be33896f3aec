//! Memory under a million different objects: what a process has grown by since a tenth of them, when all caches were full.

use std::sync::Arc;

use pilothouse_bench::{Aim, Better, Report, usage};
use pilothouse_events::{
    BroadcasterOptions, Correlated, CorrelatorOptions, EventBroadcaster, EventCorrelator, EventType, FnSink,
    Recorded, Write,
};

use crate::events::{event, message, reason, reference, source};
use crate::measure::{Figures, figures};
use crate::race::{CLIENT_GO, OURS, Table};
use crate::record::settled;

/// The figures hardly differ.
const RUNS: usize = 3;
const OBJECTS: usize = 1_000_000;
/// Far more than any cache holds.
const FULL: usize = OBJECTS / 10;
/// Events that a broadcaster gets at once: as many as it drops none of.
const BURST: usize = 500;
/// KiB: a thousandth of what the events themselves would take.
const MOST_GROWTH: f64 = 1_024.0;

fn resident() -> f64 {
    usage::kilobytes("smaps_rollup", "Rss")
}

/// All objects through a correlator.
pub(crate) fn correlator() -> Figures {
    let (source, mut correlator) = (Arc::new(source()), EventCorrelator::new(CorrelatorOptions::default()));
    let base = resident();
    let mut full = base;
    for number in 0..OBJECTS {
        if number == FULL {
            full = resident();
        }
        let now = correlator.now();
        if let Correlated::Create(correlation) = correlator.correlate(event(&source, number, number), now) {
            correlator.update_state(&correlation, Recorded::from(&correlation.event));
        }
    }
    figures([("growth", resident() - full), ("held", full - base)])
}

/// All objects through a broadcaster that makes series.
pub(crate) fn series() -> anyhow::Result<Figures> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let broadcaster = EventBroadcaster::new(BroadcasterOptions::default());
        let sink = FnSink::new(|_: Write| async { Ok(()) });
        let watch = broadcaster.start_recording_series_to_sink(sink).await?;
        let recorder = broadcaster.new_recorder(source());
        let base = resident();
        let mut full = base;
        for burst in 0..OBJECTS / BURST {
            if burst == FULL / BURST {
                full = resident();
            }
            for number in burst * BURST..(burst + 1) * BURST {
                recorder.event(reference(number), EventType::Normal, reason(number), &message(number));
            }
            settled(&watch, ((burst + 1) * BURST) as u64).await;
        }
        let counts = watch.metrics().counts();
        anyhow::ensure!(counts.sent + counts.dropped == OBJECTS as u64, "{counts:?}");
        Ok(figures([("growth", resident() - full), ("held", full - base)]))
    })
}

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let (better, aim) = (Better::Lower, Aim::Value(MOST_GROWTH));
    for (scenario, what, peers) in
        [("memory", "correlator", &[CLIENT_GO] as &[_]), ("memory-series", "broadcaster of series", &[])]
    {
        let table = Table::race(scenario, RUNS, &[&[OURS], peers].concat())?;
        let growth = format!("memory of a {what}: growth from 100,000 to 1,000,000 objects");
        table.row(report, &growth, better, ("KiB RSS", "growth"), &[], aim)?;
        let held = format!("memory of a {what}: held at 100,000 objects");
        table.row(report, &held, better, ("KiB RSS", "held"), peers, Aim::Shown)?;
    }
    Ok(())
}
