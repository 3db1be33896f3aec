//! [`Fleet`]: nodes and pods on a control plane, and the expected output of `pods-per-node` for them.
//!
//! Invariants: all pods and the plugin's ConfigMaps are in the fleet's own namespace; the expected output is computed
//! from new quorum lists of the whole cluster, never from the fleet's own record; kubectl reads these lists, so that
//! the client under test is not its own oracle; no kubelet and no controller runs, so only the fleet changes pods. All
//! methods block.

mod churn;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use k8s_openapi::{List, ListableResource};
use pilothouse_client::{Api, Client, DeleteParams, ListParams, Patch, WriteParams};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::plugins::Manifest;
use crate::{ControlPlane, Host, guests, rest};

pub use churn::{Churn, Done};

/// Number of concurrent requests when many objects are created.
const AT_ONCE: usize = 16;
/// The phases of the pods.
pub const PHASES: [&str; 4] = ["Pending", "Running", "Succeeded", "Failed"];
/// The plugin that counts the pods.
pub const PLUGIN: &str = "pods-per-node";

/// The data of ConfigMaps by name.
pub type Counts = BTreeMap<String, BTreeMap<String, String>>;

/// The result of [`Fleet::settle`].
#[derive(Debug, Clone, Copy)]
pub struct Settled {
    /// Time from the call until all ConfigMaps were right.
    pub after: Duration,
    /// Number of reconciles until then, with any result, since the plugin was installed.
    pub reconciles: u64,
}

/// Nodes and pods on a control plane.
pub struct Fleet<'a> {
    plane: &'a ControlPlane,
    runtime: Runtime,
    client: Client,
    pods: Pods,
    maps: Api<ConfigMap>,
    nodes: Api<Node>,
    namespace: String,
}

/// Writes pods. A clone shares the client.
#[derive(Clone)]
struct Pods(Api<Pod>);

impl<'a> Fleet<'a> {
    /// An empty fleet with a new namespace.
    pub fn new(plane: &'a ControlPlane, namespace: &str) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let client = runtime.block_on(plane.client())?;
        let object: Namespace = serde_json::from_value(json!({"metadata": {"name": namespace}}))?;
        let namespaces: Api<Namespace> = Api::all(&client);
        runtime.block_on(namespaces.create(&object, &WriteParams::default()))?;
        Ok(Fleet {
            plane,
            pods: Pods(Api::namespaced(&client, namespace)),
            maps: Api::namespaced(&client, namespace),
            nodes: Api::all(&client),
            client,
            namespace: namespace.to_owned(),
            runtime,
        })
    }

    /// The runtime of the fleet's requests.
    pub fn runtime(&self) -> &Handle {
        self.runtime.handle()
    }

    /// The client of the fleet. It belongs to the fleet's runtime.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Installs `pods-per-node` for this fleet.
    pub fn install(&self, host: &Host) -> anyhow::Result<()> {
        host.install(PLUGIN, &guests::wasm(PLUGIN)?, Some(&self.manifest()))
    }

    /// The manifest of `pods-per-node` for this fleet.
    pub fn manifest(&self) -> String {
        let namespace = self.namespace.as_str();
        Manifest::new(PLUGIN)
            .config(json!({"namespace": namespace}))
            .grant(&["nodes", "pods"], &["get", "list", "watch"], &["*"])
            .grant(&["configmaps"], &["get", "list", "watch", "create", "update", "delete"], &[namespace])
            .to_string()
    }

    /// Creates a node.
    pub fn add_node(&self, name: &str) -> anyhow::Result<()> {
        let node: Node = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        let made = self.runtime.block_on(self.nodes.create(&node, &WriteParams::default()));
        made.map(drop).with_context(|| format!("creating the node {name}"))
    }

    /// Deletes a node. Its pods stay, because no controller runs.
    pub fn delete_node(&self, name: &str) -> anyhow::Result<()> {
        let deleted = self.runtime.block_on(self.nodes.delete(name, &DeleteParams::default()));
        deleted.map(drop).with_context(|| format!("deleting the node {name}"))
    }

    /// Creates many pods, distributed over the nodes and phases.
    pub fn add_pods(&self, prefix: &str, count: usize, nodes: &[String]) -> anyhow::Result<()> {
        self.at_once(0..count, |pods, number| {
            let (name, node) = (format!("{prefix}-{number}"), nodes[number % nodes.len()].clone());
            // The phase changes once per round of nodes, so that each node has all phases.
            let phase = PHASES[(number / nodes.len()) % PHASES.len()];
            async move {
                pods.create(&name, &node).await?;
                if phase == PHASES[0] { Ok(()) } else { pods.set_phase(&name, phase).await }
            }
        })
    }

    /// Deletes pods that [`Fleet::add_pods`] created, if they still exist.
    pub fn delete_pods(&self, prefix: &str, numbers: std::ops::Range<usize>) -> anyhow::Result<()> {
        self.at_once(numbers, |pods, number| {
            let name = format!("{prefix}-{number}");
            async move { pods.delete(&name).await }
        })
    }

    fn at_once<Fut>(
        &self,
        numbers: std::ops::Range<usize>,
        work: impl Fn(Pods, usize) -> Fut,
    ) -> anyhow::Result<()>
    where
        Fut: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.runtime.block_on(async {
            let (places, mut tasks) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
            for number in numbers {
                let place = places.clone().acquire_owned().await?;
                let work = work(self.pods.clone(), number);
                tasks.spawn(async move {
                    let result = work.await;
                    drop(place);
                    result
                });
            }
            while let Some(result) = tasks.join_next().await {
                result??;
            }
            Ok(())
        })
    }

    /// The expected ConfigMaps, computed from new quorum lists of nodes and pods.
    pub fn expected(&self) -> anyhow::Result<Counts> {
        let (nodes, pods) = (self.list::<Node>("/api/v1/nodes")?, self.list::<Pod>("/api/v1/pods")?);
        let mut counts: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
        for node in nodes.items {
            let name = node.metadata.name.unwrap_or_default();
            counts.insert(name, BTreeMap::from([("total".to_owned(), 0)]));
        }
        for pod in pods.items {
            let node = pod.spec.and_then(|spec| spec.node_name).unwrap_or_default();
            let Some(entries) = counts.get_mut(&node) else { continue };
            let phase = pod.status.and_then(|status| status.phase).unwrap_or_else(|| "Unknown".to_owned());
            for entry in [phase, "total".to_owned()] {
                *entries.entry(entry).or_default() += 1;
            }
        }
        let text = |entries: BTreeMap<String, usize>| {
            entries.into_iter().map(|(entry, pods)| (entry, pods.to_string())).collect()
        };
        Ok(counts.into_iter().map(|(node, entries)| (map_of(&node), text(entries))).collect())
    }

    /// Lists with kubectl. Without a resource version the API server responds with the newest state.
    fn list<K: ListableResource + DeserializeOwned>(&self, path: &str) -> anyhow::Result<List<K>> {
        let text = self.plane.kubectl(&["get", "--raw", path])?;
        serde_json::from_str(&text).with_context(|| format!("the list at {path}"))
    }

    /// The actual ConfigMaps of the plugin.
    pub fn written(&self) -> anyhow::Result<Counts> {
        let label_selector = "app.kubernetes.io/managed-by=pods-per-node".to_owned();
        let list = ListParams { label_selector, ..ListParams::default() };
        let maps = self.runtime.block_on(self.maps.list(&list))?.items;
        let named = maps.into_iter().map(|map| (map.metadata.name.unwrap_or_default(), map.data));
        Ok(named.map(|(name, data)| (name, data.unwrap_or_default())).collect())
    }

    /// Starts to create, delete, move and change pods on these nodes, `per_second` times a second. The same seed makes
    /// the same choices, as long as requests end in the same order.
    pub fn churn(&self, per_second: u32, seed: u64, nodes: &[String]) -> anyhow::Result<Churn> {
        let pods = self.runtime.block_on(self.pods.0.list(&ListParams::default()))?;
        let names = pods.items.into_iter().filter_map(|pod| pod.metadata.name).collect();
        Ok(Churn::start(self.runtime(), self.pods.clone(), per_second, seed, nodes, names))
    }

    /// Waits until the ConfigMaps equal the expected ones and the plugin is idle. Pods and nodes must not change during
    /// the wait.
    pub fn settle(&self, host: &Host, deadline: Duration) -> anyhow::Result<Settled> {
        let began = Instant::now();
        let expected = self.expected()?;
        let mut right_since = None;
        let reconciles = host.wait_for("every ConfigMap to equal a fresh list", deadline, || {
            let before = rest::quiet(host, PLUGIN)?;
            if let Some(difference) = difference(&expected, &self.written()?) {
                right_since = None;
                anyhow::bail!(difference);
            }
            right_since.get_or_insert_with(|| began.elapsed());
            // A running write could change the ConfigMaps again.
            match (before, rest::quiet(host, PLUGIN)?) {
                (Some(before), Some(now)) if before == now => Ok(Some(now)),
                _ => anyhow::bail!("all are right, but {PLUGIN} is still at work"),
            }
        })?;
        // Fails if the test itself changed pods or nodes.
        let again = self.expected()?;
        anyhow::ensure!(again == expected, "pods or nodes have changed while the host came to rest");
        Ok(Settled { after: right_since.unwrap_or_default(), reconciles })
    }
}

/// The name of a node's ConfigMap.
pub fn map_of(node: &str) -> String {
    format!("pods-on-{node}")
}

/// The differences between expected and actual ConfigMaps, one ConfigMap a line.
fn difference(expected: &Counts, written: &Counts) -> Option<String> {
    let mut lines = Vec::new();
    for (name, data) in expected {
        match written.get(name) {
            None => lines.push(format!("{name}: missing, should be {data:?}")),
            Some(has) if has != data => lines.push(format!("{name}: is {has:?}, should be {data:?}")),
            Some(_) => {}
        }
    }
    for name in written.keys().filter(|name| !expected.contains_key(*name)) {
        lines.push(format!("{name}: should be gone, its node is"));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

impl Pods {
    async fn create(&self, name: &str, node: &str) -> anyhow::Result<()> {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "none"}]},
        }))?;
        let made = self.0.create(&pod, &WriteParams::default()).await;
        made.map(drop).with_context(|| format!("creating the pod {name}"))
    }

    /// Deletes a pod without a grace period, because no kubelet runs that would confirm its end. A pod that is not there is no
    /// failure: the client repeats a DELETE that the server answered with 503 and `Retry-After`, which it may have done.
    async fn delete(&self, name: &str) -> anyhow::Result<()> {
        let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        match self.0.delete(name, &at_once).await {
            Err(error) if error.is_not_found() => Ok(()),
            deleted => deleted.map(drop).with_context(|| format!("deleting the pod {name}")),
        }
    }

    async fn set_phase(&self, name: &str, phase: &str) -> anyhow::Result<()> {
        let patch = json!({"status": {"phase": phase}}).to_string();
        let params = WriteParams { subresource: Some("status".to_owned()), ..WriteParams::default() };
        let patched = self.0.patch(name, Patch::Merge(patch.as_bytes()), &params).await;
        patched.map(drop).with_context(|| format!("setting the phase of the pod {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(entries: &[(&str, &str)]) -> Counts {
        let data = |total: &str| BTreeMap::from([("total".to_owned(), total.to_owned())]);
        entries.iter().map(|(name, total)| ((*name).to_owned(), data(total))).collect()
    }

    #[test]
    fn each_kind_of_difference_is_told() {
        let expected = counts(&[("pods-on-a", "1"), ("pods-on-b", "2")]);
        assert_eq!(difference(&expected, &expected), None);
        let told = difference(&expected, &counts(&[("pods-on-a", "2"), ("pods-on-c", "0")])).unwrap();
        assert_eq!(
            told.lines().collect::<Vec<_>>(),
            [
                r#"pods-on-a: is {"total": "2"}, should be {"total": "1"}"#,
                r#"pods-on-b: missing, should be {"total": "2"}"#,
                "pods-on-c: should be gone, its node is",
            ]
        );
    }
}
