//! [`Command`]: one run of the program of an exec plugin, bounded in time and output.
//!
//! It is told by `KUBERNETES_EXEC_INFO` what kubectl tells it. Standard input and standard error are those of this process
//! where somebody can answer; elsewhere it has neither, and leads a process group of its own, so that what it has started
//! goes with it.

use std::fmt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Child;
use tokio::time::timeout;

use super::ExecPluginEvent;
use crate::answer::short;
use crate::error::{Error, Result};

/// Somebody may have to log in, but not for ever.
const INTERACTIVE_TIME: Duration = Duration::from_secs(300);
const TIME: Duration = Duration::from_secs(60);
/// Certificates with their chains have some 10 KB.
const OUTPUT_LIMIT: u64 = 1 << 20;
const ERROR_LIMIT: u64 = 16 << 10;

/// A program, and what to tell it.
pub(crate) struct Command {
    /// What to call the configuration in messages.
    pub(crate) source: String,
    /// A path, or a name to look up on `PATH`.
    pub(crate) program: String,
    /// Arguments; may hold secrets.
    pub(crate) args: Vec<String>,
    /// Variables in addition to those of this process; may hold secrets.
    pub(crate) env: Vec<(String, String)>,
    /// For people who do not have the program; empty when there is none.
    pub(crate) install_hint: String,
    /// The version of the protocol, as `client.authentication.k8s.io/v1`.
    pub(crate) api_version: String,
    /// Whether the program may ask questions.
    pub(crate) interactive: bool,
    /// What to tell about the cluster.
    pub(crate) cluster: Option<Value>,
}

impl Command {
    /// Runs it and gives what it printed, and what metrics should know.
    pub(super) async fn run(&self) -> (Result<Vec<u8>>, ExecPluginEvent) {
        let internal = ExecPluginEvent::Called { code: 1, status: "client_internal_error" };
        let mut child = match self.spawn() {
            Ok(child) => child,
            Err(e) => {
                let hint = &self.install_hint;
                let hint =
                    if hint.is_empty() { String::new() } else { format!(" {}", short(hint.as_bytes())) };
                let why = format!("cannot be started: {e}; is its command installed and on PATH?{hint}");
                let event = ExecPluginEvent::Called { code: 1, status: "plugin_not_found_error" };
                return (Err(self.error(&why)), event);
            }
        };
        let mut group = Group(if self.interactive { None } else { child.id() });
        let limit = if self.interactive { INTERACTIVE_TIME } else { TIME };
        let (status, output, said) = match timeout(limit, communicate(&mut child)).await {
            Ok(Ok(ended)) => ended,
            Ok(Err(e)) => {
                return (Err(self.error(&format!("failed: {e}; run its command by hand"))), internal);
            }
            Err(_) => {
                let why = format!("gave nothing within {limit:?} and was stopped; run its command by hand");
                return (Err(self.error(&why)), internal);
            }
        };
        // What it has left behind on purpose may stay.
        group.0 = None;
        if !status.success() {
            let said = short(&said);
            let said = if said.is_empty() { String::new() } else { format!(": {said}") };
            let why = format!("failed, {status}{said}; run its command by hand");
            let code = status.code().unwrap_or(-1);
            return (
                Err(self.error(&why)),
                ExecPluginEvent::Called { code, status: "plugin_execution_error" },
            );
        }
        (Ok(output), ExecPluginEvent::Called { code: 0, status: "no_error" })
    }

    /// An error that names the configuration and the program.
    pub(super) fn error(&self, why: &str) -> Error {
        Error::Config(format!("{}: {self} {why}", self.source))
    }

    fn spawn(&self) -> std::io::Result<Child> {
        let mut command = tokio::process::Command::new(&self.program);
        command.args(&self.args).kill_on_drop(true).stdout(Stdio::piped());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.env("KUBERNETES_EXEC_INFO", self.info().to_string());
        if self.interactive {
            command.stdin(Stdio::inherit()).stderr(Stdio::inherit());
        } else {
            command.stdin(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        }
        command.spawn()
    }

    fn info(&self) -> Value {
        let mut spec = json!({"interactive": self.interactive});
        if let Some(cluster) = &self.cluster {
            spec["cluster"] = cluster.clone();
        }
        json!({"kind": "ExecCredential", "apiVersion": self.api_version, "spec": spec})
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exec plugin {:?} for credentials", self.program)
    }
}

/// Waits for the end, reading meanwhile, since a full pipe would hold the program up.
async fn communicate(child: &mut Child) -> std::io::Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (output, said, status) = tokio::try_join!(
        async {
            let output = read(stdout, OUTPUT_LIMIT + 1).await?;
            let too_much = || std::io::Error::other(format!("it printed more than {OUTPUT_LIMIT} bytes"));
            if output.len() as u64 > OUTPUT_LIMIT { Err(too_much()) } else { Ok(output) }
        },
        async {
            let mut stderr = stderr;
            let said = read(stderr.as_mut(), ERROR_LIMIT).await?;
            // Whoever has much to say must still be able to say it.
            if let Some(stderr) = &mut stderr {
                tokio::io::copy(stderr, &mut tokio::io::sink()).await?;
            }
            Ok(said)
        },
        child.wait()
    )?;
    Ok((status, output, said))
}

async fn read(from: Option<impl AsyncRead + Unpin>, limit: u64) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::new();
    if let Some(from) = from {
        from.take(limit).read_to_end(&mut out).await?;
    }
    Ok(out)
}

/// The program and all that it has started; ended when dropped, unless it is `None`.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        let leader = self.0.and_then(|id| Pid::from_raw(id.try_into().ok()?));
        if let Some(leader) = leader {
            // Nobody is left when all have ended.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}
