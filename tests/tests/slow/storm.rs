//! A server that does everything wrong that a real one ever does, for a while: at rest, every ConfigMap is right.
//!
//! On the development server, whose faults come from a seed. What a client cannot recover from is left out: events out of
//! order, and watches that say nothing for ever.

use std::time::Duration;

use anyhow::{Context, Result};
use pilothouse_devserver::{Fault, FaultRule, When};
use pilothouse_tests::controlplane::{Options, Server};
use pilothouse_tests::fleet::Fleet;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::{ControlPlane, Host, Signal, full};

const NODES: usize = 5;
const PODS: usize = 100;
/// Changes of pods a second.
const PACE: u32 = 40;
const SEED: u64 = 7;
/// Faults go on in watches that have begun.
const REST: Duration = Duration::from_secs(90);
const STORM: Duration = Duration::from_secs(600);
/// Faults that must have struck, and those of the gate.
const ENOUGH: u64 = 60;
const SAMPLE: u64 = 20;

/// The faults, each with the share of the calls that it hits. The load itself reads no lists once it has begun, watches
/// nothing and writes no ConfigMaps, so all of it hits the host.
fn storm(seed: u64) -> Vec<FaultRule> {
    let on = |verbs: &[&str], resources: &[&str], share: f64, fault: Fault| FaultRule {
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        resources: resources.iter().map(|resource| (*resource).to_owned()).collect(),
        when: When { probability: Some(share), seed, ..When::default() },
        ..FaultRule::new(fault)
    };
    let status = |code, retry_after| Fault::Status { code, retry_after };
    let watched = &["pods", "nodes"];
    let (reads, maps) = (&["list", "watch"], &["configmaps"]);
    vec![
        on(reads, watched, 0.2, Fault::Delay { milliseconds: 50 }),
        on(&["watch"], watched, 0.1, Fault::Gone { after: None }),
        on(reads, watched, 0.05, status(503, None)),
        on(reads, watched, 0.05, status(429, Some(1))),
        on(reads, watched, 0.05, Fault::Reset),
        on(&["list"], watched, 0.1, Fault::Truncate),
        on(&["list"], watched, 0.1, Fault::TooLargeVersion),
        on(&["list"], watched, 0.1, Fault::ContentType { value: "text/html".to_owned() }),
        on(&["watch"], watched, 0.4, Fault::Tear { after: 5 }),
        on(&["watch"], watched, 0.5, Fault::Gone { after: Some(5) }),
        on(&["watch"], watched, 0.5, Fault::Duplicate),
        on(&[], maps, 0.1, status(500, None)),
        on(&[], maps, 0.1, status(504, None)),
        on(&[], maps, 0.05, Fault::Reset),
    ]
}

#[test]
fn after_a_storm_every_config_map_is_right() -> Result<()> {
    let seed = full::seed(SEED)?;
    let plane = ControlPlane::start(Options::on(Server::Development))?;
    let faults = plane.development().context("it is the development server")?.faults();
    let fleet = Fleet::new(&plane, "stormy")?;
    let nodes: Vec<String> = (0..NODES).map(|number| format!("node-{number}")).collect();
    for node in &nodes {
        fleet.add_node(node)?;
    }
    fleet.add_pods("pod", PODS, &nodes)?;
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    fleet.install(&host)?;
    fleet.settle(&host, REST)?;
    // It looks around before it begins.
    let churn = fleet.churn(PACE, seed, &nodes)?;
    for rule in storm(seed) {
        faults.add(rule);
    }
    // Its watches have begun in calm.
    plane.restart_apiserver(Signal::KILL)?;
    let hits = || faults.list().into_iter().map(|state| (format!("{:?}", state.rule.fault), state.hits));
    // Backing off as it should, the host does not ask often.
    let enough = full::or_sample(ENOUGH, SAMPLE);
    let struck = host.wait_for("a number of faults, some of them in watches", STORM, || {
        let in_watches = hits().filter(|(fault, _)| fault.starts_with("Tear") || fault.starts_with("Gone"));
        in_watches.map(|(_, hits)| hits).sum::<u64>() >= 3
            && hits().map(|(_, hits)| hits).sum::<u64>() >= enough
    });
    eprintln!("{:?}", hits().collect::<Vec<_>>());
    struck?;
    let done = churn.stop();
    eprintln!("{done:?}");
    faults.clear();
    let settled = fleet.settle(&host, REST)?;
    eprintln!("right {:?} after the storm, {} reconciles", settled.after, settled.reconciles);
    Ok(())
}
