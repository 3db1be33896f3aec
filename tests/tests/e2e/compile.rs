//! `pilothouse compile`: what it puts into the cache, a host takes from there.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use pilothouse_testkit::poll::{self, SOON};
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

/// Appends a number in LEB128.
fn leb128(bytes: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn section(id: u8, content: &[u8]) -> Vec<u8> {
    let mut section = vec![id];
    leb128(&mut section, content.len());
    [section, content.to_vec()].concat()
}

/// A component of which the compiler has a while to do: large functions of one argument.
fn slow_component() -> Vec<u8> {
    const FUNCTIONS: usize = 400;
    // local.get 0, i32.mul, local.get 0, i32.xor.
    let steps = [0x20, 0x00, 0x6c, 0x20, 0x00, 0x73].repeat(5_000);
    let body = [&[0x00, 0x20, 0x00], &steps[..], &[0x0b]].concat();
    let (mut functions, mut code) = (Vec::new(), Vec::new());
    leb128(&mut functions, FUNCTIONS);
    functions.extend([0; FUNCTIONS]);
    leb128(&mut code, FUNCTIONS);
    for _ in 0..FUNCTIONS {
        leb128(&mut code, body.len());
        code.extend(&body);
    }
    let types = section(1, &[1, 0x60, 1, 0x7f, 1, 0x7f]);
    let module = [b"\0asm\x01\0\0\0".to_vec(), types, section(3, &functions), section(10, &code)].concat();
    [b"\0asm\x0d\0\x01\0".to_vec(), section(1, &module)].concat()
}

/// A process that another one has started and that has computed for two seconds.
fn busy_child(parent: u32) -> Result<Option<u32>> {
    const TICKS: u64 = 200;
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        let Some(pid) = path.file_name().and_then(|name| name.to_str()?.parse().ok()) else { continue };
        // One that ends meanwhile has no file any more.
        let stat = fs::read_to_string(path.join("stat")).unwrap_or_default();
        // Behind the name, which may have any letters: the state, the parent, and in the 12th place the CPU time in ticks.
        let (_, rest) = stat.rsplit_once(')').unwrap_or_default();
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let ticks = fields.get(11).and_then(|ticks| ticks.parse().ok());
        if fields.get(1) == Some(&&*parent.to_string()) && ticks.is_some_and(|ticks: u64| ticks >= TICKS) {
            return Ok(Some(pid));
        }
    }
    Ok(None)
}

#[test]
fn a_compiler_ends_with_the_process_that_started_it() -> Result<()> {
    let dir = tempfile::Builder::new().prefix("compile-").tempdir()?;
    fs::write(dir.path().join("slow.wasm"), slow_component())?;
    let args = ["compile", "slow.wasm", "--cache-dir", "cache"];
    let mut process = cli::command(dir.path(), &args)?.spawn()?;
    // One that is killed before it has read all would end by itself, as its input does.
    let worker = poll::until("a compiler at work", SOON, || busy_child(process.id()));
    process.kill()?;
    process.wait()?;
    let worker = Path::new("/proc").join(worker?.to_string());
    poll::until("the compiler to end", SOON, || !worker.exists())?;
    // One that had gone on would have written its code.
    for entry in fs::read_dir(dir.path().join("cache/compiled"))? {
        let entry = entry?;
        ensure!(entry.metadata()?.len() == 0, "{} was compiled to its end", entry.path().display());
    }
    Ok(())
}
