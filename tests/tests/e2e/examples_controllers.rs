//! The examples `sample-controller`, `configmap-replicator` and `namespace-quota`, each with its own manifest.

use std::fs;

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::paths;
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::{ControlPlane, Stage, cli, guests, loglines, plugins, sample_controller};
use serde_json::json;

pilothouse_tests::on_both_servers!(
    a_foo_has_a_deployment_until_it_goes,
    config_maps_are_copied_to_the_selected_namespaces,
    a_namespace_with_too_many_objects_is_warned_of,
);

const CONFIG_MAP: &str = "v1/ConfigMap";

/// Installs an example as its README says, and waits until it runs.
fn install(stage: &Stage, example: &str) -> Result<()> {
    let manifest = paths::repository().join(format!("examples/{example}/{example}.yaml"));
    let manifest = fs::read_to_string(&manifest).with_context(|| manifest.display().to_string())?;
    stage.host.install(&example.replace('-', "_"), &guests::wasm(example)?, Some(&manifest))?;
    plugins::wait_running(&stage.host, example).map(drop)
}

fn a_foo_has_a_deployment_until_it_goes(server: Server) -> Result<()> {
    let stage = Stage::new(server, "sample-controller")?;
    let wasm = guests::wasm("sample-controller")?;
    let dir = tempfile::tempdir()?;
    let printed = cli::run(dir.path(), &["crd".as_ref(), wasm.as_os_str()])?;
    ensure!(printed.status.success(), "{printed:?}");
    sample_controller::define(ControlPlane::shared(server)?, &printed.stdout)?;
    install(&stage, "sample-controller")?;

    sample_controller::check(&stage.cluster, stage.namespace, &|what, holds| {
        stage.host.wait_for(what, SOON, holds)
    })
}

fn config_maps_are_copied_to_the_selected_namespaces(server: Server) -> Result<()> {
    let stage = Stage::new(server, "replicated")?;
    let (cluster, namespace) = (&stage.cluster, stage.namespace);
    let team = |name: &str, team: &str| {
        let metadata = json!({"name": name, "labels": {"replicated-to": team}});
        cluster.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
    };
    team("replicated-web", "web")?;
    team("replicated-db", "db")?;
    install(&stage, "configmap-replicator")?;
    cluster.create(&json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "namespace": namespace, "name": "settings",
            "labels": {"replicator.pilothouse.dev/role": "source"},
            "annotations": {"replicator.pilothouse.dev/namespaces": "replicated-to=web"},
        },
        "data": {"value": "first"}, "binaryData": {"bytes": "AAE="},
    }))?;
    let data = |namespace: &str| {
        let found = cluster.get(CONFIG_MAP, namespace, "settings")?;
        Ok::<_, anyhow::Error>(found.map(|map| (map["data"].clone(), map["binaryData"].clone())))
    };
    let wait = |what: &str, namespace: &str, value: Option<&str>| {
        let wanted = value.map(|value| (json!({"value": value}), json!({"bytes": "AAE="})));
        stage.host.wait_for(what, SOON, || Ok::<_, anyhow::Error>(data(namespace)? == wanted))
    };
    wait("the copy", "replicated-web", Some("first"))?;
    ensure!(data("replicated-db")?.is_none(), "it is not selected");
    cluster.change(namespace, "settings", "second")?;
    wait("the copy to follow", "replicated-web", Some("second"))?;
    cluster.merge(CONFIG_MAP, "replicated-web", "settings", &json!({"data": {"more": "x"}}))?;
    wait("the copy to be restored", "replicated-web", Some("second"))?;
    cluster.delete(CONFIG_MAP, "replicated-web", "settings")?;
    wait("the copy to be made again", "replicated-web", Some("second"))?;

    team("replicated-late", "web")?;
    wait("the copy in a new namespace", "replicated-late", Some("second"))?;
    let labels = |team: &str| json!({"metadata": {"labels": {"replicated-to": team}}});
    cluster.merge("v1/Namespace", "", "replicated-late", &labels("db"))?;
    wait("the copy to go from a namespace", "replicated-late", None)?;
    cluster.delete(CONFIG_MAP, namespace, "settings")?;
    wait("the copy to go with its source", "replicated-web", None)
}

fn a_namespace_with_too_many_objects_is_warned_of(server: Server) -> Result<()> {
    let stage = Stage::new(server, "quota")?;
    let (cluster, namespace) = (&stage.cluster, stage.namespace);
    // The real controller manager puts a ConfigMap into each namespace; neither server does it here.
    let limit = json!({"metadata": {"annotations": {"quota.pilothouse.dev/configmaps": "1"}}});
    cluster.merge("v1/Namespace", "", namespace, &limit)?;
    cluster.config_map(namespace, "one")?;
    install(&stage, "namespace-quota")?;
    let count = |wanted: f64| {
        let labels = [("namespace", namespace), ("resource", "configmaps")];
        let holds = || {
            let metrics = stage.host.metrics()?;
            let sum = |name| metrics.sum(name, &labels);
            let counts = (sum("plugin_namespace_quota__objects"), sum("plugin_namespace_quota__limit"));
            Ok::<_, anyhow::Error>(counts == (Some(wanted), Some(1.0)))
        };
        stage.host.wait_for(&format!("a count of {wanted}"), SOON, holds)
    };
    count(1.0)?;
    cluster.config_map(namespace, "two")?;
    count(2.0)?;
    // Events about objects without a namespace are in the default one.
    stage.host.wait_for("the warning", SOON, || cluster.has_event("default", namespace, "QuotaExceeded"))?;
    // It says so when it warns, and as many as allowed are not too many.
    let mut said = loglines::said(&stage.host, "namespace-quota", "quota exceeded");
    said.retain(|line| line.field("namespace") == namespace);
    ensure!(!said.is_empty() && said.iter().all(|line| line.field("count") == "2"), "{said:?}");
    cluster.delete(CONFIG_MAP, namespace, "two")?;
    count(1.0)
}
