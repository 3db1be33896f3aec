//! [`Chosen`]: the cluster and the user of one context, once they are known to be complete.

use super::file::{Cluster, Kubeconfig, User, set};
use crate::error::{Error, Result};

/// One cluster and one user; a pod's service account looks the same.
pub(super) struct Chosen {
    /// What to call the configuration in messages.
    pub(super) source: String,
    pub(super) cluster_name: String,
    pub(super) cluster: Cluster,
    /// Empty where no kubeconfig names one.
    pub(super) user_name: String,
    pub(super) user: User,
    pub(super) namespace: Option<String>,
}

impl Chosen {
    /// A server that needs no credentials.
    pub(super) fn server(address: &str) -> Self {
        Self {
            source: "server address".to_owned(),
            cluster_name: String::new(),
            cluster: Cluster { server: Some(address.to_owned()), ..Cluster::default() },
            user_name: String::new(),
            user: User::default(),
            namespace: None,
        }
    }
}

/// The configuration of `context`, or of the current one.
pub(super) fn choose(source: &str, kubeconfig: Kubeconfig, context: Option<&str>) -> Result<Chosen> {
    let source = format!("kubeconfig {source}");
    let error = |message: String| Error::Config(format!("{source}: {message}"));
    let contexts = || names(kubeconfig.contexts.keys());
    let context_name = context.filter(|name| !name.is_empty()).or(kubeconfig.current_context.as_deref());
    let Some(context_name) = context_name else {
        let contexts = contexts();
        return Err(error(format!("no current-context; choose one with --context (there are: {contexts})")));
    };
    let context = kubeconfig
        .contexts
        .get(context_name)
        .ok_or_else(|| error(format!("no context {context_name:?}; there are: {}", contexts())))?;
    let missing = |what: &str, name: &str, all: String| {
        error(format!("context {context_name:?} names {what} {name:?}; there are: {all}"))
    };
    let cluster_name = context.cluster.clone().unwrap_or_default();
    let cluster = kubeconfig
        .clusters
        .get(&cluster_name)
        .ok_or_else(|| missing("cluster", &cluster_name, names(kubeconfig.clusters.keys())))?;
    let user = match set(context.user.as_ref()) {
        // kubectl insists on a user; a server that needs no credentials does not.
        None => User::default(),
        Some(name) => {
            let user = kubeconfig.users.get(name).cloned();
            user.ok_or_else(|| missing("user", name, names(kubeconfig.users.keys())))?
        }
    };
    let user_name = set(context.user.as_ref()).unwrap_or_default().to_owned();
    let namespace = set(context.namespace.as_ref()).map(str::to_owned);
    Ok(Chosen { cluster: cluster.clone(), source, cluster_name, user_name, user, namespace })
}

fn names<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<_> = names.map(String::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
