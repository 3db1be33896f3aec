//! The world `batch-reconciler`: keys are gathered by number and time, and each goes its own way after the call.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{Cluster, ControlPlane, Host, guests, loglines, rest};
use serde_json::{Value, json};

pilothouse_tests::on_both_servers!(
    keys_are_gathered_up_to_the_size_and_for_the_time,
    each_key_goes_its_own_way,
    a_key_that_makes_the_guest_trap_holds_up_no_other,
    a_plugin_comes_back_from_quarantine,
);

/// The batches so far: keys with their attempts, as `name:attempt`.
fn batches(host: &Host) -> Vec<Vec<String>> {
    let lines = loglines::said(host, "batch", "batch");
    let name = |key: &str| key.rsplit('/').next().unwrap_or_default().to_owned();
    lines.iter().map(|line| line.field("keys").split(' ').map(name).collect()).collect()
}

/// ConfigMaps that say what the guest is to do with them.
fn create(cluster: &Cluster, namespace: &str, maps: &[(&str, &str)]) -> Result<()> {
    for (name, what) in maps {
        cluster.create(&json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": namespace, "name": name}, "data": {"do": what},
        }))?;
    }
    Ok(())
}

/// A host with the plugin on these ConfigMaps of a namespace of its own: names and what to do.
fn start(plane: &ControlPlane, namespace: &str, maps: &[(&str, &str)], mut config: Value) -> Result<Host> {
    let cluster = Cluster::of(plane)?;
    cluster.namespace(namespace)?;
    create(&cluster, namespace, maps)?;
    config["namespaces"] = json!([namespace]);
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    let manifest = Manifest::new("batch").config(config).reads(&["configmaps"], namespace);
    host.install("batch", &guests::wasm("batch")?, Some(&manifest.to_string()))?;
    Ok(host)
}

fn keys_are_gathered_up_to_the_size_and_for_the_time(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let names: Vec<String> = (0..30).map(|number| format!("key-{number:02}")).collect();
    let maps: Vec<_> = names.iter().map(|name| (name.as_str(), "done")).collect();
    // The longest time there is: batches that are full do not wait for it, and the keys left over do.
    let host = start(plane, "gathered", &maps[..25], json!({"maxBatch": 10, "linger": "1m"}))?;
    host.wait_for("two full batches", SOON, || anyhow::Ok(batches(&host).len() >= 2))?;
    create(&Cluster::of(plane)?, "gathered", &maps[25..])?;
    host.wait_for("all keys", SOON, || anyhow::Ok(batches(&host).concat().len() >= names.len()))?;
    rest::wait_quiet(&host, "batch", SOON)?;
    let batches = batches(&host);
    let sizes: Vec<usize> = batches.iter().map(Vec::len).collect();
    ensure!(sizes == [10, 10, 10], "{sizes:?}");
    let seen: BTreeSet<String> = batches.concat().into_iter().collect();
    ensure!(seen == names.iter().map(|name| format!("{name}:0")).collect(), "{seen:?}");
    let metrics = host.metrics()?;
    let sum = |name: &str, labels: &[(&str, &str)]| metrics.sum(name, labels);
    let of_batch = ("controller", "batch");
    ensure!(sum("controller_runtime_reconcile_total", &[of_batch, ("result", "success")]) == Some(30.0));
    let calls = sum("controller_runtime_reconcile_time_seconds_count", &[of_batch]);
    ensure!(calls == Some(sizes.len() as f64), "{calls:?} {sizes:?}");
    Ok(())
}

fn each_key_goes_its_own_way(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let maps = [("fails", "fail"), ("final", "terminal"), ("fine", "done"), ("later", "later")];
    let host = start(plane, "own-ways", &maps, json!({"linger": "1s"}))?;
    let calls_of = |name: &str| {
        let wanted = format!("{name}:");
        batches(&host).concat().iter().filter(|key| key.starts_with(&wanted)).count()
    };
    host.wait_for("a failing key to be tried four times", SOON, || {
        anyhow::Ok(batches(&host).concat().contains(&"fails:3".to_owned()))
    })?;
    ensure!([calls_of("final"), calls_of("fine"), calls_of("later")] == [1, 1, 1], "{:?}", batches(&host));
    let metrics = host.metrics()?;
    let result = |result| {
        metrics.sum("controller_runtime_reconcile_total", &[("controller", "batch"), ("result", result)])
    };
    ensure!([result("success"), result("requeue_after")] == [Some(1.0), Some(1.0)]);
    let terminal =
        metrics.sum("controller_runtime_terminal_reconcile_errors_total", &[("controller", "batch")]);
    ensure!(terminal == Some(1.0), "{terminal:?}");
    let mut failed = loglines::plugin_events(&host, "batch", "reconcile_failed");
    failed.retain(|line| line.message.ends_with("told to fail for good"));
    ensure!(failed.len() == 1 && failed[0].key.ends_with("/final"), "{failed:?}");
    Ok(())
}

fn a_key_that_makes_the_guest_trap_holds_up_no_other(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let names: Vec<String> = (0..15).map(|number| format!("key-{number:02}")).collect();
    let mut maps: Vec<_> = names.iter().map(|name| (name.as_str(), "done")).collect();
    // Before all others, where most calls fault before one goes well.
    maps.extend([("a-first", "trap"), ("a-second", "trap"), ("poison", "trap")]);
    let host = start(plane, "poisoned", &maps, json!({"maxBatch": 18, "linger": "2s"}))?;
    let success = || {
        let metrics = host.metrics()?;
        let labels = [("controller", "batch"), ("result", "success")];
        anyhow::Ok(metrics.sum("controller_runtime_reconcile_total", &labels).unwrap_or_default())
    };
    host.wait_for("all other keys to be done", SOON, || anyhow::Ok(success()? == 15.0))?;
    // The metric may be read before the line of the log.
    host.wait_for("the line of the first batch", SOON, || anyhow::Ok(!batches(&host).is_empty()))?;
    ensure!(batches(&host)[0].len() > 1, "{:?}", batches(&host)[0]);
    let alone = |batch: &Vec<String>| matches!(batch.as_slice(), [key] if key.starts_with("poison:"));
    host.wait_for("the poison to be tried again, alone", SOON, || {
        anyhow::Ok(batches(&host).iter().filter(|batch| alone(batch)).count() >= 2)
    })?;
    ensure!(success()? == 15.0, "another key was called again");
    let status = plugins::status(&host, "batch")?;
    ensure!(status.last_error.as_ref().is_some_and(|error| error.contains("trapped")), "{status:?}");
    Ok(())
}

fn a_plugin_comes_back_from_quarantine(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let host = start(plane, "mended", &[("a", "trap"), ("b", "trap"), ("c", "trap")], json!({}))?;
    host.wait_for("the plugin to rest", SOON, || {
        anyhow::Ok(plugins::status(&host, "batch")?.state == "quarantined")
    })?;
    let cluster = Cluster::of(plane)?;
    for name in ["a", "b", "c"] {
        cluster.merge("v1/ConfigMap", "mended", name, &json!({"data": {"do": "done"}}))?;
    }
    host.wait_for("all keys to be done", SOON, || {
        let labels = [("controller", "batch"), ("result", "success")];
        let done = host.metrics()?.sum("controller_runtime_reconcile_total", &labels).unwrap_or_default();
        anyhow::Ok(done >= 3.0 && plugins::status(&host, "batch")?.state == "running")
    })?;
    Ok(())
}
