//! §1.12 and pitfalls 21 and 23: the informer of one namespace follows the one of all namespaces while there is one. Its
//! listeners see no gap and no repetition; at the changeover, several changes of an object may be one, as after a list.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use pilothouse_client::WatchEvent;
use pilothouse_object::{ListMeta, ObjectKey, Projection};
use proptest::prelude::*;
use serde_json::json;
use tokio::time::sleep;

use super::factory::{factory, tasks};
use super::{server, soon};
use crate::testing::{Call, FakeControllerSource, Recorder, View, config_map, config_maps, errors};
use crate::{FactoryOptions, FnListerWatcher, Indexer, InformerLease, ListerWatcher, SharedInformerFactory};

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

/// Starts the informer of all namespaces, which the narrow one follows as soon as it has synced.
async fn widen(narrow: &Narrow) -> InformerLease {
    let wide = narrow.factory.informer(&config_maps(), None);
    assert!(soon(wide.wait_synced()).await);
    one_watch(&narrow.server).await;
    wide
}

#[tokio::test(start_paused = true)]
async fn a_narrow_watch_ends_when_the_wide_informer_has_synced() {
    let narrow = narrow().await;
    narrow.server.create("b/y", json!({}));
    let wide = widen(&narrow).await;
    narrow.server.create("a/y", json!({}));
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
    assert_eq!((narrow.server.list_versions().len(), narrow.server.open_watches()), (2, 1));
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
    assert_eq!((&*wide.indexer().resource_version(), narrow.server.open_watches()), ("3", 1), "it is behind");
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
async fn a_follower_that_needs_more_fields_which_the_wide_informer_has_gets_them_from_it() {
    let server = server();
    server.create("a/x", json!({"data": {"a": "b"}}));
    let factory = factory(&server);
    let _wide = factory.informer(&config_maps(), None);
    let narrow = factory.metadata_informer(&config_maps(), Some("a"));
    assert!(soon(narrow.wait_synced()).await);
    settle().await;
    let projected =
        factory.projected_informer(&config_maps(), Some("a"), &Projection::parse(["/data"]).unwrap());
    assert!(soon(projected.wait_synced()).await);
    assert_eq!(narrow.indexer().list()[0].get("/data/a"), Some("\"b\""));
    one_watch(&server).await;
}

#[tokio::test(start_paused = true)]
async fn a_listener_whose_initial_objects_are_on_the_way_gets_the_rest_after_a_changeover() {
    let narrow = narrow().await;
    for n in 0..2500 {
        narrow.server.create(&format!("a/{n:04}"), json!({}));
    }
    caught_up(narrow.lease.indexer(), &narrow.server).await;
    let wide = widen(&narrow).await;
    let late = Recorder::new();
    let registration = narrow.lease.add_listener(late.clone(), None).unwrap();
    assert!(!registration.has_synced());
    // The first chunk that the task delivers, and with it the only notice of the replay.
    tokio::task::yield_now().await;
    drop(wide);
    assert!(soon(registration.wait_synced()).await);
    assert_eq!(late.view(), View::of(&narrow.lease.indexer().list()));
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
async fn a_follower_that_is_asked_to_list_has_the_wide_informer_ask_the_server() {
    let narrow = narrow().await;
    let wide = widen(&narrow).await;
    narrow.server.create("a/lost", json!({}));
    caught_up(narrow.lease.indexer(), &narrow.server).await;
    narrow.server.restore(2, Vec::new());
    narrow.lease.relist();
    sleep(Duration::from_secs(600)).await;
    for lease in [&narrow.lease, &wide] {
        assert!(lease.indexer().is_empty(), "{:?}", lease.indexer().keys());
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_was_asked_for_comes_also_when_the_wide_informer_ends_before_it() {
    let narrow = narrow().await;
    let wide = widen(&narrow).await;
    narrow.server.create("a/lost", json!({}));
    caught_up(narrow.lease.indexer(), &narrow.server).await;
    narrow.server.restore(2, Vec::new());
    narrow.lease.relist();
    drop(wide);
    narrow.server.heal();
    sleep(Duration::from_secs(600)).await;
    assert!(narrow.lease.indexer().is_empty(), "{:?}", narrow.lease.indexer().keys());
}

#[tokio::test(start_paused = true)]
async fn changes_wake_no_task_of_a_follower() {
    let server = server();
    server.create("b/x", json!({}));
    let factory = factory(&server);
    let wide = factory.informer(&config_maps(), None);
    assert!(soon(wide.wait_synced()).await);
    soon(server.wait_for_watches(1)).await;
    let narrow: Vec<_> =
        (0..1000).map(|n| factory.informer(&config_maps(), Some(&format!("n{n}")))).collect();
    for narrow in &narrow {
        assert!(soon(narrow.wait_synced()).await);
    }
    settle().await;
    let wakeups = |leases: &[InformerLease]| {
        leases.iter().map(|lease| lease.informer().metrics().informer_wakeups_total).sum::<u64>()
    };
    let (before, of_wide) = (wakeups(&narrow), wakeups(std::slice::from_ref(&wide)));
    assert!(before >= 1000);
    for _ in 0..100 {
        server.update("b/x", json!({}));
        caught_up(wide.indexer(), &server).await;
    }
    server.create("n500/y", json!({}));
    caught_up(narrow[500].indexer(), &server).await;
    settle().await;
    assert_eq!(wakeups(&narrow), before);
    assert!(wakeups(&[wide]) >= of_wide + 100);
    assert_eq!(narrow[500].indexer().len(), 1);
    assert!(narrow.iter().all(|narrow| narrow.indexer().has_seen(&server.version())));
    assert_eq!(server.requests().len(), 2, "the narrow ones asked the server");
}

#[tokio::test(start_paused = true)]
async fn a_transform_is_called_once_for_wide_and_narrow_informers_together() {
    let server = server();
    server.create("a/x", json!({}));
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let transform = move |object| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(object)
    };
    let mut options = FactoryOptions::default();
    options.informer.reflector.transform = Some(Arc::new(transform));
    let source = server.clone();
    let factory =
        SharedInformerFactory::new(Arc::new(move |_, namespace| source.source_in(namespace)), options);
    let wide = factory.informer(&config_maps(), None);
    assert!(soon(wide.wait_synced()).await);
    let narrow = factory.informer(&config_maps(), Some("a"));
    assert!(soon(narrow.wait_synced()).await);
    soon(server.wait_for_watches(1)).await;
    server.update("a/x", json!({}));
    caught_up(narrow.indexer(), &server).await;
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_narrow_informer_follows_also_where_versions_cannot_be_compared() {
    let (send, changes) = tokio::sync::broadcast::channel::<WatchEvent>(8);
    drop(changes);
    let list = |_: &_| {
        let meta = ListMeta { resource_version: "alpha".to_owned(), ..ListMeta::default() };
        Ok((vec![config_map("a/x", "alpha")], meta))
    };
    let sender = send.clone();
    let watch = move |_: &_| {
        let changes = stream::unfold(sender.subscribe(), async |mut changes| {
            changes.recv().await.ok().map(|event| (Ok(event), changes))
        });
        Ok(changes.boxed())
    };
    let source: Arc<dyn ListerWatcher> = Arc::new(FnListerWatcher::new(list, watch));
    let factory = SharedInformerFactory::new(Arc::new(move |_, _| source.clone()), FactoryOptions::default());
    let wide = factory.informer(&config_maps(), None);
    assert!(soon(wide.wait_synced()).await);
    let narrow = factory.informer(&config_maps(), Some("a"));
    assert!(soon(narrow.wait_synced()).await);
    settle().await;
    assert_eq!(send.receiver_count(), 1, "the narrow one watches by itself");
    assert!(send.send(WatchEvent::Modified(config_map("a/x", "beta"))).is_ok());
    soon(wide.indexer().wait_until_seen("beta")).await;
    assert_eq!(narrow.indexer().list()[0].resource_version(), "beta");
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
    /// Without faults the listener gets changes of the server in their order, none twice, and at the end the last one of
    /// each key; only at a changeover are some left out.
    #[test]
    fn no_change_is_told_twice_or_out_of_order_whenever_the_wide_informer_comes_and_goes(steps in steps(0)) {
        let (calls, server) = paused(run(steps));
        let mut wanted: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (version, sign, key) in server.events() {
            if key.namespace() == Some("a") {
                wanted.entry(key.to_string()).or_default().push(version.to_string());
                let _ = sign;
            }
        }
        for (key, told) in by_key(&calls) {
            let versions: Vec<u64> =
                told.iter().filter(|call| !call.starts_with('-')).map(|call| call.trim_start_matches('+').parse().unwrap()).collect();
            prop_assert!(versions.is_sorted_by(|a, b| a < b), "{key}: {told:?}");
            prop_assert!(versions.iter().all(|version| wanted[&key].contains(&version.to_string())), "{key}: {told:?}");
        }
    }

    /// With faults it is a legal sequence, and at rest everybody agrees.
    #[test]
    fn under_faults_the_sequence_is_legal_and_at_rest_all_agree(steps in steps(3)) {
        paused(run(steps));
    }
}
