//! [`build`]: one `cargo build` of a guest crate, with its progress and the compiler's words in the log.
//!
//! Cargo's JSON messages say what was built and what the compiler thinks of it; its own lines on standard error say how far it
//! is. Invariant: nothing of the build outlives the future: Cargo is the head of a process group that is killed with it.
//! Called by [`super::workshop`], one build at a time, and by `pilothouse build`.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, anyhow};
use pilothouse_toolchain::{TARGET_WITHOUT_WASI, ensure_target};
#[cfg(unix)]
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::Child;
use tokio::time::MissedTickBehavior;

use super::log::{Log, Tone, counted, spell};
use super::{cargo, depinfo};

/// How often a build that takes its time says how far it is.
const PROGRESS: Duration = Duration::from_secs(5);

/// The profile with which components are built unless another one is named.
pub(crate) const RELEASE: &str = "release";

/// The linker of rustc for `wasm32-wasip2`, which is installed with it: it makes a component of what it links.
const COMPONENT_LINKER: &str = "wasm-component-ld";

/// What is to be built.
#[derive(Debug, Clone)]
pub(crate) struct BuildRequest {
    /// What the log calls it.
    pub(crate) label: String,
    /// Folder of the crate.
    pub(crate) folder: PathBuf,
    /// Shared by all crates, so that what they have in common is built once.
    pub(crate) target: PathBuf,
    /// Name of Cargo's profile.
    pub(crate) profile: String,
    /// The compilation target.
    pub(crate) triple: &'static str,
    /// The workspace's `Cargo.lock`, whether it exists or not.
    pub(crate) lock: PathBuf,
    /// An earlier build found that the compiler can build for WebAssembly.
    pub(crate) target_checked: bool,
    /// Nothing of it was built by this process: everything is worth telling.
    pub(crate) first: bool,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Report {
    /// The component, or why there is none; what the compiler said of it is in the log already.
    pub(crate) component: Result<PathBuf>,
    /// Folders of the packages that were built from source folders, as far as the build came.
    pub(crate) packages: BTreeSet<PathBuf>,
    /// Files that were read.
    pub(crate) files: Vec<PathBuf>,
    /// What `Cargo.lock` held once Cargo had chosen the versions: Cargo writes it where it is missing or incomplete.
    pub(crate) lock: Option<Vec<u8>>,
    /// The compiler can build for WebAssembly.
    pub(crate) target_checked: bool,
    /// Whether anything was compiled.
    pub(crate) compiled: bool,
    pub(crate) began: SystemTime,
    pub(crate) took: Duration,
}

/// Builds a crate.
pub(crate) async fn build(request: BuildRequest, log: Log) -> Report {
    let mut progress = Progress::new(&request, &log);
    let (began, start) = (SystemTime::now(), Instant::now());
    let component = run(&request, &mut progress).await;
    let files = component.as_deref().map(depinfo::files).unwrap_or_default();
    let Progress { packages, compiled, lock, target_checked, .. } = progress;
    // Cargo may have written it and failed before its first message.
    let lock = lock.or_else(|| std::fs::read(&request.lock).ok());
    Report {
        component,
        packages,
        files,
        lock,
        target_checked,
        compiled: compiled > 0,
        began,
        took: start.elapsed(),
    }
}

async fn run(request: &BuildRequest, progress: &mut Progress<'_>) -> Result<PathBuf> {
    if !request.target_checked {
        let command = |program: &str| cargo::command(program, &request.folder);
        let report = |line: &str| progress.log.say(progress.label, Tone::Plain, line);
        ensure_target(request.triple, &request.folder, command, output, report).await?;
        progress.target_checked = true;
    }
    let manifest = request.folder.join("Cargo.toml");
    let format = if progress.log.colours() { "json-diagnostic-rendered-ansi" } else { "json" };
    let mut command = cargo::command("cargo", &request.folder);
    command.args(["build", "--lib", "--profile", &request.profile, "--target", request.triple]);
    command.arg("--manifest-path").arg(&manifest);
    command.arg("--target-dir").arg(&request.target).arg(format!("--message-format={format}"));
    // Its lines are taken apart here.
    command.args(["--color", "never"]);
    if request.triple == TARGET_WITHOUT_WASI {
        // The target's own linker makes a core module.
        command.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", COMPONENT_LINKER);
    }
    let (mut child, mut group) = spawn(command).map_err(|error| cargo::not_started("cargo", &error))?;
    let (mut messages, mut lines) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let (mut message, mut line) = (Vec::new(), Vec::new());
    let mut ticks = tokio::time::interval(PROGRESS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut component = None;
    while messages.is_some() || lines.is_some() {
        tokio::select! {
            read = next(&mut messages, &mut message) => match read {
                true => component = progress.message(&message, &manifest).or(component),
                false => messages = None,
            },
            read = next(&mut lines, &mut line) => match read {
                true => progress.line(&String::from_utf8_lossy(&line)),
                false => lines = None,
            },
            _ = ticks.tick() => progress.tell(),
        }
    }
    let status = child.wait().await?;
    // Its number may now be another's.
    group.0 = None;
    match component {
        Some(component) if status.success() => Ok(component),
        _ if status.success() => Err(anyhow!(
            "cargo built no component of {}; write crate-type = [\"cdylib\"] below [lib] there",
            manifest.display()
        )),
        _ => Err(anyhow!(
            "{}",
            status.code().map_or_else(|| status.to_string(), |code| format!("cargo ended with code {code}"))
        )),
    }
}

/// Starts a command as the head of a process group of its own, with pipes for its output.
fn spawn(mut command: Command) -> io::Result<(Child, Group)> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let child = tokio::process::Command::from(command).spawn()?;
    let group = Group::of(&child);
    Ok((child, group))
}

/// Runs a command to its end; its processes are killed when the future is dropped.
async fn output(command: Command) -> io::Result<Output> {
    let (child, mut group) = spawn(command)?;
    let output = child.wait_with_output().await;
    group.0 = None;
    output
}

type Lines = Option<BufReader<Box<dyn AsyncRead + Send + Unpin>>>;

fn reader(pipe: Option<impl AsyncRead + Send + Unpin + 'static>) -> Lines {
    pipe.map(|pipe| BufReader::new(Box::new(pipe) as Box<dyn AsyncRead + Send + Unpin>))
}

/// Reads the next line; `false` at the end. A dropped call goes on where it was: `line` is emptied once it was used.
async fn next(lines: &mut Lines, line: &mut Vec<u8>) -> bool {
    let Some(lines) = lines else { return std::future::pending().await };
    if line.ends_with(b"\n") {
        line.clear();
    }
    lines.read_until(b'\n', line).await.is_ok_and(|read| read > 0)
}

/// The processes of a build, by the number of the first one.
struct Group(Option<u32>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(first) = self.0 {
            // Cargo and rustc can be killed at any moment: they do not trust what they find half done.
            kill_all(first);
        }
    }
}

#[cfg(unix)]
fn kill_all(first: u32) {
    if let Some(group) = i32::try_from(first).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// The processes that a process has started are known to `taskkill` alone.
#[cfg(windows)]
fn kill_all(first: u32) {
    let _ = Command::new("taskkill").args(["/T", "/F", "/PID", &first.to_string()]).output();
}

/// A message of Cargo, as far as it matters here.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    package_id: String,
    #[serde(default)]
    manifest_path: PathBuf,
    #[serde(default)]
    message: Option<Diagnostic>,
    #[serde(default)]
    filenames: Vec<PathBuf>,
    #[serde(default)]
    fresh: bool,
}

#[derive(Deserialize)]
struct Diagnostic {
    rendered: Option<String>,
}

/// What a build has said so far.
struct Progress<'a> {
    label: &'a str,
    log: &'a Log,
    /// The line that a build is under way was written.
    announced: bool,
    packages: BTreeSet<PathBuf>,
    compiled: usize,
    /// The compiler can build for WebAssembly.
    target_checked: bool,
    /// The file, and what it held when Cargo had chosen the versions.
    lock_file: &'a Path,
    lock: Option<Vec<u8>>,
    /// What Cargo does now, in its words.
    now: String,
}

impl<'a> Progress<'a> {
    fn new(request: &'a BuildRequest, log: &'a Log) -> Self {
        let mut progress = Self {
            label: &request.label,
            log,
            announced: false,
            packages: BTreeSet::new(),
            compiled: 0,
            target_checked: request.target_checked,
            lock_file: &request.lock,
            lock: None,
            now: String::new(),
        };
        if request.first {
            progress.announce();
        }
        progress
    }

    fn announce(&mut self) {
        if !std::mem::replace(&mut self.announced, true) {
            self.log.say(self.label, Tone::Plain, "building");
        }
    }

    /// Takes note of a message; the component, if it tells of it.
    fn message(&mut self, json: &[u8], manifest: &Path) -> Option<PathBuf> {
        let message: Message = serde_json::from_slice(json).ok()?;
        // The first message comes after the versions were chosen; a later change of the file is not in this build.
        if self.lock.is_none() {
            self.lock = std::fs::read(self.lock_file).ok();
        }
        // Not from a registry.
        if message.package_id.starts_with("path+") {
            self.packages.extend(message.manifest_path.parent().map(Path::to_owned));
        }
        if let Some(text) = message.message.and_then(|diagnostic| diagnostic.rendered) {
            self.log.verbatim(&text);
        }
        if message.reason != "compiler-artifact" {
            return None;
        }
        self.compiled += usize::from(!message.fresh);
        let is_component = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "wasm");
        message.filenames.into_iter().find(is_component).filter(|_| message.manifest_path == manifest)
    }

    /// Takes note of a line that Cargo wrote for people.
    fn line(&mut self, line: &str) {
        let line = line.trim_end();
        match status(line) {
            Some((word, rest)) => {
                if word == "Compiling" {
                    self.announce();
                }
                self.now = format!("{} {rest}", word.to_lowercase());
            }
            None if line.is_empty() => {}
            None => self.log.verbatim(line),
        }
    }

    /// Says how far the build is.
    fn tell(&mut self) {
        self.announce();
        let mut text = "building".to_owned();
        if self.compiled > 0 {
            text += &format!(": {} so far", counted(self.compiled, "crate"));
        }
        if !self.now.is_empty() {
            text += &format!(", now {}", self.now);
        }
        self.log.say(self.label, Tone::Quiet, &text);
    }
}

/// Splits a line of Cargo's progress, whose first word ends at column 12, into the word and the rest.
fn status(line: &str) -> Option<(&str, &str)> {
    let (word, rest) = line.trim_start().split_once(' ')?;
    let ends_at = line.len() - rest.len() - 1;
    let capital = word.starts_with(|c: char| c.is_ascii_uppercase());
    (ends_at == 12 && capital && word.chars().all(|c| c.is_ascii_alphabetic())).then_some((word, rest))
}

/// The line that ends a build that went well.
pub(crate) fn built(report: &Report) -> String {
    let how = if report.compiled { "built in" } else { "up to date after" };
    format!("{how} {}", spell(report.took))
}

#[cfg(test)]
mod tests {
    use pilothouse_toolchain::TARGET;

    use super::super::log::testing::Written;
    use super::*;

    fn request(first: bool) -> BuildRequest {
        BuildRequest {
            label: "guest".into(),
            folder: "/g".into(),
            target: "/t".into(),
            profile: RELEASE.into(),
            triple: TARGET,
            lock: "/g/Cargo.lock".into(),
            target_checked: true,
            first,
        }
    }

    #[test]
    fn cargos_progress_is_told_from_its_words() {
        assert_eq!(status("   Compiling serde v1.0.229"), Some(("Compiling", "serde v1.0.229")));
        assert_eq!(status("    Blocking waiting for file lock"), Some(("Blocking", "waiting for file lock")));
        for line in
            ["error: could not compile `x`", "warning: unused", "            = note: x", "", "   Compiling"]
        {
            assert_eq!(status(line), None, "{line}");
        }
    }

    #[test]
    fn the_component_is_that_of_the_crate_itself() {
        let (written, request) = (Written::default(), request(false));
        let log = written.log();
        let mut progress = Progress::new(&request, &log);
        let message = |folder: &str, file: &str, fresh: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file://{folder}#0.1.0","fresh":{fresh},
                    "manifest_path":"{folder}/Cargo.toml","filenames":["{file}"]}}"#
            )
        };
        let manifest = Path::new("/g/Cargo.toml");
        assert_eq!(progress.message(message("/dep", "/t/dep.wasm", true).as_bytes(), manifest), None);
        assert_eq!(
            progress.message(message("/g", "/t/g.wasm", false).as_bytes(), manifest),
            Some("/t/g.wasm".into())
        );
        assert_eq!(progress.message(b"not json", manifest), None);
        assert_eq!(progress.packages, BTreeSet::from(["/dep".into(), "/g".into()]));
        assert_eq!(progress.compiled, 1);
        assert_eq!(written.lines(), [""; 0]);
    }

    #[test]
    fn a_build_with_nothing_to_do_says_nothing_until_it_takes_long() {
        let (written, request) = (Written::default(), request(false));
        let log = written.log();
        let mut progress = Progress::new(&request, &log);
        progress.line("    Finished `release` profile");
        assert_eq!(written.lines(), [""; 0]);
        progress.line("   Compiling guest v0.1.0 (/g)");
        progress.tell();
        assert_eq!(written.lines(), ["guest  building", "guest  building, now compiling guest v0.1.0 (/g)"]);
    }

    #[tokio::test]
    async fn a_build_that_is_dropped_leaves_no_process() {
        let mut command = std::process::Command::new("/bin/sh");
        command.args(["-c", "sleep 600 & sleep 600"]);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = tokio::process::Command::from(command).spawn().unwrap();
        drop(Group::of(&child));
        let status = tokio::time::timeout(Duration::from_secs(30), child.wait()).await.unwrap().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    }
}
