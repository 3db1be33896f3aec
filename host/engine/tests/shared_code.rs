//! Machine code that several plugins have in common: one mapping, and limits of each one's own.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use pilothouse_engine::{Code, Compiler, Engine, EngineOptions, FaultKind, Instance, Nothing};
use pilothouse_plugin::Limits;
use pilothouse_testkit::guests;

/// Executable regions of this process that are of this cache. A file that was compiled anew is replaced: what is mapped is then of
/// a deleted one.
fn mapped(cache: &Path) -> Result<usize> {
    let cache = cache.display().to_string();
    let maps = fs::read_to_string("/proc/self/maps")?;
    Ok(maps.lines().filter(|line| line.contains(&cache) && line.contains(" r-xp ")).count())
}

async fn instance(code: &Code, memory: usize) -> Result<Instance, FaultKind> {
    let limits = Limits { memory, ..Limits::default() };
    Instance::new(code, Arc::new(Nothing), limits).await.map_err(|fault| fault.kind)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn components_of_one_machine_code_are_mapped_once_until_the_last_is_unloaded() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let options =
        EngineOptions { cache_dir: dir.path().to_owned(), compiler: Compiler::InProcess, instances: 4 };
    let engine = Engine::new(options)?;
    let wasm = fs::read(guests::wasm("noop")?)?;
    // Another component, which differs in a custom section that the compiler leaves out.
    let other = [&wasm[..], &b"\x00\x04\x03abc"[..]].concat();
    let first = engine.prepare(wasm.clone()).await?;
    let one = mapped(dir.path())?;
    assert_eq!(one, 1);
    let codes = [first, engine.prepare(wasm).await?, engine.prepare(other).await?];
    assert_ne!(codes[0].digest(), codes[2].digest());
    assert_eq!(mapped(dir.path())?, one);
    codes[0].unload();
    codes[1].unload();
    assert!(!codes[0].is_loaded() && codes[2].is_loaded());
    assert_eq!(mapped(dir.path())?, one, "one has it still");
    codes[2].unload();
    assert_eq!(mapped(dir.path())?, 0);
    // Loaded again by its first call, for all of them.
    let default = Limits::default().memory;
    assert_eq!(instance(&codes[0], 1).await.err(), Some(FaultKind::Memory));
    assert!(instance(&codes[1], default).await.is_ok());
    assert_eq!(mapped(dir.path())?, one);
    Ok(())
}
