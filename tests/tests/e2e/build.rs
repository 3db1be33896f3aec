//! `pilothouse build`: from a crate to a component where it is wanted.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use pilothouse_testkit::paths;
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::process::{self, Finished};
use pilothouse_tests::{Cluster, ControlPlane, Host, cli, dev, loglines};
use serde_json::{Value, json};

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

fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "no-wasi", "name": name},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "web:1"}]},
            },
        },
    })
}

#[test]
fn without_wasi_a_plugin_works_its_panics_are_logged_and_what_needs_wasi_is_refused() -> Result<()> {
    let dir = tempfile::Builder::new().prefix("build-").tempdir()?;
    let dir = dir.path();
    dev::share_target(dir)?;
    let guest = dir.join("guests/deployment-watcher");
    dev::copy_example("deployment-watcher", &guest)?;
    let source = guest.join("src/lib.rs");
    let text = fs::read_to_string(&source)?;
    let place = "let name = if event.is_initial";
    ensure!(text.matches(place).count() == 1, "{place:?} is not in {text}");
    let with = |line: &str| fs::write(&source, text.replace(place, &format!("{line}\n        {place}")));

    with("assert!(event.key.name != \"panic\", \"told to panic\");")?;
    let args = ["guests", "--no-wasi", "--out", "plugins"];
    let built = build(dir, &args)?;
    ensure!(built.status.success() && built.stdout.lines().count() == 1, "{built:?}");
    let checked = cli::run(dir, &["check", "plugins/deployment-watcher.yaml"])?;
    ensure!(checked.status.success() && checked.stdout.contains("\nWASI:           none"), "{checked:?}");

    let plane = ControlPlane::shared(Server::Development)?;
    let cluster = Cluster::of(plane)?;
    cluster.namespace("no-wasi")?;
    cluster.create(&deployment("web"))?;
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    let component = dir.join("plugins/deployment_watcher.wasm");
    let manifest = fs::read_to_string(dir.join("plugins/deployment-watcher.yaml"))?;
    host.install("deployment_watcher", &component, Some(&manifest))?;
    let hear = |what: &str, wanted: &dyn Fn(&loglines::Line) -> bool| {
        host.wait_for(what, SOON, || {
            let lines = loglines::of_plugin(&host, "deployment-watcher");
            lines.iter().any(|line| line.target == "guest" && wanted(line))
        })
    };
    hear("a line about a Deployment", &|line| line.message.starts_with("found no-wasi/web: replicas 2"))?;
    cluster.create(&deployment("panic"))?;
    hear("the panic, its place, and its key", &|line| {
        let place = line.message.strip_prefix("panicked at src/lib.rs:");
        line.level == "ERROR"
            && line.key == "no-wasi/panic"
            && place.is_some_and(|place| place.ends_with(": told to panic"))
    })?;

    let before = fs::read(&component)?;
    with(
        // The clock last: what follows a call that always panics is not in the component.
        "http::Request::get(\"http://a.example\").send(ctx)?; println!(); let _ = std::time::Instant::now();",
    )?;
    let built = build(dir, &args)?;
    ensure!(built.status.code() == Some(1) && built.stdout.is_empty(), "{built:?}");
    for wanted in [
        "guests/deployment-watcher: the component needs WASI: it imports wasi:",
        "wasi:http/outgoing-handler@0.2.",
        "(wasi:clocks)",
        "(wasi:cli)",
        "; or build it without --no-wasi",
    ] {
        ensure!(built.stderr.contains(wanted), "no {wanted:?} in {}", built.stderr);
    }
    ensure!(fs::read(&component)? == before, "the component before stays");
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
