//! `pilothouse compile`: what it puts into the cache, a host takes from there.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::{ControlPlane, Host, cli, guests, plugins};

/// The files of a cache, with the number of each: a file that is written again has another one.
fn entries(cache: &Path) -> Result<BTreeMap<PathBuf, u64>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(cache.join("compiled"))? {
        let entry = entry?;
        found.insert(entry.path(), entry.metadata()?.ino());
    }
    Ok(found)
}

#[test]
fn a_host_compiles_nothing_that_was_compiled_before_it_starts() -> Result<()> {
    let dir = tempfile::Builder::new().prefix("compile-").tempdir()?;
    let dir = dir.path();
    let folder = dir.join("plugins");
    fs::create_dir(&folder)?;
    for guest in ["noop", "events_only"] {
        fs::copy(guests::wasm(guest)?, folder.join(format!("{guest}.wasm")))?;
    }
    fs::write(
        folder.join("noop.yaml"),
        plugins::Manifest::new("noop").reads(&["configmaps"], "default").to_string(),
    )?;
    fs::write(folder.join(".hidden.wasm"), "no component")?;
    let first = cli::run(dir, &["compile", "plugins", "plugins/noop.wasm", "--cache-dir", "cache"])?;
    ensure!(first.status.success() && first.stderr.is_empty(), "{first:?}");
    let lines: Vec<&str> = first.stdout.lines().collect();
    ensure!(lines.len() == 2, "{lines:?}");
    for (line, name) in lines.iter().zip(["plugins/events_only.wasm: ", "plugins/noop.wasm: "]) {
        let compiled =
            line.starts_with(name) && line.contains("compiled in ") && line.ends_with("of machine code");
        ensure!(compiled, "{lines:?}");
    }
    let compiled = entries(&dir.join("cache"))?;
    ensure!(compiled.len() == 4, "{compiled:?}");

    let again = cli::run(dir, &["compile", "plugins", "--cache-dir", "cache"])?;
    ensure!(
        again.status.success() && again.stdout.lines().all(|line| line.ends_with(": in the cache")),
        "{again:?}"
    );
    let plane = ControlPlane::shared(Server::Development)?;
    let host =
        Host::start(HostOptions { dir: Some(dir.to_owned()), ..HostOptions::new(plane.kubeconfig()) })?;
    plugins::wait_running(&host, "noop")?;
    ensure!(entries(&dir.join("cache"))? == compiled, "the host compiled again");
    Ok(())
}

#[test]
fn what_cannot_be_compiled_is_named_and_the_others_are_compiled() -> Result<()> {
    let dir = tempfile::Builder::new().prefix("compile-").tempdir()?;
    let dir = dir.path();
    fs::create_dir(dir.join("plugins"))?;
    fs::create_dir(dir.join("empty"))?;
    fs::write(dir.join("plugins/a.wasm"), "not wasm")?;
    fs::copy(guests::wasm("noop")?, dir.join("plugins/b.wasm"))?;
    let compiled = cli::run(dir, &["compile", "plugins", "nowhere.wasm"])?;
    ensure!(compiled.status.code() == Some(1), "{compiled:?}");
    for wanted in [
        "error: plugins/a.wasm: not a WebAssembly file",
        "error: nowhere.wasm: it cannot be read",
        "error: 2 of 3 components are not compiled",
    ] {
        ensure!(compiled.stderr.contains(wanted), "no {wanted:?}: {compiled:?}");
    }
    ensure!(compiled.stdout.starts_with("plugins/b.wasm: compiled in "), "{compiled:?}");
    // Without --cache-dir it is the cache of `run`.
    ensure!(entries(&dir.join("cache/pilothouse"))?.len() == 2);
    let empty = cli::run(dir, &["compile", "empty"])?;
    ensure!(empty.status.code() == Some(1) && empty.stderr.contains("empty has no component"), "{empty:?}");
    // The folder holds code that is run: others must not have access to it.
    let open = dir.join("open/compiled");
    fs::create_dir_all(&open)?;
    fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let refused = cli::run(dir, &["compile", "plugins/b.wasm", "--cache-dir", "open"])?;
    ensure!(
        refused.status.code() == Some(1) && refused.stderr.contains("other users have access"),
        "{refused:?}"
    );
    Ok(())
}
