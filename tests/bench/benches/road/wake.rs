//! Wake of an unloaded plugin: map the compiled file, link, instantiate, run a first no-op reconcile, round-robin over a
//! thousand different plugins so that nothing of the last wake is warm.

use std::path::PathBuf;
use std::sync::Arc;

use pilothouse_bench::{Better, Report, quantile};
use pilothouse_engine::{Compiler, Engine, EngineOptions, Nothing};
use pilothouse_object::ObjectKey;

use super::first_call::first_call;
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
            let code = engine.prepare(super::plugins::component(number)?).await?;
            code.unload();
            plugins.push(code);
        }
        anyhow::Ok(plugins)
    })?;
    let key = ObjectKey::new(Some("default"), "a")?;
    let (mut p50, mut p99) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut wakes = runtime.block_on(async {
            let mut wakes = Vec::with_capacity(PLUGINS);
            for code in &plugins {
                let (_, took) = first_call(code, Arc::new(Nothing), &key).await?;
                wakes.push(took * 1e3);
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
