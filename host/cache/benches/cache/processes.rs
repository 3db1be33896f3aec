//! Child processes that are asked by lines and answer by lines of JSON: the replay server and the clients.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::ensure;
use pilothouse_bench::{Process, peers};
use serde::Deserialize;

use crate::usage::Usage;

/// The replay server of a number of pods.
pub(crate) struct Server {
    process: Process,
    folder: tempfile::TempDir,
}

/// What a server was asked for.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Stats {
    pub(crate) json_lists: u64,
    pub(crate) proto_lists: u64,
    pub(crate) json_watches: u64,
    pub(crate) proto_watches: u64,
    pub(crate) watch_lists: u64,
    /// Watches that are open.
    pub(crate) open: u64,
}

impl Stats {
    /// First lists and relists that were sent to their end.
    pub(crate) fn lists(&self) -> u64 {
        self.json_lists + self.proto_lists + self.watch_lists
    }
}

impl Server {
    pub(crate) fn start(objects: usize) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(peers::go()?);
        command.args(["serve", "-objects", &objects.to_string(), "-kubeconfig"]);
        let mut process = Process::start(command.arg(folder.path().join("kubeconfig")))?;
        let _: serde_json::Value = process.read()?;
        Ok(Self { process, folder })
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    pub(crate) fn stats(&mut self) -> anyhow::Result<Stats> {
        self.process.ask("stats")
    }

    /// Changes pods, so many a second; returns when all events were sent.
    pub(crate) fn emit(&mut self, rate: usize, count: usize) -> anyhow::Result<()> {
        self.process.ask::<serde_json::Value>(&format!("emit {rate} {count}")).map(drop)
    }

    /// Changes a share of the pods unseen and ends all watches, so that clients list again.
    pub(crate) fn expire(&mut self, percent: u32) -> anyhow::Result<()> {
        self.process.ask::<serde_json::Value>(&format!("expire {percent}")).map(drop)
    }

    /// Waits until the server's figures are as they should be.
    pub(crate) fn wait_for(
        &mut self,
        what: &str,
        patience: Duration,
        reached: impl Fn(&Stats) -> bool,
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

/// Who reads from the server, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Who {
    /// This crate.
    Ours(crate::client::Variant),
    /// client-go with options of `peers client`.
    ClientGo(&'static [&'static str]),
    /// kube-rs with options of its program.
    KubeRs(&'static [&'static str]),
}

impl Who {
    /// Starts the client and waits until it has synced.
    pub(crate) fn start(self, kubeconfig: &Path) -> anyhow::Result<(Process, Usage)> {
        let mut command = match self {
            Self::Ours(variant) => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg(crate::client::COMMAND).arg(kubeconfig).arg(variant.name());
                command
            }
            Self::ClientGo(options) => {
                let mut command = Command::new(peers::go()?);
                command.arg("client").arg("-kubeconfig").arg(kubeconfig).args(options);
                command
            }
            Self::KubeRs(options) => {
                let mut command = Command::new(peers::kube_rs()?);
                command.arg(kubeconfig).args(options);
                command
            }
        };
        let mut process = Process::start(&mut command)?;
        let synced = process.read()?;
        Ok((process, synced))
    }
}
