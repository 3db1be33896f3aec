//! Traces at a real OpenTelemetry collector: the spans of a reconcile with its write are one trace there, and a host goes on
//! when the collector is killed, and sends to it again when it is back. At full length only, since the collector is built for
//! it, and the host with the feature `traces`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::collector::{Collector, Span};
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::plugins::Manifest;
use pilothouse_tests::{ControlPlane, Stage, loglines};
use serde_json::json;

pilothouse_tests::on_the_real_server!(
    full: a_reconcile_is_one_trace_at_a_collector_that_is_killed_and_comes_back
);

const NAMESPACE: &str = "traces";
/// The plugin. It labels a Secret at each reconcile.
const NAME: &str = "tracer";
/// The spans of a reconcile with one write.
const SPANS: usize = 2;
/// The statuses of spans.
const UNSET: u8 = 0;
const ERROR: u8 = 2;

fn key(name: &str) -> String {
    format!("{NAMESPACE}/{name}")
}

fn is_of(span: &Span, name: &str) -> bool {
    span.attributes.get("pilothouse.key") == Some(&key(name))
}

/// Waits until the collector has a reconcile of an object that ended so, and returns the spans of its trace.
fn wait_traced(stage: &Stage, collector: &Collector, name: &str, status: u8) -> Result<Vec<Span>> {
    stage.host.wait_for(&format!("a trace of {name} with the status {status}"), SOON, || {
        let spans = collector.spans()?;
        // The host sends it after its parts.
        let whole =
            |span: &&Span| span.name == "reconcile" && is_of(span, name) && span.status.code == status;
        let Some(trace) = spans.iter().find(whole).map(|span| span.trace_id.clone()) else {
            return anyhow::Ok(None);
        };
        Ok(Some(spans.into_iter().filter(|span| span.trace_id == trace).collect::<Vec<_>>()))
    })
}

fn of_name<'a>(trace: &'a [Span], name: &str) -> Result<&'a Span> {
    trace.iter().find(|span| span.name == name).with_context(|| format!("no span {name}: {trace:#?}"))
}

/// Checks that the spans of a trace are linked and end as docs/observability.md has it.
fn check_spans(trace: &[Span], status: u8) -> Result<()> {
    ensure!(trace.len() == SPANS, "{trace:#?}");
    let [reconcile, write] = [of_name(trace, "reconcile")?, of_name(trace, "write")?];
    let parents = [reconcile, write].map(|span| span.parent_span_id.as_str());
    ensure!(parents == ["", reconcile.span_id.as_str()], "{trace:#?}");
    let time = |text: &str| text.parse::<u128>().context("a time");
    ensure!(time(&reconcile.start_time_unix_nano)? <= time(&write.start_time_unix_nano)?, "{trace:#?}");
    ensure!(time(&write.end_time_unix_nano)? <= time(&reconcile.end_time_unix_nano)?, "{trace:#?}");
    ensure!([reconcile, write].map(|span| span.kind) == [1, 3], "{trace:#?}");
    ensure!([reconcile, write].map(|span| span.status.code) == [status; 2], "{trace:#?}");
    ensure!(trace.iter().all(|span| span.service == "pilothouse"), "{trace:#?}");
    Ok(())
}

/// Checks all attributes of a span, but for the time in the queue, which is a number.
fn check_attributes(span: &Span, expected: &[(&str, &str)]) -> Result<()> {
    let mut attributes: BTreeMap<&str, &str> =
        span.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let queued = attributes.remove("pilothouse.queued_ms").map(str::parse::<u64>);
    ensure!(queued.is_some() == (span.name == "reconcile"), "{span:#?}");
    queued.transpose()?;
    let expected: BTreeMap<&str, &str> = expected.iter().copied().collect();
    ensure!(attributes == expected, "{attributes:#?} are not {expected:#?}");
    Ok(())
}

fn a_reconcile_is_one_trace_at_a_collector_that_is_killed_and_comes_back() -> Result<()> {
    let mut collector = Collector::start()?;
    let plane = ControlPlane::shared(Server::Real)?;
    let mut options = HostOptions::new(plane.kubeconfig());
    let url = collector.url();
    options.args = ["--otlp-endpoint", url.as_str(), "--trace-ratio", "1"].map(str::to_owned).into();
    let stage = Stage::with(plane, NAMESPACE, options)?;
    let manifest = Manifest::new(NAME)
        .reads(&["configmaps"], NAMESPACE)
        .grant(&["secrets"], &["patch"], &[NAMESPACE])
        .config(json!({
            "mode": "write", "namespaces": [NAMESPACE], "onlyPrefix": "go", "targetKind": "v1/Secret",
            "targetKey": key("target"),
        }));
    stage.install(NAME, "probe", &manifest)?;

    // The first try of a key whose write is refused, and the one that ends its retries.
    stage.cluster.config_map(NAMESPACE, "go-1")?;
    let refused = wait_traced(&stage, &collector, "go-1", ERROR)?;
    check_spans(&refused, ERROR)?;
    let line = loglines::said(&stage.host, NAME, "begin").into_iter().find(|line| line.key == key("go-1"));
    let call = line.and_then(|line| line.call).context("no line of the call")?.to_string();
    let own_key = key("go-1");
    let mut attributes = [
        ("pilothouse.plugin", NAME),
        ("pilothouse.generation", "1"),
        ("pilothouse.call", call.as_str()),
        ("pilothouse.key", own_key.as_str()),
        ("pilothouse.keys", "1"),
        ("pilothouse.reasons", "added"),
        ("pilothouse.attempt", "0"),
    ];
    check_attributes(of_name(&refused, "reconcile")?, &attributes)?;
    let write = [
        ("http.response.status_code", "404"),
        ("k8s.verb", "patch"),
        ("k8s.group", ""),
        ("k8s.resource", "secrets"),
        ("k8s.namespace", NAMESPACE),
        ("k8s.name", "target"),
    ];
    check_attributes(of_name(&refused, "write")?, &write)?;
    stage.cluster.create(&json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": NAMESPACE, "name": "target"},
    }))?;
    let done = wait_traced(&stage, &collector, "go-1", UNSET)?;
    check_spans(&done, UNSET)?;
    check_attributes(of_name(&done, "write")?, &write[1..])?;
    let whole = of_name(&done, "reconcile")?;
    let number = |name: &str| whole.attributes.get(name).cloned().unwrap_or_default();
    let (call, attempt) = (number("pilothouse.call"), number("pilothouse.attempt"));
    ensure!(attempt.parse::<u64>()? > 0, "{whole:#?}");
    attributes[2].1 = call.as_str();
    attributes[5].1 = "requeued";
    attributes[6].1 = attempt.as_str();
    check_attributes(whole, &attributes)?;

    collector.kill();
    stage.cluster.config_map(NAMESPACE, "go-2")?;
    stage.host.wait_for("a call without a collector", SOON, || {
        loglines::said(&stage.host, NAME, "end").iter().any(|line| line.key == key("go-2"))
    })?;
    stage.host.wait_for("a line about its spans", SOON, || {
        !loglines::events(&stage.host, "traces_not_exported").is_empty()
    })?;

    collector.start_again()?;
    stage.cluster.config_map(NAMESPACE, "go-3")?;
    check_spans(&wait_traced(&stage, &collector, "go-3", UNSET)?, UNSET)?;
    ensure!(!collector.spans()?.iter().any(|span| is_of(span, "go-2")), "what was lost was sent again");
    Ok(())
}
