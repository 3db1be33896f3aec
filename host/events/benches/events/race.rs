//! Who takes part, and the table of who took how long.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::Context;
use pilothouse_bench::{Aim, Better, Process, Report, peers};

use crate::measure::{self, Figures};

/// Ours.
pub(crate) const OURS: &str = "ours";
/// `k8s.io/client-go/tools/record`, on one core.
pub(crate) const CLIENT_GO: &str = "client-go";
/// With less garbage collection than is usual.
pub(crate) const CLIENT_GO_GOGC: &str = "client-go, GOGC=400";

/// The figures of one scenario.
pub(crate) struct Table {
    scenario: &'static str,
    /// By contender and figure; one value a run.
    runs: BTreeMap<&'static str, BTreeMap<String, Vec<f64>>>,
}

impl Table {
    /// Lets all contenders run, one after the other, so many times.
    pub(crate) fn race(
        scenario: &'static str,
        runs: usize,
        contenders: &[&'static str],
    ) -> anyhow::Result<Self> {
        let mut table = Self { scenario, runs: BTreeMap::new() };
        for run in 0..runs {
            // Each begins once, so that none always comes after the same one.
            for turn in 0..contenders.len() {
                let contender = contenders[(turn + run) % contenders.len()];
                let figures =
                    once(contender, scenario).with_context(|| format!("{scenario} of {contender}"))?;
                let into = table.runs.entry(contender).or_default();
                for (figure, value) in figures {
                    into.entry(figure).or_default().push(value);
                }
            }
        }
        Ok(table)
    }

    /// A row: ours beside these peers.
    pub(crate) fn row(
        &self,
        report: &mut Report,
        what: &str,
        better: Better,
        (metric, figure): (&str, &str),
        peers: &[&'static str],
        aim: Aim,
    ) -> anyhow::Result<()> {
        let mut runs = self.of(OURS, figure)?;
        let peers: Vec<_> =
            peers.iter().map(|peer| Ok((*peer, self.of(peer, figure)?))).collect::<anyhow::Result<_>>()?;
        report.versus(what, metric, better, &mut runs, peers, aim);
        Ok(())
    }

    fn of(&self, contender: &str, figure: &str) -> anyhow::Result<Vec<f64>> {
        let runs = self.runs.get(contender).and_then(|figures| figures.get(figure));
        runs.cloned().with_context(|| format!("{contender} has no figure {figure} of {}", self.scenario))
    }
}

/// One run, in a process of its own.
fn once(contender: &str, scenario: &str) -> anyhow::Result<Figures> {
    let mut command = match contender == OURS {
        true => Command::new(std::env::current_exe()?),
        false => Command::new(peers::go()?),
    };
    command.arg(if contender == OURS { measure::COMMAND } else { "events" });
    for variable in ["GOGC", "GOMEMLIMIT", "GODEBUG"] {
        command.env_remove(variable);
    }
    command.env("GOMAXPROCS", "1");
    if contender == CLIENT_GO_GOGC {
        command.env("GOGC", "400");
    }
    Process::start(&mut command)?.ask(scenario)
}
