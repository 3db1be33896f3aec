//! [`find`]: the plugins of the paths that were given.
//!
//! A path is a guest crate, a folder with guest crates in it (a few levels down), a component, or a folder of components. Called
//! once, at the start; what comes later into a folder is not looked for.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use pilothouse_plugin::Manifest;

use super::cargo::{self, Package};
use super::manifests::Paired;
use super::watch::Root;

/// How many levels beneath a given folder crates are looked for.
const LEVELS: usize = 3;

/// Where the component of a project comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// Built from a crate: its package as Cargo describes it.
    Crate(Package),
    /// A file that something else builds.
    Component(PathBuf),
}

/// What stands for one component and the plugins made of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Project {
    /// What the log calls it.
    pub(crate) label: String,
    /// Where its manifests are; for a crate, the crate.
    pub(crate) folder: PathBuf,
    /// File name of the component.
    pub(crate) component: String,
    pub(crate) source: Source,
}

/// What a change of a file asks for; the greater includes the less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PendingWork {
    /// Install the manifests again.
    Install,
    /// Build first.
    Build,
}

impl Project {
    /// The manifests as they are now.
    pub(crate) fn paired(&self) -> Paired {
        let mut paired = Paired::find(&self.folder, &self.component);
        if matches!(self.source, Source::Crate(_)) {
            paired.broken.extend(paired.misnamed(&self.component));
        }
        paired
    }

    /// What is to be watched, as far as it is known before a build.
    pub(crate) fn roots(&self) -> BTreeSet<Root> {
        match &self.source {
            Source::Component(_) => BTreeSet::from([Root::Flat(self.folder.clone())]),
            Source::Crate(package) => {
                let mut roots = BTreeSet::from([Root::Tree(self.folder.clone())]);
                roots.extend(package.beside.iter().cloned().map(Root::Tree));
                let of_the_workspace =
                    ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo/config.toml"];
                roots.extend(of_the_workspace.map(|name| Root::File(package.workspace.join(name))));
                roots
            }
        }
    }

    /// What a change of a file asks for; `roots` are what is watched for this project.
    pub(crate) fn need(&self, roots: &BTreeSet<Root>, changed: &Path) -> Option<PendingWork> {
        if !roots.iter().any(|root| root.holds(changed)) {
            return None;
        }
        let manifest = changed.parent() == Some(&self.folder) && super::manifests::is_yaml(changed);
        match &self.source {
            _ if manifest => Some(PendingWork::Install),
            Source::Crate(_) => Some(PendingWork::Build),
            Source::Component(path) => (path == changed).then_some(PendingWork::Build),
        }
    }
}

/// What the paths lead to.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// In the order of the paths.
    pub(crate) projects: Vec<Project>,
    /// Names and folders of crates that run only when their own path is given, and was not.
    pub(crate) left_out: Vec<(String, PathBuf)>,
}

/// Finds the plugins of all paths. Blocks.
pub(crate) fn find(paths: &[PathBuf]) -> Result<Found> {
    let mut search = Search::default();
    for path in paths {
        let before = search.count();
        let given =
            path.canonicalize().with_context(|| format!("cannot look for plugins in {}", path.display()))?;
        search.given(&given)?;
        if search.count() == before {
            bail!(
                "no plugin found in {}: searched {LEVELS} levels deep for crates whose [lib] has crate-type = [\"cdylib\"], \
                 and the folder itself for .wasm files",
                path.display()
            );
        }
    }
    let Search { projects, mut left_out, seen, .. } = search;
    check_names(&projects)?;
    left_out.sort();
    left_out.dedup();
    // Another path may have been that of the crate.
    left_out.retain(|(_, folder)| !seen.contains(&folder.join("Cargo.toml")));
    if let ([], [(name, folder), ..]) = (&*projects, &*left_out) {
        bail!(
            "{name} runs only when its own path is given (its Cargo.toml says dev = false): give {}",
            folder.display()
        );
    }
    Ok(Found { projects, left_out })
}

#[derive(Default)]
struct Search {
    projects: Vec<Project>,
    /// What was found before, by another path.
    again: usize,
    left_out: Vec<(String, PathBuf)>,
    seen: BTreeSet<PathBuf>,
}

impl Search {
    /// How often something was found.
    fn count(&self) -> usize {
        self.projects.len() + self.again + self.left_out.len()
    }

    fn given(&mut self, path: &Path) -> Result<()> {
        if path.is_dir() {
            self.folder(path, 0, &mut BTreeSet::new())
        } else if path.extension().is_some_and(|ending| ending == "wasm") {
            self.component(path);
            Ok(())
        } else if path.file_name().is_some_and(|name| name == "Cargo.toml") {
            self.manifest(path, true).map(drop)
        } else {
            Ok(())
        }
    }

    /// Looks through a folder; `within` has those on the way, and those that were looked through already.
    fn folder(&mut self, folder: &Path, level: usize, within: &mut BTreeSet<PathBuf>) -> Result<()> {
        // Links may lead in circles.
        if !within.insert(folder.canonicalize().unwrap_or_else(|_| folder.to_owned())) {
            return Ok(());
        }
        let is_crate = self.manifest(&folder.join("Cargo.toml"), level == 0)?;
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            // One on the way that may not be read has nothing for us.
            Err(_) if level > 0 => return Ok(()),
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("cannot look for plugins in {}", folder.display()));
            }
        };
        let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        entries.sort();
        for path in entries.iter().filter(|path| !is_hidden(path)) {
            if path.is_dir() {
                if level < LEVELS && !is_output(path) {
                    self.folder(path, level + 1, within)?;
                }
            } else if level == 0 && !is_crate && path.extension().is_some_and(|ending| ending == "wasm") {
                self.component(path);
            }
        }
        Ok(())
    }

    /// Takes the crate of a `Cargo.toml`, if there is one and it builds a component. `given`: its own path is one of those given.
    fn manifest(&mut self, manifest: &Path, given: bool) -> Result<bool> {
        let Ok(manifest) = manifest.canonicalize() else { return Ok(false) };
        // Cargo is not asked about crates that cannot be guests.
        if !fs::read_to_string(&manifest).is_ok_and(|text| text.contains("cdylib")) {
            return Ok(false);
        }
        if self.seen.contains(&manifest) {
            self.again += 1;
            return Ok(true);
        }
        let Some(package) = cargo::package(&manifest)? else { return Ok(false) };
        let folder = manifest.parent().unwrap_or(Path::new("/")).to_owned();
        if package.on_request && !given {
            self.left_out.push((package.name, folder));
            return Ok(true);
        }
        self.seen.insert(manifest);
        let component = package.component.clone();
        self.add(package.name.clone(), folder, component, Source::Crate(package));
        Ok(true)
    }

    fn component(&mut self, path: &Path) {
        if !self.seen.insert(path.to_owned()) {
            self.again += 1;
            return;
        }
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return };
        let component = name.to_string_lossy().into_owned();
        self.add(component.clone(), folder.to_owned(), component, Source::Component(path.to_owned()));
    }

    fn add(&mut self, name: String, folder: PathBuf, component: String, source: Source) {
        let mut project = Project { label: name, folder, component, source };
        if let Some(first) = plugins(&project).into_iter().next() {
            project.label = first;
        }
        self.projects.push(project);
    }
}

/// The plugins that a project is going to be, as far as its manifests can be read.
fn plugins(project: &Project) -> Vec<String> {
    let paired = project.paired();
    if paired.manifests.is_empty() && paired.broken.is_empty() {
        let stem = project.component.trim_end_matches(".wasm");
        return Manifest::bare(stem).map(|manifest| manifest.name).into_iter().collect();
    }
    paired.manifests.into_iter().map(|manifest| manifest.plugin).collect()
}

fn check_names(projects: &[Project]) -> Result<()> {
    let mut names: BTreeMap<String, &Project> = BTreeMap::new();
    let mut components: BTreeMap<&str, &Project> = BTreeMap::new();
    let place = |project: &Project| match &project.source {
        Source::Crate(_) => project.folder.display().to_string(),
        Source::Component(path) => path.display().to_string(),
    };
    for project in projects {
        for name in plugins(project) {
            if let Some(other) = names.insert(name.clone(), project) {
                let (other, this) = (place(other), place(project));
                bail!(
                    "duplicate plugin name {name:?} in {other} and {this}: change metadata.name of one, or omit one"
                );
            }
        }
        if let Some(other) = components.insert(&project.component, project) {
            let (other, this) = (place(other), place(project));
            bail!(
                "duplicate component name {} in {other} and {this}: rename one crate, or omit one",
                project.component
            );
        }
    }
    Ok(())
}

pub(crate) fn is_hidden(path: &Path) -> bool {
    path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// Whether a folder holds what tools have made, which is of no interest and may be large.
pub(crate) fn is_output(folder: &Path) -> bool {
    let named = |name: &str| folder.file_name().is_some_and(|own| own == name);
    named("target") || named("node_modules") || folder.join("CACHEDIR.TAG").exists()
}

#[cfg(test)]
mod tests;
