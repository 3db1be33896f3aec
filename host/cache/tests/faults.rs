//! An informer on the development server while that does what real servers do wrong: at rest, the store is what a fresh
//! list shows. Each fault in both modes: list and watch, and streaming lists.
//!
//! The faults are in force from before the informer's first request until one has hit and the objects have changed; the
//! server is real, and so is the clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use pilothouse_cache::{ClientListerWatcher, InformerOptions, ReflectorOptions, SharedInformer};
use pilothouse_client::{ApiResource, Client, ClientOptions, DeleteParams, ListParams, WriteParams};
use pilothouse_devserver::{DevServer, DevServerOptions, Fault, FaultRule, When};
use pilothouse_object::{Gvk, Object, ObjectKey};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

const OBJECTS: u32 = 12;
/// Far more than any way back takes: backoffs of a few seconds, a minute without the bookmark.
const DEADLINE: Duration = Duration::from_secs(120);
const TICK: Duration = Duration::from_millis(20);

fn config_maps() -> ApiResource {
    ApiResource {
        verbs: ["get", "list", "watch", "create", "update", "delete"].map(str::to_owned).to_vec(),
        ..ApiResource::new(Gvk::new("", "v1", "ConfigMap"), "configmaps", true)
    }
}

struct Cluster {
    server: DevServer,
    client: Client,
    writer: Client,
}

impl Cluster {
    async fn start() -> Self {
        let options =
            DevServerOptions { bookmark_every: Duration::from_millis(100), ..DevServerOptions::default() };
        let server = DevServer::start(options).await.expect("a server");
        let client = async |agent: &str, request_timeout| {
            let options = ClientOptions {
                server: Some(server.url()),
                user_agent: agent.to_owned(),
                request_timeout,
                ..ClientOptions::default()
            };
            Client::new(options).await.expect("a client")
        };
        // Answers that never come are given up soon.
        let reader = client("reader", Duration::from_secs(1)).await;
        let writer = client("writer", Duration::from_secs(30)).await;
        Self { client: reader, writer, server }
    }

    async fn put(&self, number: u32, round: u32) {
        let key: ObjectKey = format!("default/c{number}").parse().expect("a key");
        let body = |version: &str| {
            serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"round": round.to_string()},
                "metadata": {"name": key.name(), "namespace": "default", "resourceVersion": version,
                    "labels": {"number": number.to_string()}}})
            .to_string()
        };
        let (resource, params) = (config_maps(), WriteParams::default());
        let written = match self.writer.get(&resource, &key, None).await {
            Ok(object) => {
                let body = body(object.resource_version());
                self.writer.update(&resource, &key, body.as_bytes(), &params).await
            }
            Err(error) if error.is_not_found() => {
                self.writer.create(&resource, Some("default"), body("").as_bytes(), &params).await
            }
            Err(error) => Err(error),
        };
        written.unwrap_or_else(|error| panic!("{key}: {error}"));
    }

    async fn delete(&self, number: u32) {
        let key: ObjectKey = format!("default/c{number}").parse().expect("a key");
        match self.writer.delete(&config_maps(), &key, &DeleteParams::default()).await {
            Err(error) if !error.is_not_found() => panic!("{key}: {error}"),
            _ => {}
        }
    }

    /// Creates, changes, deletes and re-creates objects.
    async fn churn(&self, round: u32) {
        for number in 0..OBJECTS {
            match (number + round) % 4 {
                0 => self.delete(number).await,
                1 => {
                    self.delete(number).await;
                    self.put(number, round).await;
                }
                _ => self.put(number, round).await,
            }
        }
    }

    fn hits(&self) -> u64 {
        self.server.faults().list().iter().map(|state| state.hits).sum()
    }
}

fn view(objects: &[Object]) -> BTreeMap<String, (String, String)> {
    let entry = |o: &Object| (o.key().to_string(), (o.uid().to_owned(), o.resource_version().to_owned()));
    objects.iter().map(entry).collect()
}

/// One fault, in one mode.
struct Case {
    streaming: bool,
    verb: &'static str,
    fault: Fault,
    when: When,
    /// Whether only a list shows what was lost.
    relist: bool,
}

async fn survive(case: Case) {
    let Case { streaming, verb, fault, when, relist } = case;
    let name = format!("{fault:?} of {verb}, streaming: {streaming}");
    let cluster = Cluster::start().await;
    cluster.churn(0).await;
    cluster.server.faults().add(FaultRule::on(verb, "configmaps", fault).when(when));
    let reflector =
        ReflectorOptions { watch_list: streaming, check_watch_lists: true, ..ReflectorOptions::default() };
    // A watch ends in the test's time, as others do in theirs.
    let source = ClientListerWatcher::new(cluster.client.clone(), config_maps(), Some("default"))
        .watch_params(|params| params.timeout_seconds = Some(3));
    let options = InformerOptions { reflector, ..InformerOptions::default() };
    let informer = SharedInformer::new(Arc::new(source), config_maps(), Some("default"), options);
    let (run, cancel) = (informer.clone(), CancellationToken::new());
    let token = cancel.clone();
    let task = tokio::spawn(async move { run.run(token).await });

    let weather = async {
        let mut round = 1;
        loop {
            cluster.churn(round).await;
            round += 1;
            // The objects change while a fault is about, not only before it.
            if cluster.hits() > 0 && round > 3 {
                return;
            }
            sleep(TICK).await;
        }
    };
    timeout(DEADLINE, weather).await.unwrap_or_else(|_| panic!("{name}: it never hit"));
    cluster.server.faults().clear();
    if relist {
        informer.relist();
    }
    cluster.churn(99).await;
    let list = cluster
        .writer
        .list_all(&config_maps(), Some("default"), &ListParams::default())
        .await
        .expect("a list");
    let truth = view(&list.items);
    let settled = async {
        informer.indexer().wait_until_seen(&list.meta.resource_version).await;
        // What was lost comes with the list that was asked for, if that is still under way.
        while relist && view(&informer.indexer().list()) != truth {
            sleep(TICK).await;
        }
    };
    if timeout(DEADLINE, settled).await.is_err() {
        panic!("{name}: it never caught up: {:?}", informer.status().reflector);
    }
    assert_eq!(view(&informer.indexer().list()), truth, "{name}");
    assert_eq!(informer.metrics().reflector_inconsistent_watch_lists_total, 0, "{name}");
    cancel.cancel();
    task.await.expect("the run does not panic");
    cluster.server.shutdown().await;
}

/// Every fault that lists and watches can have, but a connection that dies under an open watch: nothing tells of it before
/// the watch is half a minute over its time, or a ping goes unanswered for three quarters of one.
fn cases(streaming: bool) -> Vec<Case> {
    let case = |verb, fault, when| Case { streaming, verb, fault, when, relist: false };
    let status = |code, retry_after| Fault::Status { code, retry_after };
    let mut cases = vec![
        case("watch", Fault::Delay { milliseconds: 200 }, When::default()),
        case("watch", status(403, None), When::first(2)),
        case("watch", status(404, None), When::first(2)),
        case("watch", status(429, Some(1)), When::first(2)),
        case("watch", status(500, None), When::first(2)),
        case("watch", status(503, Some(1)), When::first(2)),
        case("watch", status(504, None), When::first(2)),
        case("watch", Fault::Reset, When::first(2)),
        // The first is noticed when no answer comes, the second when the watch's time is up.
        case("watch", Fault::HalfOpen, When::first(2)),
        case("watch", Fault::Silent, When::first(2)),
        case("watch", Fault::Tear { after: 0 }, When::first(2)),
        case("watch", Fault::Tear { after: 5 }, When::first(4)),
        case("watch", Fault::Gone { after: None }, When::first(2)),
        case("watch", Fault::Gone { after: Some(5) }, When::first(4)),
        case("watch", Fault::TooLargeVersion, When::first(2)),
        case("watch", Fault::Duplicate, When::default()),
        Case { relist: true, ..case("watch", Fault::OutOfOrder, When::first(1)) },
        case("watch", Fault::ContentType { value: "text/html".to_owned() }, When::first(2)),
    ];
    if streaming {
        cases.push(case("watch", Fault::NoInitialEventsEnd, When::default()));
        cases.push(case("watch", status(422, None), When::first(1)));
    } else {
        cases.extend([
            case("list", Fault::Delay { milliseconds: 200 }, When::default()),
            case("list", status(403, None), When::first(2)),
            case("list", status(404, None), When::first(2)),
            case("list", status(429, Some(1)), When::first(2)),
            case("list", status(500, None), When::first(2)),
            case("list", Fault::Reset, When::first(2)),
            case("list", Fault::Tear { after: 0 }, When::first(2)),
            case("list", Fault::HalfOpen, When::first(1)),
            case("list", Fault::Gone { after: None }, When::first(1)),
            case("list", Fault::TooLargeVersion, When::first(1)),
            case("list", Fault::Stale { by: 10 }, When::first(1)),
            case("list", Fault::Truncate, When::first(2)),
            case("list", Fault::ContentType { value: "text/html".to_owned() }, When::first(2)),
        ]);
    }
    cases
}

async fn survive_all(streaming: bool) {
    futures_util::stream::iter(cases(streaming)).for_each_concurrent(8, survive).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_any_fault_of_lists_and_watches_the_store_is_what_a_fresh_list_shows() {
    survive_all(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_any_fault_of_streaming_lists_the_store_is_what_a_fresh_list_shows() {
    survive_all(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_streaming_list_is_compared_with_a_list_of_the_server() {
    let cluster = Cluster::start().await;
    cluster.churn(0).await;
    // The list that the check asks for is right, cannot be read, or has only one of the objects.
    let expired = Fault::Status { code: 410, retry_after: None };
    for (fault, selector, found) in [(None, "", 0), (Some(expired), "", 0), (None, "metadata.name=c1", 1)] {
        cluster.server.faults().clear();
        if let Some(fault) = fault.clone() {
            cluster.server.faults().add(FaultRule::on("list", "configmaps", fault));
        }
        let source = ClientListerWatcher::new(cluster.client.clone(), config_maps(), Some("default"))
            .list_params(|params| selector.clone_into(&mut params.field_selector));
        let reflector = ReflectorOptions { check_watch_lists: true, ..ReflectorOptions::default() };
        let options = InformerOptions { reflector, ..InformerOptions::default() };
        let informer = SharedInformer::new(Arc::new(source), config_maps(), Some("default"), options);
        let (run, cancel) = (informer.clone(), CancellationToken::new());
        let token = cancel.clone();
        let task = tokio::spawn(async move { run.run(token).await });
        assert!(timeout(DEADLINE, informer.wait_synced()).await.expect("it never synced"));
        let metrics = informer.metrics();
        assert_eq!(metrics.reflector_inconsistent_watch_lists_total, found, "{fault:?} {selector}");
        assert_eq!((metrics.reflector_lists_total, cluster.hits() > 0), (0, fault.is_some()), "{fault:?}");
        cancel.cancel();
        task.await.expect("the run does not panic");
    }
    cluster.server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_and_watches_have_what_the_selectors_of_the_source_select() {
    let cluster = Cluster::start().await;
    for (round, watch_list) in [(0, false), (2, true)] {
        for number in 1..=3 {
            cluster.put(number, round).await;
        }
        let source = ClientListerWatcher::new(cluster.client.clone(), config_maps(), Some("default"))
            .label_selector("number!=2")
            .field_selector("metadata.name!=c3");
        let reflector = ReflectorOptions { watch_list, ..ReflectorOptions::default() };
        let options = InformerOptions { reflector, ..InformerOptions::default() };
        let informer = SharedInformer::new(Arc::new(source), config_maps(), Some("default"), options);
        let (run, cancel) = (informer.clone(), CancellationToken::new());
        let token = cancel.clone();
        let task = tokio::spawn(async move { run.run(token).await });
        assert!(timeout(DEADLINE, informer.wait_synced()).await.expect("it never synced"));
        assert_eq!(informer.indexer().len(), 1, "streaming: {watch_list}");
        for number in [3, 2, 1] {
            cluster.put(number, round + 1).await;
        }
        let key: ObjectKey = "default/c1".parse().expect("a key");
        let newest = cluster.writer.get(&config_maps(), &key, None).await.expect("it is there");
        let seen = informer.indexer().wait_until_seen(newest.resource_version());
        timeout(DEADLINE, seen).await.expect("the watch never showed it");
        assert_eq!(view(&informer.indexer().list()), view(&[newest]), "streaming: {watch_list}");
        cancel.cancel();
        task.await.expect("the run does not panic");
    }
    cluster.server.shutdown().await;
}
