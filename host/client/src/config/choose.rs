//! [`Chosen`]: the cluster and the user of one context, once they are known to be complete.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::file::{Cluster, Context, Kubeconfig, User, set};
use crate::client_config::{ClientConfig, ConfigOverrides};
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

    /// A configuration in memory.
    pub(super) fn memory(config: &ClientConfig) -> Self {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let pem = |pem: &[u8]| text(&BASE64_STANDARD.encode(pem));
        Self {
            source: "configuration in memory".to_owned(),
            cluster_name: String::new(),
            cluster: Cluster {
                server: text(&config.server),
                tls_server_name: text(&config.tls_server_name),
                insecure_skip_tls_verify: Some(config.insecure_skip_tls_verify),
                certificate_authority_data: pem(&config.ca),
                proxy_url: text(&config.proxy_url),
                ..Cluster::default()
            },
            user_name: String::new(),
            user: User {
                client_certificate_data: pem(&config.client_certificate),
                client_key_data: pem(&config.client_key),
                token: text(&config.token),
                token_file: text(&config.token_file.to_string_lossy()),
                username: text(&config.username),
                password: text(&config.password),
                ..User::default()
            },
            namespace: text(&config.namespace),
        }
    }
}

/// The configuration of `context`, or of the current one, with the cluster and the user of the overrides instead.
pub(super) fn choose(
    source: &str,
    kubeconfig: Kubeconfig,
    context: Option<&str>,
    overrides: &ConfigOverrides,
) -> Result<Chosen> {
    let source = format!("kubeconfig {source}");
    let error = |message: String| Error::Config(format!("{source}: {message}"));
    let contexts = || names(kubeconfig.contexts.keys());
    let context_name = context.filter(|name| !name.is_empty()).or(kubeconfig.current_context.as_deref());
    let context = match context_name {
        Some(name) => kubeconfig
            .contexts
            .get(name)
            .ok_or_else(|| error(format!("no context {name:?}; there are: {}", contexts())))?,
        None if overrides.cluster.is_some() => &Context::default(),
        None => {
            let contexts = contexts();
            return Err(error(format!(
                "no current-context; choose one with --context (there are: {contexts})"
            )));
        }
    };
    let context_name = context_name.unwrap_or_default();
    let missing = |what: &str, name: &str, overridden: bool, all: String| {
        error(match overridden {
            true => format!("no {what} {name:?}; there are: {all}"),
            false => format!("context {context_name:?} names {what} {name:?}; there are: {all}"),
        })
    };
    let cluster_name = overrides.cluster.clone().or(context.cluster.clone()).unwrap_or_default();
    let cluster = kubeconfig.clusters.get(&cluster_name).ok_or_else(|| {
        missing("cluster", &cluster_name, overrides.cluster.is_some(), names(kubeconfig.clusters.keys()))
    })?;
    let user_name = overrides.user.as_ref().or(context.user.as_ref());
    let user =
        match set(user_name) {
            // kubectl insists on a user; a server that needs no credentials does not.
            None => User::default(),
            Some(name) => kubeconfig.users.get(name).cloned().ok_or_else(|| {
                missing("user", name, overrides.user.is_some(), names(kubeconfig.users.keys()))
            })?,
        };
    let user_name = set(user_name).unwrap_or_default().to_owned();
    let namespace = set(context.namespace.as_ref()).map(str::to_owned);
    Ok(Chosen { cluster: cluster.clone(), source, cluster_name, user_name, user, namespace })
}

fn names<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<_> = names.map(String::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
