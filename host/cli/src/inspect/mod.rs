//! [`Inspector`]: a component outside a running host: compiled, linked and described as a host would. Called by `check`,
//! `compile` and `rbac`.
//!
//! Invariant: nothing of the component runs but its start code and `describe`, within the limits of its manifest, and it
//! reaches neither a cluster nor the network.

mod imports;
pub(crate) mod resources;
pub(crate) mod watches;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use pilothouse_engine::{Code, Engine, EngineOptions, Fault, Instance, LoadError, Nothing};
use pilothouse_plugin::{Description, Limits, Manifest, printable};
use serde_json::{Map, Value};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use self::imports::Imports;
use crate::log_filter::log_filter;
use crate::worker;

/// Instances that live at the same time.
const INSTANCES: u32 = 4;

/// What `describe` of a component answered.
pub(crate) struct Described {
    /// As the component wrote it: JSON.
    pub(crate) text: Vec<u8>,
    pub(crate) description: Description,
}

/// The engine of a host, without the host.
pub(crate) struct Inspector(Engine);

impl Inspector {
    /// Machine code is kept in `cache_dir`.
    pub(crate) fn new(cache_dir: PathBuf) -> Result<Self> {
        let options = EngineOptions { cache_dir, compiler: worker::compiler(), instances: INSTANCES };
        Ok(Self(Engine::new(options)?))
    }

    /// Compiles a component, or finds it in the cache, and links it.
    pub(crate) async fn prepare(&self, wasm: Vec<u8>) -> Result<Code, LoadError> {
        self.0.prepare(wasm).await
    }
}

/// Asks a component to describe itself with this configuration; the error is why a host would refuse it.
pub(crate) async fn describe(
    code: &Code,
    manifest: &Manifest,
    config: &Map<String, Value>,
) -> Result<Described, String> {
    let world = code.world().map_err(|error| error.to_string())?;
    let config: Arc<[u8]> = Value::Object(config.clone()).to_string().into_bytes().into();
    let (imports, limits) = (Imports { config: Arc::clone(&config) }, manifest.limits);
    let call = async {
        let mut instance = Instance::new(code, Arc::new(imports), limits.engine).await?;
        instance.describe(&config).await
    };
    let answer = call.await.map_err(|fault| {
        format!("describe failed: {fault}; see the plugin's own log lines; correct the plugin or its configuration")
    })?;
    let text = answer.map_err(|message| {
        format!("describe refused its configuration: {}; correct the configuration", printable(&message))
    })?;
    let description = Description::parse(&text, world, &limits.descriptor);
    let description = description.map_err(|error| format!("describe: {}", printable(&error.to_string())))?;
    Ok(Described { text, description })
}

/// The time from an unloaded component to an instance that can be called, so many times.
pub(crate) async fn wakes(code: &Code, limits: Limits, times: usize) -> Result<Vec<Duration>, Fault> {
    let mut wakes = Vec::with_capacity(times);
    for _ in 0..times {
        code.unload();
        let begin = Instant::now();
        let instance = Instance::new(code, Arc::new(Nothing), limits).await?;
        wakes.push(begin.elapsed());
        drop(instance);
    }
    Ok(wakes)
}

/// Runs work of an [`Inspector`]. Warnings of the engine, and what `RUST_LOG` asks for, go to standard error.
pub(crate) fn run<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).without_time();
    // In a test another one may have been there before.
    let _ = tracing_subscriber::registry().with(log_filter("warn")?).with(lines).try_init();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("starting the runtime")?.block_on(work)
}
