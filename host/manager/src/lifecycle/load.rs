//! [`Loader`]: from the files of a plugin to its current generation.
//!
//! ```text
//! prepare ─ describe ─ resolve kinds ─ lease informers, build indexes ─ wait for caches ─ await predecessor ─ switch
//! ```
//!
//! The generation before, if there is one, works until the switch; an error before the switch leaves it in place. Steps that
//! depend on the API server are tried again until it answers.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use pilothouse_cache::SharedInformerFactory;
use pilothouse_client::{Client, Identity, Impersonation, RateLimit};
use pilothouse_engine::{HttpClient, HttpClientOptions, SystemResolver};
use pilothouse_plugin::directory::Files;
use pilothouse_plugin::{Grants, Manifest};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::dispatch::guest::{Compiler, Component};
use crate::imports::api_calls::ApiCalls;
use crate::imports::log_limit::LogLimit;
use crate::imports::plugin_imports::PluginImports;
use crate::lifecycle::config_sources::MergedConfig;
use crate::lifecycle::generation::Generation;
use crate::lifecycle::informers::wait_for_caches;
use crate::lifecycle::plugin::Plugin;

/// The parts of the host that loading needs.
pub(crate) struct Loader {
    pub(crate) compiler: Arc<dyn Compiler>,
    pub(crate) client: Client,
    pub(crate) factory: SharedInformerFactory,
    pub(crate) io: Handle,
    pub(crate) guests: Handle,
    /// Refuse plugins that would act with the host's own identity.
    pub(crate) require_service_account: bool,
}

/// Keys that a queue may hold when its guest adds another, unless the manifest says otherwise: more than a cluster has objects of
/// one kind, and about 30 MiB.
const DEFAULT_QUEUE_DEPTH: usize = 250_000;

/// The sources of one generation.
pub(crate) struct Load<'a> {
    pub(crate) files: &'a Files,
    pub(crate) code: &'a Arc<dyn Component>,
    pub(crate) config: &'a MergedConfig,
    /// Number of the generation.
    pub(crate) number: u64,
}

impl Load<'_> {
    pub(super) fn manifest(&self) -> &Manifest {
        &self.files.manifest
    }
}

/// Why a generation is refused, and which file is to blame.
#[derive(Debug)]
pub(crate) struct Refused {
    file: Blamed,
    reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blamed {
    Component,
    Manifest,
}

impl Refused {
    /// The manifest is to blame.
    pub(super) fn manifest(reason: String) -> Self {
        Self { file: Blamed::Manifest, reason }
    }

    /// Records it on the plugin and logs it, with the name of the file to blame.
    pub(super) fn record(&self, plugin: &Plugin, files: &Files) {
        let manifest = files.manifest_path.as_ref().filter(|_| self.file == Blamed::Manifest);
        let message = format!("{}: {}", manifest.unwrap_or(&files.wasm_path).display(), self.reason);
        let kept = plugin.current().map(|generation| generation.number);
        tracing::error!(
            event = "plugin_failed",
            plugin = &**plugin.name(),
            kept,
            "plugin not loaded: {message}"
        );
        plugin.load_failed(&message);
    }
}

/// The component is to blame.
impl From<String> for Refused {
    fn from(reason: String) -> Self {
        Self { file: Blamed::Component, reason }
    }
}

impl Loader {
    /// Makes the component of a plugin's files ready to run, if this host accepts them.
    pub(super) async fn prepare(&self, files: &Files) -> Result<Arc<dyn Component>, Refused> {
        if self.require_service_account && files.manifest.service_account.is_none() {
            return Err(Refused::manifest(
                "spec.serviceAccount is missing, and the host runs with --require-service-account: name the ServiceAccount for live calls"
                    .to_owned(),
            ));
        }
        Ok(self.compiler.prepare(&files.wasm).await?)
    }

    /// Loads a generation and switches to it; a failure is recorded on the plugin and logged with the file's name. Does nothing
    /// more once `cancel` says that newer files are loaded instead, or that the plugin was removed.
    pub(super) async fn load(&self, plugin: &Arc<Plugin>, load: &Load<'_>, cancel: &CancellationToken) {
        match cancel.run_until_cancelled(self.build(plugin, load)).await {
            None => {}
            Some(Err(refused)) => {
                // The next load may come late.
                load.code.unload();
                // A guest may repeat its configuration in an error.
                let refused = Refused { reason: load.config.hide(refused.reason), ..refused };
                refused.record(plugin, load.files);
            }
            Some(Ok(generation)) => self.switch(plugin, generation, cancel),
        }
    }

    /// The steps up to the switch.
    async fn build(&self, plugin: &Arc<Plugin>, load: &Load<'_>) -> Result<Generation, Refused> {
        let world = load.code.world()?;
        let grants = Grants::new(load.manifest().permissions.clone());
        let imports = Arc::new(self.imports(plugin, load, &grants));
        let description = self.describe(load, world, &imports).await?;
        Self::warn_of_missing_grants(plugin, load, &grants, &description);
        let resources = self.resolve_kinds(plugin, &description, load.config).await;
        let kinds = self
            .lease_informers(plugin, load.number, &description, &resources, &grants)
            .map_err(Refused::manifest)?;
        plugin.writes().watch(kinds.values().map(|view| view.lease.id().clone()));
        if !wait_for_caches(plugin, kinds.values()).await {
            return Err("the host is shutting down".to_owned().into());
        }
        plugin.await_predecessor().await;
        plugin.set_error(None);
        // The first call maps it again: a plugin that is never called costs no mapping.
        load.code.unload();
        // Set once, by this task alone.
        let _ = imports.kinds.set(kinds);
        let code = Arc::clone(load.code);
        Ok(Generation::new(load.number, code, world, imports, description, load.manifest()))
    }

    fn switch(&self, plugin: &Arc<Plugin>, generation: Generation, cancel: &CancellationToken) {
        let number = generation.number;
        let digest = generation.code.digest().to_owned();
        let Some(switched) = plugin.switch(Arc::new(generation), &self.io, cancel) else { return };
        tracing::info!(
            event = "plugin_running",
            plugin = &**plugin.name(),
            generation = number,
            before = switched.before,
            digest = digest.as_str(),
            "plugin running"
        );
        plugin.reporter().running(number, switched.before, &digest);
    }

    /// The imports of one generation. Its kinds are set after the description is known.
    pub(crate) fn imports(&self, plugin: &Plugin, load: &Load<'_>, grants: &Grants) -> PluginImports {
        let manifest = load.manifest();
        PluginImports {
            plugin: Arc::clone(plugin.name()),
            generation: load.number,
            config: Arc::clone(load.config.json()),
            queue: plugin.queue().clone(),
            queue_depth: manifest.limits.queue_depth.unwrap_or(DEFAULT_QUEUE_DEPTH),
            api_calls: ApiCalls {
                plugin: Arc::clone(plugin.name()),
                reporter: Arc::clone(plugin.reporter()),
                grants: grants.clone(),
                client: self.client.with_identity(identity(manifest)),
                availability: Arc::clone(self.factory.availability()),
                io: self.io.clone(),
                tasks: plugin.tasks().clone(),
                writes: Arc::clone(plugin.writes()),
                election: plugin.election().clone(),
            },
            events: Arc::clone(plugin.events()),
            http: HttpClient::new(HttpClientOptions {
                plugin: Arc::clone(plugin.name()),
                hosts: manifest.outgoing_hosts.clone(),
                user_agent: user_agent(manifest),
                resolver: Arc::new(SystemResolver),
                io: self.io.clone(),
                observer: Arc::new(plugin.metrics().http.clone()),
            }),
            log_limit: LogLimit::default(),
            kinds: OnceLock::new(),
        }
    }
}

/// The path of the manifest, or of the component where the plugin has no manifest.
pub(super) fn manifest_path(files: &Files) -> &Path {
    files.manifest_path.as_deref().unwrap_or(&files.wasm_path)
}

/// The User-Agent of a plugin.
fn user_agent(manifest: &Manifest) -> String {
    format!("pilothouse/{} ({})", env!("CARGO_PKG_VERSION"), manifest.name)
}

fn identity(manifest: &Manifest) -> Identity {
    Identity {
        user_agent: user_agent(manifest),
        field_manager: manifest.name.clone(),
        impersonate: manifest.service_account.as_ref().map(|account| Impersonation {
            user: account.service_account_user(),
            // The groups that the API server itself gives a service account.
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{}", account.namespace),
                "system:authenticated".to_owned(),
            ],
            ..Impersonation::default()
        }),
        rate_limit: manifest.limits.api_qps.map(|qps| RateLimit { qps, burst: RateLimit::usual_burst(qps) }),
    }
}

#[cfg(test)]
mod tests;
