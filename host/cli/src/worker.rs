//! The hidden command that compiles one component: the host starts itself again with it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

/// Name of the command.
pub(crate) const COMMAND: &str = "__compile";

#[derive(Args)]
pub(crate) struct Compile {
    /// Component to read.
    input: PathBuf,
    /// File to write.
    output: PathBuf,
}

impl Compile {
    pub(crate) fn main(&self) -> ExitCode {
        match pilothouse_engine::compile_worker(&self.input, &self.output) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let text = format!("{}\n", error.to_worker_output());
                let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
                ExitCode::FAILURE
            }
        }
    }
}
