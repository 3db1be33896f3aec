//! `pilothouse build`: from a crate to a component where it is wanted.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use pilothouse_testkit::paths;
use pilothouse_tests::process::{self, Finished};
use pilothouse_tests::{cli, dev};

/// A cold build of the SDK and its dependencies, beside other suites.
const BUILD: Duration = Duration::from_secs(600);

fn build(dir: &Path, args: &[&str]) -> Result<Finished> {
    process::run(&mut cli::command(dir, &[&["build"], args].concat())?, "", BUILD)
}

#[test]
fn a_crate_is_built_beside_its_manifest_or_into_a_plugin_directory() -> Result<()> {
    let dir = tempfile::Builder::new().prefix("build-").tempdir()?;
    let dir = dir.path();
    dev::share_target(dir)?;
    let guest = dir.join("guests/deployment-watcher");
    dev::copy_example("deployment-watcher", &guest)?;
    let built = build(dir, &["guests/deployment-watcher"])?;
    ensure!(built.status.success(), "{built:?}");
    let component = guest.join("deployment_watcher.wasm");
    let size = fs::metadata(&component)?.len();
    #[allow(clippy::cast_precision_loss, reason = "it is small")]
    let wanted =
        format!("guests/deployment-watcher/deployment_watcher.wasm: {:.1} KiB, ", size as f64 / 1024.0);
    ensure!(built.stdout.starts_with(&wanted) && built.stdout.lines().count() == 1, "{built:?}");
    // It is what the manifest beside it names.
    let checked = cli::run(dir, &["check", "guests/deployment-watcher/deployment-watcher.yaml"])?;
    ensure!(checked.status.success() && !checked.stdout.contains("warning:"), "{checked:?}");

    // A plugin directory gets the manifest as well. The one crate of a folder need not be named.
    let built = build(dir, &["guests", "--out", "plugins"])?;
    ensure!(built.status.success() && built.stdout.contains("up to date after"), "{built:?}");
    let mut names: Vec<_> =
        fs::read_dir(dir.join("plugins"))?.flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    ensure!(names == ["deployment-watcher.yaml", "deployment_watcher.wasm"], "{names:?}");
    ensure!(fs::read(dir.join("plugins/deployment_watcher.wasm"))? == fs::read(&component)?);

    // What does not compile ends it, with the compiler's words; what was there stays.
    let source = guest.join("src/lib.rs");
    fs::write(&source, fs::read_to_string(&source)? + "\nfn broken() { missing }\n")?;
    let built = build(dir, &["guests", "--out", "plugins"])?;
    ensure!(built.status.code() == Some(1) && built.stdout.is_empty(), "{built:?}");
    ensure!(built.stderr.contains("cannot find value `missing` in this scope"), "{}", built.stderr);
    ensure!(
        built.stderr.lines().last().is_some_and(|line| line.contains("no component was built")),
        "{built:?}"
    );
    ensure!(fs::read(dir.join("plugins/deployment_watcher.wasm"))? == fs::read(&component)?);
    Ok(())
}

/// Measured: 181,585 bytes, 5 KB of them for `serde_json::Value`. The aim of 150 KB is missed (docs/benchmarks.md).
const TYPED_WRITER: usize = 183_000;

#[test]
fn a_typed_controller_that_writes_is_small_and_has_no_names_of_its_parts() -> Result<()> {
    let dir = tempfile::Builder::new().prefix("build-").tempdir()?;
    let dir = dir.path();
    dev::share_target(dir)?;
    let fixture = paths::repository().join("guests/fixtures/typed-writer");
    let built = build(dir, &[fixture.to_str().context("a path in UTF-8")?, "--out", "plugins"])?;
    ensure!(built.status.success(), "{built:?}");
    let component = fs::read(dir.join("plugins/typed_writer.wasm"))?;
    ensure!(component.len() <= TYPED_WRITER, "{} bytes", component.len());
    let names = b"component-name";
    ensure!(!component.windows(names.len()).any(|window| window == names));
    // It is as good as before: the host makes machine code of it, and it describes itself.
    let checked = cli::run(dir, &["check", "plugins/typed_writer.wasm"])?;
    ensure!(checked.stdout.contains("asks for:"), "{checked:?}");
    Ok(())
}

#[test]
fn what_is_not_one_crate_is_refused() -> Result<()> {
    let dir = tempfile::Builder::new().prefix("build-").tempdir()?;
    let dir = dir.path();
    for name in ["a", "b"] {
        fs::create_dir_all(dir.join(name).join("src"))?;
        let toml = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\n[lib]\ncrate-type = [\"cdylib\"]\n[workspace]\n"
        );
        fs::write(dir.join(name).join("Cargo.toml"), toml)?;
        fs::write(dir.join(name).join("src/lib.rs"), "")?;
    }
    fs::create_dir(dir.join("empty"))?;
    fs::create_dir(dir.join("built"))?;
    fs::write(dir.join("built/p.wasm"), "")?;
    for (path, wanted) in [
        (".", "holds several plugins: "),
        ("empty", "no plugin found in empty"),
        ("nowhere", "cannot look for plugins in nowhere"),
        ("built/p.wasm", "is a component already"),
    ] {
        let built = build(dir, &[path])?;
        ensure!(built.status.code() == Some(1) && built.stderr.contains(wanted), "{path}: {built:?}");
    }
    Ok(())
}
