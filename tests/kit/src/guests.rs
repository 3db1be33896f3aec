//! Builds the WebAssembly guests once per test process into a target folder of their own: the test guests of `guests/`,
//! and the examples.
//!
//! Invariant: a guest is built as its author would build it, with the profile and lock file of its own workspace and
//! without the flags of the native build.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Command;
use std::sync::OnceLock;
use std::task::{self, Poll, Waker};

use anyhow::{Context, anyhow, bail};
use pilothouse_toolchain::{TARGET, ensure_target};

use crate::cargo::{self, Build};
use crate::paths;

/// Paths of components by the name of the crate, with `_` instead of `-`.
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

/// The bytes of a component as if it was built for another version of the contract, of the same length: its interfaces have
/// that version in their names.
///
/// # Panics
/// When a name has a version of another length.
#[must_use]
pub fn of_contract(mut wasm: Vec<u8>, version: &str) -> Vec<u8> {
    const PACKAGE: &[u8] = b"pilothouse:controller/";
    let mut from = 0;
    while let Some(at) = wasm[from..].windows(PACKAGE.len()).position(|window| window == PACKAGE) {
        let name = from + at + PACKAGE.len();
        let is_of_name = |byte: &u8| byte.is_ascii_lowercase() || *byte == b'-';
        let begin = name + wasm[name..].iter().take_while(|byte| is_of_name(byte)).count();
        from = begin;
        if wasm[begin] != b'@' {
            continue;
        }
        let number = begin + 1..begin + 1 + version.len();
        let is_of_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        let found = wasm[begin + 1..].iter().take_while(|byte| is_of_number(byte)).count();
        assert_eq!(found, version.len(), "a version of another length");
        wasm[number].copy_from_slice(version.as_bytes());
    }
    wasm
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
                // All workspaces share one target folder, so a second guest of a name would replace the first.
                if guests.insert(stem.replace('-', "_"), path.clone()).is_some() {
                    bail!("two guests are called {stem}, the second in {}", workspace.display());
                }
            }
        }
        Ok(guests)
    })
}

/// The `Cargo.toml` files of `guests/` and of each example below the root of the repository.
///
/// # Errors
/// When the examples cannot be listed.
pub fn workspaces(repository: &Path) -> anyhow::Result<Vec<PathBuf>> {
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

/// Ensures that the repository's toolchain can build for WebAssembly: adds a missing target with rustup.
fn check_target() -> anyhow::Result<()> {
    let folder = paths::repository();
    // In the repository, where rustup selects the toolchain of rust-toolchain.toml.
    let command = |program: &str| {
        let mut command = Command::new(program);
        command.current_dir(folder);
        command
    };
    // Not with `eprintln!`, whose output libtest prints only for a failed test.
    let report = |line: &str| drop(writeln!(io::stderr(), "{line}"));
    let work = ensure_target(TARGET, folder, command, async |mut command| command.output(), report);
    match pin!(work).poll(&mut task::Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Ok(result?),
        Poll::Pending => bail!("a command that blocks was waited for"),
    }
}

#[cfg(test)]
mod tests;
