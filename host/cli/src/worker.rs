//! The hidden command that compiles one component: the host starts itself again with it.

use std::process::ExitCode;

use clap::Args;

/// Name of the command.
pub(crate) const COMMAND: &str = "__compile";

#[derive(Args)]
pub(crate) struct Compile {}

impl Compile {
    pub(crate) fn main(&self) -> ExitCode {
        pilothouse_engine::compile_worker()
    }
}
