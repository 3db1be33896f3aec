//! The hidden command that compiles one component: the host starts itself again with it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pilothouse_engine::Compiler;

/// Name of the command.
pub const COMMAND: &str = "__compile";

/// Compiles in processes of this program's own.
pub fn compiler() -> Compiler {
    Compiler::Worker { program: own_program(), args: vec![COMMAND.to_owned()] }
}

/// The running program, also when its file was replaced since the start.
#[cfg(target_os = "linux")]
fn own_program() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

/// The file of the running program; where the system does not tell, that on the PATH.
#[cfg(not(target_os = "linux"))]
fn own_program() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| PathBuf::from("pilothouse"))
}

/// The hidden command.
#[derive(Args)]
pub struct Worker {}

impl Worker {
    /// Compiles the component on standard input.
    #[must_use]
    pub fn main(&self) -> ExitCode {
        pilothouse_engine::compile_worker()
    }
}
