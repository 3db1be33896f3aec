//! `pilothouse new`: what it makes is tested natively, built, checked and run, without the repository.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::paths;
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::dev::{self, Dev};
use pilothouse_tests::process::{self, Finished};
use pilothouse_tests::{Signal, cli};

/// A cold build of the SDK and its dependencies, beside other suites.
const BUILD: Duration = Duration::from_secs(600);

fn folder() -> Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix("new-").tempdir().context("making a folder")
}

/// Runs Cargo in a folder; native builds share one target folder.
fn cargo(dir: &Path, args: &[&str]) -> Result<Finished> {
    // Without the variables of this build, as `cli::command` starts others.
    let mut command = Command::new("cargo");
    let of_tests = |name: &str| name.starts_with("CARGO") && name != "CARGO_HOME" || name.starts_with("RUST");
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(of_tests) {
            command.env_remove(name);
        }
    }
    command.args(args).current_dir(dir).env("CARGO_TARGET_DIR", paths::target().join("new-plugins"));
    process::run(&mut command, "", BUILD)
}

/// Makes a plugin of a world, tests it natively, builds it, checks it, and runs it until it greets the object of its folder.
fn from_new_to_running(dir: &Path, name: &str, args: &[&str]) -> Result<()> {
    let made = cli::run(dir, &[&["new", name], args].concat())?;
    ensure!(made.status.success() && made.stdout.contains(&format!("cd {name}\n")), "{made:?}");
    let plugin = dir.join(name);
    // Nothing in it leads back to where the binary was built.
    let manifest = fs::read_to_string(plugin.join("Cargo.toml"))?;
    ensure!(manifest.contains("path = \"vendor/pilothouse-sdk/"), "{manifest}");

    let tested = cargo(&plugin, &["test"])?;
    ensure!(tested.status.success() && tested.stdout.contains("test result: ok. 1 passed"), "{tested:?}");
    ensure!(!tested.stderr.contains("warning"), "{}", tested.stderr);
    let formatted = cargo(&plugin, &["fmt", "--check"])?;
    ensure!(formatted.status.success(), "{formatted:?}");

    dev::share_target(&plugin)?;
    let built = process::run(&mut cli::command(&plugin, &["build"])?, "", BUILD)?;
    ensure!(built.status.success(), "{built:?}");
    let checked = cli::run(&plugin, &["check", &format!("{name}.yaml")])?;
    ensure!(checked.status.success() && !checked.stdout.contains("warning:"), "{checked:?}");

    // The component, with the case that the folder has from the start.
    let tested = process::run(&mut cli::command(&plugin, &["test"])?, "", BUILD)?;
    ensure!(tested.status.success() && tested.stdout.contains("\n1 passed, 0 failed ("), "{tested:?}");

    // The definition that the folder has from the start is the one of its type.
    let definition = fs::read_to_string(plugin.join("objects/crd.yaml"));
    let component = format!("{}.wasm", name.replace('-', "_"));
    let printed = cli::run(&plugin, &["crd", &component])?;
    match definition {
        Ok(definition) => ensure!(printed.status.success() && printed.stdout == definition, "{printed:?}"),
        Err(_) => ensure!(
            printed.status.code() == Some(1) && printed.stderr.contains("has no CustomResourceDefinition"),
            "{printed:?}"
        ),
    }

    let running = Dev::start(&plugin, &[] as &[&str])?;
    running.wait_lines(1, "Hello, world! object=default/example", BUILD)?;
    if let Some(kind) = args.iter().find_map(|arg| arg.strip_prefix("example.org/v1/")) {
        let path = format!("/apis/example.org/v1/namespaces/default/{}s/example", kind.to_lowercase());
        running.wait_for("the status", SOON, || {
            running.get(&path).map(|object| object["status"]["greeting"] == "Hello, world!")
        })?;
    }
    running.signal(Signal::TERM)?;
    ensure!(running.wait_exit(SOON)?.success());
    Ok(())
}

#[test]
fn a_new_plugin_of_every_world_is_tested_built_checked_and_run() -> Result<()> {
    let dir = folder()?;
    for world in ["reconciler", "event-handler", "controller", "batch-reconciler"] {
        let args = ["--world", world, "--crd", "example.org/v1/Foo"];
        from_new_to_running(dir.path(), &format!("new-{world}"), &args).context(world)?;
    }
    from_new_to_running(dir.path(), "new-plain", &[])
}

#[test]
fn a_folder_that_is_in_use_and_a_name_that_cannot_be_are_refused() -> Result<()> {
    let dir = folder()?;
    let dir = dir.path();
    fs::create_dir(dir.join("empty"))?;
    let made = cli::run(dir, &["new", "a", "--dir", "empty"])?;
    ensure!(made.status.success() && dir.join("empty/src/lib.rs").exists(), "{made:?}");
    let made = cli::run(dir, &["new", "b", "--dir", "deep/within"])?;
    ensure!(made.status.success() && dir.join("deep/within/b.yaml").exists(), "{made:?}");
    fs::create_dir(dir.join("used"))?;
    fs::write(dir.join("used/file"), "mine")?;
    for (args, code, wanted) in [
        (&["new", "used"][..], 1, "used is not empty: name another folder with --dir"),
        (&["new", "c", "--dir", "used/file"], 1, "name another folder with --dir"),
        (&["new", "Upper"], 2, "use lower-case letters"),
        (&["new", "match"], 2, "use another name, as my-match"),
        (&["new", "d", "--crd", "Foo"], 2, "write GROUP/VERSION/KIND"),
        (&["new", "d", "--world", "other"], 2, "batch-reconciler"),
    ] {
        let refused = cli::run(dir, args)?;
        ensure!(
            refused.status.code() == Some(code) && refused.stderr.contains(wanted),
            "{args:?}: {refused:?}"
        );
    }
    // Nothing is left of a try.
    let mut names: Vec<_> = fs::read_dir(dir)?.flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    ensure!(names == ["deep", "empty", "used"], "{names:?}");
    ensure!(fs::read_to_string(dir.join("used/file"))? == "mine");
    Ok(())
}
