//! [`Report`]: the figures of one benchmark run, printed as a table and written to `target/bench/CRATE.json`.
//!
//! The benches of all crates use it, so that all figures have one form (`docs/benchmarks.md`); and with it what several of
//! them need: [`peers`] builds the programs to compare with, [`Process`] runs them, [`ReplayServer`] is what they read from,
//! [`usage`] is what a process has used. [`charts`] draws what was written.

pub mod chart;
pub mod charts;
pub mod peers;
mod process;
mod replay;
pub mod usage;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::Context;
pub use process::Process;
pub use replay::{ReplayServer, ReplayStats};
use serde::{Deserialize, Serialize};

/// Whether more or less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

/// What a figure is held against.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aim {
    /// Nothing: it is shown.
    Shown,
    /// A value in the unit of the figure.
    Value(f64),
    /// So many times better than the best peer.
    Ratio(f64),
}

/// The runs of another one, by its name.
pub type Peer<'a> = (&'a str, Vec<f64>);

/// One figure.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// What was done.
    pub scenario: String,
    /// Unit.
    pub metric: String,
    /// Whether more or less is better.
    pub better: Better,
    /// Our figure: the median of the runs.
    pub ours: f64,
    /// The same figure of others, in the same run.
    pub peers: BTreeMap<String, f64>,
    /// How many times better we are than the best peer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// What is aimed at: in the unit of `metric`, or as `ratio` where the aim is one over the peers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<f64>,
    /// Whether the aim is met.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub met: Option<bool>,
    /// Runs behind the median.
    pub runs: usize,
    /// How to repeat it.
    pub command: String,
}

/// What could not be measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Skipped {
    scenario: String,
    reason: String,
}

/// Where and when figures were taken.
#[derive(Debug, Serialize, Deserialize)]
struct Machine {
    cpu: String,
    cores: usize,
    kernel: String,
    date: String,
}

/// A JSON file of figures.
#[derive(Debug, Serialize, Deserialize)]
struct File<'a> {
    machine: Machine,
    rows: Cow<'a, [Row]>,
    /// Absent in files of before.
    #[serde(default)]
    skipped: Cow<'a, [Skipped]>,
}

/// The figures of one run.
#[derive(Debug)]
pub struct Report {
    name: String,
    command: String,
    rows: Vec<Row>,
    skipped: Vec<Skipped>,
}

/// The middle of some values.
pub fn median(values: &mut [f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value below which a fraction of the values lies.
pub fn quantile(values: &mut [f64], fraction: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index within the values")]
    values.get((last as f64 * fraction).round() as usize).copied().unwrap_or(f64::NAN)
}

impl Report {
    /// A report of a crate's bench; `command` repeats it.
    pub fn new(name: &str, command: &str) -> Report {
        Report { name: name.to_owned(), command: command.to_owned(), rows: Vec::new(), skipped: Vec::new() }
    }

    /// Adds a figure that is held against a bound.
    pub fn bound(
        &mut self,
        scenario: &str,
        metric: &str,
        better: Better,
        runs: &mut [f64],
        target: Option<f64>,
    ) {
        let aim = target.map_or(Aim::Shown, Aim::Value);
        self.versus(scenario, metric, better, runs, Vec::new(), aim);
    }

    /// Adds a figure beside the same one of others.
    pub fn versus(
        &mut self,
        scenario: &str,
        metric: &str,
        better: Better,
        runs: &mut [f64],
        peers: Vec<Peer<'_>>,
        aim: Aim,
    ) {
        let ours = median(runs);
        let peers: BTreeMap<String, f64> =
            peers.into_iter().map(|(name, mut runs)| (name.to_owned(), median(&mut runs))).collect();
        let ratios = peers.values().map(|peer| match better {
            Better::Higher => ours / peer,
            Better::Lower => peer / ours,
        });
        // The best peer is the one that leaves the smallest.
        let ratio = ratios.min_by(f64::total_cmp);
        let (target, met) = match aim {
            Aim::Shown => (None, None),
            Aim::Value(value) if better == Better::Higher => (Some(value), Some(ours >= value)),
            Aim::Value(value) => (Some(value), Some(ours <= value)),
            Aim::Ratio(least) => (Some(least), Some(ratio.is_some_and(|ratio| ratio >= least))),
        };
        let row = Row {
            scenario: scenario.to_owned(),
            metric: metric.to_owned(),
            better,
            ours,
            peers,
            ratio,
            target,
            met,
            runs: runs.len(),
            command: self.command.clone(),
        };
        print(&row, aim);
        self.rows.push(row);
    }

    /// Adds a line instead of figures: what could not be measured on this machine, and why.
    #[allow(clippy::print_stdout, reason = "a bench's result")]
    pub fn skip(&mut self, scenario: &str, reason: &str) {
        println!("{scenario:<66} not measured: {reason}");
        self.skipped.push(Skipped { scenario: scenario.to_owned(), reason: reason.to_owned() });
    }

    /// Writes the report and prints its path.
    ///
    /// # Errors
    /// When the file cannot be written.
    #[allow(clippy::print_stdout, reason = "a bench's result")]
    pub fn finish(&self) -> anyhow::Result<()> {
        println!("written to {}", self.write()?.display());
        Ok(())
    }

    /// Writes the report and returns its path.
    pub fn write(&self) -> anyhow::Result<PathBuf> {
        let folder = results()?;
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let path = folder.join(format!("{}.json", self.name));
        fs::write(&path, self.json()?).with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }

    fn json(&self) -> anyhow::Result<Vec<u8>> {
        let file = File {
            machine: machine(),
            rows: Cow::Borrowed(&self.rows),
            skipped: Cow::Borrowed(&self.skipped),
        };
        Ok(serde_json::to_vec_pretty(&file)?)
    }
}

#[allow(clippy::print_stdout, reason = "a bench's result")]
fn print(row: &Row, aim: Aim) {
    let sign = if row.better == Better::Higher { "≥" } else { "≤" };
    let aim = match aim {
        Aim::Shown => String::new(),
        Aim::Value(value) => format!("aim {sign} {value}: "),
        Aim::Ratio(least) => format!("aim ≥ {least} x: "),
    };
    let verdict = row.met.map_or("", |met| if met { "met" } else { "MISSED" });
    let ratio = row.ratio.map_or(String::new(), |ratio| format!("{ratio:>7.2} x the best peer  "));
    println!("{:<66} {:>12.2} {:<11} {ratio}{aim}{verdict}", row.scenario, row.ours, row.metric);
    for (name, value) in &row.peers {
        println!("    {name:<62} {value:>12.2}");
    }
}

/// Measures something and adds its rows.
pub type Part = fn(&mut Report) -> anyhow::Result<()>;

/// The whole of a bench's `main`: runs the parts whose name contains the first word of the command line, or all, and
/// writes the report.
pub fn run(name: &str, command: &str, parts: &[(&str, Part)]) -> anyhow::Result<()> {
    let only = word();
    let mut report = Report::new(name, command);
    for (_, measure) in parts.iter().filter(|(part, _)| part.contains(&only)) {
        measure(&mut report)?;
    }
    report.finish()
}

/// The first word of the command line that is no option; empty when there is none.
#[must_use]
pub fn word() -> String {
    std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default()
}

/// Whether a part that takes long is to be run: it is named, or everything is asked for.
#[must_use]
pub fn is_asked(part: &str) -> bool {
    is_full() || word() == part
}

/// Whether the command line asks for all sizes and peers.
#[must_use]
pub fn is_full() -> bool {
    std::env::args().any(|arg| arg == "--full")
}

/// Whether the command line asks for a run that only shows that the bench works.
#[must_use]
pub fn is_small() -> bool {
    std::env::args().any(|arg| arg == "--small")
}

/// Cargo's target folder, in which this program is: wherever the user has put it, it is marked with `CACHEDIR.TAG`.
///
/// # Errors
/// When this program is in none.
pub fn target() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let marked = program.ancestors().skip(1).find(|dir| dir.join("CACHEDIR.TAG").exists());
    marked.map(PathBuf::from).with_context(|| format!("{} is in no target folder", program.display()))
}

/// The folder of the JSON files.
///
/// # Errors
/// As [`target`].
pub fn results() -> anyhow::Result<PathBuf> {
    Ok(target()?.join("bench"))
}

fn machine() -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| line.strip_prefix("model name").and_then(|rest| rest.split_once(':')))
        .map_or_else(String::new, |(_, name)| name.trim().to_owned());
    let date = std::process::Command::new("date").args(["-u", "+%Y-%m-%d"]).output();
    Machine {
        cpu,
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        date: date
            .map_or_else(|_| String::new(), |out| String::from_utf8_lossy(&out.stdout).trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_that_over_the_best_peer() {
        let mut report = Report::new("a", "b");
        let peers = || vec![("slow", vec![9.0]), ("fast", vec![3.0, 4.0, 5.0])];
        report.versus("x", "ns", Better::Lower, &mut [2.0], peers(), Aim::Ratio(2.0));
        report.versus("x", "1/s", Better::Higher, &mut [18.0], peers(), Aim::Ratio(2.5));
        report.versus("x", "ns", Better::Lower, &mut [2.0], peers(), Aim::Value(1.0));
        let rows: Vec<_> = report.rows.iter().map(|row| (row.ratio, row.met)).collect();
        assert_eq!(rows, [(Some(2.0), Some(true)), (Some(2.0), Some(false)), (Some(2.0), Some(false))]);
    }

    #[test]
    fn what_was_skipped_is_in_the_file_with_its_reason() {
        let mut report = Report::new("a", "b");
        report.bound("measured", "ns", Better::Lower, &mut [2.0], None);
        report.skip("python", "`python3` is not on the PATH");
        let text = report.json().unwrap();
        let File { rows, skipped, .. } = serde_json::from_slice(&text).unwrap();
        assert_eq!((rows.len(), skipped.len()), (1, 1));
        assert_eq!(
            (skipped[0].scenario.as_str(), &*skipped[0].reason),
            ("python", "`python3` is not on the PATH")
        );
    }

    #[test]
    fn quantiles_are_values_of_the_runs() {
        let mut values = vec![5.0, 1.0, 3.0, 2.0, 4.0];
        assert_eq!(median(&mut values), 3.0);
        assert_eq!(quantile(&mut values, 0.99), 5.0);
        assert_eq!(quantile(&mut values, 0.0), 1.0);
    }
}
