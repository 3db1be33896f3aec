//! A demonstration in one command: builds everything, starts the real kube-apiserver and etcd, and runs the host with
//! the examples.
//!
//! `cargo run -p pilothouse-tests --bin demo` runs until Ctrl-C and prints commands to try. With `--once` it ends when
//! every ConfigMap is right; the exit code is an error if that does not happen in time.

#![allow(clippy::print_stdout, reason = "what this program is for")]

use std::time::Duration;

use anyhow::Context;
use pilothouse_tests::controlplane::Options;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::{ControlPlane, Host, guests};

const NODES: usize = 3;
const PODS: usize = 12;
const PHASES: [&str; 3] = ["Running", "Pending", "Succeeded"];
const EXAMPLES: [&str; 3] = ["pods-per-node", "namespace-quota", "deployment-watcher"];
/// Time limit until the ConfigMaps are right; a debug build compiles guests slowly.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() -> anyhow::Result<()> {
    let once = std::env::args().any(|arg| arg == "--once");
    println!("building the guests …");
    for example in EXAMPLES {
        guests::wasm(example)?;
    }
    println!("building and starting kube-apiserver and etcd (the first build takes about eight minutes) …");
    let plane = ControlPlane::start(Options::default())?;
    println!("  {} is up; creating {NODES} nodes and {PODS} pods", plane.server());
    populate(&plane)?;
    println!("building and starting the host …");
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    for example in EXAMPLES {
        let manifest = format!("{}/../examples/{example}/{example}.yaml", env!("CARGO_MANIFEST_DIR"));
        let manifest = std::fs::read_to_string(&manifest).with_context(|| manifest.clone())?;
        host.install(&example.replace('-', "_"), &guests::wasm(example)?, Some(&manifest))?;
    }
    host.wait_for("the ConfigMaps to be right", PATIENCE, || check(&plane))?;
    println!("\nevery node has its ConfigMap:\n");
    let columns = "custom-columns=NAME:.metadata.name,TOTAL:.data.total,RUNNING:.data.Running,PENDING:.data.Pending,\
                   SUCCEEDED:.data.Succeeded";
    println!("{}", plane.kubectl(&["get", "configmaps", "-l", LABEL, "-o", columns])?);
    if once {
        return Ok(());
    }
    println!("try, in another terminal:");
    println!("  export KUBECONFIG={}", plane.kubeconfig().display());
    println!("  kubectl delete pod pod-0; kubectl get configmap pods-on-node-0 -o yaml");
    println!("  curl {}/plugins; curl {}/metrics", host.admin(), host.admin());
    println!("  the plugins are in {}: replace, remove or add some", host.plugins_dir().display());
    println!("Ctrl-C ends all of it. What the host says from here on:\n");
    let mut shown = host.log().matching("").len();
    while host.process().exit_status().is_none() {
        let lines = host.log().matching("");
        lines.iter().skip(shown).for_each(|line| println!("{}", readable(line)));
        shown = lines.len();
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

const LABEL: &str = "app.kubernetes.io/managed-by=pods-per-node";

fn populate(plane: &ControlPlane) -> anyhow::Result<()> {
    let mut objects = Vec::new();
    for node in 0..NODES {
        objects.push(serde_json::json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{node}")},
        }));
    }
    for pod in 0..PODS {
        objects.push(serde_json::json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("pod-{pod}"), "namespace": "default"},
            "spec": {
                "nodeName": format!("node-{}", pod % (NODES - 1)),
                "containers": [{"name": "main", "image": "example"}],
            },
        }));
    }
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
    plane.kubectl_with(&["create", "-f", "-"], &list.to_string())?;
    for pod in 0..PODS {
        let status = serde_json::json!({"status": {"phase": PHASES[pod % PHASES.len()]}}).to_string();
        plane.kubectl(&["patch", "pod", &format!("pod-{pod}"), "--subresource=status", "-p", &status])?;
    }
    Ok(())
}

/// Whether each node's ConfigMap has the number of pods on the node.
fn check(plane: &ControlPlane) -> anyhow::Result<bool> {
    let maps: serde_json::Value =
        serde_json::from_str(&plane.kubectl(&["get", "configmaps", "-l", LABEL, "-o", "json"])?)?;
    let total = |node: usize| {
        let name = format!("pods-on-node-{node}");
        let items = maps["items"].as_array();
        items
            .into_iter()
            .flatten()
            .find(|map| map["metadata"]["name"] == name)
            .map(|map| map["data"]["total"].clone())
    };
    // The last node has no pods.
    let wanted = |node: usize| (0..PODS).filter(|pod| pod % (NODES - 1) == node).count().to_string();
    Ok((0..NODES).all(|node| total(node).is_some_and(|total| total == wanted(node))))
}

/// Formats a line of the host's JSON log for people.
fn readable(line: &str) -> String {
    let Ok(line) = serde_json::from_str::<serde_json::Value>(line) else { return line.to_owned() };
    let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
    format!("{:<5} {:<14} {} {}", text("level"), text("plugin"), text("message"), text("fields"))
        .trim_end()
        .to_owned()
}
