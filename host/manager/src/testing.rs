//! For the unit tests of this crate: a component whose guests are scripted, a plugin with a fake API server, and panics of
//! the host ([`panics`]).
//!
//! Tests run on tokio's paused clock, where a sleep ends as soon as no task can run: [`settle`] is such a sleep.

pub(crate) mod panics;

mod rules;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use pilothouse_cache::testing::{FakeControllerSource, config_maps};
use pilothouse_cache::{FactoryOptions, SharedInformerFactory};
use pilothouse_client::{Client, ClientOptions};
use pilothouse_engine::{Event, Fault, FaultKind, HostImports, LoadError, Outcome, Request};
use pilothouse_executor::Executor;
use pilothouse_plugin::directory::Files;
use pilothouse_plugin::{AllowLists, Description, Grants, Limits, Manifest, World};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use pilothouse_workqueue::Timekeeper;

pub(crate) use self::rules::FakeRules;
use crate::access::AccessReviews;
use crate::dispatch::guest::{Answer, Compiler, Component, Guest};
use crate::dispatch::instance_pool::{InstancePool, PoolBounds};
use crate::leader_election::LeaderElection;
use crate::lifecycle::component_source::ComponentSource;
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

    fn context(&self, election: LeaderElection) -> HostContext {
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
        }
    }
}

pub(crate) fn host_context(election: LeaderElection) -> HostContext {
    TestHost::new().context(election)
}

/// One call, as the guest sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GuestCall {
    /// Digest of the component.
    pub(crate) digest: &'static str,
    /// `reconcile`, `reconcile-many`, `on-add`, `on-update` or `on-delete`.
    pub(crate) function: &'static str,
    pub(crate) keys: Vec<String>,
    pub(crate) attempts: Vec<u32>,
    pub(crate) reasons: Vec<Vec<&'static str>>,
}

/// The answers to a call: one for each key of a reconcile.
pub(crate) type Answers = Result<Vec<Answer>, Fault>;

type Script = Arc<dyn Fn(GuestCall) -> BoxFuture<'static, Answers> + Send + Sync>;

/// The answer of a scripted `describe`.
type Described = Result<Result<Vec<u8>, String>, Fault>;

/// A component whose guests answer by a script; each call is reported to the test before it is answered.
pub(crate) struct FakeComponent {
    digest: &'static str,
    world: World,
    described: Described,
    /// From this instance on `describe` answers so.
    later: Option<(usize, Described)>,
    script: Script,
    calls: mpsc::UnboundedSender<GuestCall>,
    instances: AtomicUsize,
    is_mapped: Arc<AtomicBool>,
    /// Instances that are refused first, and how.
    refusals: Mutex<(usize, Option<Fault>)>,
    code: LostCode,
}

/// The machine code of a component, which a test takes away.
#[derive(Default)]
struct LostCode {
    is_lost: AtomicBool,
    restores: AtomicUsize,
    /// What the next attempts to restore it answer, the last one first.
    failures: Mutex<Vec<LoadError>>,
}

/// The calls of a component, in order.
pub(crate) struct Calls(mpsc::UnboundedReceiver<GuestCall>);

impl FakeComponent {
    /// A component that is done with each key at once.
    pub(crate) fn new(digest: &'static str, world: World, description: Value) -> (Self, Calls) {
        let (calls, receiver) = mpsc::unbounded_channel();
        let described = Ok(Ok(description_text(description)));
        let script: Script = Arc::new(|call| Box::pin(async move { done(&call) }));
        let (instances, is_mapped) = (AtomicUsize::new(0), Arc::default());
        let component = Self {
            digest,
            world,
            described,
            later: None,
            script,
            calls,
            instances,
            is_mapped,
            refusals: Mutex::default(),
            code: LostCode::default(),
        };
        (component, Calls(receiver))
    }

    /// A reconciler without watches.
    pub(crate) fn reconciler() -> (Self, Calls) {
        Self::new("sha256:a", World::Reconciler, json!({}))
    }

    /// Answers calls with what the script returns.
    pub(crate) fn script<F, A>(mut self, script: F) -> Self
    where
        F: Fn(GuestCall) -> A + Send + Sync + 'static,
        A: Future<Output = Answers> + Send + 'static,
    {
        self.script = Arc::new(move |call| Box::pin(script(call)));
        self
    }

    /// Answers each call well once it has taken a permit.
    pub(crate) fn held(self, permits: &Arc<Semaphore>) -> Self {
        let permits = Arc::clone(permits);
        self.script(move |call| {
            let permits = Arc::clone(&permits);
            async move {
                permits.acquire().await.unwrap().forget();
                done(&call)
            }
        })
    }

    /// Refuses the first instances with this fault.
    pub(crate) fn refuse(self, times: usize, fault: Fault) -> Self {
        *self.refusals.lock() = (times, Some(fault));
        self
    }

    /// Answers `describe` so.
    pub(crate) fn described(mut self, described: Described) -> Self {
        self.described = described;
        self
    }

    /// Answers `describe` so from the instance with this number on.
    pub(crate) fn described_later(mut self, instance: usize, described: Described) -> Self {
        self.later = Some((instance, described));
        self
    }

    /// Takes the machine code away; the next attempts to restore it fail so.
    pub(crate) fn lose_code(&self, failures: &[LoadError]) {
        self.code.failures.lock().extend(failures.iter().rev().cloned());
        self.code.is_lost.store(true, Relaxed);
    }

    /// How often the machine code was restored, or an attempt failed.
    pub(crate) fn restores(&self) -> usize {
        self.code.restores.load(Relaxed)
    }

    /// Instances made so far.
    pub(crate) fn instances(&self) -> usize {
        self.instances.load(Relaxed)
    }

    /// Whether the code is mapped.
    pub(crate) fn is_mapped(&self) -> bool {
        self.is_mapped.load(Relaxed)
    }
}

impl Calls {
    /// Waits for the next call; on the paused clock this runs timers.
    pub(crate) async fn next(&mut self) -> GuestCall {
        self.0.recv().await.expect("a call")
    }

    /// Waits for the next call and returns its keys.
    pub(crate) async fn next_keys(&mut self) -> Vec<String> {
        self.next().await.keys
    }

    /// The calls made so far, when no task can run any more: function and first key of each.
    pub(crate) async fn so_far(&mut self) -> Vec<String> {
        settle().await;
        self.begun()
    }

    /// The calls that have begun: function and first key of each.
    pub(crate) fn begun(&mut self) -> Vec<String> {
        let mut calls = Vec::new();
        while let Ok(call) = self.0.try_recv() {
            calls.push(format!("{} {}", call.function, call.keys.join(",")));
        }
        calls
    }
}

/// A description with the fields that it must have.
pub(crate) fn description_text(mut description: Value) -> Vec<u8> {
    description["apiVersion"] = json!("pilothouse.dev/describe/v1alpha1");
    description["name"] = json!("p");
    description.to_string().into_bytes()
}

/// `done` for each key.
pub(crate) fn done(call: &GuestCall) -> Answers {
    Ok(call.keys.iter().map(|_| Ok(Outcome::Done)).collect())
}

/// A fault of this kind.
pub(crate) fn fault(kind: FaultKind) -> Fault {
    Fault { kind, message: "scripted".to_owned() }
}

impl Component for FakeComponent {
    fn digest(&self) -> &str {
        self.digest
    }

    fn world(&self) -> Result<World, LoadError> {
        Ok(self.world)
    }

    fn restore(&self, _: Bytes) -> BoxFuture<'_, Result<(), LoadError>> {
        self.code.restores.fetch_add(1, Relaxed);
        let failure = self.code.failures.lock().pop();
        self.code.is_lost.store(failure.is_some(), Relaxed);
        Box::pin(async move { failure.map_or(Ok(()), Err) })
    }

    fn unload(&self) {
        self.is_mapped.store(false, Relaxed);
    }

    fn instantiate(
        &self,
        _: Arc<dyn HostImports>,
        _: Limits,
    ) -> BoxFuture<'_, Result<Box<dyn Guest>, Fault>> {
        if self.code.is_lost.load(Relaxed) {
            return Box::pin(async { Err(fault(FaultKind::CodeUnavailable)) });
        }
        let (left, fault) = &mut *self.refusals.lock();
        if let (1.., Some(fault)) = (*left, fault.as_ref()) {
            *left -= 1;
            let fault = fault.clone();
            return Box::pin(async move { Err(fault) });
        }
        let made = self.instances.fetch_add(1, Relaxed);
        self.is_mapped.store(true, Relaxed);
        let guest = FakeGuest {
            digest: self.digest,
            described: match &self.later {
                Some((instance, described)) if made >= *instance => described.clone(),
                _ => self.described.clone(),
            },
            script: Arc::clone(&self.script),
            calls: self.calls.clone(),
            is_usable: true,
        };
        Box::pin(async move { Ok(Box::new(guest) as Box<dyn Guest>) })
    }
}

struct FakeGuest {
    digest: &'static str,
    described: Described,
    script: Script,
    calls: mpsc::UnboundedSender<GuestCall>,
    is_usable: bool,
}

impl FakeGuest {
    fn call(&mut self, function: &'static str, requests: &[Request<'_>]) -> BoxFuture<'_, Answers> {
        let call = GuestCall {
            digest: self.digest,
            function,
            keys: requests.iter().map(|request| request.key.to_string()).collect(),
            attempts: requests.iter().map(|request| request.attempt).collect(),
            reasons: requests.iter().map(|request| request.reasons.to_vec()).collect(),
        };
        // The test may have stopped listening.
        let _ = self.calls.send(call.clone());
        self.is_usable = false;
        let answers = (self.script)(call);
        Box::pin(async move {
            let answers = answers.await;
            self.is_usable = answers.is_ok();
            answers
        })
    }
}

impl Guest for FakeGuest {
    fn is_usable(&self) -> bool {
        self.is_usable
    }

    fn memory(&self) -> usize {
        1 << 20
    }

    fn describe<'a>(&'a mut self, _: &'a [u8]) -> BoxFuture<'a, Described> {
        let described = self.described.clone();
        Box::pin(async move { described })
    }

    fn reconcile<'a>(&'a mut self, request: &'a Request<'a>, _: u64) -> BoxFuture<'a, Result<Answer, Fault>> {
        let answers = self.call("reconcile", std::slice::from_ref(request));
        Box::pin(async move { Ok(answers.await?.remove(0)) })
    }

    fn reconcile_many<'a>(&'a mut self, requests: &'a [Request<'a>], _: u64) -> BoxFuture<'a, Answers> {
        self.call("reconcile-many", requests)
    }

    fn handle<'a>(&'a mut self, event: &'a Event<'a>, _: u64) -> BoxFuture<'a, Result<(), Fault>> {
        let (function, key) = match event {
            Event::Added { object, .. } => ("on-add", object.key()),
            Event::Updated { new, .. } => ("on-update", new.key()),
            Event::Deleted { key, .. } => ("on-delete", *key),
        };
        let answers = self.call(function, &[Request { key, attempt: 0, reasons: &[] }]);
        Box::pin(async move { answers.await.map(drop) })
    }
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

/// The files of a plugin `p`, with this `spec` in the manifest.
pub(crate) fn files(wasm: &'static [u8], spec: &Value) -> Files {
    let manifest = json!({
        "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": "p"}, "spec": spec,
    });
    Files {
        name: "p".to_owned(),
        wasm_path: PathBuf::from("p.wasm"),
        wasm: Bytes::from_static(wasm),
        digest: String::new(),
        manifest_path: Some(PathBuf::from("p.yaml")),
        manifest_digest: "sha256:manifest".to_owned(),
        manifest: Manifest::parse(manifest.to_string().as_bytes()).unwrap(),
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
    /// The file of the component.
    pub(crate) wasm_path: PathBuf,
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
            work: Handle::current(),
            require_service_account: false,
            allowed: AllowLists::default(),
            slots: Arc::default(),
        };
        let plugin = Plugin::new("p", &host.context(election), &Metrics::new(), None);
        Self { host, plugin, loader, compiler, server, rules, wasm_path: PathBuf::from("p.wasm") }
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
        let files = Files { wasm_path: self.wasm_path.clone(), ..files(b"", &spec) };
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
            Description::parse(&text, component.world, &files.manifest.limits.descriptor).unwrap();
        let resources =
            description.watches.iter().map(|watch| (watch.kind.clone(), self.server.resource().clone()));
        let resources: HashMap<_, _> = resources.collect();
        let mut leasing = Leasing {
            number,
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
        let kinds = self.loader.lease_informers(&self.plugin, &leasing, &resources).unwrap();
        for lease in kinds.values().flat_map(|view| &view.leases) {
            assert!(lease.wait_synced().await);
        }
        let _ = imports.kinds.set(kinds);
        let source = ComponentSource {
            path: files.wasm_path.clone(),
            slots: Arc::clone(&self.loader.slots),
            work: Handle::current(),
        };
        Generation::new(&load, component.world, imports, description, source)
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
