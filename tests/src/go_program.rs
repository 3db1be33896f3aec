//! [`GoProgram`]: a program that tests run and that is built from Go modules. `tests/NAME/build.sh` builds it, with the
//! build flags of `tests/go-build.sh`.
//!
//! Invariants: it is built once per state of its sources, however many test processes use it; the binary is in Cargo's
//! target folder under a name with a hash of its sources.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use sha2::{Digest, Sha256};

use crate::paths;
use crate::tools::Tool;

/// A program in `tests/NAME`.
#[derive(Debug, Clone, Copy)]
pub struct GoProgram {
    name: &'static str,
    /// What the first build takes.
    cost: &'static str,
    /// The variable that chooses other versions of its modules: `1.35` for those of `go-1.35.mod`.
    choice: Option<&'static str>,
}

/// The variable with the minor version of Kubernetes of [`CONTROLPLANE`]. Without it, it is that of `go.mod`.
pub const KUBERNETES: &str = "PILOTHOUSE_KUBERNETES";

/// The modules of a program unless others are chosen.
const MODULES: &str = "go.mod";

/// The real kube-apiserver and etcd, with a kubectl.
pub const CONTROLPLANE: GoProgram = GoProgram {
    name: "controlplane",
    cost: "about ten minutes and 4 GB of Go's caches",
    choice: Some(KUBERNETES),
};

/// Helm.
pub const HELM: GoProgram = GoProgram { name: "helm", cost: "about three minutes", choice: None };

/// The registry of the project Distribution.
pub const REGISTRY: GoProgram = GoProgram { name: "registry", cost: "some minutes", choice: None };

/// cosign.
pub const COSIGN: GoProgram =
    GoProgram { name: "cosign", cost: "some minutes and a gigabyte of Go's caches", choice: None };

/// The core of the OpenTelemetry collector.
pub const COLLECTOR: GoProgram = GoProgram { name: "collector", cost: "some minutes", choice: None };

/// promtool of Prometheus.
pub const PROMTOOL: GoProgram = GoProgram { name: "promtool", cost: "some minutes", choice: None };

impl GoProgram {
    /// The path of the binary. Builds it unless a binary of the same sources exists.
    ///
    /// # Errors
    /// [`MissingTool`](crate::tools::MissingTool) without Go; another error when the build fails.
    pub fn built(self) -> anyhow::Result<PathBuf> {
        let Place { modules, folder, name } = self.place()?;
        let binary = folder.join(&name);
        if binary.exists() {
            return Ok(binary);
        }
        paths::locked(&folder, || {
            if binary.exists() {
                return Ok(());
            }
            Tool::Go.require()?;
            self.build(&modules, &folder, &binary)?;
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
        let Place { folder, name, .. } = self.place()?;
        Ok(folder.join(name).exists())
    }

    /// The version of a module that it requires itself, such as `v1.36.3`.
    ///
    /// # Errors
    /// When it does not require the module, or the chosen versions do not exist.
    pub fn version_of(self, module: &str) -> anyhow::Result<String> {
        let modules = self.sources().join(self.modules()?);
        let text = fs::read_to_string(&modules).with_context(|| format!("reading {}", modules.display()))?;
        let versions = text.lines().filter_map(|line| line.trim().strip_prefix(module)?.strip_prefix(' '));
        let version = versions.flat_map(str::split_whitespace).next();
        Ok(version.with_context(|| format!("{} does not require {module}", modules.display()))?.to_owned())
    }

    fn sources(self) -> PathBuf {
        paths::repository().join("tests").join(self.name)
    }

    /// The file of its sources with the versions of its modules.
    fn modules(self) -> anyhow::Result<String> {
        let chosen = self.choice.and_then(env::var_os);
        self.chosen(chosen.map(|version| version.to_string_lossy().into_owned()))
    }

    fn chosen(self, version: Option<String>) -> anyhow::Result<String> {
        let Some(version) = version.filter(|version| !version.is_empty()) else {
            return Ok(MODULES.to_owned());
        };
        let (variable, file) = (self.choice.unwrap_or_default(), format!("go-{version}.mod"));
        ensure!(
            self.sources().join(&file).is_file(),
            "{variable}={version}: there is no tests/{}/{file}; name the version of such a file, or leave {variable} out",
            self.name
        );
        Ok(file)
    }

    fn place(self) -> anyhow::Result<Place> {
        let modules = self.modules()?;
        // Each choice has a folder of its own, so that it does not replace the binary of another.
        let choice = modules.trim_start_matches("go").trim_end_matches(".mod");
        let folder = paths::target().join(format!("{}{choice}", self.name));
        let name = format!("{}-{}", self.name, fingerprint(&self.sources(), &modules)?);
        Ok(Place { modules, folder, name })
    }

    fn build(self, modules: &str, folder: &Path, binary: &Path) -> anyhow::Result<()> {
        let Self { name, cost, .. } = self;
        let unfinished = folder.join(format!("{name}.unfinished"));
        eprintln!("building {name} for tests; the first time takes {cost}");
        let output = Command::new("/bin/sh")
            .arg(self.sources().join("build.sh"))
            .arg(&unfinished)
            .args((modules != MODULES).then_some(modules))
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

/// Where the binary of a program is, and of which modules it is built.
struct Place {
    /// The name of the file with their versions.
    modules: String,
    /// The folder of the binary.
    folder: PathBuf,
    /// The name of the binary.
    name: String,
}

/// A hash of all sources of the binary, including the versions of its modules and the flags in `go-build.sh`.
fn fingerprint(sources: &Path, modules: &str) -> anyhow::Result<String> {
    let programs = sources.parent().context("a program is in a folder of programs")?;
    let sums = Path::new(modules).with_extension("sum");
    let mut files = vec![sources.join(modules), sources.join(sums)];
    files.extend([sources.join("build.sh"), programs.join("go-build.sh")]);
    find_sources(sources, &mut files)?;
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        let content = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
        // Each file is hashed by its own digest, so that moving bytes between files changes the hash.
        let name = file.strip_prefix(programs)?;
        hash.update(Sha256::digest(name.as_os_str().as_encoded_bytes()));
        hash.update(Sha256::digest(&content));
    }
    Ok(hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect())
}

/// All files of Go in a folder and those below it that are compiled.
fn find_sources(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        let counts = |name: &str| name.ends_with(".go") && !name.ends_with("_test.go");
        if path.is_dir() {
            find_sources(&path, files)?;
        } else if path.file_name().and_then(|name| name.to_str()).is_some_and(counts) {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_versions_of_modules_are_chosen_by_a_file_of_theirs() {
        let chosen = |version: &str| CONTROLPLANE.chosen(Some(version.to_owned()));
        assert_eq!(CONTROLPLANE.chosen(None).unwrap(), "go.mod");
        assert_eq!(chosen("").unwrap(), "go.mod");
        assert_eq!(chosen("1.35").unwrap(), "go-1.35.mod");
        let error = chosen("1.2").unwrap_err().to_string();
        assert!(
            error.starts_with("PILOTHOUSE_KUBERNETES=1.2: there is no tests/controlplane/go-1.2.mod;"),
            "{error}"
        );
    }

    #[test]
    fn other_versions_of_modules_are_other_binaries() {
        let sources = CONTROLPLANE.sources();
        let [own, other] = ["go.mod", "go-1.35.mod"].map(|modules| fingerprint(&sources, modules).unwrap());
        assert_ne!(own, other);
        assert_eq!(own, fingerprint(&sources, "go.mod").unwrap());
    }
}
