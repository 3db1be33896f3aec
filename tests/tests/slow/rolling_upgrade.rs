//! The rolling upgrade of docs/operations.md, under the account of the documented installation: two hosts are replaced in turn
//! while objects change.
//!
//! As the Deployment does it: a new host comes first, and an old one ends when the new one stands by with its plugin loaded.

use std::fs;

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::poll::{self, SOON};
use pilothouse_tests::controlplane::{Options, Server};
use pilothouse_tests::counted_maps::{self, CountedMaps};
use pilothouse_tests::install::{self, NAME, NAMESPACE, Overlay};
use pilothouse_tests::{Cluster, ControlPlane, Host, Signal, guests, loglines, rbac};

pilothouse_tests::on_the_real_server!(
    full: two_hosts_are_replaced_in_turn_and_no_key_is_lost_and_one_leads_at_a_time
);

const PLUGIN: &str = "key-counter";
/// Where the plugin works.
const WORK: &str = "rolling-upgrade";
const MAPS: usize = 10;

/// Puts the plugin in the place of the page's.
fn count_keys(overlay: &Overlay) -> Result<()> {
    let (dir, plugins) = (overlay.dir(), overlay.dir().join("plugins"));
    fs::remove_dir_all(&plugins)?;
    fs::create_dir(&plugins)?;
    fs::copy(guests::wasm(PLUGIN)?, plugins.join("key-counter.wasm"))?;
    fs::write(plugins.join("key-counter.yaml"), counted_maps::manifest(PLUGIN, &[WORK]).to_string())?;
    let kustomization = fs::read_to_string(dir.join("kustomization.yaml"))?;
    let changed = kustomization.replace("pods-per-node", PLUGIN).replace("pods_per_node", PLUGIN);
    ensure!(changed.contains("- plugins/key-counter.wasm\n"), "{changed}");
    fs::write(dir.join("kustomization.yaml"), changed)?;
    overlay.write_rbac(&[])
}

fn logged(host: &Host, event: &str) -> bool {
    !loglines::events(host, event).is_empty()
}

fn two_hosts_are_replaced_in_turn_and_no_key_is_lost_and_one_leads_at_a_time() -> Result<()> {
    let plane = ControlPlane::start(Options::on(Server::Real))?;
    let cluster = Cluster::of(&plane)?;
    let overlay = Overlay::new()?;
    let dir = overlay.dir();
    cluster.namespace(WORK)?;
    count_keys(&overlay)?;
    plane.kubectl(&["apply", "--server-side", "-k", &dir.to_string_lossy()])?;
    let deployment = cluster.get("apps/v1/Deployment", NAMESPACE, NAME)?.context("no Deployment")?;
    let strategy = &deployment["spec"]["strategy"]["rollingUpdate"];
    ensure!(strategy["maxSurge"] == 1 && strategy["maxUnavailable"] == 0, "{strategy}");
    let files = cluster.get("v1/ConfigMap", NAMESPACE, "pilothouse-plugins")?.context("no plugins")?;
    rbac::kubeconfig(&plane, (NAMESPACE, NAME), &dir.join("kubeconfig"))?;

    let (mut maps, mut changes) = (CountedMaps::default(), 0);
    // Something changes at each look: before, while and after a host takes over.
    let mut change = || {
        changes += 1;
        maps.add_entry(&cluster, WORK, &format!("map-{}", changes % MAPS))
    };
    let start = |pod: &str, role: &str, change: &mut dyn FnMut() -> Result<()>| -> Result<Host> {
        let at = dir.join(pod);
        install::mount_config_map(&files, &at.join("plugins"))?;
        let options = install::host_options(&deployment, pod, dir.join("kubeconfig"), at)?;
        let host = Host::start(options)?;
        for event in [role, "plugin_running"] {
            host.wait_for(&format!("{pod}: {event}"), SOON, || {
                change()?;
                anyhow::Ok(logged(&host, event))
            })?;
        }
        Ok(host)
    };
    let mut hosts =
        vec![start("old-0", "leader_elected", &mut change)?, start("old-1", "standby", &mut change)?];
    for (ends, comes) in [(0, "new-0"), (1, "new-1")] {
        hosts.push(start(comes, "standby", &mut change)?);
        let (old, others) = (&hosts[ends], &hosts[ends + 1..]);
        old.signal(Signal::TERM)?;
        poll::until("another host to lead", SOON, || {
            change()?;
            anyhow::Ok(others.iter().any(|host| logged(host, "leader_elected")))
        })?;
        ensure!(old.wait_exit(SOON)?.success(), "{}", old.log().tail(20));
    }
    let last = start("later", "standby", &mut change)?;
    last.wait_for("all keys to be counted", SOON, || {
        let lost = maps.miscounted(&cluster)?;
        ensure!(lost.is_empty(), "not counted: {lost:?}");
        Ok(true)
    })?;
    ensure!(maps.count() == MAPS, "{maps:?}");
    ensure!(loglines::said(&last, PLUGIN, "counted").is_empty(), "a standby works");

    // From the first to the last call of each host that led.
    let times = |host: &Host| {
        let mut times: Vec<_> =
            loglines::said(host, PLUGIN, "counted").iter().map(|line| line.timestamp).collect();
        times.sort();
        Some((*times.first()?, *times.last()?))
    };
    let mut terms: Vec<_> = hosts.iter().filter_map(times).collect();
    terms.sort();
    ensure!(terms.len() >= 2, "nobody took over: {terms:?}");
    ensure!(terms.windows(2).all(|pair| pair[0].1 < pair[1].0), "two worked at the same time: {terms:?}");
    for old in &hosts[..2] {
        ensure!(
            !logged(old, "lease_not_released") && !logged(old, "calls_unfinished"),
            "{}",
            old.log().tail(20)
        );
    }
    Ok(())
}
