//! The control plane's binary: built by `tests/controlplane/build.sh`, which has the build flags, and stored in Cargo's
//! target folder under a name with a hash of its sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use sha2::{Digest, Sha256};

use super::Server;
use crate::paths;
use crate::tools::Tool;

const REMEDY: &str = "These tests link a real kube-apiserver from Go modules. The first build takes about ten minutes and 4 GB of \
     Go's caches, and needs a Go module proxy (GOPROXY).";

/// The path of the binary. Builds it unless a binary of the same sources exists.
pub(super) fn built() -> anyhow::Result<PathBuf> {
    let (sources, folder, name) = place()?;
    let binary = folder.join(&name);
    if binary.exists() {
        return Ok(binary);
    }
    paths::locked(&folder, || {
        if binary.exists() {
            return Ok(());
        }
        Tool::Go.require()?;
        build(&sources, &folder, &binary)?;
        forget_others(&folder, &name)
    })?;
    Ok(binary)
}

/// Checks that the binary is built or can be built.
pub(super) fn require() -> anyhow::Result<()> {
    if !exists()? {
        Tool::Go.require()?;
    }
    Ok(())
}

/// A `kubectl` command: the one in the binary, or for the development server one on the PATH, so that Go is not needed.
pub(super) fn kubectl(server: Server) -> anyhow::Result<Command> {
    if server == Server::Development && !exists()? {
        match Tool::Kubectl.require() {
            Ok(()) => return Ok(Command::new("kubectl")),
            // Go would build one. Without Go, the error names kubectl, which is easier to install.
            Err(missing) => Tool::Go.require().map_err(|_| missing)?,
        }
    }
    let mut command = Command::new(built()?);
    command.arg("kubectl");
    Ok(command)
}

fn exists() -> anyhow::Result<bool> {
    let (_, folder, name) = place()?;
    Ok(folder.join(name).exists())
}

/// The sources, and the folder and the name of the binary.
fn place() -> anyhow::Result<(PathBuf, PathBuf, String)> {
    let sources = paths::repository().join("tests/controlplane");
    let name = format!("controlplane-{}", fingerprint(&sources)?);
    Ok((sources, paths::target().join("controlplane"), name))
}

/// A hash of all sources of the binary, including the flags in `build.sh`.
fn fingerprint(sources: &Path) -> anyhow::Result<String> {
    let mut files = Vec::new();
    find_sources(sources, &mut files)?;
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        let content = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
        // Each file is hashed by its own digest, so that moving bytes between files changes the hash.
        let name = file.strip_prefix(sources)?;
        hash.update(Sha256::digest(name.as_os_str().as_encoded_bytes()));
        hash.update(Sha256::digest(&content));
    }
    Ok(hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect())
}

/// All files in a folder and those below it that are compiled.
fn find_sources(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        let counts = |name: &str| {
            name.ends_with(".go") && !name.ends_with("_test.go")
                || ["go.mod", "go.sum", "build.sh"].contains(&name)
        };
        if path.is_dir() {
            find_sources(&path, files)?;
        } else if path.file_name().and_then(|name| name.to_str()).is_some_and(counts) {
            files.push(path);
        }
    }
    Ok(())
}

fn build(sources: &Path, folder: &Path, binary: &Path) -> anyhow::Result<()> {
    let unfinished = folder.join("controlplane.unfinished");
    eprintln!("building the control plane for tests; the first time takes about ten minutes");
    let output = Command::new("/bin/sh")
        .arg(sources.join("build.sh"))
        .arg(&unfinished)
        .output()
        .context("starting tests/controlplane/build.sh")?;
    if !output.status.success() {
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("tests/controlplane/build.sh failed ({}):\n{log}\n{REMEDY}", output.status);
    }
    fs::rename(&unfinished, binary).with_context(|| format!("naming {}", binary.display()))
}

/// Removes the binaries of older sources, 120 MB each. A process that still runs one continues.
fn forget_others(folder: &Path, name: &str) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let old = |file: &str| file.starts_with("controlplane-") && file != name;
        if entry.file_name().to_str().is_some_and(old) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
