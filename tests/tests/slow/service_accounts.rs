//! What the ServiceAccount of a plugin may read, it sees; what it may no longer read, it stops seeing. The rules are those of
//! the real API server. So are those of the admin endpoints.

use std::fs;

use anyhow::{Context, Result};
use pilothouse_testkit::http;
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::loglines;
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{Cluster, ControlPlane, Host, cli, guests};
use serde_json::json;

pilothouse_tests::on_the_real_server!(
    a_plugin_stops_seeing_objects_when_the_role_binding_of_its_account_goes,
    the_admin_endpoints_are_for_users_of_the_cluster_who_may_get_them,
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
        plane.kubectl(&["create", "rolebinding", "robot", "--role=reader", &account, "-n", NAMESPACE])
    };
    let reads = ["--verb=get,list,watch", "--resource=configmaps", "-n", NAMESPACE];
    plane.kubectl(&[&["create", "role", "reader"], reads.as_slice()].concat())?;
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
    assert_eq!(host.log().matching("\"access_revoked\"").len(), 3, "get, list and watch");

    // What it missed is shown when the right is back.
    bind()?;
    host.wait_for("the plugin to see what it missed", SOON, || has_seen(&host, "robot", "hidden"))?;
    plugins::wait_running(&host, "robot").map(drop)
}

fn the_admin_endpoints_are_for_users_of_the_cluster_who_may_get_them() -> Result<()> {
    const NAMESPACE: &str = "scraped";
    let plane = ControlPlane::shared(Server::Real)?;
    Cluster::of(plane)?.namespace(NAMESPACE)?;
    let mut options = HostOptions::new(plane.kubeconfig());
    options.args = ["--listen", "0.0.0.0:0", "--health-addr", "127.0.0.1:0"].map(str::to_owned).into();
    let host = Host::start(options)?;
    let (admin, file) = (host.admin().replace("0.0.0.0", "127.0.0.1"), host.dir().join("token"));
    let status = |more: &[&str]| cli::pilothouse(&host, &[&["status", "--admin", &admin], more].concat());
    let refused = status(&[])?;
    assert!(refused.stderr.contains("401") && refused.stderr.contains("a token is needed"), "{refused:?}");
    let command = http::request("POST", &admin, "/plugins/p/pause", SOON)?;
    assert_eq!(command.status, 401, "{command:?}");

    let token_file = file.to_str().context("the path is not UTF-8")?;
    let with_token = || status(&["--token-file", token_file]);
    fs::write(&file, "made-up")?;
    let refused = with_token()?;
    assert!(
        refused.stderr.contains("401") && refused.stderr.contains("does not know the token"),
        "{refused:?}"
    );
    plane.kubectl(&["create", "serviceaccount", "scraper", "-n", NAMESPACE])?;
    fs::write(&file, plane.kubectl(&["create", "token", "scraper", "-n", NAMESPACE])?)?;
    let refused = with_token()?;
    let user = format!("user system:serviceaccount:{NAMESPACE}:scraper may not get /plugins");
    assert!(refused.stderr.contains("403") && refused.stderr.contains(&user), "{refused:?}");

    let url = "--non-resource-url=/plugins";
    plane.kubectl(&["create", "clusterrole", "scraper", "--verb=get", url])?;
    let account = format!("--serviceaccount={NAMESPACE}:scraper");
    plane.kubectl(&["create", "clusterrolebinding", "scraper", "--clusterrole=scraper", &account])?;
    host.wait_for("the role to count", SOON, || with_token().map(|finished| finished.status.success()))
}
