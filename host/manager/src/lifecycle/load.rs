//! Loading: from the files of a plugin to a generation that works.
//!
//! ```text
//! bytes ─ prepare ─ describe ─ resolve kinds ─ check grants ─ lease informers, build indexes ─ wait for caches ─ switch ─ feed
//! ```
//!
//! Everything up to the switch happens while the generation before, if there is one, goes on working; an error before the
//! switch leaves it in place. What depends on the API server is tried again until it is there.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_cache::{IndexFn, SharedInformerFactory};
use pilothouse_client::{ApiResource, Client, Identity, Impersonation, RateLimit};
use pilothouse_engine::{Code, Engine, HttpClient, HttpClientOptions, Instance, SystemResolver};
use pilothouse_object::{Gvk, Projection};
use pilothouse_plugin::directory::Files;
use pilothouse_plugin::{Access, Description, Grants, IndexSource, Manifest, Place, Scope};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::imports::api_calls::ApiCalls;
use crate::imports::log_limit::LogLimit;
use crate::imports::plugin_imports::{KindView, PluginImports};
use crate::lifecycle::config_sources::MergedConfig;
use crate::lifecycle::generation::{Feeds, Generation};
use crate::lifecycle::plugin::Plugin;

/// What loading needs of the host.
pub(crate) struct Loader {
    pub(crate) engine: Engine,
    pub(crate) client: Client,
    pub(crate) factory: SharedInformerFactory,
    pub(crate) io: Handle,
    pub(crate) guests: Handle,
    /// Refuse plugins that would act with the host's own identity.
    pub(crate) require_service_account: bool,
}

/// Most reconciles at once that a plugin gets by asking; a manifest may grant more. Each may hold an instance with its memory.
const DEFAULT_MOST_CONCURRENT: u32 = 16;

/// Keys that a queue may hold when its guest adds another, unless the manifest says otherwise: more than a cluster has objects of
/// one kind, and some 30 MiB.
const DEFAULT_QUEUE_DEPTH: usize = 250_000;

/// Most watches, indexes or schedules of one plugin: each costs the host something on every change or tick.
const MOST_ENTRIES: usize = 256;

/// What one generation is loaded from.
pub(crate) struct Load<'a> {
    pub(crate) files: &'a Files,
    pub(crate) code: &'a Code,
    pub(crate) config: &'a MergedConfig,
    /// The generation's.
    pub(crate) number: u64,
}

/// Why a generation is refused, and whether the manifest is to blame rather than the component.
pub(crate) struct Refused {
    manifest: bool,
    reason: String,
}

impl Refused {
    fn manifest(reason: String) -> Self {
        Self { manifest: true, reason }
    }

    fn map(self, change: impl FnOnce(String) -> String) -> Self {
        Self { reason: change(self.reason), ..self }
    }

    /// Records it on the plugin and logs it, with the name of the file to blame.
    pub(crate) fn record(&self, plugin: &Plugin, files: &Files) {
        let manifest = files.manifest_path.as_ref().filter(|_| self.manifest);
        let message = format!("{}: {}", manifest.unwrap_or(&files.wasm_path).display(), self.reason);
        let kept = plugin.current().map(|g| g.number);
        tracing::error!(plugin = &*plugin.name, kept, "plugin not loaded: {message}");
        plugin.load_failed(message);
    }
}

impl From<String> for Refused {
    fn from(reason: String) -> Self {
        Self { manifest: false, reason }
    }
}

/// First and longest wait before the API server is asked again.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

impl Loader {
    /// Makes the component of a plugin's files ready to run, if this host takes them.
    pub(crate) async fn prepare(&self, files: &Files) -> Result<Code, Refused> {
        if self.require_service_account && files.manifest.service_account.is_none() {
            return Err(Refused::manifest(
                "spec.serviceAccount is missing, and the host runs with --require-service-account: name the ServiceAccount for live calls"
                    .to_owned(),
            ));
        }
        Ok(self.engine.prepare(&files.wasm).await.map_err(|e| e.to_string())?)
    }

    /// Loads a generation and switches to it; a failure is recorded on the plugin and logged with the file's name.
    pub(crate) async fn load(&self, plugin: &Arc<Plugin>, load: &Load<'_>, cancel: &CancellationToken) {
        let Load { files, number, .. } = *load;
        let loaded = cancel.run_until_cancelled(self.build(plugin, load)).await;
        match loaded {
            // A newer version of the files is being loaded instead, or the plugin was removed.
            None => {}
            Some(Err(refused)) => {
                // It may be long until the next try.
                load.code.unload();
                // A guest says what it likes of its configuration.
                refused.map(|reason| load.config.hide(reason)).record(plugin, files);
            }
            Some(Ok(generation)) => {
                let digest = generation.code.digest().to_owned();
                if let Some(switched) = plugin.switch(Arc::new(generation), &self.io, cancel) {
                    tracing::info!(
                        plugin = &*plugin.name,
                        generation = number,
                        before = switched.before,
                        digest = digest.as_str(),
                        "plugin running"
                    );
                    plugin.reporter.running(number, switched.before, &digest);
                }
            }
        }
    }

    async fn build(&self, plugin: &Arc<Plugin>, load: &Load<'_>) -> Result<Generation, Refused> {
        let (manifest, number, code) = (&load.files.manifest, load.number, load.code.clone());
        let world = code.world().map_err(|e| e.to_string())?;
        let config = Arc::clone(load.config.json());
        let grants = Grants::new(manifest.permissions.clone());
        let imports = Arc::new(PluginImports {
            plugin: Arc::clone(&plugin.name),
            generation: number,
            config: Arc::clone(&config),
            queue: plugin.queue.clone(),
            queue_depth: manifest.limits.queue_depth.unwrap_or(DEFAULT_QUEUE_DEPTH),
            api_calls: ApiCalls {
                plugin: Arc::clone(&plugin.name),
                reporter: Arc::clone(&plugin.reporter),
                grants: grants.clone(),
                client: self.client.with_identity(identity(manifest)),
                availability: Arc::clone(self.factory.availability()),
                io: self.io.clone(),
                tasks: plugin.tasks.clone(),
                writes: Arc::clone(&plugin.writes),
                election: plugin.election.clone(),
            },
            events: Arc::clone(&plugin.events),
            http: HttpClient::new(HttpClientOptions {
                plugin: Arc::clone(&plugin.name),
                hosts: manifest.outgoing_hosts.clone(),
                user_agent: user_agent(manifest),
                resolver: Arc::new(SystemResolver),
                io: self.io.clone(),
                observer: Arc::new(plugin.metrics.http.clone()),
            }),
            log_limit: LogLimit::default(),
            kinds: OnceLock::new(),
        });
        let limits = manifest.limits.engine;
        // Guest code runs on the guests' own threads only.
        let described = {
            let (code, imports) = (code.clone(), Arc::clone(&imports));
            // A load that gives way to another one takes its call with it.
            AbortOnDropHandle::new(self.guests.spawn(async move {
                let mut instance = Instance::new(&code, imports, limits).await?;
                instance.describe(&config).await
            }))
        };
        let answer = described
            .await
            .map_err(|e| format!("describe: {e}"))?
            .map_err(|fault| {
                format!(
                    "describe failed: {fault}; see the plugin's own log lines; correct the plugin or spec.config of the manifest"
                )
            })?
            .map_err(|message| {
                format!(
                    "describe refused its configuration: {message}; correct spec.config of the manifest, or the sources of spec.configFrom"
                )
            })?;
        let description = Description::parse(&answer, world).map_err(|e| format!("describe: {e}"))?;
        if description.watches.len().max(description.indexes.len()).max(description.schedules.len())
            > MOST_ENTRIES
        {
            return Err(format!(
                "describe: more than {MOST_ENTRIES} watches, indexes or schedules; split the plugin"
            )
            .into());
        }
        for missing in grants.not_granted(&description.permissions) {
            let missing = load.config.hide(missing.to_string());
            tracing::warn!(
                plugin = &*plugin.name,
                "the manifest does not grant all requested permissions; missing: {missing}"
            );
        }
        for missing in manifest.outgoing_hosts.not_granted(&description.outgoing_hosts) {
            let missing = load.config.hide(missing.to_string());
            tracing::warn!(
                plugin = &*plugin.name,
                "the plugin asks for HTTP to {missing}, which is not granted; to grant it, add to spec.outgoingHosts of the manifest: \"{missing}\""
            );
        }
        let resources = self.resolve(plugin, &description, load.config).await;
        let kinds =
            self.lease(plugin, number, &description, &resources, &grants).map_err(Refused::manifest)?;
        plugin.writes.watch(kinds.values().map(|view| view.lease.id().clone()));
        let views: Vec<&KindView> = kinds.values().collect();
        if !Generation::wait_for_caches(&views, |error| plugin.set_error(Some(error))).await {
            return Err("the host is shutting down".to_owned().into());
        }
        plugin.await_predecessor().await;
        plugin.set_error(None);
        let most = manifest.limits.max_concurrent_reconciles.unwrap_or(DEFAULT_MOST_CONCURRENT);
        let max_concurrent = description.max_concurrent_reconciles.min(most);
        // The first call maps it again: a plugin that is never called costs no mapping.
        code.unload();
        // Set once, by this task alone.
        let _ = imports.kinds.set(kinds);
        Ok(Generation {
            number,
            code,
            imports,
            limits,
            max_concurrent,
            reconciles: world.reconciles(),
            batches: world.batches(),
            event_qps: manifest.limits.event_qps,
            description,
            on_reload: manifest.on_reload,
            feeds: Mutex::new(Feeds::default()),
            instances: AtomicUsize::new(0),
        })
    }

    /// Asks the server what the watched kinds are called, until it answers for all.
    async fn resolve(
        &self,
        plugin: &Plugin,
        description: &Description,
        config: &MergedConfig,
    ) -> HashMap<Gvk, ApiResource> {
        let mut resources = HashMap::new();
        for watch in &description.watches {
            let mut wait = RETRY.0;
            while !resources.contains_key(&watch.kind) {
                let permit = self.factory.availability().enter().await;
                let answer = self.client.discover(&watch.kind).await;
                permit.settle(answer.as_ref().is_err_and(pilothouse_client::Error::is_connection_refused));
                match answer {
                    Ok(resource) => {
                        resources.insert(watch.kind.clone(), resource);
                    }
                    Err(error) => {
                        let message = config.hide(format!("cannot watch {}: {error}; retrying", watch.kind));
                        tracing::warn!(plugin = &*plugin.name, "{message}");
                        plugin.set_error(Some(message));
                        tokio::time::sleep(wait.mul_f64(rand::random_range(0.8..1.2))).await;
                        wait = (wait * 2).min(RETRY.1);
                    }
                }
            }
        }
        resources
    }

    /// Takes shares in the informers that the watches need, and builds their indexes.
    fn lease(
        &self,
        plugin: &Plugin,
        number: u64,
        description: &Description,
        resources: &HashMap<Gvk, ApiResource>,
        grants: &Grants,
    ) -> Result<HashMap<Gvk, KindView>, String> {
        let mut kinds = HashMap::new();
        for (kind, resource) in resources {
            let mut namespaces = BTreeSet::new();
            for watch in description.watches.iter().filter(|watch| watch.kind == *kind) {
                namespaces.extend(granted(
                    grants,
                    resource,
                    watch.namespaces.as_deref().unwrap_or_default(),
                )?);
            }
            let one = match namespaces.iter().collect::<Vec<_>>().as_slice() {
                [Some(namespace)] => Some(namespace.clone()),
                // Several: one watch of all of them, filtered on the way to the plugin.
                _ => None,
            };
            let lease = match description.kept_fields(kind) {
                Some(fields) => {
                    let kept = Projection::of(fields);
                    self.factory.projected_informer(resource, one.as_deref(), &kept)
                }
                None => self.factory.informer(resource, one.as_deref()),
            };
            kinds.insert(kind.clone(), KindView::new(lease, grants));
        }
        for index in &description.indexes {
            let Some(view) = kinds.get_mut(&index.kind) else {
                return Err(format!(
                    "describe: index {:?} is over {}, which is not watched: add a watch, or remove the index",
                    index.name, index.kind
                ));
            };
            let mut function = match &index.source {
                IndexSource::Path(path) => IndexFn::path(path.clone()),
                IndexSource::Label(name) => IndexFn::label(name),
                IndexSource::Owner => IndexFn::owner_uid(),
            };
            if let Some(path) = &index.only_where {
                function = function.where_present(path.clone());
            }
            if let Some(separator) = &index.split {
                function = function.split(separator);
            }
            // Private to this generation: the next one may mean something else by the name.
            let name = format!("{}@{number}/{}", plugin.name, index.name);
            view.lease.indexer().add_indexer(&name, function).map_err(|e| e.to_string())?;
            view.indexes.insert(index.name.clone(), name);
        }
        Ok(kinds)
    }
}

/// The namespaces that a watch covers (`None`: all of them, or the cluster), if the grants let it.
fn granted(
    grants: &Grants,
    resource: &ApiResource,
    wanted: &[String],
) -> Result<Vec<Option<String>>, String> {
    let (group, plural) = (resource.gvk.group.as_str(), resource.plural.as_str());
    let mut covered: Option<Vec<Option<String>>> = None;
    for verb in ["list", "watch"] {
        let refuse = |place| {
            let access = Access { verb, group, resource: plural, subresource: None, place, name: None };
            grants.check(&access).err().map_or_else(String::new, |missing| missing.to_string())
        };
        let scope = match grants.scope(verb, group, plural, resource.namespaced) {
            Scope::All => wanted.iter().cloned().map(Some).collect(),
            Scope::None => {
                let everywhere = if resource.namespaced { Place::AllNamespaces } else { Place::Cluster };
                return Err(refuse(wanted.first().map_or(everywhere, |ns| Place::Namespace(ns))));
            }
            Scope::Some(namespaces) if wanted.is_empty() => namespaces.into_iter().map(Some).collect(),
            Scope::Some(namespaces) => {
                if let Some(outside) = wanted.iter().find(|ns| !namespaces.contains(ns)) {
                    return Err(refuse(Place::Namespace(outside)));
                }
                wanted.iter().cloned().map(Some).collect::<Vec<_>>()
            }
        };
        let scope = if scope.is_empty() { vec![None] } else { scope };
        covered = Some(match covered {
            // The narrower of the two verbs counts.
            Some(listed) if listed != [None] => listed,
            _ => scope,
        });
    }
    Ok(covered.unwrap_or_default())
}

/// Who a plugin is, to API servers and to others.
fn user_agent(manifest: &Manifest) -> String {
    format!("pilothouse/{} ({})", env!("CARGO_PKG_VERSION"), manifest.name)
}

fn identity(manifest: &Manifest) -> Identity {
    Identity {
        user_agent: user_agent(manifest),
        field_manager: manifest.name.clone(),
        impersonate: manifest.service_account.as_ref().map(|account| Impersonation {
            user: account.service_account_user(),
            // What the API server itself gives a service account.
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
