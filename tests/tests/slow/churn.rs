//! A cluster in motion: whatever happens to nodes and pods, in the end every ConfigMap of `pods-per-node` says what a
//! fresh list says.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pilothouse_tests::controlplane::{Options, Server};
use pilothouse_tests::fleet::{self, Fleet};
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::{ControlPlane, Host, full};

pilothouse_tests::on_both_servers!(at_rest_every_config_map_says_what_a_fresh_list_says,);

const NODES: usize = 10;
const PODS: usize = 500;
/// Operations a second, and how many of them: 20 s.
const PACE: u32 = 50;
const OPERATIONS: u64 = 1000;

/// For a first list, a compilation in a debug build and some hundred writes, on a machine that does something else too.
const REST: Duration = Duration::from_secs(60);

fn at_rest_every_config_map_says_what_a_fresh_list_says(server: Server) -> Result<()> {
    let plane = ControlPlane::start(Options::on(server))?;
    let fleet = Fleet::new(&plane, "fleet")?;
    let mut nodes: Vec<String> = (0..NODES).map(|number| format!("node-{number}")).collect();
    for node in &nodes {
        fleet.add_node(node)?;
    }
    fleet.add_node("empty")?;
    let began = Instant::now();
    fleet.add_pods("pod", PODS, &nodes)?;
    eprintln!("{PODS} pods on {NODES} nodes made in {:?}", began.elapsed());

    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    fleet.install(&host)?;
    let settled = fleet.settle(&host, REST)?;
    eprintln!("first ConfigMaps right after {:?} and {} reconciles", settled.after, settled.reconciles);
    let written = fleet.written()?;
    ensure!(written.len() == NODES + 1, "{written:?}");
    let all = [("Failed", "12"), ("Pending", "13"), ("Running", "13"), ("Succeeded", "12"), ("total", "50")];
    for (name, data) in &written {
        let expected: &[(&str, &str)] = if name == "pods-on-empty" { &[("total", "0")] } else { &all };
        ensure!(
            data.iter().map(|(entry, pods)| (entry.as_str(), pods.as_str())).eq(expected.to_vec()),
            "{name}: {data:?}"
        );
    }

    // Pods also come to a node that is gone, and to one that comes later.
    nodes.push("late".to_owned());
    let churn = fleet.churn(PACE, full::seed(1)?, &nodes)?;
    churn.wait_begun(OPERATIONS / 4, REST)?;
    fleet.delete_node("node-3")?;
    churn.wait_begun(OPERATIONS / 2, REST)?;
    fleet.add_node("late")?;
    churn.wait_begun(OPERATIONS, REST)?;
    let done = churn.stop();
    eprintln!("{done:?}");
    ensure!(done.tally.failed == 0, "the load itself failed: {:?}", done.tally.first_failure);
    for (what, count) in [("created", done.created), ("deleted", done.deleted), ("moved", done.moved)] {
        ensure!(count > 100, "only {count} pods were {what}");
    }

    let settled = fleet.settle(&host, REST)?;
    eprintln!("right {:?} after the churn, {} reconciles in all", settled.after, settled.reconciles);
    let written = fleet.written()?;
    ensure!(!written.contains_key(&fleet::map_of("node-3")), "node-3 has gone and its ConfigMap has not");
    ensure!(written[&fleet::map_of("late")]["total"] != "0", "no pods came to the node that came late");
    ensure!(
        written[&fleet::map_of("empty")].iter().eq([(&"total".to_owned(), &"0".to_owned())]),
        "{written:?}"
    );
    Ok(())
}
