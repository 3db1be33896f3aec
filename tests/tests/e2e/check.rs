//! `pilothouse check`: what it says of components, and that a host agrees.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::poll::{self, SOON};
use pilothouse_tests::process::{Finished, Process};
use pilothouse_tests::{ControlPlane, Host, Signal, cli, guests, plugins};
use serde_json::Value;

/// A folder with a component, and a manifest unless it is empty.
fn folder(guest: &str, manifest: &str) -> Result<tempfile::TempDir> {
    let dir = tempfile::Builder::new().prefix("check-").tempdir()?;
    fs::copy(guests::wasm(guest)?, dir.path().join("p.wasm"))?;
    if !manifest.is_empty() {
        fs::write(dir.path().join("p.yaml"), manifest)?;
    }
    Ok(dir)
}

fn check(dir: &Path, args: &[&str]) -> Result<Finished> {
    cli::run(dir, &[&["check"], args].concat())
}

fn example(name: &str) -> Result<String> {
    let path = format!("examples/{name}/{name}.yaml");
    let text = fs::read_to_string(pilothouse_testkit::paths::repository().join(path))?;
    Ok(text.replace(&format!("{}.wasm", name.replace('-', "_")), "p.wasm"))
}

#[test]
fn a_component_is_described_with_what_it_asks_for_and_what_it_costs() -> Result<()> {
    let dir = folder("pods_per_node", &example("pods-per-node")?)?;
    let checked = check(dir.path(), &["p.wasm"])?;
    ensure!(checked.status.success() && checked.stderr.is_empty(), "{checked:?}");
    for line in [
        "contract:       0.2.1, world reconciler",
        "exports:        descriptor, reconcile",
        "import:         client: live calls",
        "component:      p.wasm, ",
        "plugin:         pods-per-node, manifest p.yaml",
        "watch:          v1/Pod, to the keys at /spec/nodeName",
        "index:          by-node of v1/Pod: /spec/nodeName",
        "asks for:       get, list, watch nodes, pods (core) in all namespaces",
        "wake:           ",
    ] {
        ensure!(checked.stdout.contains(line), "no {line:?} in {}", checked.stdout);
    }
    ensure!(!checked.stdout.contains("warning:"), "{}", checked.stdout);

    let checked = check(dir.path(), &["p.yaml", "-o", "json"])?;
    let report: Value = serde_json::from_str(&checked.stdout)?;
    ensure!(report["world"] == "reconciler" && report["contract"] == "0.2.1", "{report}");
    ensure!(report["description"]["name"] == "pods-per-node", "{report}");
    for field in ["componentBytes", "machineCodeBytes", "compileSeconds"] {
        ensure!(report[field].as_f64().is_some_and(|number| number > 0.0), "{field} of {report}");
    }
    ensure!(report["wake"]["medianSeconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{report}");
    ensure!(report.get("refused").is_none() && report["warnings"] == serde_json::json!([]), "{report}");
    // Nothing is left of it: its machine code is in no cache.
    ensure!(!dir.path().join("cache").exists());
    Ok(())
}

#[test]
fn the_manifest_that_it_prints_lets_a_host_run_the_plugin() -> Result<()> {
    let plane = ControlPlane::shared(Server::Development)?;
    for guest in ["pods_per_node", "deployment_watcher"] {
        let dir = folder(guest, "")?;
        let wasm = dir.path().join("p.wasm");
        let bare = check(dir.path(), &["p.wasm"])?;
        ensure!(bare.status.success() && bare.stdout.contains("warning:        no manifest"), "{bare:?}");
        let printed = check(dir.path(), &["p.wasm", "--manifest"])?;
        ensure!(printed.status.success() && printed.stderr.is_empty(), "{printed:?}");
        ensure!(printed.stdout.starts_with("apiVersion: pilothouse.dev/"), "{}", printed.stdout);
        let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
        host.install("p", &wasm, Some(&printed.stdout))?;
        let running = plugins::wait_running(&host, "p")?;
        ensure!(running.warnings.is_empty(), "{running:?}");
        // And the check agrees, once it is there.
        fs::write(dir.path().join("p.yaml"), &printed.stdout)?;
        let checked = check(dir.path(), &["p.wasm"])?;
        ensure!(checked.status.success() && !checked.stdout.contains("warning:"), "{checked:?}");
    }
    Ok(())
}

#[test]
fn what_a_host_refuses_is_refused_with_the_same_reason() -> Result<()> {
    let plane = ControlPlane::shared(Server::Development)?;
    let head = "apiVersion: pilothouse.dev/v1alpha1\nkind: Plugin\nmetadata: {name: p}\nspec:\n";
    let none = format!("{head}  config: {{namespace: a}}\n");
    let digest = format!("{head}  source: {{digest: \"sha256:{}\"}}\n", "0".repeat(64));
    let refuses = format!("{head}  config: {{namespace: 7}}\n");
    let (mut agreed, cases) = (
        0,
        [
            ("other_world", "", "a component of another world"),
            ("future", "", "imports that this host does not provide"),
            // Nothing is granted that it watches.
            ("pods_per_node", &*none, "no permission to list"),
            ("pods_per_node", &*refuses, "describe refused its configuration"),
            ("noop", &*digest, "spec.source.digest demands"),
        ],
    );
    for (guest, manifest, wanted) in cases {
        let dir = folder(guest, manifest)?;
        let checked = check(dir.path(), &["p.wasm"])?;
        ensure!(checked.status.code() == Some(1) && checked.stderr.contains(wanted), "{guest}: {checked:?}");
        ensure!(checked.stdout.contains("component:      p.wasm"), "{checked:?}");
        let json = check(dir.path(), &["p.wasm", "-o", "json"])?;
        let report: Value = serde_json::from_str(&json.stdout)?;
        let refused = report["refused"].as_str().context("no reason")?;
        ensure!(json.status.code() == Some(1) && refused.contains(wanted), "{report}");
        let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
        let manifest = Some(manifest).filter(|text| !text.is_empty());
        host.install("p", &dir.path().join("p.wasm"), manifest)?;
        let failed = plugins::wait_until(&host, "p", "refused", |status| status.last_error.is_some())?;
        ensure!(failed.last_error.is_some_and(|error| error.contains(wanted)), "{guest}");
        agreed += 1;
    }
    ensure!(agreed == cases.len());
    // Without a configuration that it takes, there is no description, so no manifest.
    let dir = folder("pods_per_node", &refuses)?;
    let printed = check(dir.path(), &["p.wasm", "--manifest"])?;
    ensure!(printed.status.code() == Some(1) && printed.stdout.is_empty(), "{printed:?}");
    let config = dir.path().join("config.yaml");
    fs::write(&config, "namespace: reports\n")?;
    let printed = check(dir.path(), &["p.wasm", "--manifest", "--config", "config.yaml"])?;
    ensure!(printed.status.success() && printed.stdout.contains("namespaces: [reports]"), "{printed:?}");
    Ok(())
}

#[test]
fn a_plugin_is_not_called_refused_for_what_was_not_read() -> Result<()> {
    let head = "apiVersion: pilothouse.dev/v1alpha1\nkind: Plugin\nmetadata: {name: p}\nspec:\n";
    let secret = "  configFrom: [{secretRef: {namespace: a, name: s}}]\n";
    let in_a =
        "  permissions: [{groups: [\"\"], resources: [configmaps], verbs: [list, watch], namespaces: [a]}]\n";
    for (guest, config, wanted) in [
        ("probe", "  config: {mode: describe-error}\n", "the probe was told to refuse"),
        // The Secret has the namespace that is granted.
        ("configured", "  config: {namespace: b}\n", "cannot watch v1/ConfigMap"),
    ] {
        let dir = folder(guest, &format!("{head}{secret}{in_a}{config}"))?;
        let checked = check(dir.path(), &["p.yaml", "-o", "json"])?;
        let report: Value = serde_json::from_str(&checked.stdout)?;
        ensure!(checked.status.code() == Some(1) && report.get("refused").is_none(), "{checked:?}");
        for words in [wanted, "spec.configFrom", "--config FILE"] {
            ensure!(checked.stderr.contains(words), "no {words:?} in {}", checked.stderr);
        }
        let whole = if guest == "probe" { "namespaces: [a]\n" } else { "namespace: a\n" };
        fs::write(dir.path().join("config.yaml"), whole)?;
        let checked = check(dir.path(), &["p.yaml", "--config", "config.yaml"])?;
        ensure!(checked.status.success(), "{checked:?}");
        // The whole of it, and it is refused.
        fs::write(dir.path().join("p.yaml"), format!("{head}{in_a}{config}"))?;
        let checked = check(dir.path(), &["p.yaml", "-o", "json"])?;
        let report: Value = serde_json::from_str(&checked.stdout)?;
        let refused = report["refused"].as_str().context("no reason")?;
        ensure!(checked.status.code() == Some(1) && refused.contains(wanted), "{report}");
    }
    Ok(())
}

#[test]
fn an_interrupted_check_leaves_nothing_behind() -> Result<()> {
    let dir = folder("probe", "")?;
    let temporary = dir.path().join("tmp");
    fs::create_dir(&temporary)?;
    let left = || -> Result<usize> { Ok(fs::read_dir(&temporary)?.count()) };
    let process = Process::spawn(cli::command(dir.path(), &["check", "p.wasm"])?.env("TMPDIR", &temporary))?;
    // Compiling takes long enough to be interrupted.
    poll::until("the folder for the machine code", SOON, || anyhow::Ok(left()? > 0))?;
    process.signal(Signal::INT)?;
    let status = process.wait_exit(SOON)?;
    ensure!(status.code() == Some(1), "{status:?}: {}", process.output().tail(20));
    ensure!(!process.output().matching("error: interrupted").is_empty(), "{}", process.output().tail(20));
    ensure!(left()? == 0, "its temporary folder is still there");
    Ok(())
}
