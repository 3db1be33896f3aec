//! Server-side apply of a plugin: `client::apply` of the SDK, as the plugin itself and as a second manager.

use anyhow::Result;
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::loglines::{self, Line};
use pilothouse_tests::plugins::Manifest;
use pilothouse_tests::stage::Stage;
use serde_json::json;

pilothouse_tests::on_both_servers!(a_plugin_applies_and_hears_of_conflicts);

/// The steps of the probe, with the data of the object after each, and whether its version is that of before.
const STEPS: [(&str, &str, &str); 5] = [
    ("create", r#"{"k":"1","l":"1"}"#, "false"),
    ("again", r#"{"k":"1","l":"1"}"#, "true"),
    ("conflict", "", ""),
    ("force", r#"{"k":"2","l":"1"}"#, "false"),
    ("give up", r#"{"k":"2"}"#, "false"),
];

fn a_plugin_applies_and_hears_of_conflicts(server: Server) -> Result<()> {
    let namespace = "plugin-applies";
    let stage = Stage::new(server, namespace)?;
    let manifest = Manifest::new("applier")
        .grant(&["configmaps"], &["get", "list", "watch", "create", "patch"], &[namespace])
        .config(json!({
            "mode": "apply", "namespaces": [namespace], "onlyPrefix": "go",
            "targetKind": "v1/ConfigMap", "targetKey": format!("{namespace}/applied"),
        }));
    stage.install("applier", "probe", &manifest)?;
    stage.cluster.config_map(namespace, "go")?;
    let lines = stage.host.wait_for("the plugin to have applied", SOON, || {
        let lines = loglines::said(&stage.host, "applier", "applied");
        (lines.len() >= STEPS.len()).then_some(lines)
    })?;
    let seen: Vec<_> =
        lines.iter().map(|line| ["step", "data", "same"].map(|name| line.field(name))).collect();
    assert_eq!(seen, STEPS.map(|(step, data, same)| [step, data, same]), "{lines:#?}");
    let conflict: &Line = &lines[2];
    assert_eq!(conflict.field("conflict"), "true", "{conflict:?}");
    // A plugin is the manager of its fields under its own name.
    for words in ["Apply failed with 1 conflict", "conflict with \"applier\"", ".data.k"] {
        assert!(conflict.field("message").contains(words), "{conflict:?}");
    }
    Ok(())
}
