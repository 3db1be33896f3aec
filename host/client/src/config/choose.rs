//! [`Chosen`]: the cluster and the user of one context, once they are known to be complete.

use super::file::{Cluster, Context, Kubeconfig, User, set};
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
    let chosen = context.filter(|name| !name.is_empty()).or(kubeconfig.current_context.as_deref());
    let Some(chosen) = chosen else {
        let contexts = contexts();
        return Err(error(format!("no current-context; choose one with --context (there are: {contexts})")));
    };
    let Some(Context { cluster, user, namespace }) = kubeconfig.contexts.get(chosen) else {
        return Err(error(format!("no context {chosen:?}; there are: {}", contexts())));
    };
    let cluster_name = cluster.clone().unwrap_or_default();
    let Some(cluster) = kubeconfig.clusters.get(&cluster_name) else {
        let clusters = names(kubeconfig.clusters.keys());
        return Err(error(format!(
            "context {chosen:?} names cluster {cluster_name:?}; there are: {clusters}"
        )));
    };
    let user_name = set(user.as_ref()).unwrap_or_default().to_owned();
    let user = match set(user.as_ref()) {
        // kubectl insists on a user; a server that needs no credentials does not.
        None => User::default(),
        Some(user) => kubeconfig.users.get(user).cloned().ok_or_else(|| {
            let users = names(kubeconfig.users.keys());
            error(format!("context {chosen:?} names user {user:?}; there are: {users}"))
        })?,
    };
    let namespace = set(namespace.as_ref()).map(str::to_owned);
    Ok(Chosen { cluster: cluster.clone(), source, cluster_name, user_name, user, namespace })
}

fn names<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<_> = names.map(String::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
