//! [`Memory`] of a process.

use std::thread;
use std::time::Duration;

use pilothouse_bench::usage::kilobytes_of;

/// In MiB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    /// Proportional set size: each page counts by the share that the process has of it, pages of mapped files as well.
    pub(crate) pss: f64,
    /// What is in no file, and so cannot be read again when memory is short.
    pub(crate) anonymous: f64,
}

impl Memory {
    pub(crate) fn of(pid: u32) -> anyhow::Result<Self> {
        let line = |name| anyhow::Ok(kilobytes_of(pid, "smaps_rollup", name)? / 1024.0);
        Ok(Self { pss: line("Pss")?, anonymous: line("Anonymous")? })
    }

    /// Of so many processes.
    pub(crate) fn sum(pids: impl IntoIterator<Item = u32>) -> anyhow::Result<Self> {
        let none = Self { pss: 0.0, anonymous: 0.0 };
        pids.into_iter().map(Self::of).try_fold(none, |sum, next| {
            let next = next?;
            Ok(Self { pss: sum.pss + next.pss, anonymous: sum.anonymous + next.anonymous })
        })
    }

    /// Once it no longer falls.
    pub(crate) fn settled(pid: u32) -> anyhow::Result<Self> {
        let mut last = Self::of(pid)?;
        loop {
            // What is measured is what happens in this time.
            thread::sleep(Duration::from_secs(5));
            let now = Self::of(pid)?;
            if now.pss > last.pss * 0.995 {
                return Ok(now);
            }
            last = now;
        }
    }

    pub(crate) fn times(self, factor: f64) -> Self {
        Self { pss: self.pss * factor, anonymous: self.anonymous * factor }
    }
}
