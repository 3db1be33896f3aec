//! Start to ready of a host whose 100 plugins were compiled before: the time from the start of the process until `/readyz` answers
//! 200, and the largest resident set until each plugin has reconciled each pod.
//!
//! The time has up to 20 ms of the bench in it, which asks so often.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, ensure};
use pilothouse_bench::usage::kilobytes_of;
use pilothouse_bench::{Better, ReplayServer, Report, is_small, quantile};
use pilothouse_tests::controlplane::Options;
use pilothouse_tests::go_program::CONTROLPLANE;
use pilothouse_tests::{Cluster, ControlPlane, Host};
use serde_json::{Value, json};

use crate::{PATIENCE, ours};

const PLUGINS: usize = 100;

/// Starts behind each figure; `--small` shows with two that the bench works.
fn starts() -> usize {
    if is_small() { 2 } else { 10 }
}

/// The longest time until a host should be ready, in seconds.
const READY: f64 = 2.0;

/// The largest resident set that a host with 10,000 pods should have, in MiB.
const PEAK: f64 = 230.0;

/// Where the pods of the real server are.
const NAMESPACE: &str = "fleet-start";

/// Variables of a pod of the real server, which make most of its size.
const VARIABLES: usize = 48;

/// Starts hosts on the replay server and on the real kube-apiserver, with so many pods.
pub(crate) fn measure(report: &mut Report, pods: usize) -> anyhow::Result<()> {
    let on = |server: &str| format!("{PLUGINS} plugins, {pods} pods on {server}");
    let server = ReplayServer::start(pods)?;
    let folder = ours::compiled(&server.kubeconfig(), PLUGINS)?;
    measure_on(report, &on("the replay server"), &server.kubeconfig(), &folder, pods)?;
    // It takes nothing of the machine from the next one.
    drop(server);

    let scenario = on("kube-apiserver");
    if !CONTROLPLANE.exists()? {
        report.skip(&scenario, "kube-apiserver is not built: `just test` builds it");
        return Ok(());
    }
    let plane = ControlPlane::start(Options::default())?;
    fill(&plane, pods)?;
    measure_on(report, &scenario, plane.kubeconfig(), &folder, pods)
}

fn measure_on(
    report: &mut Report,
    scenario: &str,
    kubeconfig: &Path,
    folder: &Path,
    pods: usize,
) -> anyhow::Result<()> {
    let (mut ready, mut peak) = (Vec::new(), Vec::new());
    for number in 1..=starts() {
        let (seconds, mebibytes) =
            start(kubeconfig, folder, pods).with_context(|| format!("start {number} with {scenario}"))?;
        eprintln!("{scenario}, start {number}: ready after {seconds:.2} s, VmHWM {mebibytes:.0} MiB");
        ready.push(seconds);
        peak.push(mebibytes);
    }
    let (shortest, longest) = (quantile(&mut ready, 0.0), quantile(&mut ready, 1.0));
    let highest = quantile(&mut peak, 1.0);
    let mut row = |what: &str, unit: &str, runs: &mut [f64], bound: Option<f64>| {
        report.bound(&format!("{scenario}: {what}"), unit, Better::Lower, runs, bound);
    };
    row("start to ready", "s", &mut ready, Some(READY));
    row("start to ready, shortest", "s", &mut [shortest], None);
    row("start to ready, longest", "s", &mut [longest], Some(READY));
    row("VmHWM, highest", "MiB", &mut [highest], (pods > 0).then_some(PEAK));
    Ok(())
}

/// Seconds until the host is ready, and its largest resident set in MiB.
fn start(kubeconfig: &Path, folder: &Path, pods: usize) -> anyhow::Result<(f64, f64)> {
    let began = Instant::now();
    let host = Host::start(ours::options(kubeconfig, folder))?;
    let is_ready = || host.get("/readyz").map(|answer| answer.status == 200);
    host.wait_for("the host to be ready", PATIENCE, is_ready)?;
    let ready = began.elapsed().as_secs_f64();
    // Plugins that were refused would not keep the host from being ready.
    let (running, _) = ours::states(&host)?;
    ensure!(running == PLUGINS, "the host is ready, and {running} of {PLUGINS} plugins run");
    host.wait_for("each plugin to reconcile each pod", PATIENCE, || {
        ours::states(&host).map(|(_, calls)| calls >= PLUGINS * pods)
    })?;
    Ok((ready, kilobytes_of(host.process().pid(), "status", "VmHWM")? / 1024.0))
}

/// Creates the pods, and shows how large they are.
fn fill(plane: &ControlPlane, pods: usize) -> anyhow::Result<()> {
    let cluster = Cluster::of(plane)?;
    cluster.namespace(NAMESPACE)?;
    let mut bytes = 0;
    for number in 0..pods {
        bytes += cluster.create(&pod(number))?.to_string().len();
    }
    eprintln!("{pods} pods of {} bytes on kube-apiserver", bytes / pods.max(1));
    Ok(())
}

/// A pod of a few kilobytes.
fn pod(number: usize) -> Value {
    let variable = |variable: usize| {
        json!({
            "name": format!("SETTING_{variable}"),
            "value": format!("https://settings.example.com/team-{}/{number}/{variable}", number % 40),
        })
    };
    let variables: Vec<Value> = (0..VARIABLES).map(variable).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": NAMESPACE,
            "name": format!("pod-{number:05}"),
            "labels": {
                "app.kubernetes.io/name": format!("app-{}", number / 10),
                "app.kubernetes.io/part-of": "fleet",
            },
        },
        "spec": {
            "containers": [{
                "name": "main",
                "image": "registry.example.com/fleet/main:1.0.0",
                "env": variables,
                "ports": [{"name": "http", "containerPort": 8080}],
                "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}},
                "resources": {
                    "requests": {"cpu": "100m", "memory": "128Mi"},
                    "limits": {"memory": "256Mi"},
                },
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    })
}
