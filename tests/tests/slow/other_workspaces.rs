//! Tests that `cargo test --workspace` leaves out: those of the workspaces that Cargo excludes (the guests' SDK, the examples), and
//! those behind a feature (interleavings) or of an optimised build (instructions). Each is a Cargo of its own with a target folder
//! of its own; what it counted is printed, and when it fails all that it said.
//!
//! `PILOTHOUSE_FULL=1` tries more schedules, `SHUTTLE_ITERATIONS` as many as it says.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::cargo::{self, Build};
use pilothouse_testkit::tools::Tool;
use pilothouse_testkit::{guests, paths};
use pilothouse_tests::{full, or_skip};

/// Schedules of each interleaving at full length.
const SCHEDULES: &str = "20000";
/// The same in the gate: some seconds.
const SAMPLE: &str = "2000";

/// The lines of a run by which Cargo's tests say what came of them.
fn summaries(output: &str) -> Vec<&str> {
    output.lines().filter(|line| line.starts_with("test result: ")).collect()
}

/// How many tests a summary says have passed.
fn passed(summary: &str) -> Option<u64> {
    summary.split_once(". ")?.1.split_once(" passed")?.0.parse().ok()
}

/// Runs a command of Cargo and returns what it printed.
fn run(name: &str, command: &mut Command) -> Result<String> {
    let output = command.output().context("starting cargo")?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{name}: {command:?} failed:\n{err}\n{out}");
    Ok(out.into_owned())
}

/// Runs tests and prints their summaries; a run of no test at all is an error.
fn test(name: &str, command: &mut Command) -> Result<()> {
    let output = run(name, command)?;
    let summaries = summaries(&output);
    let ran: u64 = summaries.iter().filter_map(|summary| passed(summary)).sum();
    ensure!(ran > 0, "{name}: no test ran:\n{output}");
    say(name, &summaries)
}

/// Prints lines, also of a test that passes.
fn say(name: &str, lines: &[&str]) -> Result<()> {
    let lines: String = lines.iter().map(|line| format!("{name}: {line}\n")).collect();
    Ok(io::stderr().write_all(lines.as_bytes())?)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("the repository's path is not UTF-8")
}

/// The tests of one excluded workspace, natively.
fn workspace(manifest: &Path, packages: &[&str]) -> Result<()> {
    let name = manifest.parent().and_then(Path::file_name).context("a workspace")?.to_string_lossy();
    let args = [&["test", "--locked", "--manifest-path", text(manifest)?], packages].concat();
    test(&name, &mut cargo::command(Build::Guest, &args, &paths::target().join("other-workspaces")))
}

#[test]
fn the_sdk_passes_its_tests() -> Result<()> {
    let manifest = paths::repository().join("guests/Cargo.toml");
    workspace(&manifest, &["-p", "pilothouse-sdk", "-p", "pilothouse-sdk-macros", "-p", "custom-resource"])
}

/// At full length only: k8s-openapi takes a minute to build.
#[test]
fn the_types_of_kube_rs_are_resources() -> Result<()> {
    if !full::is_full() {
        return Ok(());
    }
    workspace(&paths::repository().join("guests/kube/Cargo.toml"), &[])
}

#[test]
fn the_examples_pass_their_tests() -> Result<()> {
    let examples = paths::repository().join("examples");
    let mut manifests = guests::workspaces(paths::repository())?;
    manifests.retain(|manifest| manifest.starts_with(&examples));
    ensure!(manifests.len() > 1, "only {manifests:?} are examples");
    manifests.iter().try_for_each(|manifest| workspace(manifest, &[]))
}

/// A Cargo command on this workspace with a target folder of its own.
fn native(args: &[&str], target: &str) -> Result<Command> {
    let manifest = paths::repository().join("Cargo.toml");
    let manifest = ["--manifest-path", text(&manifest)?];
    Ok(cargo::command(
        Build::Native,
        &[&args[..1], &manifest, &args[1..]].concat(),
        &paths::target().join(target),
    ))
}

#[test]
fn interleavings_are_right() -> Result<()> {
    let schedules =
        std::env::var("SHUTTLE_ITERATIONS").unwrap_or_else(|_| full::or_sample(SCHEDULES, SAMPLE).to_owned());
    for package in ["pilothouse-cache", "pilothouse-executor", "pilothouse-workqueue"] {
        let args = ["test", "-p", package, "--features", "shuttle", "--test", "interleavings"];
        let mut command = native(&args, "interleavings")?;
        test(&format!("interleavings of {package}"), command.env("SHUTTLE_ITERATIONS", &schedules))?;
    }
    Ok(())
}

#[test]
fn an_operation_of_the_work_queue_takes_no_more_instructions_than_recorded() -> Result<()> {
    or_skip(|| {
        Tool::Valgrind.require()?;
        let args =
            ["bench", "-p", "pilothouse-workqueue", "--features", "valgrind", "--bench", "instructions"];
        let output = run("instructions", &mut native(&args, "instructions")?)?;
        ensure!(!output.to_lowercase().contains("skipped"), "nothing was counted:\n{output}");
        say("instructions", &output.lines().collect::<Vec<_>>())
    })
}

#[test]
fn what_a_run_says_is_read() {
    let output = "running 2 tests\ntest result: ok. 2 passed; 0 failed; 1 ignored\nelse\ntest result: ok. 0 passed; 0 failed";
    let summaries = summaries(output);
    assert_eq!(summaries.iter().filter_map(|line| passed(line)).collect::<Vec<_>>(), [2, 0]);
}
