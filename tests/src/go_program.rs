//! [`GoProgram`]: a program that tests run and that is built from Go modules. `tests/NAME/build.sh` builds it and has the
//! build flags.
//!
//! Invariants: it is built once per state of its sources, however many test processes use it; the binary is in Cargo's
//! target folder under a name with a hash of its sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use sha2::{Digest, Sha256};

use crate::paths;
use crate::tools::Tool;

/// A program in `tests/NAME`.
#[derive(Debug, Clone, Copy)]
pub struct GoProgram {
    name: &'static str,
    /// What the first build takes.
    cost: &'static str,
}

/// The real kube-apiserver and etcd, with a kubectl.
pub const CONTROLPLANE: GoProgram =
    GoProgram { name: "controlplane", cost: "about ten minutes and 4 GB of Go's caches" };

/// Helm.
pub const HELM: GoProgram = GoProgram { name: "helm", cost: "about three minutes" };

/// The registry of the project Distribution.
pub const REGISTRY: GoProgram = GoProgram { name: "registry", cost: "some minutes" };

/// cosign.
pub const COSIGN: GoProgram =
    GoProgram { name: "cosign", cost: "some minutes and a gigabyte of Go's caches" };

impl GoProgram {
    /// The path of the binary. Builds it unless a binary of the same sources exists.
    ///
    /// # Errors
    /// [`MissingTool`](crate::tools::MissingTool) without Go; another error when the build fails.
    pub fn built(self) -> anyhow::Result<PathBuf> {
        let (sources, folder, name) = self.place()?;
        let binary = folder.join(&name);
        if binary.exists() {
            return Ok(binary);
        }
        paths::locked(&folder, || {
            if binary.exists() {
                return Ok(());
            }
            Tool::Go.require()?;
            self.build(&sources, &folder, &binary)?;
            self.forget_others(&folder, &name)
        })?;
        Ok(binary)
    }

    /// Checks that the binary is built or can be built.
    ///
    /// # Errors
    /// [`MissingTool`](crate::tools::MissingTool) without either.
    pub fn require(self) -> anyhow::Result<()> {
        if !self.exists()? {
            Tool::Go.require()?;
        }
        Ok(())
    }

    /// Whether the binary is built.
    ///
    /// # Errors
    /// When the sources cannot be read.
    pub fn exists(self) -> anyhow::Result<bool> {
        let (_, folder, name) = self.place()?;
        Ok(folder.join(name).exists())
    }

    /// The sources, and the folder and the name of the binary.
    fn place(self) -> anyhow::Result<(PathBuf, PathBuf, String)> {
        let sources = paths::repository().join("tests").join(self.name);
        let name = format!("{}-{}", self.name, fingerprint(&sources)?);
        Ok((sources, paths::target().join(self.name), name))
    }

    fn build(self, sources: &Path, folder: &Path, binary: &Path) -> anyhow::Result<()> {
        let Self { name, cost } = self;
        let unfinished = folder.join(format!("{name}.unfinished"));
        eprintln!("building {name} for tests; the first time takes {cost}");
        let output = Command::new("/bin/sh")
            .arg(sources.join("build.sh"))
            .arg(&unfinished)
            .output()
            .with_context(|| format!("starting tests/{name}/build.sh"))?;
        if !output.status.success() {
            let log = String::from_utf8_lossy(&output.stderr).into_owned();
            bail!(
                "tests/{name}/build.sh failed ({}):\n{log}\nThese tests build {name} from Go modules. The first build takes {cost}, and needs a Go module proxy (GOPROXY).",
                output.status
            );
        }
        fs::rename(&unfinished, binary).with_context(|| format!("naming {}", binary.display()))
    }

    /// Removes the binaries of older sources, of up to 120 MB each. A process that still runs one continues.
    fn forget_others(self, folder: &Path, name: &str) -> anyhow::Result<()> {
        let prefix = format!("{}-", self.name);
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let old = |file: &str| file.starts_with(&prefix) && file != name;
            if entry.file_name().to_str().is_some_and(old) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
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
