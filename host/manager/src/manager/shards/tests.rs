//! Terms of shards that end and begin, on a development server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use pilothouse_client::{ApiResource, Client, DeleteParams, WriteParams};
use pilothouse_devserver::{DevServer, DevServerOptions};
use pilothouse_election::{LeaderElectionConfig, Shards, ShardsConfig};
use pilothouse_engine::Failure;
use pilothouse_object::{Gvk, ObjectKey};
use pilothouse_plugin::World;
use pilothouse_plugin::directory::Change;
use pilothouse_workqueue::Priority;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::*;
use crate::dispatch::reasons::Reasons;
use crate::leader_election::LeaderElection;
use crate::manager::ManagerOptions;
use crate::manager::tests::Host;
use crate::observe::status::PluginState;
use crate::testing::dev_server::{client, take_shard, until};
use crate::testing::{FakeComponent, done, files, reads, settle};

const HOUR: Duration = Duration::from_secs(3600);

/// A host that shares plugins in one shard, with leases of two seconds.
async fn host(server: &DevServer) -> (Host, Shards) {
    host_of(server, "host_1", 1).await
}

/// A host of this name, one of those that share plugins in so many shards.
async fn host_of(server: &DevServer, identity: &str, shards: usize) -> (Host, Shards) {
    let election = LeaderElectionConfig {
        lease_duration: Duration::from_secs(2),
        renew_deadline: Duration::from_millis(1500),
        retry_period: Duration::from_millis(300),
        ..LeaderElectionConfig::new(identity)
    };
    let config = ShardsConfig { election, shards, join_delay: Duration::ZERO };
    let client = client(server).await;
    let (shards, task) = Shards::new(&client, "default", "hosts", config, &Handle::current()).unwrap();
    tokio::spawn(task.run());
    let election = LeaderElection::sharded(shards.clone(), Duration::from_secs(5));
    let options = ManagerOptions { election, ..ManagerOptions::new(PathBuf::from("/nowhere")) };
    (Host::of(client, options, BTreeMap::new()).await, shards)
}

/// A host without an API server that has these shards.
async fn host_without_leases(shards: &Shards) -> Host {
    Host::with(options_of(shards)).await
}

/// A host of this API server that has these shards.
pub(in crate::manager) async fn host_on(client: &Client, shards: &Shards) -> Host {
    Host::of(client.clone(), options_of(shards), BTreeMap::new()).await
}

fn options_of(shards: &Shards) -> ManagerOptions {
    let election = LeaderElection::sharded(shards.clone(), Duration::from_secs(5));
    ManagerOptions { election, ..ManagerOptions::new(PathBuf::from("/nowhere")) }
}

/// Makes a ConfigMap in the namespace `default`.
pub(in crate::manager) async fn create_config_map(client: &Client, config_maps: &ApiResource, name: &str) {
    let metadata = json!({"namespace": "default", "name": name});
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).to_string();
    let params = WriteParams::default();
    client.create(config_maps, Some("default"), body.as_bytes(), &params).await.unwrap();
}

pub(in crate::manager) fn current(host: &Host) -> Arc<Plugin> {
    host.manager.find("p").expect("a plugin")
}

/// Whether the informers of the generation that is current now go on later: the generation holds them.
fn informers_of(plugin: &Plugin) -> impl Fn() -> bool + use<> {
    let generation = Arc::downgrade(&plugin.current().expect("a generation"));
    move || generation.strong_count() > 0
}

#[tokio::test]
async fn a_plugin_whose_term_ends_stands_by_anew_and_works_in_the_next_term() {
    let server = DevServer::start(DevServerOptions::default()).await.unwrap();
    let (host, shards) = host(&server).await;
    let permits = Arc::new(Semaphore::new(0));
    let (component, mut calls) = FakeComponent::reconciler();
    host.compiler.add(b"a", component.held(&permits));
    host.change_to(b"a").await;
    let first = current(&host);
    until("the first term", || first.election().is_leader()).await;
    assert_eq!((host.plugin().shard, host.plugin().holder.as_deref()), (Some(0), Some("host_1")));
    first.queue().add("ns/a".parse().unwrap());
    calls.next().await;

    take_shard(&server).await;
    until("the end of the term", || !first.election().is_leader()).await;
    until("another plugin", || !Arc::ptr_eq(&first, &current(&host))).await;
    let second = current(&host);
    assert!(first.is_stopping() && !second.election().was_elected());
    // The call of the lost term goes on: there is no other term before it has ended, however long the Lease is over.
    sleep(Duration::from_secs(3)).await;
    assert!(shards.term(0).is_none() && !second.election().is_leader());
    permits.add_permits(10);
    until("the second term", || second.election().is_leader()).await;
    until("the second generation", || host.plugin().state == PluginState::Running).await;
    assert_eq!(host.plugin().generation, 2);
    second.queue().add("ns/b".parse().unwrap());
    calls.next().await;
    assert!(!first.election().is_leader(), "a plugin has one term");
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_term_that_ends_before_anybody_has_looked_is_ended_as_others_are() {
    let shards = Shards::without_leases("host_1", 1);
    let host = host_without_leases(&shards).await;
    host.compiler.add(b"a", FakeComponent::reconciler().0);
    host.change_to(b"a").await;
    let first = current(&host);
    // Nothing runs between the two.
    shards.begin_term(0, HOUR);
    shards.cancel_term(0);
    settle().await;
    assert!(first.is_stopping() && !Arc::ptr_eq(&first, &current(&host)));
    shards.begin_term(0, HOUR);
    settle().await;
    assert!(current(&host).election().is_leader());
}

#[tokio::test(start_paused = true)]
async fn keys_of_objects_that_are_gone_outlive_the_term_wherever_they_are_in_the_queue_and_no_others_do() {
    let shards = Shards::without_leases("host_1", 1);
    let host = host_without_leases(&shards).await;
    let permits = Arc::new(Semaphore::new(0));
    let (component, mut calls) = FakeComponent::reconciler();
    let held = Arc::clone(&permits);
    let component = component.script(move |call| {
        let held = Arc::clone(&held);
        async move {
            held.acquire().await.unwrap().forget();
            // As a call does whose writes are refused, because the term has ended.
            let fails = call.reasons == [["deleted"]] && call.keys == ["ns/called"];
            let refused = || Failure { message: "no term".to_owned(), terminal: false, retry_after: None };
            if fails { Ok(vec![Err(refused())]) } else { done(&call) }
        }
    });
    host.compiler.add(b"a", component);
    host.change_to(b"a").await;
    shards.begin_term(0, HOUR);
    settle().await;
    let first = current(&host);
    let (queue, key) = (first.queue(), |name: &str| format!("ns/{name}").parse::<ObjectKey>().unwrap());
    queue.add_with(key("called"), Reasons::DELETED, Priority::NORMAL);
    assert_eq!(calls.next_keys().await, ["ns/called"]);
    for (name, reasons) in [("ready", Reasons::DELETED), ("cached", Reasons::UPDATED)] {
        queue.add_with(key(name), reasons, Priority::NORMAL);
        let (name, reasons) = (format!("{name}-later"), reasons.of_another_try());
        queue.add_after(key(&name), reasons, Priority::NORMAL, HOUR);
    }

    shards.cancel_term(0);
    settle().await;
    let second = current(&host);
    assert!(first.is_stopping() && !Arc::ptr_eq(&first, &second));
    assert_eq!(second.gate().tombstones(), 0, "the last call goes on");
    permits.add_permits(100);
    settle().await;
    assert_eq!((second.queue().len(), second.gate().tombstones()), (0, 3));
    assert_eq!((first.queue().len(), first.queue().len_delayed(), first.gate().tombstones()), (0, 0, 0));
    assert_eq!(calls.begun(), [""; 0]);
    shards.begin_term(0, HOUR);
    settle().await;
    let mut keys = calls.begun();
    keys.sort_unstable();
    assert_eq!(keys, ["reconcile ns/called", "reconcile ns/ready", "reconcile ns/ready-later"]);
}

#[tokio::test]
async fn an_object_that_is_deleted_between_two_terms_of_a_plugin_is_reconciled_in_the_second() {
    let server = DevServer::start(DevServerOptions::default()).await.unwrap();
    let client = client(&server).await;
    let config_maps = ApiResource::new(Gvk::new("", "v1", "ConfigMap"), "configmaps", true);
    for name in ["a", "b"] {
        create_config_map(&client, &config_maps, name).await;
    }
    let shards = Shards::without_leases("host_1", 1);
    let host = host_on(&client, &shards).await;
    let permits = Arc::new(Semaphore::new(0));
    let watches = json!({"watches": [{"version": "v1", "kind": "ConfigMap"}]});
    let (component, mut calls) = FakeComponent::new("sha256:a", World::Reconciler, watches);
    host.compiler.add(b"a", component.held(&permits));
    host.apply(Change::Changed(files(b"a", &json!({"permissions": reads(&["default"], &[])})))).await;
    until("the plugin to run", || host.plugin().state == PluginState::Running).await;
    shards.begin_term(0, HOUR);
    let called = calls.next_keys().await.remove(0);
    let gone = if called == "default/a" { "default/b" } else { "default/a" };
    let key: ObjectKey = gone.parse().unwrap();
    let first = current(&host);
    let generation = first.current().expect("a generation");

    shards.cancel_term(0);
    until("another plugin", || !Arc::ptr_eq(&first, &current(&host))).await;
    client.delete(&config_maps, &key, &DeleteParams::default()).await.unwrap();
    let is_gone = || generation.imports.caches().all(|(_, cache)| cache.get(&key).is_none());
    until("the deletion in the cache", is_gone).await;
    let second = current(&host);
    assert!(second.current().is_none(), "it waits for the last call, and listens to nothing");
    permits.add_permits(100);
    until("the second generation", || second.current().is_some()).await;
    shards.begin_term(0, HOUR);
    let reconcile = format!("reconcile {gone}");
    until("the call for the deletion", || calls.begun().contains(&reconcile)).await;
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_informers_of_a_plugin_whose_term_ends_go_on_until_the_next_one_has_its_own() {
    let shards = Shards::without_leases("host_1", 1);
    let host = host_without_leases(&shards).await;
    host.compiler.add(b"a", FakeComponent::reconciler().0);
    host.change_to(b"a").await;
    shards.begin_term(0, HOUR);
    settle().await;
    let first = current(&host);
    let goes_on = informers_of(&first);
    let call = first.spawn(std::future::pending::<()>());
    shards.cancel_term(0);
    settle().await;
    assert!(first.is_stopping() && current(&host).current().is_none(), "the next one waits for the call");
    assert!(goes_on());
    call.abort();
    settle().await;
    assert!(current(&host).current().is_some() && !goes_on());
}

#[tokio::test]
async fn a_pause_and_an_error_of_the_files_outlast_the_term() {
    let server = DevServer::start(DevServerOptions::default()).await.unwrap();
    let (host, _shards) = host(&server).await;
    host.compiler.add(b"a", FakeComponent::reconciler().0);
    host.change_to(b"a").await;
    until("it runs", || host.plugin().state == PluginState::Running).await;
    let first = current(&host);
    until("the first term", || first.election().is_leader()).await;
    first.pause(true);
    take_shard(&server).await;
    until("another plugin", || !Arc::ptr_eq(&first, &current(&host))).await;
    until("it is loaded", || host.plugin().generation == 2).await;
    assert_eq!(host.plugin().state, PluginState::Paused);
    server.shutdown().await;
}

#[tokio::test]
async fn a_host_with_another_number_of_shards_is_not_ready_and_says_what_to_do() {
    let server = DevServer::start(DevServerOptions::default()).await.unwrap();
    let (first, shards) = host_of(&server, "host_1", 1).await;
    until("the first term", || shards.held() == 1).await;
    let (other, of_other) = host_of(&server, "host_2", 2).await;
    until("the Lease of the first", || of_other.kept_out_by().is_some()).await;
    let why = other.manager.not_ready().expect("a reason");
    for words in ["default/hosts", "--shards=1, and this host has --shards=2", "delete the Lease"] {
        assert!(why.contains(words), "{words}: {why}");
    }
    let is_mismatch = |host: &Host, is: u8| {
        let line = format!("pilothouse_lease_mismatch{{lease=\"default/hosts\"}} {is}\n");
        assert!(host.metrics.encode().contains(&line), "{line}");
    };
    is_mismatch(&other, 1);
    is_mismatch(&first, 0);
    let of_first = first.manager.not_ready();
    assert!(of_first.as_ref().is_none_or(|why| !why.contains("Lease")), "{of_first:?}");
    server.shutdown().await;
}
