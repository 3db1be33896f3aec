//! Runs commands of the `pilothouse` binary, as a user would.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;

use crate::Host;
use crate::cargo::{self, Build};
use crate::host;
use crate::poll;
use crate::process::{self, Finished};

/// Time limit of a command: it tells one that hangs. On a slow and busy machine some take more than a minute.
const COMMAND: Duration = Duration::from_secs(300);

/// Runs the program of a running host with these arguments, without variables of the environment that name a cluster.
pub fn pilothouse(host: &Host, args: &[&str]) -> anyhow::Result<Finished> {
    process::run(&mut of_host(host, args), "", COMMAND)
}

fn of_host(host: &Host, args: &[&str]) -> Command {
    // The same program, even when the file was rebuilt after the host was started.
    let mut command = Command::new(format!("/proc/{}/exe", host.process().pid()));
    command.args(args).env_remove("KUBECONFIG").env_remove("RUST_LOG").env("HOME", host.dir());
    command
}

/// As [`pilothouse`], with a reader that is gone after this many lines, as `head`; then something is done that the command would
/// print. Waits until the command ends.
///
/// # Errors
/// When it ends before it has printed the lines, does not end, or `then` fails.
pub fn left_by_its_reader(
    host: &Host,
    args: &[&str],
    lines: usize,
    then: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<ExitStatus> {
    let mut child = of_host(host, args).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let out = child.stdout.take().context("no pipe")?;
    let read = BufReader::new(out).lines().take(lines).filter(Result::is_ok).count();
    let done = if read == lines { then() } else { Err(anyhow::anyhow!("it has printed {read} lines")) };
    let ended = done.and_then(|()| poll::until("it to end without a reader", COMMAND, || child.try_wait()));
    if ended.is_err() {
        child.kill()?;
        child.wait()?;
    }
    ended
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
