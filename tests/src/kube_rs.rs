//! kube-rs beside ours: the program `tests/peers/kube-rs`, a workspace of its own with its own lock file.

use std::path::PathBuf;

use anyhow::{Context, anyhow};

use crate::cargo::{self, Build};
use crate::paths;

/// Builds the program and returns its path. The first build takes some minutes and needs crates.io.
///
/// # Errors
/// When the build fails; the message contains the output of the compiler.
pub fn program() -> anyhow::Result<PathBuf> {
    let manifest = paths::repository().join("tests/peers/kube-rs/Cargo.toml");
    let manifest = manifest.to_str().context("the repository's path is not UTF-8")?;
    // The folder of the benches, which build in release.
    let target = paths::target().join("peers/kube-rs");
    let artifacts = cargo::build(Build::Native, &["--manifest-path", manifest, "--locked"], &target)?;
    artifacts.executables.into_iter().next().ok_or_else(|| anyhow!("there is no program"))
}
