//! What this process has used of the machine; `tests/peers/clientgo/usage.go` reads the same.

use std::time::Duration;

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
    let text = std::fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or_default()
}
