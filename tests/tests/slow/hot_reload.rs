//! Hot reload: a new generation takes over between two calls, and nothing is lost, doubled or mixed up by it.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use pilothouse_client::{Api, Patch, WriteParams};
use pilothouse_tests::calls::{Call, CallLog};
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::fleet::{self, Fleet};
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::load::Load;
use pilothouse_tests::loglines::{self, Line};
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{Cluster, ControlPlane, Host, full, guests, rest};
use serde_json::json;

pilothouse_tests::on_both_servers!(
    twenty_reloads_under_churn_lose_nothing_and_double_nothing,
    a_key_in_backoff_is_tried_at_once_by_the_new_generation,
    a_key_that_asked_to_come_later_keeps_its_time,
);

const RELOADS: u64 = 20;
const NODES: usize = 5;
const PODS: usize = 100;
/// ConfigMaps that the probe looks at.
const KEYS: usize = 30;
/// How long each call of the probe takes, in milliseconds. With [`PACE`] changes a second some three calls are under way
/// at any time, so that nearly every switch meets some.
const CALL: u64 = 100;
/// Changes of pods a second, and as many of ConfigMaps.
const PACE: u32 = 30;
/// Changes of each kind between one reload and the next.
const BETWEEN: u64 = 15;

const REST: Duration = Duration::from_secs(60);

/// The lines that say that a generation of a plugin has taken over.
fn switches(host: &Host, plugin: &str) -> Vec<Line> {
    loglines::plugin_events(host, plugin, "plugin_running")
}

/// Two components that do the same and have different bytes, in a folder of their own.
fn two_builds(host: &Host, guest: &str) -> Result<[PathBuf; 2]> {
    let original = guests::wasm(guest)?;
    let paths = ["even", "odd"].map(|mark| host.dir().join(format!("{guest}-{mark}.wasm")));
    for (path, mark) in paths.iter().zip(["even", "odd"]) {
        fs::write(path, plugins::marked(&original, mark)?)?;
    }
    Ok(paths)
}

fn probe(milliseconds: u64) -> String {
    let config = json!({
        "mode": "sleep", "milliseconds": milliseconds, "namespaces": ["probed"], "maxConcurrentReconciles": 4,
    });
    Manifest::new("probe").config(config).reads(&["configmaps"], "probed").to_string()
}

fn name_of(key: u64) -> String {
    format!("key-{}", key % KEYS as u64)
}

fn twenty_reloads_under_churn_lose_nothing_and_double_nothing(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let (fleet, cluster) = (Fleet::new(plane, "fleet")?, Cluster::of(plane)?);
    let nodes: Vec<String> = (0..NODES).map(|number| format!("node-{number}")).collect();
    for node in &nodes {
        fleet.add_node(node)?;
    }
    fleet.add_pods("pod", PODS, &nodes)?;
    cluster.namespace("probed")?;
    for key in 0..KEYS as u64 {
        cluster.config_map("probed", &name_of(key))?;
    }

    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    let (counters, probes) = (two_builds(&host, fleet::PLUGIN)?, two_builds(&host, "probe")?);
    host.install(fleet::PLUGIN, &counters[1], Some(&fleet.manifest()))?;
    host.install("probe", &probes[1], Some(&probe(CALL)))?;
    for plugin in [fleet::PLUGIN, "probe"] {
        plugins::wait_running(&host, plugin)?;
    }

    let churn = fleet.churn(PACE, full::seed(2)?, &nodes)?;
    let maps: Api<ConfigMap> = Api::namespaced(fleet.client(), "probed");
    let touches = Load::start(fleet.runtime(), PACE, move |number| {
        let (maps, patch) = (maps.clone(), json!({"data": {"value": number.to_string()}}).to_string());
        async move {
            let patch = Patch::Merge(patch.as_bytes());
            Ok(maps.patch(&name_of(number), patch, &WriteParams::default()).await.map(drop)?)
        }
    });
    for generation in 2..=RELOADS + 1 {
        churn.wait_begun(churn.begun() + BETWEEN, REST)?;
        touches.wait_begun(touches.begun() + BETWEEN, REST)?;
        let build = (generation % 2) as usize;
        host.install(fleet::PLUGIN, &counters[build], None)?;
        // Every fourth time only the configuration changes.
        if generation % 4 == 0 {
            host.install_manifest("probe", &probe(CALL + generation))?;
        } else {
            let before = plugins::status(&host, "probe")?.digest;
            let turned = if before.ends_with(&digest(&probes[0])?) { &probes[1] } else { &probes[0] };
            host.install("probe", turned, None)?;
        }
        for plugin in [fleet::PLUGIN, "probe"] {
            plugins::wait_until(&host, plugin, &format!("on generation {generation}"), |status| {
                status.generation == generation && status.state == "running"
            })?;
        }
    }
    let last = RELOADS + 1;
    let (churned, touched) = (churn.stop(), touches.stop());
    for tally in [&churned.tally, &touched] {
        ensure!(tally.failed == 0, "the load itself failed: {:?}", tally.first_failure);
    }
    let settled = fleet.settle(&host, REST)?;
    let calls = rest::wait_quiet(&host, "probe", REST)?;
    eprintln!(
        "{RELOADS} reloads in {:?}, {} changes of pods and {} of ConfigMaps; right after {:?}; {} reconciles of {}, {calls} of probe",
        churned.tally.elapsed,
        churned.tally.done,
        touched.done,
        settled.after,
        settled.reconciles,
        fleet::PLUGIN
    );

    // Numbers rise by one at each switch, without one left out or one after the last.
    for plugin in [fleet::PLUGIN, "probe"] {
        let numbers: Vec<_> =
            switches(&host, plugin).iter().map(|line| line.generation.unwrap_or(0)).collect();
        ensure!(numbers == (1..=last).collect::<Vec<_>>(), "{plugin} had the generations {numbers:?}");
    }

    // The last generation has seen every key once, whoever did what before.
    let log = CallLog::of(&host, "probe")?;
    log.check()?;
    ensure!(log.calls.len() as u64 == calls, "{} calls in the log, {calls} in the metrics", log.calls.len());
    let all: BTreeSet<String> = (0..KEYS as u64).map(|key| format!("probed/{}", name_of(key))).collect();
    let seen: BTreeSet<String> = log.on(last).map(|call| call.key.clone()).collect();
    ensure!(seen == all, "the last generation has not seen {:?}", all.difference(&seen).collect::<Vec<_>>());

    // The switches did meet calls in flight, or the above would prove little.
    let across = switches(&host, "probe").into_iter().filter(|switch| {
        let of_the_old = |call: &&Call| Some(call.generation) < switch.generation;
        log.calls.iter().filter(of_the_old).any(|call| call.ended > Some(switch.timestamp))
    });
    let across = across.count();
    eprintln!("{across} of {RELOADS} switches met calls in flight");
    ensure!(across as u64 >= RELOADS / 2, "only {across} of {RELOADS} switches met calls in flight");

    // What is touched now goes to the last generation.
    for key in 0..KEYS as u64 {
        cluster.change("probed", &name_of(key), "touched after the last reload")?;
    }
    host.wait_for("each key to be reconciled by the last generation", REST, || {
        let later = CallLog::of(&host, "probe")?.calls.split_off(log.calls.len());
        let keys: BTreeSet<String> = later.iter().map(|call| call.key.clone()).collect();
        anyhow::Ok(
            keys == all && later.iter().all(|call| call.generation == last && call.reasons == ["updated"]),
        )
    })
}

/// The hexadecimal SHA-256 of a file.
fn digest(path: &PathBuf) -> Result<String> {
    use sha2::{Digest, Sha256};
    Ok(Sha256::digest(fs::read(path)?).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A probe on the one ConfigMap of a namespace of its own. Its keys are not enqueued by a reload, so that what is tried
/// after one is tried for another reason.
fn lonely(plane: &ControlPlane, host: &Host, name: &str, config: serde_json::Value) -> Result<()> {
    let cluster = Cluster::of(plane)?;
    cluster.namespace(name)?;
    cluster.config_map(name, "only")?;
    host.install(name, &guests::wasm("probe")?, Some(&lonely_manifest(name, config)))
}

fn lonely_manifest(name: &str, mut config: serde_json::Value) -> String {
    config["namespaces"] = json!([name]);
    Manifest::new(name)
        .config(config)
        .reads(&["configmaps"], name)
        .with("onReload", json!("keep"))
        .to_string()
}

/// Seconds until the next try, as a failure's line has it.
fn retry_in(line: &Line) -> Option<f64> {
    let text = line.more.get("retry_in")?.as_str()?;
    // As `Duration` shows itself; what is below a second does not matter here.
    text.strip_suffix('s')?.parse().ok()
}

fn a_key_in_backoff_is_tried_at_once_by_the_new_generation(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    // One in a backoff that has grown, one that asked for a long wait itself.
    let cases = [
        ("growing", json!({"mode": "fail"}), 10.0),
        ("asking", json!({"mode": "fail", "delay": "1h"}), 3600.0),
    ];
    for (name, config, _) in &cases {
        lonely(plane, &host, name, config.clone())?;
    }
    for (name, config, long) in &cases {
        let failed = |line: &Line| retry_in(line) >= Some(*long);
        let failure = host.wait_for(&format!("the key of {name} to be in a long backoff"), REST, || {
            loglines::plugin_events(&host, name, "reconcile_failed").into_iter().find(failed)
        })?;
        let wait = retry_in(&failure).context("its delay")?;

        let mut changed = config.clone();
        changed["milliseconds"] = json!(1);
        host.install_manifest(name, &lonely_manifest(name, changed))?;
        let call = host.wait_for(&format!("a call of the new generation of {name}"), REST, || {
            CallLog::of(&host, name).map(|log| log.on(2).next().cloned())
        })?;
        let since = call.began.duration_since(failure.timestamp).as_secs_f64();
        eprintln!("{name}: tried {since:.1} s after a failure with a backoff of {wait} s");
        ensure!(since < wait, "{name}: {since} s after the failure its backoff of {wait} s was over anyway");
        ensure!(call.attempt == 0, "{name}: its failures were not forgotten: {call:?}");
        ensure!(call.reasons == ["requeued"], "{name}: it came for another reason: {call:?}");
    }
    Ok(())
}

fn a_key_that_asked_to_come_later_keeps_its_time(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    let config = json!({"mode": "requeue-after", "delay": "1h"});
    lonely(plane, &host, "later", config.clone())?;
    let delayed = || anyhow::Ok(host.metrics()?.sum("workqueue_delayed", &[("name", "later")]) == Some(1.0));
    host.wait_for("the key to be delayed", REST, delayed)?;

    let mut changed = config;
    changed["milliseconds"] = json!(1);
    host.install_manifest("later", &lonely_manifest("later", changed))?;
    plugins::wait_until(&host, "later", "on generation 2", |status| status.generation == 2)?;
    // Keys come out in the order in which they go in: had the switch let it go, it would have come before this one.
    Cluster::of(plane)?.config_map("later", "marker")?;
    let log = host.wait_for("a call for another key", REST, || {
        let log = CallLog::of(&host, "later")?;
        let marked = log.on(2).any(|call| call.key == "later/marker");
        anyhow::Ok(marked.then_some(log))
    })?;
    let early: Vec<_> = log.on(2).filter(|call| call.key == "later/only").collect();
    ensure!(early.is_empty(), "it was called before its time: {early:?}");
    Ok(())
}
