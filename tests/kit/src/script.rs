//! Programs that are shell scripts.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Writes a shell script that can be started at once.
///
/// Another process writes it: a child that another thread starts meanwhile would have a file of this process open for writing
/// until it runs its own program, and what is open for writing cannot be started.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, script: &str) -> Result<()> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "cat > \"$0\" && chmod 755 \"$0\""]).arg(path).stdin(Stdio::piped());
    let mut writer = shell.spawn().context("/bin/sh")?;
    let written = writer
        .stdin
        .take()
        .context("no standard input")?
        .write_all(format!("#!/bin/sh\n{script}\n").as_bytes());
    ensure!(writer.wait()?.success(), "{} cannot be written", path.display());
    Ok(written?)
}
