//! Alerts and the dashboard before the programs that read them: Prometheus' own promtool, and a real API server with the
//! definitions of the Prometheus operator. At full length only, since promtool is built for it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::paths::repository;
use pilothouse_testkit::poll::{self, SOON};
use pilothouse_testkit::process::Finished;
use pilothouse_tests::controlplane::{Options, Server};
use pilothouse_tests::install::{NAMESPACE, objects};
use pilothouse_tests::monitoring::{files, operator_definitions, promtool, queries};
use pilothouse_tests::{Cluster, ControlPlane, full, or_skip};
use serde_json::{Value, json};

pilothouse_tests::on_the_real_server!(full: the_operator_s_kinds_have_every_field_that_is_set);

/// The kinds of the operator that are used.
const KINDS: [&str; 2] = ["servicemonitors", "prometheusrules"];

#[test]
fn each_alert_fires_after_its_time_and_not_where_all_is_well() -> Result<()> {
    full::only(|| or_skip(tested_alerts))
}

fn tested_alerts() -> Result<()> {
    let (alerts, tests) = (files().join("alerts.yaml"), repository().join("tests/promtool/alerts.yaml"));
    let checked = promtool(&["check", "rules", "--lint-fatal"], &alerts)?;
    let found = format!("SUCCESS: {} rules found", pilothouse_tests::monitoring::alerts()?.len());
    ensure!(checked.status.success() && checked.stdout.contains(&found), "{checked:?}");
    let run = |tests: &Path| promtool(&["test", "rules"], tests);
    let tested = run(&tests)?;
    ensure!(tested.status.success(), "{tested:?}");

    // With another threshold and another time the tests fail.
    let folder = tempfile::Builder::new().prefix("alerts-").tempdir()?;
    let copy = folder.path().join("tests.yaml");
    let text = fs::read_to_string(&tests)?;
    fs::write(&copy, text.replace("../../charts/pilothouse/files/", ""))?;
    let alerts = fs::read_to_string(alerts)?;
    for (alert, old, new) in [
        ("PilothouseReconcileErrors", "[10m])) > 0.5", "[10m])) > 0.05"),
        ("PilothouseReconcileErrors", "[10m])) > 0.5", "[10m])) > 0.8"),
        ("PilothousePluginWaiting", "for: 30m\n", "for: 31m\n"),
    ] {
        ensure!(alerts.contains(old), "no {old:?}");
        fs::write(folder.path().join("alerts.yaml"), alerts.replace(old, new))?;
        let failed = run(&copy)?;
        ensure!(!failed.status.success() && failed.stderr.contains(alert), "{new:?}: {failed:?}");
    }
    Ok(())
}

#[test]
fn prometheus_can_read_each_query_of_the_dashboard() -> Result<()> {
    full::only(|| or_skip(parsed_queries))
}

fn parsed_queries() -> Result<()> {
    let folder = tempfile::Builder::new().prefix("queries-").tempdir()?;
    let file = folder.path().join("rules.yaml");
    // As recording rules, which promtool parses.
    let check = |queries: &[(String, String)]| -> Result<Finished> {
        let rules = queries.iter().map(|(of, text)| json!({"record": of, "expr": text}));
        let rules = json!({"groups": [{"name": "queries", "rules": rules.collect::<Vec<_>>()}]});
        fs::write(&file, rules.to_string())?;
        promtool(&["check", "rules", "--lint-fatal"], &file)
    };
    let queries = queries()?.into_iter().map(|query| anyhow::Ok((query.of.clone(), query.with_values()?)));
    let queries = queries.collect::<Result<Vec<_>>>()?;
    let checked = check(&queries)?;
    let found = format!("SUCCESS: {} rules found", queries.len());
    ensure!(checked.status.success() && checked.stdout.contains(&found), "{checked:?}");
    let broken = check(&[("panel_0_A".to_owned(), "sum by (pod (up{})".to_owned())])?;
    ensure!(!broken.status.success(), "a mistake is not seen: {broken:?}");
    Ok(())
}

/// Sets a field of the first entry of a list in an object.
fn with_field(object: &Value, list: &str, field: &str) -> Result<Value> {
    let mut object = object.clone();
    object.pointer_mut(list).with_context(|| format!("no {list}"))?[0][field] = json!("x");
    Ok(object)
}

fn the_operator_s_kinds_have_every_field_that_is_set() -> Result<()> {
    let definitions = operator_definitions()?;
    let plane = ControlPlane::start(Options::on(Server::Real))?;
    let cluster = Cluster::of(&plane)?;
    cluster.namespace(NAMESPACE)?;
    for kind in KINDS {
        let file = definitions.join(format!("monitoring.coreos.com_{kind}.yaml"));
        plane.kubectl(&["apply", "--server-side", "-f", &file.to_string_lossy()])?;
        poll::until(&format!("{kind} to be served"), SOON, || plane.kubectl(&["get", kind, "-A"]).map(Some))?;
    }
    // A field that the kind does not have is refused, and not left out.
    let apply = ["apply", "--server-side", "--validate=strict"];
    let folder = repository().join("deploy/monitoring");
    plane.kubectl(&[&apply[..], &["-k", &folder.to_string_lossy()]].concat())?;
    let of_operator = |object: &Value| object["apiVersion"] == "monitoring.coreos.com/v1";
    let manifests = objects(&fs::read_to_string(folder.join("monitoring.yaml"))?)?;
    let manifests: Vec<Value> = manifests.into_iter().filter(of_operator).collect();
    ensure!(manifests.len() == KINDS.len(), "{manifests:?}");
    for manifest in manifests {
        let list =
            if manifest["kind"] == "ServiceMonitor" { "/spec/endpoints" } else { "/spec/groups/0/rules" };
        let misspelt = with_field(&manifest, list, "bearerTokenFil")?;
        let args = [&apply[..], &["-f", "-"]].concat();
        let refused = plane.kubectl_with(&args, &misspelt.to_string()).err();
        let refused = format!("{:#}", refused.context("a misspelt field is taken")?);
        // Either is the server's, by the step that notices it first.
        let reasons = ["unknown field", "field not declared in schema"];
        let is_named =
            refused.contains("bearerTokenFil") && reasons.iter().any(|reason| refused.contains(reason));
        ensure!(is_named, "{refused}");
    }
    Ok(())
}
