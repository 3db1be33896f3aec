//! A plugin that makes requests: the probe, with granted hosts and a resolver for the names of the tests.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result};
use pilothouse_engine::{
    CacheImports, CallContext, ClientImports, Code, Compiler, ConfigImports, Engine, EngineOptions,
    EventImports, Fault, HttpClient, HttpClientOptions, HttpImports, HttpObserver, HttpResult, Instance,
    LogImports, LogLevel, MetricImports, Outcome, QueueImports, ReasonSet, Request, ResolveFuture, Resolver,
    SystemImports,
};
use pilothouse_object::ObjectKey;
use pilothouse_plugin::Limits;
use pilothouse_testkit::guests;
use serde_json::{Value, json};
use tokio::runtime::Handle;

/// A resolver with fixed addresses by name. It records the names that were looked up.
#[derive(Default)]
pub(crate) struct Names {
    known: HashMap<String, Vec<&'static str>>,
    asked: Mutex<Vec<String>>,
}

impl Resolver for Names {
    fn resolve(&self, name: String, port: u16) -> ResolveFuture {
        let found = self.known.get(&name).map(|addresses| {
            addresses.iter().map(|ip| SocketAddr::new(ip.parse().expect("an address"), port)).collect()
        });
        self.asked.lock().unwrap().push(name);
        Box::pin(async { found.ok_or_else(|| io::Error::other("no such name")) })
    }
}

#[derive(Default)]
pub(crate) struct Counted {
    pub(crate) results: Mutex<Vec<HttpResult>>,
    pub(crate) moved: Mutex<(u64, u64)>,
}

impl HttpObserver for Counted {
    fn request(&self, result: HttpResult) {
        self.results.lock().unwrap().push(result);
    }
    fn moved(&self, sent: u64, received: u64) {
        let mut moved = self.moved.lock().unwrap();
        *moved = (moved.0 + sent, moved.1 + received);
    }
}

/// A log line and its fields.
type Said = (LogLevel, String, Value);

/// The host side of the plugin.
pub(crate) struct Plugin {
    config: Arc<[u8]>,
    http: Option<HttpClient>,
    pub(crate) names: Arc<Names>,
    pub(crate) counted: Arc<Counted>,
    said: Mutex<Vec<Said>>,
}

/// The options of a plugin.
#[derive(Default)]
pub(crate) struct Setup {
    /// `request` of the probe's configuration.
    pub(crate) request: Value,
    /// `count` of the probe's configuration.
    pub(crate) count: Option<u32>,
    /// `spec.outgoingHosts`.
    pub(crate) hosts: Vec<String>,
    /// Names and addresses of the resolver, in addition to `localhost`.
    pub(crate) names: Vec<(&'static str, Vec<&'static str>)>,
}

impl Plugin {
    pub(crate) fn new(setup: Setup) -> Result<Arc<Self>> {
        let mut known: HashMap<_, _> =
            setup.names.into_iter().map(|(name, addresses)| (name.to_owned(), addresses)).collect();
        known.insert("localhost".to_owned(), vec!["127.0.0.1"]);
        let names = Arc::new(Names { known, asked: Mutex::default() });
        let counted = Arc::new(Counted::default());
        let hosts = setup.hosts.iter().map(|host| host.parse()).collect::<Result<_, _>>()?;
        let http = HttpClient::new(HttpClientOptions {
            plugin: "probe".into(),
            hosts,
            user_agent: "pilothouse/test (probe)".to_owned(),
            resolver: names.clone(),
            runtime: Handle::current(),
            qps: 1000.0,
            observer: counted.clone(),
        });
        let config = json!({"mode": "http", "request": setup.request, "count": setup.count});
        Ok(Arc::new(Self {
            config: config.to_string().into_bytes().into(),
            http: Some(http),
            names,
            counted,
            said: Mutex::default(),
        }))
    }

    /// The same configuration without any client.
    pub(crate) fn without_network(setup: Setup) -> Result<Arc<Self>> {
        let plugin = Arc::into_inner(Self::new(setup)?).context("the only one")?;
        Ok(Arc::new(Self { http: None, ..plugin }))
    }

    /// A new instance.
    pub(crate) async fn instance(self: &Arc<Self>, limits: Limits) -> Result<Instance> {
        Ok(Instance::new(&code().await?, self.clone(), limits).await?)
    }

    /// Runs one reconcile in a new instance and returns its log line `http`.
    pub(crate) async fn run(self: &Arc<Self>) -> Result<Vec<Value>> {
        let mut instance = self.instance(limits()).await?;
        reconcile(&mut instance).await??;
        Ok(self.said())
    }

    /// All log lines `http` so far.
    pub(crate) fn said(&self) -> Vec<Value> {
        let said = self.said.lock().unwrap();
        said.iter().filter(|(_, text, _)| text == "http").map(|(_, _, fields)| fields.clone()).collect()
    }

    /// The warnings of the host.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let said = self.said.lock().unwrap();
        said.iter().filter(|(level, ..)| *level == LogLevel::Warn).map(|(_, text, _)| text.clone()).collect()
    }

    /// The names that were looked up.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.names.asked.lock().unwrap().clone()
    }

    pub(crate) fn results(&self) -> Vec<HttpResult> {
        self.counted.results.lock().unwrap().clone()
    }
}

/// A wall-clock limit that suffices on a slow machine, and a small CPU budget.
pub(crate) fn limits() -> Limits {
    Limits {
        call_timeout: Duration::from_secs(60),
        cpu_per_call: Duration::from_secs(5),
        ..Limits::default()
    }
}

pub(crate) async fn reconcile(instance: &mut Instance) -> Result<Result<Outcome>, Fault> {
    let key: ObjectKey = "a/b".parse().expect("a key");
    let answer = instance
        .reconcile(&Request { key: &key, attempt: 0, reasons: ReasonSet::of_bits(1), priority: 0 }, 1)
        .await?;
    Ok(answer.map_err(|failure| anyhow::anyhow!("{failure:?}")))
}

/// The probe, compiled once for all tests of this process.
async fn code() -> Result<Code> {
    struct Prepared {
        engine: Engine,
        wasm: Vec<u8>,
        _cache: tempfile::TempDir,
    }
    static PREPARED: LazyLock<Result<Prepared, String>> = LazyLock::new(|| {
        let prepare = || {
            let dir = tempfile::tempdir()?;
            let cache_dir = dir.path().join("cache");
            let engine =
                Engine::new(EngineOptions { cache_dir, compiler: Compiler::InProcess, instances: 64 })?;
            anyhow::Ok(Prepared { engine, wasm: std::fs::read(guests::wasm("probe")?)?, _cache: dir })
        };
        prepare().map_err(|error| format!("{error:#}"))
    });
    let prepared = PREPARED.as_ref().map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(prepared.engine.prepare(prepared.wasm.clone()).await?)
}

impl ConfigImports for Plugin {
    fn config(&self) -> Arc<[u8]> {
        Arc::clone(&self.config)
    }
}

impl LogImports for Plugin {
    fn log_enabled(&self, _: LogLevel) -> bool {
        true
    }

    fn log(&self, _: &CallContext, level: LogLevel, message: &str, fields: &[(String, String)]) {
        let fields = fields.iter().cloned().map(|(name, value)| (name, Value::from(value))).collect();
        self.said.lock().unwrap().push((level, message.to_owned(), fields));
    }
}

impl CacheImports for Plugin {}

impl ClientImports for Plugin {}

impl EventImports for Plugin {}

impl HttpImports for Plugin {
    fn http(&self) -> Option<HttpClient> {
        self.http.clone()
    }
}

impl MetricImports for Plugin {}

impl QueueImports for Plugin {}
impl SystemImports for Plugin {}
