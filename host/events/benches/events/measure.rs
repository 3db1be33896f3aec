//! The process in which ours is measured: it reads a scenario and writes figures, as `peers events` does.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::time::Duration;

use anyhow::bail;

use crate::correlate::{self, Scenario};
use crate::{memory, record};

/// First word of the command line of such a process.
pub(crate) const COMMAND: &str = "measure";

/// What a run has found, by name.
pub(crate) type Figures = BTreeMap<String, f64>;

/// Runs until told to quit, by the end of standard input.
#[allow(clippy::print_stdout, reason = "the conversation with the benchmark")]
pub(crate) fn run() -> anyhow::Result<()> {
    for scenario in std::io::stdin().lock().lines() {
        let figures = match scenario?.as_str() {
            "different" => correlate::measure(Scenario::Different),
            "repeated" => correlate::measure(Scenario::Repeated),
            "patched" => correlate::measure(Scenario::Patched),
            "similar" => correlate::measure(Scenario::Similar),
            "record" => record::taken()?,
            "record-full" => record::full()?,
            "memory" => memory::correlator(),
            "memory-series" => memory::series()?,
            other => bail!("unknown scenario {other:?}"),
        };
        println!("{}", serde_json::to_string(&figures)?);
    }
    Ok(())
}

/// Figures from pairs.
pub(crate) fn figures<const N: usize>(pairs: [(&str, f64); N]) -> Figures {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Nanoseconds of one of so many.
pub(crate) fn per(spent: Duration, count: usize) -> f64 {
    spent.as_secs_f64() * 1e9 / count as f64
}
