//! Runs Cargo from inside `cargo test`: builds what the tests need and returns the built files. [`crate::guests`] uses
//! it, and the harness of the end-to-end tests uses it to build the host.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde::Deserialize;

/// Variables that the outer Cargo sets for the package under test. An inner build script would mistake them for its
/// own.
const OF_THE_OUTER_PACKAGE: [&str; 6] =
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_PACKAGE", "OUT_DIR"];

/// The `CARGO_*` variables that a build for another target keeps: the sources of crates and the number of jobs.
const KEPT_FOR_GUESTS: [&str; 7] = [
    "CARGO_HOME",
    "CARGO_NET_",
    "CARGO_HTTP_",
    "CARGO_REGISTR",
    "CARGO_SOURCE_",
    "CARGO_BUILD_JOBS",
    "CARGO_TERM_",
];

/// Flags that apply to the native build only.
const NATIVE_FLAGS: [&str; 3] = ["RUSTFLAGS", "RUSTDOCFLAGS", "RUSTC_WORKSPACE_WRAPPER"];

/// The kind of a build. It determines which variables of the environment the build inherits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// A package of the outer workspace: the same flags, so that no crate is compiled twice.
    Native,
    /// A separate workspace for WebAssembly.
    Guest,
}

/// One line of `--message-format=json`, with the fields that are used here.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    filenames: Vec<PathBuf>,
    #[serde(default)]
    executable: Option<PathBuf>,
}

/// The files of a build, including those that were up to date.
#[derive(Debug, Default)]
pub struct Artifacts {
    /// Executables.
    pub executables: Vec<PathBuf>,
    /// All files, including libraries of dependencies.
    pub files: Vec<PathBuf>,
}

/// A Cargo command with arguments and a target folder, without the variables of the package under test.
pub fn command(what: Build, args: &[&str], target: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| leaks(what, name)) {
            command.env_remove(name);
        }
    }
    command.args(args).env("CARGO_TARGET_DIR", target).stdin(Stdio::null());
    command
}

/// Runs `cargo build` with arguments.
///
/// # Errors
/// When Cargo cannot be started or the build fails; the message contains the output of the compiler.
pub fn build(what: Build, args: &[&str], target: &Path) -> anyhow::Result<Artifacts> {
    let mut command = command(what, &[&["build"], args].concat(), target);
    let output =
        command.arg("--message-format=json-render-diagnostics").output().context("starting cargo")?;
    if !output.status.success() {
        bail!("`cargo build {}` failed:\n{}", args.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    let mut artifacts = Artifacts::default();
    for line in output.stdout.split(|byte| *byte == b'\n') {
        let Ok(message) = serde_json::from_slice::<Message>(line) else { continue };
        if message.reason == "compiler-artifact" {
            artifacts.executables.extend(message.executable);
            artifacts.files.extend(message.filenames);
        }
    }
    Ok(artifacts)
}

/// Whether the inner build must not inherit a variable.
pub fn leaks(what: Build, name: &str) -> bool {
    let one_of = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    match what {
        Build::Native => one_of(&OF_THE_OUTER_PACKAGE),
        Build::Guest => {
            name.starts_with("CARGO_") && !one_of(&KEPT_FOR_GUESTS)
                || name == "OUT_DIR"
                || NATIVE_FLAGS.contains(&name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_build_sees_no_flags_of_the_native_one() {
        for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_TARGET_DIR", "CARGO_PROFILE_RELEASE_LTO"]
        {
            assert!(leaks(Build::Guest, name), "{name}");
            assert!(!leaks(Build::Native, name), "{name}");
        }
        for name in ["CARGO_HOME", "CARGO_NET_OFFLINE", "CARGO_REGISTRIES_MINE_INDEX", "PATH"] {
            assert!(!leaks(Build::Guest, name), "{name}");
        }
    }

    #[test]
    fn no_build_takes_itself_for_the_package_under_test() {
        for name in ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR", "OUT_DIR"] {
            assert!(leaks(Build::Guest, name) && leaks(Build::Native, name), "{name}");
        }
    }
}
