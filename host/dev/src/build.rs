//! `pilothouse build`: builds the component of one plugin crate, as `pilothouse dev` does, and puts it where it is wanted.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use pilothouse_toolchain::{TARGET, TARGET_WITHOUT_WASI};

use crate::component_names::without_names;
use crate::dev::build::{self as cargo_build, BuildRequest, RELEASE};
use crate::dev::cargo::Package;
use crate::dev::folder::shared_target;
use crate::dev::log::Log;
use crate::dev::projects::{self, Project, Source};
use crate::no_wasi;
use pilothouse_hosting::output::{print, shown, size};
use pilothouse_hosting::put::put;
use pilothouse_hosting::signals::Signals;

const EXAMPLES: &str = "Examples:
  # The plugin crate in this folder: its component is put beside its Cargo.toml
  pilothouse build

  # Another one, into a plugin directory, with its manifests
  pilothouse build plugins/greeter --out /srv/plugins

  # A component that imports nothing of WASI: smaller, and with less memory in the host
  pilothouse build --no-wasi";

/// The command `pilothouse build`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Build {
    /// Plugin crate: a folder, or its Cargo.toml
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// Directory for the component and its manifests, made if it is missing [default: the folder of the crate]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Cargo profile
    #[arg(long, value_name = "NAME", default_value = RELEASE)]
    profile: String,
    /// Build a component that imports nothing of WASI; refused if it reads the clock of std, prints, or sends HTTP requests
    #[arg(long)]
    no_wasi: bool,
}

impl Build {
    /// Runs the command.
    ///
    /// # Errors
    /// With what went wrong, and what to do about it.
    pub fn main(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(self.build())
    }

    async fn build(self) -> Result<()> {
        let mut signals = Signals::catch()?;
        let project = only_project(&self.path)?;
        let Source::Crate(package) = &project.source else {
            bail!(
                "{} is a component already: name a plugin crate, or `.` for this folder",
                self.path.display()
            );
        };
        let triple = if self.no_wasi { TARGET_WITHOUT_WASI } else { TARGET };
        let built = tokio::select! {
            built = build_crate(&project, package, self.profile, triple) => built?,
            // With it the processes of the build.
            () = signals.next() => bail!("interrupted"),
        };
        let component =
            fs::read(&built.component).with_context(|| format!("reading {}", built.component.display()))?;
        let component = without_names(component);
        let needs = if self.no_wasi { no_wasi::needs(&component) } else { Vec::new() };
        if !needs.is_empty() {
            bail!(
                "{}: the component needs WASI: {}; or build it without --no-wasi",
                shown(&project.folder),
                needs.join("; ")
            );
        }
        let name = built.component.file_name().context("cargo named no file")?;
        let bytes = u64::try_from(component.len())?;
        let to = match &self.out {
            None => project.folder.clone(),
            Some(out) => {
                fs::create_dir_all(out).with_context(|| {
                    format!("--out: cannot make {}; name a directory that can be written", out.display())
                })?;
                // Before the component: a host that watches the directory runs it with its manifest at once.
                put_manifests(&project, out)?;
                out.clone()
            }
        };
        let to = to.join(name);
        put(&to, &component)?;
        print(&format!("{}: {}, {}\n", shown(&to), size(bytes), built.how))
    }
}

/// A component that was built.
pub(crate) struct Built {
    /// Where cargo has put it.
    pub(crate) component: PathBuf,
    /// How long it took, for people.
    pub(crate) how: String,
}

/// Builds a crate for a compilation target, with the target folder that `dev` uses; the compiler's words go to standard error.
pub(crate) async fn build_crate(
    project: &Project,
    package: &Package,
    profile: String,
    triple: &'static str,
) -> Result<Built> {
    let request = BuildRequest {
        label: project.label.clone(),
        folder: project.folder.clone(),
        target: shared_target(Path::new("."))?,
        profile,
        triple,
        lock: package.lock(),
        target_checked: false,
        first: false,
    };
    let report = cargo_build::build(request, Log::to_stderr()).await;
    let how = cargo_build::built(&report);
    let folder = shown(&project.folder);
    let component =
        report.component.with_context(|| format!("{folder}: no component was built; the reason is above"))?;
    Ok(Built { component, how })
}

/// The one project of a path. Others below a folder that is a plugin crate itself, as its examples, are not meant.
pub(crate) fn only_project(path: &Path) -> Result<Project> {
    let mut projects = projects::find(&[path.to_owned()])?.projects;
    let given = path.canonicalize().with_context(|| format!("reading {}", path.display()))?;
    if let Some(own) = projects
        .iter()
        .position(|project| project.folder == given && matches!(project.source, Source::Crate(_)))
    {
        return Ok(projects.swap_remove(own));
    }
    match (projects.pop(), projects.first()) {
        (Some(only), None) => Ok(only),
        (last, _) => {
            let all = projects.iter().chain(&last).map(|project| shown(&project.folder).to_string());
            let all = all.collect::<Vec<_>>().join(", ");
            Err(anyhow!("{} holds several plugins: {all}; name the path of one of them", path.display()))
        }
    }
}

/// Copies the manifests of a project, each under the name by which a plugin directory finds its component.
fn put_manifests(project: &Project, out: &Path) -> Result<()> {
    let paired = project.paired();
    if let Some(broken) = paired.broken.first() {
        bail!("{broken}");
    }
    paired.manifests.iter().try_for_each(|manifest| put(&out.join(&manifest.file), &manifest.content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_a_crate_is_that_crate_whatever_is_below_it() {
        let dir = tempfile::tempdir().unwrap();
        for (folder, name) in [("own", "own"), ("own/examples/other", "other")] {
            let folder = dir.path().join(folder);
            fs::create_dir_all(folder.join("src")).unwrap();
            fs::write(folder.join("src/lib.rs"), "").unwrap();
            let toml = format!(
                "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\n[lib]\ncrate-type = [\"cdylib\"]\n[workspace]\n"
            );
            fs::write(folder.join("Cargo.toml"), toml).unwrap();
        }
        for (path, label) in [("own", "own"), ("own/examples", "other"), ("own/examples/other", "other")] {
            assert_eq!(only_project(&dir.path().join(path)).unwrap().label, label, "{path}");
        }
        let error = only_project(dir.path()).unwrap_err().to_string();
        assert!(error.contains("several plugins"), "{error}");
    }
}
