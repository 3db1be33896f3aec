//! Who takes part, and the table of who took how long.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::Context;
use pilothouse_bench::{Aim, Better, Process, Report, peers};

use crate::measure::{self, Figures};

/// A queue, as it is named in tables and as its process knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Contender {
    name: &'static str,
    queue: &'static str,
    ours: bool,
    /// Of Go's garbage collector; 100 unless it is said.
    gogc: Option<&'static str>,
}

const fn ours(queue: &'static str) -> Contender {
    Contender { name: queue, queue, ours: true, gogc: None }
}

const fn peer(name: &'static str, queue: &'static str) -> Contender {
    Contender { name, queue, ours: false, gogc: None }
}

/// Ours, without a name.
pub(crate) const PLAIN: Contender = ours("plain");
/// Ours with metrics.
pub(crate) const NAMED: Contender = ours("named");
/// Ours, with keys added and given back in batches.
pub(crate) const BATCHES: Contender = ours("batches");
/// Ours, with the call that does several things under one lock.
pub(crate) const FUSED: Contender = ours("fused");
/// Ours, with a thread for each producer and consumer instead of a task.
pub(crate) const THREADS: Contender = ours("threads");
/// Ours, with hooks that start workers.
pub(crate) const HOOKS: Contender = ours("hooks");
pub(crate) const CLIENT_GO: Contender = peer("client-go", "client-go");
/// With the histograms that controller-runtime registers.
pub(crate) const CLIENT_GO_METRICS: Contender = peer("client-go, metrics", "client-go-metrics");
/// With `namespace/name` in one string, as older controllers have it.
pub(crate) const CLIENT_GO_STRINGS: Contender = peer("client-go, string keys", "client-go-strings");
/// With less garbage collection than is usual.
pub(crate) const CLIENT_GO_GOGC: Contender =
    Contender { gogc: Some("400"), ..peer("client-go, GOGC=400", "client-go") };
pub(crate) const PRIORITY: Contender = peer("controller-runtime", "priority");
/// As all of its controllers have it.
pub(crate) const PRIORITY_METRICS: Contender = peer("controller-runtime, metrics", "priority-metrics");

impl Contender {
    /// As tables have it.
    pub(crate) fn name(self) -> &'static str {
        self.name
    }

    /// One run of a scenario, in a process of its own.
    fn measure(self, scenario: &str) -> anyhow::Result<Figures> {
        let mut command = match self.ours {
            true => Command::new(std::env::current_exe()?),
            false => Command::new(peers::go()?),
        };
        command.arg(if self.ours { measure::COMMAND } else { "workqueue" });
        // Neither this shell's nor anybody's but what the row says.
        for variable in ["GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GODEBUG"] {
            command.env_remove(variable);
        }
        command.envs(self.gogc.map(|value| ("GOGC", value)));
        Process::start(&mut command)?.ask(&format!("{scenario} {}", self.queue))
    }
}

/// The figures of one scenario, and the report that its rows go to.
pub(crate) struct Table<'a> {
    report: &'a mut Report,
    scenario: &'static str,
    /// By contender and figure; one value a run.
    runs: BTreeMap<&'static str, BTreeMap<String, Vec<f64>>>,
}

impl<'a> Table<'a> {
    /// Lets all contenders run, one after the other, so many times.
    pub(crate) fn race(
        report: &'a mut Report,
        scenario: &'static str,
        runs: usize,
        contenders: &[Contender],
    ) -> anyhow::Result<Self> {
        let mut table = Self { report, scenario, runs: BTreeMap::new() };
        for run in 0..runs {
            // Each begins once, so that none always comes after the same one.
            for turn in 0..contenders.len() {
                let contender = contenders[(turn + run) % contenders.len()];
                let figures = contender
                    .measure(scenario)
                    .with_context(|| format!("{scenario} of {} ({})", contender.name, contender.queue))?;
                let into = table.runs.entry(contender.name).or_default();
                for (figure, value) in figures {
                    into.entry(figure).or_default().push(value);
                }
            }
        }
        Ok(table)
    }

    /// The runs of a figure.
    pub(crate) fn of(&self, contender: Contender, figure: &str) -> anyhow::Result<Vec<f64>> {
        let runs = self.runs.get(contender.name).and_then(|figures| figures.get(figure));
        runs.cloned()
            .with_context(|| format!("{} has no figure {figure} of {}", contender.name, self.scenario))
    }

    /// A row of a figure that all have.
    pub(crate) fn row(
        &mut self,
        what: &str,
        (metric, figure): (&str, &str),
        ours: Contender,
        peers: &[Contender],
        aim: Aim,
    ) -> anyhow::Result<()> {
        self.row_of(what, metric, ours, peers, aim, |table, contender| table.of(contender, figure))
    }

    /// A row of what is made of several figures.
    pub(crate) fn row_of(
        &mut self,
        what: &str,
        metric: &str,
        ours: Contender,
        peers: &[Contender],
        aim: Aim,
        value: impl Fn(&Self, Contender) -> anyhow::Result<Vec<f64>>,
    ) -> anyhow::Result<()> {
        let mut runs = value(self, ours)?;
        let peers: Vec<_> =
            peers.iter().map(|peer| Ok((peer.name, value(self, *peer)?))).collect::<anyhow::Result<_>>()?;
        self.report.versus(what, metric, Better::Lower, &mut runs, peers, aim);
        Ok(())
    }
}

/// One figure over another, run by run.
pub(crate) fn quotient(over: &[f64], under: &[f64]) -> Vec<f64> {
    over.iter().zip(under).map(|(over, under)| over / under).collect()
}
