//! Wake of an unloaded plugin: map the compiled file, link, instantiate, run a first no-op reconcile, round-robin over a
//! thousand different plugins so that nothing of the last wake is warm.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pilothouse_bench::{Better, Report, quantile};
use pilothouse_engine::{
    CallContext, ClientCall, ClientFuture, Code, Compiler, Engine, EngineOptions, GuestHost, Instance,
    LogLevel, ObjectCursor, Refusal, Request, WaitFuture,
};
use pilothouse_object::{Gvk, Object, ObjectKey};
use pilothouse_plugin::Limits;

use super::memory::PLUGINS;

const ROUNDS: usize = 5;

/// Where compiled plugins are kept from run to run: compiling a thousand takes minutes.
pub(crate) fn folder() -> anyhow::Result<PathBuf> {
    let folder = std::env::temp_dir().join("pilothouse-bench");
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let engine = Engine::new(EngineOptions {
        cache_dir: folder()?.join("cache"),
        compiler: Compiler::InProcess,
        instances: EngineOptions::DEFAULT_INSTANCES,
    })?;
    let plugins = runtime.block_on(async {
        let mut plugins = Vec::new();
        for number in 0..PLUGINS {
            let code = engine.prepare(&super::plugins::component(number)?).await?;
            code.unload();
            plugins.push(code);
        }
        anyhow::Ok(plugins)
    })?;
    let (mut p50, mut p99) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut wakes = runtime.block_on(async {
            let mut wakes = Vec::with_capacity(PLUGINS);
            for code in &plugins {
                wakes.push(wake(code).await? * 1e3);
            }
            anyhow::Ok(wakes)
        })?;
        p50.push(quantile(&mut wakes, 0.5));
        p99.push(quantile(&mut wakes, 0.99));
    }
    report.bound("wake of an unloaded plugin, 1,000 in turn, p50", "ms", Better::Lower, &mut p50, Some(0.5));
    report.bound("wake of an unloaded plugin, 1,000 in turn, p99", "ms", Better::Lower, &mut p99, Some(2.0));
    Ok(())
}

async fn wake(code: &Code) -> anyhow::Result<f64> {
    let key = ObjectKey::new(Some("default"), "a")?;
    let began = Instant::now();
    let mut instance = Instance::new(code, Arc::new(Nothing), Limits::default()).await?;
    let request = Request { key: &key, attempt: 0, reasons: &["added"] };
    let outcome = instance.reconcile(&request, 1).await?;
    let took = began.elapsed().as_secs_f64();
    anyhow::ensure!(outcome.is_ok(), "the guest failed: {outcome:?}");
    drop(instance);
    code.unload();
    Ok(took)
}

/// A host that has nothing: the no-op guest asks for nothing but its configuration.
struct Nothing;

impl GuestHost for Nothing {
    fn queue_room(&self, _: &ObjectKey) -> Result<(), String> {
        Ok(())
    }
    fn config(&self) -> Arc<[u8]> {
        Arc::from(&b"{}"[..])
    }
    fn log_enabled(&self, _: LogLevel) -> bool {
        false
    }
    fn log(&self, _: &CallContext, _: LogLevel, _: &str, _: &[(String, String)]) {}
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
        Box::pin(std::future::pending())
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
