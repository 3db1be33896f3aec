//! §1.4 and §1.9: what listeners are told and when; joining, leaving, panics, the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use parking_lot::Mutex;
use pilothouse_object::{Object, ObjectKey};
use serde_json::json;

use super::{Running, server, soon};
use crate::testing::{Call, FakeControllerSource, Recorder, View, config_maps, errors, object};
use crate::{
    CacheError, Event, FnListerWatcher, Indexer, InformerOptions, Listener, ReflectorOptions, Registration,
    Ring, RingOptions, SharedInformer,
};

fn add(key: &str, version: &str, initial: bool) -> Call {
    Call::Add(key.into(), version.into(), initial)
}

fn update(key: &str, old: &str, new: &str, is_sync: bool) -> Call {
    Call::Update(key.into(), old.into(), new.into(), is_sync)
}

fn delete(key: &str, version: &str, final_state_unknown: bool) -> Call {
    Call::Delete(key.into(), Some(version.into()), final_state_unknown)
}

fn join(running: &Running, recorder: &Arc<Recorder>) -> Registration {
    running.informer.add_listener(recorder.clone(), None).unwrap()
}

/// A listener made of one closure, called with the key.
struct Calls<F>(F);

impl<F: Fn(&ObjectKey) + Send + Sync> Listener for Calls<F> {
    fn on_add(&self, object: &Object, _: bool) {
        (self.0)(object.key());
    }
    fn on_update(&self, _: &Object, new: &Object, _: bool) {
        (self.0)(new.key());
    }
    fn on_delete(&self, key: &ObjectKey, _: Option<&Object>, _: bool) {
        (self.0)(key);
    }
}

async fn relist(server: &FakeControllerSource) {
    let (lists, watches) = (server.list_versions().len(), server.watches().len());
    server.break_watches(&errors::internal());
    soon(server.wait_for_lists(lists + 1)).await;
    soon(server.wait_for_watches(watches + 1)).await;
}

#[tokio::test(start_paused = true)]
async fn the_initial_list_is_told_as_initial_adds_in_its_order_and_what_follows_is_not() {
    let server = server();
    for key in ["a/x", "a/y", "b/z"] {
        server.create(key, json!({}));
    }
    let running = Running::on(&server);
    let recorder = Recorder::new();
    let registration = join(&running, &recorder);
    assert!(!registration.has_synced());
    assert!(soon(registration.wait_synced()).await);
    let expected =
        [add("a/x", "2", true), add("a/y", "3", true), add("b/z", "4", true), Call::InitialListEnd];
    assert_eq!(recorder.take(), expected);
    server.create("a/new", json!({}));
    server.update("a/x", json!({}));
    server.delete("a/y");
    running.caught_up(&server).await;
    assert_eq!(
        recorder.take(),
        [add("a/new", "5", false), update("a/x", "2", "6", false), delete("a/y", "7", false)]
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_store_is_changed_before_a_listener_hears_of_it() {
    let server = server();
    server.create("a/x", json!({}));
    let running = Running::on(&server);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (indexer, notes): (Arc<Indexer>, _) = (running.informer.indexer().clone(), seen.clone());
    let listener = Calls(move |key: &ObjectKey| {
        let version = indexer.get(key).map(|object| object.resource_version().to_owned());
        notes.lock().push(version.unwrap_or_default());
    });
    let _registration = running.informer.add_listener(Arc::new(listener), None).unwrap();
    soon(running.informer.wait_synced()).await;
    server.update("a/x", json!({}));
    running.caught_up(&server).await;
    server.delete("a/x");
    running.caught_up(&server).await;
    assert_eq!(*seen.lock(), ["2", "3", ""]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn at_any_call_of_a_relist_the_store_equals_the_list_and_deletions_come_first() {
    let server = server();
    for key in ["a/1", "a/2", "a/3"] {
        server.create(key, json!({}));
    }
    let running = Running::on(&server);
    soon(server.wait_for_watches(1)).await;
    let recorder = Recorder::new();
    let _registration = join(&running, &recorder);
    let _ = recorder.take();
    server.bookmark();
    server.drop_watches();
    server.delete("a/2");
    server.update("a/3", json!({}));
    server.create("a/0", json!({}));
    server.compact();
    let (indexer, list) = (running.informer.indexer().clone(), View::of(&server.objects()));
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let check = Calls(move |_: &ObjectKey| {
        // The replay at joining is before the relist.
        if indexer.has_seen("7") {
            assert_eq!(View::of(&indexer.list()), list);
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let _check = running.informer.add_listener(Arc::new(check), None).unwrap();
    running.caught_up(&server).await;
    let expected = [delete("a/2", "3", true), add("a/0", "7", false), update("a/3", "4", "6", false)];
    assert_eq!(recorder.take(), expected);
    assert_eq!((calls.load(Ordering::Relaxed), running.informer.metrics().listener_panics_total), (3, 0));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_add_of_a_known_key_is_an_update_and_an_update_of_an_unknown_one_an_add() {
    use pilothouse_client::WatchEvent::{Added, Deleted, Modified};
    let map = |key, version| crate::testing::config_map(key, version);
    let list = move |_: &_| {
        let meta = pilothouse_object::ListMeta { resource_version: "1".into(), ..Default::default() };
        Ok((vec![map("a/x", "1")], meta))
    };
    let watch = move |_: &_| {
        let events = [
            Added(map("a/x", "2")),
            Modified(map("a/y", "3")),
            Deleted(map("a/none", "4")),
            Deleted(map("a/y", "5")),
            Deleted(map("a/y", "6")),
        ];
        Ok(futures_util::stream::iter(events.map(Ok)).chain(futures_util::stream::pending()).boxed())
    };
    let source = Arc::new(FnListerWatcher::new(list, watch));
    let running = Running::of(SharedInformer::new(source, config_maps(), None, InformerOptions::default()));
    let recorder = Recorder::new();
    let _registration = join(&running, &recorder);
    soon(running.informer.indexer().wait_until_seen("6")).await;
    let expected = [
        add("a/x", "1", true),
        Call::InitialListEnd,
        update("a/x", "1", "2", false),
        add("a/y", "3", false),
        delete("a/y", "5", false),
    ];
    assert_eq!(recorder.calls(), expected);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_uid_is_told_as_a_deletion_and_an_add() {
    let server = server();
    server.create("a/x", json!({}));
    let running = Running::on(&server);
    soon(server.wait_for_watches(1)).await;
    let recorder = Recorder::new();
    let _registration = join(&running, &recorder);
    let _ = recorder.take();
    // Unseen by any watch: the history is gone before the next one.
    server.bookmark();
    server.drop_watches();
    server.recreate("a/x", json!({}));
    server.compact();
    running.caught_up(&server).await;
    assert_eq!(recorder.take(), [delete("a/x", "2", true), add("a/x", "4", false)]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_relist_without_changes_is_silent_but_for_those_who_asked_for_resyncs() {
    let server = server();
    server.create("a/x", json!({}));
    let running = Running::on(&server);
    soon(server.wait_for_watches(1)).await;
    let (plain, resyncing) = (Recorder::new(), Recorder::new());
    let _plain = join(&running, &plain);
    let _resyncing =
        running.informer.add_listener(resyncing.clone(), Some(Duration::from_secs(36_000))).unwrap();
    let _ = (plain.take(), resyncing.take());
    relist(&server).await;
    resyncing.wait_for_calls(3).await;
    assert_eq!(plain.take(), []);
    assert_eq!(resyncing.take(), [update("a/x", "2", "2", true)]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_late_listener_gets_a_small_store_before_the_call_returns_and_has_its_own_sync() {
    let server = server();
    server.create("a/x", json!({}));
    let running = Running::on(&server);
    soon(running.informer.wait_synced()).await;
    server.create("a/y", json!({}));
    running.caught_up(&server).await;
    let recorder = Recorder::new();
    let registration = join(&running, &recorder);
    assert!(registration.has_synced());
    let mut calls = recorder.take();
    assert_eq!(calls.pop(), Some(Call::InitialListEnd));
    calls.sort_by_key(|call| format!("{call:?}"));
    assert_eq!(calls, [add("a/x", "2", true), add("a/y", "3", true)]);
    server.update("a/x", json!({}));
    running.caught_up(&server).await;
    assert_eq!(recorder.take(), [update("a/x", "2", "4", false)]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_late_listener_of_a_large_store_gets_it_in_chunks_between_which_others_are_called() {
    let server = server();
    for n in 0..2500 {
        server.create(&format!("a/{n:04}"), json!({}));
    }
    let running = Running::on(&server);
    soon(running.informer.wait_synced()).await;
    soon(server.wait_for_watches(1)).await;
    let first = Recorder::new();
    let _first = join(&running, &first);
    soon(first.wait_for_calls(2501)).await;
    drop(first.take());
    let late = Recorder::new();
    let registration = join(&running, &late);
    assert_eq!((late.take().len(), registration.has_synced()), (1000, false));
    server.update("a/0000", json!({}));
    server.delete("a/2499");
    soon(first.wait_for_calls(2)).await;
    assert!(!registration.has_synced(), "the others had to wait for the replay");
    assert!(soon(registration.wait_synced()).await);
    let calls = late.take();
    assert_eq!(calls.len(), 1500 + 2 + 1);
    assert!(calls[..1500].iter().all(|call| matches!(call, Call::Add(_, _, true))));
    assert_eq!(
        calls[1500..],
        [update("a/0000", "2", "2502", false), delete("a/2499", "2503", false), Call::InitialListEnd]
    );
    assert_eq!(late.view(), View::of(&server.objects()));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_transform_that_panics_ends_one_pipeline_and_the_informer_lists_again() {
    let server = server();
    server.create("a/x", json!({}));
    let panics = Arc::new(AtomicUsize::new(0));
    let transform = {
        let panics = panics.clone();
        move |object: Object| {
            if object.name() == "bad" && panics.fetch_add(1, Ordering::Relaxed) == 0 {
                panic!("the transform");
            }
            Ok(object)
        }
    };
    let reflector = ReflectorOptions { transform: Some(Arc::new(transform)), ..ReflectorOptions::default() };
    let running = Running::with(&server, reflector);
    let recorder = Recorder::new();
    let _place = join(&running, &recorder);
    soon(running.informer.wait_synced()).await;
    soon(server.wait_for_watches(1)).await;
    server.create("a/bad", json!({}));
    running.caught_up(&server).await;
    assert_eq!(recorder.view(), View::of(&server.objects()));
    let status = running.informer.status();
    assert_eq!((status.restarts, status.stopped), (1, false));
    assert_eq!(running.informer.metrics().informer_restarts_total, 1);
    assert_eq!(server.list_versions().len(), 2);
    server.update("a/x", json!({}));
    running.caught_up(&server).await;
    assert_eq!(recorder.view(), View::of(&server.objects()));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn durations_without_end_are_taken() {
    let server = server();
    server.create("a/x", json!({}));
    let reflector = ReflectorOptions { min_watch_timeout: Duration::MAX, ..ReflectorOptions::default() };
    let running = Running::with(&server, reflector);
    let recorder = Recorder::new();
    let _place = running.informer.add_listener(recorder.clone(), Some(Duration::MAX)).unwrap();
    assert!(soon(running.informer.wait_synced()).await);
    soon(server.wait_for_watches(1)).await;
    assert_eq!(running.informer.status().restarts, 0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_ring_is_synced_when_its_consumer_acknowledged_the_initial_events() {
    let server = server();
    server.create("a/x", json!({}));
    server.create("a/y", json!({}));
    let running = Running::on(&server);
    let ring = Ring::new(running.informer.indexer().clone(), RingOptions::default());
    let registration = running.informer.add_listener(ring.clone(), None).unwrap();
    soon(running.informer.wait_synced()).await;
    assert!(!registration.has_synced());
    let first = soon(ring.next_batch(1)).await.unwrap();
    assert!(
        matches!(&first[0], Event::Added { initial: true, object, updated: false } if object.name() == "x")
    );
    let second = soon(ring.next_batch(9)).await.unwrap();
    drop(first);
    assert!(!registration.has_synced());
    drop(second);
    assert!(registration.has_synced() && soon(registration.wait_synced()).await);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_removal_has_returned_nothing_is_called() {
    let server = server();
    let running = Running::on(&server);
    soon(server.wait_for_watches(1)).await;
    let (leaving, staying) = (Recorder::new(), Recorder::new());
    let registration = join(&running, &leaving);
    let _staying = join(&running, &staying);
    // The event is on its way when the listener leaves.
    server.create("a/x", json!({}));
    registration.remove();
    running.caught_up(&server).await;
    assert_eq!(leaving.calls(), [Call::InitialListEnd]);
    assert_eq!(staying.calls(), [Call::InitialListEnd, add("a/x", "2", false)]);
    assert_eq!(running.informer.status().listeners, 1);
    running.stop().await;
}

#[test]
fn removal_waits_for_a_call_that_is_running() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = server();
    let running = runtime.block_on(async {
        let running = Running::on(&server);
        soon(running.informer.wait_synced()).await;
        running
    });
    let (entered, inside) = std::sync::mpsc::channel();
    let (let_go, held) = std::sync::mpsc::channel::<()>();
    let (left, held) = (Arc::new(AtomicUsize::new(0)), Mutex::new(held));
    let done = left.clone();
    let slow = Calls(move |_: &ObjectKey| {
        entered.send(()).unwrap();
        held.lock().recv().unwrap();
        done.store(1, Ordering::SeqCst);
    });
    let registration = running.informer.add_listener(Arc::new(slow), None).unwrap();
    server.create("a/x", json!({}));
    inside.recv().unwrap();
    let remover = std::thread::spawn(move || {
        registration.remove();
        left.load(Ordering::SeqCst)
    });
    let_go.send(()).unwrap();
    assert_eq!(remover.join().unwrap(), 1, "removal returned while the call was running");
    runtime.block_on(async {
        running.cancel.cancel();
        running.task.await.unwrap();
    });
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_removes_itself_from_inside_a_call_is_not_called_again() {
    let server = server();
    let running = Running::on(&server);
    soon(running.informer.wait_synced()).await;
    let slot: Arc<Mutex<Option<Registration>>> = Arc::default();
    let calls = Arc::new(AtomicUsize::new(0));
    let (own, count) = (slot.clone(), calls.clone());
    let listener = Calls(move |_: &ObjectKey| {
        count.fetch_add(1, Ordering::Relaxed);
        drop(own.lock().take());
    });
    *slot.lock() = Some(running.informer.add_listener(Arc::new(listener), None).unwrap());
    server.create("a/x", json!({}));
    server.create("a/y", json!({}));
    running.caught_up(&server).await;
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(running.informer.status().listeners, 0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_listener_cannot_be_added_from_inside_a_call() {
    let server = server();
    let running = Running::on(&server);
    soon(running.informer.wait_synced()).await;
    let (informer, outcome) = (running.informer.clone(), Arc::new(Mutex::new(None)));
    let result = outcome.clone();
    let listener = Calls(move |_: &ObjectKey| {
        *result.lock() = informer.add_listener(Recorder::new(), None).err();
    });
    let _registration = running.informer.add_listener(Arc::new(listener), None).unwrap();
    server.create("a/x", json!({}));
    running.caught_up(&server).await;
    assert_eq!(*outcome.lock(), Some(CacheError::Reentrant("configmaps.v1".into())));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_listener_is_contained_and_counted_and_does_not_keep_it_from_being_synced() {
    let server = server();
    server.create("a/x", json!({}));
    let running = Running::on(&server);
    let bad = running.informer.add_listener(Arc::new(Calls(|_: &ObjectKey| panic!("bad"))), None).unwrap();
    let good = Recorder::new();
    let _good = join(&running, &good);
    assert!(soon(bad.wait_synced()).await);
    server.update("a/x", json!({}));
    running.caught_up(&server).await;
    assert_eq!(good.calls(), [add("a/x", "2", true), Call::InitialListEnd, update("a/x", "2", "3", false)]);
    assert_eq!(running.informer.metrics().listener_panics_total, 2);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_moves_the_store_and_calls_nobody() {
    let server = server();
    let running = Running::on(&server);
    soon(server.wait_for_watches(1)).await;
    let recorder = Recorder::new();
    let _registration = join(&running, &recorder);
    server.skip_versions(100);
    server.bookmark();
    running.caught_up(&server).await;
    assert_eq!(&*running.informer.indexer().resource_version(), "101");
    assert_eq!(recorder.calls(), [Call::InitialListEnd]);
    assert_eq!(running.informer.metrics().reflector_bookmarks_total, 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_read_before_the_end_is_still_told() {
    let server = server();
    let running = Running::on(&server);
    soon(server.wait_for_watches(1)).await;
    let recorder = Recorder::new();
    let registration = join(&running, &recorder);
    let informer = running.informer.clone();
    server.create("a/x", json!({}));
    running.caught_up(&server).await;
    running.stop().await;
    assert_eq!(recorder.calls().len(), 2);
    assert!(registration.has_synced() && informer.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_has_ended_takes_no_listener_and_keeps_its_last_state() {
    let server = server();
    server.create("a/x", json!({}));
    let running = Running::on(&server);
    soon(running.informer.wait_synced()).await;
    let informer = running.informer.clone();
    running.stop().await;
    assert!(informer.is_stopped() && informer.status().stopped);
    let refused = informer.add_listener(Recorder::new(), None).unwrap_err();
    assert_eq!(refused, CacheError::Stopped("configmaps.v1".into()));
    assert_eq!(informer.indexer().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_ends_before_its_first_list_never_syncs_and_says_so() {
    let server = server();
    server.refuse(true);
    let running = Running::on(&server);
    let waiting = tokio::spawn({
        let informer = running.informer.clone();
        async move { informer.wait_synced().await }
    });
    let registration = join(&running, &Recorder::new());
    soon(server.wait_for_lists(2)).await;
    running.stop().await;
    assert!(!waiting.await.unwrap());
    assert!(!registration.wait_synced().await && !registration.has_synced());
}

#[tokio::test(start_paused = true)]
async fn a_second_run_returns_at_once() {
    let server = server();
    let running = Running::on(&server);
    soon(running.informer.wait_synced()).await;
    running.informer.run(tokio_util::sync::CancellationToken::new()).await;
    assert!(!running.informer.is_stopped());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_ends_the_informer_as_well() {
    let server = server();
    let running = Running::on(&server);
    soon(running.informer.wait_synced()).await;
    running.task.abort();
    assert!(running.task.await.is_err());
    assert!(running.informer.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn an_informer_of_one_namespace_sees_that_namespace_only() {
    let server = server();
    server.create("a/x", json!({}));
    server.create("b/x", json!({}));
    let options = InformerOptions::default();
    let running =
        Running::of(SharedInformer::new(server.source_in(Some("a")), config_maps(), Some("a"), options));
    soon(server.wait_for_watches(1)).await;
    server.create("b/y", json!({}));
    server.create("a/y", json!({}));
    running.caught_up(&server).await;
    assert_eq!(running.informer.indexer().list_namespace("b").len(), 0);
    assert_eq!(running.informer.indexer().len(), 2);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_carries_the_last_state_the_server_sent() {
    let server = server();
    let created = server.create("a/x", json!({}));
    let running = Running::on(&server);
    soon(server.wait_for_watches(1)).await;
    let recorder = Recorder::new();
    let _registration = join(&running, &recorder);
    let _ = recorder.take();
    server.delete("a/x");
    running.caught_up(&server).await;
    assert_eq!(recorder.take(), [delete("a/x", "3", false)]);
    assert_eq!(created.uid(), object(&config_maps().gvk, "a/x", "uid-1", "2", json!({})).uid());
    running.stop().await;
}
