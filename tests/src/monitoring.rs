//! What the operator sees, `charts/pilothouse/files`: [`queries`] are those of the alerts and of the dashboard, [`promtool`]
//! checks them as Prometheus does, [`operator_definitions`] are the kinds of the Prometheus operator.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

use crate::go_program::PROMTOOL;
use crate::paths;
use crate::process::{self, Finished};
use crate::tools::Tool;

/// Time limit of a command; `go` may download a module in it.
const COMMAND: Duration = Duration::from_secs(300);
/// The module of the operator, whose version is in `tests/prometheusoperator/go.mod`.
const OPERATOR: &str = "github.com/prometheus-operator/prometheus-operator";

/// The folder of the alerts and the dashboard.
pub fn files() -> PathBuf {
    paths::repository().join("charts/pilothouse/files")
}

/// The rules of `alerts.yaml`.
///
/// # Errors
/// When the file is not one of alerts.
pub fn alerts() -> Result<Vec<Value>> {
    let mut file: Value = serde_saphyr::from_str(&fs::read_to_string(files().join("alerts.yaml"))?)?;
    match file.pointer_mut("/groups/0/rules").map(Value::take) {
        Some(Value::Array(rules)) => Ok(rules),
        _ => bail!("alerts.yaml has no rules"),
    }
}

/// The dashboard.
///
/// # Errors
/// When the file is not JSON.
pub fn dashboard() -> Result<Value> {
    Ok(serde_json::from_slice(&fs::read(files().join("dashboard.json"))?)?)
}

/// A query of an alert or of a panel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The name of the alert; the number of the panel and the letter of the query.
    pub of: String,
    /// The text, in PromQL with the variables of the dashboard.
    pub text: String,
    /// The labels of the result that texts of the alert or the legend of the panel show.
    pub shown: BTreeSet<String>,
}

/// A metric in a query, and the labels that it is selected by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    /// The metric.
    pub metric: String,
    /// The names of the labels.
    pub labels: BTreeSet<String>,
}

/// The queries of all alerts and panels.
///
/// # Errors
/// When a file is malformed, or an alert or a panel has no query.
pub fn queries() -> Result<Vec<Query>> {
    let mut queries = Vec::new();
    for rule in alerts()? {
        let of = rule["alert"].as_str().context("an alert without a name")?.to_owned();
        let text = rule["expr"].as_str().with_context(|| format!("{of} has no query"))?.to_owned();
        let texts = rule["annotations"].as_object().into_iter().flatten();
        let shown = texts.filter_map(|(_, text)| text.as_str()).flat_map(shown).collect();
        queries.push(Query { of, text, shown });
    }
    for panel in dashboard()?["panels"].as_array().context("no panels")? {
        if panel["type"] == "row" {
            continue;
        }
        let targets = panel["targets"].as_array().with_context(|| format!("no queries: {panel}"))?;
        for target in targets {
            let letter = target["refId"].as_str().with_context(|| format!("no letter: {panel}"))?;
            let of = format!("panel_{}_{letter}", panel["id"]);
            let text = target["expr"].as_str().with_context(|| format!("{of} has no query"))?.to_owned();
            let shown = shown(target["legendFormat"].as_str().unwrap_or_default()).collect();
            queries.push(Query { of, text, shown });
        }
    }
    Ok(queries)
}

impl Query {
    /// The metrics of the query. Each is written with a selector, `{…}`.
    pub fn selectors(&self) -> Vec<Selector> {
        let starts = self.text.match_indices('{').map(|(at, _)| self.text.split_at(at));
        starts.map(|(before, after)| Selector { metric: last_name(before), labels: labels(after) }).collect()
    }

    /// The labels that the query groups by.
    pub fn grouping(&self) -> BTreeSet<String> {
        let lists = self.text.split(" by (").skip(1).filter_map(|rest| rest.split(')').next());
        lists.flat_map(|list| list.split(',')).map(|label| label.trim().to_owned()).collect()
    }

    /// The query with values for the variables of the dashboard.
    ///
    /// # Errors
    /// When it has another variable.
    pub fn with_values(&self) -> Result<String> {
        let mut text = self.text.replace("$__rate_interval", "5m").replace("$job", "pilothouse");
        for variable in ["$namespace", "$controller"] {
            text = text.replace(variable, ".*");
        }
        ensure!(!text.contains('$'), "{}: an unknown variable in {text}", self.of);
        Ok(text)
    }
}

/// The labels in `{{label}}` and `{{ $labels.label }}`.
fn shown(text: &str) -> impl Iterator<Item = String> {
    let inside = text.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
    inside.map(|label| label.trim().trim_start_matches("$labels.").to_owned())
}

/// The name at the end of a text.
fn last_name(text: &str) -> String {
    let start = text.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |at| at + 1);
    text[start..].to_owned()
}

/// The names of labels in a selector, which a text begins with.
fn labels(text: &str) -> BTreeSet<String> {
    let selector = text.split('}').next().unwrap_or_default();
    // Every other part is the value of a label.
    let names = selector.split('"').step_by(2);
    let names = names.map(|part| part.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Runs promtool on a file. It is built if necessary.
///
/// # Errors
/// When it cannot be built or started.
pub fn promtool(args: &[&str], file: &Path) -> Result<Finished> {
    process::run(Command::new(PROMTOOL.built()?).args(args).arg(file), "", COMMAND)
}

/// The folder with the CustomResourceDefinitions of the Prometheus operator: a part of its Go module.
///
/// # Errors
/// [`MissingTool`](crate::tools::MissingTool) without Go; another error when the module cannot be downloaded.
pub fn operator_definitions() -> Result<PathBuf> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Module {
        dir: PathBuf,
    }
    Tool::Go.require()?;
    let mut command = Command::new("go");
    // `go.sum` there has the digest of the module.
    command.current_dir(paths::repository().join("tests/prometheusoperator"));
    command.args(["mod", "download", "-json", OPERATOR]).env_remove("GOFLAGS");
    let done = process::run(&mut command, "", COMMAND)?;
    ensure!(
        done.status.success(),
        "{OPERATOR} cannot be downloaded; it needs a Go module proxy (GOPROXY): {done:?}"
    );
    let module: Module = serde_json::from_str(&done.stdout)?;
    Ok(module.dir.join("example/prometheus-operator-crd"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query { of: "q".to_owned(), text: text.to_owned(), shown: BTreeSet::new() }
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_metrics_and_labels_of_a_query_are_found() {
        let both =
            query(r#"sum by (a, le) (rate(x_total{job="$job",code=~"5..|<error>"}[5m])) / sum by (a) (y{})"#);
        let x = Selector { metric: "x_total".to_owned(), labels: set(&["job", "code"]) };
        let y = Selector { metric: "y".to_owned(), labels: BTreeSet::new() };
        assert_eq!(both.selectors(), [x, y]);
        assert_eq!(both.grouping(), set(&["a", "le"]));
        assert_eq!(query("up{} == 0").grouping(), BTreeSet::new());
        let texts = ["{{pod}} of {{ $labels.namespace }}", "none"];
        assert_eq!(texts.into_iter().flat_map(shown).collect::<BTreeSet<_>>(), set(&["pod", "namespace"]));
    }

    #[test]
    fn every_variable_has_a_value() {
        let text = query(r#"rate(x{job="$job",controller=~"$controller"}[$__rate_interval])"#)
            .with_values()
            .unwrap();
        assert_eq!(text, r#"rate(x{job="pilothouse",controller=~".*"}[5m])"#);
        let error = query(r#"x{pod="$pod"}"#).with_values().unwrap_err().to_string();
        assert!(error.starts_with("q: an unknown variable in x"), "{error}");
    }
}
