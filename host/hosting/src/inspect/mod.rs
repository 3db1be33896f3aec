//! [`Inspector`]: a component outside a running host: compiled, linked and described as a host would. Called by `check`,
//! `compile` and `rbac`.
//!
//! Invariant: nothing of the component runs but its start code and `describe`, within the limits of its manifest, and it
//! reaches neither a cluster nor the network.

pub mod describe;
mod imports;
pub mod interfaces;
pub mod resources;
pub mod watches;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use pilothouse_engine::{Code, Engine, EngineOptions, LoadError};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::log_filter::log_filter;
use crate::signals::Signals;
use crate::worker;

/// Instances that live at the same time.
const INSTANCES: u32 = 4;

/// The engine of a host, without the host.
pub struct Inspector(Engine);

impl Inspector {
    /// Machine code is kept in `cache_dir`.
    pub fn new(cache_dir: PathBuf) -> Result<Self> {
        let options = EngineOptions { cache_dir, compiler: worker::compiler(), instances: INSTANCES };
        Ok(Self(Engine::new(options)?))
    }

    /// Compiles a component, or finds it in the cache, and links it.
    pub async fn prepare(&self, wasm: impl Into<Bytes> + Send) -> Result<Code, LoadError> {
        self.0.prepare(wasm).await
    }
}

/// Runs work of an [`Inspector`], until it is done or a signal ends it, so that temporary files are removed. Warnings of the
/// engine, and what `RUST_LOG` asks for, go to standard error.
pub fn run<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).without_time();
    // In a test another one may have been there before.
    let _ = tracing_subscriber::registry().with(log_filter("warn")?).with(lines).try_init();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("starting the runtime")?.block_on(async {
        let mut signals = Signals::catch()?;
        tokio::select! {
            result = work => result,
            () = signals.next() => bail!("interrupted"),
        }
    })
}
