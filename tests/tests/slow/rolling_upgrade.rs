//! The rolling upgrade and the rollback of docs/operations.md, under the account of the documented installation: two hosts of an older
//! commit are replaced in turn by hosts of this one, and these by older ones again, while objects change.
//!
//! As the Deployment does it: a host of the other version comes first, and one ends when that stands by with its plugin loaded. The
//! plugin is of the older commit, since both versions serve its contract.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::poll::{self, SOON};
use pilothouse_tests::controlplane::{Options, Server};
use pilothouse_tests::counted_maps::{self, CountedMaps};
use pilothouse_tests::install::{self, NAME, NAMESPACE, Overlay};
use pilothouse_tests::{Cluster, ControlPlane, Host, OldVersion, Signal, loglines, rbac};

pilothouse_tests::on_the_real_server!(
    full: two_hosts_are_upgraded_and_rolled_back_in_turn_and_no_key_is_lost_and_one_leads_at_a_time
);

const PLUGIN: &str = "key-counter";
/// Where the plugin works.
const WORK: &str = "rolling-upgrade";
const MAPS: usize = 10;

/// Puts the plugin with this component in the place of the page's.
fn count_keys(overlay: &Overlay, component: &Path) -> Result<()> {
    let (dir, plugins) = (overlay.dir(), overlay.dir().join("plugins"));
    fs::remove_dir_all(&plugins)?;
    fs::create_dir(&plugins)?;
    fs::copy(component, plugins.join("key-counter.wasm"))?;
    fs::write(plugins.join("key-counter.yaml"), counted_maps::manifest(PLUGIN, WORK).to_string())?;
    let kustomization = fs::read_to_string(dir.join("kustomization.yaml"))?;
    let changed = kustomization.replace("pods-per-node", PLUGIN).replace("pods_per_node", PLUGIN);
    ensure!(changed.contains("- plugins/key-counter.wasm\n"), "{changed}");
    fs::write(dir.join("kustomization.yaml"), changed)?;
    overlay.write_rbac(&[])
}

fn logged(host: &Host, event: &str) -> bool {
    !loglines::events(host, event).is_empty()
}

/// A version of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Version {
    Old,
    New,
}

fn two_hosts_are_upgraded_and_rolled_back_in_turn_and_no_key_is_lost_and_one_leads_at_a_time() -> Result<()> {
    let old = OldVersion::built(PLUGIN)?;
    let plane = ControlPlane::start(Options::on(Server::Real))?;
    let cluster = Cluster::of(&plane)?;
    let overlay = Overlay::new()?;
    let dir = overlay.dir();
    cluster.namespace(WORK)?;
    count_keys(&overlay, &old.component)?;
    plane.kubectl(&["apply", "--server-side", "-k", &dir.to_string_lossy()])?;
    let deployment = cluster.get("apps/v1/Deployment", NAMESPACE, NAME)?.context("no Deployment")?;
    let strategy = &deployment["spec"]["strategy"]["rollingUpdate"];
    ensure!(strategy["maxSurge"] == 1 && strategy["maxUnavailable"] == 0, "{strategy}");
    let files = cluster.get("v1/ConfigMap", NAMESPACE, "pilothouse-plugins")?.context("no plugins")?;
    rbac::kubeconfig(&plane, (NAMESPACE, NAME), &dir.join("kubeconfig"))?;

    let (mut maps, mut changes) = (CountedMaps::default(), 0);
    // Something changes at each look: before, while and after a host takes over.
    let mut change = |maps: &mut CountedMaps| {
        changes += 1;
        maps.add_entry(&cluster, WORK, &format!("map-{}", changes % MAPS))
    };
    let start =
        |version: Version, pod: &str, role: &str, change: &mut dyn FnMut() -> Result<()>| -> Result<Host> {
            let at = dir.join(pod);
            install::mount_config_map(&files, &at.join("plugins"))?;
            let mut options = install::host_options(&deployment, pod, dir.join("kubeconfig"), at)?;
            options.program = (version == Version::Old).then(|| old.host.clone());
            let host = Host::start(options)?;
            for event in [role, "plugin_running"] {
                host.wait_for(&format!("{pod}: {event}"), SOON, || {
                    change()?;
                    anyhow::Ok(logged(&host, event))
                })?;
            }
            Ok(host)
        };
    let wait_counted = |host: &Host, maps: &CountedMaps| {
        host.wait_for("all keys to be counted", SOON, || {
            let lost = maps.miscounted(&cluster)?;
            ensure!(lost.is_empty(), "not counted: {lost:?}");
            Ok(true)
        })
    };
    let mut hosts = Vec::new();
    for (pod, role) in [("before-0", "leader_elected"), ("before-1", "standby")] {
        hosts.push((Version::Old, start(Version::Old, pod, role, &mut || change(&mut maps))?));
    }
    for (version, pods) in
        [(Version::New, ["upgraded-0", "upgraded-1"]), (Version::Old, ["back-0", "back-1"])]
    {
        for pod in pods {
            hosts.push((version, start(version, pod, "standby", &mut || change(&mut maps))?));
            // Of three hosts the oldest ends.
            let ends = hosts.len() - 3;
            let (ending, others) = (&hosts[ends].1, &hosts[ends + 1..]);
            ending.signal(Signal::TERM)?;
            poll::until("another host to lead", SOON, || {
                change(&mut maps)?;
                anyhow::Ok(others.iter().any(|(_, host)| logged(host, "leader_elected")))
            })?;
            ensure!(ending.wait_exit(SOON)?.success(), "{}", ending.log().tail(20));
        }
        let (_, newest) = hosts.last().context("no host")?;
        wait_counted(newest, &maps)?;
    }
    let later = start(Version::New, "later", "standby", &mut || change(&mut maps))?;
    wait_counted(&later, &maps)?;
    ensure!(maps.count() == MAPS, "{maps:?}");
    ensure!(loglines::said(&later, PLUGIN, "counted").is_empty(), "a standby works");

    // From the first to the last call of each host that led.
    let mut terms = Vec::new();
    for (version, host) in &hosts {
        let calls = loglines::said(host, PLUGIN, "counted");
        let times = calls.iter().map(|line| line.timestamp);
        if let (Some(first), Some(last)) = (times.clone().min(), times.max()) {
            terms.push((first, last, *version));
        }
    }
    terms.sort();
    ensure!(terms.windows(2).all(|pair| pair[0].1 < pair[1].0), "two worked at the same time: {terms:?}");
    let mut versions: Vec<Version> = terms.iter().map(|(_, _, version)| *version).collect();
    versions.dedup();
    ensure!(versions == [Version::Old, Version::New, Version::Old], "not each version led: {terms:?}");
    // The last one to lead goes on.
    for (_, ended) in &hosts[..hosts.len() - 2] {
        ensure!(
            !logged(ended, "lease_not_released") && !logged(ended, "calls_unfinished"),
            "{}",
            ended.log().tail(20)
        );
    }
    Ok(())
}
