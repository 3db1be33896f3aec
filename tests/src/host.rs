//! [`Host`]: runs the `pilothouse` binary as a child process, with a kubeconfig and a folder of plugins.
//!
//! Invariants: the binary is built once per test process, with the profile of the tests; a plugin's file appears
//! complete, and never before its manifest; the message of a failed wait contains the end of the host's log. Hosts of
//! tests compare each streaming list with a list, and a test whose host found a difference fails. All methods block.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;
use std::time::Duration;
use std::{fs, io};

use anyhow::{Context, anyhow, bail};
use tempfile::TempDir;

use crate::cargo::{self, Build};
use crate::http::{self, Response};
use crate::metrics::Metrics;
use crate::poll::{self, Outcome};
use crate::process::{Output, Process, Stream};
use crate::{Signal, full, paths};

/// Time limit until the host has printed its admin address.
const START: Duration = Duration::from_secs(60);
/// Time limit of a response of the admin port.
const ANSWER: Duration = Duration::from_secs(10);
/// Number of log lines in the message of a failed wait.
const LINES_SHOWN: usize = 50;

/// The variable that makes a host compare each streaming list with a list. Set for hosts of tests; not for those of
/// benchmarks, which are built without debug assertions.
pub const CHECK_WATCH_LISTS: &str = "KUBE_WATCHLIST_INCONSISTENCY_DETECTOR";

/// The options of a host.
#[derive(Debug, Clone, Default)]
pub struct HostOptions {
    /// The kubeconfig of the host.
    pub kubeconfig: PathBuf,
    /// Further arguments of `pilothouse run`.
    pub args: Vec<String>,
    /// Variables to add to the environment of the host. [`CHECK_WATCH_LISTS`] with the value `false` turns the check of
    /// streaming lists off, for tests that count requests.
    pub env: Vec<(String, String)>,
    /// The folder with `plugins` and a compile `cache` of its own, for a host that continues after another one. If
    /// absent, the host has a new temporary folder, and the compile cache that all tests share, so that a guest is
    /// compiled once.
    pub dir: Option<PathBuf>,
    /// Another program than `pilothouse` of this workspace: for tests of the harness and of released binaries.
    pub program: Option<PathBuf>,
}

impl HostOptions {
    /// The default options with this kubeconfig.
    pub fn new(kubeconfig: impl Into<PathBuf>) -> HostOptions {
        HostOptions { kubeconfig: kubeconfig.into(), ..HostOptions::default() }
    }
}

/// A running host. Dropping it kills the process, and panics when the host has logged that a streaming list was wrong.
#[derive(Debug)]
pub struct Host {
    process: Process,
    admin: String,
    dir: PathBuf,
    /// Removes `dir`, if it is temporary, after the process has ended.
    _temporary: Option<TempDir>,
}

impl Host {
    /// Builds the host if necessary, starts it and waits until it has printed its admin address.
    pub fn start(options: HostOptions) -> anyhow::Result<Host> {
        let program = match &options.program {
            Some(program) => program.clone(),
            None => built()?,
        };
        let (dir, cache, temporary) = match options.dir {
            Some(dir) => (dir.clone(), dir.join("cache"), None),
            None => {
                let made = tempfile::Builder::new().prefix("host-").tempdir().context("making a folder")?;
                (made.path().to_owned(), paths::target().join("compile-cache"), Some(made))
            }
        };
        for folder in [dir.join("plugins"), dir.join("incoming"), cache.clone()] {
            fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        }
        let mut command = Command::new(program);
        command
            .arg("run")
            .arg("--plugins")
            .arg(dir.join("plugins"))
            .arg("--kubeconfig")
            .arg(&options.kubeconfig)
            .arg("--cache-dir")
            .arg(cache)
            .args(["--log-format", "json"])
            .args(&options.args)
            .env_remove("KUBECONFIG")
            .env(CHECK_WATCH_LISTS, cfg!(debug_assertions).to_string())
            .envs(options.env);
        if !options.args.iter().any(|arg| arg == "--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let process = Process::spawn_watched(&mut command)?;
        let announced = |line: &str| line.strip_prefix("admin: ").map(|address| address.trim().to_owned());
        let admin = wait("the host to tell its admin address", START, &process, || {
            process.output().find_map(Stream::Out, announced)
        })?;
        Ok(Host { process, admin, dir, _temporary: temporary })
    }

    /// The URL of the admin port.
    pub fn admin(&self) -> &str {
        &self.admin
    }

    /// The folder of the host, which contains `plugins`.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The folder that the host watches for plugins.
    pub fn plugins_dir(&self) -> PathBuf {
        self.dir.join("plugins")
    }

    /// The process of the host.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The log so far.
    pub fn log(&self) -> &Output {
        self.process.output()
    }

    /// Sends a GET request to the admin port. Any status is a response.
    pub fn get(&self, path: &str) -> anyhow::Result<Response> {
        http::request("GET", &self.admin, path, ANSWER)
    }

    /// The JSON of `/plugins`.
    pub fn plugins(&self) -> anyhow::Result<serde_json::Value> {
        let body = self.get("/plugins")?.ok().context("/plugins")?;
        serde_json::from_str(&body).with_context(|| format!("/plugins answered {body:?}"))
    }

    /// The series of `/metrics`.
    pub fn metrics(&self) -> anyhow::Result<Metrics> {
        Metrics::parse(&self.get("/metrics")?.ok().context("/metrics")?)
    }

    /// The CPU time (user and system) of the host so far.
    pub fn cpu_time(&self) -> anyhow::Result<Duration> {
        self.process.cpu_time()
    }

    /// Polls until the condition holds and returns its value.
    ///
    /// # Errors
    /// When the condition does not hold within `deadline` or the host ends; the message contains the description and
    /// the end of the log.
    pub fn wait_for<O: Outcome>(
        &self,
        description: &str,
        deadline: Duration,
        condition: impl FnMut() -> O,
    ) -> anyhow::Result<O::Value> {
        wait(description, deadline, &self.process, condition)
    }

    /// Sends the host a signal.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        self.process.signal(signal)
    }

    /// Waits for the end of the host and of its log.
    pub fn wait_exit(&self, deadline: Duration) -> anyhow::Result<ExitStatus> {
        self.process.wait_exit(deadline).map_err(|error| with_log(error, &self.process))
    }

    /// Writes or replaces `NAME.yaml`, if a manifest is given, and then `NAME.wasm` in the plugins folder. Without a
    /// manifest, an existing one stays.
    pub fn install(&self, name: &str, wasm: &Path, manifest: Option<&str>) -> anyhow::Result<()> {
        let installing = || format!("installing the plugin {name}");
        if let Some(manifest) = manifest {
            self.install_manifest(name, manifest)?;
        }
        let incoming = self.incoming(name, "wasm");
        fs::copy(wasm, &incoming).with_context(installing)?;
        fs::rename(&incoming, self.plugin_file(name, "wasm")).with_context(installing)
    }

    /// Writes or replaces `NAME.yaml` in the plugins folder.
    pub fn install_manifest(&self, name: &str, manifest: &str) -> anyhow::Result<()> {
        let installing = || format!("installing the manifest of {name}");
        let incoming = self.incoming(name, "yaml");
        fs::write(&incoming, manifest).with_context(installing)?;
        fs::rename(&incoming, self.plugin_file(name, "yaml")).with_context(installing)
    }

    /// Removes a plugin, and its manifest if it has one.
    pub fn remove(&self, name: &str) -> anyhow::Result<()> {
        fs::remove_file(self.plugin_file(name, "wasm"))
            .with_context(|| format!("removing the plugin {name}"))?;
        match fs::remove_file(self.plugin_file(name, "yaml")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn plugin_file(&self, name: &str, extension: &str) -> PathBuf {
        self.dir.join("plugins").join(format!("{name}.{extension}"))
    }

    /// The temporary path of a file before it is renamed: outside the folder that the host watches, on the same file
    /// system.
    fn incoming(&self, name: &str, extension: &str) -> PathBuf {
        self.dir.join("incoming").join(format!("{name}.{extension}"))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let inconsistent = self.log().matching("\"watch_list_inconsistent\"");
        assert!(
            inconsistent.is_empty() || std::thread::panicking(),
            "streaming lists differ from lists of their version: {inconsistent:#?}"
        );
    }
}

fn wait<O: Outcome>(
    description: &str,
    deadline: Duration,
    process: &Process,
    condition: impl FnMut() -> O,
) -> anyhow::Result<O::Value> {
    let ended = || process.exit_status().map(|status| format!("the host ended ({status})"));
    poll::until_or(description, deadline, condition, ended).map_err(|error| with_log(error, process))
}

fn with_log(error: anyhow::Error, process: &Process) -> anyhow::Error {
    if process.exit_status().is_some() {
        process.read_to_end();
    }
    anyhow!("{error:#}\nthe last lines of the host's output:\n{}", process.output().tail(LINES_SHOWN))
}

/// The path of the `pilothouse` binary of this workspace.
pub(crate) fn built() -> anyhow::Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build().map_err(|error| format!("{error:#}")));
    built.clone().map_err(|error| anyhow!("building the host: {error}"))
}

fn build() -> anyhow::Result<PathBuf> {
    let manifest = paths::repository().join("Cargo.toml");
    let manifest = manifest.to_str().context("the repository's path is not UTF-8")?;
    let profile = paths::profile();
    // Cargo's lock lets one test process build at a time. The build includes the tests, so that shared crates have the
    // same features as in them and are not compiled twice.
    let packages = ["--package", "pilothouse", "--package", "pilothouse-tests", "--bin", "pilothouse"];
    // For the tests of registries and of traces, which run at full length alone.
    let features = full::or_sample(&["--features", "pilothouse/oci,pilothouse/traces"][..], &[]);
    let args =
        [&["--manifest-path", manifest, "--profile", &profile], packages.as_slice(), features].concat();
    let artifacts = cargo::build(Build::Native, &args, &paths::target())?;
    let named = |path: &PathBuf| path.file_stem().is_some_and(|stem| stem == "pilothouse");
    match artifacts.executables.into_iter().find(named) {
        Some(path) => Ok(path),
        None => bail!("`cargo build --package pilothouse` made no binary of that name"),
    }
}

#[cfg(test)]
mod tests;
