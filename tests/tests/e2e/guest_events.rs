//! Kubernetes Events of plugins: what guests record through their `events` import, what the host records about plugins, and what
//! `kubectl` and `pilothouse events` show of both.

use anyhow::{Context as _, Result, ensure};
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::process::Process;
use pilothouse_tests::{Cluster, ControlPlane, Host, cli, guests, loglines, poll};
use serde_json::{Value, json};

pilothouse_tests::on_both_servers!(
    what_a_guest_records_is_written_as_the_plugin,
    events_of_objects_without_a_namespace_live_in_default,
    what_a_guest_may_not_record_is_refused_and_it_is_told_why,
    a_guest_that_floods_is_held_to_its_quota,
    the_host_records_what_becomes_of_its_plugins_on_its_own_pod,
);

pilothouse_tests::on_the_real_server!(outside_of_a_cluster_the_host_records_on_a_namespace);

/// The events of a namespace with this reason, in the order of their names.
fn events(plane: &ControlPlane, namespace: &str, reason: &str) -> Result<Vec<Value>> {
    let selector = format!("--field-selector=reason={reason}");
    let text = plane.kubectl(&["get", "events", "-n", namespace, &selector, "-o", "json"])?;
    let list: Value = serde_json::from_str(&text)?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

/// The one event of that reason, once it is there and has been counted so often.
fn counted(plane: &ControlPlane, host: &Host, namespace: &str, reason: &str, count: u64) -> Result<Value> {
    host.wait_for(&format!("event {reason} to be counted {count} times"), SOON, || {
        let found = events(plane, namespace, reason)?;
        anyhow::Ok(found.into_iter().find(|event| event["count"] == count))
    })
}

fn hostname() -> Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_owned())
}

/// What the guest was told of each event, in order.
fn told(host: &Host, plugin: &str) -> Vec<(String, String)> {
    let lines = loglines::said(host, plugin, "recorded");
    lines.iter().map(|line| (line.field("reason").to_owned(), line.field("result").to_owned())).collect()
}

fn what_a_guest_records_is_written_as_the_plugin(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let cluster = Cluster::of(plane)?;
    cluster.namespace("recorded")?;
    let object = cluster.config_map("recorded", "web")?;
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    let config = json!({"events": [
        {"reason": "Plain", "note": "a plain one", "times": 3},
        {
            "warning": true, "reason": "Everything", "note": "with all that can be said", "action": "Saying",
            "relatedNode": "node-1", "annotation": ["example.com/a", "b"], "fieldPath": "data.value",
            "timestamp": "2026-01-02T03:04:05Z",
        },
        {"reason": "ByKey", "note": "only the key is known", "key": "recorded/gone", "uid": "some-uid"},
    ]});
    let manifest = Manifest::new("teller").config(config).reads(&["configmaps"], "recorded").grant(
        &["events"],
        &["create"],
        &["recorded"],
    );
    host.install("teller", &guests::wasm("recorder")?, Some(&manifest.to_string()))?;

    let plain = counted(plane, &host, "recorded", "Plain", 3)?;
    ensure!(plain["message"] == "a plain one" && plain["type"] == "Normal", "{plain:#}");
    let regarding = &plain["involvedObject"];
    for (field, value) in [
        ("apiVersion", "v1"),
        ("kind", "ConfigMap"),
        ("namespace", "recorded"),
        ("name", "web"),
        ("uid", object["metadata"]["uid"].as_str().context("no UID")?),
    ] {
        ensure!(regarding[field] == value, "{field}: {plain:#}");
    }
    ensure!(plain["reportingComponent"] == "teller", "{plain:#}");
    ensure!(plain["reportingInstance"] == hostname()?, "{plain:#}");
    ensure!(plain["source"] == json!({"component": "teller", "host": hostname()?}), "{plain:#}");
    ensure!(plain["metadata"]["annotations"]["pilothouse.dev/plugin"] == "teller", "{plain:#}");

    let all = counted(plane, &host, "recorded", "Everything", 1)?;
    ensure!(all["type"] == "Warning" && all["action"] == "Saying", "{all:#}");
    ensure!(all["related"] == json!({"apiVersion": "v1", "kind": "Node", "name": "node-1"}), "{all:#}");
    ensure!(all["metadata"]["annotations"]["example.com/a"] == "b", "{all:#}");
    ensure!(all["involvedObject"]["fieldPath"] == "data.value", "{all:#}");
    ensure!(all["firstTimestamp"] == "2026-01-02T03:04:05Z", "{all:#}");

    let by_key = counted(plane, &host, "recorded", "ByKey", 1)?;
    let regarding = &by_key["involvedObject"];
    ensure!(regarding["name"] == "gone" && regarding["uid"] == "some-uid", "{by_key:#}");
    ensure!(told(&host, "teller").iter().all(|(_, result)| result == "ok"), "{:?}", told(&host, "teller"));

    let printed = cli::pilothouse(&host, &["events", "--kubeconfig", path(plane)?, "-n", "recorded"])?;
    let lines: Vec<&str> = printed.stdout.lines().collect();
    ensure!(lines.len() == 4 && lines[0].starts_with("LAST SEEN  "), "{printed:?}");
    let line = lines.iter().find(|line| line.contains("Plain")).context("no line")?;
    let cells: Vec<&str> = line.split_whitespace().skip(1).collect();
    ensure!(cells[..5] == ["Normal", "Plain", "recorded", "configmap/web", "teller"], "{line}");
    ensure!(cells[5..].join(" ") == "3 a plain one", "{line}");
    let other = cli::pilothouse(&host, &["events", "--kubeconfig", path(plane)?, "--plugin", "other"])?;
    ensure!(other.stdout.lines().count() == 1, "{other:?}");
    // With a reader that is gone before the list, and one that has seen it when another Event comes.
    let watch = ["events", "--kubeconfig", path(plane)?, "-n", "recorded", "-w"];
    ensure!(cli::left_by_its_reader(&host, &watch, 0, || Ok(()))?.success());
    let another = json!({
        "apiVersion": "v1", "kind": "Event", "type": "Normal", "reason": "Another", "message": "one more",
        "metadata": {
            "namespace": "recorded", "name": "another", "annotations": {"pilothouse.dev/plugin": "teller"},
        },
        "involvedObject": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "recorded", "name": "web"},
    });
    let create = || cluster.create(&another).map(drop);
    ensure!(cli::left_by_its_reader(&host, &watch, lines.len(), create)?.success());

    if server == Server::Real {
        let described = plane.kubectl(&["describe", "configmap", "web", "-n", "recorded"])?;
        let shown = |line: &&str| line.contains("Plain") && line.contains("teller") && line.contains("x3");
        ensure!(described.lines().any(|line| shown(&line)), "{described}");
    }
    Ok(())
}

fn path(plane: &ControlPlane) -> Result<&str> {
    plane.kubeconfig().to_str().context("the path is not UTF-8")
}

fn events_of_objects_without_a_namespace_live_in_default(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let cluster = Cluster::of(plane)?;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "told-of"}});
    cluster.create(&node)?;
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    let config = json!({"kind": "v1/Node", "events": [{"reason": "OfNode", "note": "about a node"}]});
    let nodes = json!({"groups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]});
    let events = json!({"groups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"], "namespaces": ["default"]});
    let manifest = Manifest::new("of-nodes").config(config).with("permissions", json!([nodes, events]));
    host.install("of-nodes", &guests::wasm("recorder")?, Some(&manifest.to_string()))?;
    host.wait_for("the event of the node", SOON, || {
        let found = self::events(plane, "default", "OfNode")?;
        anyhow::Ok(found.into_iter().find(|event| event["involvedObject"]["name"] == "told-of"))
    })?;
    Ok(())
}

fn what_a_guest_may_not_record_is_refused_and_it_is_told_why(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let cluster = Cluster::of(plane)?;
    for namespace in ["refused", "elsewhere"] {
        cluster.namespace(namespace)?;
    }
    cluster.config_map("refused", "web")?;
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    // Within the bound of the annotations, and with the reference of the object beyond that of all texts.
    let long = "x".repeat(8180);
    let config = json!({"events": [
        {"reason": "Elsewhere", "note": "n", "key": "elsewhere/web"},
        {"reason": "", "note": "n"},
        {"reason": "Long", "note": "n", "annotation": ["a", long]},
        {"reason": "Late", "note": "n", "timestamp": "yesterday"},
        {"reason": "Fine", "note": "n".repeat(5000)},
    ]});
    let manifest = Manifest::new("refused").config(config).reads(&["configmaps"], "refused").grant(
        &["events"],
        &["create"],
        &["refused"],
    );
    host.install("refused", &guests::wasm("recorder")?, Some(&manifest.to_string()))?;
    let fine = counted(plane, &host, "refused", "Fine", 1)?;
    ensure!(fine["message"].as_str().is_some_and(|message| message.len() == 1024), "{fine:#}");
    let told = told(&host, "refused");
    for ((reason, result), part) in told.iter().zip([
        "no permission to create events in namespace \"elsewhere\"; to grant it, add to spec.permissions of the plugin's manifest",
        "the reason is empty",
        " bytes, and may have 8192",
        "timestamp is not RFC 3339",
        "ok",
    ]) {
        ensure!(result.contains(part), "{reason}: {result:?} does not say {part:?}");
    }
    ensure!(events(plane, "elsewhere", "Elsewhere")?.is_empty(), "it was written");
    let metrics = host.metrics()?;
    let sum =
        |result| metrics.sum("pilothouse_plugin_events_total", &[("plugin", "refused"), ("result", result)]);
    ensure!(
        sum("refused") == Some(4.0) && sum("sent") == Some(1.0),
        "{:?} {:?}",
        sum("refused"),
        sum("sent")
    );
    Ok(())
}

fn a_guest_that_floods_is_held_to_its_quota(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let cluster = Cluster::of(plane)?;
    cluster.namespace("flooded")?;
    cluster.config_map("flooded", "web")?;
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    // All alike: one of them is written, and counted.
    let config = json!({"events": [{"reason": "Flood", "note": "the same again", "times": 2000}]});
    let manifest = Manifest::new("flood")
        .config(config)
        .limits(json!({"eventQPS": 1}))
        .reads(&["configmaps"], "flooded")
        .grant(&["events"], &["create"], &["flooded"]);
    host.install("flood", &guests::wasm("recorder")?, Some(&manifest.to_string()))?;
    host.wait_for("the guest to be through", SOON, || anyhow::Ok(told(&host, "flood").len() == 2000))?;
    let told = told(&host, "flood");
    let refused = told.iter().filter(|(_, result)| result.contains("(over-limit)")).count();
    let recorded = told.iter().filter(|(_, result)| result == "ok").count();
    ensure!(told.len() == 2000 && recorded + refused == 2000, "{} {recorded} {refused}", told.len());
    // Two at once, and one each second that the call may have taken.
    ensure!((2..=30).contains(&recorded), "{recorded}");
    host.wait_for("the counts to be those that the guest was told", SOON, || {
        let metrics = host.metrics()?;
        let sum = |result| {
            metrics.sum("pilothouse_plugin_events_total", &[("plugin", "flood"), ("result", result)])
        };
        anyhow::Ok(sum("over_quota") == Some(refused as f64) && sum("sent") == Some(recorded as f64))
    })?;
    counted(plane, &host, "flooded", "Flood", recorded as u64)?;
    Ok(())
}

fn the_host_records_what_becomes_of_its_plugins_on_its_own_pod(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let cluster = Cluster::of(plane)?;
    cluster.namespace("hosted")?;
    let pod = cluster.create(&json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "hosted", "name": "the-host"},
        "spec": {"containers": [{"name": "main", "image": "example/pilothouse"}]},
    }))?;
    cluster.namespace("denied")?;
    for name in ["trap-me", "trap-me-too", "and-me"] {
        cluster.config_map("hosted", name)?;
    }
    let mut options = HostOptions::new(plane.kubeconfig());
    options.env = vec![
        ("POD_NAME".to_owned(), "the-host".to_owned()),
        ("POD_NAMESPACE".to_owned(), "hosted".to_owned()),
    ];
    let host = Host::start(options)?;
    let mut watch = std::process::Command::new(format!("/proc/{}/exe", host.process().pid()));
    watch.args(["events", "--kubeconfig", path(plane)?, "-n", "hosted", "--plugin", "probe", "--watch"]);
    let watch = Process::spawn_watched(&mut watch)?;

    let wasm = guests::wasm("probe")?;
    let manifest = |config: Value| Manifest::new("probe").config(config).reads(&["configmaps"], "hosted");
    let snoops = json!({"mode": "snoop", "namespaces": ["hosted"], "targetKey": "denied/secret"});
    host.install("probe", &wasm, Some(&manifest(snoops).to_string()))?;
    plugins::wait_running(&host, "probe")?;
    let seen = |reason: &str, part: &str| {
        host.wait_for(&format!("event {reason} that says {part:?}"), SOON, || {
            let found = events(plane, "hosted", reason)?;
            let says =
                |event: &Value| event["message"].as_str().is_some_and(|message| message.contains(part));
            anyhow::Ok(found.into_iter().find(says))
        })
    };
    let loaded = seen("PluginLoaded", "plugin probe: generation 1 runs (sha256:")?;
    let regarding = &loaded["involvedObject"];
    ensure!(regarding["kind"] == "Pod" && regarding["name"] == "the-host", "{loaded:#}");
    ensure!(regarding["uid"] == pod["metadata"]["uid"], "{loaded:#}");
    ensure!(loaded["reportingComponent"] == "pilothouse" && loaded["type"] == "Normal", "{loaded:#}");
    let denied = seen("PluginDenied", "plugin probe: no permission to ")?;
    ensure!(denied["type"] == "Warning", "{denied:#}");

    host.install_manifest("probe", &manifest(json!({"mode": "trap", "namespaces": ["hosted"]})).to_string())?;
    seen("PluginReloaded", "plugin probe: generation 2 took over from generation 1 (sha256:")?;
    seen(
        "PluginQuarantined",
        "plugin probe quarantined for 1s after faults of 3 different keys; last fault: hosted/",
    )?;
    seen(
        "PluginRolledBack",
        "plugin probe: generation 3 runs; generation 2 was rolled back to generation 1, because its first calls faulted: hosted/",
    )?;
    host.install_manifest("probe", &manifest(json!({"mode": "describe-error"})).to_string())?;
    seen("PluginFailed", "plugin probe not loaded, keeping generation 3: ")?;
    host.remove("probe")?;
    seen("PluginRemoved", "plugin probe removed")?;

    // A watch shows all of them, as they come.
    for reason in ["Loaded", "Denied", "Reloaded", "Quarantined", "RolledBack", "Failed", "Removed"] {
        let what = format!("`pilothouse events --watch` to show Plugin{reason}");
        poll::until(&what, SOON, || {
            anyhow::Ok(!watch.output().matching(&format!("Plugin{reason}")).is_empty())
        })?;
    }
    if server == Server::Real {
        let described = plane.kubectl(&["describe", "pod", "the-host", "-n", "hosted"])?;
        for reason in ["PluginLoaded", "PluginDenied", "PluginReloaded", "PluginQuarantined", "PluginFailed"]
        {
            let shown = |line: &str| line.contains(reason) && line.contains("pilothouse  plugin probe");
            ensure!(described.lines().any(shown), "{reason}: {described}");
        }
    }
    Ok(())
}

/// Outside of a cluster the Namespace of the context stands for the host.
fn outside_of_a_cluster_the_host_records_on_a_namespace() -> Result<()> {
    let plane = ControlPlane::shared(Server::Real)?;
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    let manifest = Manifest::new("lonely").reads(&["configmaps"], "*");
    host.install("lonely", &guests::wasm("noop")?, Some(&manifest.to_string()))?;
    let event = host.wait_for("the event on the namespace", SOON, || {
        let found = events(plane, "default", "PluginLoaded")?;
        let of_lonely = |event: &Value| event["metadata"]["annotations"]["pilothouse.dev/plugin"] == "lonely";
        anyhow::Ok(found.into_iter().find(of_lonely))
    })?;
    let regarding = &event["involvedObject"];
    ensure!(regarding["kind"] == "Namespace" && regarding["name"] == "default", "{event:#}");
    let shown = plane.kubectl(&["events", "--for", "namespace/default"])?;
    ensure!(shown.contains("PluginLoaded"), "{shown}");
    Ok(())
}
