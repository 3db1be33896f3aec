//! Builds the plugin of `guests/other-languages` from each language with the tools that its README names, and the same plugin
//! in Rust. The tools are installed from the languages' registries into Cargo's target folder, and stay there.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::tools::Tool;
use crate::{guests, paths};

/// The folder `guests/other-languages`.
#[must_use]
pub fn folder() -> PathBuf {
    paths::repository().join("guests/other-languages")
}

/// A language of the plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// The SDK: `guests/fixtures/key-counter`.
    Rust,
    /// CPython, with componentize-py.
    Python,
    /// SpiderMonkey, with componentize-js.
    JavaScript,
    /// wit-bindgen and clang.
    C,
}

impl Language {
    /// Its name in lower case, as the folder is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Language::Rust => "rust",
            Language::Python => "python",
            Language::JavaScript => "javascript",
            Language::C => "c",
        }
    }

    /// Builds the component and returns its path.
    ///
    /// # Errors
    /// [`MissingTool`](crate::tools::MissingTool) when a program is not on the PATH; otherwise what the build said.
    pub fn component(self) -> anyhow::Result<PathBuf> {
        match self {
            Language::Rust => guests::wasm("key-counter"),
            Language::Python => {
                Tool::Python.require()?;
                built(self, |work, to| script(self, "VENV", work.join("venv"), to))
            }
            Language::JavaScript => {
                Tool::Node.require()?;
                built(self, npm)
            }
            Language::C => {
                Tool::C.require()?;
                built(self, |work, to| script(self, "BUILD", work.join("generated"), to))
            }
        }
    }
}

/// Runs a command to its end; its output is in the error.
fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{command:?} failed:\n{err}\n{out}");
    Ok(())
}

/// Builds a language's component in a folder of its own below Cargo's target folder, which it keeps for what is installed.
fn built(
    language: Language,
    build: impl FnOnce(&Path, &Path) -> anyhow::Result<()>,
) -> anyhow::Result<PathBuf> {
    let name = language.name();
    let work = paths::target().join("other-languages").join(name);
    paths::locked(&work, || {
        let (component, new) = (work.join("key_counter.wasm"), work.join("new/key_counter.wasm"));
        fs::create_dir_all(work.join("new"))?;
        build(&work, &new)?;
        // Another process may be reading the one that it built, so it is replaced as a whole.
        fs::rename(&new, &component)
            .with_context(|| format!("{name}: the build made no {}", new.display()))?;
        Ok(component)
    })
}

/// A `build` script with one variable.
fn script(language: Language, name: &str, value: impl AsRef<OsStr>, component: &Path) -> anyhow::Result<()> {
    let build = folder().join(language.name()).join("build");
    run(Command::new(build).arg(component).env(name, value))
}

/// The build of JavaScript. npm installs beside package.json only, so the sources are copied to where the contract is found as
/// well.
fn npm(work: &Path, to: &Path) -> anyhow::Result<()> {
    let copy = work.join("guests/other-languages/javascript");
    let (contract, copied) = (paths::repository().join("wit"), work.join("wit"));
    for (from, to) in [(folder().join("javascript"), &copy), (contract, &copied)] {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                fs::copy(entry.path(), to.join(entry.file_name()))?;
            }
        }
    }
    run(Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(&copy))?;
    run(Command::new("npm").args(["run", "build", "--"]).arg(to).current_dir(&copy))
}
