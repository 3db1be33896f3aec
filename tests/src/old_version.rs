//! [`OldVersion`]: the host of an older commit of this repository, and a plugin of that time, for tests of two versions side by side.
//!
//! Invariants: both are built from the files of the commit alone, with its lock files; they are in Cargo's target folder, and are
//! built once. The repository is only read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::cargo::{self, Build};
use crate::process::{self, Finished};
use crate::tools::{MissingTool, Tool};
use crate::{guests, paths};

/// Of 2026-11-26: the contract 0.2.0, before shards, Plugins of the cluster and several clusters.
const COMMIT: &str = "dd8d1d80b183a64885d322660e8084d1ee1aa113";
/// Time limit of a command of git or tar.
const COMMAND: Duration = Duration::from_secs(300);

/// What was built of the older commit.
#[derive(Debug, Clone)]
pub struct OldVersion {
    /// The host: the binary for clusters, with the profile of this test.
    pub host: PathBuf,
    /// The component.
    pub component: PathBuf,
}

impl OldVersion {
    /// Builds the host and a guest of the older commit. The first time takes about as long as a first build of this workspace.
    ///
    /// # Errors
    /// [`MissingTool`] without git, or where the history does not have the commit; another error when a build fails.
    pub fn built(guest: &str) -> anyhow::Result<OldVersion> {
        Tool::Git.require()?;
        check_history()?;
        // The target of components is there, then.
        guests::wasm(guest)?;
        let folder = paths::target().join("versions").join(COMMIT);
        paths::locked(&folder, || {
            let source = folder.join("source");
            if !source.exists() {
                extract(&folder, &source)?;
            }
            let path = |file: &str| {
                let path = source.join(file);
                path.to_str().map(str::to_owned).context("the path of the target folder is not UTF-8")
            };
            let (workspace, profile) = (path("Cargo.toml")?, paths::profile());
            let host = ["--package", "pilothouse", "--no-default-features", "--profile", &profile];
            let host = [&["--manifest-path", &workspace, "--locked"][..], &host].concat();
            let host = cargo::build(Build::Native, &host, &folder.join("target"))?.executables;
            let host =
                host.into_iter().find(|file| file.file_stem().is_some_and(|stem| stem == "pilothouse"));

            let workspace = path("guests/Cargo.toml")?;
            let of_guest = ["--package", guest, "--release", "--target", "wasm32-wasip2"];
            let of_guest = [&["--manifest-path", &workspace, "--locked"][..], &of_guest].concat();
            let files = cargo::build(Build::Guest, &of_guest, &folder.join("guests"))?.files;
            let name = format!("{}.wasm", guest.replace('-', "_"));
            let component = files.into_iter().find(|file| file.file_name().is_some_and(|own| *own == *name));
            Ok(OldVersion {
                host: host.with_context(|| format!("{COMMIT} has no binary pilothouse"))?,
                component: component.with_context(|| format!("{COMMIT} has no guest {guest}"))?,
            })
        })
    }
}

/// Runs a program in the repository.
fn run(program: &str, args: &[&str]) -> anyhow::Result<Finished> {
    let mut command = Command::new(program);
    // A hook of git names a repository of its own.
    command.args(args).current_dir(paths::repository()).env_remove("GIT_DIR").env_remove("GIT_INDEX_FILE");
    process::run(&mut command, "", COMMAND).with_context(|| format!("{program} {}", args.join(" ")))
}

/// Checks that the history has the commit.
fn check_history() -> anyhow::Result<()> {
    let asked = run("git", &["cat-file", "-e", &format!("{COMMIT}^{{commit}}")])?;
    if asked.status.success() {
        return Ok(());
    }
    let reason = format!("the history has no commit {COMMIT}: {}", asked.stderr.trim());
    Err(MissingTool { tool: Tool::Git, reason }.into())
}

/// Writes the files of the commit to `to`, all or none.
fn extract(folder: &Path, to: &Path) -> anyhow::Result<()> {
    let (archive, incoming) = (folder.join("source.tar"), folder.join("incoming"));
    // Of a process that was killed meanwhile.
    if incoming.exists() {
        fs::remove_dir_all(&incoming).with_context(|| format!("removing {}", incoming.display()))?;
    }
    fs::create_dir(&incoming).with_context(|| format!("making {}", incoming.display()))?;
    let (file, into) = (archive.to_string_lossy(), incoming.to_string_lossy());
    for (program, args) in [
        ("git", &["archive", "--format=tar", "--output", &file, COMMIT][..]),
        ("tar", &["-x", "-f", &file, "-C", &into][..]),
    ] {
        let finished = run(program, args)?;
        ensure!(finished.status.success(), "{program} {}: {}", args.join(" "), finished.stderr.trim());
    }
    fs::remove_file(&archive)?;
    Ok(fs::rename(&incoming, to)?)
}
