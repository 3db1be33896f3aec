//! The commands of the `pilothouse` binary: parses the command line and hands over to one file for each command.
//!
//! A library, so that Cargo compiles it beside the code generation of the crates that it uses; a binary waits for all of it.

mod admin_client;
mod clusters;
mod compile;
mod completions;
#[cfg(all(test, feature = "dev"))]
mod documents;
mod events;
mod keeping;
#[cfg(test)]
mod log_events;
mod log_fields;
mod missing_features;
#[cfg(feature = "oci")]
mod oci;
mod replay;
mod run;
mod status;
mod table;
mod top;
#[cfg(feature = "traces")]
mod traces;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

#[cfg(feature = "dev")]
const EXAMPLES: &str = "Examples:
  # A new plugin, and its development without a cluster
  pilothouse new greeter && cd greeter
  pilothouse dev

  # Its tests, on the component
  pilothouse test

  # What a component asks for and costs
  pilothouse check plugins/pods_per_node.wasm

  # Run the plugins of a directory on the cluster of the current context, and look at them
  pilothouse run --plugins plugins
  pilothouse status

Each command has examples of its own: pilothouse COMMAND --help";

#[cfg(not(feature = "dev"))]
const EXAMPLES: &str = "Examples:
  # Run the plugins of a directory on the cluster of the current context, and look at them
  pilothouse run --plugins plugins
  pilothouse status

Each command has examples of its own: pilothouse COMMAND --help";

/// Runs Kubernetes controllers as sandboxed WebAssembly plugins, all in one process.
#[derive(Parser)]
#[command(name = "pilothouse", version, propagate_version = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[cfg(feature = "dev")]
    /// Develop plugins: in-memory API server, build from source, reload on every change.
    Dev(pilothouse_dev::Dev),
    #[cfg(feature = "dev")]
    /// Make a folder with a new plugin.
    New(pilothouse_dev::New),
    #[cfg(feature = "dev")]
    /// Build the component of a plugin crate.
    Build(pilothouse_dev::Build),
    #[cfg(feature = "dev")]
    /// Check a component: what it is, what it asks for, what it costs, and whether a host takes it.
    Check(pilothouse_dev::Check),
    #[cfg(feature = "dev")]
    /// Test a plugin with objects and expected results in YAML files.
    Test(pilothouse_dev::Test),
    #[cfg(feature = "dev")]
    /// Print the CustomResourceDefinitions of a component, or that of Plugins.
    Crd(pilothouse_dev::Crd),
    /// Connect to a cluster and run the plugins of a directory, or of the cluster itself.
    Run(Box<run::Run>),
    /// Show Kubernetes Events of plugins, and Events of hosts about plugins.
    Events(events::Events),
    /// Show the status of the plugins of a running host.
    Status(status::Status),
    /// Show what the plugins of a running host do and use: rates, durations, CPU time, memory, queues.
    Top(top::Top),
    /// Compile components into the compile cache, before a host starts.
    Compile(compile::Compile),
    /// Run the recorded calls of a plugin again, against a component, and show the first difference.
    Replay(replay::Replay),
    #[cfg(feature = "oci")]
    /// Fetch a component from an OCI registry, for a plugin directory.
    Pull(oci::pull::Pull),
    #[cfg(feature = "dev")]
    /// Print the least RBAC permissions of a host that runs the plugins of a directory.
    Rbac(pilothouse_dev::Rbac),
    /// Print a script with which a shell completes commands and flags.
    Completions(completions::Completions),
    /// Compile one component, in a process of its own (started by the host).
    #[command(name = pilothouse_hosting::worker::COMMAND, hide = true)]
    Worker(pilothouse_hosting::worker::Worker),
}

fn parse() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| missing_features::explain(error).exit())
}

/// Runs the command of the process's command line; a failure is on standard error.
#[must_use]
pub fn main() -> ExitCode {
    let outcome = match parse().command {
        #[cfg(feature = "dev")]
        Command::Dev(dev) => dev.main(),
        #[cfg(feature = "dev")]
        Command::New(new) => new.main(),
        #[cfg(feature = "dev")]
        Command::Build(build) => build.main(),
        #[cfg(feature = "dev")]
        Command::Crd(crd) => crd.main(),
        #[cfg(feature = "dev")]
        Command::Check(check) => check.main(),
        #[cfg(feature = "dev")]
        Command::Test(test) => test.main(),
        Command::Events(events) => events.main(),
        Command::Run(run) => run.main(),
        Command::Status(status) => status.main(),
        Command::Top(top) => top.main(),
        Command::Compile(compile) => compile.main(),
        #[cfg(feature = "oci")]
        Command::Pull(pull) => pull.main(),
        #[cfg(feature = "dev")]
        Command::Rbac(rbac) => rbac.main(),
        Command::Completions(completions) => completions.main(&Cli::command()),
        Command::Replay(replay) => return replay.main(),
        Command::Worker(worker) => return worker.main(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            pilothouse_hosting::output::complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
