//! Machine code that is lost or damaged in the compile cache while its component is in use.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use pilothouse_engine::{Code, Compiler, Engine, EngineOptions, FaultKind, Instance, Nothing};
use pilothouse_plugin::Limits;
use pilothouse_testkit::guests;

/// The only machine code in the compile cache.
fn code_file(dir: &Path) -> Result<PathBuf> {
    let mut entries = fs::read_dir(dir.join("compiled"))?.map(|entry| entry.map(|entry| entry.path()));
    entries
        .find_map(|path| path.ok().filter(|path| path.extension().is_some_and(|e| e == "cwasm")))
        .context("none")
}

async fn instance(code: &Code) -> Result<(), FaultKind> {
    let made = Instance::new(code, Arc::new(Nothing), Limits::default()).await;
    made.map(drop).map_err(|fault| fault.kind)
}

fn damage(file: &Path) -> Result<()> {
    fs::set_permissions(file, fs::Permissions::from_mode(0o600))?;
    fs::write(file, b"other code")?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o400))?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_code_is_a_condition_of_the_host_and_the_component_can_be_prepared_again() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let options =
        EngineOptions { cache_dir: dir.path().to_owned(), compiler: Compiler::InProcess, instances: 4 };
    let engine = Engine::new(options)?;
    let wasm = Bytes::from(fs::read(guests::wasm("hostile")?)?);
    let code = engine.prepare(wasm.clone()).await?;
    // It is mapped from the file again with the next instance.
    code.unload();
    damage(&code_file(dir.path())?)?;
    assert_eq!(instance(&code).await, Err(FaultKind::CodeUnavailable));
    assert_eq!(instance(&engine.prepare(wasm).await?).await, Ok(()));
    Ok(())
}
