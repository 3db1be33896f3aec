//! Cargo as seen from here: how it is started and what it says of a crate. Called by [`super::projects`] and
//! [`super::build`].
//!
//! Invariant: a guest is built as `cargo build` in its own folder would build it, whatever toolchain and Cargo run this
//! process was started by.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, anyhow, bail};
use pilothouse_toolchain::RUSTUP;
use serde::Deserialize;

/// What `cargo run` tells of the package it runs; a build script must not take it for its own.
const OF_THE_OUTER_PACKAGE: [&str; 7] = [
    "CARGO_PKG_",
    "CARGO_MANIFEST_",
    "CARGO_BIN_",
    "CARGO_CRATE_",
    "CARGO_PRIMARY_PACKAGE",
    "OUT_DIR",
    "RUSTUP_TOOLCHAIN",
];

/// A command in a crate's folder, where rustup and Cargo look for their settings.
pub(crate) fn command(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    // Set by Cargo for what it runs. Otherwise a toolchain in the environment is the user's choice.
    if std::env::var_os("CARGO").is_some() {
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| OF_THE_OUTER_PACKAGE.iter().any(|own| name.starts_with(own)))
            {
                command.env_remove(name);
            }
        }
    }
    command.current_dir(folder).stdin(Stdio::null());
    command
}

/// The error of a program that could not be started.
pub(crate) fn not_started(program: &str, error: &std::io::Error) -> anyhow::Error {
    if error.kind() == std::io::ErrorKind::NotFound {
        anyhow!(
            "{program} is not installed, and plugins are built with it: install Rust with rustup ({RUSTUP})"
        )
    } else {
        anyhow!("cannot start {program}: {error}")
    }
}

/// A package that builds a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// File name of the component.
    pub(crate) component: String,
    pub(crate) workspace: PathBuf,
    /// Folders of the packages that it depends on by path, directly.
    pub(crate) beside: Vec<PathBuf>,
    /// Whether it is run only when its own path is given: `package.metadata.pilothouse.dev = false` in its `Cargo.toml`.
    pub(crate) on_request: bool,
}

impl Package {
    /// The file with the versions of all dependencies, whether it exists or not.
    pub(crate) fn lock(&self) -> PathBuf {
        self.workspace.join("Cargo.lock")
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<PackageText>,
    workspace_root: PathBuf,
}

#[derive(Deserialize)]
struct PackageText {
    name: String,
    manifest_path: PathBuf,
    targets: Vec<TargetText>,
    #[serde(default)]
    metadata: Option<serde_json::Value>,
    dependencies: Vec<DependencyText>,
}

#[derive(Deserialize)]
struct TargetText {
    name: String,
    crate_types: Vec<String>,
}

#[derive(Deserialize)]
struct DependencyText {
    path: Option<PathBuf>,
}

/// What Cargo says of the package of a `Cargo.toml`; none when it builds no component. Blocks, and asks no registry.
pub(crate) fn package(manifest: &Path) -> Result<Option<Package>> {
    let folder = manifest.parent().unwrap_or(Path::new("/"));
    let output = command("cargo", folder)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--manifest-path"])
        .arg(manifest)
        .output()
        .map_err(|error| not_started("cargo", &error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("cargo cannot read {}: {}", manifest.display(), said.trim().trim_start_matches("error: "));
    }
    pick(&output.stdout, manifest)
        .with_context(|| format!("parsing `cargo metadata` of {}", manifest.display()))
}

fn pick(json: &[u8], manifest: &Path) -> Result<Option<Package>> {
    let Metadata { packages, workspace_root } = serde_json::from_slice(json)?;
    // A workspace's root without a package of its own is not among them.
    let Some(package) = packages.into_iter().find(|package| package.manifest_path == manifest) else {
        return Ok(None);
    };
    let cdylib = |target: &&TargetText| target.crate_types.iter().any(|crate_type| crate_type == "cdylib");
    let Some(library) = package.targets.iter().find(cdylib) else { return Ok(None) };
    let metadata = package.metadata.unwrap_or_default();
    Ok(Some(Package {
        on_request: metadata.pointer("/pilothouse/dev").and_then(serde_json::Value::as_bool) == Some(false),
        component: format!("{}.wasm", library.name.replace('-', "_")),
        name: package.name,
        workspace: workspace_root,
        beside: package.dependencies.into_iter().filter_map(|dependency| dependency.path).collect(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"workspace_root": "/w", "packages": [
        {"name": "tool", "manifest_path": "/w/tool/Cargo.toml", "dependencies": [],
         "targets": [{"name": "tool", "crate_types": ["bin"]}]},
        {"name": "my-guest", "manifest_path": "/w/guest/Cargo.toml", "metadata": {"pilothouse": {"dev": false}},
         "dependencies": [{"name": "sdk", "path": "/sdk"}, {"name": "serde"}],
         "targets": [{"name": "build-script-build", "crate_types": ["bin"]},
                     {"name": "my-guest", "crate_types": ["cdylib", "rlib"]}]}]}"#;

    #[test]
    fn the_package_of_the_manifest_is_taken_if_it_builds_a_component() {
        let guest = pick(JSON.as_bytes(), Path::new("/w/guest/Cargo.toml")).unwrap();
        let expected = Package {
            name: "my-guest".into(),
            component: "my_guest.wasm".into(),
            workspace: "/w".into(),
            beside: vec!["/sdk".into()],
            on_request: true,
        };
        assert_eq!(guest, Some(expected));
        assert_eq!(pick(JSON.as_bytes(), Path::new("/w/tool/Cargo.toml")).unwrap(), None);
        assert_eq!(pick(JSON.as_bytes(), Path::new("/w/Cargo.toml")).unwrap(), None);
    }

    #[test]
    fn a_missing_program_comes_with_a_remedy() {
        let error = command("no-such-cargo", Path::new("/")).output().unwrap_err();
        let error = not_started("cargo", &error).to_string();
        assert_eq!(
            error,
            "cargo is not installed, and plugins are built with it: install Rust with rustup (https://rustup.rs)"
        );
    }
}
