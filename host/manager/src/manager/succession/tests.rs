//! What a plugin leaves to the next one of its name.

use std::time::Duration;

use pilothouse_client::{ApiResource, DeleteParams};
use pilothouse_devserver::{DevServer, DevServerOptions};
use pilothouse_election::Shards;
use pilothouse_engine::FaultKind;
use pilothouse_object::{Gvk, ObjectKey};
use pilothouse_plugin::directory::Change;
use pilothouse_plugin::{Ceilings, Manifest, World};
use pilothouse_workqueue::Priority;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::*;
use crate::dispatch::reasons::Reasons;
use crate::lifecycle::plugin_objects::ObjectChange;
use crate::manager::shards::tests::{create_config_map, current, host_on};
use crate::manager::tests::Host;
use crate::observe::status::PluginState;
use crate::testing::dev_server::{client, until};
use crate::testing::{Calls, FakeComponent, fault, files, reads};

const HOUR: Duration = Duration::from_secs(3600);

fn removed() -> Change {
    Change::Removed { name: "p".to_owned() }
}

/// The same plugin as a Plugin of the cluster.
fn of_cluster() -> ObjectChange {
    let text = json!({
        "apiVersion": "pilothouse.dev/v1alpha1", "kind": "Plugin",
        "metadata": {"namespace": "a", "name": "p"},
        "spec": {
            "source": {"url": "https://files.example/p.wasm", "digest": format!("sha256:{:064}", 7)},
            "serviceAccount": {"namespace": "a", "name": "robot"},
        },
    });
    let manifest = Manifest::of_object(&text.to_string(), &Ceilings::default()).unwrap();
    ObjectChange::Changed(Files { manifest: Arc::new(manifest), ..files(b"a", &json!({})) })
}

/// A host without an API server, whose plugin is in a call that waits for a permit. The keys of an object that is gone, and of a
/// cached one, wait in its queue.
async fn busy() -> (Host, Arc<Semaphore>, Calls) {
    let host = Host::new().await;
    let permits = Arc::new(Semaphore::new(0));
    let (component, mut calls) = FakeComponent::reconciler();
    host.compiler.add(b"a", component.held(&permits));
    host.change_to(b"a").await;
    let plugin = current(&host);
    let add = |key: &str, reasons| {
        plugin.queue().add_with(key.parse::<ObjectKey>().unwrap(), reasons, Priority::NORMAL);
    };
    add("ns/called", Reasons::DELETED);
    assert_eq!(calls.next_keys().await, ["ns/called"]);
    add("ns/gone", Reasons::DELETED);
    add("ns/cached", Reasons::UPDATED);
    (host, permits, calls)
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_removed_and_added_in_a_moment_leaves_its_deletions_to_the_next_one() {
    let (host, permits, mut calls) = busy().await;
    let first = current(&host);
    host.apply(removed()).await;
    host.change_to(b"a").await;
    let second = current(&host);
    assert!(first.is_stopping() && !Arc::ptr_eq(&first, &second));
    assert_eq!(calls.so_far().await, [""; 0], "the last call of the first one goes on");
    permits.add_permits(100);
    sleep(EVENTS_GRACE * 2).await;
    assert_eq!(calls.so_far().await, ["reconcile ns/gone"]);
    assert!(first.queue().shutting_down() && first.queue().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_queue_of_a_plugin_that_nobody_follows_is_shut() {
    let (host, permits, mut calls) = busy().await;
    let first = current(&host);
    host.apply(removed()).await;
    assert!(!first.queue().shutting_down(), "a plugin may come that takes the keys");
    permits.add_permits(100);
    sleep(EVENTS_GRACE * 2).await;
    assert!(first.queue().shutting_down() && host.manager.find("p").is_none());
    host.change_to(b"a").await;
    assert_eq!(calls.so_far().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn keys_of_the_plugin_directory_are_not_for_a_plugin_of_the_cluster() {
    let (host, permits, mut calls) = busy().await;
    let first = current(&host);
    host.manager.apply_object(of_cluster());
    host.apply(removed()).await;
    let second = current(&host);
    assert!(first.is_stopping() && !Arc::ptr_eq(&first, &second));
    permits.add_permits(100);
    sleep(EVENTS_GRACE * 2).await;
    assert_eq!(calls.so_far().await, [""; 0]);
    assert!(second.queue().is_empty() && first.queue().shutting_down());
}

#[tokio::test(start_paused = true)]
async fn keys_that_wait_for_the_last_call_go_to_none_of_another_owner_either() {
    let (host, permits, mut calls) = busy().await;
    let first = current(&host);
    host.apply(removed()).await;
    host.change_to(b"a").await;
    let second = current(&host);
    host.manager.apply_object(of_cluster());
    host.apply(removed()).await;
    let third = current(&host);
    assert!(second.is_stopping() && !Arc::ptr_eq(&second, &third) && !first.queue().shutting_down());
    permits.add_permits(100);
    sleep(EVENTS_GRACE * 2).await;
    assert_eq!(calls.so_far().await, [""; 0]);
    assert!(third.queue().is_empty() && first.queue().shutting_down());
}

#[tokio::test]
async fn an_object_that_is_deleted_while_the_next_plugin_is_refused_is_reconciled_by_the_one_after_it() {
    let server = DevServer::start(DevServerOptions::default()).await.unwrap();
    let client = client(&server).await;
    let config_maps = ApiResource::new(Gvk::new("", "v1", "ConfigMap"), "configmaps", true);
    create_config_map(&client, &config_maps, "gone").await;
    let shards = Shards::without_leases("host_1", 1);
    let host = host_on(&client, &shards).await;
    let watches = json!({"watches": [{"version": "v1", "kind": "ConfigMap"}]});
    let (component, mut calls) = FakeComponent::new("sha256:a", World::Reconciler, watches.clone());
    host.compiler.add(b"a", component);
    let spec = json!({"permissions": reads(&["default"], &[])});
    host.apply(Change::Changed(files(b"a", &spec))).await;
    until("the plugin to run", || host.plugin().state == PluginState::Running).await;
    shards.begin_term(0, HOUR);
    let reconcile = "reconcile default/gone".to_owned();
    until("the first call", || calls.begun().contains(&reconcile)).await;
    let first = current(&host);
    let generation = first.current().expect("a generation");

    // What was good is refused when it is loaded again.
    host.compiler.add(b"a", FakeComponent::reconciler().0.described(Err(fault(FaultKind::Trap))));
    shards.cancel_term(0);
    until("the refusal", || host.plugin().state == PluginState::Failed).await;
    assert!(!Arc::ptr_eq(&first, &current(&host)));
    let key: ObjectKey = "default/gone".parse().unwrap();
    client.delete(&config_maps, &key, &DeleteParams::default()).await.unwrap();
    let is_gone = || generation.imports.caches().all(|(_, cache)| cache.get(&key).is_none());
    until("the deletion in the cache", is_gone).await;

    let (component, mut calls) = FakeComponent::new("sha256:b", World::Reconciler, watches);
    host.compiler.add(b"b", component);
    host.apply(Change::Changed(files(b"b", &spec))).await;
    until("the next generation", || host.plugin().state == PluginState::Running).await;
    shards.begin_term(0, HOUR);
    until("the call for the deletion", || calls.begun().contains(&reconcile)).await;
    server.shutdown().await;
}
