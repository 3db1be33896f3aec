//! client-go beside ours: the module `tests/clientgo`, its commands and programs.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;

use crate::process;
use crate::tools::Tool;

/// client-go may have to be compiled.
const BUILD: Duration = Duration::from_secs(900);

/// `go COMMAND` in the module, with the flags of tests/controlplane/build.sh: another set would compile client-go once more.
///
/// # Errors
/// When there is no Go.
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

/// Builds one of the module's programs, as `./elector`.
///
/// # Errors
/// What the compiler said, or that there is none.
pub fn build(package: &str, program: &Path) -> anyhow::Result<()> {
    let mut go = command("build")?;
    let finished = process::run(go.arg("-o").arg(program).arg(package), "", BUILD)?;
    ensure!(finished.status.success(), "{}\n{}", finished.status, finished.stderr);
    Ok(())
}
