//! Hosts that share the keys of a plugin, on the paused clock and without Leases: shards move between them, are lost and come
//! back, while objects change. `manager/shards/key_tests.rs` has the same with Leases.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Weak;
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_cache::testing::{FakeControllerSource, config_maps};
use pilothouse_election::{KeyShards, Shards};
use pilothouse_object::ObjectKey;
use pilothouse_plugin::World;
use pilothouse_workqueue::Priority;
use proptest::prelude::*;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::*;
use crate::dispatch::reasons::Reasons;
use crate::leader_election::LeaderElection;
use crate::testing::{FakeComponent, TestPlugin, done};

const SECOND: Duration = Duration::from_secs(1);
/// Longer than a test.
const LONG: Duration = Duration::from_secs(1 << 20);
/// The time of a call.
const CALL: Duration = Duration::from_millis(5);
const SHARDS: usize = 3;
/// Objects, each in a namespace of its own: some are in each shard.
const OBJECTS: usize = 12;

fn key(number: usize) -> ObjectKey {
    format!("team-{number}/x").parse().unwrap()
}

fn shard_of(key: &ObjectKey) -> usize {
    KeyShards::new("p", SHARDS).of(key.namespace())
}

fn keys_of<const N: usize>(shard: usize) -> [ObjectKey; N] {
    let mut keys = (0..OBJECTS).map(key).filter(|key| shard_of(key) == shard);
    std::array::from_fn(|_| keys.next().expect("a key"))
}

/// What the calls of all hosts saw.
#[derive(Default)]
struct Board {
    /// The host that has each shard, until its work there has ended.
    holders: [Option<usize>; SHARDS],
    running: BTreeSet<ObjectKey>,
    /// The version that the cache showed of each object when the last call for it began; none if it showed none.
    seen: BTreeMap<ObjectKey, Option<String>>,
    wrong: Vec<String>,
}

impl Board {
    fn begin(&mut self, host: usize, key: &ObjectKey, plugin: &Weak<Plugin>) {
        let shard = shard_of(key);
        if self.holders[shard] != Some(host) {
            self.wrong.push(format!("host {host} called {key} without its shard"));
        }
        if !self.running.insert(key.clone()) {
            self.wrong.push(format!("two calls for {key} at once"));
        }
        let generation = plugin.upgrade().and_then(|plugin| plugin.current()).expect("a generation");
        let (_, cache) = generation.imports.caches().next().expect("a cache");
        let version = cache.get(key).map(|object| object.resource_version().to_owned());
        self.seen.insert(key.clone(), version);
    }
}

struct Member {
    number: usize,
    shards: Shards,
    test: TestPlugin,
    board: Arc<Mutex<Board>>,
}

impl Member {
    async fn start(number: usize, server: &FakeControllerSource, board: &Arc<Mutex<Board>>) -> Self {
        let shards = Shards::without_leases(&format!("host_{number}"), SHARDS);
        let election = LeaderElection::sharded(shards.clone(), SECOND * 5);
        let test = TestPlugin::sharing_keys(election, server).await;
        let description = json!({
            "watches": [{"version": "v1", "kind": "ConfigMap"}],
            "maxConcurrentReconciles": 3,
        });
        let (component, _) = FakeComponent::new("sha256:a", World::Reconciler, description);
        let (called, plugin) = (Arc::clone(board), Arc::downgrade(&test.plugin));
        let component = component.script(move |call| {
            let (board, plugin) = (Arc::clone(&called), Weak::clone(&plugin));
            async move {
                let key: ObjectKey = call.keys[0].parse().unwrap();
                board.lock().begin(number, &key, &plugin);
                sleep(CALL).await;
                board.lock().running.remove(&key);
                done(&call)
            }
        });
        test.run_with(component, json!({"keys": "perNamespace"})).await;
        Self { number, shards, test, board: Arc::clone(board) }
    }

    /// A term of a shard begins.
    fn take(&self, shard: usize, valid: Duration) {
        self.board.lock().holders[shard] = Some(self.number);
        self.shards.begin_term(shard, valid);
    }

    /// A term of a shard ends, because it is lost or given up; as the manager does.
    async fn leave(&self, shard: usize, is_lost: bool) {
        if is_lost {
            self.shards.end_term(shard);
        } else {
            self.shards.cancel_term(shard);
        }
        self.test.plugin.end_term(shard).await;
        self.test.standby.add_to(shard, &self.test.plugin);
        self.shards.end_term(shard);
        let mut board = self.board.lock();
        let late = board.running.iter().filter(|key| shard_of(key) == shard).cloned().collect::<Vec<_>>();
        board.wrong.extend(late.into_iter().map(|key| format!("the call for {key} has not ended")));
        board.holders[shard] = None;
    }
}

#[tokio::test(start_paused = true)]
async fn no_call_begins_and_none_writes_after_the_deadline_of_the_shard_of_its_key() {
    let (server, board) = (FakeControllerSource::new(config_maps()), Arc::<Mutex<Board>>::default());
    let [a, gone]: [ObjectKey; 2] = keys_of(0);
    let [b]: [ObjectKey; 1] = keys_of(1);
    for key in [&a, &gone, &b] {
        server.create(key.as_str(), json!({}));
    }
    let host = Member::start(0, &server, &board).await;
    let seen = || std::mem::take(&mut board.lock().seen).into_keys().collect::<BTreeSet<_>>();
    sleep(SECOND).await;
    assert_eq!(seen(), BTreeSet::new());
    host.take(0, SECOND * 10);
    host.take(1, LONG);
    sleep(SECOND).await;
    assert_eq!(seen(), [a.clone(), gone.clone(), b.clone()].into());

    let election = host.test.plugin.election();
    let keys = election.keys().expect("shared keys");
    keys.call_begins(1, election.enter([&a]).expect("a term"));
    keys.call_begins(2, election.enter([&b]).expect("a term"));
    let may_write = |call| election.of_call(call).expect("a call").is_leader();
    assert!(may_write(1) && may_write(2) && !may_write(3));
    keys.call_begins(3, election.enter([&a, &b]).expect("two terms"));
    assert!(may_write(3));
    // Nothing of the host runs for the term of `a` to end.
    sleep(SECOND * 9).await;
    assert!(!may_write(1) && may_write(2) && !election.is_leader_of(&a) && election.is_leader_of(&b));
    assert!(!may_write(3), "one of its terms is over");
    keys.call_ended(3);
    assert!(election.enter([&a]).is_none() && election.enter([&a, &b]).is_none());
    // The call adds its own key as before.
    assert!(keys.is_own(&a));
    server.update(a.as_str(), json!({"data": {"x": "1"}}));
    server.update(b.as_str(), json!({"data": {"x": "1"}}));
    server.delete(gone.as_str());
    sleep(SECOND).await;
    assert_eq!(seen(), [b.clone()].into());

    let mut ending = std::pin::pin!(host.leave(0, true));
    assert!(timeout(SECOND, ending.as_mut()).await.is_err(), "a call for a key of the shard is under way");
    keys.call_ended(1);
    ending.await;
    assert!(!keys.is_own(&a) && keys.is_own(&b));
    let (queue, gate) = (host.test.plugin.queue(), host.test.plugin.gate());
    assert_eq!((queue.len(), queue.len_delayed(), gate.tombstones()), (0, 0, 1));
    sleep(SECOND).await;
    assert_eq!(seen(), BTreeSet::new());
    host.take(0, LONG);
    sleep(SECOND).await;
    // All keys of the shard, and none of the other one.
    assert_eq!(seen(), [a, gone].into());
    keys.call_ended(2);
    assert_eq!(board.lock().wrong, [""; 0]);
    host.test.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_keys_of_a_shard_whose_term_is_over_are_dropped_whatever_their_priority_is() {
    let (server, board) = (FakeControllerSource::new(config_maps()), Arc::<Mutex<Board>>::default());
    let ([a], [b]): ([ObjectKey; 1], [ObjectKey; 1]) = (keys_of(0), keys_of(1));
    let host = Member::start(0, &server, &board).await;
    host.take(1, LONG);
    let (plugin, queue) = (&host.test.plugin, host.test.plugin.queue());
    queue.add_with(b.clone(), Reasons::UPDATED, Priority::NORMAL);
    queue.add_with(a, Reasons::UPDATED, Priority::LOW);
    worker::drop_keys_of_others(plugin, plugin.election().keys().expect("shared keys"));
    assert_eq!(queue.len(), 1);
    let left = queue.try_get().expect("a key");
    assert_eq!((&left.key, left.payload, left.priority), (&b, Reasons::UPDATED, Priority::NORMAL));
    queue.done(left);
    host.test.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_terms_of_shards_that_begin_together_have_one_pass_over_the_cached_objects() {
    let (server, board) = (FakeControllerSource::new(config_maps()), Arc::<Mutex<Board>>::default());
    (0..OBJECTS).for_each(|n| _ = server.create(key(n).as_str(), json!({})));
    let host = Member::start(0, &server, &board).await;
    let plugin = &host.test.plugin;
    let begin = |shard| {
        host.take(shard, LONG);
        plugin.begin_term(shard, &host.shards.term(shard).expect("a term"));
    };
    // Nothing runs in between.
    begin(0);
    begin(1);
    assert_eq!(plugin.backfill().parts(), 1);
    // A pass that has begun is over objects that the next shard needs as well.
    assert!(plugin.backfill().feed(1));
    begin(2);
    assert_eq!(plugin.backfill().parts(), 2);
    sleep(SECOND).await;
    let seen: BTreeSet<ObjectKey> = board.lock().seen.keys().cloned().collect();
    assert_eq!(seen, (0..OBJECTS).map(key).collect::<BTreeSet<_>>());
    assert_eq!(board.lock().wrong, [""; 0]);
    host.test.end().await;
}

#[derive(Debug, Clone)]
enum Step {
    Change(usize),
    Delete(usize),
    /// The shard, whether its term is lost rather than given up, and the host that has it next.
    Move(usize, bool, usize),
    /// For so many milliseconds.
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..OBJECTS).prop_map(Step::Change),
        2 => (0..OBJECTS).prop_map(Step::Delete),
        3 => (0..SHARDS, any::<bool>(), 0..2_usize).prop_map(|(shard, lost, to)| Step::Move(shard, lost, to)),
        2 => (0..8_u64).prop_map(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Each object is reconciled after its last change, and each deletion, by the host that had the shard then; and no key by
    /// two hosts, or twice, at once.
    #[test]
    fn two_hosts_hand_shards_over_and_lose_no_key_and_never_work_on_one_key_together(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (server, board) = (FakeControllerSource::new(config_maps()), Arc::<Mutex<Board>>::default());
            let hosts = [Member::start(0, &server, &board).await, Member::start(1, &server, &board).await];
            (0..SHARDS).for_each(|shard| hosts[shard % 2].take(shard, LONG));
            // The version of each object, or none after its deletion.
            let mut versions: BTreeMap<ObjectKey, Option<String>> = BTreeMap::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Change(n) => {
                        let (key, body) = (key(n), json!({"data": {"x": number.to_string()}}));
                        let object = match versions.get(&key) {
                            Some(Some(_)) => server.update(key.as_str(), body),
                            _ => server.create(key.as_str(), body),
                        };
                        versions.insert(key, Some(object.resource_version().to_owned()));
                    }
                    Step::Delete(n) => {
                        if let Some(version) = versions.get_mut(&key(n)).filter(|version| version.is_some()) {
                            server.delete(key(n).as_str());
                            *version = None;
                        }
                    }
                    Step::Move(shard, is_lost, to) => {
                        let holder = board.lock().holders[shard];
                        if let Some(holder) = holder {
                            hosts[holder].leave(shard, is_lost).await;
                        }
                        hosts[to].take(shard, LONG);
                    }
                    Step::Wait(milliseconds) => sleep(Duration::from_millis(milliseconds)).await,
                }
            }
            sleep(SECOND * 60).await;
            let wrong = std::mem::take(&mut board.lock().wrong);
            prop_assert_eq!(wrong, [""; 0]);
            for (key, version) in versions {
                let seen = board.lock().seen.get(&key).cloned();
                // One that came and went at once may have been seen by nobody.
                prop_assert_eq!(seen.unwrap_or_default(), version, "{}", key);
            }
            for host in &hosts {
                host.test.end().await;
            }
            Ok(())
        })?;
    }
}
