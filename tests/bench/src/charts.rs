//! The charts of `docs/benchmarks.md`: drawn from the JSON files that the benchmarks write, each chart from one row.
//!
//! A run of one benchmark, or of a part of it, is enough to draw its charts. The others stay as they are.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::{File, chart};

/// One chart.
struct Chart {
    /// The name of its file.
    file: &'static str,
    /// The benchmark, by the name of its JSON file.
    benchmark: &'static str,
    /// The scenario of its row.
    scenario: &'static str,
    /// What our bar is called.
    ours: &'static str,
}

const fn languages(file: &'static str, scenario: &'static str) -> Chart {
    Chart { file, benchmark: "languages", scenario, ours: "rust" }
}

const fn fleet(file: &'static str, scenario: &'static str) -> Chart {
    Chart { file, benchmark: "fleet", scenario, ours: "Pilothouse" }
}

const CHARTS: [Chart; 6] = [
    fleet("memory-1000.svg", "1000 controllers: memory at rest"),
    fleet("memory-100.svg", "100 controllers: memory at rest"),
    fleet("cpu-100.svg", "100 controllers: CPU until all have reconciled all"),
    fleet("event-100.svg", "100 controllers: CPU of an event"),
    languages("languages-call.svg", "a warm call that writes nothing"),
    languages("languages-wake.svg", "wake of an unloaded plugin, first call included"),
];

/// Where the charts are kept.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks")
}

/// What [`draw`] did.
#[derive(Debug, Default)]
pub struct Drawn {
    /// The charts that were written.
    pub written: Vec<PathBuf>,
    /// Why each of the others was not, and what to run.
    pub missing: Vec<String>,
}

/// Draws the charts of the JSON files in the folder `results` into the folder `charts`. A chart without results is left as it is.
///
/// # Errors
/// When a file of results cannot be read or is none, or a chart cannot be written.
pub fn draw(results: &Path, charts: &Path) -> anyhow::Result<Drawn> {
    let mut drawn = Drawn::default();
    for chart in &CHARTS {
        let (path, to) = (results.join(format!("{}.json", chart.benchmark)), charts.join(chart.file));
        match svg(chart, &path)? {
            Ok(svg) => {
                fs::create_dir_all(charts).with_context(|| format!("creating {}", charts.display()))?;
                fs::write(&to, svg).with_context(|| format!("writing {}", to.display()))?;
                drawn.written.push(to);
            }
            Err(reason) => drawn.missing.push(format!(
                "{} was not drawn: {reason}; run `just bench {}` first",
                chart.file, chart.benchmark
            )),
        }
    }
    Ok(drawn)
}

/// The chart, or why there is none.
fn svg(chart: &Chart, path: &Path) -> anyhow::Result<Result<String, String>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(Err(format!("there is no {}", path.display())));
        }
        Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
    };
    let File { machine, rows, .. } =
        serde_json::from_slice(&text).with_context(|| format!("{} is no file of figures", path.display()))?;
    let Some(row) = rows.iter().find(|row| row.scenario == chart.scenario) else {
        return Ok(Err(format!("{} has no scenario {:?}", path.display(), chart.scenario)));
    };
    let note = format!("{}; {}, {} cores, {}", row.command, machine.cpu, machine.cores, machine.date);
    Ok(Ok(chart::bars(row, chart.ours, &note)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Aim, Better, Report};

    /// The JSON file of a benchmark that has measured these scenarios, as a report writes it.
    fn measured(folder: &Path, benchmark: &str, scenarios: &[&str]) {
        let mut report = Report::new(benchmark, "a command");
        for scenario in scenarios {
            let peers = vec![("kube-rs", vec![20.0])];
            report.versus(scenario, "MiB", Better::Lower, &mut [5.0], peers, Aim::Shown);
        }
        fs::write(folder.join(format!("{benchmark}.json")), report.json().unwrap()).unwrap();
    }

    #[test]
    fn a_chart_without_results_is_named_and_the_others_are_drawn() {
        let (results, charts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let charts = charts.path().join("new");
        measured(results.path(), "fleet", &["100 controllers: memory at rest"]);
        let drawn = draw(results.path(), &charts).unwrap();
        assert_eq!(drawn.written, [charts.join("memory-100.svg")]);
        let svg = fs::read_to_string(&drawn.written[0]).unwrap();
        for part in ["Pilothouse", "5.00 MiB", "20.0 MiB", "a command; "] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert_eq!(drawn.missing.len(), CHARTS.len() - 1);
        let first = &drawn.missing[0];
        assert!(first.starts_with("memory-1000.svg was not drawn: "), "{first}");
        assert!(first.contains("fleet.json has no scenario \"1000 controllers: memory at rest\""), "{first}");
        assert!(first.ends_with("run `just bench fleet` first"), "{first}");
    }

    #[test]
    fn a_chart_whose_benchmark_was_not_run_stays_as_it_is() {
        let (results, charts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let before = charts.path().join("memory-100.svg");
        fs::write(&before, "of before").unwrap();
        let drawn = draw(results.path(), charts.path()).unwrap();
        assert!(drawn.written.is_empty(), "{drawn:?}");
        assert_eq!(drawn.missing.len(), CHARTS.len());
        assert!(drawn.missing[0].contains("there is no "), "{drawn:?}");
        assert_eq!(fs::read_to_string(before).unwrap(), "of before");
    }

    #[test]
    fn a_damaged_file_of_results_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("fleet.json"), "{").unwrap();
        let error = draw(folder.path(), folder.path()).unwrap_err();
        assert!(format!("{error:#}").contains("fleet.json is no file of figures"), "{error:#}");
    }
}
