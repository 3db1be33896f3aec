//! Plugins that cannot be loaded, and the plugin directory: each bad plugin is shown with the file, the reason and the
//! remedy, while its neighbours and its own previous generation go on; and each way in which files come, change and go works.
//!
//! Each test has a host and a namespace of its own. "Goes on" means: a ConfigMap is changed and the plugin is called.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::plugins::{self, Manifest, Status, digest};
use pilothouse_tests::{Host, Stage, guests, loglines};
use serde_json::json;

pilothouse_tests::on_both_servers!(
    a_bad_plugin_says_what_is_wrong_and_harms_no_other,
    a_bad_new_version_leaves_the_one_before_at_work,
    a_file_that_is_written_bit_by_bit_loads_once_it_is_whole,
    plugins_come_change_and_go_with_their_files,
    a_mounted_config_map_is_followed_through_its_links,
);

/// The ConfigMap that all plugins of a test watch.
const WATCHED: &str = "watched";

/// A stage with a ConfigMap to watch and a healthy plugin `neighbour`.
fn stage(server: Server, namespace: &'static str) -> Result<Stage> {
    let stage = Stage::new(server, namespace)?;
    stage.cluster.config_map(namespace, WATCHED)?;
    stage.install("neighbour", "probe", &good("neighbour", namespace))?;
    Ok(stage)
}

/// Changes the watched ConfigMap and waits until each of the plugins was called for it.
fn all_go_on(stage: &Stage, plugins: &[&str]) -> Result<()> {
    let calls = |name| plugins::status(&stage.host, name).map(|status| status.calls);
    let before: Vec<u64> = plugins.iter().map(|name| calls(name)).collect::<Result<_>>()?;
    // The same value again would be no change.
    static CHANGES: AtomicU64 = AtomicU64::new(1);
    let value = CHANGES.fetch_add(1, Ordering::Relaxed).to_string();
    stage.cluster.change(stage.namespace, WATCHED, &value)?;
    for (name, before) in plugins.iter().zip(before) {
        let what = format!("{name} to be called for a change");
        stage.host.wait_for(&what, SOON, || calls(name).map(|now| now > before))?;
    }
    Ok(())
}

/// The manifest of a probe that logs each call.
fn good(name: &str, namespace: &str) -> Manifest {
    Manifest::new(name).reads(&["configmaps"], namespace).config(json!({"namespaces": [namespace]}))
}

/// A plugin that cannot be loaded.
struct Bad {
    name: &'static str,
    wasm: Vec<u8>,
    manifest: String,
    /// What `lastError` must hold: the file, the reason, the remedy.
    words: &'static [&'static str],
}

fn all_bad(namespace: &str) -> Result<Vec<Bad>> {
    let guest = |name: &str| anyhow::Ok(fs::read(guests::wasm(name)?)?);
    let probe = guest("probe")?;
    let component = |name, wasm: &[u8], words| Bad {
        name,
        wasm: wasm.to_vec(),
        manifest: good(name, namespace).to_string(),
        words,
    };
    let manifest = |name, manifest: Manifest, words| Bad {
        name,
        wasm: probe.clone(),
        manifest: manifest.to_string(),
        words,
    };
    let mode = |name, mode: &str, words| {
        manifest(name, good(name, namespace).config(json!({"namespaces": [namespace], "mode": mode})), words)
    };
    Ok(vec![
        component(
            "no-wasm",
            b"#!/bin/sh\necho hello\n",
            &["no-wasm.wasm", "not a WebAssembly file", "cargo build --target wasm32-wasip2"],
        ),
        component(
            "empty",
            b"",
            &["empty.wasm", "damaged or incomplete", "the file is empty", "copy the file again"],
        ),
        component(
            "core-module",
            b"\0asm\x01\0\0\0",
            &[
                "core-module.wasm",
                "a WebAssembly core module, not a component",
                "build the guest for the target wasm32-wasip2",
            ],
        ),
        component(
            "other-world",
            &guest("other-world")?,
            &[
                "other-world.wasm",
                "a component of another world",
                "example:greeter/greet",
                "use the pilothouse-sdk crate",
            ],
        ),
        component(
            "future",
            &guest("future")?,
            &["future.wasm", "imports that this host does not provide", "teleport", "run a newer host"],
        ),
        component(
            "former-contract",
            &guests::of_contract(probe.clone(), "0.1.0"),
            &[
                "former-contract.wasm",
                "needs pilothouse:controller@0.1, this host serves 0.2",
                "rebuild the guest with pilothouse-sdk 0.2",
            ],
        ),
        component(
            "half",
            &probe[..probe.len() / 2],
            &["half.wasm", "damaged or incomplete", "copy the file again"],
        ),
        mode(
            "describe-error",
            "describe-error",
            &[
                "describe-error.wasm",
                "describe refused its configuration: the probe was told to refuse",
                "correct spec.config",
            ],
        ),
        mode(
            "describe-unknown",
            "describe-unknown",
            &["describe-unknown.wasm", "describe", "unknown field `teleport`", "see docs/describe.md"],
        ),
        mode(
            "describe-trap",
            "describe-trap",
            &["describe-trap.wasm", "describe failed", "trapped", "correct the plugin or spec.config"],
        ),
        manifest(
            "misspelt",
            good("misspelt", namespace).with("permision", json!([])),
            &[
                "misspelt.yaml",
                "line ",
                "unknown field",
                "permision",
                "docs/manifest.md describes the fields",
            ],
        ),
        manifest(
            "wrong-digest",
            good("wrong-digest", namespace)
                .with("source", json!({"digest": format!("sha256:{}", "0".repeat(64))})),
            &[
                "wrong-digest.yaml",
                "the digest of wrong-digest.wasm is sha256:",
                "demands sha256:0000",
                "correct the digest",
            ],
        ),
        manifest(
            "no-grant",
            Manifest::new("no-grant").config(json!({"namespaces": [namespace]})),
            &[
                "no-grant.yaml",
                "no permission to list configmaps in namespace",
                "add to spec.permissions",
                "verbs",
            ],
        ),
    ])
}

/// Puts the plugin's files into the directory.
fn install(host: &Host, name: &str, wasm: &[u8], manifest: &str) -> Result<()> {
    let file = host.dir().join("incoming").join(format!("{name}.copy"));
    fs::write(&file, wasm)?;
    host.install(name, &file, Some(manifest))
}

/// Waits until `/plugins` says what is wrong with a plugin, in all these words, and checks that the log does too.
fn wait_blamed(host: &Host, bad: &Bad, state: &str) -> Result<Status> {
    let names_all = |error: &str| bad.words.iter().all(|word| error.contains(word));
    let what = format!("{state} with an error that has {:?}", bad.words);
    let status = plugins::wait_until(host, bad.name, &what, |status| {
        status.state == state && status.last_error.as_deref().is_some_and(names_all)
    })?;
    let logged = |line: &loglines::Line| names_all(&line.message);
    let what = format!("a line of the log with the error of {}", bad.name);
    host.wait_for(&what, SOON, || {
        loglines::plugin_events(host, bad.name, "plugin_failed").iter().any(logged)
    })?;
    Ok(status)
}

fn a_bad_plugin_says_what_is_wrong_and_harms_no_other(server: Server) -> Result<()> {
    let stage = stage(server, "bad-first")?;
    let bad = all_bad(stage.namespace)?;
    for it in &bad {
        install(&stage.host, it.name, &it.wasm, &it.manifest)?;
    }
    for it in &bad {
        let status = wait_blamed(&stage.host, it, "failed")?;
        assert_eq!((status.generation, status.digest.as_str(), status.calls), (0, "", 0), "{status:?}");
    }
    all_go_on(&stage, &["neighbour"])?;
    assert_eq!(plugins::status(&stage.host, "neighbour")?.generation, 1);

    // What is corrected heals.
    let probe = fs::read(guests::wasm("probe")?)?;
    for it in &bad {
        install(&stage.host, it.name, &probe, &good(it.name, stage.namespace).to_string())?;
    }
    for it in &bad {
        plugins::wait_running(&stage.host, it.name)?;
    }
    all_go_on(&stage, &bad.iter().map(|it| it.name).collect::<Vec<_>>())
}

fn a_bad_new_version_leaves_the_one_before_at_work(server: Server) -> Result<()> {
    let stage = stage(server, "bad-second")?;
    let (bad, probe) = (all_bad(stage.namespace)?, fs::read(guests::wasm("probe")?)?);
    let names: Vec<&str> = bad.iter().map(|it| it.name).collect();
    let install_good =
        |name: &str| install(&stage.host, name, &probe, &good(name, stage.namespace).to_string());
    names.iter().try_for_each(|name| install_good(name))?;
    let before: Vec<Status> =
        names.iter().map(|name| plugins::wait_running(&stage.host, name)).collect::<Result<_>>()?;

    for it in &bad {
        install(&stage.host, it.name, &it.wasm, &it.manifest)?;
    }
    for (it, before) in bad.iter().zip(&before) {
        let status = wait_blamed(&stage.host, it, "running")?;
        assert_eq!((status.generation, &status.digest), (before.generation, &before.digest), "{status:?}");
    }
    all_go_on(&stage, &names)?;
    all_go_on(&stage, &["neighbour"])?;
    // A good call is no reason to forget that the file is bad.
    for it in &bad {
        wait_blamed(&stage.host, it, "running")?;
    }

    names.iter().try_for_each(|name| install_good(name))?;
    for (name, before) in names.iter().zip(&before) {
        // The error of a manifest goes with the manifest, before the load ends.
        let status = plugins::wait_until(&stage.host, name, "on a new generation", |status| {
            status.generation > before.generation
        })?;
        assert_eq!(
            (&*status.state, status.last_error, status.digest),
            ("running", None, before.digest.clone())
        );
    }
    all_go_on(&stage, &names)
}

fn a_file_that_is_written_bit_by_bit_loads_once_it_is_whole(server: Server) -> Result<()> {
    let stage = stage(server, "bit-by-bit")?;
    let (host, directory) = (&stage.host, stage.host.plugins_dir());
    let probe = fs::read(guests::wasm("probe")?)?;
    let (first, second) = probe.split_at(probe.len() / 2);

    // Long enough between the halves to be noticed.
    host.install_manifest("slow", &good("slow", stage.namespace).to_string())?;
    fs::write(directory.join("slow.wasm"), first)?;
    plugins::wait_until(host, "slow", "failed", |status| status.state == "failed")?;
    fs::OpenOptions::new().append(true).open(directory.join("slow.wasm"))?.write_all(second)?;
    plugins::wait_running(host, "slow")?;

    // At once, as `cp` does it.
    host.install_manifest("fast", &good("fast", stage.namespace).to_string())?;
    let begun = Instant::now();
    let mut file = fs::File::create(directory.join("fast.wasm"))?;
    file.write_all(first)?;
    file.write_all(second)?;
    drop(file);
    let settled_between = begun.elapsed() > Duration::from_millis(100);
    let status = plugins::wait_running(host, "fast")?;
    let errors = loglines::of_plugin(host, "fast").into_iter().filter(|line| line.level == "ERROR").count();
    assert!(errors == 0 || settled_between, "half a file was taken for a whole one");
    assert_eq!(status.digest, digest(&probe));
    all_go_on(&stage, &["slow", "fast", "neighbour"])
}

fn plugins_come_change_and_go_with_their_files(server: Server) -> Result<()> {
    let stage = stage(server, "come-and-go")?;
    let (host, probe) = (&stage.host, guests::wasm("probe")?);

    // A component alone has no grants: the error tells how to give them, and a manifest beside it does.
    host.install("mover", &probe, None)?;
    plugins::wait_until(host, "mover", "refused", |status| {
        status.state == "failed"
            && status.last_error.as_deref().is_some_and(|e| e.contains("spec.permissions"))
    })?;
    host.install_manifest("mover", &good("mover", stage.namespace).to_string())?;
    let first = plugins::wait_running(host, "mover")?;

    // `mv` over it.
    let next = host.dir().join("incoming/next.wasm");
    fs::write(&next, plugins::marked(&probe, "next")?)?;
    fs::rename(&next, host.plugins_dir().join("mover.wasm"))?;
    let second = plugins::wait_until(host, "mover", "of the next digest", |now| now.digest != first.digest)?;
    assert!(second.generation > first.generation && second.state == "running", "{second:?}");
    all_go_on(&stage, &["mover"])?;
    host.wait_for("a call of the new generation", SOON, || {
        loglines::said(host, "mover", "begin").iter().any(|line| line.generation == Some(second.generation))
    })?;

    // Another configuration is another generation too.
    let quiet = good("mover", stage.namespace).limits(json!({"callTimeout": "3s"}));
    host.install_manifest("mover", &quiet.to_string())?;
    plugins::wait_until(host, "mover", "of the next generation", |now| now.generation > second.generation)?;

    // Deleted: it is gone from everywhere, and its neighbour is not.
    host.remove("mover")?;
    host.wait_for("the plugin to be gone", SOON, || plugins::all(host).map(|all| all.len() == 1))?;
    let series = host.metrics()?.sum("workqueue_depth", &[("name", "mover")]);
    assert_eq!(series, None, "a series of a plugin that is gone");
    let removed = host.wait_for("the log to say so", SOON, || {
        loglines::plugin_events(host, "mover", "plugin_removed").pop()
    })?;
    all_go_on(&stage, &["neighbour"])?;
    let calls = loglines::said(host, "mover", "begin");
    let late: Vec<_> = calls.iter().filter(|line| line.timestamp > removed.timestamp).collect();
    assert!(late.is_empty(), "it is called after it was deleted: {late:?}");

    // And again from the start.
    host.install("mover", &probe, Some(&good("mover", stage.namespace).to_string()))?;
    assert_eq!(plugins::wait_running(host, "mover")?.digest, first.digest);
    all_go_on(&stage, &["mover"])
}

fn a_mounted_config_map_is_followed_through_its_links(server: Server) -> Result<()> {
    let stage = stage(server, "mounted")?;
    let (host, directory) = (&stage.host, stage.host.plugins_dir());
    let probe = guests::wasm("probe")?;
    let old = fs::read(&probe)?;
    let new = plugins::marked(&probe, "mounted")?;

    // As the kubelet lays it out: NAME -> ..data/NAME, ..data -> ..TIME.
    let version = |folder: &str, wasm: &[u8], manifest: &Manifest| -> Result<()> {
        fs::create_dir(directory.join(folder))?;
        fs::write(directory.join(folder).join("mounted.wasm"), wasm)?;
        fs::write(directory.join(folder).join("mounted.yaml"), manifest.to_string())?;
        symlink(folder, directory.join("..data_tmp"))?;
        fs::rename(directory.join("..data_tmp"), directory.join("..data")).context("swapping ..data")
    };
    version("..2026_01_01", &old, &good("mounted", stage.namespace))?;
    for file in ["mounted.wasm", "mounted.yaml"] {
        symlink(Path::new("..data").join(file), directory.join(file))?;
    }
    let first = plugins::wait_running(host, "mounted")?;
    assert_eq!(first.digest, digest(&old));
    all_go_on(&stage, &["mounted"])?;

    // Both files change at one moment, and never is a mixture of old and new seen.
    let marked = good("mounted", stage.namespace).with("source", json!({"digest": digest(&new)}));
    version("..2026_01_02", &new, &marked)?;
    let second = plugins::wait_until(host, "mounted", "of the new digest", |now| now.digest == digest(&new))?;
    fs::remove_dir_all(directory.join("..2026_01_01"))?;
    assert!(second.generation > first.generation, "{second:?}");
    assert_eq!(second.last_error, None);
    all_go_on(&stage, &["mounted"])?;
    let errors: Vec<_> =
        loglines::of_plugin(host, "mounted").into_iter().filter(|line| line.level == "ERROR").collect();
    assert!(errors.is_empty(), "{errors:?}");
    Ok(())
}
