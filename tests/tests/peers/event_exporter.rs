//! The example `event-exporter`: Events go to a real OpenSearch, each once, whatever is restarted; and what it does of answers that
//! a real one does not give on demand, on a stub.

mod stub;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pilothouse_client::{ApiResource, Patch, WriteParams};
use pilothouse_object::Gvk;
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::controlplane::Server;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::load::Load;
use pilothouse_tests::opensearch::{Document, OpenSearch};
use pilothouse_tests::plugins::{self, Manifest};
use pilothouse_tests::{Cluster, ControlPlane, Host, Signal, guests};
use serde_json::{Value, json};
use stub::{Reply, Stub};
use tokio::runtime::Runtime;

pilothouse_tests::on_both_servers!(
    credentials_come_from_a_file_and_are_never_logged,
    an_api_key_is_sent_as_one,
    a_batch_has_no_more_events_and_bytes_than_allowed,
    what_was_not_taken_comes_again_and_nothing_else_does,
);

pilothouse_tests::on_the_real_server!(an_event_that_the_index_refuses_keeps_no_other_out);

pilothouse_tests::on_the_real_server!(
    full:
    what_is_sent_again_changes_nothing_and_what_changed_replaces_its_document,
    over_restarts_of_both_sides_the_index_has_each_event_once,
);

const NAME: &str = "event-exporter";

// The load of the test of all.
const EVENTS: u64 = 5_000;
const PER_SECOND: u32 = 200;
/// Every so many-th Event occurs a second time.
const AGAIN: u64 = 10;
/// How many Events are made while the search server is away.
const AWAY: u64 = 1_500;
/// How much more memory the host may have after that: no batch is kept, the Events are in the cache with 2 KB each, and the rest is
/// room for the allocator.
const GROWTH: u64 = 64 << 20;
/// For what is left when the load ends, the longest wait between two tries included.
const REST: Duration = Duration::from_secs(180);

fn event(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"namespace": namespace, "name": name},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": "web-1"},
        "reason": "Tested", "message": format!("this is {name}"), "type": "Normal", "count": 1,
        "firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:04:05Z",
        "source": {"component": "tests"},
    })
}

/// The manifest of an exporter of the Events of one namespace.
fn manifest(authority: &str, namespace: &str, config: &Value) -> Manifest {
    let mut all = json!({"endpoint": format!("http://{authority}"), "namespaces": [namespace]});
    for (field, value) in config.as_object().into_iter().flatten() {
        all[field] = value.clone();
    }
    Manifest::new(NAME)
        .reads(&["events"], namespace)
        .with("outgoingHosts", json!([authority]))
        .limits(json!({"callTimeout": "60s", "cpuPerCall": "30s"}))
        .config(all)
}

fn install(host: &Host, manifest: &Manifest) -> Result<()> {
    host.install(NAME, &guests::wasm(NAME)?, Some(&manifest.to_string()))
}

/// A namespace with some Events.
fn namespace(plane: &ControlPlane, name: &str, events: usize) -> Result<Cluster> {
    let cluster = Cluster::of(plane)?;
    cluster.namespace(name)?;
    (0..events).try_for_each(|nth| cluster.create(&event(name, &format!("e{nth}"))).map(drop))?;
    Ok(cluster)
}

// On the stub.

/// What a file with credentials makes of `Authorization`, on a server that at first takes none.
fn credentials(server: Server, namespace_name: &str, file: &Value, header: &str, secret: &str) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    namespace(plane, namespace_name, 1)?;
    let wanted = header.to_owned();
    let stub = Stub::start(move |nth, request| match request.authorization.as_ref() {
        Some(sent) if *sent == wanted && nth > 0 => Reply::items(request, |_| None),
        _ => Reply::status(401),
    })?;
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    let path = host.dir().join("credentials.json");
    fs::write(&path, file.to_string())?;
    let manifest = manifest(&stub.authority(), namespace_name, &json!({"batch": {"maxAge": "50ms"}}))
        .with("configFrom", json!([{"file": path}]));
    install(&host, &manifest)?;
    host.wait_for("a second request", SOON, || stub.received().len() >= 2)?;
    for request in stub.received() {
        assert_eq!(request.authorization.as_deref(), Some(header));
    }
    host.wait_for("the log to say what to do", SOON, || {
        !host.log().matching("does not take the credentials").is_empty()
    })?;
    assert_eq!(host.log().matching(secret), Vec::<String>::new());
    Ok(())
}

fn credentials_come_from_a_file_and_are_never_logged(server: Server) -> Result<()> {
    let file = json!({"username": "exporter", "password": "hunter-two"});
    credentials(server, "basic", &file, "Basic ZXhwb3J0ZXI6aHVudGVyLXR3bw==", "hunter-two")
}

fn an_api_key_is_sent_as_one(server: Server) -> Result<()> {
    let file = json!({"apiKey": "aWQ6c2VjcmV0"});
    credentials(server, "api-key", &file, "ApiKey aWQ6c2VjcmV0", "aWQ6c2VjcmV0")
}

fn a_batch_has_no_more_events_and_bytes_than_allowed(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let cluster = namespace(plane, "batches", 25)?;
    let stub = Stub::start(|_, request| Reply::items(request, |_| None))?;
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    let limits = json!({"batch": {"maxEvents": 10, "maxBytes": 16384, "maxAge": "1s"}});
    install(&host, &manifest(&stub.authority(), "batches", &limits))?;
    let names = |from: usize| -> Vec<usize> {
        stub.received()[from..].iter().map(|request| request.names().len()).collect()
    };
    host.wait_for("all that were there", SOON, || match names(0) {
        batches if batches.iter().sum::<usize>() == 25 => Ok(true),
        batches => Err(format!("{batches:?}")),
    })?;
    let (batches, before) = (names(0), stub.received().len());
    assert!(batches.iter().all(|size| *size <= 10) && batches.contains(&10), "{batches:?}");
    for request in stub.received() {
        assert!(request.line.starts_with("POST /_bulk?"), "{request:?}");
    }

    // Ten of 3,000 bytes each are too much for one request, and are sent at once, since there are ten.
    for nth in 0..10 {
        let mut large = event("batches", &format!("large-{nth}"));
        large["message"] = "x".repeat(3_000 / 3).into();
        large["reportingComponent"] = "y".repeat(100).into();
        large["metadata"]["annotations"] = json!({"filled.up": "z".repeat(2_000)});
        cluster.create(&large)?;
    }
    host.wait_for("the large ones", SOON, || names(before).iter().sum::<usize>() == 10)?;
    let sizes: Vec<usize> = stub.received()[before..].iter().map(|request| request.body.len()).collect();
    assert!(sizes.len() >= 2 && sizes.iter().all(|size| *size <= 16_384), "{sizes:?}");
    Ok(())
}

fn what_was_not_taken_comes_again_and_nothing_else_does(server: Server) -> Result<()> {
    let plane = ControlPlane::shared(server)?;
    let cluster = namespace(plane, "refused", 3)?;
    let stub = Stub::start(|nth, request| match nth {
        0 => Reply::status(503),
        1 => Reply::busy(3),
        2 => Reply::items(request, |name| match name {
            "e1" => Some(429),
            "e2" => Some(400),
            _ => None,
        }),
        _ => Reply::items(request, |_| None),
    })?;
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    install(&host, &manifest(&stub.authority(), "refused", &json!({"batch": {"maxAge": "1s"}})))?;
    host.wait_for("the fourth request", SOON, || stub.received().len() >= 4)?;
    // One that changes comes as well; then all that could come has come before it.
    let patch = json!({"count": 2});
    cluster.merge("v1/Event", "refused", "e2", &patch)?;
    host.wait_for("the changed Event", SOON, || {
        stub.received().iter().skip(3).any(|request| request.names().contains(&"e2".to_owned()))
    })?;
    let received = stub.received();
    let sorted = |nth: usize| {
        let mut names = received[nth].names();
        names.sort_unstable();
        names
    };
    for nth in 0..3 {
        assert_eq!(sorted(nth), ["e0", "e1", "e2"], "request {nth}");
    }
    let rest: Vec<Vec<String>> = (3..received.len()).map(sorted).collect();
    assert_eq!(rest, [["e1"], ["e2"]], "e0 was taken, e2 was not to be tried again before it changed");
    let waited = received[2].at - received[1].at;
    assert!(waited >= Duration::from_secs(3), "asked to wait for 3 s, it came after {waited:?}");
    let told = host.log().matching("the index does not take the Event");
    assert!(told.iter().any(|line| line.contains("not e2")), "{told:#?}");
    Ok(())
}

// On OpenSearch.

/// All documents of some indices, when there are so many.
fn documents(
    host: &Host,
    search: &OpenSearch,
    indices: &str,
    count: usize,
) -> Result<BTreeMap<String, Document>> {
    host.wait_for(&format!("{count} documents"), REST, || match search.documents(indices) {
        Ok(found) if found.len() == count => Ok(Some(found)),
        Ok(found) => Err(format!("{} documents", found.len())),
        Err(error) => Err(format!("{error:#}")),
    })
}

/// What the index must hold of an Event.
fn is_document_of(document: &Document, event: &Value, prefix: &str) -> Result<()> {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let day = text("/metadata/creationTimestamp").get(..10).context("a day")?.replace('-', ".");
    ensure!(document.index == format!("{prefix}-{day}"), "{document:?}");
    ensure!(document.version.to_string() == text("/metadata/resourceVersion"), "{document:?} of {event}");
    for pointer in ["/metadata/name", "/message", "/reason", "/count", "/involvedObject"] {
        ensure!(
            document.source.pointer(pointer) == event.pointer(pointer),
            "{pointer}: {document:?} of {event}"
        );
    }
    Ok(())
}

fn an_event_that_the_index_refuses_keeps_no_other_out() -> Result<()> {
    let search = OpenSearch::start()?;
    let plane = ControlPlane::shared(Server::Real)?;
    let cluster = namespace(plane, "refusing", 1)?;
    let numbers = json!({"mappings": {"properties": {"reason": {"type": "long"}}}});
    search.ask("PUT", "/refusing", &numbers.to_string())?;
    let mut fits = event("refusing", "fits");
    fits["reason"] = "42".into();
    cluster.create(&fits)?;

    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    install(&host, &manifest(&search.authority(), "refusing", &json!({"index": "refusing"})))?;
    let found = documents(&host, &search, "refusing", 1)?;
    assert!(found.values().all(|document| document.source["metadata"]["name"] == "fits"), "{found:?}");
    host.wait_for("the log to say which", SOON, || {
        let told = host.log().matching("the index does not take the Event");
        told.iter().any(|line| line.contains("mapper_parsing_exception") && line.contains("refusing/e0"))
    })?;
    // It comes again when it has changed.
    cluster.merge("v1/Event", "refusing", "e0", &json!({"reason": "43"}))?;
    documents(&host, &search, "refusing", 2).map(drop)
}

fn what_is_sent_again_changes_nothing_and_what_changed_replaces_its_document() -> Result<()> {
    let search = OpenSearch::start()?;
    let plane = ControlPlane::shared(Server::Real)?;
    let cluster = namespace(plane, "versions", 2)?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/event-exporter/index-template.json");
    let template = fs::read_to_string(path)?.replace("events-*", "versions-*");
    search.ask("PUT", "/_index_template/events", &template)?;
    // Without the template, the first would make a date of the message and an object of the label.
    let mut odd = event("versions", "odd");
    odd["message"] = "2026-01-02".into();
    odd["metadata"]["labels"] = json!({"app": "a", "app.kubernetes.io/name": "b"});
    cluster.create(&odd)?;

    let dir = tempfile::tempdir()?;
    let start = || {
        let dir = Some(dir.path().to_owned());
        Host::start(HostOptions { dir, ..HostOptions::new(plane.kubeconfig()) })
    };
    let host = start()?;
    let config = json!({"index": "versions-%Y.%m.%d", "batch": {"maxAge": "1s"}});
    install(&host, &manifest(&search.authority(), "versions", &config))?;
    let found = documents(&host, &search, "versions-*", 3)?;
    let newest = |name: &str| cluster.get("v1/Event", "versions", name)?.context("the Event is there");
    let writes = || -> Result<u64> {
        let stats = search.ask("GET", "/versions-*/_stats/docs,indexing", "")?;
        stats["_all"]["primaries"]["docs"]["deleted"].as_u64().context("no statistics")
    };
    for name in ["e0", "e1", "odd"] {
        let event = newest(name)?;
        let uid = event["metadata"]["uid"].as_str().context("a uid")?;
        is_document_of(&found[uid], &event, "versions")?;
    }

    // A host that starts exports everything there is.
    drop(host);
    cluster.create(&event("versions", "last"))?;
    let host = start()?;
    documents(&host, &search, "versions-*", 4)?;
    assert_eq!(writes()?, 0, "documents were written again");

    cluster.merge(
        "v1/Event",
        "versions",
        "e1",
        &json!({"count": 2, "lastTimestamp": "2026-01-03T00:00:00Z"}),
    )?;
    let changed = newest("e1")?;
    let uid = changed["metadata"]["uid"].as_str().context("a uid")?;
    host.wait_for("the new version", SOON, || {
        let found = search.documents("versions-*")?;
        is_document_of(&found[uid], &changed, "versions")?;
        ensure!(found[uid].source["@timestamp"] == "2026-01-03T00:00:00Z", "{found:?}");
        ensure!(found.len() == 4, "{found:?}");
        anyhow::Ok(true)
    })
}

/// Waits for so many documents of the test of all, or more.
fn at_least(host: &Host, search: &OpenSearch, count: usize) -> Result<()> {
    host.wait_for(&format!("{count} documents"), REST, || match search.documents("exported-*") {
        Ok(found) if found.len() >= count => Ok(true),
        Ok(found) => Err(format!("{} documents", found.len())),
        Err(error) => Err(format!("{error:#}")),
    })
}

/// The Events of a namespace by their uid, read by kubectl.
fn listed(plane: &ControlPlane, namespace: &str) -> Result<BTreeMap<String, Value>> {
    let path = format!("/api/v1/namespaces/{namespace}/events");
    let list: Value = serde_json::from_str(&plane.kubectl(&["get", "--raw", &path])?)?;
    let events = list["items"].as_array().context("a list without items")?;
    let by_uid = events.iter().map(|event| {
        let uid = event["metadata"]["uid"].as_str().context("an Event without a uid")?;
        Ok((uid.to_owned(), event.clone()))
    });
    by_uid.collect()
}

fn over_restarts_of_both_sides_the_index_has_each_event_once() -> Result<()> {
    let mut search = OpenSearch::start()?;
    let plane = ControlPlane::shared(Server::Real)?;
    namespace(plane, "exported", 0)?;
    let dir = tempfile::tempdir()?;
    let start = || {
        let dir = Some(dir.path().to_owned());
        Host::start(HostOptions { dir, ..HostOptions::new(plane.kubeconfig()) })
    };
    let host = start()?;
    install(&host, &manifest(&search.authority(), "exported", &json!({"index": "exported-%Y.%m.%d"})))?;
    plugins::wait_running(&host, NAME)?;

    let runtime = Runtime::new()?;
    let client = runtime.block_on(plane.client())?;
    let events = ApiResource::new(Gvk::new("", "v1", "Event"), "events", true);
    let events = client.dynamic().resource(&events).namespace("exported");
    let load = Load::start(runtime.handle(), PER_SECOND, move |nth| {
        let events = events.clone();
        async move {
            if nth >= EVENTS {
                return Ok(());
            }
            let (name, params) = (format!("event-{nth}"), WriteParams::default());
            events.create(&event("exported", &name), &params).await?;
            if nth % AGAIN == 0 {
                let again = json!({"count": 2, "lastTimestamp": "2026-01-03T00:00:00Z"}).to_string();
                events.patch(&name, Patch::Merge(again.as_bytes()), &params).await?;
            }
            Ok(())
        }
    });

    // The host first: once it starts again it exports everything, which would make up for what it lost before.
    load.wait_begun(EVENTS / 5, REST)?;
    at_least(&host, &search, 1)?;
    host.signal(Signal::KILL)?;
    host.wait_exit(SOON)?;
    drop(host);
    let host = start()?;
    at_least(&host, &search, usize::try_from(EVENTS / 5)?)?;

    let (before, away) = (host.process().resident_bytes()?, load.begun());
    search.stop(Signal::KILL)?;
    load.wait_begun(away + AWAY, REST)?;
    let grown = host.process().resident_bytes()?.saturating_sub(before);
    eprintln!("away for {} Events, the host grew by {} KiB", load.begun() - away, grown >> 10);
    assert!(grown < GROWTH, "the host grew by {grown} bytes");
    search.start_again()?;
    load.wait_begun(EVENTS, REST)?;
    let tally = load.stop();
    assert_eq!(tally.failed, 0, "{tally:?}");
    let ended = Instant::now();

    let count = usize::try_from(EVENTS)?;
    documents(&host, &search, "exported-*", count)?;
    let wanted = listed(plane, "exported")?;
    assert_eq!(wanted.len(), count);
    let found = host.wait_for("the newest versions", REST, || {
        let found = search.documents("exported-*")?;
        let newest = |(uid, event): (&String, &Value)| {
            is_document_of(found.get(uid).with_context(|| format!("no {uid}"))?, event, "exported")
        };
        wanted.iter().try_for_each(newest)?;
        anyhow::Ok(Some(found))
    })?;
    assert!(found.keys().eq(wanted.keys()), "each Event once, and nothing else");
    let again = found.values().filter(|document| document.source["count"] == 2).count();
    assert_eq!(again, count / usize::try_from(AGAIN)?);
    eprintln!("{EVENTS} Events in {:?}; all in the index {:?} later", tally.elapsed, ended.elapsed());
    Ok(())
}
