//! `pilothouse run --record` and `pilothouse replay`: what a plugin did on a cluster is in a file without values of Secrets, and
//! runs again without the cluster.
//!
//! The guest `courier` carries the password of each Secret into its log, another Secret, a ConfigMap and a patch.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::plugins::{self, Manifest, marked};
use pilothouse_tests::process::Finished;
use pilothouse_tests::{ControlPlane, Signal, Stage, cli, guests, loglines};
use serde_json::{Value, json};

pilothouse_tests::on_both_servers!(
    calls_of_two_generations_are_replayed_without_a_cluster,
    a_recording_ends_at_its_bound_and_the_plugin_goes_on,
);

const PASSWORDS: [&str; 4] =
    ["first-pass/word", "second \"password\"", "third-pässword", "fourth-password-of-all"];

/// A host that records, with a courier and four Secrets.
fn stage(server: Server, namespace: &'static str, file: &Path, args: &[&str]) -> Result<Stage> {
    let plane = ControlPlane::shared(server)?;
    let mut options = HostOptions::new(plane.kubeconfig());
    options.args = vec!["--record".to_owned(), file.display().to_string()];
    options.args.extend(args.iter().map(|arg| (*arg).to_owned()));
    let stage = Stage::with(plane, namespace, options)?;
    for (number, password) in PASSWORDS.into_iter().enumerate() {
        stage.cluster.create(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace, "name": format!("s{number}")},
            "stringData": {"password": password},
        }))?;
    }
    let verbs = ["get", "list", "watch", "create", "patch"];
    let manifest = Manifest::new(namespace).grant(&["secrets", "configmaps"], &verbs, &[namespace]);
    stage.install(namespace, "courier", &manifest)?;
    Ok(stage)
}

/// Waits until a generation has delivered all passwords.
fn wait_delivered(stage: &Stage, generation: u64) -> Result<()> {
    let delivered = || {
        let lines = loglines::said(&stage.host, stage.namespace, "courier delivered");
        let of = |line: &&loglines::Line| line.generation == Some(generation);
        let keys: std::collections::BTreeSet<_> =
            lines.iter().filter(of).map(|line| line.key.clone()).collect();
        keys.len() == PASSWORDS.len()
    };
    stage.host.wait_for(&format!("generation {generation} to deliver"), SOON, delivered)
}

/// Ends the host, and returns what the recording kept and left out.
fn end(stage: &Stage) -> Result<(u64, u64)> {
    stage.host.signal(Signal::TERM)?;
    ensure!(stage.host.wait_exit(Duration::from_secs(30))?.success());
    let closed = stage.host.log().matching("recording_closed");
    ensure!(closed.len() == 1, "{closed:?}");
    let closed: Value = serde_json::from_str(&closed[0])?;
    let count = |name: &str| closed[name].as_u64().with_context(|| format!("no {name} in {closed}"));
    Ok((count("kept")?, count("left_out")?))
}

fn replay(dir: &Path, args: &[&str]) -> Result<Finished> {
    cli::run(dir, &[&["replay"], args].concat())
}

fn calls_of_two_generations_are_replayed_without_a_cluster(server: Server) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("calls.jsonl");
    let name = "replayed-calls";
    let stage = stage(server, name, &file, &["--plugin", name])?;
    wait_delivered(&stage, 1)?;
    // A reload in the middle.
    let component = guests::wasm("courier")?;
    let newer = dir.path().join("newer.wasm");
    fs::write(&newer, marked(&component, "newer")?)?;
    stage.host.install(name, &newer, None)?;
    plugins::wait_until(&stage.host, name, "on generation 2", |status| status.generation == 2)?;
    wait_delivered(&stage, 2)?;
    let (kept, left_out) = end(&stage)?;
    ensure!(kept > 10 && left_out == 0, "{kept} {left_out}");

    let text = fs::read_to_string(&file)?;
    ensure!(fs::metadata(&file)?.permissions().mode() & 0o777 == 0o600);
    for password in PASSWORDS {
        use base64::Engine as _;
        let encoded = base64::engine::general_purpose::STANDARD.encode(password);
        let quoted = serde_json::to_string(password)?;
        for form in [password, &encoded, quoted.trim_matches('"'), &format!("{password:?}")] {
            ensure!(!text.contains(form), "the recording has {form}");
        }
    }
    let component = component.display().to_string();
    let same = replay(dir.path(), &["calls.jsonl", &component])?;
    ensure!(same.status.success(), "{same:?}");
    ensure!(same.stdout.starts_with(&format!("{kept} calls of ")), "{}", same.stdout);
    ensure!(same.stdout.contains("all are the same"), "{}", same.stdout);

    // Another build, as far as this guest can be another one: it says something else.
    let (from, to) = (b"courier delivered", b"courier delayed!!");
    let mut other = fs::read(&component)?;
    let at = other.windows(from.len()).position(|window| window == from);
    ensure!(at.is_some(), "the component has no such text");
    other.splice(at.unwrap_or_default()..at.unwrap_or_default() + to.len(), to.iter().copied());
    fs::write(dir.path().join("other.wasm"), other)?;
    let different = replay(dir.path(), &["calls.jsonl", "other.wasm"])?;
    ensure!(different.status.code() == Some(1), "{different:?}");
    for line in [
        "-   \"message\": \"courier delivered\"",
        "+   \"message\": \"courier delayed!!\"",
        "reconcile replayed-calls/s",
    ] {
        ensure!(different.stdout.contains(line), "no {line:?} in {}", different.stdout);
    }
    let ignored = replay(dir.path(), &["calls.jsonl", "other.wasm", "--ignore-logs"])?;
    ensure!(ignored.status.success(), "{ignored:?}");

    let unknown = replay(dir.path(), &["calls.jsonl", "other.wasm", "--plugin", "that"])?;
    ensure!(
        unknown.status.code() == Some(2) && unknown.stderr.contains("it has replayed-calls"),
        "{unknown:?}"
    );
    let none = replay(dir.path(), &["other.wasm", "other.wasm"])?;
    ensure!(none.status.code() == Some(2) && none.stderr.contains("it is no recording"), "{none:?}");
    Ok(())
}

fn a_recording_ends_at_its_bound_and_the_plugin_goes_on(server: Server) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("calls.jsonl");
    let stage = stage(server, "bounded", &file, &["--record-max", "24Ki"])?;
    wait_delivered(&stage, 1)?;
    stage.host.wait_for("the recording to end", SOON, || {
        !loglines::events(&stage.host, "recording_ended").is_empty()
    })?;
    let (kept, left_out) = end(&stage)?;
    ensure!(kept > 0 && left_out > 0, "{kept} {left_out}");
    ensure!(fs::metadata(&file)?.len() <= 24 << 10);
    let component = guests::wasm("courier")?.display().to_string();
    let same = replay(dir.path(), &["calls.jsonl", &component])?;
    ensure!(same.status.success(), "{same:?}");
    ensure!(
        same.stdout.contains("The recording is not whole: it reached 24576 bytes (--record-max)"),
        "{same:?}"
    );
    Ok(())
}
