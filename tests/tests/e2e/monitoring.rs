//! Alerts and the dashboard, without Prometheus: they name metrics and labels that hosts have, each alert has a runbook and
//! unit tests, and each panel has a data source and the unit of its figures. `slow` has the same with promtool.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::paths::repository;
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::metrics::Metrics;
use pilothouse_tests::monitoring::{Query, alerts, dashboard, queries};
use pilothouse_tests::plugins::Manifest;
use pilothouse_tests::{ControlPlane, Host, Stage};
use serde_json::{Value, json};

/// The labels that the series of a target have, by deploy/monitoring.
const OF_TARGET: [&str; 3] = ["job", "namespace", "pod"];

/// The series of a host that leads, with a plugin that faulted, and those of a host of two clusters that shares plugins.
fn exported() -> Result<[Metrics; 2]> {
    let plane = ControlPlane::shared(Server::Development)?;
    let mut options = HostOptions::new(plane.kubeconfig());
    options.args = ["--leader-elect", "--lease", "install-metrics/hosts"].map(str::to_owned).into();
    let stage = Stage::with(plane, "install-metrics", options)?;
    let manifest = Manifest::new("trap").reads(&["configmaps"], stage.namespace);
    stage.install(
        "trap",
        "probe",
        &manifest.config(json!({"mode": "trap", "namespaces": [stage.namespace]})),
    )?;
    stage.cluster.config_map(stage.namespace, "one")?;
    // A host has series of faults once there was one.
    let leading = stage.host.wait_for("a fault", SOON, || {
        let metrics = stage.host.metrics()?;
        anyhow::Ok(metrics.sum("pilothouse_guest_faults_total", &[]).map(|_| metrics))
    })?;
    // With another cluster, whose series it has.
    let kubeconfig = plane.kubeconfig().display().to_string();
    let elsewhere = ["--clusters", "east=pilothouse-dev", "--clusters-kubeconfig", kubeconfig.as_str()];
    let shards = ["--leader-elect", "--shards=1", "--lease", "install-metrics/shards"];
    let args = [shards, elsewhere].concat().into_iter().map(str::to_owned).collect();
    let sharing = Host::start(HostOptions { args, ..HostOptions::new(plane.kubeconfig()) })?.metrics()?;
    Ok([leading, sharing])
}

#[test]
fn the_dashboard_and_the_alerts_name_metrics_and_labels_that_a_host_has() -> Result<()> {
    let exported = exported()?;
    let mut known: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::from([("up", BTreeSet::from(OF_TARGET))]);
    for metrics in &exported {
        for name in metrics.names() {
            let labels = known.entry(name).or_insert_with(|| BTreeSet::from(OF_TARGET));
            labels.extend(
                metrics.matching(name, &[]).flat_map(|(labels, _)| labels.keys().map(String::as_str)),
            );
        }
    }
    let mut named = BTreeSet::new();
    for query in queries()? {
        let (selectors, grouping) = (query.selectors(), query.grouping());
        ensure!(!selectors.is_empty(), "no metric in {query:?}");
        let mut of_series = BTreeSet::new();
        for selector in selectors {
            let labels = known.get(&*selector.metric);
            let labels = labels.with_context(|| format!("no host has {}: {query:?}", selector.metric))?;
            for label in selector.labels.iter().chain(&grouping) {
                ensure!(labels.contains(&**label), "{} has no label {label}: {query:?}", selector.metric);
            }
            of_series.extend(labels.iter().map(|label| (*label).to_owned()));
            named.insert(selector.metric);
        }
        let of_result = if grouping.is_empty() { &of_series } else { &grouping };
        ensure!(query.shown.is_subset(of_result), "shown, and not in the result: {query:?}");
    }
    ensure!(named.len() > 25, "{named:?}");
    // Who works is shown whether one host leads or all share the plugins.
    let who: Vec<Query> = queries()?.into_iter().filter(|query| query.of.starts_with("panel_2_")).collect();
    for metrics in &exported {
        let mut selectors = who.iter().flat_map(Query::selectors);
        ensure!(
            selectors.any(|selector| metrics.sum(&selector.metric, &[]).is_some()),
            "of no host: {who:?}"
        );
    }

    // The choices above the panels.
    for variable in variables()? {
        let Some(query) = variable["query"]["query"].as_str() else { continue };
        let inside = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
        let (selector, label) =
            inside.and_then(|inside| inside.rsplit_once(", ")).context("another function")?;
        let metric = selector.split('{').next().unwrap_or_default();
        ensure!(known.get(metric).is_some_and(|labels| labels.contains(label)), "{query}");
    }
    Ok(())
}

fn variables() -> Result<Vec<Value>> {
    let dashboard = dashboard()?;
    let variables = dashboard.pointer("/templating/list").and_then(Value::as_array);
    Ok(variables.context("the dashboard has no variables")?.clone())
}

/// The unit of what a query of the dashboard answers.
fn unit(query: &str) -> &'static str {
    match query {
        // CPUs.
        cpu if cpu.contains("cpu_seconds_total{") => "short",
        time if time.contains("_seconds{") || time.contains("_seconds_bucket{") => "s",
        memory if memory.contains("_bytes{") => "bytes",
        requests if requests.contains("rate(rest_client_") => "reqps",
        events if events.contains("rate(") => "ops",
        _ => "short",
    }
}

#[test]
fn panels_have_the_chosen_data_source_and_the_unit_of_their_figures() -> Result<()> {
    let chosen = json!({"type": "prometheus", "uid": "${datasource}"});
    let variables = variables()?;
    let (source, others) = variables.split_first().context("no variables")?;
    ensure!(source["name"] == "datasource" && source["type"] == "datasource", "{source}");
    ensure!(source["query"] == "prometheus", "{source}");
    for variable in others {
        ensure!(variable["datasource"] == chosen, "{variable}");
    }
    let dashboard = dashboard()?;
    let (mut ids, mut places) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().context("no panels")? {
        let title = panel["title"].as_str().context("a panel without a title")?;
        ensure!(ids.insert(panel["id"].as_u64().context("no number")?), "{title}: its number is used twice");
        let place = &panel["gridPos"];
        ensure!(places.insert((place["x"].as_u64(), place["y"].as_u64())), "{title} covers another panel");
        if panel["type"] == "row" {
            continue;
        }
        ensure!(panel["datasource"] == chosen, "{title}: {}", panel["datasource"]);
        let mut letters = BTreeSet::new();
        for target in panel["targets"].as_array().with_context(|| format!("{title} has no queries"))? {
            ensure!(target["datasource"] == chosen, "{title}: {target}");
            ensure!(letters.insert(target["refId"].as_str()), "{title}: a letter is used twice");
            let wanted = unit(target["expr"].as_str().context("no query")?);
            let found = panel.pointer("/fieldConfig/defaults/unit").and_then(Value::as_str);
            ensure!(found == Some(wanted), "{title}: {found:?} in place of {wanted}");
        }
    }
    for query in queries()? {
        query.with_values()?;
    }
    Ok(())
}

#[test]
fn each_alert_has_a_runbook() -> Result<()> {
    let page = fs::read_to_string(repository().join("docs/operations.md"))?;
    let documented: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("### Pilothouse")).collect();
    let rules = alerts()?;
    let mut names = BTreeSet::new();
    for rule in &rules {
        let name = rule["alert"].as_str().context("no name")?;
        let runbook = format!("docs/operations.md#{}", name.to_lowercase());
        ensure!(rule["annotations"]["runbook"] == runbook.as_str(), "{name}: {}", rule["annotations"]);
        ensure!(
            rule["labels"]["severity"].is_string() && rule["annotations"]["summary"].is_string(),
            "{name}"
        );
        names.extend(name.strip_prefix("Pilothouse"));
    }
    ensure!(names == documented, "left: alerts; right: docs/operations.md: {names:?} {documented:?}");
    Ok(())
}

/// The tests themselves run at full length, with promtool.
#[test]
fn each_alert_is_tested_where_all_is_well_and_before_and_when_it_fires() -> Result<()> {
    let file = fs::read_to_string(repository().join("tests/promtool/alerts.yaml"))?;
    let file: Value = serde_saphyr::from_str(&file)?;
    let groups = file["tests"].as_array().context("no tests")?;
    let of_group = |name: &str| -> Result<Vec<&Value>> {
        let group = groups.iter().find(|group| group["name"] == name);
        let tests = group.and_then(|group| group["alert_rule_test"].as_array());
        Ok(tests.with_context(|| format!("no tests of {name}"))?.iter().collect())
    };
    let fires = |test: &Value| test["exp_alerts"].as_array().is_some_and(|alerts| !alerts.is_empty());
    let well = of_group("all is well")?;
    ensure!(!well.iter().any(|test| fires(test)), "{well:?}");
    for rule in alerts()? {
        let name = rule["alert"].as_str().context("no name")?;
        ensure!(well.iter().any(|test| test["alertname"] == name), "{name} is not tested where all is well");
        let own: Vec<&Value> = of_group(name)?.into_iter().filter(|test| test["alertname"] == name).collect();
        ensure!(own.len() >= 2 && !fires(own[0]) && fires(own[1]), "{name}: {own:?}");
    }
    Ok(())
}
