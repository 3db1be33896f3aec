//! From a kubeconfig, or a pod's service account, to what the transport and the calls need.
//!
//! ```text
//!  find ── file ──► choose ─┐
//!                           ├─► prepare ──► Loaded: address, TLS, proxy, credentials, impersonation
//!  in_cluster ──────────────┘
//! ```
//!
//! Every choice is checked, so that an error names the file, what is wrong in it and the remedy. Of the contents of the file
//! only names of contexts, clusters and users, paths of files and the program of a plugin reach a message, never what is
//! wrong: a token may stand where something else was expected.

mod choose;
mod file;
mod find;
mod in_cluster;
mod plugin;
mod prepare;

use std::path::Path;
use std::sync::Arc;

use http::Uri;

use crate::credentials::{Authorizer, Tls, blocking};
use crate::error::{Error, Result};
use crate::identity::Impersonation;
use crate::options::ClientOptions;
use crate::proxy::Proxy;

use choose::{Chosen, choose};
use find::{Environment, find};
use in_cluster::in_cluster;

/// A configuration that has been read and checked.
pub(crate) struct Loaded {
    /// Scheme, host, port and path prefix, without a `/` at the end.
    pub(crate) base: String,
    /// Host and port.
    pub(crate) host: String,
    pub(crate) default_namespace: String,
    pub(crate) tls: Arc<Tls>,
    pub(crate) proxy: Option<Proxy>,
    pub(crate) authorizer: Authorizer,
    pub(crate) impersonate: Option<Impersonation>,
}

/// Reads the configuration that the options ask for; runs an exec plugin if there is one.
pub(crate) async fn load(options: &ClientOptions) -> Result<Loaded> {
    let environment = Environment::of_process();
    let asked = options.clone();
    let (environment, chosen) = blocking(move || {
        let chosen = chosen(&asked, &environment);
        (environment, chosen)
    })
    .await?;
    prepare::prepare(chosen?, &environment.proxies, options.observer.clone()).await
}

fn chosen(options: &ClientOptions, environment: &Environment) -> Result<Chosen> {
    if let Some(server) = &options.server {
        if options.kubeconfig.is_some() || options.context.is_some() {
            let message = "name one of a server address, and a kubeconfig with its context";
            return Err(Error::Config(message.to_owned()));
        }
        return Ok(Chosen::server(server));
    }
    let context = options.context.as_deref().filter(|name| !name.is_empty());
    match find(options.kubeconfig.as_deref(), environment)? {
        Some((source, kubeconfig)) => choose(&source, kubeconfig, options.context.as_deref()),
        None if let Some(name) = context => Err(Error::Config(format!(
            "no context {name:?}: there is no kubeconfig; name one with --kubeconfig"
        ))),
        None => {
            let (host, port) = environment.service.as_ref().map_or(("", ""), |(host, port)| (host, port));
            in_cluster(Path::new(in_cluster::FOLDER), host, port)
        }
    }
}

fn parse_server(server: &str, what: &str) -> Result<Uri> {
    let error = |why: &str| Error::Config(format!("{what}: {why}; expected https://HOST:PORT"));
    // Wherever it stands: of a password with a `/` in it the rest would pass for a path.
    if server.contains('@') {
        return Err(error(
            "a user name in the address is not supported, put it into a user of the kubeconfig",
        ));
    }
    let uri: Uri = server.trim().parse().map_err(|_| error("not an address"))?;
    match uri.scheme_str() {
        Some("http" | "https") => {}
        _ => return Err(error("it does not begin with https:// or http://")),
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err(error("no host"));
    }
    if uri.query().is_some() {
        return Err(error("it has a query"));
    }
    Ok(uri)
}

#[cfg(test)]
mod tests;
