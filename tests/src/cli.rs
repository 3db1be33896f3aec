//! The `pilothouse` binary run to its end, as a user types it.

use std::process::Command;
use std::time::Duration;

use crate::Host;
use crate::process::{self, Finished};

/// How long a command may take.
const COMMAND: Duration = Duration::from_secs(60);

/// Runs the program of a running host with these arguments. Nothing of the environment tells it of a cluster.
pub fn pilothouse(host: &Host, args: &[&str]) -> anyhow::Result<Finished> {
    // Also when the file was built anew since the host was started.
    let mut command = Command::new(format!("/proc/{}/exe", host.process().pid()));
    command.args(args).env_remove("KUBECONFIG").env_remove("RUST_LOG").env("HOME", host.dir());
    process::run(&mut command, "", COMMAND)
}
