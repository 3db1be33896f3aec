//! [`Real`]: runs etcd and kube-apiserver in a child process.

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Options, Place};
use crate::go_program::CONTROLPLANE;
use crate::process::{Process, Stream};
use crate::{http, poll};

/// Time limit of a start: 3 to 5 s on an idle machine, far more while all cores compile.
const START: Duration = Duration::from_secs(150);
/// Time limit of an action on the API server.
const ACTION: Duration = Duration::from_secs(150);

/// The variable that, with any value, keeps the folders with data and logs when their control planes end.
const KEEP: &str = "PILOTHOUSE_KEEP_CONTROLPLANE";

/// The line that the process prints when it is ready.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ready {
    server: String,
    kubeconfig: PathBuf,
    kubeconfig_token: PathBuf,
    admin: String,
}

/// The child process. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Real {
    process: Process,
    admin: String,
}

impl Real {
    pub(super) fn start(options: &Options, dir: PathBuf) -> anyhow::Result<(Real, Place)> {
        let mut command = Command::new(CONTROLPLANE.built()?);
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
        let Ready { server, kubeconfig, kubeconfig_token, admin } = ready;
        Ok((Real { process, admin }, Place { dir, server, kubeconfig, kubeconfig_token }))
    }

    /// Sends a request to the admin port of the process.
    pub(super) fn ask<T: DeserializeOwned>(&self, method: &str, path: &str) -> anyhow::Result<T> {
        let answer = http::request(method, &self.admin, path, ACTION)?;
        let body = answer.ok().with_context(|| format!("{method} {path}"))?;
        serde_json::from_str(&body).with_context(|| format!("{method} {path} answered {body:?}"))
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        self.process.close_stdin();
        // A process that ignores the closed input is killed together with its children.
        let _ = self.process.wait_exit(Duration::from_secs(10));
    }
}
