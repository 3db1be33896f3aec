//! Projections: a plugin that names the fields it reads sees those and may not write them back as if they were all; as soon
//! as another plugin needs whole objects, both see them.

use anyhow::Result;
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::loglines::{self, Line};
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{Cluster, ControlPlane, Host, guests};
use serde_json::{Value, json};

pilothouse_tests::on_both_servers!(a_narrow_plugin_sees_parts_until_a_whole_one_comes);

const NAMESPACE: &str = "projected";

/// A probe that writes the object back again and again, with this projection.
fn manifest(name: &str, projection: Option<&[&str]>) -> Manifest {
    let mut config = json!({
        "namespaces": [NAMESPACE], "mode": "rewrite", "onlyPrefix": "target",
        "schedule": {"every": "200ms", "key": format!("{NAMESPACE}/target")},
    });
    if let Some(fields) = projection {
        config["projection"] = json!(fields);
    }
    Manifest::new(name)
        .grant(&["configmaps"], &["get", "list", "watch", "update"], &[NAMESPACE])
        .config(config)
}

fn rewrites(host: &Host, plugin: &str) -> Vec<Line> {
    loglines::said(host, plugin, "rewrote")
}

fn data(line: &Line) -> Result<Value> {
    Ok(serde_json::from_str(line.field("data"))?)
}

fn a_narrow_plugin_sees_parts_until_a_whole_one_comes(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let cluster = Cluster::of(plane)?;
    cluster.namespace(NAMESPACE)?;
    let all = json!({"kept": "1", "left": "2"});
    cluster.create(&json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": NAMESPACE, "name": "target"}, "data": all,
    }))?;

    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    let narrow = manifest("narrow", Some(&["/data/kept"]));
    host.install("narrow", &guests::wasm("probe")?, Some(&narrow.to_string()))?;
    plugins::wait_running(&host, "narrow")?;
    let alone = host.wait_for("three reconciles of the narrow one", SOON, || {
        let lines = rewrites(&host, "narrow");
        (lines.len() >= 3).then_some(lines)
    })?;
    for line in &alone {
        assert_eq!((line.field("partial"), line.field("reason")), ("true", "invalid"), "{line:?}");
        assert!(line.field("message").contains("send a patch"), "says what to do: {line:?}");
        assert_eq!(data(line)?, json!({"kept": "1"}));
    }
    let stored = cluster.get("v1/ConfigMap", NAMESPACE, "target")?.unwrap_or_default();
    assert_eq!(stored["data"], all, "nothing was lost");

    host.install("whole", &guests::wasm("probe")?, Some(&manifest("whole", None).to_string()))?;
    plugins::wait_running(&host, "whole")?;
    host.wait_for("the narrow one to see a whole object", SOON, || {
        rewrites(&host, "narrow").last().is_some_and(|line| line.field("partial") == "false")
    })?;
    let whole = host.wait_for("three reconciles of the whole one", SOON, || {
        let lines = rewrites(&host, "whole");
        (lines.len() >= 3).then_some(lines)
    })?;
    assert!(whole.iter().all(|line| line.field("partial") == "false"), "from its first call on: {whole:#?}");
    let last = rewrites(&host, "narrow").pop();
    for line in whole.iter().chain(&last) {
        assert_eq!((line.field("reason"), data(line)?), ("ok", all.clone()), "{line:?}");
    }
    let stored = cluster.get("v1/ConfigMap", NAMESPACE, "target")?.unwrap_or_default();
    assert_eq!(stored["data"], all);
    assert!(stored["metadata"].get("annotations").is_none(), "the mark never got there: {stored}");
    Ok(())
}
