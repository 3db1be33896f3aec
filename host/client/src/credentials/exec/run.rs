//! [`Command`]: one run of the program of an exec plugin, bounded in time and output.
//!
//! It is told by `KUBERNETES_EXEC_INFO` what kubectl tells it. Standard input and standard error are those of this process
//! where somebody can answer; elsewhere it has neither, and leads a process group of its own, so that what it has started
//! goes with it when it is stopped. What it leaves running when it ends by itself, as an agent, stays and is not waited for.

use std::borrow::Cow;
use std::fmt;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::FusedFuture as _;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr, ChildStdout};
use tokio::time::timeout;

use crate::error::{Error, Result};
use crate::observer::ExecPluginEvent;
use crate::text::short;

/// Somebody may have to log in, but not for ever.
const INTERACTIVE_TIME: Duration = Duration::from_secs(300);
const TIME: Duration = Duration::from_secs(60);
/// How long output is waited for once the program has ended.
const REST: Duration = Duration::from_millis(100);
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
        let (status, output, said) = match timeout(limit, communicate(&mut child, &mut group)).await {
            Ok(Ok(ended)) => ended,
            Ok(Err(e)) => {
                return (Err(self.error(&format!("failed: {e}; run its command by hand"))), internal);
            }
            Err(_) => {
                let why = format!("gave nothing within {limit:?} and was stopped; run its command by hand");
                return (Err(self.error(&why)), internal);
            }
        };
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
        write!(f, "exec plugin {:?} for credentials", displayed(&self.program))
    }
}

/// The program as messages may show it: somebody may have written arguments behind it, and a secret among them.
pub(crate) fn displayed(program: &str) -> Cow<'_, str> {
    match program.split_once(char::is_whitespace) {
        Some((first, _)) => format!("{first} …").into(),
        None => program.into(),
    }
}

/// Waits for the end, reading meanwhile, since a full pipe would hold the program up. A program that has ended by itself is
/// taken out of `group`.
async fn communicate(
    child: &mut Child,
    group: &mut Group,
) -> std::io::Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (mut output, mut said) = (Vec::new(), Vec::new());
    let status = {
        let reading = pin!(async {
            tokio::try_join!(read_output(stdout, &mut output), read_said(stderr, &mut said)).map(drop)
        });
        let mut reading = reading.fuse();
        let status = tokio::select! {
            status = child.wait() => status?,
            result = &mut reading => {
                result?;
                child.wait().await?
            }
        };
        // What it has left behind on purpose may stay.
        group.0 = None;
        if !reading.is_terminated() {
            // All that the program has printed is in the pipes. What it has left behind may hold them open for ever.
            timeout(REST, reading).await.unwrap_or(Ok(()))?;
        }
        status
    };
    Ok((status, output, said))
}

async fn read_output(stdout: Option<ChildStdout>, out: &mut Vec<u8>) -> std::io::Result<()> {
    if let Some(stdout) = stdout {
        stdout.take(OUTPUT_LIMIT + 1).read_to_end(out).await?;
    }
    let too_much = || std::io::Error::other(format!("it printed more than {OUTPUT_LIMIT} bytes"));
    if out.len() as u64 > OUTPUT_LIMIT { Err(too_much()) } else { Ok(()) }
}

async fn read_said(stderr: Option<ChildStderr>, out: &mut Vec<u8>) -> std::io::Result<()> {
    if let Some(mut stderr) = stderr {
        (&mut stderr).take(ERROR_LIMIT).read_to_end(out).await?;
        // Whoever has much to say must still be able to say it.
        tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await?;
    }
    Ok(())
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
