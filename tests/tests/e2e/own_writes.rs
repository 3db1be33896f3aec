//! Reads after writes: a plugin's next call sees in the cache what the plugin has written, however late watches are; and a
//! watch that says nothing holds it up for a second only.
//!
//! The development server sends the events of its watches late, so that every read would be wrong if it were not waited for.

use std::time::Duration;

use anyhow::{Context, Result};
use pilothouse_devserver::{Fault, FaultRule, When};
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::loglines::{self, Line};
use pilothouse_tests::plugins::Manifest;
use pilothouse_tests::{Cluster, ControlPlane, Host, Stage, guests};
use serde_json::json;

pilothouse_tests::on_both_servers!(
    a_reconcile_reads_what_the_one_before_it_wrote,
    a_guest_waits_for_its_own_writes_within_a_call,
);

/// How late the events of a watch are: long enough to be missed by a reconcile that begins at once.
const LAG: Duration = Duration::from_millis(200);

const PLUGIN: [(&str, &str); 1] = [("plugin", "own-writes")];

/// Starts the guest with ConfigMaps of these names, in a namespace whose watches have this fault on the development server.
fn stage(
    server: Server,
    namespace: &'static str,
    maps: &[&str],
    fault: Fault,
    config: serde_json::Value,
) -> Result<Stage> {
    let plane = ControlPlane::shared(server)?;
    if let Some(development) = plane.development() {
        let mut rules = vec![FaultRule::on("watch", "configmaps", fault)];
        if matches!(rules[0].fault, Fault::Silent) {
            // A streaming list would be silent as well: refused, it gives way to a list, and the watch behind it is silent.
            let refusal = Fault::Status { code: 422, retry_after: None };
            rules.insert(0, FaultRule::on("watch", "configmaps", refusal).when(When::first(1)));
        }
        for rule in rules {
            development.faults().add(FaultRule { namespace: Some(namespace.to_owned()), ..rule });
        }
    }
    let stage = Stage::new(server, namespace)?;
    for map in maps {
        stage.cluster.config_map(namespace, map)?;
    }
    let verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
    let mut settings = json!({"namespace": namespace, "steps": 0, "milliseconds": 2000});
    settings.as_object_mut().context("an object")?.extend(config.as_object().cloned().unwrap_or_default());
    let manifest = Manifest::new("own-writes").grant(&["configmaps"], &verbs, &[namespace]).config(settings);
    stage.install("own-writes", "own-writes", &manifest)?;
    Ok(stage)
}

/// What the guest read, once it has done so often enough.
fn reads(stage: &Stage, count: usize) -> Result<Vec<Line>> {
    stage.host.wait_for(&format!("{count} reads"), SOON, || {
        let reads = loglines::said(&stage.host, "own-writes", "read");
        (reads.len() >= count).then_some(reads)
    })
}

/// Seconds from the write of each step to the reconcile that read it.
fn delays(stage: &Stage, reads: &[Line]) -> Result<Vec<f64>> {
    let wrote = loglines::said(&stage.host, "own-writes", "wrote");
    reads
        .iter()
        .map(|read| {
            let write = wrote.iter().find(|line| line.field("when") == read.field("when"));
            Ok(read.seconds_since(write.with_context(|| format!("read before it was written: {read:?}"))?))
        })
        .collect()
}

fn metric(stage: &Stage, name: &str) -> Result<f64> {
    stage.host.metrics()?.sum(name, &PLUGIN).with_context(|| format!("no {name}"))
}

fn a_reconcile_reads_what_the_one_before_it_wrote(server: Server) -> Result<()> {
    // Twice each kind of write.
    const STEPS: usize = 14;

    let lag = Fault::Lag { milliseconds: LAG.as_millis().try_into()? };
    let stage = stage(server, "reads-own", &["steps"], lag, json!({"steps": STEPS}))?;
    let reads = reads(&stage, STEPS)?;
    let wrong: Vec<&Line> = reads.iter().filter(|read| read.field("right") != "true").collect();
    assert!(
        wrong.is_empty(),
        "{} of {} reads are from before the write: {wrong:#?}",
        wrong.len(),
        reads.len()
    );
    assert_eq!(metric(&stage, "pilothouse_reads_after_writes_timeouts_total")?, 0.0);
    if server == Server::Development {
        let waits = metric(&stage, "pilothouse_reads_after_writes_wait_seconds_count")?;
        assert_eq!(waits, STEPS as f64, "each write is waited for once");
    }
    Ok(())
}

fn a_guest_waits_for_its_own_writes_within_a_call(server: Server) -> Result<()> {
    let lag = Fault::Lag { milliseconds: LAG.as_millis().try_into()? };
    let stage = stage(server, "waits-own", &["handler"], lag, json!({}))?;
    let reads = reads(&stage, 2)?;
    let told: Vec<_> = reads.iter().map(|read| (read.field("when"), read.field("right"))).collect();
    assert_eq!(told[1], ("seen", "true"), "{reads:#?}");
    if server == Server::Development {
        assert_eq!(told[0], ("at once", "false"), "the watch was not late, so this shows nothing");
        let waited = reads[1].seconds_since(&reads[0]);
        assert!(waited >= LAG.as_secs_f64() * 0.8, "waited for {waited} s");
    }
    Ok(())
}

#[test]
fn a_silent_watch_holds_a_reconcile_up_for_a_second_and_is_counted() -> Result<()> {
    const STEPS: usize = 3;

    let stage = stage(Server::Development, "silent-own", &["steps"], Fault::Silent, json!({"steps": STEPS}))?;
    let reads = reads(&stage, STEPS)?;
    // The cache shows no object at all, which is wrong after each of these steps.
    assert!(reads.iter().all(|read| read.field("right") == "false"), "{reads:#?}");
    let delays = delays(&stage, &reads)?;
    assert!(delays.iter().all(|delay| *delay >= 0.99), "held up for {delays:?} s");
    assert_eq!(metric(&stage, "pilothouse_reads_after_writes_timeouts_total")?, STEPS as f64);
    assert_eq!(metric(&stage, "pilothouse_reads_after_writes_wait_seconds_count")?, STEPS as f64);
    Ok(())
}

#[test]
fn a_guest_that_waits_on_a_silent_watch_is_told_so_when_its_time_is_over() -> Result<()> {
    let config = json!({"milliseconds": 300});
    let stage = stage(Server::Development, "silent-call", &["handler"], Fault::Silent, config)?;
    let reads = reads(&stage, 2)?;
    assert_eq!((reads[1].field("when"), reads[1].field("right")), ("not seen", "false"), "{reads:#?}");
    let waited = reads[1].seconds_since(&reads[0]);
    assert!(waited >= 0.29, "waited for {waited} s");
    Ok(())
}

#[test]
fn a_write_that_outlives_its_call_is_waited_for_too() -> Result<()> {
    let namespace = "cut-own";
    let plane = ControlPlane::shared(Server::Development)?;
    let development = plane.development().context("it is the development server")?;
    let lag = Fault::Lag { milliseconds: 1500 };
    for (verb, fault) in [("watch", lag), ("patch", Fault::Delay { milliseconds: 700 })] {
        let rule = FaultRule::on(verb, "configmaps", fault);
        development.faults().add(FaultRule { namespace: Some(namespace.to_owned()), ..rule });
    }
    let cluster = Cluster::of(plane)?;
    cluster.namespace(namespace)?;
    cluster.config_map(namespace, "target")?;
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    let target = format!("{namespace}/target");
    let config = json!({
        "mode": "write", "namespaces": [namespace], "targetKind": "v1/ConfigMap", "targetKey": target,
    });
    let manifest = Manifest::new("probe")
        .grant(&["configmaps"], &["get", "list", "watch", "patch"], &[namespace])
        .config(config)
        .limits(json!({"callTimeout": "500ms"}));
    host.install("probe", &guests::wasm("probe")?, Some(&manifest.to_string()))?;

    // Each call is cut before its write is answered, so nothing but such a write can be what a reconcile waits for.
    host.wait_for("a reconcile to wait for a write", SOON, || {
        let waits =
            host.metrics()?.sum("pilothouse_reads_after_writes_wait_seconds_count", &[("plugin", "probe")]);
        anyhow::Ok(waits.is_some_and(|waits| waits >= 1.0))
    })?;
    assert!(!loglines::events(&host, "write_outlived_call").is_empty());
    assert_eq!(loglines::said(&host, "probe", "end"), [], "a call that was not cut");
    Ok(())
}
