//! Runs commands of the `pilothouse` binary, as a user would.

use std::process::Command;
use std::time::Duration;

use crate::Host;
use crate::process::{self, Finished};

/// Time limit of a command.
const COMMAND: Duration = Duration::from_secs(60);

/// Runs the program of a running host with these arguments, without variables of the environment that name a cluster.
pub fn pilothouse(host: &Host, args: &[&str]) -> anyhow::Result<Finished> {
    // The same program, even when the file was rebuilt after the host was started.
    let mut command = Command::new(format!("/proc/{}/exe", host.process().pid()));
    command.args(args).env_remove("KUBECONFIG").env_remove("RUST_LOG").env("HOME", host.dir());
    process::run(&mut command, "", COMMAND)
}
