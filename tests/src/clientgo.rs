//! Commands and programs of the Go modules `tests/clientgo`, for comparison with client-go, and `tests/samplecontroller`, a
//! program on client-go that is not ours.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;

use crate::process;
use crate::tools::Tool;

/// Time limit of a build, which may compile client-go.
const BUILD: Duration = Duration::from_secs(900);

/// `go COMMAND` in the module `tests/clientgo`, with the flags of tests/controlplane/build.sh. With other flags Go would compile
/// client-go again.
///
/// # Errors
/// When Go is missing.
pub fn command(command: &str) -> anyhow::Result<Command> {
    command_in("clientgo", command)
}

fn command_in(module: &str, command: &str) -> anyhow::Result<Command> {
    Tool::Go.require()?;
    let mut go = Command::new("go");
    go.args([command, "-trimpath", "-buildvcs=false", "-mod=readonly"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(module))
        .env("CGO_ENABLED", "0");
    for variable in ["GOFLAGS", "GOOS", "GOARCH", "GOEXPERIMENT", "GODEBUG"] {
        go.env_remove(variable);
    }
    Ok(go)
}

/// Builds a program of `tests/clientgo`, such as `./elector`.
///
/// # Errors
/// When Go is missing or the build fails; the message contains the output of the compiler.
pub fn build(package: &str, program: &Path) -> anyhow::Result<()> {
    build_in("clientgo", package, program)
}

/// Builds the unmodified k8s.io/sample-controller.
///
/// # Errors
/// As [`build`].
pub fn build_sample_controller(program: &Path) -> anyhow::Result<()> {
    build_in("samplecontroller", "k8s.io/sample-controller", program)
}

fn build_in(module: &str, package: &str, program: &Path) -> anyhow::Result<()> {
    let mut go = command_in(module, "build")?;
    let finished = process::run(go.arg("-o").arg(program).arg(package), "", BUILD)?;
    ensure!(finished.status.success(), "{}\n{}", finished.status, finished.stderr);
    Ok(())
}
