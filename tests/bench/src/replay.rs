//! [`ReplayServer`]: the API server of pods that clients of benchmarks read from, `peers serve` of `tests/peers/clientgo`, as a
//! child process.
//!
//! The benches of `pilothouse-cache` and `pilothouse-client` start one for all clients that they compare.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde::Deserialize;

use crate::{Process, peers};

/// The replay server of a number of pods; ended when dropped.
#[derive(Debug)]
pub struct ReplayServer {
    process: Process,
    folder: tempfile::TempDir,
}

/// What a server was asked for.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct ReplayStats {
    /// Lists in JSON, sent to their last page.
    pub json_lists: u64,
    /// The same in protobuf.
    pub proto_lists: u64,
    /// Watches in JSON.
    pub json_watches: u64,
    /// Watches in protobuf.
    pub proto_watches: u64,
    /// Streaming lists, of either form.
    pub watch_lists: u64,
    /// Pages of lists.
    pub pages: u64,
    /// Watches that are open.
    pub open: u64,
}

impl ReplayStats {
    /// First lists and relists that were sent to their end.
    #[must_use]
    pub fn lists(&self) -> u64 {
        self.json_lists + self.proto_lists + self.watch_lists
    }
}

impl ReplayServer {
    /// Starts a server of so many pods; it listens when this returns.
    ///
    /// # Errors
    /// When the peers cannot be built or started.
    pub fn start(objects: usize) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(peers::go()?);
        command.args(["serve", "-objects", &objects.to_string(), "-kubeconfig"]);
        let mut process = Process::start(command.arg(folder.path().join("kubeconfig")))?;
        let _: serde_json::Value = process.read()?;
        Ok(Self { process, folder })
    }

    /// The kubeconfig of its clients.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// What it was asked for so far.
    ///
    /// # Errors
    /// When it has ended.
    pub fn stats(&mut self) -> anyhow::Result<ReplayStats> {
        self.process.ask("stats")
    }

    /// Changes pods, so many a second; returns when all events were handed to the watches.
    ///
    /// # Errors
    /// As [`stats`](Self::stats).
    pub fn emit(&mut self, rate: usize, count: usize) -> anyhow::Result<()> {
        self.process.ask::<serde_json::Value>(&format!("emit {rate} {count}")).map(drop)
    }

    /// Changes a share of the pods unseen and ends all watches, so that clients list again.
    ///
    /// # Errors
    /// As [`stats`](Self::stats).
    pub fn expire(&mut self, percent: u32) -> anyhow::Result<()> {
        self.process.ask::<serde_json::Value>(&format!("expire {percent}")).map(drop)
    }

    /// Waits until the server's figures are as they should be.
    ///
    /// # Errors
    /// When that takes longer than `patience`; names `what` was waited for.
    pub fn wait_for(
        &mut self,
        what: &str,
        patience: Duration,
        reached: impl Fn(&ReplayStats) -> bool,
    ) -> anyhow::Result<()> {
        let until = Instant::now() + patience;
        loop {
            let stats = self.stats()?;
            if reached(&stats) {
                return Ok(());
            }
            ensure!(Instant::now() < until, "{what} did not come about: {stats:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
