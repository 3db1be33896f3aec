//! What the ServiceAccount of a plugin may read, it sees; what it may no longer read, it stops seeing. The rules are those of
//! the real API server.

use anyhow::Result;
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::loglines;
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{Cluster, ControlPlane, Host, guests};
use serde_json::json;

pilothouse_tests::on_the_real_server!(
    a_plugin_stops_seeing_objects_when_the_role_binding_of_its_account_goes,
);

const NAMESPACE: &str = "revoked";

/// A probe that says each key that it reconciles.
fn logger(name: &str) -> Manifest {
    Manifest::new(name).reads(&["configmaps"], NAMESPACE).config(json!({
        "mode": "log", "namespaces": [NAMESPACE],
    }))
}

fn has_seen(host: &Host, plugin: &str, name: &str) -> bool {
    let key = format!("{NAMESPACE}/{name}");
    loglines::said(host, plugin, "begin").iter().any(|line| line.key == key)
}

fn a_plugin_stops_seeing_objects_when_the_role_binding_of_its_account_goes() -> Result<()> {
    let plane = ControlPlane::shared(Server::Real)?;
    let cluster = Cluster::of(plane)?;
    cluster.namespace(NAMESPACE)?;
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    let account = json!({"namespace": NAMESPACE, "name": "robot"});
    let component = guests::wasm("probe")?;
    host.install("robot", &component, Some(&logger("robot").with("serviceAccount", account).to_string()))?;
    // It acts as the host, and shows what the host itself has seen.
    host.install("witness", &component, Some(&logger("witness").to_string()))?;
    plugins::wait_running(&host, "witness")?;

    // Without a right it waits, and the host is ready.
    let waits = |status: &plugins::Status| {
        let words = format!("ServiceAccount {NAMESPACE}/robot may not");
        status.state == "waiting" && status.waiting_for.as_ref().is_some_and(|reason| reason.contains(&words))
    };
    plugins::wait_until(&host, "robot", "waiting for a right", waits)?;
    host.wait_for("the host to be ready", SOON, || host.get("/readyz").map(|answer| answer.status == 200))?;

    let bind = || {
        let account = format!("--serviceaccount={NAMESPACE}:robot");
        plane.kubectl(&["create", "rolebinding", "robot", "--clusterrole=view", &account, "-n", NAMESPACE])
    };
    bind()?;
    cluster.config_map(NAMESPACE, "first")?;
    host.wait_for("the plugin to see objects", SOON, || has_seen(&host, "robot", "first"))?;

    plane.kubectl(&["delete", "rolebinding", "robot", "-n", NAMESPACE])?;
    plugins::wait_until(&host, "robot", "waiting again", waits)?;
    // The second, so that the first has been with all plugins.
    for name in ["hidden", "hidden-2"] {
        cluster.config_map(NAMESPACE, name)?;
        host.wait_for("the host to see the object", SOON, || has_seen(&host, "witness", name))?;
    }
    assert!(!has_seen(&host, "robot", "hidden"));
    assert_eq!(host.log().matching("\"access_revoked\"").len(), 2, "list and watch");

    // What it missed is shown when the right is back.
    bind()?;
    host.wait_for("the plugin to see what it missed", SOON, || has_seen(&host, "robot", "hidden"))?;
    plugins::wait_running(&host, "robot").map(drop)
}
