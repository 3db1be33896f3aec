//! §1.12 and pitfalls 21 and 23: the informer of one namespace follows the one of all namespaces while there is one, and
//! whoever listens to it sees neither a gap nor a repetition.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_object::{ObjectKey, Projection};
use proptest::prelude::*;
use serde_json::json;
use tokio::time::sleep;

use super::factory::{factory, tasks};
use super::{server, soon};
use crate::testing::{Call, FakeControllerSource, Recorder, Request, View, config_maps, errors};
use crate::{Indexer, InformerLease, SharedInformerFactory};

/// Lets everything that can run do so.
async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

async fn caught_up(indexer: &Indexer, server: &FakeControllerSource) {
    soon(indexer.wait_until_seen(&server.version())).await;
}

/// Until one watch of the server is left.
async fn one_watch(server: &FakeControllerSource) {
    soon(async {
        while server.open_watches() != 1 {
            settle().await;
        }
    })
    .await;
}

struct Narrow {
    server: FakeControllerSource,
    factory: SharedInformerFactory,
    lease: InformerLease,
    recorder: Arc<Recorder>,
    _place: crate::Registration,
}

/// An informer of namespace a with one object, and a listener that has been told of it.
async fn narrow() -> Narrow {
    let server = server();
    server.create("a/x", json!({}));
    server.create("b/x", json!({}));
    let factory = factory(&server);
    let lease = factory.informer(&config_maps(), Some("a"));
    let recorder = Recorder::new();
    let place = lease.add_listener(recorder.clone(), None).unwrap();
    assert!(soon(lease.wait_synced()).await);
    soon(server.wait_for_watches(1)).await;
    assert_eq!(recorder.take().len(), 2);
    Narrow { server, factory, lease, recorder, _place: place }
}

/// Starts the informer of all namespaces; the narrow one follows it when its own watch has shown what the other listed.
async fn widen(narrow: &Narrow) -> InformerLease {
    let wide = narrow.factory.informer(&config_maps(), None);
    assert!(soon(wide.wait_synced()).await);
    settle().await;
    narrow.server.bookmark();
    one_watch(&narrow.server).await;
    wide
}

#[tokio::test(start_paused = true)]
async fn a_narrow_watch_ends_when_the_wide_informer_has_synced_and_its_own_has_shown_as_much() {
    let narrow = narrow().await;
    narrow.server.create("b/y", json!({}));
    let wide = narrow.factory.informer(&config_maps(), None);
    assert!(soon(wide.wait_synced()).await);
    settle().await;
    // Nothing has told the narrow one yet that it is as far as version 4.
    assert_eq!(narrow.server.open_watches(), 2);
    narrow.server.create("a/y", json!({}));
    one_watch(&narrow.server).await;
    caught_up(narrow.lease.indexer(), &narrow.server).await;
    narrow.server.update("a/y", json!({}));
    caught_up(narrow.lease.indexer(), &narrow.server).await;
    narrow.server.delete("a/x");
    caught_up(narrow.lease.indexer(), &narrow.server).await;
    assert_eq!(
        narrow.recorder.take(),
        [
            Call::Add("a/y".into(), "5".into(), false),
            Call::Update("a/y".into(), "5".into(), "6".into(), false),
            Call::Delete("a/x".into(), Some("7".into()), false),
        ]
    );
    assert_eq!((narrow.lease.indexer().len(), wide.indexer().len()), (1, 3));
    assert_eq!(narrow.server.list_versions().len(), 2);
    narrow.factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_the_own_watch_has_shown_is_not_told_again_by_a_wide_informer_that_is_behind() {
    let narrow = narrow().await;
    narrow.server.freeze_next_list();
    narrow.server.create("a/y", json!({}));
    narrow.server.delete("a/y");
    caught_up(narrow.lease.indexer(), &narrow.server).await;
    narrow.server.fail_watches([errors::too_many_requests(Some(5))]);
    let wide = narrow.factory.informer(&config_maps(), None);
    assert!(soon(wide.wait_synced()).await);
    settle().await;
    assert_eq!((&*wide.indexer().resource_version(), narrow.server.open_watches()), ("3", 0), "it is behind");
    caught_up(wide.indexer(), &narrow.server).await;
    narrow.server.create("a/z", json!({}));
    caught_up(narrow.lease.indexer(), &narrow.server).await;
    assert_eq!(
        narrow.recorder.take(),
        [
            Call::Add("a/y".into(), "4".into(), false),
            Call::Delete("a/y".into(), Some("5".into()), false),
            Call::Add("a/z".into(), "6".into(), false),
        ]
    );
    assert_eq!(narrow.server.open_watches(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_a_bookmark_the_narrow_informer_lists_from_the_wide_one_in_the_end() {
    let narrow = narrow().await;
    narrow.server.create("b/y", json!({}));
    let wide = narrow.factory.informer(&config_maps(), None);
    assert!(soon(wide.wait_synced()).await);
    one_watch(&narrow.server).await;
    caught_up(narrow.lease.indexer(), &narrow.server).await;
    assert_eq!(narrow.recorder.take(), []);
    assert_eq!(narrow.server.list_versions().len(), 2, "the narrow one did not ask the server");
    narrow.server.update("a/x", json!({}));
    caught_up(narrow.lease.indexer(), &narrow.server).await;
    assert_eq!(narrow.recorder.take().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn objects_are_shared_between_the_stores() {
    let narrow = narrow().await;
    let wide = widen(&narrow).await;
    narrow.server.update("a/x", json!({"data": {"a": "b"}}));
    caught_up(narrow.lease.indexer(), &narrow.server).await;
    let key: ObjectKey = "a/x".parse().unwrap();
    let (one, other) = (narrow.lease.indexer().get(&key).unwrap(), wide.indexer().get(&key).unwrap());
    assert!(std::ptr::eq(one.bytes(), other.bytes()));
}

#[tokio::test(start_paused = true)]
async fn a_narrow_informer_that_starts_beside_a_wide_one_asks_the_server_nothing() {
    let server = server();
    server.create("a/x", json!({}));
    server.create("b/x", json!({}));
    let factory = factory(&server);
    let wide = factory.informer(&config_maps(), None);
    assert!(soon(wide.wait_synced()).await);
    soon(server.wait_for_watches(1)).await;
    let narrow = factory.informer(&config_maps(), Some("a"));
    let recorder = Recorder::new();
    let _place = narrow.add_listener(recorder.clone(), None).unwrap();
    assert!(soon(narrow.wait_synced()).await);
    server.create("a/y", json!({}));
    caught_up(narrow.indexer(), &server).await;
    assert_eq!(server.requests().len(), 2);
    assert_eq!(
        recorder.take(),
        [
            Call::Add("a/x".into(), "2".into(), true),
            Call::InitialListEnd,
            Call::Add("a/y".into(), "4".into(), false)
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn when_the_wide_informer_ends_the_narrow_one_watches_on_from_its_own_version() {
    let narrow = narrow().await;
    let wide = widen(&narrow).await;
    narrow.server.create("b/z", json!({}));
    caught_up(narrow.lease.indexer(), &narrow.server).await;
    drop(wide);
    narrow.server.create("a/z", json!({}));
    tasks(&narrow.factory, 1).await;
    caught_up(narrow.lease.indexer(), &narrow.server).await;
    assert_eq!(narrow.recorder.take(), [Call::Add("a/z".into(), "5".into(), false)]);
    assert_eq!(narrow.server.open_watches(), 1);
    let (_, last) = narrow.server.watches().pop().unwrap();
    assert_eq!(last.resource_version.as_deref(), Some("4"));
    assert_eq!(narrow.server.list_versions().len(), 2, "no list was needed");
}

#[tokio::test(start_paused = true)]
async fn a_list_of_the_wide_informer_reaches_the_followers_as_a_list() {
    let narrow = narrow().await;
    let _wide = widen(&narrow).await;
    narrow.server.break_watches(&errors::internal());
    narrow.server.delete("a/x");
    narrow.server.create("a/y", json!({}));
    narrow.server.compact();
    caught_up(narrow.lease.indexer(), &narrow.server).await;
    assert_eq!(
        narrow.recorder.take(),
        [Call::Delete("a/x".into(), Some("2".into()), true), Call::Add("a/y".into(), "5".into(), false)]
    );
    narrow.server.update("a/y", json!({}));
    caught_up(narrow.lease.indexer(), &narrow.server).await;
    assert_eq!(narrow.recorder.take().len(), 1);
    assert_eq!(narrow.server.open_watches(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_was_created_anew_is_told_to_the_followers_as_a_deletion_and_an_add() {
    let narrow = narrow().await;
    let _wide = widen(&narrow).await;
    narrow.server.recreate("a/x", json!({}));
    caught_up(narrow.lease.indexer(), &narrow.server).await;
    assert_eq!(
        narrow.recorder.take(),
        [Call::Delete("a/x".into(), Some("4".into()), false), Call::Add("a/x".into(), "5".into(), false)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_wide_informer_that_cannot_list_holds_up_nobody() {
    let narrow = narrow().await;
    narrow.server.fail_lists(std::iter::repeat_n(errors::forbidden(), 5));
    let wide = narrow.factory.informer(&config_maps(), None);
    narrow.server.create("a/y", json!({}));
    caught_up(narrow.lease.indexer(), &narrow.server).await;
    assert!(!wide.has_synced());
    assert_eq!(narrow.recorder.take().len(), 1);
    drop(wide);
    narrow.server.create("a/z", json!({}));
    caught_up(narrow.lease.indexer(), &narrow.server).await;
    assert_eq!(narrow.recorder.take().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_wide_informer_with_fewer_fields_is_not_followed_until_it_has_them() {
    let narrow = narrow().await;
    let wide = narrow.factory.metadata_informer(&config_maps(), None);
    assert!(soon(wide.wait_synced()).await);
    settle().await;
    narrow.server.bookmark();
    settle().await;
    assert_eq!(narrow.server.open_watches(), 2);
    let whole = narrow.factory.informer(&config_maps(), None);
    assert!(soon(whole.wait_synced()).await);
    settle().await;
    narrow.server.bookmark();
    one_watch(&narrow.server).await;
    narrow.server.update("a/x", json!({"data": {"a": "b"}}));
    caught_up(narrow.lease.indexer(), &narrow.server).await;
    assert!(!narrow.lease.indexer().list()[0].is_partial());
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_needs_more_fields_than_the_wide_informer_has_goes_back_to_the_server() {
    let server = server();
    server.create("a/x", json!({"data": {"a": "b"}}));
    let factory = factory(&server);
    let wide = factory.metadata_informer(&config_maps(), None);
    assert!(soon(wide.wait_synced()).await);
    let narrow = factory.metadata_informer(&config_maps(), Some("a"));
    assert!(soon(narrow.wait_synced()).await);
    assert_eq!(server.list_versions().len(), 1);
    let fields = Projection::parse(["/data"]).unwrap();
    let projected = factory.projected_informer(&config_maps(), Some("a"), &fields);
    assert!(!projected.has_synced() && narrow.has_synced());
    assert!(soon(projected.wait_synced()).await);
    assert_eq!(narrow.indexer().list()[0].get("/data/a"), Some("\"b\""));
    assert_eq!(wide.indexer().list()[0].get("/data"), None);
    soon(server.wait_for_watches(2)).await;
    assert_eq!((server.list_versions().len(), server.open_watches()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_is_asked_to_list_asks_the_server() {
    let narrow = narrow().await;
    let wide = widen(&narrow).await;
    narrow.server.create("a/lost", json!({}));
    caught_up(narrow.lease.indexer(), &narrow.server).await;
    narrow.server.restore(2, Vec::new());
    narrow.lease.relist();
    settle().await;
    drop(wide);
    narrow.server.heal();
    sleep(Duration::from_secs(600)).await;
    assert!(narrow.lease.indexer().is_empty(), "{:?}", narrow.lease.indexer().keys());
}

// Random interleavings; `PROPTEST_CASES=20000 cargo test -p pilothouse-cache handover` runs them for longer.

#[derive(Debug, Clone)]
enum Step {
    Write {
        key: usize,
        action: u8,
    },
    /// Several writes that are read at once.
    Burst(Vec<(usize, u8)>),
    Bookmark,
    Widen(bool),
    Wait {
        millis: u64,
    },
    Yield {
        times: u8,
    },
    /// A fault of the server; only where events may be compressed.
    Fault(u8),
}

const KEYS: [&str; 5] = ["a/x", "a/y", "a/z", "b/x", "b/y"];

fn steps(faults: u32) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        10 => (0..KEYS.len(), 0_u8..6).prop_map(|(key, action)| Step::Write { key, action }),
        3 => prop::collection::vec((0..KEYS.len(), 0_u8..3), 2..6).prop_map(Step::Burst),
        2 => Just(Step::Bookmark),
        4 => any::<bool>().prop_map(Step::Widen),
        3 => (0_u64..1000).prop_map(|millis| Step::Wait { millis }),
        5 => (0_u8..6).prop_map(|times| Step::Yield { times }),
        faults => (0_u8..4).prop_map(Step::Fault),
    ];
    prop::collection::vec(step, 1..100)
}

fn write(server: &FakeControllerSource, key: &str, action: u8) {
    let exists = server.objects().iter().any(|object| object.key().as_str() == key);
    match (exists, action) {
        (false, _) => drop(server.create(key, json!({}))),
        (true, 0) => drop(server.delete(key)),
        (true, 1) => drop(server.recreate(key, json!({}))),
        (true, _) => drop(server.update(key, json!({"data": {"action": action.to_string()}}))),
    }
}

fn fault(server: &FakeControllerSource, which: u8) {
    match which {
        0 => server.compact(),
        1 => server.drop_watches(),
        2 => server.break_watches(&errors::internal()),
        _ => server.fail_lists([errors::internal()]),
    }
}

/// Runs the steps on a namespace's informer; what its listener was told, and the server.
async fn run(steps: Vec<Step>) -> (Vec<Call>, FakeControllerSource) {
    let server = server();
    server.create("a/x", json!({}));
    let factory = factory(&server);
    let narrow = factory.informer(&config_maps(), Some("a"));
    let recorder = Recorder::new();
    let _place = narrow.add_listener(recorder.clone(), None).unwrap();
    soon(narrow.wait_synced()).await;
    soon(server.wait_for_watches(1)).await;
    let mut wide = None;
    for step in steps {
        match step {
            Step::Write { key, action } => write(&server, KEYS[key], action),
            Step::Burst(writes) => {
                writes.iter().for_each(|(key, action)| write(&server, KEYS[*key], *action));
            }
            Step::Bookmark => server.bookmark(),
            Step::Widen(false) => wide = None,
            Step::Widen(true) => wide = Some(factory.informer(&config_maps(), None)),
            Step::Wait { millis } => sleep(Duration::from_millis(millis)).await,
            Step::Yield { times } => {
                for _ in 0..times {
                    tokio::task::yield_now().await;
                }
            }
            Step::Fault(which) => fault(&server, which),
        }
    }
    server.heal();
    server.create("a/last", json!({}));
    caught_up(narrow.indexer(), &server).await;
    narrow.indexer().check();
    let of_namespace: Vec<_> =
        server.objects().into_iter().filter(|object| object.namespace() == Some("a")).collect();
    assert_eq!(recorder.view(), View::of(&of_namespace));
    assert_eq!(View::of(&narrow.indexer().list()), View::of(&of_namespace));
    drop(wide);
    factory.shutdown().await;
    (recorder.calls(), server)
}

/// The versions told for each key, in order, deletions marked.
fn by_key(calls: &[Call]) -> BTreeMap<String, Vec<String>> {
    let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for call in calls {
        let (key, what) = match call {
            Call::Add(key, version, _) => (key, format!("+{version}")),
            Call::Update(key, _, version, _) => (key, version.clone()),
            Call::Delete(key, version, _) => (key, format!("-{}", version.as_deref().unwrap_or_default())),
            Call::InitialListEnd => continue,
        };
        told.entry(key.clone()).or_default().push(what);
    }
    told
}

fn paused<T>(test: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(test)
}

proptest! {
    /// Without faults every single event of the namespace is told, once, whatever the informers do meanwhile.
    #[test]
    fn no_event_is_missed_or_told_twice_whenever_the_wide_informer_comes_and_goes(steps in steps(0)) {
        let (calls, server) = paused(run(steps));
        let mut wanted: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (version, sign, key) in server.events() {
            if key.namespace() == Some("a") {
                wanted.entry(key.to_string()).or_default().push(format!("{sign}{version}"));
            }
        }
        prop_assert_eq!(by_key(&calls), wanted);
        let lists = server.requests().iter().filter(|request| matches!(request, Request::List { .. })).count();
        let watches = server.watches().len();
        prop_assert!(watches >= lists, "{lists} lists, {watches} watches");
    }

    /// With faults it is a legal sequence, and at rest everybody agrees.
    #[test]
    fn under_faults_the_sequence_is_legal_and_at_rest_all_agree(steps in steps(3)) {
        paused(run(steps));
    }
}
