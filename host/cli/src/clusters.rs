//! [`ClusterArgs`]: the flags of `run` for the clusters beside the home cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use pilothouse_client::ClientOptions;
use pilothouse_plugin::{HOME_CLUSTER, check_cluster_name};

#[derive(Args)]
pub(crate) struct ClusterArgs {
    /// Further clusters, as NAME or NAME=CONTEXT of the kubeconfig, separated by commas; manifests name them in spec.clusters and
    /// spec.remoteClusters
    #[arg(long, value_name = "NAME[=CONTEXT]", value_delimiter = ',', value_parser = cluster)]
    clusters: Vec<NamedCluster>,
    /// Kubeconfig file of the contexts of --clusters [default: that of --kubeconfig]
    #[arg(long, value_name = "FILE", requires = "clusters")]
    clusters_kubeconfig: Option<PathBuf>,
    /// Clusters that manifests may name, separated by commas [default: all, and none for Plugins of the cluster]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = name, requires = "clusters")]
    allow_clusters: Vec<String>,
}

/// A cluster by the name that manifests use, and its context in the kubeconfig.
#[derive(Debug, Clone, PartialEq)]
struct NamedCluster {
    name: String,
    context: String,
}

fn cluster(text: &str) -> Result<NamedCluster, String> {
    let (cluster, context) = text.split_once('=').unwrap_or((text, text));
    if context.is_empty() {
        return Err("the context is missing; write NAME=CONTEXT, or NAME alone".to_owned());
    }
    let not_a_name = |why: String| format!("{why}; for a context of another name write NAME=CONTEXT");
    let name = name(cluster).map_err(not_a_name)?;
    Ok(NamedCluster { name, context: context.to_owned() })
}

fn name(text: &str) -> Result<String, String> {
    if text == HOME_CLUSTER {
        return Err(format!(
            "{HOME_CLUSTER:?} is the cluster of --context, which manifests may always name; choose another name"
        ));
    }
    check_cluster_name(text).map(|()| text.to_owned())
}

impl ClusterArgs {
    /// How the client of each cluster is made, by name. What is not of a cluster is as for the home cluster.
    pub(crate) fn clients(&self, home: &ClientOptions) -> Result<BTreeMap<String, ClientOptions>> {
        let mut clients = BTreeMap::new();
        for NamedCluster { name, context } in &self.clusters {
            let options = ClientOptions {
                kubeconfig: self.clusters_kubeconfig.clone().or_else(|| home.kubeconfig.clone()),
                context: Some(context.clone()),
                ..home.clone()
            };
            if clients.insert(name.clone(), options).is_some() {
                bail!("--clusters: {name:?} is there twice: name each cluster once");
            }
        }
        if let Some(name) = self.allow_clusters.iter().find(|name| !clients.contains_key(*name)) {
            bail!(
                "--allow-clusters: the host has no cluster {name:?}: name it in --clusters, or leave it out here"
            );
        }
        Ok(clients)
    }

    /// The clusters that manifests may name, if that is bounded.
    pub(crate) fn allowed(self) -> Option<BTreeSet<String>> {
        (!self.allow_clusters.is_empty()).then(|| self.allow_clusters.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(clusters: &[&str]) -> ClusterArgs {
        let clusters = clusters.iter().map(|text| cluster(text).unwrap()).collect();
        ClusterArgs { clusters, clusters_kubeconfig: None, allow_clusters: Vec::new() }
    }

    #[test]
    fn a_cluster_has_a_name_of_its_own_or_that_of_its_context() {
        let home = ClientOptions {
            kubeconfig: Some("config".into()),
            compress_lists: true,
            ..ClientOptions::default()
        };
        let clients = args(&["east", "west=arn:aws:eks:eu-west-1:1:cluster/w=1"]).clients(&home).unwrap();
        let contexts =
            clients.iter().map(|(name, client)| (name.as_str(), client.context.as_deref().unwrap()));
        let wanted = [("east", "east"), ("west", "arn:aws:eks:eu-west-1:1:cluster/w=1")];
        assert_eq!(contexts.collect::<Vec<_>>(), wanted);
        assert!(clients.values().all(|client| client.kubeconfig == home.kubeconfig && client.compress_lists));
        let elsewhere = ClusterArgs { clusters_kubeconfig: Some("other".into()), ..args(&["east"]) };
        assert_eq!(elsewhere.clients(&home).unwrap()["east"].kubeconfig, Some("other".into()));
        let error = args(&["east", "east=west"]).clients(&home).unwrap_err().to_string();
        assert!(error.contains("\"east\" is there twice"), "{error}");
    }

    #[test]
    fn a_cluster_that_the_host_does_not_have_cannot_be_allowed() {
        let allowing = |names: &[&str]| {
            let allow_clusters = names.iter().map(|name| (*name).to_owned()).collect();
            ClusterArgs { allow_clusters, ..args(&["east", "west=admin@west"]) }
        };
        assert_eq!(allowing(&["west"]).clients(&ClientOptions::default()).unwrap().len(), 2);
        // The names of contexts are no names of clusters.
        for name in ["esat", "admin@west"] {
            let error = allowing(&["west", name]).clients(&ClientOptions::default()).unwrap_err().to_string();
            assert!(
                error.contains(&format!("{name:?}")) && error.contains("name it in --clusters"),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_no_name_of_a_cluster_is_refused_with_the_remedy() {
        for (text, words) in [
            ("home", "choose another name"),
            ("home=east", "choose another name"),
            ("arn:aws", "write NAME=CONTEXT"),
            ("East=east", "is not a DNS label"),
            ("east=", "the context is missing"),
            ("", "the context is missing"),
        ] {
            let error = cluster(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
