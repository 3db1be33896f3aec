//! Whose fault it is: a fault is blamed on its key, then on the plugin, and never on whoever only waited; a kind that is
//! missing keeps one plugin waiting; a version that faults is rolled back.
//!
//! Each test has a host and a namespace of its own. All guests are probes.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::loglines;
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{ControlPlane, Proxy, Stage, guests};
use serde_json::{Value, json};

pilothouse_tests::on_both_servers!(
    one_poisoned_key_holds_up_none_of_twenty_others,
    faults_of_many_keys_pause_the_plugin_until_one_key_is_answered,
    a_definition_that_comes_later_starts_its_plugin_and_the_host_is_ready_before,
    a_version_that_faults_is_rolled_back_under_churn_and_no_key_is_lost,
    a_server_that_hangs_is_blamed_on_no_plugin,
);

fn manifest(stage: &Stage, name: &str, mut config: Value) -> Manifest {
    config["namespaces"] = json!([stage.namespace]);
    Manifest::new(name).reads(&["configmaps", "secrets"], stage.namespace).config(config)
}

/// Installs a probe and waits until it runs.
fn install(stage: &Stage, name: &str, manifest: &Manifest) -> Result<()> {
    stage.host.install(name, &guests::wasm("probe")?, Some(&manifest.to_string()))?;
    plugins::wait_until(&stage.host, name, "running", |status| status.generation > 0).map(drop)
}

/// The names of the objects whose reconciles of a plugin ended well, from this generation on.
fn reconciled(stage: &Stage, plugin: &str, since: u64) -> BTreeSet<String> {
    let ends = loglines::said(&stage.host, plugin, "end").into_iter();
    let ends = ends.filter(|line| line.generation >= Some(since));
    ends.filter_map(|line| Some(line.key.split_once('/')?.1.to_owned())).collect()
}

fn one_poisoned_key_holds_up_none_of_twenty_others(server: Server) -> Result<()> {
    let stage = Stage::new(server, "poisoned-key")?;
    stage.cluster.config_map(stage.namespace, "bad")?;
    install(&stage, "probe", &manifest(&stage, "probe", json!({"mode": "trap", "onlyPrefix": "bad"})))?;
    // Nothing else is called: more faults in a row than a quarantine needs keys.
    stage
        .host
        .wait_for("many faults of one key", SOON, || loglines::faults(&stage.host, "probe").len() > 10)?;
    let names: BTreeSet<String> = (0..20).map(|n| format!("good-{n:02}")).collect();
    for round in 0..3 {
        for name in &names {
            match round {
                0 => stage.cluster.config_map(stage.namespace, name)?,
                _ => stage.cluster.change(stage.namespace, name, &round.to_string())?,
            };
        }
        stage.host.wait_for("all other keys to be reconciled", SOON, || {
            let done = loglines::said(&stage.host, "probe", "end");
            names.iter().all(|name| done.iter().filter(|line| line.key.ends_with(name)).count() > round)
        })?;
    }
    ensure!(loglines::plugin_events(&stage.host, "probe", "plugin_quarantined").is_empty());
    let status = plugins::status(&stage.host, "probe")?;
    ensure!(status.state == "running" && status.next_try.is_none(), "{status:?}");
    let quarantines =
        stage.host.metrics()?.sum("pilothouse_plugin_quarantines_total", &[("plugin", "probe")]);
    ensure!(quarantines == Some(0.0), "{quarantines:?}");
    Ok(())
}

fn faults_of_many_keys_pause_the_plugin_until_one_key_is_answered(server: Server) -> Result<()> {
    let stage = Stage::new(server, "half-open")?;
    for n in 0..5 {
        stage.cluster.config_map(stage.namespace, &format!("bad-{n}"))?;
    }
    let probe = json!({"mode": "trap", "onlyPrefix": "bad", "maxConcurrentReconciles": 4});
    install(&stage, "probe", &manifest(&stage, "probe", probe))?;
    let gauge = || {
        let metrics = stage.host.metrics()?;
        anyhow::Ok(metrics.sum("pilothouse_plugin_quarantined", &[("plugin", "probe")]))
    };
    let quarantined = plugins::wait_until(&stage.host, "probe", "in quarantine", |status| {
        status.state == "quarantined" && status.next_try.is_some()
    })?;
    ensure!(quarantined.last_error.is_some_and(|error| error.contains("trapped")));
    ensure!(gauge()? == Some(1.0), "{:?}", gauge()?);
    // One probe a pause, and each faults.
    let pauses = || loglines::plugin_events(&stage.host, "probe", "plugin_quarantined").len();
    stage.host.wait_for("probes", SOON, || pauses() >= 3)?;
    // Another key is answered; it waits for its turn behind the pause.
    for n in 0..5 {
        stage.cluster.delete("v1/ConfigMap", stage.namespace, &format!("bad-{n}"))?;
    }
    for n in 0..20 {
        stage.cluster.config_map(stage.namespace, &format!("good-{n}"))?;
    }
    let good = || reconciled(&stage, "probe", 1).iter().filter(|name| name.starts_with("good")).count();
    stage.host.wait_for("all good keys to be reconciled", SOON, || good() == 20)?;
    plugins::wait_until(&stage.host, "probe", "running", |status| status.state == "running")?;
    ensure!(gauge()? == Some(0.0), "{:?}", gauge()?);
    Ok(())
}

/// A definition of `gadgets` in a group of its own.
fn definition(group: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gadgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

fn a_definition_that_comes_later_starts_its_plugin_and_the_host_is_ready_before(
    server: Server,
) -> Result<()> {
    let stage = Stage::new(server, "late-kind")?;
    let group = "late-kind.example.com";
    stage.cluster.config_map(stage.namespace, "map")?;
    let rules = json!([{
        "groups": [group], "resources": ["gadgets"], "verbs": ["get", "list", "watch"], "namespaces": [stage.namespace],
    }]);
    let late =
        manifest(&stage, "late", json!({"kind": format!("{group}/v1/Gadget")})).with("permissions", rules);
    stage.host.install("late", &guests::wasm("probe")?, Some(&late.to_string()))?;
    install(&stage, "neighbour", &manifest(&stage, "neighbour", json!({})))?;
    let waiting = plugins::wait_until(&stage.host, "late", "waiting", |status| status.state == "waiting")?;
    ensure!(waiting.waiting_for.is_some_and(|reason| reason.contains("Gadget")), "{:?}", waiting.last_error);
    stage.host.wait_for("the host to be ready", SOON, || {
        stage.host.get("/readyz").map(|answer| answer.status == 200)
    })?;
    stage
        .host
        .wait_for("the neighbour to work", SOON, || reconciled(&stage, "neighbour", 1).contains("map"))?;
    // That the watch is what notices it, at once, is shown by `lifecycle::kinds` of the manager.
    let lists = || {
        let metrics = stage.host.metrics()?;
        anyhow::Ok(metrics.sum("reflector_watches_total", &[("resource", "customresourcedefinitions")]))
    };
    stage
        .host
        .wait_for("the watch on definitions", SOON, || anyhow::Ok(lists()?.is_some_and(|n| n > 0.0)))?;

    stage.cluster.create(&definition(group))?;
    plugins::wait_running(&stage.host, "late")?;
    ensure!(lists()?.is_none(), "nobody waits any more, and the watch goes on");
    stage.host.wait_for("a gadget to be reconciled", SOON, || {
        let gadget = json!({
            "apiVersion": format!("{group}/v1"), "kind": "Gadget",
            "metadata": {"name": "one", "namespace": stage.namespace},
        });
        // A real server serves it a moment after discovery shows it.
        let _ = stage.cluster.create(&gadget);
        reconciled(&stage, "late", 1).contains("one")
    })
}

fn a_version_that_faults_is_rolled_back_under_churn_and_no_key_is_lost(server: Server) -> Result<()> {
    let stage = Stage::new(server, "rolled-back")?;
    let names: Vec<String> = (0..10).map(|n| format!("map-{n}")).collect();
    for name in &names {
        stage.cluster.config_map(stage.namespace, name)?;
    }
    let good = manifest(&stage, "probe", json!({})).with("onReload", json!("keep"));
    install(&stage, "probe", &good)?;
    stage
        .host
        .wait_for("the good version to work", SOON, || reconciled(&stage, "probe", 1).len() >= names.len())?;

    // The permission to read Secrets goes with the bad version, and does not come back with the good one.
    let bad = Manifest::new("probe")
        .reads(&["configmaps"], stage.namespace)
        .config(json!({"mode": "trap", "namespaces": [stage.namespace]}))
        .with("onReload", json!("keep"))
        .limits(json!({"callTimeout": "7s"}));
    let bad_wasm = plugins::marked(&guests::wasm("probe")?, "bad")?;
    let file = stage.host.dir().join("bad.wasm");
    std::fs::write(&file, bad_wasm)?;
    stage.host.install("probe", &file, Some(&bad.to_string()))?;
    let mut value = 0;
    let mut changed = BTreeMap::new();
    let rolled = stage.host.wait_for("the rollback", SOON, || {
        // Changes come all the while.
        value += 1;
        for name in &names {
            changed.insert(name, Timestamp::now());
            stage.cluster.change(stage.namespace, name, &value.to_string())?;
        }
        let status = plugins::status(&stage.host, "probe")?;
        anyhow::Ok(status.rolled_back.is_some().then_some(status))
    })?;
    let rollback = rolled.rolled_back.context("no rollback")?;
    ensure!((rollback.from, rollback.to) == (2, 1), "{rollback:?}");
    ensure!(rolled.generation == 3 && rolled.digest != rollback.digest, "{:?}", rolled.digest);
    // The bad version ended no call, so each change was seen by a good one.
    stage.host.wait_for("each last change to be reconciled", SOON, || {
        let ends = loglines::said(&stage.host, "probe", "end");
        let seen = |(name, at): (&&String, &Timestamp)| {
            ends.iter().any(|line| line.key.ends_with(&format!("/{name}")) && line.timestamp >= *at)
        };
        changed.iter().all(seen)
    })?;
    let faulted = loglines::faults(&stage.host, "probe").into_iter();
    let faulted: BTreeSet<String> =
        faulted.filter_map(|line| Some(line.key.split_once('/')?.1.to_owned())).collect();
    ensure!(faulted.len() >= 3, "{faulted:?}");
    stage.host.wait_for("all keys that faulted to be reconciled by the restored version", SOON, || {
        faulted.is_subset(&reconciled(&stage, "probe", 3))
    })?;
    let lines = loglines::plugin_events(&stage.host, "probe", "plugin_rolled_back");
    ensure!(lines.len() == 1 && lines[0].generation == Some(3), "{lines:?}");
    let counted = stage.host.metrics()?.sum("pilothouse_plugin_rollbacks_total", &[("plugin", "probe")]);
    ensure!(counted == Some(1.0), "{counted:?}");
    let status = plugins::status(&stage.host, "probe")?;
    ensure!(status.state == "running" && status.generation == 3, "{status:?}");

    // A corrected file is tried again.
    stage.host.install_manifest("probe", &good.to_string())?;
    let corrected = plugins::wait_running(&stage.host, "probe")?;
    ensure!(corrected.generation == 4 && corrected.rolled_back.is_none(), "{corrected:?}");
    ensure!(corrected.digest == rollback.digest, "the file in the directory runs");
    Ok(())
}

fn a_server_that_hangs_is_blamed_on_no_plugin(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let proxy = Proxy::start(plane.address())?;
    let stage = Stage::with(plane, "hung-server", HostOptions::new(plane.kubeconfig_via(&proxy)?))?;
    for n in 0..6 {
        stage.cluster.config_map(stage.namespace, &format!("map-{n}"))?;
    }
    proxy.heal();
    let blocks = json!({
        "mode": "block", "targetKind": "v1/ConfigMap", "targetKey": "hung-server/map-0", "resync": "1s",
        "maxConcurrentReconciles": 6,
    });
    let limits = json!({"callTimeout": "1s", "shortestResync": "1s"});
    let names = ["one", "two", "three"];
    for name in names {
        let manifest = manifest(&stage, name, blocks.clone()).limits(limits.clone());
        install(&stage, name, &manifest)?;
        stage.host.wait_for("calls", SOON, || reconciled(&stage, name, 1).len() >= 6)?;
    }
    proxy.stall();
    for name in names {
        stage.host.wait_for("calls of several keys without an answer", SOON, || {
            let lines = loglines::plugin_events(&stage.host, name, "call_not_answered");
            lines.iter().map(|line| &line.key).collect::<BTreeSet<_>>().len() >= 6
        })?;
        let status = plugins::status(&stage.host, name)?;
        ensure!(status.state == "running" && status.last_error.is_none(), "{status:?}");
        ensure!(status.host_condition.is_some(), "{status:?}");
        ensure!(loglines::plugin_events(&stage.host, name, "plugin_quarantined").is_empty());
        ensure!(loglines::faults(&stage.host, name).is_empty());
    }
    proxy.heal();
    for name in names {
        plugins::wait_until(&stage.host, name, "well again", |status| {
            status.state == "running" && status.host_condition.is_none()
        })?;
    }
    Ok(())
}
