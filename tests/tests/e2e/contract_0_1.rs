//! Contract 0.1 goes on being served: components that were built against it, kept as files in `tests/contract/0.1`, one of each
//! world, do what they did.

use anyhow::{Context as _, Result};
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::loglines;
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{Stage, guests};
use serde_json::{Value, json};

pilothouse_tests::on_both_servers!(
    a_reconciler_reads_and_writes,
    a_reconciler_fails_and_is_called_again,
    a_reconciler_records_events,
    a_reconciler_sends_requests_only_where_it_may,
    a_batch_reconciler_answers_for_each_key,
    an_event_handler_is_told_of_changes,
    a_controller_queues_keys,
    a_full_queue_is_a_fault_that_names_the_limit,
    a_call_beyond_a_bound_is_a_fault_that_names_it,
);

/// Installs a stored component as a plugin of its name.
fn install(stage: &Stage, component: &str, manifest: &Manifest) -> Result<()> {
    stage.install_file(component, &guests::stored("0.1", component), manifest)
}

/// The fields of the lines that a plugin wrote with this message, once there are so many.
fn fields(stage: &Stage, plugin: &str, message: &str, count: usize, name: &str) -> Result<Vec<String>> {
    stage.host.wait_for(&format!("{count} lines {message:?} of {plugin}"), SOON, || {
        let lines = loglines::said(&stage.host, plugin, message);
        (lines.len() >= count).then(|| lines.iter().map(|line| line.field(name).to_owned()).collect())
    })
}

/// What a plugin has said, once it has said this last.
fn said(stage: &Stage, plugin: &str, last: &str) -> Result<Vec<String>> {
    stage.host.wait_for(&format!("{plugin} to say {last:?}"), SOON, || {
        let lines =
            loglines::of_plugin(&stage.host, plugin).into_iter().filter(|line| line.target == "guest");
        let said: Vec<String> = lines.map(|line| line.message).collect();
        said.iter().any(|message| message == last).then_some(said)
    })
}

fn probe(stage: &Stage, config: &Value) -> Manifest {
    let mut all = json!({"namespaces": [stage.namespace], "onlyPrefix": "go"});
    for (name, value) in config.as_object().into_iter().flatten() {
        all[name] = value.clone();
    }
    const VERBS: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];
    Manifest::new("probe").grant(&["configmaps"], &VERBS, &[stage.namespace]).config(all)
}

fn a_reconciler_reads_and_writes(server: Server) -> Result<()> {
    let stage = Stage::new(server, "old-reconciler")?;
    let target = json!({"mode": "snoop", "targetKind": "v1/ConfigMap", "targetKey": "old-reconciler/target"});
    install(&stage, "probe", &probe(&stage, &target))?;
    stage.cluster.config_map(stage.namespace, "go")?;
    let calls = fields(&stage, "probe", "snoop", 12, "call")?;
    let reasons = fields(&stage, "probe", "snoop", 12, "reason")?;
    let of = |call: &str| calls.iter().position(|other| other == call).map(|at| reasons[at].as_str());
    // There is no such object at first, and the last call deletes it.
    for (call, reason) in [
        ("cache.get", "ok"),
        ("cache.list", "ok"),
        ("cache.keys", "ok"),
        ("client.get", "NotFound"),
        ("client.list", "ok"),
        ("client.create", "ok"),
        ("client.update", "ok"),
        // ConfigMaps have no status, and the manifest does not grant it.
        ("client.update-status", "forbidden"),
        ("client.patch-merge", "ok"),
        ("client.patch-json", "ok"),
        ("client.apply", "ok"),
        ("client.delete", "ok"),
    ] {
        assert_eq!(of(call), Some(reason), "{call}: {calls:?} {reasons:?}");
    }
    assert_eq!(stage.cluster.get("v1/ConfigMap", stage.namespace, "target")?, None);
    Ok(())
}

fn a_reconciler_fails_and_is_called_again(server: Server) -> Result<()> {
    let stage = Stage::new(server, "old-failures")?;
    install(&stage, "probe", &probe(&stage, &json!({"mode": "fail", "count": 2})))?;
    stage.cluster.config_map(stage.namespace, "go")?;
    let attempts = fields(&stage, "probe", "begin", 3, "attempt")?;
    assert_eq!(attempts, ["0", "1", "2"]);
    Ok(())
}

fn a_reconciler_records_events(server: Server) -> Result<()> {
    let stage = Stage::new(server, "old-events")?;
    let config = json!({"events": [
        {"reason": "Plain", "note": "about the object", "annotation": ["example.com/a", "b"]},
        {"reason": "Late", "note": "at no time", "timestamp": "today"},
    ]});
    let manifest = Manifest::new("recorder").config(config).reads(&["configmaps"], stage.namespace).grant(
        &["events"],
        &["create"],
        &[stage.namespace],
    );
    stage.cluster.config_map(stage.namespace, "web")?;
    install(&stage, "recorder", &manifest)?;
    let results = fields(&stage, "recorder", "recorded", 2, "result")?;
    assert_eq!(results[0], "ok");
    assert!(results[1].ends_with("(invalid)"), "{results:?}");
    let event = stage.host.wait_for("the event", SOON, || {
        let events = stage.cluster.list("v1/Event", stage.namespace)?;
        anyhow::Ok(events.into_iter().find(|event| event["reason"] == "Plain"))
    })?;
    assert_eq!(event["message"], "about the object");
    assert_eq!(event["involvedObject"]["name"], "web");
    assert_eq!(event["metadata"]["annotations"]["example.com/a"], "b");
    Ok(())
}

fn a_reconciler_sends_requests_only_where_it_may(server: Server) -> Result<()> {
    let stage = Stage::new(server, "old-requests")?;
    let admin = stage.host.admin();
    let host = admin.strip_prefix("http://").context("the admin address")?;
    let urls = [format!("{admin}/livez"), "http://elsewhere.example:1/".to_owned()];
    let manifest = probe(&stage, &json!({"mode": "http", "request": {"urls": urls}}))
        .with("outgoingHosts", json!([host]));
    install(&stage, "probe", &manifest)?;
    stage.cluster.config_map(stage.namespace, "go")?;
    let statuses = fields(&stage, "probe", "http", 2, "status")?;
    let kinds = fields(&stage, "probe", "http", 2, "kind")?;
    assert_eq!((statuses[0].as_str(), kinds[1].as_str()), ("200", "Denied"), "{statuses:?} {kinds:?}");
    Ok(())
}

fn a_batch_reconciler_answers_for_each_key(server: Server) -> Result<()> {
    let stage = Stage::new(server, "old-batches")?;
    for (name, what) in [("fails", "fail"), ("final", "terminal"), ("fine", "done"), ("later", "later")] {
        stage.cluster.create(&json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": stage.namespace, "name": name}, "data": {"do": what},
        }))?;
    }
    let config = json!({"namespaces": [stage.namespace], "linger": "1s"});
    install(&stage, "batch", &Manifest::new("batch").config(config).reads(&["configmaps"], stage.namespace))?;
    stage.host.wait_for("one outcome of each kind", SOON, || {
        let metrics = stage.host.metrics()?;
        let total = "controller_runtime_reconcile_total";
        let of =
            |result| metrics.sum(total, &[("controller", "batch"), ("result", result)]).unwrap_or_default();
        let terminal =
            metrics.sum("controller_runtime_terminal_reconcile_errors_total", &[("controller", "batch")]);
        anyhow::Ok(
            [of("success"), of("requeue_after"), terminal.unwrap_or_default()] == [1.0; 3]
                && of("error") >= 2.0,
        )
    })
}

fn an_event_handler_is_told_of_changes(server: Server) -> Result<()> {
    let stage = Stage::new(server, "old-handler")?;
    stage.cluster.config_map(stage.namespace, "one")?;
    let manifest = Manifest::new("events-only").reads(&["configmaps"], stage.namespace);
    install(&stage, "events-only", &manifest)?;
    said(&stage, "events-only", "add old-handler/one")?;
    stage.cluster.change(stage.namespace, "one", "other")?;
    said(&stage, "events-only", "update old-handler/one")?;
    stage.cluster.delete("v1/ConfigMap", stage.namespace, "one")?;
    let said = said(&stage, "events-only", "delete old-handler/one")?;
    let wanted = ["add", "update", "delete"].map(|event| format!("{event} old-handler/one"));
    assert_eq!(said, wanted);
    Ok(())
}

fn a_controller_queues_keys(server: Server) -> Result<()> {
    let stage = Stage::new(server, "old-controller")?;
    stage.cluster.config_map(stage.namespace, "one")?;
    install(&stage, "handlers", &Manifest::new("handlers").reads(&["configmaps"], stage.namespace))?;
    let said = said(&stage, "handlers", "reconcile old-controller/one")?;
    assert_eq!(said, ["add old-controller/one", "reconcile old-controller/one"]);
    let status = plugins::status(&stage.host, "handlers")?;
    assert_eq!((status.queue_depth, status.last_error), (0, None));
    Ok(())
}

/// Kind and message of the first fault of a plugin at the key `go`.
fn fault(stage: &Stage, plugin: &str) -> Result<(String, String)> {
    let key = format!("{}/go", stage.namespace);
    stage.host.wait_for(&format!("a fault of {plugin}"), SOON, || {
        let faults = loglines::faults(&stage.host, plugin);
        faults.into_iter().find(|fault| fault.key == key).map(|fault| (fault.fault, fault.message))
    })
}

fn a_full_queue_is_a_fault_that_names_the_limit(server: Server) -> Result<()> {
    let stage = Stage::new(server, "old-floods")?;
    let flood = probe(&stage, &json!({"mode": "flood", "count": 200})).limits(json!({"queueDepth": 100}));
    install(&stage, "probe", &flood)?;
    stage.cluster.config_map(stage.namespace, "go")?;
    let (kind, message) = fault(&stage, "probe")?;
    assert_eq!(kind, "limit", "{message}");
    // It adds to its own queue, in which its key is, too.
    for words in ["the queue is full: it may have 100 keys (limits.queueDepth)", "the plugin adds flood-9"] {
        assert!(message.contains(words), "{message}");
    }
    Ok(())
}

fn a_call_beyond_a_bound_is_a_fault_that_names_it(server: Server) -> Result<()> {
    let stage = Stage::new(server, "old-bounds")?;
    stage.cluster.create(&json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"large": "x".repeat(100 << 10)},
        "metadata": {"name": "go", "namespace": stage.namespace},
    }))?;
    for (mode, words) in [
        ("many-pointers", "20000 pointers, at most 64 are allowed (limits.getManyPointers)"),
        ("whole-objects", "the empty pointer"),
        ("kept-handles", "(limits.handleBytes)"),
    ] {
        let config = json!({"mode": mode, "onlyPrefix": "go", "namespaces": [stage.namespace]});
        // Time enough on a slow machine to reach the bound.
        let manifest = Manifest::new(mode)
            .reads(&["configmaps"], stage.namespace)
            .config(config)
            .limits(json!({"cpuPerCall": "50s", "callTimeout": "1m"}));
        // It may never run for long.
        let wasm = guests::stored("0.1", "hostile");
        stage.host.install(mode, &wasm, Some(&manifest.to_string()))?;
        let (kind, message) = fault(&stage, mode)?;
        assert!(kind == "limit" && message.contains(words), "{mode}: {kind} {message}");
    }
    Ok(())
}
