//! The sample controller with kube-rs, whose lines are counted beside those of `examples/sample-controller`: it does what the
//! plugin does.

use std::process::Command;

use anyhow::Result;
use pilothouse_testkit::poll::{self, SOON};
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::process::{self, Process};
use pilothouse_tests::{Cluster, ControlPlane, kube_rs, sample_controller};

pilothouse_tests::on_both_servers!(full: kube_rs_makes_of_a_foo_what_the_plugin_makes);

fn kube_rs_makes_of_a_foo_what_the_plugin_makes(server: Server) -> Result<()> {
    let program = kube_rs::program()?;
    let plane = ControlPlane::shared(server)?;
    let definition = process::run(Command::new(&program).args(["sample", "--crd"]), "", SOON)?;
    sample_controller::define(plane, &definition.stdout)?;
    let mut command = Command::new(&program);
    let running = Process::spawn_watched(command.arg("sample").arg(plane.kubeconfig()))?;
    let (cluster, namespace) = (Cluster::of(plane)?, "sample-controller-of-kube-rs");
    cluster.namespace(namespace)?;
    sample_controller::check(&cluster, namespace, &|what, holds| {
        let ended = || running.exit_status().map(|status| format!("it ended ({status})"));
        poll::until_or(what, SOON, holds, ended).map_err(|error| error.context(running.output().tail(10)))
    })
}
