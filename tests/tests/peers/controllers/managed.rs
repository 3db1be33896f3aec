//! [`ManagedPlane`]: a server with a kube-controller-manager and a kubelet's stand-in.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Result, bail, ensure};
use pilothouse_tests::controlplane::Options;
use pilothouse_tests::go_program::CONTROLPLANE;
use pilothouse_tests::process::Process;
use pilothouse_tests::{Cluster, ControlPlane};

use super::errors::{self, LoggedError};
use super::kubelet::Kubelet;
use super::objects::{BUILT_IN, Objects};

/// Fields are dropped in this order: first those that use the server.
pub(super) struct ManagedPlane {
    pub(super) name: &'static str,
    _kubelet: Kubelet,
    manager: Process,
    cluster: Cluster,
    plane: ControlPlane,
}

impl ManagedPlane {
    pub(super) fn start(name: &'static str, options: Options, controllers: &str) -> Result<Self> {
        let plane = ControlPlane::start(options)?;
        let mut command = Command::new(CONTROLPLANE.built()?);
        command.args(["controller-manager", "--controllers", controllers, "--kubeconfig"]);
        command.arg(plane.kubeconfig()).arg("--");
        // Many controllers log a failure that they try again at level 2 only.
        command.args([
            "-v=2",
            "--horizontal-pod-autoscaler-sync-period=1s",
            "--resource-quota-sync-period=1s",
        ]);
        // The node has no kubelet that reports.
        command.arg("--node-monitor-grace-period=1h");
        let manager = Process::spawn(&mut command)?;
        let (cluster, kubelet) = (Cluster::of(&plane)?, Kubelet::start(Cluster::of(&plane)?));
        Ok(Self { name, _kubelet: kubelet, manager, cluster, plane })
    }

    /// Runs kubectl commands one after the other.
    pub(super) fn run(&self, commands: &[&str], manifest: &str) -> Result<()> {
        commands.iter().try_for_each(|command| self.plane.kubectl_line(command, manifest).map(drop))
    }

    pub(super) fn objects(&self) -> Result<Objects> {
        let status = self.manager.exit_status();
        ensure!(status.is_none(), "kube-controller-manager ended: {}", self.manager.output().tail(40));
        Objects::read(&self.cluster, BUILT_IN)
    }

    /// The errors in the log of the controllers, each with one of its lines.
    pub(super) fn errors(&self) -> Result<BTreeMap<LoggedError, String>> {
        errors_of(&self.manager)
    }
}

/// The errors in the log of a program that uses klog.
pub(super) fn errors_of(process: &Process) -> Result<BTreeMap<LoggedError, String>> {
    let lines = process.output().matching("");
    if let Some(at) = lines.iter().position(|line| line.contains("panic")) {
        bail!("a panic:\n{}", lines[at..].join("\n"));
    }
    Ok(lines.into_iter().filter_map(|line| Some((errors::read(&line)?, line))).collect())
}
