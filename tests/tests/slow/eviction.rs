//! The PodDisruptionBudget of the installation, with the real controller of budgets: of two ready hosts one may be evicted, and
//! of one ready host none. No kubelet is here, so the test writes the statuses of Pods.

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::poll::{self, SOON};
use pilothouse_tests::controlplane::{Options, Server};
use pilothouse_tests::install::{NAME, NAMESPACE, Overlay};
use pilothouse_tests::{Cluster, ControlPlane};
use serde_json::{Value, json};

pilothouse_tests::on_the_real_server!(full: one_of_two_ready_hosts_is_evicted_and_the_last_one_is_not);

/// The names of the Deployment's Pods, once there are two.
fn wait_pods(cluster: &Cluster) -> Result<[String; 2]> {
    poll::until("two Pods", SOON, || {
        let pods = cluster.list("v1/Pod", NAMESPACE)?;
        let names = pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str()).map(str::to_owned);
        anyhow::Ok(<[String; 2]>::try_from(names.collect::<Vec<_>>()).ok())
    })
}

/// The Pod that was made in place of one that was evicted.
fn wait_other(cluster: &Cluster, than: &str) -> Result<String> {
    let pods = wait_pods(cluster)?;
    pods.into_iter().find(|pod| pod != than).context("two Pods of one name")
}

/// Writes what a kubelet would, of a container that runs.
fn set_ready(cluster: &Cluster, pod: &str, is_ready: bool) -> Result<()> {
    let ready = if is_ready { "True" } else { "False" };
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}});
    cluster.merge_status("v1/Pod", NAMESPACE, pod, &status).map(drop)
}

/// Waits until the controller has counted so many healthy Pods, and allows so many evictions.
fn wait_budget(plane: &ControlPlane, healthy: u64, allowed: u64) -> Result<()> {
    poll::until(&format!("a budget of {healthy} healthy Pods that allows {allowed}"), SOON, || {
        let budget = plane.kubectl(&["get", "pdb", NAME, "-n", NAMESPACE, "-o", "json"])?;
        let budget: Value = serde_json::from_str(&budget)?;
        let status = &budget["status"];
        let counted = (&status["currentHealthy"], &status["disruptionsAllowed"], &status["expectedPods"]);
        ensure!(counted == (&json!(healthy), &json!(allowed), &json!(2)), "{status}");
        Ok(true)
    })
}

/// Asks for an eviction, as `kubectl drain` does.
fn evict(plane: &ControlPlane, pod: &str) -> Result<()> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction");
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": NAMESPACE},
    });
    plane.kubectl_with(&["create", "--raw", &path, "-f", "-"], &eviction.to_string()).map(drop)
}

fn ensure_refused(plane: &ControlPlane, pod: &str) -> Result<()> {
    let refused = evict(plane, pod).err().with_context(|| format!("{pod} was evicted"))?;
    let refused = format!("{refused:#}");
    ensure!(refused.contains("violate the pod's disruption budget"), "{refused}");
    Ok(())
}

fn one_of_two_ready_hosts_is_evicted_and_the_last_one_is_not() -> Result<()> {
    let controllers = ["deployment", "replicaset", "disruption"].map(str::to_owned).into();
    let plane = ControlPlane::start(Options { controllers, ..Options::on(Server::Real) })?;
    let cluster = Cluster::of(&plane)?;
    let overlay = Overlay::new()?;
    overlay.write_rbac(&[])?;
    plane.kubectl(&["apply", "--server-side", "-k", &overlay.dir().to_string_lossy()])?;

    let [first, last] = wait_pods(&cluster)?;
    set_ready(&cluster, &first, true)?;
    set_ready(&cluster, &last, true)?;
    wait_budget(&plane, 2, 1)?;
    evict(&plane, &first)?;
    poll::until("the evicted Pod to be gone", SOON, || {
        anyhow::Ok(cluster.get("v1/Pod", NAMESPACE, &first)?.is_none())
    })?;
    let next = wait_other(&cluster, &last)?;
    set_ready(&cluster, &next, false)?;
    wait_budget(&plane, 1, 0)?;
    ensure_refused(&plane, &last)?;

    // One that is not ready protects nothing, and must not keep a node from being drained.
    evict(&plane, &next)?;
    poll::until("the Pod that was not ready to be gone", SOON, || {
        anyhow::Ok(cluster.get("v1/Pod", NAMESPACE, &next)?.is_none())
    })?;
    let next = wait_other(&cluster, &last)?;
    set_ready(&cluster, &next, true)?;
    wait_budget(&plane, 2, 1)?;
    evict(&plane, &last)
}
