//! A plugin that makes requests: the probe, with the hosts that it is granted and a resolver that knows the test's names.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result};
use pilothouse_engine::{
    ApiError, CallContext, ClientCall, ClientFuture, Code, Compiler, Engine, EngineOptions, Fault, GuestHost,
    HttpClient, HttpClientOptions, HttpObserver, HttpResult, Instance, LogLevel, ObjectCursor, Outcome,
    Refusal, Request, ResolveFuture, Resolver, WaitFuture,
};
use pilothouse_object::{Gvk, Object, ObjectKey};
use pilothouse_plugin::Limits;
use pilothouse_testkit::guests;
use serde_json::{Value, json};
use tokio::runtime::Handle;

/// Addresses by name, and who asked.
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

/// A line and its fields.
type Said = (LogLevel, String, Value);

/// What the plugin reaches.
pub(crate) struct Plugin {
    config: Arc<[u8]>,
    http: Option<HttpClient>,
    pub(crate) names: Arc<Names>,
    pub(crate) counted: Arc<Counted>,
    said: Mutex<Vec<Said>>,
}

/// How a plugin is made.
#[derive(Default)]
pub(crate) struct Setup {
    /// `request` of the probe's configuration.
    pub(crate) request: Value,
    /// `count` of the probe's configuration.
    pub(crate) count: Option<u32>,
    /// `spec.outgoingHosts`.
    pub(crate) hosts: Vec<String>,
    /// What the resolver knows besides `localhost`.
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
            io: Handle::current(),
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

    /// Runs one reconcile in an instance of its own; what it logged as `http`.
    pub(crate) async fn run(self: &Arc<Self>) -> Result<Vec<Value>> {
        let mut instance = self.instance(limits()).await?;
        reconcile(&mut instance).await??;
        Ok(self.said())
    }

    /// The lines `http` so far.
    pub(crate) fn said(&self) -> Vec<Value> {
        let said = self.said.lock().unwrap();
        said.iter().filter(|(_, text, _)| text == "http").map(|(_, _, fields)| fields.clone()).collect()
    }

    /// What the host warned of.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let said = self.said.lock().unwrap();
        said.iter().filter(|(level, ..)| *level == LogLevel::Warn).map(|(_, text, _)| text.clone()).collect()
    }

    /// Names that were looked up.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.names.asked.lock().unwrap().clone()
    }

    pub(crate) fn results(&self) -> Vec<HttpResult> {
        self.counted.results.lock().unwrap().clone()
    }
}

/// Long enough for any machine, and a small CPU budget.
pub(crate) fn limits() -> Limits {
    Limits {
        call_timeout: Duration::from_secs(60),
        cpu_per_call: Duration::from_secs(5),
        ..Limits::default()
    }
}

pub(crate) async fn reconcile(instance: &mut Instance) -> Result<Result<Outcome>, Fault> {
    let key: ObjectKey = "a/b".parse().expect("a key");
    let answer = instance.reconcile(&Request { key: &key, attempt: 0, reasons: &["added"] }, 1).await?;
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
    Ok(prepared.engine.prepare(&prepared.wasm).await?)
}

impl GuestHost for Plugin {
    fn config(&self) -> Arc<[u8]> {
        Arc::clone(&self.config)
    }
    fn http(&self) -> Option<HttpClient> {
        self.http.clone()
    }
    fn log_enabled(&self, _: LogLevel) -> bool {
        true
    }
    fn log(&self, _: &CallContext, level: LogLevel, message: &str, fields: &[(String, String)]) {
        let fields = fields.iter().cloned().map(|(name, value)| (name, Value::from(value))).collect();
        self.said.lock().unwrap().push((level, message.to_owned(), fields));
    }
    fn cache_get(&self, _: &Gvk, _: &ObjectKey) -> Result<Option<Object>, Refusal> {
        Ok(None)
    }
    fn cache_list(&self, _: &Gvk, _: &str) -> Result<Box<dyn ObjectCursor>, Refusal> {
        Ok(Box::new(Vec::new().into_iter()))
    }
    fn cache_by_index(&self, _: &Gvk, _: &str, _: &str) -> Result<Box<dyn ObjectCursor>, Refusal> {
        Ok(Box::new(Vec::new().into_iter()))
    }
    fn cache_index_values(&self, _: &Gvk, _: &str) -> Result<Vec<String>, Refusal> {
        Ok(Vec::new())
    }
    fn cache_wait_for_writes(&self, _: Duration) -> WaitFuture {
        Box::pin(async { true })
    }
    fn client(&self, _: ClientCall) -> ClientFuture {
        let message = "this host has no cluster".to_owned();
        let error =
            ApiError { code: 0, reason: "unavailable".to_owned(), message, retry_after_seconds: None };
        Box::pin(async { Err(error) })
    }
    fn queue_room(&self, _: &ObjectKey) -> Result<(), String> {
        Ok(())
    }
    fn queue_add(&self, _: ObjectKey) {}
    fn queue_add_after(&self, _: ObjectKey, _: Duration) {}
    fn queue_add_rate_limited(&self, _: ObjectKey) {}
    fn queue_forget(&self, _: &ObjectKey) {}
    fn queue_num_requeues(&self, _: &ObjectKey) -> u32 {
        0
    }
    fn queue_len(&self) -> usize {
        0
    }
}
