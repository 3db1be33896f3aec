//! [`Loader`]: from the files of a plugin to its current generation.
//!
//! ```text
//! prepare ─ describe ─ resolve kinds ─ lease informers, build indexes ─ wait for caches ─ await predecessor ─ switch
//! ```
//!
//! The generation before, if there is one, works until the switch; an error before the switch leaves it in place. A refusal
//! waits for a change of the files or of the configuration. Steps that depend on the API server are tried again until it
//! answers, and a failure of the host (input and output, time, resources) leads to another try of the whole load.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use pilothouse_cache::{Backoff, SharedInformerFactory};
use pilothouse_client::{Client, Identity, Impersonation, RateLimit};
use pilothouse_engine::LoadError;
use pilothouse_plugin::directory::{Files, read_component};
use pilothouse_plugin::{AllowLists, Grants, Manifest, printable};
use pilothouse_recording::Recorder;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::access::{AccessReviews, AskServer};
use crate::dispatch::guest::{Compiler, Component};
use crate::dispatch::recording::RecordedComponent;
use crate::imports::api_calls::ApiCalls;
use crate::imports::http_client::{LazyHttpClient, user_agent};
use crate::imports::kind_views::KindViews;
use crate::imports::plugin_imports::PluginImports;
use crate::imports::remote_clusters::{ClusterTable, RemoteClusters};
use crate::lifecycle::component_fetch::ComponentFetcher;
use crate::lifecycle::config_sources::{MergedConfig, SharedSources};
use crate::lifecycle::generation::Generation;
use crate::lifecycle::informers::{Leasing, wait_for_caches};
use crate::lifecycle::load_slots::LoadSlots;
use crate::lifecycle::plugin::Plugin;
use crate::lifecycle::rollback::{Rollback, RollbackRule, Version};
use crate::lifecycle::shared_indexes::SharedIndexes;
use crate::lifecycle::state::LoadWait;

/// The parts of the host that loading needs, with the client, the informers and the access reviews of one cluster.
#[derive(Clone)]
pub(crate) struct Loader {
    pub(crate) compiler: Arc<dyn Compiler>,
    pub(crate) client: Client,
    /// What `spec.configFrom` of the plugins names.
    pub(crate) sources: SharedSources,
    pub(crate) factory: SharedInformerFactory,
    /// All clusters of the host.
    pub(crate) clusters: ClusterTable,
    /// What the ServiceAccounts of plugins may do.
    pub(crate) reviews: AccessReviews,
    /// The threads for what grows with a plugin. Loads themselves are tasks there.
    pub(crate) work: Handle,
    /// Refuse plugins that would act with the host's own identity.
    pub(crate) require_service_account: bool,
    /// What manifests may name.
    pub(crate) allowed: AllowLists,
    /// Bounds the loads that work at once.
    pub(crate) slots: Arc<LoadSlots>,
    /// Records the calls of plugins.
    pub(crate) recorder: Option<Recorder>,
    pub(crate) indexes: Arc<SharedIndexes>,
    /// Gets the components of Plugins of the cluster; none where they are not followed.
    pub(crate) fetcher: Option<Arc<ComponentFetcher>>,
}

/// The sources of one generation.
#[derive(Clone, Copy)]
pub(crate) struct Load<'a> {
    pub(crate) files: &'a Files,
    pub(crate) code: &'a Arc<dyn Component>,
    pub(crate) config: &'a MergedConfig,
    /// Number of the generation.
    pub(crate) number: u64,
    pub(crate) cause: Cause<'a>,
}

/// Why a generation is loaded.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cause<'a> {
    /// The files or the configuration changed.
    Change,
    /// The ServiceAccount may again watch what the current generation watches, which is loaded once more.
    RightsRestored,
    /// The component and the configuration are those of an earlier generation.
    Rollback(&'a Rollback),
}

impl Load<'_> {
    pub(crate) fn manifest(&self) -> &Manifest {
        &self.files.manifest
    }

    /// The component and the configuration.
    pub(crate) fn version(&self) -> Version {
        Version { code: Arc::clone(self.code), config: self.config.clone() }
    }

    /// Says of a refusal that it is one of a rollback.
    fn with_rollback(&self, refused: Refused) -> Refused {
        let Cause::Rollback(rollback) = self.cause else { return refused };
        Refused {
            reason: format!(
                "generation {} stays, since the component of generation {} is refused under the present manifest: {}",
                rollback.from, rollback.to, refused.reason
            ),
            ..refused
        }
    }
}

/// Why a load ended without a generation.
#[derive(Debug)]
pub(crate) enum LoadFailure {
    /// The plugin is to blame: only a change of its files or of its configuration helps.
    Refused(Refused),
    /// The host is to blame, for this reason: the load is tried again.
    Retry(String),
    /// The machine code is lost since the component was prepared: the plugin is loaded anew.
    CodeLost(String),
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

    /// Logs it, and returns it with the name of the file to blame. The reason may quote a guest, and becomes printable.
    fn logged(&self, plugin: &Plugin, files: &Files) -> String {
        let place = match self.file {
            Blamed::Component => files.places.component.as_str(),
            Blamed::Manifest => files.places.manifest_or_component(),
        };
        let message = format!("{place}: {}", printable(&self.reason));
        let kept = plugin.current().map(|generation| generation.number);
        tracing::error!(
            event = "plugin_failed",
            plugin = &**plugin.name(),
            kept,
            "plugin not loaded: {message}"
        );
        message
    }
}

/// The component is to blame.
impl From<String> for Refused {
    fn from(reason: String) -> Self {
        Self { file: Blamed::Component, reason }
    }
}

impl From<Refused> for LoadFailure {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

/// The component is to blame.
impl From<String> for LoadFailure {
    fn from(reason: String) -> Self {
        Self::Refused(reason.into())
    }
}

impl From<LoadError> for LoadFailure {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::CodeLost(_) => Self::CodeLost(error.to_string()),
            _ if error.is_refusal() => error.to_string().into(),
            _ => Self::Retry(error.to_string()),
        }
    }
}

/// The pauses between the tries of a load: 1 s, doubling to 5 min, and up to twice as long.
pub(super) fn retries() -> Backoff {
    Backoff::new(Duration::from_secs(1), Duration::from_secs(300), Duration::MAX)
}

impl Loader {
    /// The loader of another cluster. Components and sources of configuration remain those of the home cluster.
    pub(crate) fn elsewhere(&self, cluster: &str, client: Client, factory: SharedInformerFactory) -> Self {
        let asker = AskServer::new(&client, Arc::clone(factory.availability()));
        let reviews = AccessReviews::in_cluster(cluster, Arc::new(asker));
        Self { reviews, client, factory, ..self.clone() }
    }

    /// Makes the component of a plugin's files ready to run. A refusal is recorded; a failure that is no fault of the plugin
    /// is tried again. None when there is no component, and after `cancel`.
    pub(super) async fn prepare(
        &self,
        plugin: &Plugin,
        files: &Files,
        cancel: &CancellationToken,
    ) -> Option<Arc<dyn Component>> {
        let mut backoff = retries();
        loop {
            match cancel.run_until_cancelled(self.try_prepare(files)).await? {
                Ok(code) => {
                    tracing::debug!(plugin = &**plugin.name(), "component prepared");
                    return Some(code);
                }
                Err(LoadFailure::Refused(refused)) => {
                    if !cancel.is_cancelled() {
                        plugin.files_refused(&refused.logged(plugin, files), cancel);
                    }
                    return None;
                }
                Err(LoadFailure::Retry(reason) | LoadFailure::CodeLost(reason)) => {
                    await_retry(plugin, &files.places.component, &reason, backoff.failure(), cancel).await?;
                }
            }
        }
    }

    /// One try. The component's bytes are held only while a slot is.
    async fn try_prepare(&self, files: &Files) -> Result<Arc<dyn Component>, LoadFailure> {
        if self.require_service_account && files.manifest.service_account.is_none() {
            return Err(Refused::manifest(
                "spec.serviceAccount is missing, and the host runs with --require-service-account: name the ServiceAccount for live calls"
                    .to_owned(),
            )
            .into());
        }
        self.allowed.check(&files.manifest).map_err(Refused::manifest)?;
        if let Some(fetcher) = &self.fetcher {
            // Before there is a slot: a server may be slow, and others load meanwhile.
            fetcher.fetch(files).await.map_err(LoadFailure::Retry)?;
        }
        let slot = self.slots.prepare().await.map_err(LoadFailure::Retry)?;
        let wasm = read(&files.wasm_path, &files.digest).await;
        if let (Err(_), Some(fetcher)) = (&wasm, &self.fetcher) {
            fetcher.forget(files).await;
        }
        let wasm = wasm.map_err(LoadFailure::Retry)?;
        let prepared = self.slots.run(slot, self.compiler.prepare(&wasm)).await;
        Ok(prepared.map_err(LoadFailure::Retry)??)
    }

    /// Loads a generation and switches to it; a refusal is recorded on the plugin and logged with the file's name, and a
    /// failure that is no fault of the plugin is tried again. Does nothing more once `cancel` says that newer files are
    /// loaded instead, or that the plugin was removed.
    pub(super) async fn load(&self, plugin: &Arc<Plugin>, load: &Load<'_>, cancel: &CancellationToken) {
        let mut load = *load;
        let mut backoff = retries();
        loop {
            let Some(built) = cancel.run_until_cancelled(self.build(plugin, &load)).await else { return };
            let failure = match built {
                Ok(generation) => return self.switch(plugin, generation, &load, cancel),
                Err(failure) => failure,
            };
            // The next load may come late.
            load.code.unload();
            // A guest may repeat its configuration in an error.
            match failure {
                LoadFailure::Refused(refused) => {
                    let reason = load.config.hide(refused.reason);
                    let refused = Refused { reason, ..refused };
                    if !cancel.is_cancelled() {
                        let error = load.with_rollback(refused).logged(plugin, load.files);
                        plugin.load_failed(&error, cancel);
                    }
                    return;
                }
                LoadFailure::CodeLost(reason) => return plugin.request_reload(&reason),
                LoadFailure::Retry(reason) => {
                    let reason = load.config.hide(reason);
                    let place = &load.files.places.component;
                    if await_retry(plugin, place, &reason, backoff.failure(), cancel).await.is_none() {
                        return;
                    }
                }
            }
            load.number = plugin.next_number();
        }
    }

    /// The steps up to the switch.
    async fn build(&self, plugin: &Arc<Plugin>, load: &Load<'_>) -> Result<Generation, LoadFailure> {
        // The generation that failed may be of an older manifest.
        if matches!(load.cause, Cause::Rollback(_))
            && !RollbackRule::of(load.manifest()).allows(load.code.digest())
        {
            let reason = "spec.rollback or spec.source.digest allows no return to the component of that generation; correct \
                          the plugin, or name the digest of a component that works";
            return Err(Refused::manifest(reason.to_owned()).into());
        }
        let world = load.code.world()?;
        let grants = Grants::new(load.manifest().permissions.clone());
        let imports = Arc::new(self.imports(plugin, load, &grants));
        let code = match &self.recorder {
            Some(recorder) => RecordedComponent::of(recorder, load, world, &imports),
            None => Arc::clone(load.code),
        };
        let description = {
            let _slot = self.slots.describe().await.map_err(LoadFailure::Retry)?;
            self.describe(plugin, load, &code, world, &imports).await?
        };
        tracing::debug!(plugin = &**plugin.name(), "plugin described");
        Self::warn_of_missing_grants(plugin, load, &grants, &description, &imports.warnings);
        let resources = self.resolve_kinds(plugin, &description, load.config).await;
        let mut leasing = Leasing {
            description: &description,
            grants: &grants,
            data: load.manifest().limits.data,
            warnings: &imports.warnings,
            rights: HashMap::new(),
        };
        if let Some(account) = &load.manifest().service_account {
            leasing.rights = self.await_rights(plugin, account, &leasing, &resources).await?;
        }
        let kinds = self.lease_informers(plugin, &leasing, &resources).await;
        let kinds = KindViews::from(kinds.map_err(Refused::manifest)?);
        plugin.writes().watch(kinds.values().flat_map(|view| &view.leases).map(|lease| lease.id().clone()));
        if !wait_for_caches(plugin, kinds.values()).await {
            return Err(LoadFailure::Retry("the host is shutting down".to_owned()));
        }
        tracing::debug!(plugin = &**plugin.name(), "caches filled");
        plugin.await_predecessor().await;
        plugin.load_waits(None);
        // The first call maps it again: a plugin that is never called costs no mapping.
        load.code.unload();
        // Set once, by this task alone.
        let _ = imports.kinds.set(kinds);
        Ok(Generation::new(load, code, world, imports, description))
    }

    fn switch(
        &self,
        plugin: &Arc<Plugin>,
        generation: Generation,
        load: &Load<'_>,
        cancel: &CancellationToken,
    ) {
        let number = generation.number;
        let digest = generation.code.digest().to_owned();
        let Some(switched) = plugin.switch(Arc::new(generation), load.cause, cancel) else { return };
        if let Cause::Rollback(rollback) = load.cause {
            tracing::error!(
                event = "plugin_rolled_back",
                plugin = &**plugin.name(),
                generation = number,
                from = rollback.from,
                to = rollback.to,
                digest = digest.as_str(),
                "plugin rolled back: {rollback}; a change of its files or of its configuration is tried again"
            );
            plugin.metrics().rollbacks.inc();
            return plugin.reporter().rolled_back(rollback, number);
        }
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
        let warnings = Arc::new(plugin.warnings());
        let api_calls = ApiCalls {
            plugin: Arc::clone(plugin.name()),
            remote_cluster: None,
            denials: Arc::clone(plugin.denials()),
            grants: grants.clone(),
            client: plugin.election().gated(self.client.with_identity(identity(manifest)), plugin.metrics()),
            metrics: Arc::clone(plugin.metrics()),
            availability: Arc::clone(self.factory.availability()),
            work: self.work.clone(),
            tasks: plugin.tasks().clone(),
            writes: Arc::clone(plugin.writes()),
            write_room: plugin.write_room().clone(),
            election: plugin.election().clone(),
        };
        PluginImports {
            plugin: Arc::clone(plugin.name()),
            generation: load.number,
            config: Arc::clone(load.config.json()),
            queue: plugin.queue().clone(),
            queue_depth: manifest.limits.queue_depth,
            selector_terms: manifest.limits.descriptor.selector_terms,
            remote_clusters: RemoteClusters::new(&api_calls, manifest, &self.clusters, &warnings),
            api_calls,
            events: Arc::clone(plugin.events()),
            http: LazyHttpClient::new(&load.files.manifest, plugin.metrics(), &self.work),
            log_limit: Arc::clone(plugin.log_limit()),
            metrics: Arc::clone(&plugin.metrics().guest),
            metric_series: manifest.limits.metric_series,
            host_time: plugin.metrics().host_time.clone(),
            warnings,
            kinds: OnceLock::new(),
        }
    }
}

/// Reads the component of this digest.
///
/// # Errors
/// When it cannot be read, or has another content. The directory reports such a change, and cancels the load.
async fn read(path: &Path, digest: &str) -> Result<Bytes, String> {
    let (path, digest) = (path.to_owned(), digest.to_owned());
    let read = tokio::task::spawn_blocking(move || read_component(&path, &digest)).await;
    let read = read.map_err(io::Error::from).and_then(|read| read);
    let read = read.map_err(|e| format!("it cannot be read: {e}"))?;
    read.ok_or_else(|| {
        "it changed while it was loaded; its new content is loaded once it is written as a whole".to_owned()
    })
}

/// Shows why a load waits for its next try, and waits. None when it was cancelled. The reason may quote a guest or a registry, and
/// becomes printable.
async fn await_retry(
    plugin: &Plugin,
    place: &str,
    reason: &str,
    delay: Duration,
    cancel: &CancellationToken,
) -> Option<()> {
    let reason = format!("{place}: {}", printable(reason));
    tracing::warn!(
        event = "plugin_load_delayed",
        plugin = &**plugin.name(),
        retry_in = ?delay,
        "plugin not loaded yet, and it is not the plugin's fault: {reason}"
    );
    let next_try = Instant::now() + delay;
    plugin.load_waits(Some(LoadWait { reason, may_be_long: true, next_try: Some(next_try) }));
    cancel.run_until_cancelled(tokio::time::sleep_until(next_try)).await
}

/// As whom the requests of a plugin are sent.
pub(crate) fn identity(manifest: &Manifest) -> Identity {
    Identity {
        user_agent: user_agent(manifest),
        field_manager: manifest.name.clone(),
        impersonate: manifest.service_account.as_ref().map(|account| Impersonation {
            user: account.service_account_user(),
            groups: account.service_account_groups(),
            ..Impersonation::default()
        }),
        rate_limit: manifest.limits.api_qps.map(|qps| RateLimit { qps, burst: RateLimit::usual_burst(qps) }),
    }
}

#[cfg(test)]
mod tests;
