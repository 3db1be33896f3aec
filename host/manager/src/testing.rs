//! For the unit tests of this crate: a component whose guests are scripted, a plugin with a fake API server, and panics of
//! the host ([`panics`]).
//!
//! Tests run on tokio's paused clock, where a sleep ends as soon as no task can run: [`settle`] is such a sleep.

pub(crate) mod dev_server;
pub(crate) mod panics;

mod fake_guest;
mod rules;

use std::collections::HashMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use pilothouse_cache::testing::{FakeControllerSource, config_maps};
use pilothouse_cache::{FactoryOptions, SharedInformerFactory};
use pilothouse_client::{Client, ClientOptions};
use pilothouse_engine::LoadError;
use pilothouse_executor::Executor;
use pilothouse_plugin::directory::{Files, Places};
use pilothouse_plugin::{AllowLists, Description, Grants, Manifest};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use pilothouse_workqueue::Timekeeper;

pub(crate) use self::fake_guest::{Answers, Calls, FakeComponent, GuestCall, description_text, done, fault};
pub(crate) use self::rules::FakeRules;
use crate::access::AccessReviews;
use crate::dispatch::guest::{Compiler, Component};
use crate::dispatch::instance_pool::{InstancePool, PoolBounds};
use crate::imports::remote_clusters::ClusterTable;
use crate::leader_election::LeaderElection;
use crate::lifecycle::config_sources::{ConfigSources, MergedConfig, SharedSources};
use crate::lifecycle::generation::Generation;
use crate::lifecycle::informers::Leasing;
use crate::lifecycle::load::{Cause, Load, Loader};
use crate::lifecycle::plugin::{HostContext, Plugin};
use crate::lifecycle::schedules::Schedules;
use crate::lifecycle::standby::Standby;
use crate::observe::host_events::HostEvents;
use crate::observe::metrics::Metrics;

/// How long plugins of tests keep an idle instance.
pub(crate) const IDLE_TTL: Duration = Duration::from_secs(30);

/// Lets all tasks run until each of them waits.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// The parts of a host that its plugins share.
#[derive(Clone)]
pub(crate) struct TestHost {
    guests: Executor,
    pub(crate) instances: InstancePool,
    timekeeper: Timekeeper,
}

impl TestHost {
    /// A host with plenty of memory.
    pub(crate) fn new() -> Self {
        Self::with_memory(1 << 30)
    }

    /// A host with so many bytes for guests.
    pub(crate) fn with_memory(memory: u64) -> Self {
        let (guests, timekeeper) = (Executor::on_current_runtime(), Timekeeper::new());
        tokio::spawn({
            let timekeeper = timekeeper.clone();
            async move { timekeeper.run().await }
        });
        let instances = InstancePool::new(PoolBounds { memory, slots: 1000 }, IDLE_TTL, &guests);
        Self { guests, instances, timekeeper }
    }

    fn context(&self, election: LeaderElection, reloads: mpsc::UnboundedSender<Arc<str>>) -> HostContext {
        let Self { guests, instances, timekeeper } = self.clone();
        let standby = Standby::start(&election, &guests, &Handle::current());
        HostContext {
            guests,
            instances,
            timekeeper,
            work: Handle::current(),
            election,
            host: Arc::from("h"),
            host_events: HostEvents::default(),
            schedules: Schedules::start(&Handle::current()),
            standby,
            reloads,
        }
    }
}

pub(crate) fn host_context(election: LeaderElection) -> HostContext {
    TestHost::new().context(election, mpsc::unbounded_channel().0)
}

/// Compiles bytes to the component of that digest.
#[derive(Default)]
pub(crate) struct FakeCompiler {
    components: Mutex<HashMap<Bytes, Arc<FakeComponent>>>,
    next_error: Mutex<Option<LoadError>>,
}

impl FakeCompiler {
    /// From now on these bytes are this component.
    pub(crate) fn add(&self, wasm: &'static [u8], component: FakeComponent) -> Arc<FakeComponent> {
        let component = Arc::new(component);
        self.components.lock().insert(Bytes::from_static(wasm), Arc::clone(&component));
        component
    }

    /// The next compilation fails so.
    pub(crate) fn fail_next(&self, error: LoadError) {
        *self.next_error.lock() = Some(error);
    }
}

impl Compiler for FakeCompiler {
    fn prepare<'a>(&'a self, wasm: &'a Bytes) -> BoxFuture<'a, Result<Arc<dyn Component>, LoadError>> {
        let component = self.components.lock().get(wasm).cloned();
        let error = self.next_error.lock().take();
        Box::pin(async move {
            if let Some(error) = error {
                return Err(error);
            }
            assert_ne!(&**wasm, b"panic", "a bug");
            if **wasm == *b"endless" {
                return std::future::pending().await;
            }
            let component = component.ok_or_else(|| LoadError::Compile("unknown".to_owned()))?;
            Ok(component as Arc<dyn Component>)
        })
    }
}

/// A client of an address where nothing listens.
pub(crate) async fn unreachable_client() -> Client {
    let server = Some("http://127.0.0.1:1".to_owned());
    Client::new(ClientOptions { server, ..ClientOptions::default() }).await.unwrap()
}

/// A file of these bytes, the same in each test.
fn component_file(wasm: &[u8]) -> PathBuf {
    let folder = pilothouse_testkit::paths::target().join("tmp/components").join(hex(wasm));
    let path = folder.join("p.wasm");
    if !path.exists() {
        std::fs::create_dir_all(&folder).unwrap();
        // Another test may be making it.
        let mut file = tempfile::NamedTempFile::new_in(&folder).unwrap();
        file.write_all(wasm).unwrap();
        file.persist(&path).unwrap();
    }
    path
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The files of a plugin `p`, with this `spec` in the manifest. There is no file of a component without bytes.
pub(crate) fn files(wasm: &[u8], spec: &Value) -> Files {
    let manifest = json!({
        "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": "p"}, "spec": spec,
    });
    let wasm_path = if wasm.is_empty() { PathBuf::from("p.wasm") } else { component_file(wasm) };
    Files {
        name: "p".to_owned(),
        digest: format!("sha256:{}", hex(&Sha256::digest(wasm))),
        places: Places { component: wasm_path.display().to_string(), manifest: Some("p.yaml".to_owned()) },
        wasm_path,
        manifest_digest: "sha256:manifest".to_owned(),
        manifest: Arc::new(Manifest::parse(manifest.to_string().as_bytes()).unwrap()),
    }
}

/// Permissions to read ConfigMaps in these namespaces; those of all names if there are none.
pub(crate) fn reads(namespaces: &[&str], names: &[&str]) -> Value {
    json!([{
        "groups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"],
        "namespaces": namespaces, "names": names,
    }])
}

/// A plugin, a loader, and an API server that has ConfigMaps.
pub(crate) struct TestPlugin {
    pub(crate) host: TestHost,
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) loader: Loader,
    pub(crate) compiler: Arc<FakeCompiler>,
    pub(crate) server: FakeControllerSource,
    pub(crate) rules: FakeRules,
    reloads: Mutex<mpsc::UnboundedReceiver<Arc<str>>>,
}

impl TestPlugin {
    /// A plugin of a host without leader election.
    pub(crate) async fn new() -> Self {
        Self::of(LeaderElection::disabled()).await
    }

    /// A plugin of a host with this election.
    pub(crate) async fn of(election: LeaderElection) -> Self {
        Self::with(TestHost::new(), election).await
    }

    /// Another plugin of this host.
    pub(crate) async fn on(host: &TestHost) -> Self {
        Self::with(host.clone(), LeaderElection::disabled()).await
    }

    async fn with(host: TestHost, election: LeaderElection) -> Self {
        let server = FakeControllerSource::new(config_maps());
        let source = server.clone();
        let factory = SharedInformerFactory::new(
            Arc::new(move |_, namespace| source.source_in(namespace)),
            FactoryOptions::default(),
        );
        let compiler = Arc::new(FakeCompiler::default());
        let client = unreachable_client().await;
        let rules = FakeRules::default();
        let reviews = AccessReviews::new(Arc::new(rules.clone()));
        let loader = Loader {
            compiler: Arc::clone(&compiler) as _,
            sources: SharedSources::new(
                client.clone(),
                Arc::clone(factory.availability()),
                reviews.clone(),
                None,
            ),
            reviews,
            client,
            factory,
            clusters: ClusterTable::default(),
            work: Handle::current(),
            require_service_account: false,
            allowed: AllowLists::default(),
            slots: Arc::default(),
            recorder: None,
            indexes: Default::default(),
            fetcher: None,
        };
        let (sender, reloads) = mpsc::unbounded_channel();
        let plugin = Plugin::new("p", &host.context(election, sender), &Metrics::new(), None);
        Self { host, plugin, loader, compiler, server, rules, reloads: Mutex::new(reloads) }
    }

    /// The configuration of a manifest without `configFrom`.
    pub(crate) async fn config(&self, manifest: &Manifest) -> MergedConfig {
        ConfigSources::new(manifest, &self.loader.sources).next().await.unwrap()
    }

    /// Makes this component the current generation, with informers of the fake server.
    pub(crate) async fn run(&self, component: FakeComponent) -> Arc<FakeComponent> {
        self.run_with(component, json!({})).await
    }

    /// As [`run`](Self::run), with this `spec` in the manifest; all reads of ConfigMaps are granted unless it has permissions.
    pub(crate) async fn run_with(&self, component: FakeComponent, mut spec: Value) -> Arc<FakeComponent> {
        if spec.get("permissions").is_none() {
            spec["permissions"] = reads(&["*"], &[]);
        }
        let files = files(b"", &spec);
        let component = Arc::new(component);
        let generation = self.generation(&component, &files).await;
        self.plugin.switch(Arc::new(generation), Cause::Change, &CancellationToken::new()).unwrap();
        component
    }

    async fn generation(&self, component: &Arc<FakeComponent>, files: &Files) -> Generation {
        let config = self.config(&files.manifest).await;
        let code: Arc<dyn Component> = Arc::clone(component) as _;
        let number = self.plugin.next_number();
        let load = Load { files, code: &code, config: &config, number, cause: Cause::Change };
        let grants = Grants::new(files.manifest.permissions.clone());
        let imports = Arc::new(self.loader.imports(&self.plugin, &load, &grants));
        let text = component.described.clone().unwrap().unwrap();
        let description =
            Description::parse(&text, component.world().unwrap(), &files.manifest.limits.descriptor).unwrap();
        let resources =
            description.watches.iter().map(|watch| (watch.kind.clone(), self.server.resource().clone()));
        let resources: HashMap<_, _> = resources.collect();
        let mut leasing = Leasing {
            description: &description,
            grants: &grants,
            data: files.manifest.limits.data,
            warnings: &imports.warnings,
            rights: HashMap::new(),
        };
        if let Some(account) = &files.manifest.service_account {
            let rights = self.loader.await_rights(&self.plugin, account, &leasing, &resources).await;
            leasing.rights = rights.unwrap_or_else(|failure| panic!("{failure:?}"));
        }
        let kinds = self.loader.lease_informers(&self.plugin, &leasing, &resources).await.unwrap();
        for lease in kinds.values().flat_map(|view| &view.leases) {
            assert!(lease.wait_synced().await);
        }
        let _ = imports.kinds.set(kinds.into());
        let world = component.world().unwrap();
        Generation::new(&load, Arc::clone(&code), world, imports, description)
    }

    /// How often the plugin was to be loaded again since the last call of this.
    pub(crate) fn reloads(&self) -> usize {
        let mut reloads = self.reloads.lock();
        std::iter::from_fn(|| reloads.try_recv().ok()).count()
    }

    /// Adds a key to the queue, as a change of an object does.
    pub(crate) fn add(&self, key: &str) {
        use crate::dispatch::reasons::Reasons;
        self.plugin.gate().add(key.parse().unwrap(), Reasons::ADDED, Default::default());
    }

    /// Ends the plugin; all of its tasks must end by themselves.
    pub(crate) async fn end(&self) {
        self.plugin.retire();
        self.plugin.ended().await;
    }
}
