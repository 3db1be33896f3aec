//! One core: events a second through a correlator, with all that a sink's task does of it: the copy that is its own, the time, the
//! patch where there is one, and what the sink has made of it.

use std::hint::black_box;
use std::sync::Arc;

use pilothouse_bench::usage::cpu;
use pilothouse_bench::{Aim, Better, Report};
use pilothouse_events::{Correlated, CorrelatorOptions, Event, EventCorrelator, Recorded};

use crate::events::{OBJECTS, event, source};
use crate::measure::{Figures, figures};
use crate::race::{CLIENT_GO, CLIENT_GO_GOGC, OURS, Table};

const RUNS: usize = 5;
/// Events a figure is taken of, behind [`OBJECTS`] with which the caches are filled.
const EVENTS: usize = 1_000_000;
/// Events of one object and reason that differ in their text.
const TEXTS: usize = 100;
/// From the issue.
const LEAST_PER_SECOND: f64 = 1e6;

/// What comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// Each event is about an object that no cache knows: each is to be created.
    Different,
    /// One event over and over: 25 pass, the spam filter holds all others back.
    Repeated,
    /// The same with a filter that lets all pass: each is to be patched.
    Patched,
    /// One object with 100 texts in turn, and such a filter: all but nine are combined.
    Similar,
}

impl Scenario {
    fn events(self) -> Vec<Event> {
        let source = Arc::new(source());
        let events = |count: usize, of: fn(usize) -> (usize, usize)| {
            (0..count).map(of).map(|(object, text)| event(&source, object, text)).collect()
        };
        match self {
            Self::Different => events(OBJECTS, |n| (n, n)),
            Self::Repeated | Self::Patched => events(1, |n| (n, n)),
            Self::Similar => events(TEXTS, |n| (0, n)),
        }
    }

    fn options(self) -> CorrelatorOptions {
        let options = CorrelatorOptions::default();
        match self {
            Self::Different | Self::Repeated => options,
            Self::Patched | Self::Similar => CorrelatorOptions { burst_size: u32::MAX, ..options },
        }
    }
}

pub(crate) fn measure(scenario: Scenario) -> Figures {
    let (events, mut correlator) = (scenario.events(), EventCorrelator::new(scenario.options()));
    let mut through = |count: usize| {
        for event in events.iter().cycle().take(count) {
            let now = correlator.now();
            match correlator.correlate(event.clone(), now) {
                Correlated::Skip => continue,
                Correlated::Create(correlation) => {
                    correlator.update_state(&correlation, Recorded::from(&correlation.event));
                    black_box(correlation);
                }
                Correlated::Patch(correlation) => {
                    black_box(correlation.patch().is_ok());
                    correlator.update_state(&correlation, Recorded::from(&correlation.event));
                }
            }
        }
    };
    through(OBJECTS);
    let began = cpu();
    through(EVENTS);
    figures([("per_second", EVENTS as f64 / (cpu() - began).as_secs_f64())])
}

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let fast = Aim::Value(LEAST_PER_SECOND);
    for (scenario, what, own, aim) in [
        ("different", "all different, each created", fast, Aim::Ratio(6.0)),
        ("repeated", "one repeated, filtered after 25", fast, Aim::Ratio(40.0)),
        ("patched", "one repeated, none filtered, each patched", Aim::Shown, Aim::Ratio(40.0)),
        ("similar", "100 texts of one object, combined, none filtered", Aim::Shown, Aim::Shown),
    ] {
        let table = Table::race(scenario, RUNS, &[OURS, CLIENT_GO, CLIENT_GO_GOGC])?;
        let what = format!("correlation on one core, {what}");
        let (better, figure) = (Better::Higher, ("events/s", "per_second"));
        table.row(report, &what, better, figure, &[], own)?;
        table.row(
            report,
            &format!("{what}: beside client-go"),
            better,
            figure,
            &[CLIENT_GO, CLIENT_GO_GOGC],
            aim,
        )?;
    }
    Ok(())
}
