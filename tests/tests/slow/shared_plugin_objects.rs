//! Plugins of the cluster that hosts with `--shards` share: each runs on the host that has its shard, and that one alone writes its
//! status.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::audit::{Audit, ObjectRef};
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::{Cluster, ControlPlane, Host, Proxy, Signal, cli, guests, plugins};
use serde_json::{Value, json};

use crate::shards::{LONG, SHARDS, SOME, args, kubeconfig_of, of_host, wait_held, writes_in_terms};

pilothouse_tests::on_the_real_server!(full: the_host_that_has_the_shard_of_a_plugin_writes_its_status,);

const NAMESPACE: &str = "shared-objects";
const KIND: &str = "pilothouse.dev/v1alpha1/Plugin";
const USERS: [&str; 2] = ["host-0", "host-1"];

/// Creates the kind Plugin, and the account that the Plugins have.
fn prepare(plane: &ControlPlane, cluster: &Cluster) -> Result<()> {
    cluster.namespace(NAMESPACE)?;
    let folder = tempfile::tempdir()?;
    let printed = cli::run(folder.path(), &["crd", "--plugins"])?;
    cluster.create(&serde_saphyr::from_str::<Value>(&printed.stdout)?)?;
    plane.kubectl(&["create", "serviceaccount", "robot", "-n", NAMESPACE])?;
    let verbs = "--verb=get,list,watch";
    plane.kubectl(&["create", "role", "robot", verbs, "--resource=configmaps", "-n", NAMESPACE])?;
    let robot = format!("--serviceaccount={NAMESPACE}:robot");
    plane.kubectl(&["create", "rolebinding", "robot", "--role=robot", &robot, "-n", NAMESPACE])?;
    Ok(())
}

fn plugin(name: &str, server: &str, digest: &str) -> Value {
    json!({
        "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin",
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": {
            "source": {"url": format!("{server}/noop.wasm"), "digest": digest},
            "serviceAccount": {"namespace": NAMESPACE, "name": "robot"},
            "permissions": [{
                "groups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"],
                "namespaces": [NAMESPACE],
            }],
        },
    })
}

/// Waits until the status of a Plugin is about what it demands now, and says that it runs.
fn wait_status(host: &Host, cluster: &Cluster, name: &str) -> Result<()> {
    host.wait_for(&format!("the status of {name}"), SOON, || {
        let plugin = cluster.get(KIND, NAMESPACE, name)?.context("there is no Plugin")?;
        let status = &plugin["status"];
        let runs = &status["conditions"][2];
        ensure!(
            runs["reason"] == "Running"
                && runs["status"] == "True"
                && status["observedGeneration"] == plugin["metadata"]["generation"],
            "{status}"
        );
        Ok(true)
    })
}

/// Changes what all Plugins demand, and waits until their statuses say so.
fn change(host: &Host, cluster: &Cluster, names: &[String], round: usize) -> Result<()> {
    for name in names {
        cluster.merge(KIND, NAMESPACE, name, &json!({"spec": {"config": {"round": round}}}))?;
    }
    names.iter().try_for_each(|name| wait_status(host, cluster, name))
}

fn the_host_that_has_the_shard_of_a_plugin_writes_its_status() -> Result<()> {
    let audit = Audit::start(Server::Real)?;
    let plane = audit.plane();
    let cluster = Cluster::of(plane)?;
    let component = fs::read(guests::wasm("noop")?)?;
    prepare(plane, &cluster)?;
    let server = plugins::serve(component.clone())?;
    let proxies = [Proxy::start(plane.address())?, Proxy::start(plane.address())?];
    let start = |at: usize| -> Result<Host> {
        let mut args = args(NAMESPACE, LONG, true);
        args.push(format!("--plugins-from-cluster={NAMESPACE}"));
        args.push(format!("--component-hosts={server}"));
        let kubeconfig = kubeconfig_of(plane, &proxies[at], USERS[at])?;
        Host::start(HostOptions { args, ..HostOptions::new(kubeconfig) })
    };
    let (first, second) = (start(0)?, start(1)?);
    let mut names = Vec::new();
    while of_host(&first)?.len() < SOME || of_host(&second)?.len() < SOME {
        ensure!(names.len() < 60, "the plugins are not shared");
        let name = format!("p{}", names.len());
        cluster.create(&plugin(&name, &server, &plugins::digest(&component)))?;
        wait_status(&first, &cluster, &name)?;
        names.push(name);
    }
    change(&first, &cluster, &names, 1)?;

    let moved = of_host(&first)?;
    first.signal(Signal::TERM)?;
    ensure!(first.wait_exit(SOON)?.success(), "{}", first.log().tail(20));
    wait_held(&second, SHARDS)?;
    change(&second, &cluster, &names, 2)?;
    for name in &moved {
        plugins::wait_until(&second, name, "called", |plugin| plugin.calls > 0)?;
    }

    let shard = |name: &String| {
        let status = plugins::status(&second, &format!("{NAMESPACE}/{name}"))?;
        Ok((name.clone(), status.shard.context("no shard")?))
    };
    let shards = names.iter().map(shard).collect::<Result<BTreeMap<_, _>>>()?;
    let shard_of = |plugin: Option<&str>, object: &ObjectRef| {
        let is_status = plugin.is_none() && object.resource == "plugins" && object.subresource == "status";
        is_status.then(|| shards.get(&object.name).copied()).flatten()
    };
    let seen = writes_in_terms(&audit.events()?, shard_of, &USERS)?;
    eprintln!("{} Plugins, {} moved; {seen:?}", names.len(), moved.len());
    ensure!(seen.writes >= 3 * names.len(), "statuses were written by others: {seen:?}");
    ensure!(seen.writers_for("plugins") == 2, "one host wrote all statuses: {seen:?}");
    ensure!(seen.late.is_empty(), "statuses by a host without the shard: {:#?}", seen.late);
    Ok(())
}
