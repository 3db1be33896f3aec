//! What this process has used of the machine; `tests/peers/clientgo/usage.go` reads the same.

use std::time::Duration;

use anyhow::Context;
use rustix::time::{ClockId, clock_gettime};

/// Processor time of this process, user and system, of all its threads.
#[must_use]
pub fn cpu() -> Duration {
    let at = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(at.tv_sec.unsigned_abs(), u32::try_from(at.tv_nsec).unwrap_or_default())
}

/// A line of a file of `/proc/self`, in KiB: `kilobytes("smaps_rollup", "Rss")`, `kilobytes("status", "VmHWM")`. 0 where
/// there is no such line.
#[must_use]
pub fn kilobytes(file: &str, name: &str) -> f64 {
    kilobytes_of(std::process::id(), file, name).unwrap_or_default()
}

/// The same of another process.
///
/// # Errors
/// When the process has ended, or its file has no such line.
pub fn kilobytes_of(pid: u32, file: &str, name: &str) -> anyhow::Result<f64> {
    let path = format!("/proc/{pid}/{file}");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number =
        line.with_context(|| format!("{path} has no line {name}"))?.trim().trim_end_matches("kB").trim();
    number.parse().with_context(|| format!("{name} in {path} is {number:?}"))
}
