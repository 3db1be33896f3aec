//! §1.12 and pitfall 14: informers are shared, leased and ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pilothouse_client::{ApiResource, Client, ClientOptions, DeleteParams, WriteParams};
use pilothouse_devserver::{DevServer, DevServerOptions};
use pilothouse_object::{Gvk, Projection};
use serde_json::json;
use tokio::time::sleep;

use super::{server, soon};
use crate::testing::{FakeControllerSource, Recorder, config_maps};
use crate::{
    CacheError, FactoryOptions, InformerId, InformerLease, InformerOptions, ListOptions,
    SharedInformerFactory, Start,
};

pub(super) fn factory(server: &FakeControllerSource) -> SharedInformerFactory {
    with(server, FactoryOptions::default())
}

fn id(namespace: Option<&str>) -> InformerId {
    InformerId::new(config_maps().gvr(), namespace)
}

/// Lets tasks that were ended come to their end.
pub(super) async fn tasks(factory: &SharedInformerFactory, count: usize) {
    soon(async {
        while factory.task_count() != count {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_informer_serves_all_who_lease_the_same_resource_and_scope() {
    let server = server();
    server.create("a/x", json!({}));
    let factory = factory(&server);
    let (first, second) = (factory.informer(&config_maps(), None), factory.informer(&config_maps(), None));
    let one_namespace = factory.informer(&config_maps(), Some("b"));
    assert_eq!(
        soon(factory.wait_for_cache_sync()).await,
        BTreeMap::from([(id(None), true), (id(Some("b")), true)])
    );
    // The narrow one may have found the wide one complete.
    assert!(server.list_versions().len() <= 2);
    assert!(Arc::ptr_eq(first.indexer(), second.indexer()));
    assert_eq!((first.indexer().len(), one_namespace.indexer().len()), (1, 0));
    let status = factory.informers();
    assert_eq!(status.len(), 2);
    assert!(status.iter().all(|(_, informer)| informer.reflector.synced && !informer.stopped));
    assert_eq!(factory.metrics()[0].1.objects, 1);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_informer_of_one_name_has_a_watch_of_its_own_beside_wider_ones() {
    let server = server();
    for key in ["a/x", "a/y", "b/x"] {
        server.create(key, json!({}));
    }
    let factory = factory(&server);
    let full = Projection::full();
    let named = factory.named_informer(&config_maps(), Some("a"), "x", &full);
    let anywhere = factory.named_informer(&config_maps(), None, "x", &full);
    let wide = factory.informer(&config_maps(), None);
    let keys = |lease: &InformerLease| {
        let mut keys: Vec<String> = lease.indexer().list().iter().map(|o| o.key().to_string()).collect();
        keys.sort_unstable();
        keys
    };
    for lease in [&named, &anywhere, &wide] {
        assert!(soon(lease.wait_synced()).await);
    }
    assert_eq!(keys(&named), ["a/x"]);
    assert_eq!(keys(&anywhere), ["a/x", "b/x"]);
    assert_eq!(keys(&wide), ["a/x", "a/y", "b/x"]);
    soon(server.wait_for_watches(3)).await;
    server.create("c/x", json!({}));
    server.delete("a/x");
    soon(async {
        while !(keys(&named).is_empty() && keys(&anywhere) == ["b/x", "c/x"]) {
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    assert_eq!((factory.informers().len(), server.open_watches()), (3, 3));
    let id = named.id();
    assert!(id.covers(&"a/x".parse().unwrap()) && !id.covers(&"a/y".parse().unwrap()));
    assert!(!id.covers(&"b/x".parse().unwrap()));
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_informer_ends_with_its_last_lease_and_its_metrics_with_it() {
    let server = server();
    let factory = factory(&server);
    let first = factory.informer(&config_maps(), None);
    let second = first.clone();
    soon(first.wait_synced()).await;
    soon(server.wait_for_watches(1)).await;
    let informer = first.informer().clone();
    drop(first);
    tokio::task::yield_now().await;
    assert!(!informer.is_stopped() && factory.metrics().len() == 1);
    drop(second);
    assert!(factory.metrics().is_empty() && factory.informers().is_empty());
    tasks(&factory, 0).await;
    assert!(informer.is_stopped());
    assert_eq!(server.open_watches(), 0);
    assert!(matches!(informer.add_listener(Recorder::new(), None), Err(CacheError::Stopped(_))));
}

#[tokio::test(start_paused = true)]
async fn a_lease_after_the_last_one_is_of_a_new_informer_and_the_old_ones_end_is_not_its_end() {
    let server = server();
    let factory = factory(&server);
    let old = factory.informer(&config_maps(), None);
    soon(old.wait_synced()).await;
    let stale = old.informer().clone();
    drop(old);
    let new = factory.informer(&config_maps(), None);
    assert!(!Arc::ptr_eq(stale.indexer(), new.indexer()));
    soon(new.wait_synced()).await;
    tasks(&factory, 1).await;
    assert!(!new.informer().is_stopped());
    drop(new);
    tasks(&factory, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_registration_that_outlives_its_informer_is_harmless() {
    let server = server();
    let factory = factory(&server);
    let lease = factory.informer(&config_maps(), None);
    let recorder = Recorder::new();
    let registration = lease.add_listener(recorder.clone(), None).unwrap();
    soon(registration.wait_synced()).await;
    drop(lease);
    tasks(&factory, 0).await;
    server.create("a/x", json!({}));
    registration.remove();
    assert_eq!(recorder.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_all_informers_waits_for_their_tasks_and_is_for_good() {
    let server = server();
    let factory = factory(&server);
    let lease = factory.informer(&config_maps(), None);
    let other = factory.informer(&config_maps(), Some("a"));
    soon(factory.wait_for_cache_sync()).await;
    factory.shutdown().await;
    assert_eq!(factory.task_count(), 0);
    assert!(lease.informer().is_stopped() && other.informer().is_stopped());
    drop((lease, other));
    let late = factory.informer(&config_maps(), None);
    tasks(&factory, 0).await;
    assert!(late.informer().is_stopped() && !late.wait_synced().await);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn waiting_for_sync_says_which_informer_ended_before() {
    let server = server();
    server.refuse(true);
    let factory = factory(&server);
    let _lease = factory.informer(&config_maps(), None);
    let waiting = tokio::spawn({
        let factory = factory.clone();
        async move { factory.wait_for_cache_sync().await }
    });
    soon(server.wait_for_lists(1)).await;
    factory.shutdown().await;
    assert_eq!(waiting.await.unwrap(), BTreeMap::from([(id(None), false)]));
}

#[tokio::test(start_paused = true)]
async fn no_task_and_no_watch_is_left_after_many_leases() {
    let server = server();
    let factory = factory(&server);
    for _ in 0..100 {
        let lease = factory.informer(&config_maps(), None);
        soon(lease.wait_synced()).await;
        let _registration = lease.add_listener(Recorder::new(), None).unwrap();
    }
    tasks(&factory, 0).await;
    assert_eq!((server.open_watches(), factory.informers().len()), (0, 0));
}

fn with(server: &FakeControllerSource, options: FactoryOptions) -> SharedInformerFactory {
    let server = server.clone();
    let source = move |_: &ApiResource, namespace: Option<&str>| server.source_in(namespace);
    SharedInformerFactory::new(Arc::new(source), options)
}

#[tokio::test(start_paused = true)]
async fn a_lazy_factory_starts_with_start_only_what_is_not_started_and_waits_only_for_that() {
    let server = server();
    let factory = with(&server, FactoryOptions { start: Start::Lazy, ..FactoryOptions::default() });
    let first = factory.informer(&config_maps(), None);
    tokio::task::yield_now().await;
    assert!(soon(factory.wait_for_cache_sync()).await.is_empty());
    assert!(server.requests().is_empty() && !first.has_synced());
    factory.start();
    factory.start();
    assert!(soon(first.wait_synced()).await);
    let second = factory.informer(&config_maps(), Some("a"));
    assert_eq!(soon(factory.wait_for_cache_sync()).await, BTreeMap::from([(id(None), true)]));
    assert_eq!(factory.task_count(), 1);
    factory.start();
    assert!(soon(second.wait_synced()).await);
    assert_eq!(factory.task_count(), 2);
    let third = factory.informer(&config_maps(), Some("b"));
    soon(factory.shutdown()).await;
    factory.start();
    let late = factory.informer(&config_maps(), Some("c"));
    assert!(!soon(third.wait_synced()).await && !soon(late.wait_synced()).await);
    tasks(&factory, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_lazy_informer_that_is_dropped_unstarted_was_never_there() {
    let server = server();
    let factory = with(&server, FactoryOptions { start: Start::Lazy, ..FactoryOptions::default() });
    drop(factory.informer(&config_maps(), None));
    factory.start();
    assert!(factory.task_count() == 0 && server.requests().is_empty() && factory.informers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn informers_have_the_factorys_resync_period_and_options_of_their_own_resource() {
    let server = server();
    server.create("a/x", json!({}));
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let tweak = move |resource: &ApiResource, options: &mut InformerOptions| {
        assert_eq!(options.resync, Some(Duration::from_secs(60)));
        if resource.plural == "configmaps" {
            let counted = counted.clone();
            options.resync = Some(Duration::from_secs(30));
            options.reflector.transform = Some(Arc::new(move |object| {
                counted.fetch_add(1, Ordering::Relaxed);
                Ok(object)
            }));
        }
    };
    let mut options =
        FactoryOptions { tweak_informer_options: Some(Arc::new(tweak)), ..FactoryOptions::default() };
    options.informer.resync = Some(Duration::from_secs(60));
    let factory = with(&server, options);
    let lease = factory.informer(&config_maps(), None);
    let (usual, never) = (Recorder::new(), Recorder::new());
    let _usual = lease.add_listener(usual.clone(), None).unwrap();
    let _never = lease.add_listener(never.clone(), Some(Duration::ZERO)).unwrap();
    assert!(soon(lease.wait_synced()).await);
    let _ = (usual.take(), never.take());
    sleep(Duration::from_secs(95)).await;
    assert_eq!((usual.take().len(), never.take().len()), (3, 0));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_factorys_namespace_is_that_of_for_resource() {
    let server = server();
    let options = FactoryOptions { namespace: Some("a".to_owned()), ..FactoryOptions::default() };
    let factory = with(&server, options);
    assert_eq!(*factory.for_resource(&config_maps()).id(), id(Some("a")));
    let nodes = ApiResource { namespaced: false, ..config_maps() };
    assert_eq!(*factory.for_resource(&nodes).id(), id(None));
    assert_eq!(*with(&server, FactoryOptions::default()).for_resource(&config_maps()).id(), id(None));
}

/// The selectors of the lists and of the watches that a server was asked for.
fn selectors(server: &DevServer, resource: &str) -> Vec<(String, bool, bool)> {
    let requests = server.requests().into_iter().filter(|request| request.resource == resource);
    let reads = requests.filter(|request| ["list", "watch"].contains(&request.verb.as_str()));
    let has = |uri: &str, selector: &str| uri.split(['?', '&']).any(|parameter| parameter == selector);
    reads
        .map(|request| {
            let labels = has(&request.uri, "labelSelector=app%3Dweb");
            (request.verb, labels, has(&request.uri, "fieldSelector=metadata.name%21%3Dout"))
        })
        .collect()
}

#[tokio::test]
async fn tweaked_list_options_are_in_each_list_and_watch_of_the_resources_they_are_for() {
    let server = DevServer::start(DevServerOptions::default()).await.unwrap();
    let options = ClientOptions { server: Some(server.url()), ..ClientOptions::default() };
    let client = Client::new(options).await.unwrap();
    let secrets =
        ApiResource { gvk: Gvk::new("", "v1", "Secret"), plural: "secrets".to_owned(), ..config_maps() };
    let create = async |resource: &ApiResource, name: &str, app: &str| {
        let body = json!({
            "apiVersion": "v1", "kind": resource.gvk.kind, "metadata": {"name": name, "labels": {"app": app}},
        });
        let body = body.to_string();
        client.create(resource, Some("default"), body.as_bytes(), &WriteParams::default()).await.unwrap();
    };
    for resource in [&config_maps(), &secrets] {
        for (name, app) in [("in", "web"), ("out", "web"), ("other", "db")] {
            create(resource, name, app).await;
        }
    }
    for streaming in [false, true] {
        server.clear_requests();
        let tweak = |resource: &ApiResource, options: &mut ListOptions| {
            if resource.plural == "configmaps" {
                "app=web".clone_into(&mut options.label_selector);
                "metadata.name!=out".clone_into(&mut options.field_selector);
            }
        };
        let mut options =
            FactoryOptions { tweak_list_options: Some(Arc::new(tweak)), ..FactoryOptions::default() };
        options.informer.reflector.watch_list = streaming;
        let factory = SharedInformerFactory::for_client(client.clone(), options);
        let tweaked = factory.informer(&config_maps(), Some("default"));
        let whole = factory.informer(&secrets, Some("default"));
        assert!(soon(tweaked.wait_synced()).await && soon(whole.wait_synced()).await);
        assert_eq!(tweaked.indexer().keys(), ["default/in".parse().unwrap()]);
        assert_eq!(whole.indexer().len(), 3);
        // The watch too: of what comes later, the last shows that the others did not come.
        for (name, app) in [("later-other", "db"), ("later", "web")] {
            create(&config_maps(), name, app).await;
        }
        let seen = server.revision().to_string();
        soon(tweaked.indexer().wait_until_seen(&seen)).await;
        assert_eq!(tweaked.indexer().len(), 2);
        tweaked.informer().relist();
        let asked = |count| selectors(&server, "configmaps").len() >= count;
        let all = if streaming { 2 } else { 4 };
        soon(async {
            while !asked(all) {
                sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        let verbs =
            if streaming { ["watch"; 2].to_vec() } else { ["list", "watch", "list", "watch"].to_vec() };
        let wanted: Vec<_> = verbs.iter().map(|verb| ((*verb).to_owned(), true, true)).collect();
        assert_eq!(selectors(&server, "configmaps"), wanted);
        let untouched = selectors(&server, "secrets");
        assert!(!untouched.is_empty() && untouched.iter().all(|(_, labels, fields)| !labels && !fields));
        soon(factory.shutdown()).await;
        for name in ["later-other", "later"] {
            let key = format!("default/{name}").parse().unwrap();
            client.delete(&config_maps(), &key, &DeleteParams::default()).await.unwrap();
        }
    }
    server.shutdown().await;
}

#[test]
fn leases_may_be_taken_and_dropped_outside_the_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = server();
    let factory = runtime.block_on(async { factory(&server) });
    let lease = std::thread::spawn({
        let factory = factory.clone();
        move || factory.informer(&config_maps(), None)
    });
    let lease = lease.join().unwrap();
    assert!(runtime.block_on(lease.wait_synced()));
    drop(lease);
    runtime.block_on(factory.shutdown());
}
