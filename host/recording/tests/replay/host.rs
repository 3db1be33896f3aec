//! A host in memory: what instances of a component do against it is recorded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use pilothouse_engine::{
    CacheImports, CacheQuery, CallContext, ClientAnswer, ClientCall, ClientFuture, ClientImports, ClientVerb,
    Code, Compiler, ConfigImports, Engine, EngineOptions, EventImports, Failure, Fault, GuestEvent,
    GuestMetric, HostImports, HttpClient, HttpImports, Instance, LogImports, LogLevel, MetricChange,
    MetricImports, MetricSpec, ObjectCursor, Outcome, QueueImports, ReasonSet, Refusal, Request,
    SystemImports, WaitFuture,
};
use pilothouse_object::{Gvk, Object, ObjectKey};
use pilothouse_plugin::Limits;
use pilothouse_recording::{
    InstanceInfo, Recorder, RecorderOptions, Recording, RecordingImports, ReplayOptions, ReplayReport, Tape,
    replay,
};
use pilothouse_testkit::{guests, paths};
use serde_json::{Value, json};

/// A member of the probe's configuration that is secret, and that it does not use in a reconcile.
pub(crate) const SECRET_MEMBER: &str = "labelSelector";

/// The token of each ServiceAccount.
pub(crate) const TOKEN: &str = "ey.made-of-the.server";

/// The objects of the host, and its configuration.
#[derive(Default)]
pub(crate) struct Cluster {
    pub(crate) objects: BTreeMap<(String, String), Object>,
    pub(crate) config: Arc<[u8]>,
    pub(crate) http: Option<HttpClient>,
    /// The name of a remote cluster, with the same objects.
    pub(crate) remote: Option<&'static str>,
}

impl Cluster {
    pub(crate) fn new(config: &Value) -> Self {
        Self { config: config.to_string().into_bytes().into(), ..Self::default() }
    }

    pub(crate) fn with(mut self, object: &Value) -> Result<Self> {
        let object = Object::decode(object.to_string().as_bytes())?;
        self.objects.insert((object.kind().to_owned(), object.key().as_str().to_owned()), object);
        Ok(self)
    }
}

impl ConfigImports for Cluster {
    fn config(&self) -> Arc<[u8]> {
        Arc::clone(&self.config)
    }
}

impl SystemImports for Cluster {}

impl HttpImports for Cluster {
    fn http(&self) -> Option<HttpClient> {
        self.http.clone()
    }
}

impl LogImports for Cluster {
    fn log_enabled(&self, level: LogLevel) -> bool {
        level >= LogLevel::Info
    }

    fn log(&self, _: &CallContext, _: LogLevel, _: &str, _: &[(String, String)]) {}
}

impl CacheImports for Cluster {
    fn cache_get(&self, kind: &Gvk, key: &ObjectKey) -> Result<Option<Object>, Refusal> {
        Ok(self.objects.get(&(kind.kind.clone(), key.as_str().to_owned())).cloned())
    }

    fn cache_list(&self, kind: &Gvk, query: CacheQuery<'_>) -> Result<Box<dyn ObjectCursor>, Refusal> {
        let of = |object: &&Object| {
            object.kind() == kind.kind
                && (query.namespace.is_empty() || object.namespace() == Some(query.namespace))
        };
        // In an order that is not that of the keys.
        let listed: Vec<Object> = self.objects.values().rev().filter(of).cloned().collect();
        Ok(Box::new(listed.into_iter()))
    }

    fn cache_wait_for_writes(&self, _: Duration) -> WaitFuture {
        Box::pin(async {
            tokio::task::yield_now().await;
            true
        })
    }
}

impl ClientImports for Cluster {
    fn clusters(&self) -> Arc<[String]> {
        std::iter::once("home").chain(self.remote).map(str::to_owned).collect()
    }

    fn client(&self, call: ClientCall) -> ClientFuture {
        let found = |key: &ObjectKey| {
            let found = self.cache_get(&call.kind, key).ok().flatten();
            found.ok_or_else(|| Refusal::unavailable("there is no such object").into())
        };
        let written = |body: &[u8]| {
            let mut object: Value = serde_json::from_slice(body).unwrap_or_default();
            if call.options.subresource.as_deref() == Some("token") {
                let account = call.options.target.as_ref();
                object["metadata"] = json!({"name": account.map(ObjectKey::name)});
                object["status"] = json!({"token": TOKEN});
            }
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.insert("resourceVersion".to_owned(), "7".into());
            }
            let object = Object::decode(object.to_string().as_bytes());
            object.map(ClientAnswer::Object).map_err(|error| Refusal::invalid(error).into())
        };
        let answer = match &call.verb {
            ClientVerb::Get(key) | ClientVerb::Patch { key, .. }
                if matches!(&call.verb, ClientVerb::Get(_)) || call.kind.kind == "Secret" =>
            {
                found(key).map(ClientAnswer::Object)
            }
            ClientVerb::Create(body) | ClientVerb::Update(body) | ClientVerb::Patch { body, .. } => {
                written(body)
            }
            ClientVerb::May { .. } => Ok(ClientAnswer::May(true)),
            other => Err(Refusal::unsupported(format_args!("{other:?}")).into()),
        };
        Box::pin(async move {
            tokio::task::yield_now().await;
            answer
        })
    }
}

impl EventImports for Cluster {
    fn record_event(&self, _: &CallContext, event: GuestEvent) -> Result<(), Refusal> {
        if event.reason.is_empty() { Err(Refusal::invalid("no reason")) } else { Ok(()) }
    }
}

struct NoMetric;

impl GuestMetric for NoMetric {
    fn change(&self, _: &[String], _: MetricChange) -> Result<(), Refusal> {
        Ok(())
    }
}

impl MetricImports for Cluster {
    fn metric_declare(&self, _: MetricSpec) -> Result<Arc<dyn GuestMetric>, Refusal> {
        Ok(Arc::new(NoMetric))
    }
}

impl QueueImports for Cluster {
    fn queue_room(&self, _: &[ObjectKey]) -> Result<(), Refusal> {
        Ok(())
    }

    fn queue_len(&self) -> usize {
        3
    }
}

/// An engine, a recording, and the component that is recorded.
pub(crate) struct Stage {
    dir: tempfile::TempDir,
    engine: Engine,
    pub(crate) code: Code,
    wasm: Vec<u8>,
    recorder: Option<Recorder>,
}

pub(crate) type Answer = Result<Result<Outcome, Failure>, Fault>;

/// An instance that is recorded.
pub(crate) struct Recorded {
    pub(crate) tape: Arc<Tape>,
    pub(crate) instance: Instance,
}

/// How a stage records.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) keep_secrets: bool,
    pub(crate) max_bytes: u64,
    pub(crate) max_call_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            keep_secrets: false,
            max_bytes: RecorderOptions::DEFAULT_MAX_BYTES,
            max_call_bytes: RecorderOptions::DEFAULT_MAX_CALL_BYTES,
        }
    }
}

impl Stage {
    pub(crate) async fn new(guest: &str, bounds: Bounds) -> Result<Self> {
        Self::of(&guests::wasm(guest)?, bounds).await
    }

    /// A stage with the component in this file.
    pub(crate) async fn of(component: &Path, bounds: Bounds) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let options = EngineOptions {
            // That of all tests: a guest is compiled once.
            cache_dir: paths::target().join("compile-cache"),
            compiler: Compiler::InProcess,
            instances: 8,
        };
        let engine = Engine::new(options)?;
        let wasm = std::fs::read(component)?;
        let code = engine.prepare(wasm.clone()).await?;
        let recorder = Recorder::create(RecorderOptions {
            path: dir.path().join("recording"),
            plugins: Vec::new(),
            keep_secrets: bounds.keep_secrets,
            max_bytes: bounds.max_bytes,
            max_call_bytes: bounds.max_call_bytes,
            host: "0.0.0".to_owned(),
        })?;
        Ok(Self { dir, engine, code, wasm, recorder: Some(recorder) })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("recording")
    }

    /// An instance on this host. `writes` is whether the plugin may write Secrets.
    pub(crate) async fn instance(&self, cluster: Cluster, writes: bool, limits: Limits) -> Result<Recorded> {
        let info = InstanceInfo {
            plugin: "it".into(),
            generation: 1,
            digest: self.code.digest().to_owned(),
            world: self.code.world()?,
            clusters: cluster.clusters(),
            secret_config: Arc::from(["password".to_owned(), SECRET_MEMBER.to_owned()]),
            may_write_secrets: writes,
        };
        let recorder = self.recorder.as_ref().context("the recording has ended")?;
        let config = Arc::clone(&cluster.config);
        let tape = recorder.instance(info, &config, limits);
        let host: Arc<dyn HostImports> = Arc::new(cluster);
        let imports = Arc::new(RecordingImports::new(Arc::clone(&host), Arc::clone(&tape)));
        let instance = Instance::new(&self.code, imports, limits).await;
        tape.started(|level| host.log_enabled(level), instance.as_ref().err());
        Ok(Recorded { tape, instance: instance? })
    }

    /// Ends the recording as a host does.
    pub(crate) fn close(&self) {
        self.recorder.iter().for_each(Recorder::close);
    }

    /// The recording, whose recorder is dropped.
    pub(crate) fn text(&mut self) -> Result<String> {
        self.recorder = None;
        Ok(std::fs::read_to_string(self.path())?)
    }

    /// Replays the recording with a text of it replaced.
    pub(crate) async fn replay_edited(
        &mut self,
        from: &str,
        to: &str,
        options: &ReplayOptions,
    ) -> Result<ReplayReport> {
        let text = self.text()?;
        anyhow::ensure!(text.contains(from), "the recording has no {from}: {text}");
        Ok(replay(&self.code, &Recording::parse(text.replace(from, to).as_bytes())?, options).await?)
    }

    /// What differs from a recording with a text of it replaced.
    pub(crate) async fn difference_to(&mut self, from: &str, to: &str) -> Result<String> {
        let report = self.replay_edited(from, to, &ReplayOptions::default()).await?;
        Ok(report.difference.context("a difference")?.what)
    }

    pub(crate) async fn replay(&mut self, options: &ReplayOptions) -> Result<ReplayReport> {
        self.recorder = None;
        Ok(replay(&self.code, &Recording::read(&self.path())?, options).await?)
    }

    /// Replays against a build in which a text of the component is another one of the same length.
    pub(crate) async fn replay_changed(
        &mut self,
        from: &str,
        to: &str,
        options: &ReplayOptions,
    ) -> Result<ReplayReport> {
        self.recorder = None;
        assert_eq!(from.len(), to.len());
        let mut wasm = self.wasm.clone();
        let places: Vec<usize> =
            (0..wasm.len() - from.len()).filter(|at| wasm[*at..].starts_with(from.as_bytes())).collect();
        anyhow::ensure!(!places.is_empty(), "the component has no text {from:?}");
        for at in places {
            wasm[at..at + to.len()].copy_from_slice(to.as_bytes());
        }
        let code = self.engine.prepare(wasm).await?;
        Ok(replay(&code, &Recording::read(&self.path())?, options).await?)
    }
}

impl Recorded {
    pub(crate) async fn reconcile(&mut self, key: &str, id: u64) -> Answer {
        let key: ObjectKey = key.parse().expect("a key");
        let request = Request { key: &key, attempt: 0, reasons: ReasonSet::of_bits(1), priority: 0 };
        self.tape.reconcile(&request, id, self.instance.reconcile(&request, id)).await
    }
}

/// A ConfigMap in the namespace `a`.
pub(crate) fn map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "a", "resourceVersion": "1"}, "data": data})
}

/// Everything is the same.
pub(crate) fn assert_same(report: &ReplayReport, calls: usize) {
    if let Some(difference) = &report.difference {
        panic!("{difference}");
    }
    assert_eq!(report.calls, calls);
    assert!(report.is_same_component);
}

pub(crate) fn secret(name: &str, password: &str) -> Value {
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(password);
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "a", "resourceVersion": "1"},
        "data": {"password": encoded}})
}

/// The file is for its user alone.
pub(crate) fn mode(path: &Path) -> Result<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(std::fs::metadata(path)?.permissions().mode() & 0o777)
}
