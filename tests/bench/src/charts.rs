//! The charts of `docs/benchmarks.md`: drawn from the results that are kept in `docs/benchmarks`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;

use crate::{Row, chart};

/// The results and their charts.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/benchmarks");

/// Charts by the name of their file, each of a scenario of the results in `fleet.json`.
const CHARTS: [(&str, &str); 4] = [
    ("memory-1000.svg", "1000 controllers: memory at rest"),
    ("memory-100.svg", "100 controllers: memory at rest"),
    ("cpu-100.svg", "100 controllers: CPU until all have reconciled all"),
    ("event-100.svg", "100 controllers: CPU of an event"),
];

#[derive(Deserialize)]
struct Results {
    rows: Vec<Row>,
}

/// The charts of the results in the tree, by path.
///
/// # Errors
/// When the results cannot be read, or lack a scenario.
pub fn all() -> anyhow::Result<Vec<(PathBuf, String)>> {
    let path = Path::new(FOLDER).join("fleet.json");
    let text = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    let results: Results = serde_json::from_slice(&text)?;
    let draw = |(file, scenario): &(&str, &str)| {
        let row = results.rows.iter().find(|row| row.scenario == *scenario);
        let row = row.with_context(|| format!("{} has no scenario {scenario:?}", path.display()))?;
        Ok((Path::new(FOLDER).join(file), chart::bars(row)))
    };
    CHARTS.iter().map(draw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_charts_in_the_tree_are_those_of_the_results_in_the_tree() {
        for (path, expected) in all().unwrap() {
            let found = fs::read_to_string(&path).unwrap_or_default();
            assert!(
                found == expected,
                "{} is not what its results say: run `cargo run -p pilothouse-bench --bin charts`",
                path.display()
            );
        }
    }
}
