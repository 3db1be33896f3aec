//! The clients as child processes that are asked by lines and answer by lines of JSON.

use std::path::Path;
use std::process::Command;

use pilothouse_bench::{Process, peers};

use crate::usage::Usage;

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
