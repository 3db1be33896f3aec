//! [`Kubelet`]: binds pods to a node, sets their status and ends them, as scheduler and kubelets do, without running anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::Result;
use pilothouse_testkit::poll;
use pilothouse_tests::Cluster;
use serde_json::{Value, json};

use super::SOON;

/// A pod with this label runs and does not end, also one of a Job.
const HELD: &str = "held";
/// Where all pods are.
const NODE: &str = "n1";

/// Pods of Jobs succeed, all others become ready, until this is dropped.
pub(super) struct Kubelet {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Kubelet {
    pub(super) fn start(cluster: Cluster) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let until = ended.clone();
        let thread = thread::spawn(move || {
            // Each pod has an address of its own: an EndpointSlice lists addresses.
            let mut addresses = (1..=254).cycle();
            while !until.load(Ordering::Relaxed) {
                // It looks again at each interval of the wait. What fails is done at the next look.
                let _ = poll::until("the end", SOON, || {
                    let _ = look_after_pods(&cluster, &mut addresses);
                    until.load(Ordering::Relaxed)
                });
            }
        });
        Self { ended, thread: Some(thread) }
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn look_after_pods(cluster: &Cluster, addresses: &mut impl Iterator<Item = u8>) -> Result<()> {
    for pod in cluster.list("v1/Pod", "")? {
        let metadata = &pod["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        // A pod may be gone by now.
        let _ = if !metadata["deletionTimestamp"].is_null() {
            cluster.delete_now("v1/Pod", namespace, name)
        } else if pod["spec"]["nodeName"].is_null() {
            cluster.create(&binding(namespace, name)).map(drop)
        } else if pod["status"]["phase"] == "Pending" {
            let ends = metadata["ownerReferences"][0]["kind"] == "Job" && metadata["labels"][HELD].is_null();
            let status = if ends { json!({"phase": "Succeeded"}) } else { running(&pod, addresses.next()) };
            cluster.merge_status("v1/Pod", namespace, name, &json!({"status": status})).map(drop)
        } else {
            Ok(())
        };
    }
    Ok(())
}

fn binding(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": namespace, "name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
    })
}

fn running(pod: &Value, address: Option<u8>) -> Value {
    let address = format!("10.244.0.{}", address.unwrap_or_default());
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = |kind| json!({"type": kind, "status": "True", "lastTransitionTime": now});
    // A merge patch replaces the whole list: what the binding has written stays.
    let mut conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.extend([condition("ContainersReady"), condition("Ready")]);
    json!({
        "phase": "Running",
        "conditions": conditions,
        "podIP": address,
        "podIPs": [{"ip": address}],
    })
}
