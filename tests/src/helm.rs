//! Helm with the chart, as the commands of docs/install.md run it in the reader's folder. It is built if necessary, so tests that use
//! it run at full length only.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::ControlPlane;
use crate::go_program::HELM;
use crate::install::{NAME, NAMESPACE, Overlay};
use crate::process::{self, Finished};

/// The chart, from the reader's folder.
pub const CHART: &str = "../pilothouse/charts/pilothouse";
/// The value `rbac`, as the page gives it.
pub const RBAC: [&str; 2] = ["--set-file", "rbac=rbac.yaml"];

/// Time limit of a command.
const COMMAND: Duration = Duration::from_secs(300);

/// Runs `helm ARGS` in the reader's folder; without a control plane it knows no cluster.
///
/// # Errors
/// When Helm cannot be built or started.
pub fn run(plane: Option<&ControlPlane>, overlay: &Overlay, args: &[&str]) -> Result<Finished> {
    let mut command = Command::new(HELM.built()?);
    command.current_dir(overlay.dir()).args(args).env("HOME", overlay.dir()).env_remove("KUBECONFIG");
    if let Some(plane) = plane {
        command.env("KUBECONFIG", plane.kubeconfig());
    }
    process::run(&mut command, "", COMMAND)
}

/// Runs `helm VERB` for the release of the page, with its values and further arguments: [`RBAC`], if the chart is to render.
///
/// # Errors
/// As [`run`].
pub fn release(
    plane: Option<&ControlPlane>,
    overlay: &Overlay,
    verb: &str,
    more: &[&str],
) -> Result<Finished> {
    let args = [verb, NAME, CHART, "--namespace", NAMESPACE, "--values", "values.yaml"];
    run(plane, overlay, &[&args, more].concat())
}

/// What the chart makes with `rbac.yaml` and further arguments.
///
/// # Errors
/// As [`run`].
pub fn template(overlay: &Overlay, more: &[&str]) -> Result<Finished> {
    release(None, overlay, "template", &[&RBAC, more].concat())
}

/// Checks that the chart refuses further arguments with this text.
///
/// # Errors
/// When it takes them, or says something else.
pub fn refuses(overlay: &Overlay, more: &[&str], wanted: &str) -> Result<()> {
    let finished = template(overlay, more)?;
    ensure!(
        !finished.status.success() && finished.stderr.contains(wanted),
        "{more:?} is not refused with {wanted:?}: {finished:?}"
    );
    Ok(())
}
