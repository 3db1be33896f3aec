//! [`Dev`]: runs `pilothouse dev` as a user would, as a child process in a folder of its own.
//!
//! Invariants: the builds of guests do not inherit the environment of the tests; every process that it starts has a
//! marker variable in its environment, by which [`Dev::processes`] finds it. All methods block.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use crate::cli;
use crate::http::{self, Response};
use crate::poll::{self, Outcome};
use crate::process::{self, Finished, Process};
use crate::{Signal, paths};

/// Time limit of a command that ends by itself: it tells one that hangs.
const COMMAND: Duration = Duration::from_secs(300);
/// Time limit of a response of a server.
const ANSWER: Duration = Duration::from_secs(10);
/// Number of log lines in the message of a failed wait.
const LINES_SHOWN: usize = 60;
/// The variable that marks the processes; its value is the folder.
const MARK: &str = "PILOTHOUSE_TEST_DEV";

/// A running `pilothouse dev`. Dropping it kills the process.
#[derive(Debug)]
pub struct Dev {
    process: Process,
    dir: PathBuf,
}

/// The command `pilothouse dev ARGS` in a folder, with its caches in the same folder.
pub fn command<A: AsRef<OsStr>>(dir: &Path, args: &[A]) -> Result<Command> {
    let mut command = cli::command(dir, &["dev"])?;
    command.args(args).env(MARK, dir);
    Ok(command)
}

/// Runs `pilothouse dev ARGS` and waits until it ends by itself.
pub fn run<A: AsRef<OsStr>>(dir: &Path, args: &[A]) -> Result<Finished> {
    process::run(&mut command(dir, args)?, "", COMMAND)
}

/// Links `.pilothouse/target` of a folder to a target folder that outlives it, so that the SDK's dependencies are built
/// once. Only one test process at a time may use it, and crates must have different names.
pub fn share_target(dir: &Path) -> Result<()> {
    let shared = paths::target().join("dev-guests");
    let own = dir.join(".pilothouse");
    fs::create_dir_all(&shared).and_then(|()| fs::create_dir_all(&own)).context("making folders")?;
    std::os::unix::fs::symlink(shared, own.join("target")).context("linking the target folder")
}

/// Copies an example to `to` and adapts the path of the SDK, as in a crate outside the repository.
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

/// The folder with the objects of the examples.
pub fn example_objects() -> PathBuf {
    paths::repository().join("examples/objects")
}

impl Dev {
    /// Starts `pilothouse dev ARGS` in a folder.
    pub fn start<A: AsRef<OsStr>>(dir: &Path, args: &[A]) -> Result<Dev> {
        Dev::spawn(dir, &mut command(dir, args)?)
    }

    /// Starts a command that [`command`] made for this folder.
    pub fn spawn(dir: &Path, command: &mut Command) -> Result<Dev> {
        Ok(Dev { process: Process::spawn_watched(command)?, dir: dir.to_owned() })
    }

    /// All log lines so far that contain `needle`.
    pub fn lines(&self, needle: &str) -> Vec<String> {
        self.process.output().matching(needle)
    }

    /// Waits until `count` log lines contain `needle`.
    pub fn wait_lines(&self, count: usize, needle: &str, deadline: Duration) -> Result<Vec<String>> {
        let lines = || {
            let lines = self.lines(needle);
            (lines.len() >= count).then_some(lines)
        };
        self.wait_for(&format!("{count} lines with {needle:?}"), deadline, lines)
    }

    /// Waits until a condition holds; the failure message contains the end of the log.
    pub fn wait_for<O: Outcome>(
        &self,
        description: &str,
        deadline: Duration,
        condition: impl FnMut() -> O,
    ) -> Result<O::Value> {
        let ended = || self.process.exit_status().map(|status| format!("it ended ({status})"));
        poll::until_or(description, deadline, condition, ended).map_err(|error| self.with_log(&error))
    }

    /// The kubeconfig that the log names.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        let lines = self.lines("export KUBECONFIG=");
        let path = lines.first().and_then(|line| line.split_once('='));
        Ok(path.context("no kubeconfig in the log")?.1.trim_matches('\'').into())
    }

    /// The URL of the API server in the kubeconfig.
    pub fn server(&self) -> Result<String> {
        let path = self.kubeconfig()?;
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let url = text.lines().find_map(|line| line.trim().strip_prefix("server: "));
        Ok(url.with_context(|| format!("no server in {text}"))?.trim_matches('"').to_owned())
    }

    /// Sends a request without a body to the API server of the kubeconfig.
    pub fn request(&self, method: &str, path: &str) -> Result<Response> {
        http::request(method, &self.server()?, path, ANSWER)
    }

    /// Reads an object or a list from the API server.
    pub fn get(&self, path: &str) -> Result<serde_json::Value> {
        let body = self.request("GET", path)?.ok()?;
        serde_json::from_str(&body).with_context(|| format!("{path} answered {body:?}"))
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process.signal(signal)
    }

    /// Waits for the end of the process and of its log.
    pub fn wait_exit(&self, deadline: Duration) -> Result<ExitStatus> {
        self.process.wait_exit(deadline).map_err(|error| self.with_log(&error))
    }

    /// The command lines of all running processes that it or one of its child processes started.
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
