//! [`ControlPlane`]: an API server for tests, with the same interface for two servers: a real etcd and kube-apiserver
//! as a child process, built from the Go module `tests/controlplane`, and the development server within this process.
//!
//! Invariants: a control plane ends with the test process (the real one because its standard input closes then) and its
//! folder is removed; the API server keeps its port and data over restarts. All methods block; only
//! [`ControlPlane::client`] needs a tokio runtime.

mod development;
mod options;
mod real;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, anyhow};
use serde::Deserialize;

use development::Development;
pub use options::{Options, Server};
use pilothouse_client::{Client, ClientOptions};
use pilothouse_devserver::DevServer;
use real::Real;

use crate::go_program::CONTROLPLANE;
use crate::process;
use crate::tools::Tool;
use crate::{Proxy, Signal};

/// User agent and field manager of the tests' own client.
const CLIENT: &str = "pilothouse-tests";
/// Time limit of a `kubectl` command.
const KUBECTL: Duration = Duration::from_secs(60);

/// The state of a control plane. A pid is 0 while the process does not run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The etcd revision of the last write.
    pub revision: i64,
    /// The process that runs etcd.
    pub pid: u32,
    /// The API server's process.
    pub apiserver_pid: u32,
    /// The process of the controllers.
    pub controllers_pid: u32,
    /// Whether the API server's process exists.
    pub apiserver_running: bool,
    /// Whether [`ControlPlane::pause_apiserver`] has stopped the API server.
    pub apiserver_paused: bool,
}

/// A running control plane. Dropping it ends it.
#[derive(Debug)]
pub struct ControlPlane {
    backend: Backend,
    place: Place,
}

/// The API server.
#[derive(Debug)]
enum Backend {
    Real(Real),
    Development(Development),
}

/// The addresses and files of a control plane.
#[derive(Debug)]
struct Place {
    dir: PathBuf,
    server: String,
    kubeconfig: PathBuf,
    kubeconfig_token: PathBuf,
}

impl ControlPlane {
    /// Starts a control plane in a new temporary folder and waits until the API server is ready and the namespace
    /// `default` exists. Builds the binary of the real one if necessary, which takes about ten minutes the first time.
    pub fn start(options: Options) -> anyhow::Result<ControlPlane> {
        let dir = tempfile::Builder::new().prefix("plane-").tempdir().context("making a folder")?.keep();
        match options.server {
            Server::Real => {
                let (real, place) = Real::start(&options, dir)?;
                Ok(ControlPlane { backend: Backend::Real(real), place })
            }
            Server::Development => {
                let (development, place) = Development::start(&options, dir)?;
                Ok(ControlPlane { backend: Backend::Development(development), place })
            }
        }
    }

    /// The control plane with default options that all tests of this process share. Each test should use a namespace of
    /// its own and must neither restart nor compact it. The first caller starts it; it ends with the process.
    pub fn shared(server: Server) -> anyhow::Result<&'static ControlPlane> {
        static SHARED: [OnceLock<Result<ControlPlane, String>>; 2] = [const { OnceLock::new() }; 2];
        let started = SHARED[server as usize]
            .get_or_init(|| ControlPlane::start(Options::on(server)).map_err(|error| format!("{error:#}")));
        started.as_ref().map_err(|error| anyhow!("the shared control plane: {error}"))
    }

    /// The development server, for fault injection and its record of requests; `None` on the real server.
    pub fn development(&self) -> Option<&DevServer> {
        match &self.backend {
            Backend::Real(_) => None,
            Backend::Development(development) => Some(development.server()),
        }
    }

    /// A kubeconfig of an admin: with a client certificate, or with a bearer token on the development server.
    pub fn kubeconfig(&self) -> &Path {
        &self.place.kubeconfig
    }

    /// A kubeconfig of an admin with a bearer token.
    pub fn kubeconfig_token(&self) -> &Path {
        &self.place.kubeconfig_token
    }

    /// A kubeconfig of the admin with a client certificate that connects through a proxy. The serving certificate stays
    /// valid, because it is for 127.0.0.1 on any port.
    pub fn kubeconfig_via(&self, proxy: &Proxy) -> anyhow::Result<PathBuf> {
        let original = fs::read_to_string(self.kubeconfig())?;
        let server = format!("https://{}", proxy.address());
        let path = self.place.dir.join(format!("kubeconfig-via-{}", proxy.address().port()));
        fs::write(&path, original.replace(self.server(), &server))?;
        Ok(path)
    }

    /// The URL of the API server.
    pub fn server(&self) -> &str {
        &self.place.server
    }

    /// The address of the API server.
    pub fn address(&self) -> SocketAddr {
        let port = self.server().rsplit(':').next().and_then(|port| port.parse().ok());
        SocketAddr::from(([127, 0, 0, 1], port.unwrap_or_default()))
    }

    /// The folder with data, certificates and logs.
    pub fn dir(&self) -> &Path {
        &self.place.dir
    }

    /// The last lines of the API server's log.
    pub fn apiserver_log(&self, lines: usize) -> String {
        let log = fs::read_to_string(self.place.dir.join("apiserver.log")).unwrap_or_default();
        let all: Vec<&str> = log.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// A client of this project for the API server as admin, with a user agent and a field manager of its own. It
    /// belongs to the runtime of the caller.
    pub async fn client(&self) -> anyhow::Result<Client> {
        let options = ClientOptions {
            kubeconfig: Some(self.kubeconfig().to_owned()),
            user_agent: CLIENT.to_owned(),
            field_manager: CLIENT.to_owned(),
            ..ClientOptions::default()
        };
        Ok(Client::new(options).await?)
    }

    /// The state of the processes and the revision of the last write.
    pub fn status(&self) -> anyhow::Result<Status> {
        match &self.backend {
            Backend::Real(real) => real.ask("GET", "/status"),
            Backend::Development(development) => Ok(development.status()),
        }
    }

    /// Stops the API server with `Signal::KILL` or `Signal::TERM`; returns when its process has ended. The development
    /// server closes its port and resets its connections.
    pub fn stop_apiserver(&self, signal: Signal) -> anyhow::Result<Status> {
        let path = format!("/apiserver/stop?signal={}", name_of(signal)?);
        match &self.backend {
            Backend::Real(real) => real.ask("POST", &path),
            Backend::Development(development) => Ok(development.stop()),
        }
    }

    /// Starts the API server after [`ControlPlane::stop_apiserver`]; returns when it is ready.
    pub fn start_apiserver(&self) -> anyhow::Result<Status> {
        match &self.backend {
            Backend::Real(real) => real.ask("POST", "/apiserver/start"),
            Backend::Development(development) => development.start_again(),
        }
    }

    /// Stops and starts the API server; returns when it is ready.
    pub fn restart_apiserver(&self, signal: Signal) -> anyhow::Result<Status> {
        let path = format!("/apiserver/restart?signal={}", name_of(signal)?);
        match &self.backend {
            Backend::Real(real) => real.ask("POST", &path),
            Backend::Development(development) => {
                development.stop();
                development.start_again()
            }
        }
    }

    /// Suspends the API server's process: connections stay open without a response.
    pub fn pause_apiserver(&self) -> anyhow::Result<Status> {
        match &self.backend {
            Backend::Real(real) => real.ask("POST", "/apiserver/pause"),
            Backend::Development(development) => Ok(development.pause(true)),
        }
    }

    /// Resumes the API server after [`ControlPlane::pause_apiserver`].
    pub fn resume_apiserver(&self) -> anyhow::Result<Status> {
        match &self.backend {
            Backend::Real(real) => real.ask("POST", "/apiserver/resume"),
            Backend::Development(development) => Ok(development.pause(false)),
        }
    }

    /// Compacts the history to the current version: a watch from a version before the last write gets 410. Returns the
    /// new revision; etcd's is one more than before. With the watch cache of a real server, a watch from an old version
    /// gets 410 only after an additional restart of the API server.
    pub fn compact(&self) -> anyhow::Result<i64> {
        #[derive(Deserialize)]
        struct Compacted {
            revision: i64,
        }
        match &self.backend {
            Backend::Real(real) => Ok(real.ask::<Compacted>("POST", "/compact")?.revision),
            Backend::Development(development) => Ok(development.server().compact().try_into()?),
        }
    }

    /// Runs `kubectl` as admin and returns its standard output.
    ///
    /// # Errors
    /// When `kubectl` fails; the message contains its standard error.
    pub fn kubectl(&self, args: &[&str]) -> anyhow::Result<String> {
        self.kubectl_with(args, "")
    }

    /// As [`ControlPlane::kubectl_with`], with the arguments in one line: a word with blanks is in single quotes.
    ///
    /// # Errors
    /// As [`ControlPlane::kubectl`].
    pub fn kubectl_line(&self, line: &str, stdin: &str) -> anyhow::Result<String> {
        let words = line.split('\'').enumerate().flat_map(|(index, part)| match index % 2 {
            0 => part.split_whitespace().collect(),
            _ => vec![part],
        });
        self.kubectl_with(&words.collect::<Vec<_>>(), stdin)
    }

    /// A `kubectl` command as admin, not started yet.
    pub fn kubectl_command(&self, args: &[&str]) -> anyhow::Result<Command> {
        let server = if self.development().is_some() { Server::Development } else { Server::Real };
        let mut command = kubectl(server)?;
        command
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(args)
            // kubectl's discovery cache is removed with the control plane.
            .env("HOME", &self.place.dir)
            .env("KUBECTL_KUBERC", "false")
            .env_remove("KUBECONFIG");
        Ok(command)
    }

    /// As [`ControlPlane::kubectl`], with standard input (`apply -f -`).
    pub fn kubectl_with(&self, args: &[&str], stdin: &str) -> anyhow::Result<String> {
        let mut command = self.kubectl_command(args)?;
        let what = || format!("kubectl {}", args.join(" "));
        let finished = process::run(&mut command, stdin, KUBECTL).with_context(what)?;
        if finished.status.success() {
            return Ok(finished.stdout);
        }
        Err(anyhow!("{}", finished.stderr.trim()).context(finished.status).context(what()))
    }
}

/// A `kubectl` command: the one in the binary, or for the development server one on the PATH, so that Go is not needed.
fn kubectl(server: Server) -> anyhow::Result<Command> {
    if server == Server::Development && !CONTROLPLANE.exists()? {
        match Tool::Kubectl.require() {
            Ok(()) => return Ok(Command::new("kubectl")),
            // Go would build one. Without Go, the error names kubectl, which is easier to install.
            Err(missing) => Tool::Go.require().map_err(|_| missing)?,
        }
    }
    let mut command = Command::new(CONTROLPLANE.built()?);
    command.arg("kubectl");
    Ok(command)
}

fn name_of(signal: Signal) -> anyhow::Result<&'static str> {
    match signal {
        Signal::KILL => Ok("KILL"),
        Signal::TERM => Ok("TERM"),
        other => Err(anyhow!("the API server is stopped by KILL or TERM, not {other:?}")),
    }
}
