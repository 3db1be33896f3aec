//! [`Workshop`]: from sources to the plugin directory, again at every change.
//!
//! ```text
//!  Watch ─► what each project needs ─► one build at a time ─► Installer ─► the host reloads
//! ```
//!
//! Invariants: a project whose sources change while it is built is built again afterwards; nothing is installed of a build that
//! failed, nor without the manifests that belong to it, so the generation before goes on. Called by [`super`].

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context as _, Result};
use pilothouse_toolchain::TARGET;
use tokio::task::JoinSet;

use super::build::{BuildRequest, RELEASE, Report, build, built};
use super::folder::Folder;
use super::install::Installer;
use super::log::{Log, Tone, spell};
use super::projects::{PendingWork, Project, Source};
use super::watch::{Root, Watch};

/// A project and how it stands.
struct ProjectState {
    project: Project,
    /// What is watched for it.
    roots: BTreeSet<Root>,
    /// What is still to be done.
    need: Option<PendingWork>,
    /// A build has ended, well or badly.
    tried: bool,
    /// The last build did not end well.
    failed: bool,
    /// A component of it is in the plugin directory.
    installed: bool,
    /// Its compiler can build for WebAssembly.
    target_checked: bool,
    /// What `Cargo.lock` held for the last build.
    lock: Option<Vec<u8>>,
    /// It changed since, or during a build: [`ProjectState::compare_lock`] is due.
    lock_changed: bool,
    /// A component that was built and waits for its manifests to be put right.
    waiting: Option<Vec<u8>>,
}

impl ProjectState {
    /// Takes note of a change.
    fn changed(&mut self, path: &Path) {
        let Some(need) = self.project.need(&self.roots, path) else { return };
        if self.lock_file().as_deref() == Some(path) {
            self.lock_changed = true;
        } else {
            self.need = self.need.max(Some(need));
        }
    }

    /// Asks for a build if `Cargo.lock` changed, unless it holds what the last build was made with: Cargo wrote it then. To be
    /// called while no build is under way.
    fn compare_lock(&mut self) {
        if std::mem::take(&mut self.lock_changed)
            && self.lock_file().is_some_and(|file| fs::read(file).ok() != self.lock)
        {
            self.need = self.need.max(Some(PendingWork::Build));
        }
    }

    fn lock_file(&self) -> Option<PathBuf> {
        match &self.project.source {
            Source::Crate(package) => Some(package.lock()),
            Source::Component(_) => None,
        }
    }
}

/// All projects.
pub(crate) struct Workshop {
    states: Vec<ProjectState>,
    watch: Watch,
    installer: Installer,
    folder: Arc<Folder>,
    log: Log,
    /// The build under way, with the number of its project.
    builds: JoinSet<(usize, Report)>,
}

impl Workshop {
    /// Starts to watch; everything is to be built.
    pub(crate) fn new(projects: Vec<Project>, folder: Arc<Folder>, log: Log) -> Result<Self> {
        let installer = Installer::new(Arc::clone(&folder))?;
        let state = |project: Project| ProjectState {
            roots: project.roots(),
            project,
            need: Some(PendingWork::Build),
            tried: false,
            failed: false,
            installed: false,
            target_checked: false,
            lock: None,
            lock_changed: false,
            waiting: None,
        };
        let states: Vec<ProjectState> = projects.into_iter().map(state).collect();
        let roots = states.iter().flat_map(|state| state.roots.iter().cloned()).collect();
        let watch = Watch::start(roots, log.clone())?;
        Ok(Self { states, watch, installer, folder, log, builds: JoinSet::new() })
    }

    /// Ends the build under way; its processes are gone when this returns.
    pub(crate) async fn end(mut self) {
        self.builds.shutdown().await;
    }

    /// Works for ever. What is under way goes on when the call is dropped.
    pub(crate) async fn run(&mut self) {
        loop {
            self.begin_work();
            tokio::select! {
                changed = self.watch.next() => {
                    for path in &changed {
                        for state in &mut self.states {
                            state.changed(path);
                        }
                    }
                }
                Some(ended) = self.builds.join_next(), if !self.builds.is_empty() => {
                    if let Ok((number, report)) = ended {
                        self.end_build(number, report);
                    }
                }
            }
        }
    }

    /// Does what can be done at once, and starts a build if none is under way.
    fn begin_work(&mut self) {
        for number in 0..self.states.len() {
            let state = &mut self.states[number];
            if self.builds.is_empty() {
                state.compare_lock();
            }
            match (&state.project.source, state.need) {
                (_, None) => {}
                (Source::Component(path), Some(need)) => {
                    state.need = None;
                    let read = (need == PendingWork::Build).then(|| {
                        fs::read(path).with_context(|| {
                            format!("reading {}; keeping the previous version", path.display())
                        })
                    });
                    match read.transpose() {
                        Ok(bytes) => self.install(number, bytes, "installed"),
                        Err(error) => self.say(number, Tone::Error, &format!("{error:#}")),
                    }
                }
                (Source::Crate(_), Some(PendingWork::Install)) => {
                    state.need = None;
                    // Until there was a build it is to come, and brings the manifests.
                    if state.installed || state.waiting.is_some() {
                        self.install(number, None, "manifest installed");
                    }
                }
                (Source::Crate(package), Some(PendingWork::Build)) if self.builds.is_empty() => {
                    state.need = None;
                    let request = BuildRequest {
                        label: state.project.label.clone(),
                        folder: state.project.folder.clone(),
                        target: self.folder.target(),
                        profile: RELEASE.to_owned(),
                        triple: TARGET,
                        lock: package.lock(),
                        target_checked: state.target_checked,
                        first: !state.tried,
                    };
                    let log = self.log.clone();
                    self.builds.spawn(async move { (number, build(request, log).await) });
                }
                (Source::Crate(_), Some(PendingWork::Build)) => {}
            }
        }
    }

    fn end_build(&mut self, number: usize, mut report: Report) {
        self.watch_what_was_read(number, &report);
        let state = &mut self.states[number];
        state.lock = report.lock.take();
        state.target_checked = report.target_checked;
        let first = !std::mem::replace(&mut state.tried, true);
        let mended = std::mem::replace(&mut state.failed, report.component.is_err());
        let path = match &report.component {
            Ok(path) => path,
            Err(error) => {
                let consequence = if state.installed {
                    "keeping the previous version"
                } else {
                    "it will be rebuilt when its sources change"
                };
                let text = format!("build failed after {}: {error}; {consequence}", spell(report.took));
                return self.say(number, Tone::Error, &text);
            }
        };
        match fs::read(path).with_context(|| format!("reading {}", path.display())) {
            Ok(bytes) => {
                // The crate may call its library otherwise by now.
                if let Some(name) = path.file_name() {
                    state.project.component = name.to_string_lossy().into_owned();
                }
                let what = if report.compiled || first || mended { built(&report) } else { String::new() };
                self.install(number, Some(bytes), &what);
            }
            Err(error) => self.say(number, Tone::Error, &format!("{error:#}")),
        }
    }

    /// Watches the packages and files that turned out to belong to a project.
    fn watch_what_was_read(&mut self, number: usize, report: &Report) {
        let roots = &mut self.states[number].roots;
        let trees = report.packages.iter().cloned().map(Root::Tree);
        let mut more: BTreeSet<Root> = trees.filter(|root| !roots.contains(root)).collect();
        let held = |path: &Path| roots.iter().chain(&more).any(|root| root.holds(path));
        let files: Vec<Root> =
            report.files.iter().filter(|path| !held(path)).cloned().map(Root::File).collect();
        more.extend(files);
        if more.is_empty() {
            return;
        }
        // What Cargo itself wrote for the build is not a source.
        let target = self.folder.target();
        more.retain(|root| !matches!(root, Root::File(path) if path.starts_with(&target)));
        roots.extend(more.iter().cloned());
        let since: SystemTime = report.began;
        self.watch.add(more, since);
    }

    /// Installs the manifests, and the component if there is a new one. `what` is told if it is of interest.
    fn install(&mut self, number: usize, bytes: Option<Vec<u8>>, what: &str) {
        let state = &mut self.states[number];
        let paired = state.project.paired();
        for broken in &paired.broken {
            let consequence = if state.installed { "; keeping the previous version" } else { "" };
            self.log.say(&state.project.label, Tone::Error, &format!("{broken}{consequence}"));
        }
        let keep = !paired.broken.is_empty();
        if paired.manifests.is_empty() && keep {
            // It must not run without what its manifest says.
            state.waiting = bytes.or(state.waiting.take());
            if !what.is_empty() {
                self.say(
                    number,
                    Tone::Warning,
                    &format!("{what}; not installed until its manifest is valid"),
                );
            }
            return;
        }
        let bytes = bytes.or(state.waiting.take());
        let component = (state.project.component.as_str(), bytes.as_deref());
        match self.installer.install(number, &paired.manifests, component, keep) {
            Ok(changed) => {
                let bare = !state.installed && paired.manifests.is_empty();
                state.installed |= bytes.is_some();
                match (changed, what) {
                    (_, "") => {}
                    (true, what) => self.say(number, Tone::Plain, &format!("{what}; loading")),
                    (false, what) => self.say(number, Tone::Plain, &format!("{what}; no change")),
                }
                if bare {
                    let text = "no manifest next to its Cargo.toml or .wasm: it runs without permissions, see docs/manifest.md";
                    self.say(number, Tone::Warning, text);
                }
            }
            Err(error) => self.say(number, Tone::Error, &format!("{error:#}")),
        }
    }

    fn say(&self, number: usize, tone: Tone, text: &str) {
        self.log.say(&self.states[number].project.label, tone, text);
    }
}
