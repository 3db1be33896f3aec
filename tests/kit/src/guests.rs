//! The WebAssembly guests: those of `guests/`, which exist to test the host, and the examples, built once per test
//! process into one target folder of their own.
//!
//! Invariant: a guest is built as its author would build it, by its own workspace's profile and lock file, without any
//! flag of the native build.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, anyhow, bail};

use crate::cargo::{self, Build};
use crate::paths;

const TARGET: &str = "wasm32-wasip2";

/// Paths of components by the name of their crate, with `_` for `-`.
type Guests = BTreeMap<String, PathBuf>;

/// The path of the component of a guest crate (`hello-world` and `hello_world` are the same).
pub fn wasm(name: &str) -> anyhow::Result<PathBuf> {
    static BUILT: OnceLock<Result<Guests, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build_all().map_err(|error| format!("{error:#}")));
    let guests = built.as_ref().map_err(|error| anyhow!("building the guests: {error}"))?;
    let Some(path) = guests.get(&name.replace('-', "_")) else {
        let known: Vec<&str> = guests.keys().map(String::as_str).collect();
        bail!("no guest is called {name:?}; there are: {}", known.join(", "));
    };
    Ok(path.clone())
}

fn build_all() -> anyhow::Result<Guests> {
    let workspaces = workspaces(paths::repository())?;
    check_target()?;
    let folder = paths::target().join("guests");
    paths::locked(&folder, || {
        let mut guests = Guests::new();
        for workspace in &workspaces {
            for path in build(workspace, &folder)? {
                let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
                // All share one folder, where the second of a name would replace the first.
                if guests.insert(stem.replace('-', "_"), path.clone()).is_some() {
                    bail!("two guests are called {stem}, the second in {}", workspace.display());
                }
            }
        }
        Ok(guests)
    })
}

/// The manifests of `guests/` and of each example that is there.
fn workspaces(repository: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut manifests = vec![repository.join("guests/Cargo.toml")];
    let examples = repository.join("examples");
    if examples.is_dir() {
        for entry in fs::read_dir(&examples).with_context(|| format!("reading {}", examples.display()))? {
            manifests.push(entry?.path().join("Cargo.toml"));
        }
    }
    manifests.retain(|manifest| manifest.is_file());
    manifests.sort();
    Ok(manifests)
}

/// Builds one workspace and returns its components.
fn build(manifest: &Path, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let path = manifest.to_str().context("the repository's path is not UTF-8")?;
    let args = ["--manifest-path", path, "--workspace", "--release", "--target", TARGET];
    let artifacts = cargo::build(Build::Guest, &args, folder)?;
    Ok(artifacts.files.into_iter().filter(|file| file.extension().is_some_and(|it| it == "wasm")).collect())
}

/// Says what to do when the compiler cannot build for WebAssembly.
fn check_target() -> anyhow::Result<()> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    // In the repository, for rustup to pick the toolchain of rust-toolchain.toml.
    command.args(["--print", "target-libdir", "--target", TARGET]).current_dir(paths::repository());
    let output = command.output().context("asking rustc for its targets")?;
    let libraries = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() && Path::new(&libraries).is_dir() {
        return Ok(());
    }
    bail!("the Rust target {TARGET} is not installed: run `rustup target add {TARGET}`")
}

#[cfg(test)]
mod tests;
