//! Hosts that share the keys of a plugin, on a development server.

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_client::{ApiResource, DeleteParams, Patch, WriteParams};
use pilothouse_devserver::{DevServer, DevServerOptions};
use pilothouse_election::KeyShards;
use pilothouse_object::{Gvk, ObjectKey};
use pilothouse_plugin::World;
use pilothouse_plugin::directory::Change;
use pilothouse_workqueue::Priority;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::tests::{current, host_of, host_without_leases, informers_of};
use super::*;
use crate::dispatch::reasons::Reasons;
use crate::manager::tests::Host;
use crate::observe::status::PluginState;
use crate::testing::dev_server::{client, take_shard, until};
use crate::testing::{Calls, FakeComponent, GuestCall, done, files, reads, settle};

/// With two shards, of the plugin `p`: some of these namespaces are in each.
const TEAMS: usize = 12;
const SECOND: Duration = Duration::from_secs(1);
/// More than there are calls.
const MANY: usize = 10_000;

fn key(team: usize) -> String {
    format!("team-{team}/x")
}

/// The keys of a shard.
fn of_shard(shard: usize) -> BTreeSet<String> {
    let shards = KeyShards::new("p", 2);
    let keys: BTreeSet<String> =
        (0..TEAMS).filter(|team| shards.of(Some(&format!("team-{team}"))) == shard).map(key).collect();
    assert!(keys.len() > 1, "{keys:?}");
    keys
}

fn spec() -> Value {
    json!({"keys": "perNamespace", "permissions": reads(&["*"], &[])})
}

fn config_maps() -> ApiResource {
    ApiResource::new(Gvk::new("", "v1", "ConfigMap"), "configmaps", true)
}

/// The calls of all hosts.
#[derive(Default)]
struct Board {
    /// The host and the key of each call that has begun, and whether a deletion was among its reasons.
    begun: Vec<(&'static str, String, bool)>,
    running: BTreeSet<String>,
    /// Keys of calls that began while another one for the key was running.
    together: Vec<String>,
}

impl Board {
    fn begin(&mut self, host: &'static str, call: &GuestCall) {
        let key = call.keys[0].clone();
        if !self.running.insert(key.clone()) {
            self.together.push(key.clone());
        }
        self.begun.push((host, key, call.reasons[0].contains(&"deleted")));
    }

    /// The keys of the calls of a host from this one on.
    fn keys(&self, host: &str, from: usize) -> BTreeSet<String> {
        let calls = self.begun[from..].iter().filter(|(of, ..)| *of == host);
        calls.map(|(_, key, _)| key.clone()).collect()
    }
}

/// A host with the plugin, whose calls end when they have a permit.
struct Member {
    host: Host,
    shards: Shards,
    permits: Arc<Semaphore>,
    _calls: Calls,
}

impl Member {
    async fn start(server: &DevServer, name: &'static str, board: &Arc<Mutex<Board>>) -> Self {
        let (host, shards) = host_of(server, name, 2).await;
        let permits = Arc::new(Semaphore::new(MANY));
        let watches = json!([{"version": "v1", "kind": "ConfigMap", "labelSelector": "shared=yes"}]);
        let (component, calls) =
            FakeComponent::new("sha256:a", World::Reconciler, json!({"watches": watches}));
        let (board, held) = (Arc::clone(board), Arc::clone(&permits));
        let component = component.script(move |call| {
            let (board, held) = (Arc::clone(&board), Arc::clone(&held));
            async move {
                board.lock().begin(name, &call);
                held.acquire().await.unwrap().forget();
                board.lock().running.remove(&call.keys[0]);
                done(&call)
            }
        });
        host.compiler.add(b"a", component);
        host.apply(Change::Changed(files(b"a", &spec()))).await;
        until("the plugin to run", || host.plugin().state == PluginState::Running).await;
        shards.set_ready();
        Self { host, shards, permits, _calls: calls }
    }
}

async fn create(server: &DevServer, team: usize) {
    let (client, namespace) = (client(server).await, format!("team-{team}"));
    let namespaces = ApiResource::new(Gvk::new("", "v1", "Namespace"), "namespaces", false);
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}).to_string();
    client.create(&namespaces, None, body.as_bytes(), &WriteParams::default()).await.unwrap();
    let metadata = json!({"namespace": namespace, "name": "x", "labels": {"shared": "yes"}});
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).to_string();
    client.create(&config_maps(), Some(&namespace), body.as_bytes(), &WriteParams::default()).await.unwrap();
}

/// Changes an object, which must not have this value.
async fn change(server: &DevServer, key: &str, value: &str) {
    let body = json!({"data": {"value": value}}).to_string();
    let (patch, params) = (Patch::Merge(body.as_bytes()), WriteParams::default());
    client(server).await.patch(&config_maps(), &key.parse().unwrap(), patch, &params).await.unwrap();
}

#[tokio::test]
async fn two_hosts_share_the_keys_of_a_plugin_and_hand_them_over_with_none_lost_and_none_called_by_both() {
    let server = DevServer::start(DevServerOptions::default()).await.unwrap();
    for team in 0..TEAMS {
        create(&server, team).await;
    }
    let board = Arc::new(Mutex::new(Board::default()));
    let all: BTreeSet<String> = (0..TEAMS).map(key).collect();
    let one = Member::start(&server, "one_1", &board).await;
    until("all keys at the first host", || board.lock().keys("one_1", 0) == all).await;
    assert_eq!(one.host.plugin().key_shards, Some(vec![0, 1]));

    // Its name makes the second host the better one for the second shard.
    let two = Member::start(&server, "two_2", &board).await;
    until("the second shard to move", || two.host.plugin().key_shards == Some(vec![1])).await;
    until("its keys at the second host", || board.lock().keys("two_2", 0) == of_shard(1)).await;
    assert_eq!(one.host.plugin().key_shards, Some(vec![0]));

    // A change comes to the host that has the shard, and to no other one.
    let from = board.lock().begun.len();
    for key in &all {
        change(&server, key, "first").await;
    }
    let seen = || ["one_1", "two_2"].map(|host| board.lock().keys(host, from));
    until("each change at its host", || seen() == [of_shard(0), of_shard(1)]).await;

    // What is deleted while the first host is busy with it and leaves is reconciled by the second one.
    let (gone, from) = (of_shard(0).into_iter().next().unwrap(), board.lock().begun.len());
    one.permits.forget_permits(MANY);
    change(&server, &gone, "second").await;
    until("a call that lasts", || board.lock().running.contains(&gone)).await;
    client(&server)
        .await
        .delete(&config_maps(), &gone.parse().unwrap(), &DeleteParams::default())
        .await
        .unwrap();
    one.shards.leave();
    until("the shard to be given up", || one.shards.held() == 0).await;
    assert!(two.shards.term(0).is_none() && board.lock().running.contains(&gone), "the call has not ended");
    one.permits.add_permits(MANY);
    until("all shards at the second host", || two.host.plugin().key_shards == Some(vec![0, 1])).await;
    let is_reconciled = |call: &(&str, String, bool)| *call == ("two_2", gone.clone(), true);
    until("the deletion", || board.lock().begun.iter().any(is_reconciled)).await;
    until("the keys of the first host", || board.lock().keys("two_2", from) == of_shard(0)).await;
    assert_eq!(board.lock().together, [""; 0]);
    server.shutdown().await;
}

#[tokio::test]
async fn a_shard_that_is_lost_ends_its_calls_and_drops_its_keys_and_the_others_go_on() {
    let server = DevServer::start(DevServerOptions::default()).await.unwrap();
    let (host, shards) = host_of(&server, "one_1", 2).await;
    host.compiler.add(b"a", FakeComponent::reconciler().0);
    host.apply(Change::Changed(files(b"a", &spec()))).await;
    until("the plugin to run", || host.plugin().state == PluginState::Running).await;
    until("both shards", || host.plugin().key_shards == Some(vec![0, 1])).await;
    let plugin = host.manager.find("p").expect("a plugin");
    until("both terms", || plugin.gate().is_open_for(&a_key(0, 0), None)).await;
    until("both terms", || plugin.gate().is_open_for(&a_key(1, 0), None)).await;
    // No worker takes a key.
    plugin.pause(true);
    let (election, queue) = (plugin.election(), plugin.queue());
    let keys = election.keys().expect("shared keys");
    for (call, shard) in [(1, 0), (2, 1)] {
        keys.call_begins(call, election.enter([&a_key(shard, 0)]).expect("a term"));
        queue.add_with(a_key(shard, 0), Reasons::UPDATED, Priority::NORMAL);
        queue.add_after(a_key(shard, 1), Reasons::ASKED, Priority::NORMAL, Duration::from_secs(3600));
    }
    let gone = of_shard(0).into_iter().next_back().unwrap().parse::<ObjectKey>().unwrap();
    queue.add_rate_limited(gone.clone(), Reasons::DELETED.of_another_try(), Priority::NORMAL);
    let may_write = |call| election.of_call(call).expect("a call").is_leader();
    assert!(may_write(1) && may_write(2) && !may_write(3));
    assert!(election.enter([&a_key(0, 0), &a_key(1, 0)]).is_some());

    take_shard(&server).await;
    until("the end of the term", || !may_write(1)).await;
    assert!(may_write(2) && election.is_leader_of(&a_key(1, 0)) && !election.is_leader_of(&a_key(0, 0)));
    assert!(election.enter([&a_key(0, 0), &a_key(1, 0)]).is_none());
    until("the gate of the shard to close", || !plugin.gate().is_open_for(&a_key(0, 0), None)).await;
    assert!(plugin.gate().is_open_for(&a_key(1, 0), None));
    // There is no other term of the shard before the call has ended, however long the Lease is over.
    sleep(Duration::from_secs(3)).await;
    assert!(shards.term(0).is_none());
    keys.call_ended(1);
    until("the next term", || plugin.gate().is_open_for(&a_key(0, 0), None)).await;
    // The key of an object that is gone has outlived the term, without its failures; the others of the shard are dropped.
    until("the keys", || (queue.len(), queue.len_delayed()) == (2, 1)).await;
    let is_queued = |key: &ObjectKey| queue.has_room_for(key, 0);
    assert!(is_queued(&gone) && is_queued(&a_key(1, 0)) && is_queued(&a_key(1, 1)));
    assert_eq!(queue.num_requeues(&gone), 0);
    keys.call_ended(2);
    server.shutdown().await;
}

fn a_key(shard: usize, number: usize) -> ObjectKey {
    of_shard(shard).into_iter().nth(number).unwrap().parse().unwrap()
}

/// A plugin that shares its keys or not, by the words of its manifest.
async fn change_keys(host: &Host, keys: &str) {
    let spec = json!({"keys": keys, "permissions": reads(&["*"], &[])});
    host.apply(Change::Changed(files(b"a", &spec))).await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_how_keys_are_shared_makes_another_plugin_once_the_calls_of_the_one_before_have_ended() {
    let shards = Shards::without_leases("one_1", 2);
    let host = host_without_leases(&shards).await;
    let permits = Arc::new(Semaphore::new(0));
    let (component, mut calls) = FakeComponent::reconciler();
    host.compiler.add(b"a", component.held(&permits));
    let reason = "no YAML".to_owned();
    host.apply(Change::Broken { name: "p".to_owned(), file: "p.yaml".into(), reason }).await;
    assert_eq!((host.plugin().state, host.plugin().key_shards), (PluginState::Failed, None));
    change_keys(&host, "perNamespace").await;
    assert_eq!((host.plugin().state, host.plugin().key_shards), (PluginState::Running, Some(vec![])));
    let before = current(&host);
    // The plugin as a whole is in one shard; the call is in the other one.
    let [own, other] = if shards.shard_of("p") == 0 { [0, 1] } else { [1, 0] };
    let hour = Duration::from_secs(3600);
    (0..2).for_each(|shard| shards.begin_term(shard, hour));
    settle().await;
    before.queue().add(a_key(other, 0));
    calls.next().await;
    before.pause(true);
    let gone = a_key(own, 1);
    before.queue().add_with(gone.clone(), Reasons::DELETED, Priority::NORMAL);
    before.queue().add_with(a_key(own, 0), Reasons::UPDATED, Priority::NORMAL);

    change_keys(&host, "together").await;
    let next = current(&host);
    assert!(before.is_stopping() && !Arc::ptr_eq(&before, &next));
    assert!(next.is_paused() && next.election().keys().is_none() && next.election().is_leader());
    assert_eq!(host.plugin().generation, 0, "the last call goes on");
    // The shard of that call is not given up before it has ended, although the plugin of now is in another one.
    shards.cancel_term(other);
    let mut standing_down = std::pin::pin!(host.manager.stand_down(other));
    assert!(timeout(SECOND, standing_down.as_mut()).await.is_err());
    permits.add_permits(MANY);
    standing_down.await;
    settle().await;
    assert_eq!((host.plugin().state, host.plugin().generation), (PluginState::Paused, 2));
    assert!(next.queue().has_room_for(&gone, 0) && !next.queue().has_room_for(&a_key(own, 0), 0));

    // Its shard moves, and it stands by with the same files.
    shards.cancel_term(own);
    settle().await;
    assert!(next.is_stopping() && current(&host).election().keys().is_none());
    assert_eq!((host.plugin().generation, host.plugin().last_error), (3, None));
    assert_eq!(current(&host).gate().tombstones(), 1, "the key of the object that is gone");
}

#[tokio::test(start_paused = true)]
async fn the_informers_go_on_over_a_change_of_how_keys_are_shared() {
    let host = host_without_leases(&Shards::without_leases("one_1", 2)).await;
    host.compiler.add(b"a", FakeComponent::reconciler().0);
    change_keys(&host, "perNamespace").await;
    let before = current(&host);
    let goes_on = informers_of(&before);
    let call = before.spawn(std::future::pending::<()>());
    change_keys(&host, "together").await;
    assert!(before.is_stopping() && current(&host).current().is_none(), "the next one waits for the call");
    assert!(goes_on());
    call.abort();
    settle().await;
    assert!(current(&host).current().is_some() && !goes_on());
}
