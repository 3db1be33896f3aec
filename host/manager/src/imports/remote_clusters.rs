//! [`RemoteClusters`]: a run's live calls to other clusters than its own; [`ClusterTable`]: the clusters of a host, for them.
//!
//! Invariants: a remote cluster has a number in the order of the manifest, whether the host has it or not; what holds for the
//! calls of a run at home holds for these: its identity, its limits, the write gate, the audit. Only permissions, connections and
//! the limits of the cluster are those of the remote cluster. No cache shows what is written there, so nothing waits for it.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;

use pilothouse_cache::{Availability, SharedInformerFactory};
use pilothouse_client::Client;
use pilothouse_engine::{ClientCall, ClientFuture, Refusal};
use pilothouse_plugin::{Grants, HOME_CLUSTER, Manifest, split_run};

use crate::imports::api_calls::ApiCalls;
use crate::lifecycle::load::identity;
use crate::observe::detail::{RemoteClusterView, RemoteClustersView};
use crate::observe::warnings::Warnings;

/// The clusters of a host by name, the home cluster included; a cheap clone.
#[derive(Clone, Default)]
pub(crate) struct ClusterTable(Arc<BTreeMap<String, TableEntry>>);

struct TableEntry {
    client: Client,
    availability: Arc<Availability>,
}

impl ClusterTable {
    /// The table of these clusters: their names, clients and informers.
    pub(crate) fn new<'a>(
        clusters: impl Iterator<Item = (&'a str, &'a Client, &'a SharedInformerFactory)>,
    ) -> Self {
        let entry = |(name, client, factory): (&str, &Client, &SharedInformerFactory)| {
            let (client, availability) = (client.clone(), Arc::clone(factory.availability()));
            (name.to_owned(), TableEntry { client, availability })
        };
        Self(Arc::new(clusters.map(entry).collect()))
    }

    /// Why a manifest that names this cluster has none.
    fn missing(&self, name: &str) -> String {
        let names: Vec<&str> = self.0.keys().map(String::as_str).collect();
        format!(
            "spec.remoteClusters: the host has no cluster {name:?}, it has: {}; name it in --clusters, or remove it from the \
             manifest",
            names.join(", ")
        )
    }
}

/// The remote clusters of one generation of a run.
pub(crate) struct RemoteClusters {
    /// The name of the cluster of the run, and those of the remote clusters.
    names: Arc<[String]>,
    /// Each remote cluster.
    clusters: Box<[RemoteCluster]>,
}

struct RemoteCluster {
    grants: Grants,
    /// The live calls to it, or why there are none.
    calls: Result<ApiCalls, Refusal>,
}

impl RemoteClusters {
    /// Those of a manifest, for the run whose calls to its own cluster are `own`. A cluster that the host does not have is a
    /// warning: it may have been taken out of the host before it is taken out of the manifest.
    pub(crate) fn new(own: &ApiCalls, manifest: &Manifest, host: &ClusterTable, warnings: &Warnings) -> Self {
        let home = split_run(&own.plugin).1.unwrap_or(HOME_CLUSTER);
        let mut names = vec![home.to_owned()];
        let mut clusters = Vec::new();
        for (name, rules) in manifest.remote_clusters_of(home) {
            names.push(name.to_owned());
            let grants = Grants::shared(Arc::clone(rules));
            let calls = match host.0.get(name) {
                Some(TableEntry { client, availability }) => Ok(ApiCalls {
                    remote_cluster: Some(name.into()),
                    grants: grants.clone(),
                    client: own.election.gated(
                        client.with_identity_limited_with(identity(manifest), &own.client),
                        &own.metrics,
                    ),
                    availability: Arc::clone(availability),
                    writes: Arc::default(),
                    ..own.clone()
                }),
                None => {
                    let why = host.missing(name);
                    tracing::warn!(event = "remote_cluster_missing", plugin = &*own.plugin, "{why}");
                    warnings.set(&format!("remote cluster {name}"), why.clone());
                    Err(Refusal::unavailable(format_args!("plugin {}: {why}", own.plugin)))
                }
            };
            clusters.push(RemoteCluster { grants, calls });
        }
        Self { names: names.into(), clusters: clusters.into() }
    }

    /// The names of all clusters, by their numbers.
    pub(crate) fn names(&self) -> Arc<[String]> {
        Arc::clone(&self.names)
    }

    /// The permissions in each remote cluster.
    pub(crate) fn grants(&self) -> impl Iterator<Item = &Grants> {
        self.clusters.iter().map(|cluster| &cluster.grants)
    }

    /// The remote clusters as `/plugins/NAME` shows them: those of one entry of the manifest together.
    pub(crate) fn view(&self) -> Vec<RemoteClustersView> {
        let mut names = self.names.iter().skip(1);
        let view = |(RemoteCluster { calls, .. }, name): (&RemoteCluster, &String)| {
            let error = match calls {
                Ok(calls) => (!calls.availability.is_up()).then(|| calls.away().message),
                Err(refusal) => Some(refusal.message.clone()),
            };
            RemoteClusterView { name: name.clone(), error }
        };
        let entries = self.clusters.chunk_by(|a, b| std::ptr::eq(a.grants.rules(), b.grants.rules()));
        let entry = |clusters: &[RemoteCluster]| RemoteClustersView {
            grants: clusters[0].grants.rules().to_vec(),
            clusters: clusters.iter().zip(names.by_ref()).map(view).collect(),
        };
        entries.map(entry).collect()
    }

    /// Makes a call to the remote cluster of this place: its number less one.
    pub(crate) fn call(&self, place: u32, call: ClientCall) -> ClientFuture {
        let refusal = match self.clusters.get(place as usize).map(|cluster| &cluster.calls) {
            Some(Ok(calls)) => return calls.call(call),
            Some(Err(refusal)) => refusal.clone(),
            // The engine has checked the number.
            None => Refusal::unsupported(format_args!("there is no cluster {}", call.cluster)),
        };
        Box::pin(ready(Err(refusal.into())))
    }
}

#[cfg(test)]
mod tests;
