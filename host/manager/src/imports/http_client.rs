//! [`LazyHttpClient`]: the client for outgoing HTTP of one generation. It is made for the first request: most plugins make none.

use std::sync::{Arc, OnceLock};

use pilothouse_engine::{HttpClient, HttpClientOptions, SystemResolver};
use pilothouse_plugin::Manifest;
use tokio::runtime::Handle;

use crate::observe::metrics::PluginMetrics;

/// The User-Agent of a plugin.
pub(crate) fn user_agent(manifest: &Manifest) -> String {
    format!("pilothouse/{} ({})", env!("CARGO_PKG_VERSION"), manifest.name)
}

/// A client for the hosts that a manifest grants.
pub(crate) struct LazyHttpClient {
    manifest: Arc<Manifest>,
    metrics: Arc<PluginMetrics>,
    /// The runtime of its connections.
    work: Handle,
    client: OnceLock<HttpClient>,
}

impl LazyHttpClient {
    pub(crate) fn new(manifest: &Arc<Manifest>, metrics: &Arc<PluginMetrics>, work: &Handle) -> Self {
        Self {
            manifest: Arc::clone(manifest),
            metrics: Arc::clone(metrics),
            work: work.clone(),
            client: OnceLock::new(),
        }
    }

    /// The client, which all instances share.
    pub(crate) fn get(&self) -> HttpClient {
        let new = || {
            HttpClient::new(HttpClientOptions {
                plugin: self.manifest.name.as_str().into(),
                hosts: self.manifest.outgoing_hosts.clone(),
                qps: self.manifest.limits.http_qps,
                user_agent: user_agent(&self.manifest),
                resolver: Arc::new(SystemResolver),
                runtime: self.work.clone(),
                observer: Arc::clone(&self.metrics) as _,
            })
        };
        self.client.get_or_init(new).clone()
    }
}
