//! [`ControlPlane`]: a real etcd and kube-apiserver as a child process, made from the Go module `tests/controlplane`.
//!
//! Invariants: the binary is built once per state of its sources, however many test processes want it; the control
//! plane ends with the test process, since its standard input closes then, and removes its folder itself; the API server
//! keeps its port and data over restarts. All methods block; none needs a tokio runtime except [`ControlPlane::client`].

mod binary;
mod options;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, anyhow};
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub use options::Options;

use crate::process::{self, Process, Stream};
use crate::{Proxy, Signal, http, poll};

/// How long a start may take: 3 to 5 s on an idle machine, a lot more while all cores compile.
const START: Duration = Duration::from_secs(150);
/// How long an action on the API server may take.
const ACTION: Duration = Duration::from_secs(150);
/// How long a `kubectl` may take.
const KUBECTL: Duration = Duration::from_secs(60);

/// Set to anything, this keeps the folders with data and logs when their control planes end.
const KEEP: &str = "PILOTHOUSE_KEEP_CONTROLPLANE";

/// The line by which the process tells that it is ready.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ready {
    server: String,
    kubeconfig: PathBuf,
    kubeconfig_token: PathBuf,
    admin: String,
}

/// The state of a control plane; a pid is 0 while there is no such process.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The revision of etcd's last write.
    pub revision: i64,
    /// The process that runs etcd.
    pub pid: u32,
    /// The API server's process.
    pub apiserver_pid: u32,
    /// The process of the controllers.
    pub controllers_pid: u32,
    /// Whether the API server's process exists.
    pub apiserver_running: bool,
    /// Whether the API server is stopped by [`ControlPlane::pause_apiserver`].
    pub apiserver_paused: bool,
}

/// A running control plane, which ends when dropped.
#[derive(Debug)]
pub struct ControlPlane {
    process: Process,
    binary: PathBuf,
    dir: PathBuf,
    ready: Ready,
}

impl ControlPlane {
    /// Builds the binary if need be (about ten minutes the first time), starts it in a new temporary folder and waits
    /// until the API server is ready and the namespace `default` exists.
    pub fn start(options: Options) -> anyhow::Result<ControlPlane> {
        let binary = binary::built()?;
        let dir = tempfile::Builder::new().prefix("plane-").tempdir().context("making a folder")?.keep();
        let mut command = Command::new(&binary);
        command.arg("serve").arg("--dir").arg(&dir).args(options.args());
        if env::var_os(KEEP).is_none() {
            command.arg("--ephemeral");
        }
        let process = Process::spawn(&mut command)?;
        let ready = poll::until_or(
            "the control plane to be ready",
            START,
            || process.output().find_map(Stream::Out, |line| Some(serde_json::from_str::<Ready>(line))),
            || process.exit_status().map(|status| format!("it ended ({status})")),
        );
        let ready = ready.and_then(|parsed| Ok(parsed?)).with_context(|| process.output().tail(50))?;
        Ok(ControlPlane { process, binary, dir, ready })
    }

    /// The one control plane with default options that all tests of this process share: each test should keep to a
    /// namespace of its own and must neither restart nor compact. It is started by the first caller and ends with
    /// the process.
    pub fn shared() -> anyhow::Result<&'static ControlPlane> {
        static SHARED: OnceLock<Result<ControlPlane, String>> = OnceLock::new();
        let started = SHARED
            .get_or_init(|| ControlPlane::start(Options::default()).map_err(|error| format!("{error:#}")));
        started.as_ref().map_err(|error| anyhow!("the shared control plane: {error}"))
    }

    /// A kubeconfig of an admin by client certificate.
    pub fn kubeconfig(&self) -> &Path {
        &self.ready.kubeconfig
    }

    /// A kubeconfig of an admin by bearer token.
    pub fn kubeconfig_token(&self) -> &Path {
        &self.ready.kubeconfig_token
    }

    /// A kubeconfig of the admin by client certificate that goes through a proxy. The serving certificate fits, as it
    /// is for 127.0.0.1 whatever the port.
    pub fn kubeconfig_via(&self, proxy: &Proxy) -> anyhow::Result<PathBuf> {
        let original = fs::read_to_string(self.kubeconfig())?;
        let server = format!("https://{}", proxy.address());
        let path = self.dir.join(format!("kubeconfig-via-{}", proxy.address().port()));
        fs::write(&path, original.replace(self.server(), &server))?;
        Ok(path)
    }

    /// The API server's URL.
    pub fn server(&self) -> &str {
        &self.ready.server
    }

    /// The API server's address.
    pub fn address(&self) -> SocketAddr {
        let port = self.server().rsplit(':').next().and_then(|port| port.parse().ok());
        SocketAddr::from(([127, 0, 0, 1], port.unwrap_or_default()))
    }

    /// The folder with data, certificates and logs.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The end of the API server's log.
    pub fn apiserver_log(&self, lines: usize) -> String {
        let log = fs::read_to_string(self.dir.join("apiserver.log")).unwrap_or_default();
        let all: Vec<&str> = log.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// A client for the API server as admin. It belongs to the runtime it is made in.
    pub async fn client(&self) -> anyhow::Result<kube_client::Client> {
        use kube_client::config::{Config, KubeConfigOptions, Kubeconfig};

        let kubeconfig = Kubeconfig::read_from(self.kubeconfig())?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(kube_client::Client::try_from(config)?)
    }

    /// The state of the processes and the revision of etcd.
    pub fn status(&self) -> anyhow::Result<Status> {
        self.ask("GET", "/status")
    }

    /// Ends the API server, by `Signal::KILL` or `Signal::TERM`; returns when its process is gone.
    pub fn stop_apiserver(&self, signal: Signal) -> anyhow::Result<Status> {
        self.ask("POST", &format!("/apiserver/stop?signal={}", name_of(signal)?))
    }

    /// Starts the API server after [`ControlPlane::stop_apiserver`]; returns when it is ready.
    pub fn start_apiserver(&self) -> anyhow::Result<Status> {
        self.ask("POST", "/apiserver/start")
    }

    /// Stops and starts the API server; returns when it is ready.
    pub fn restart_apiserver(&self, signal: Signal) -> anyhow::Result<Status> {
        self.ask("POST", &format!("/apiserver/restart?signal={}", name_of(signal)?))
    }

    /// Stops the API server's process where it stands: connections stay open and nothing answers.
    pub fn pause_apiserver(&self) -> anyhow::Result<Status> {
        self.ask("POST", "/apiserver/pause")
    }

    /// Lets the API server run on after [`ControlPlane::pause_apiserver`].
    pub fn resume_apiserver(&self) -> anyhow::Result<Status> {
        self.ask("POST", "/apiserver/resume")
    }

    /// Makes etcd forget all versions but the current one: a watch from any before the last write gets 410. Returns
    /// etcd's revision then, which is one more than before. With the watch cache on, a
    /// watch from an old version is refused only after a restart of the API server as well.
    pub fn compact(&self) -> anyhow::Result<i64> {
        #[derive(Deserialize)]
        struct Compacted {
            revision: i64,
        }
        Ok(self.ask::<Compacted>("POST", "/compact")?.revision)
    }

    /// Runs `kubectl` as admin and returns what it printed; the error of one that fails tells what it complained of.
    pub fn kubectl(&self, args: &[&str]) -> anyhow::Result<String> {
        self.kubectl_with(args, "")
    }

    /// As [`ControlPlane::kubectl`], with standard input (`apply -f -`).
    pub fn kubectl_with(&self, args: &[&str], stdin: &str) -> anyhow::Result<String> {
        let mut command = Command::new(&self.binary);
        command
            .arg("kubectl")
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(args)
            // Its discovery cache goes with the control plane.
            .env("HOME", &self.dir)
            .env("KUBECTL_KUBERC", "false")
            .env_remove("KUBECONFIG");
        let what = || format!("kubectl {}", args.join(" "));
        let finished = process::run(&mut command, stdin, KUBECTL).with_context(what)?;
        if finished.status.success() {
            return Ok(finished.stdout);
        }
        Err(anyhow!("{}", finished.stderr.trim()).context(finished.status).context(what()))
    }

    fn ask<T: DeserializeOwned>(&self, method: &str, path: &str) -> anyhow::Result<T> {
        let answer = http::request(method, &self.ready.admin, path, ACTION)?;
        let body = answer.ok().with_context(|| format!("{method} {path}"))?;
        serde_json::from_str(&body).with_context(|| format!("{method} {path} answered {body:?}"))
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.process.close_stdin();
        // If it does not heed that it is killed, and its children with it.
        let _ = self.process.wait_exit(Duration::from_secs(10));
    }
}

fn name_of(signal: Signal) -> anyhow::Result<&'static str> {
    match signal {
        Signal::KILL => Ok("KILL"),
        Signal::TERM => Ok("TERM"),
        other => Err(anyhow!("the API server is stopped by KILL or TERM, not {other:?}")),
    }
}
