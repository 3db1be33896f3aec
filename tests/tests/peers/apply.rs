//! Server-side apply beside the real libraries: random schemas, built-in kinds and sequences of writers. What the
//! libraries make of them is written by `tests/controlplane/fieldmanager` and replayed by the unit test of the development server,
//! whose parts are not public.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use pilothouse_tests::tools::Tool;
use pilothouse_tests::{or_skip, process};

const CASES: &str = "3000";
/// The program has no more of Kubernetes than the types of the built-in kinds, which may have to be compiled.
const BUILD: Duration = Duration::from_secs(900);
const PATIENCE: Duration = Duration::from_secs(300);

/// Builds the oracle with the flags of tests/controlplane/build.sh.
fn build(program: &Path) -> Result<()> {
    let mut go = Command::new("go");
    go.args(["build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-o"])
        .arg(program)
        .arg("./fieldmanager")
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/controlplane"))
        .env("CGO_ENABLED", "0");
    for variable in ["GOFLAGS", "GOOS", "GOARCH", "GOEXPERIMENT", "GODEBUG"] {
        go.env_remove(variable);
    }
    let finished = process::run(&mut go, "", BUILD)?;
    ensure!(finished.status.success(), "{}\n{}", finished.status, finished.stderr);
    Ok(())
}

fn compare(seed: u64) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (program, vectors) = (dir.path().join("fieldmanager"), dir.path().join("vectors.json"));
    build(&program)?;
    let mut oracle = Command::new(program);
    let cases = process::run(oracle.args(["--seed", &seed.to_string(), "--cases", CASES]), "", PATIENCE)?;
    ensure!(cases.status.success(), "{}\n{}", cases.status, cases.stderr);
    std::fs::write(&vectors, &cases.stdout).context("the cases")?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["test", "--locked", "-p", "pilothouse-devserver", "--lib", "apply::tests::vectors"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .env("APPLY_VECTORS", vectors);
    let replayed = process::run(&mut cargo, "", BUILD)?;
    ensure!(replayed.status.success(), "{}\n{}\n{}", replayed.status, replayed.stdout, replayed.stderr);
    // A filter that finds no test succeeds too.
    ensure!(replayed.stdout.contains("test result: ok. 1 passed"), "{}", replayed.stdout);
    Ok(())
}

#[test]
fn random_writers_own_the_same_fields_as_with_the_real_libraries() -> Result<()> {
    or_skip!(Tool::Go.require());
    let seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    compare(seed).with_context(|| format!("fieldmanager --seed {seed} --cases {CASES}"))
}
