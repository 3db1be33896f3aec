//! The examples `sample-controller`, `configmap-replicator` and `namespace-quota`, each with its own manifest.

use std::fs;

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::paths;
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::{ControlPlane, Stage, cli, guests, loglines, plugins};
use serde_json::{Value, json};

pilothouse_tests::on_both_servers!(
    a_foo_has_a_deployment_until_it_goes,
    config_maps_are_copied_to_the_selected_namespaces,
    a_namespace_with_too_many_objects_is_warned_of,
);

const FOO: &str = "samplecontroller.example.com/v1alpha1/Foo";
const DEPLOYMENT: &str = "apps/v1/Deployment";
const CONFIG_MAP: &str = "v1/ConfigMap";

/// Installs an example as its README says, and waits until it runs.
fn install(stage: &Stage, example: &str) -> Result<()> {
    let manifest = paths::repository().join(format!("examples/{example}/{example}.yaml"));
    let manifest = fs::read_to_string(&manifest).with_context(|| manifest.display().to_string())?;
    stage.host.install(&example.replace('-', "_"), &guests::wasm(example)?, Some(&manifest))?;
    plugins::wait_running(&stage.host, example).map(drop)
}

/// Whether there is an Event with this reason about an object of this name.
fn has_event(stage: &Stage, namespace: &str, name: &str, reason: &str) -> Result<bool> {
    let events = stage.cluster.list("v1/Event", namespace)?;
    Ok(events.iter().any(|event| event["involvedObject"]["name"] == name && event["reason"] == reason))
}

fn a_foo_has_a_deployment_until_it_goes(server: Server) -> Result<()> {
    let stage = Stage::new(server, "sample-controller")?;
    let (cluster, namespace) = (&stage.cluster, stage.namespace);
    let wasm = guests::wasm("sample-controller")?;
    let dir = tempfile::tempdir()?;
    let printed = cli::run(dir.path(), &["crd".as_ref(), wasm.as_os_str()])?;
    ensure!(printed.status.success(), "{printed:?}");
    let plane = ControlPlane::shared(server)?;
    plane.kubectl_with(&["create", "-f", "-"], &printed.stdout)?;
    let name = "foos.samplecontroller.example.com";
    plane.kubectl(&["wait", "crd", name, "--for=condition=Established", "--timeout=60s"])?;
    install(&stage, "sample-controller")?;

    let taken = json!({
        "replicas": 1, "selector": {"matchLabels": {"app": "taken"}},
        "template": {
            "metadata": {"labels": {"app": "taken"}},
            "spec": {"containers": [{"name": "main", "image": "none"}]},
        },
    });
    let metadata = json!({"namespace": namespace, "name": "taken"});
    let taken = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": taken});
    cluster.create(&taken)?;
    let make = |name: &str, spec: Value| {
        cluster.create(&json!({
            "apiVersion": "samplecontroller.example.com/v1alpha1", "kind": "Foo",
            "metadata": {"namespace": namespace, "name": name}, "spec": spec,
        }))
    };
    ensure!(
        make("many", json!({"deploymentName": "web", "replicas": 11})).is_err(),
        "the schema is not applied"
    );
    ensure!(make("unnamed", json!({})).is_err(), "the schema is not applied");
    let example = make("example", json!({"deploymentName": "web"}))?;
    ensure!(example["spec"]["replicas"] == 1, "the default of the schema: {example}");
    make("late", json!({"deploymentName": "taken", "replicas": 3}))?;

    let deployment =
        |name: &str| Ok::<_, anyhow::Error>(cluster.get(DEPLOYMENT, namespace, name)?.unwrap_or_default());
    let has = |pointer: &'static str, value: Value| {
        move |object: &Value| object.pointer(pointer).is_some_and(|found| *found == value)
    };
    let wait = |what: &str, holds: &dyn Fn() -> Result<bool>| stage.host.wait_for(what, SOON, holds);
    wait("the Deployment", &|| {
        let owned = has("/metadata/ownerReferences/0/name", json!("example"));
        Ok(owned(&deployment("web")?) && has_event(&stage, namespace, "example", "Synced")?)
    })?;
    wait("word of the name that is taken", &|| has_event(&stage, namespace, "late", "ErrResourceExists"))?;
    let untouched = deployment("taken")?;
    ensure!(untouched["spec"]["replicas"] == 1 && untouched["metadata"].get("ownerReferences").is_none());

    let status = json!({"status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}});
    cluster.merge_status(DEPLOYMENT, namespace, "web", &status)?;
    wait("the status of the Foo", &|| {
        let found = cluster.get(FOO, namespace, "example")?.unwrap_or_default();
        let is_ready = has("/status/conditions/0/status", json!("True"));
        Ok(found["status"]["availableReplicas"] == 1 && is_ready(&found))
    })?;
    cluster.merge(DEPLOYMENT, namespace, "web", &json!({"spec": {"replicas": 5}}))?;
    wait("the number to be corrected", &|| {
        let found = deployment("web")?;
        Ok(found["spec"]["replicas"] == 1 && found["metadata"]["generation"] == 3)
    })?;
    cluster.merge(FOO, namespace, "example", &json!({"spec": {"replicas": 2}}))?;
    wait("the Deployment to follow", &|| Ok(deployment("web")?["spec"]["replicas"] == 2))?;

    // Nobody collects garbage on the real server: the plugin itself deletes the Deployment.
    cluster.delete(FOO, namespace, "example")?;
    wait("the end of the Foo", &|| Ok(cluster.get(FOO, namespace, "example")?.is_none()))?;
    ensure!(cluster.get(DEPLOYMENT, namespace, "web")?.is_none(), "the Deployment goes first");
    cluster.delete(FOO, namespace, "late")?;
    wait("the end of the other Foo", &|| Ok(cluster.get(FOO, namespace, "late")?.is_none()))?;
    ensure!(cluster.get(DEPLOYMENT, namespace, "taken")?.is_some(), "it belongs to somebody else");
    Ok(())
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
    stage.host.wait_for("the warning", SOON, || has_event(&stage, "default", namespace, "QuotaExceeded"))?;
    // It says so when it warns, and as many as allowed are not too many.
    let mut said = loglines::said(&stage.host, "namespace-quota", "quota exceeded");
    said.retain(|line| line.field("namespace") == namespace);
    ensure!(!said.is_empty() && said.iter().all(|line| line.field("count") == "2"), "{said:?}");
    cluster.delete(CONFIG_MAP, namespace, "two")?;
    count(1.0)
}
