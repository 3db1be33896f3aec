//! The hidden command that compiles one component: the host starts itself again with it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pilothouse_engine::Compiler;

/// Name of the command.
pub(crate) const COMMAND: &str = "__compile";

/// Compiles in processes of this program's own.
pub(crate) fn compiler() -> Compiler {
    // Also when the file was replaced since the start.
    Compiler::Worker { program: PathBuf::from("/proc/self/exe"), args: vec![COMMAND.to_owned()] }
}

#[derive(Args)]
pub(crate) struct Worker {}

impl Worker {
    pub(crate) fn main(&self) -> ExitCode {
        pilothouse_engine::compile_worker()
    }
}
