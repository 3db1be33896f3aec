//! The plugin of `guests/other-languages`: built from each language with the tools that its README names, and run; and the same
//! plugin in Rust, which the benchmark `languages` measures beside them. At full length only, since the tools are installed from
//! the languages' registries, and an interpreter takes the host some twenty seconds to compile.

use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use pilothouse_testkit::languages::{self, Language};
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::{Cluster, ControlPlane, Host, loglines, plugins};
use serde_json::{Value, json};

pilothouse_tests::on_both_servers!(full: rust, python, javascript, c);

const SOON: Duration = Duration::from_secs(60);

/// A component with an interpreter in it is compiled in minutes by a development build, beside other tests.
const COMPILED: Duration = Duration::from_secs(900);
/// Held while a component is compiled. Several interpreters at once would take longer than the host lets a compilation take; the
/// second test of a language finds the machine code in the cache that hosts of tests share.
static COMPILING: Mutex<()> = Mutex::new(());
/// What the plugin's manifest names it.
const PLUGIN: &str = "key-counter";
const LABEL: &str = "key-counter.example.com/count";
const ANNOTATION: &str = "key-counter.example.com/keys";

fn rust(server: Server) -> Result<()> {
    counts(server, Language::Rust)
}

fn python(server: Server) -> Result<()> {
    counts(server, Language::Python)
}

fn javascript(server: Server) -> Result<()> {
    counts(server, Language::JavaScript)
}

fn c(server: Server) -> Result<()> {
    counts(server, Language::C)
}

/// The number in the annotation of a ConfigMap; empty without one.
fn annotation(cluster: &Cluster, namespace: &str, name: &str) -> Result<String> {
    let object = cluster.get("v1/ConfigMap", namespace, name)?.context("the ConfigMap is gone")?;
    let annotations = object.pointer("/metadata/annotations").and_then(|all| all.get(ANNOTATION));
    Ok(annotations.and_then(Value::as_str).unwrap_or_default().to_owned())
}

/// Runs the component with the manifest of the folder and looks at all that it writes.
fn counts(server: Server, language: Language) -> Result<()> {
    // The name under which the README puts the component beside the manifest, which names no file.
    let readme = match language {
        Language::Rust => languages::folder(),
        other => languages::folder().join(other.name()),
    };
    let readme = fs::read_to_string(readme.join("README.md"))?;
    ensure!(readme.contains(&format!("PLUGINS/{PLUGIN}.wasm\n")), "{readme}");
    let (component, language) = (language.component()?, language.name());
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
    let manifest = fs::read_to_string(languages::folder().join("key-counter.yaml"))?
        .replace("[\"*\"]", &format!("[{namespace}]"));
    let compiling = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
    host.install(PLUGIN, &component, Some(&manifest))?;
    host.wait_for(&format!("{language}: the plugin to be compiled"), COMPILED, || {
        plugins::status(&host, PLUGIN).map(|status| status.state == "running")
    })?;
    drop(compiling);
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
