//! The plugin of `guests/other-languages`: built from each language with the tools that its README names, and run. At full
//! length only, since the tools are installed from the languages' registries, and an interpreter takes the host some twenty
//! seconds to compile.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use pilothouse_testkit::paths;
use pilothouse_testkit::tools::Tool;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::{Cluster, ControlPlane, Host, loglines, plugins};
use serde_json::{Value, json};

pilothouse_tests::on_both_servers!(full: python, javascript, c);

const SOON: Duration = Duration::from_secs(60);
/// What the plugin's manifest names it.
const PLUGIN: &str = "key-counter";
const LABEL: &str = "key-counter.example.com/count";
const ANNOTATION: &str = "key-counter.example.com/keys";

fn folder(language: &str) -> PathBuf {
    paths::repository().join("guests/other-languages").join(language)
}

/// Runs a command to its end; its output is in the error.
fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{command:?} failed:\n{err}\n{out}");
    Ok(())
}

/// Builds a language's component in a folder of its own below Cargo's target folder, which it keeps for what is installed.
fn built(language: &str, build: impl FnOnce(&Path, &Path) -> Result<()>) -> Result<PathBuf> {
    let work = paths::target().join("other-languages").join(language);
    paths::locked(&work, || {
        let (component, new) = (work.join("key_counter.wasm"), work.join("new/key_counter.wasm"));
        fs::create_dir_all(work.join("new"))?;
        build(&work, &new)?;
        // The other test may be reading the one that it built, so it is replaced as a whole.
        fs::rename(&new, &component)
            .with_context(|| format!("{language}: the build made no {}", new.display()))?;
        Ok(component)
    })
}

/// A `build` script with one variable.
fn script(language: &str, name: &str, value: impl AsRef<OsStr>, component: &Path) -> Result<()> {
    run(Command::new(folder(language).join("build")).arg(component).env(name, value))
}

fn python(server: Server) -> Result<()> {
    Tool::Python.require()?;
    let component = built("python", |work, to| script("python", "VENV", work.join("venv"), to))?;
    counts(server, "python", &component)
}

fn c(server: Server) -> Result<()> {
    Tool::C.require()?;
    let component = built("c", |work, to| script("c", "BUILD", work.join("generated"), to))?;
    counts(server, "c", &component)
}

fn javascript(server: Server) -> Result<()> {
    Tool::Node.require()?;
    let component = built("javascript", |work, to| {
        // npm installs beside package.json only, so the sources are copied to where the contract is found as well.
        let copy = work.join("guests/other-languages/javascript");
        fs::create_dir_all(&copy)?;
        fs::create_dir_all(work.join("wit/0.2"))?;
        for (from, to) in
            [(folder("javascript"), &copy), (paths::repository().join("wit/0.2"), &work.join("wit/0.2"))]
        {
            for entry in fs::read_dir(from)? {
                let entry = entry?;
                if entry.file_type()?.is_file() {
                    fs::copy(entry.path(), to.join(entry.file_name()))?;
                }
            }
        }
        run(Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(&copy))?;
        run(Command::new("npm").args(["run", "build", "--"]).arg(to).current_dir(&copy))
    })?;
    counts(server, "javascript", &component)
}

/// The number in the annotation of a ConfigMap; empty without one.
fn annotation(cluster: &Cluster, namespace: &str, name: &str) -> Result<String> {
    let object = cluster.get("v1/ConfigMap", namespace, name)?.context("the ConfigMap is gone")?;
    let annotations = object.pointer("/metadata/annotations").and_then(|all| all.get(ANNOTATION));
    Ok(annotations.and_then(Value::as_str).unwrap_or_default().to_owned())
}

/// Runs the component with the manifest of the folder and looks at all that it writes.
fn counts(server: Server, language: &str, component: &Path) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let (cluster, namespace) = (Cluster::of(plane)?, format!("counted-{language}"));
    cluster.namespace(&namespace)?;
    let labelled = |name: &str, data: Value, labels: Value| {
        let metadata = json!({"namespace": namespace, "name": name, "labels": labels});
        cluster.create(&json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data,
            "binaryData": {"picture": "AAEC"},
        }))
    };
    // Texts that look like JSON's own signs, which only a reader of JSON counts rightly.
    labelled("before", json!({"a": "\"x\":{", "b": "\\"}), json!({LABEL: "true"}))?;
    labelled("other", json!({"a": "b"}), json!({}))?;

    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    let manifest = fs::read_to_string(folder("key-counter.yaml"))?
        .replace("spec:\n", "spec:\n  source: { file: key-counter.wasm }\n")
        .replace("[\"*\"]", &format!("[{namespace}]"));
    host.install(PLUGIN, component, Some(&manifest))?;
    plugins::wait_running(&host, PLUGIN)?;
    let wait_for = |name: &str, keys: &str| {
        host.wait_for(&format!("{language}: {name} with {keys} keys"), SOON, || {
            match annotation(&cluster, &namespace, name)? {
                found if found == keys => Ok(Some(())),
                found => bail!("{found:?}"),
            }
        })
    };
    wait_for("before", "3")?;
    labelled("after", json!({}), json!({LABEL: "true"}))?;
    wait_for("after", "1")?;
    cluster.merge("v1/ConfigMap", &namespace, "before", &json!({"data": {"c": "d"}}))?;
    wait_for("before", "4")?;
    // A change that leaves the number as it is is looked at, and not written.
    cluster.merge("v1/ConfigMap", &namespace, "before", &json!({"data": {"c": "e"}}))?;
    cluster.merge("v1/ConfigMap", &namespace, "after", &json!({"data": {"a": "b"}}))?;
    wait_for("after", "2")?;
    ensure!(
        annotation(&cluster, &namespace, "other")?.is_empty(),
        "{language}: an unlabelled object was written"
    );

    let events = host.wait_for("its Events", SOON, || {
        let mut notes: Vec<String> = Vec::new();
        for event in cluster.list("v1/Event", &namespace)? {
            if event["reason"] == "Counted" {
                notes.push(event["message"].as_str().unwrap_or_default().to_owned());
            }
        }
        notes.sort_unstable();
        if notes.len() == 4 { Ok(Some(notes)) } else { bail!("{notes:?}") }
    })?;
    assert_eq!(events, ["1 keys", "2 keys", "3 keys", "4 keys"]);
    let labels = [("plugin", PLUGIN), ("namespace", namespace.as_str())];
    let writes = host.metrics()?.sum("plugin_key_counter__writes_total", &labels);
    assert_eq!(writes, Some(4.0), "{language}: one write for each number that changed");
    assert_eq!(loglines::said(&host, PLUGIN, "counted").len(), 4);
    let faults = loglines::faults(&host, PLUGIN);
    ensure!(faults.is_empty(), "{language}: {faults:?}");
    Ok(())
}
