//! [`Dev`]: `pilothouse dev` as a user types it, as a child process in a folder of its own.
//!
//! Invariants: nothing of the environment of the tests reaches the guests' builds; every process that comes of it bears a mark
//! in its environment, by which [`Dev::processes`] finds it. All methods block.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use crate::cargo::{self, Build};
use crate::http::{self, Response};
use crate::poll::{self, Outcome};
use crate::process::{self, Finished, Process};
use crate::{Signal, host, paths};

/// How long a command that ends by itself may take.
const COMMAND: Duration = Duration::from_secs(60);
/// How long an answer of a server may take.
const ANSWER: Duration = Duration::from_secs(10);
/// How many lines of the log a failed wait shows.
const LINES_SHOWN: usize = 60;
/// The variable that marks the processes, with the folder as its value.
const MARK: &str = "PILOTHOUSE_TEST_DEV";

/// A running `pilothouse dev`, which is killed when dropped.
#[derive(Debug)]
pub struct Dev {
    process: Process,
    dir: PathBuf,
}

/// The command `pilothouse dev ARGS` in a folder; what it caches is kept there too.
pub fn command<A: AsRef<OsStr>>(dir: &Path, args: &[A]) -> Result<Command> {
    let mut command = Command::new(host::built()?);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| cargo::leaks(Build::Guest, name)) {
            command.env_remove(name);
        }
    }
    command.arg("dev").args(args).current_dir(dir);
    command.env_remove("KUBECONFIG").env_remove("RUST_LOG").env("XDG_CACHE_HOME", dir.join("cache"));
    command.env(MARK, dir);
    Ok(command)
}

/// Runs `pilothouse dev ARGS`, which is expected to end by itself.
pub fn run<A: AsRef<OsStr>>(dir: &Path, args: &[A]) -> Result<Finished> {
    process::run(&mut command(dir, args)?, "", COMMAND)
}

/// Lets `.pilothouse/target` of a folder be one that outlives it, so that the SDK's dependencies are built once. For one test
/// process at a time, and one crate of a name.
pub fn share_target(dir: &Path) -> Result<()> {
    let shared = paths::target().join("dev-guests");
    let own = dir.join(".pilothouse");
    fs::create_dir_all(&shared).and_then(|()| fs::create_dir_all(&own)).context("making folders")?;
    std::os::unix::fs::symlink(shared, own.join("target")).context("linking the target folder")
}

/// Copies an example to `to`, as a crate of somebody who keeps the SDK elsewhere.
pub fn copy_example(name: &str, to: &Path) -> Result<()> {
    let from = paths::repository().join("examples").join(name);
    copy(&from, to).with_context(|| format!("copying {} to {}", from.display(), to.display()))?;
    let sdk = paths::repository().join("guests/sdk");
    let manifest = to.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)?.replace("../../guests/sdk", &sdk.to_string_lossy());
    Ok(fs::write(manifest, text)?)
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if !entry.file_type()?.is_dir() {
            fs::copy(entry.path(), target)?;
        } else if entry.file_name() != "target" {
            copy(&entry.path(), &target)?;
        }
    }
    Ok(())
}

/// The folder of the objects that the examples come with.
pub fn example_objects() -> PathBuf {
    paths::repository().join("examples/objects")
}

impl Dev {
    /// Starts `pilothouse dev ARGS` in a folder.
    pub fn start<A: AsRef<OsStr>>(dir: &Path, args: &[A]) -> Result<Dev> {
        Dev::spawn(dir, &mut command(dir, args)?)
    }

    /// Starts what [`command`] made for this folder.
    pub fn spawn(dir: &Path, command: &mut Command) -> Result<Dev> {
        Ok(Dev { process: Process::spawn_watched(command)?, dir: dir.to_owned() })
    }

    /// All lines so far that contain `needle`.
    pub fn lines(&self, needle: &str) -> Vec<String> {
        self.process.output().matching(needle)
    }

    /// Waits until there are so many lines that contain `needle`.
    pub fn wait_lines(&self, count: usize, needle: &str, deadline: Duration) -> Result<Vec<String>> {
        let lines = || {
            let lines = self.lines(needle);
            (lines.len() >= count).then_some(lines)
        };
        self.wait_for(&format!("{count} lines with {needle:?}"), deadline, lines)
    }

    /// Waits until a condition holds; a failure shows the end of the log.
    pub fn wait_for<O: Outcome>(
        &self,
        description: &str,
        deadline: Duration,
        condition: impl FnMut() -> O,
    ) -> Result<O::Value> {
        let ended = || self.process.exit_status().map(|status| format!("it ended ({status})"));
        poll::until_or(description, deadline, condition, ended).map_err(|error| self.with_log(&error))
    }

    /// The URL that the kubeconfig names.
    pub fn server(&self) -> Result<String> {
        let path = self.dir.join(".pilothouse/kubeconfig");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let url = text.lines().find_map(|line| line.trim().strip_prefix("server: "));
        Ok(url.with_context(|| format!("no server in {text}"))?.trim_matches('"').to_owned())
    }

    /// Sends a request without a body to the API server of the kubeconfig.
    pub fn request(&self, method: &str, path: &str) -> Result<Response> {
        http::request(method, &self.server()?, path, ANSWER)
    }

    /// An object or list of the API server.
    pub fn get(&self, path: &str) -> Result<serde_json::Value> {
        let body = self.request("GET", path)?.ok()?;
        serde_json::from_str(&body).with_context(|| format!("{path} answered {body:?}"))
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process.signal(signal)
    }

    /// Waits for its end, and for the last of its log.
    pub fn wait_exit(&self, deadline: Duration) -> Result<ExitStatus> {
        self.process.wait_exit(deadline).map_err(|error| self.with_log(&error))
    }

    /// What came of it and is still there: the command lines of all processes that were started by it or by a process of its.
    pub fn processes(&self) -> Vec<String> {
        let mark = format!("{MARK}={}", self.dir.display());
        let marked = |pid: &Path| {
            let environment = fs::read(pid.join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        };
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
        let line = |pid: PathBuf| {
            String::from_utf8_lossy(&fs::read(pid.join("cmdline")).unwrap_or_default()).replace('\0', " ")
        };
        processes.filter(|pid| marked(pid)).map(line).collect()
    }

    fn with_log(&self, error: &anyhow::Error) -> anyhow::Error {
        anyhow!("{error:#}\nthe last lines of its output:\n{}", self.process.output().tail(LINES_SHOWN))
    }
}
