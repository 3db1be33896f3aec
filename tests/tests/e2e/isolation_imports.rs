//! Guests that attack the host through their imports: each call ends with a refusal or a fault that names the bound, the host
//! lives on, and the neighbour is called meanwhile. What a fault does to a plugin's keys is in `bad_guests.rs`.
//!
//! Each test has a host and a namespace of its own. The hostile plugins are of the fixture `hostile`, one mode each; only
//! keys that begin with `bad` are treated so.

use anyhow::Result;
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{Stage, guests, loglines};
use serde_json::{Value, json};

pilothouse_tests::on_both_servers!(
    a_call_beyond_a_bound_ends_with_its_name,
    a_cursor_gives_no_more_than_a_page_however_much_is_asked_for,
    versions_that_nobody_serves_cost_no_requests_of_their_own,
    a_guest_cannot_write_lines_of_others_or_drown_them,
    describe_reads_writes_and_queues_nothing,
);

const MEBIBYTE: u64 = 1 << 20;

fn hostile(stage: &Stage, name: &str, mode: &str, mut config: Value) -> Manifest {
    config["mode"] = json!(mode);
    config["onlyPrefix"] = json!("bad");
    config["namespaces"] = json!([stage.namespace]);
    Manifest::new(name).reads(&["configmaps"], stage.namespace).config(config)
}

/// A stage with a plugin `neighbour` and an object of 100 KB.
fn stage(server: Server, namespace: &'static str) -> Result<Stage> {
    let stage = Stage::new(server, namespace)?;
    let config = json!({"namespaces": [namespace]});
    let neighbour = Manifest::new("neighbour").reads(&["configmaps"], namespace).config(config);
    stage.install("neighbour", "probe", &neighbour)?;
    stage.cluster.create(&json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"large": "x".repeat(100 << 10)},
        "metadata": {"name": "bad", "namespace": namespace},
    }))?;
    Ok(stage)
}

/// Makes an object and waits until the neighbour is called for it.
fn neighbour_goes_on(stage: &Stage, name: &str) -> Result<()> {
    let key = format!("{}/{name}", stage.namespace);
    stage.cluster.config_map(stage.namespace, name)?;
    stage.host.wait_for(&format!("the neighbour to be called for {name}"), SOON, || {
        loglines::said(&stage.host, "neighbour", "end").iter().any(|line| line.key == key)
    })
}

fn a_call_beyond_a_bound_ends_with_its_name(server: Server) -> Result<()> {
    let stage = stage(server, "beyond")?;
    stage.host.process().reset_peak()?;
    let before = stage.host.process().resident_bytes()?;
    for (name, mode, kind, words) in [
        ("many", "many-pointers", "", "20000 pointers, at most 64 are allowed (limits.getManyPointers)"),
        ("whole", "whole-objects", "", "the empty pointer"),
        ("kept", "kept-handles", "", "(limits.handleBytes)"),
        ("writes", "refused-writes", "cpu", "(limits.cpuPerCall)"),
    ] {
        // Time enough on a slow machine to reach the bound of each.
        let manifest = hostile(&stage, name, mode, json!({"bytes": 2 << 20}))
            .limits(json!({"cpuPerCall": if kind == "cpu" { "500ms" } else { "50s" }, "callTimeout": "1m"}));
        stage.host.install(name, &guests::wasm("hostile")?, Some(&manifest.to_string()))?;
        // What is refused, the guest hears and answers as its failure.
        let event = if kind.is_empty() { "reconcile_failed" } else { "plugin_fault" };
        stage.host.wait_for(&format!("{event} of {name}"), SOON, || {
            let lines = loglines::plugin_events(&stage.host, name, event);
            let line = lines.iter().find(|line| line.key == "beyond/bad");
            line.map(|line| {
                assert!(line.fault == kind && line.message.contains(words), "{name}: {line:?}");
            })
        })?;
        neighbour_goes_on(&stage, &format!("good-{name}"))?;
    }
    assert_eq!(loglines::faults(&stage.host, "neighbour"), []);
    // At the peak: four hostile plugins, each with an instance and what is behind its handles. Without a bound, the pages of
    // 20,000 copies of 100 KB alone are 2 GB.
    let grown = stage.host.process().peak_resident_bytes()?.saturating_sub(before) / MEBIBYTE;
    assert!(grown < 4 * 64 + 64, "the host grew by {grown} MiB");
    Ok(())
}

fn a_cursor_gives_no_more_than_a_page_however_much_is_asked_for(server: Server) -> Result<()> {
    let stage = stage(server, "pages")?;
    for n in 0..15 {
        stage.cluster.config_map(stage.namespace, &format!("more-{n}"))?;
    }
    for (name, limits, wanted) in [("short", json!({"pageObjects": 4}), 4..=4), ("long", json!({}), 16..=100)]
    {
        let greedy = hostile(&stage, name, "greedy-cursor", json!({})).limits(limits);
        stage.install(name, "hostile", &greedy)?;
        let page = stage.host.wait_for(&format!("the page of {name}"), SOON, || {
            loglines::said(&stage.host, name, "page")
                .first()
                .map(|line| line.field("objects").parse::<usize>())
        })??;
        assert!(wanted.contains(&page), "{name}: {page}");
    }
    neighbour_goes_on(&stage, "good")
}

fn versions_that_nobody_serves_cost_no_requests_of_their_own(server: Server) -> Result<()> {
    const VERSIONS: u32 = 500;
    let stage = stage(server, "versions")?;
    let things = json!([
        {"groups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"], "namespaces": [stage.namespace]},
        {"groups": ["hostile.example"], "resources": ["*"], "verbs": ["get"], "namespaces": ["*"]},
    ]);
    let hostile = hostile(&stage, "versions", "unknown-versions", json!({"count": VERSIONS}))
        .with("permissions", things)
        .limits(json!({"cpuPerCall": "50s", "callTimeout": "1m"}));
    let requests = || {
        let metrics = stage.host.metrics()?;
        anyhow::Ok(metrics.sum("rest_client_requests_total", &[("method", "GET")]).unwrap_or_default())
    };
    let before = requests()?;
    stage.install("versions", "hostile", &hostile)?;
    let key = "versions/bad";
    stage.host.wait_for("the end of the call", SOON, || {
        loglines::said(&stage.host, "versions", "end")
            .iter()
            .any(|line| line.field("key") == key || line.key == key)
    })?;
    let asked = requests()? - before;
    // The plugin's own lists and watches, and the list of groups now and then.
    assert!(asked < f64::from(VERSIONS) / 5.0, "{asked} requests for {VERSIONS} versions");
    assert_eq!(loglines::faults(&stage.host, "versions"), []);
    neighbour_goes_on(&stage, "good")
}

fn a_guest_cannot_write_lines_of_others_or_drown_them(server: Server) -> Result<()> {
    let stage = stage(server, "forgers")?;
    for (name, mode, config) in [
        ("line", "forged-line", json!({})),
        ("failure", "forged-failure", json!({})),
        ("flood", "log-flood", json!({"count": 4000, "bytes": 8000})),
    ] {
        // So little a second that no machine is too slow for the flood to exceed it.
        let manifest = hostile(&stage, name, mode, config).limits(json!({"logBytes": "1Ki"})).to_string();
        stage.host.install(name, &guests::wasm("hostile")?, Some(&manifest))?;
    }
    let forger = hostile(&stage, "describer", "forged-describe", json!({})).to_string();
    stage.host.install("describer", &guests::wasm("hostile")?, Some(&forger))?;
    for (name, found) in
        [("line", "hello\\n2026"), ("failure", "hello\\n2026"), ("describer", "hello\\n2026")]
    {
        stage.host.wait_for(&format!("the text of {name}"), SOON, || {
            loglines::of_plugin(&stage.host, name).iter().any(|line| line.message.contains(found))
        })?;
    }
    // JSON escapes line breaks by itself, so the parsed messages are looked at.
    for name in ["line", "failure", "describer"] {
        for line in loglines::of_plugin(&stage.host, name) {
            assert!(!line.message.contains(char::is_control), "{line:?}");
            assert!(!line.fields.values().any(|value| value.contains(char::is_control)), "{line:?}");
        }
    }
    let failed = plugins::status(&stage.host, "describer")?.last_error.unwrap_or_default();
    assert!(failed.contains("hello\\n2026") && !failed.contains(char::is_control), "{failed}");

    stage.host.wait_for("the flood to be cut", SOON, || {
        !loglines::plugin_events(&stage.host, "flood", "plugin_log_dropped").is_empty()
    })?;
    neighbour_goes_on(&stage, "good")?;
    // 32 MB were written by the guest; the burst is 64 KiB, and 1 KiB a second comes after it.
    let lines = loglines::of_plugin(&stage.host, "flood");
    let bytes: usize = lines.iter().map(|line| line.message.len()).sum();
    let seconds = match (lines.first(), lines.last()) {
        (Some(first), Some(last)) => last.seconds_since(first),
        _ => 0.0,
    };
    assert!(bytes as f64 <= (65.0 + seconds) * 1024.0, "{bytes} bytes in {seconds} s");
    Ok(())
}

fn describe_reads_writes_and_queues_nothing(server: Server) -> Result<()> {
    let stage = stage(server, "describers")?;
    let verbs = ["get", "list", "watch", "create"];
    let namespaces = [stage.namespace, "default"];
    let active = hostile(&stage, "active", "active-describe", json!({}))
        .grant(&["configmaps"], &verbs, &namespaces)
        .grant(&["events"], &["create"], &namespaces);
    stage.install("active", "hostile", &active)?;
    let said: Vec<(String, String)> = loglines::said(&stage.host, "active", "describe")
        .iter()
        .map(|line| (line.field("what").to_owned(), line.field("said").to_owned()))
        .collect();
    for what in ["cache.get", "client.get", "client.create", "events.record"] {
        let refused = said.iter().any(|(call, said)| call == what && said.contains("in describe"));
        assert!(refused, "{what}: {said:?}");
    }
    assert_eq!(stage.cluster.get("configmap", "default", "described")?, None);

    let queueing = hostile(&stage, "queueing", "queueing-describe", json!({})).to_string();
    stage.host.install("queueing", &guests::wasm("hostile")?, Some(&queueing))?;
    let failed =
        plugins::wait_until(&stage.host, "queueing", "to fail", |status| status.last_error.is_some())?;
    assert!(failed.last_error.is_some_and(|error| error.contains("no keys can be queued in describe")));
    neighbour_goes_on(&stage, "good")
}
