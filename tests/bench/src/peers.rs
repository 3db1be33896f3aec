//! Builds the peers (`tests/peers`) into Cargo's target folder: `target/peers`. Called by the benches of all crates.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, bail};

const GO_REMEDY: &str = "The benchmark is held against programs written in Go: install Go 1.26 or newer (https://go.dev/dl) and have \
     `go` on the PATH; the first build needs a Go module proxy (GOPROXY).";

const CARGO_REMEDY: &str =
    "kube-rs is a peer of this benchmark; its first build takes some minutes and needs crates.io.";

/// The repository's `tests/peers`.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../peers")
}

fn folder() -> anyhow::Result<PathBuf> {
    let folder = crate::target()?.join("peers");
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    Ok(folder)
}

/// The program of `tests/peers/clientgo`: the replay server, client-go and controller-runtime. Built at the first call.
///
/// # Errors
/// When it cannot be built; the error says what is missing.
pub fn go() -> anyhow::Result<&'static Path> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    once(&BUILT, || {
        let binary = folder()?.join("clientgo");
        let mut go = Command::new("go");
        // The flags of tests/controlplane/build.sh: another set would compile client-go once more.
        go.args(["build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", "-s -w", "-o"])
            .arg(&binary)
            .arg(".")
            .current_dir(sources().join("clientgo"))
            .env("CGO_ENABLED", "0");
        for variable in ["GOFLAGS", "GOOS", "GOARCH", "GOEXPERIMENT", "GODEBUG"] {
            go.env_remove(variable);
        }
        build(go, "client-go", GO_REMEDY)?;
        Ok(binary)
    })
}

/// The program of `tests/peers/kube-rs`. Built at the first call.
///
/// # Errors
/// When it cannot be built; the error says what is missing.
pub fn kube_rs() -> anyhow::Result<&'static Path> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    once(&BUILT, || {
        let target = folder()?.join("kube-rs");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        // What the outer Cargo says about this package is not for that one.
        for (name, _) in std::env::vars_os() {
            let leaks =
                ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_PACKAGE"];
            if name.to_str().is_some_and(|name| leaks.iter().any(|prefix| name.starts_with(prefix))) {
                cargo.env_remove(name);
            }
        }
        cargo
            .args(["build", "--release", "--locked"])
            .current_dir(sources().join("kube-rs"))
            .env("CARGO_TARGET_DIR", &target);
        build(cargo, "kube-rs", CARGO_REMEDY)?;
        Ok(target.join("release/kube-rs-peer"))
    })
}

fn once(
    built: &'static OnceLock<PathBuf>,
    build: impl FnOnce() -> anyhow::Result<PathBuf>,
) -> anyhow::Result<&'static Path> {
    match built.get() {
        Some(path) => Ok(path),
        None => {
            let path = build()?;
            Ok(built.get_or_init(|| path))
        }
    }
}

fn build(mut command: Command, what: &str, remedy: &str) -> anyhow::Result<()> {
    eprintln!("building the peer {what} (minutes the first time)");
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => bail!("{:?} cannot be run ({error}). {remedy}", command.get_program()),
    };
    if !output.status.success() {
        let log = String::from_utf8_lossy(&output.stderr);
        bail!("building the peer {what} failed ({}):\n{log}\n{remedy}", output.status);
    }
    Ok(())
}
