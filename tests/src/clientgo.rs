//! Commands and programs of the Go module `tests/clientgo`, for comparison with client-go.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;

use crate::process;
use crate::tools::Tool;

/// Time limit of a build, which may compile client-go.
const BUILD: Duration = Duration::from_secs(900);

/// `go COMMAND` in the module, with the flags of tests/controlplane/build.sh. With other flags Go would compile
/// client-go again.
///
/// # Errors
/// When Go is missing.
pub fn command(command: &str) -> anyhow::Result<Command> {
    Tool::Go.require()?;
    let mut go = Command::new("go");
    go.args([command, "-trimpath", "-buildvcs=false", "-mod=readonly"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/clientgo"))
        .env("CGO_ENABLED", "0");
    for variable in ["GOFLAGS", "GOOS", "GOARCH", "GOEXPERIMENT", "GODEBUG"] {
        go.env_remove(variable);
    }
    Ok(go)
}

/// Builds a program of the module, such as `./elector`.
///
/// # Errors
/// When Go is missing or the build fails; the message contains the output of the compiler.
pub fn build(package: &str, program: &Path) -> anyhow::Result<()> {
    let mut go = command("build")?;
    let finished = process::run(go.arg("-o").arg(program).arg(package), "", BUILD)?;
    ensure!(finished.status.success(), "{}\n{}", finished.status, finished.stderr);
    Ok(())
}
