//! Checks whether the Rust toolchain can build components for a target, and adds the target when it is missing.
//!
//! ```text
//!  rustc --print target-libdir ──► the target's libraries are there ─────────────► done
//!                              └─► missing ──► rustup target add ──► checked again ─► done, or an error with a remedy
//! ```
//!
//! rustup selects the toolchain by `rust-toolchain.toml` in the folder of the crate, so each command runs in that
//! folder. Callers: `pilothouse dev` before the first build of a crate, and the tests before they build guests. The
//! build script of this crate warns during a build when both the target and rustup are missing.

#![forbid(unsafe_code)]

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The compilation target of components.
pub const TARGET: &str = "wasm32-wasip2";

/// The compilation target of components that import nothing of WASI.
pub const TARGET_WITHOUT_WASI: &str = "wasm32-unknown-unknown";

/// The download page of rustup.
pub const RUSTUP: &str = "https://rustup.rs";

/// The reason why the toolchain of a folder cannot build for a target. Each text ends with the remedy.
#[derive(Debug)]
pub enum TargetError {
    /// The compiler could not be started.
    NoCompiler {
        /// The name of the compiler, or the value of `RUSTC`.
        program: String,
        /// The reason.
        error: io::Error,
    },
    /// The compiler failed: the toolchain that the folder requires is not installed, or is too old to support the
    /// target.
    CompilerFailed {
        /// The target.
        target: &'static str,
        /// The folder of the crate.
        folder: PathBuf,
        /// What the compiler reported.
        compiler: String,
    },
    /// The target is missing, and rustup is not installed.
    NoRustup {
        /// The target.
        target: &'static str,
        /// The folder of the crate.
        folder: PathBuf,
    },
    /// `rustup target add` failed.
    NotAdded {
        /// The target.
        target: &'static str,
        /// The folder of the crate.
        folder: PathBuf,
        /// What rustup reported.
        rustup: String,
    },
    /// rustup added the target to another toolchain than that of the compiler in use.
    OtherCompiler {
        /// The target.
        target: &'static str,
        /// The folder of the crate.
        folder: PathBuf,
        /// The compiler in use.
        program: String,
    },
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCompiler { program, error } if error.kind() == io::ErrorKind::NotFound => {
                write!(
                    f,
                    "the Rust compiler ({program}) is not installed: install Rust with rustup ({RUSTUP})"
                )
            }
            Self::NoCompiler { program, error } => {
                write!(
                    f,
                    "cannot start the Rust compiler ({program}): {error}; reinstall Rust with rustup ({RUSTUP})"
                )
            }
            Self::CompilerFailed { target, folder, compiler } => write!(
                f,
                "the Rust compiler used in {} cannot build for {target}: {compiler}; run `rustup toolchain install` there, and use \
                 Rust 1.95 or newer",
                folder.display()
            ),
            Self::NoRustup { target, folder } => write!(
                f,
                "the Rust compiler used in {} cannot build for {target}; install Rust with rustup ({RUSTUP}), or add the \
                 standard library for {target} by the means that installed this compiler",
                folder.display()
            ),
            Self::NotAdded { target, folder, rustup } => write!(
                f,
                "cannot add the Rust target {target}: {rustup}; run `rustup target add {target}` in {}, after `rustup update` \
                 if the compiler is older than 1.95",
                folder.display()
            ),
            Self::OtherCompiler { target, folder, program } => write!(
                f,
                "rustup added the Rust target {target}, but the compiler in use ({program}) does not have it: unset RUSTC, or \
                 put rustup's rustc first on the PATH, for {}",
                folder.display()
            ),
        }
    }
}

impl std::error::Error for TargetError {}

/// Ensures that the toolchain of `folder` can build for `target`: adds a missing target with rustup. Before the
/// download it calls `report` once with a line that says so.
///
/// `command` returns the command of a program with the environment of a build in `folder`. `run` runs it to its end and
/// returns its output; dropping its future must end the process.
pub async fn ensure_target(
    target: &'static str,
    folder: &Path,
    command: impl Fn(&str) -> Command,
    run: impl AsyncFn(Command) -> io::Result<Output>,
    report: impl FnOnce(&str),
) -> Result<(), TargetError> {
    let program = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let ask = async || {
        let mut rustc = command(&program);
        rustc.args(["--print", "target-libdir", "--target", target]);
        run(rustc).await.map_err(|error| TargetError::NoCompiler { program: program.clone(), error })
    };
    let rustup = async |args: &[&str]| {
        let mut rustup = command("rustup");
        rustup.args(args);
        run(rustup).await
    };
    let answer = ask().await?;
    if has_libraries(&answer) {
        return Ok(());
    }
    if !answer.status.success() {
        let compiler = first_error(&answer.stderr);
        return Err(TargetError::CompilerFailed { target, folder: folder.to_owned(), compiler });
    }
    let Ok(active) = rustup(&["show", "active-toolchain"]).await else {
        return Err(TargetError::NoRustup { target, folder: folder.to_owned() });
    };
    let active = text(&active.stdout);
    let toolchain = active.split_whitespace().next().unwrap_or("in use");
    report(&format!("adding the Rust target {target} to the toolchain {toolchain} (rustup target add)"));
    let not_added = |rustup: String| TargetError::NotAdded { target, folder: folder.to_owned(), rustup };
    match rustup(&["target", "add", target]).await {
        Ok(added) if added.status.success() => {}
        Ok(failed) => return Err(not_added(first_error(&failed.stderr))),
        Err(error) => return Err(not_added(format!("cannot run rustup: {error}"))),
    }
    if has_libraries(&ask().await?) {
        return Ok(());
    }
    Err(TargetError::OtherCompiler { target, folder: folder.to_owned(), program })
}

/// Whether the compiler's folder for the libraries of the target exists.
fn has_libraries(answer: &Output) -> bool {
    answer.status.success() && Path::new(&text(&answer.stdout)).is_dir()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

/// The first line that a program labels as an error, or its last line. rustup writes progress before the error and
/// hints after it.
fn first_error(stderr: &[u8]) -> String {
    let said = text(stderr);
    let line = said.lines().find(|line| line.starts_with("error:")).or_else(|| said.lines().last());
    line.unwrap_or("it failed without a message").trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests;
