//! [`Stage`]: the setup of most tests: a host and a namespace of its own on the shared control plane.

use std::path::Path;

use anyhow::Result;

use crate::controlplane::Server;
use crate::host::HostOptions;
use crate::plugins::{self, Manifest};
use crate::{Cluster, ControlPlane, Host, guests};

/// A host, and a namespace that no other test uses.
#[derive(Debug)]
pub struct Stage {
    /// The host.
    pub host: Host,
    /// The objects of the control plane.
    pub cluster: Cluster,
    /// The namespace.
    pub namespace: &'static str,
}

impl Stage {
    /// Creates the namespace on the shared control plane and starts a host.
    ///
    /// # Errors
    /// When the control plane or the host does not start.
    pub fn new(server: Server, namespace: &'static str) -> Result<Stage> {
        let plane = ControlPlane::shared(server)?;
        Stage::with(plane, namespace, HostOptions::new(plane.kubeconfig()))
    }

    /// As [`Stage::new`], on another control plane and with options of the host.
    ///
    /// # Errors
    /// When the namespace cannot be created or the host does not start.
    pub fn with(plane: &ControlPlane, namespace: &'static str, options: HostOptions) -> Result<Stage> {
        let cluster = Cluster::of(plane)?;
        cluster.namespace(namespace)?;
        Ok(Stage { host: Host::start(options)?, cluster, namespace })
    }

    /// Installs a guest as a plugin and waits until it runs.
    ///
    /// # Errors
    /// When the plugin does not run in time.
    pub fn install(&self, name: &str, guest: &str, manifest: &Manifest) -> Result<()> {
        self.install_file(name, &guests::wasm(guest)?, manifest)
    }

    /// Installs a component as a plugin and waits until it runs.
    ///
    /// # Errors
    /// When the plugin does not run in time.
    pub fn install_file(&self, name: &str, wasm: &Path, manifest: &Manifest) -> Result<()> {
        self.host.install(name, wasm, Some(&manifest.to_string()))?;
        plugins::wait_running(&self.host, name).map(drop)
    }
}
