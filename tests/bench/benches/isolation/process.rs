//! [`Usage`]: what the process of a host holds, as the system sees it.

use std::fs;

use anyhow::Context;
use pilothouse_tests::Host;

/// What a host holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// Anonymous memory in KiB.
    pub(crate) anonymous_kib: f64,
    pub(crate) descriptors: f64,
    pub(crate) maps: f64,
    pub(crate) threads: f64,
}

impl Usage {
    /// What the host holds now.
    pub(crate) fn of(host: &Host) -> anyhow::Result<Self> {
        let folder = format!("/proc/{}", host.process().pid());
        let entries = |name: &str| {
            let path = format!("{folder}/{name}");
            anyhow::Ok(fs::read_dir(&path).context(path)?.count() as f64)
        };
        let read = |name: &str| {
            let path = format!("{folder}/{name}");
            fs::read_to_string(&path).context(path)
        };
        Ok(Self {
            anonymous_kib: kib(&read("smaps_rollup")?, "Anonymous:")?,
            descriptors: entries("fd")?,
            maps: read("maps")?.lines().count() as f64,
            threads: entries("task")?,
        })
    }
}

/// The most resident memory that the host ever had, in MiB.
pub(crate) fn peak_mib(host: &Host) -> anyhow::Result<f64> {
    let path = format!("/proc/{}/status", host.process().pid());
    Ok(kib(&fs::read_to_string(&path).context(path)?, "VmHWM:")? / 1024.0)
}

fn kib(text: &str, name: &str) -> anyhow::Result<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let line = line.with_context(|| format!("no line {name}"))?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}
