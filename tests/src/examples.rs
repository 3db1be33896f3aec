//! Builds the examples of the client library as programs, as a user would.

use std::path::PathBuf;

use anyhow::{Context, anyhow};

use crate::cargo::{self, Build};
use crate::paths;

/// Builds `host/client/examples/NAME.rs` and returns the path of the program.
///
/// # Errors
/// When the build fails; the message contains the output of the compiler.
pub fn client(name: &str) -> anyhow::Result<PathBuf> {
    let manifest = paths::repository().join("Cargo.toml");
    let manifest = manifest.to_str().context("the repository's path is not UTF-8")?;
    let profile = paths::profile();
    let args = [
        "--manifest-path",
        manifest,
        "--package",
        "pilothouse-client",
        // This package enables all features of the client.
        "--package",
        "pilothouse-tests",
        "--example",
        name,
        "--profile",
        &profile,
    ];
    let artifacts = cargo::build(Build::Native, &args, &paths::target())?;
    let named = |path: &PathBuf| path.file_stem().is_some_and(|stem| stem == name);
    artifacts.executables.into_iter().find(named).ok_or_else(|| anyhow!("there is no example {name}"))
}
