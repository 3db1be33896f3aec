//! Several clusters: a plugin runs once in each of its clusters, reads and writes there, and a cluster that is away holds up its
//! own run and nothing else. A run accesses other clusters with live calls, as the manifest says for each.

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::{Options, Server};
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{Cluster, ControlPlane, Host, Signal, guests, loglines};
use serde_json::{Value, json};

const NAMESPACE: &str = "clusters";

/// The probe in both clusters. It writes to an object that is called after the cluster of its run, and exists there alone.
fn install(host: &Host) -> Result<()> {
    let manifest = Manifest::new("probe")
        .with("clusters", json!(["home", "east"]))
        .reads(&["configmaps"], NAMESPACE)
        .grant(&["configmaps"], &["patch"], &[NAMESPACE])
        .config(json!({
            "mode": "write", "namespaces": [NAMESPACE], "onlyPrefix": "go", "targetKind": "v1/ConfigMap",
            "targetKey": format!("{NAMESPACE}/target-$(cluster)"),
        }));
    host.install("probe", &guests::wasm("probe")?, Some(&manifest.to_string()))
}

/// The objects of a cluster with the target of the run there.
fn objects(plane: &ControlPlane, name: &str) -> Result<Cluster> {
    let cluster = Cluster::of(plane)?;
    cluster.namespace(NAMESPACE)?;
    cluster.config_map(NAMESPACE, &format!("target-{name}"))?;
    Ok(cluster)
}

/// A host at home that knows the other cluster as `east`.
fn options(home: &ControlPlane, east: &ControlPlane) -> HostOptions {
    let kubeconfig = east.kubeconfig().display().to_string();
    let args = ["--clusters", "east=pilothouse-dev", "--clusters-kubeconfig", &kubeconfig];
    HostOptions { args: args.map(str::to_owned).into(), ..HostOptions::new(home.kubeconfig()) }
}

/// Waits until a run has ended a call for this object.
fn wait_called(host: &Host, run: &str, name: &str) -> Result<()> {
    let key = format!("{NAMESPACE}/{name}");
    host.wait_for(&format!("{run} to be called for {key}"), SOON, || {
        loglines::said(host, run, "end").iter().any(|line| line.key == key)
    })
}

/// Waits until the run in this cluster has written there.
fn wait_written(host: &Host, cluster: &Cluster, name: &str) -> Result<()> {
    host.wait_for(&format!("a write in {name}"), SOON, || {
        let target = cluster.get("v1/ConfigMap", NAMESPACE, &format!("target-{name}"))?;
        anyhow::Ok(target.context("there is no target")?["metadata"]["labels"]["probe"] == "was-here")
    })
}

/// Waits until the host shows that the other cluster answers, or does not.
fn wait_up(host: &Host, is_up: bool) -> Result<()> {
    host.wait_for(&format!("east to be shown as up: {is_up}"), SOON, || {
        let east = host.plugins()?["clusters"][0].clone();
        ensure!(east["name"] == "east" && (east["error"] == Value::Null) == is_up, "{east}");
        let up = host.metrics()?.sum("pilothouse_cluster_up", &[("cluster", "east")]);
        anyhow::Ok(up == Some(f64::from(u8::from(is_up))))
    })
}

fn wait_ready(host: &Host) -> Result<()> {
    host.wait_for("the host to be ready", SOON, || host.get("/readyz").map(|answer| answer.status == 200))
}

#[test]
fn a_run_reads_and_writes_its_cluster_and_one_that_is_away_holds_up_its_own_run_only() -> Result<()> {
    Server::Development.test(|server| {
        let [home, east] = [(); 2].map(|()| ControlPlane::start(Options::on(server)));
        let (home, east) = (home?, east?);
        let (at_home, in_east) = (objects(&home, "home")?, objects(&east, "east")?);
        let options = options(&home, &east);
        let host = Host::start(options.clone())?;
        install(&host)?;
        for run in ["probe", "probe@east"] {
            plugins::wait_running(&host, run)?;
        }
        at_home.config_map(NAMESPACE, "go-home")?;
        in_east.config_map(NAMESPACE, "go-east")?;
        wait_written(&host, &at_home, "home")?;
        wait_written(&host, &in_east, "east")?;
        wait_called(&host, "probe", "go-home")?;
        wait_called(&host, "probe@east", "go-east")?;
        wait_up(&host, true)?;

        east.stop_apiserver(Signal::KILL)?;
        wait_up(&host, false)?;
        let failed = || loglines::events(&host, "watch_failed");
        host.wait_for("a line of an informer of east", SOON, || !failed().is_empty())?;
        let is_of_east = |line: &loglines::Line| line.more.get("cluster") == Some(&json!("east"));
        ensure!(failed().iter().all(is_of_east), "{:?}", failed());
        at_home.config_map(NAMESPACE, "go-on")?;
        wait_called(&host, "probe", "go-on")?;
        wait_ready(&host)?;
        // A host that starts meanwhile.
        let late = Host::start(options)?;
        install(&late)?;
        plugins::wait_running(&late, "probe")?;
        wait_ready(&late)?;
        ensure!(plugins::status(&late, "probe@east")?.state == "loading");

        east.start_apiserver()?;
        in_east.config_map(NAMESPACE, "go-back")?;
        for host in [&host, &late] {
            wait_called(host, "probe@east", "go-back")?;
            wait_up(host, true)?;
        }
        // Each run was called for something that came after these.
        for (run, foreign) in [("probe", "go-east"), ("probe@east", "go-home"), ("probe@east", "go-on")] {
            let calls = loglines::said(&host, run, "begin");
            ensure!(calls.iter().all(|line| !line.key.ends_with(foreign)), "{run} was called for {foreign}");
        }
        Ok(())
    })
}

/// The probe at home, which writes to an object that exists in east alone. It has these verbs there.
fn install_remote(host: &Host, verbs: &[&str]) -> Result<()> {
    let rule =
        json!({"groups": [""], "resources": ["configmaps"], "verbs": verbs, "namespaces": [NAMESPACE]});
    let manifest = Manifest::new("probe")
        .with("remoteClusters", json!([{"clusters": ["east"], "permissions": [rule]}]))
        .reads(&["configmaps"], NAMESPACE)
        .grant(&["configmaps"], &["patch"], &[NAMESPACE])
        .config(json!({
            "mode": "write", "namespaces": [NAMESPACE], "onlyPrefix": "go", "targetKind": "v1/ConfigMap",
            "targetKey": format!("{NAMESPACE}/target-east"), "remoteCluster": "east",
        }));
    host.install("probe", &guests::wasm("probe")?, Some(&manifest.to_string()))
}

/// Waits until a call of the probe has failed with these words.
fn wait_failed(host: &Host, words: &str) -> Result<()> {
    host.wait_for(&format!("an error with {words:?}"), SOON, || {
        let detail: Value = serde_json::from_str(&host.get("/plugins/probe")?.ok()?)?;
        let errors = detail["errors"].as_array().context("errors")?;
        let mut messages = errors.iter().filter_map(|error| error["message"].as_str());
        anyhow::Ok(messages.any(|message| message.contains(words)))
    })
}

#[test]
fn a_run_writes_to_a_remote_cluster_what_the_manifest_grants_there() -> Result<()> {
    Server::Development.test(|server| {
        let [home, east] = [(); 2].map(|()| ControlPlane::start(Options::on(server)));
        let (home, east) = (home?, east?);
        let (at_home, in_east) = (objects(&home, "home")?, objects(&east, "east")?);
        let host = Host::start(options(&home, &east))?;
        install_remote(&host, &["get"])?;
        plugins::wait_running(&host, "probe")?;
        at_home.config_map(NAMESPACE, "go-1")?;
        // What the manifest grants at home does not hold there.
        wait_failed(&host, "permissions of cluster \"east\" in spec.remoteClusters")?;

        // A new generation reconciles every key again.
        install_remote(&host, &["patch"])?;
        wait_written(&host, &in_east, "east")?;
        ensure!(plugins::status(&host, "probe@east").is_err(), "it runs at home alone");

        east.stop_apiserver(Signal::KILL)?;
        at_home.config_map(NAMESPACE, "go-2")?;
        wait_failed(&host, "cluster \"east\": the API server refuses connections")?;
        wait_ready(&host)?;
        wait_up(&host, false)
    })
}
