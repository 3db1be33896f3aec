//! Runs commands of the `pilothouse` binary, as a user would.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::Host;
use crate::cargo::{self, Build};
use crate::host;
use crate::process::{self, Finished};

/// Time limit of a command: it tells one that hangs. On a slow and busy machine some take more than a minute.
const COMMAND: Duration = Duration::from_secs(300);

/// Runs the program of a running host with these arguments, without variables of the environment that name a cluster.
pub fn pilothouse(host: &Host, args: &[&str]) -> anyhow::Result<Finished> {
    // The same program, even when the file was rebuilt after the host was started.
    let mut command = Command::new(format!("/proc/{}/exe", host.process().pid()));
    command.args(args).env_remove("KUBECONFIG").env_remove("RUST_LOG").env("HOME", host.dir());
    process::run(&mut command, "", COMMAND)
}

/// The command `pilothouse ARGS` in a folder, with its caches in the same folder. Builds that it starts do not inherit the
/// environment of the tests.
pub fn command<A: AsRef<OsStr>>(dir: &Path, args: &[A]) -> anyhow::Result<Command> {
    let mut command = of_a_user(&host::built()?, dir);
    command.args(args);
    Ok(command)
}

/// A program in a folder, as [`command`] starts ours.
pub fn of_a_user(program: &Path, dir: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| cargo::leaks(Build::Guest, name)) {
            command.env_remove(name);
        }
    }
    command.current_dir(dir).env("XDG_CACHE_HOME", dir.join("cache"));
    command.env_remove("KUBECONFIG").env_remove("RUST_LOG");
    command
}

/// Runs `pilothouse ARGS` in a folder and waits until it ends.
pub fn run<A: AsRef<OsStr>>(dir: &Path, args: &[A]) -> anyhow::Result<Finished> {
    process::run(&mut command(dir, args)?, "", COMMAND)
}
