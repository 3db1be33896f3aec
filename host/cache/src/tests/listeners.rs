//! §1.9 and §1.10: several listeners of one informer. Who is told of what, those that are slow, that come and go while it
//! works, and what is still told at the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use pilothouse_client::WatchEvent;
use pilothouse_object::{ListMeta, Object, ObjectKey};
use serde_json::json;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{Running, server, soon};
use crate::testing::{Call, Recorder, View, config_map, config_maps};
use crate::{
    Delta, Event, FnListerWatcher, InformerOptions, Listener, Registration, Ring, RingOptions, SharedInformer,
};

fn join(running: &Running, recorder: &Arc<Recorder>, resync: Option<Duration>) -> Registration {
    running.informer.add_listener(recorder.clone(), resync).unwrap()
}

fn update(key: &str, old: &str, new: &str, is_sync: bool) -> Call {
    Call::Update(key.into(), old.into(), new.into(), is_sync)
}

/// Far more than any test takes.
const HOURS: Option<Duration> = Some(Duration::from_secs(36_000));

/// An informer on a source that lists `a/x` and then watches what is given.
fn scripted(version: &'static str, events: impl Fn() -> Vec<WatchEvent> + Send + Sync + 'static) -> Running {
    let list = move |_: &_| {
        let meta = ListMeta { resource_version: "1".to_owned(), ..ListMeta::default() };
        Ok((vec![config_map("a/x", version)], meta))
    };
    let watch = move |_: &_| Ok(stream::iter(events().into_iter().map(Ok)).chain(stream::pending()).boxed());
    let source = Arc::new(FnListerWatcher::new(list, watch));
    Running::of(SharedInformer::new(source, config_maps(), None, InformerOptions::default()))
}

#[tokio::test(start_paused = true)]
async fn each_listener_is_told_of_each_change_in_the_same_order() {
    let server = server();
    server.create("a/x", json!({}));
    let running = Running::on(&server);
    let recorders: Vec<_> = (0..3).map(|_| Recorder::new()).collect();
    let _places: Vec<_> = recorders.iter().map(|recorder| join(&running, recorder, None)).collect();
    soon(running.informer.wait_synced()).await;
    server.create("a/y", json!({}));
    server.update("a/x", json!({}));
    server.delete("a/y");
    running.caught_up(&server).await;
    let told = [
        Call::Add("a/x".into(), "2".into(), true),
        Call::InitialListEnd,
        Call::Add("a/y".into(), "3".into(), false),
        update("a/x", "2", "4", false),
        Call::Delete("a/y".into(), Some("5".into()), false),
    ];
    // Of several keys that wait, all events of one come before those of the next.
    let first = recorders[0].calls();
    assert_eq!(first.len(), told.len());
    assert!(told.iter().all(|call| first.contains(call)), "{first:?}");
    assert!(recorders.iter().all(|recorder| recorder.calls() == first));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_that_changes_nothing_is_told_to_those_who_asked_for_resyncs_alone() {
    let running = scripted("1", || {
        let again = WatchEvent::Modified(config_map("a/x", "1"));
        vec![again, WatchEvent::Added(config_map("a/end", "2"))]
    });
    let (plain, resyncing) = (Recorder::new(), Recorder::new());
    let _places = [join(&running, &plain, None), join(&running, &resyncing, HOURS)];
    soon(running.informer.indexer().wait_until_seen("2")).await;
    let end = Call::Add("a/end".into(), "2".into(), false);
    assert_eq!(plain.calls()[2..], vec![end.clone()]);
    assert_eq!(resyncing.calls()[2..], [update("a/x", "1", "1", true), end]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_without_a_version_may_have_changed_and_is_told_to_all() {
    let running = scripted("", || {
        let again = WatchEvent::Modified(config_map("a/x", ""));
        vec![again, WatchEvent::Added(config_map("a/end", "2"))]
    });
    let recorder = Recorder::new();
    let _place = join(&running, &recorder, None);
    soon(running.informer.indexer().wait_until_seen("2")).await;
    assert_eq!(recorder.calls()[2], update("a/x", "", "", false));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_late_listener_of_an_empty_store_is_synced_at_once() {
    let server = server();
    let running = Running::on(&server);
    soon(running.informer.wait_synced()).await;
    let recorder = Recorder::new();
    let place = join(&running, &recorder, None);
    assert!(place.has_synced());
    assert_eq!(recorder.calls(), [Call::InitialListEnd]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_listener_in_the_middle_of_a_resync_is_told_of_it_neither_after_it_came_nor_after_it_left() {
    const OBJECTS: usize = 3000;
    let server = server();
    for n in 0..OBJECTS {
        server.create(&format!("a/{n}"), json!({}));
    }
    let running = Running::on(&server);
    let (staying, leaving, coming) = (Recorder::new(), Recorder::new(), Recorder::new());
    let _staying = join(&running, &staying, HOURS);
    let place = join(&running, &leaving, HOURS);
    soon(running.informer.wait_synced()).await;
    let _ = (staying.take(), leaving.take());
    running.informer.force_resync();
    // It announces a batch at a time, and lets others run in between.
    while staying.calls().is_empty() {
        tokio::task::yield_now().await;
    }
    let told = staying.calls().len();
    assert!(told < OBJECTS, "the whole resync at once");
    place.remove();
    let _coming = join(&running, &coming, HOURS);
    staying.wait_for_calls(OBJECTS + 1 + OBJECTS).await;
    assert_eq!((staying.take().len(), leaving.take().len()), (OBJECTS, told));
    soon(coming.wait_for_calls(OBJECTS + 1)).await;
    let adds = coming.take();
    assert_eq!(adds.len(), OBJECTS + 1);
    assert!(adds.iter().all(|call| !matches!(call, Call::Update(..))));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_another_one_removes_from_inside_a_call_is_not_called_any_more() {
    type Places = Arc<Mutex<Vec<Registration>>>;
    struct Removes(Places);
    impl Listener for Removes {
        fn on_add(&self, _: &Object, _: bool) {
            let places = std::mem::take(&mut *self.0.lock());
            drop(places);
        }
        fn on_update(&self, _: &Object, _: &Object, _: bool) {}
        fn on_delete(&self, _: &ObjectKey, _: Option<&Object>, _: bool) {}
    }
    let server = server();
    let running = Running::on(&server);
    soon(running.informer.wait_synced()).await;
    let (places, other) = (Places::default(), Recorder::new());
    let _removes = running.informer.add_listener(Arc::new(Removes(places.clone())), None).unwrap();
    places.lock().push(join(&running, &other, None));
    let _ = other.take();
    server.create("a/x", json!({}));
    server.create("a/y", json!({}));
    running.caught_up(&server).await;
    assert_eq!(other.take(), []);
    assert_eq!(running.informer.status().listeners, 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_does_not_come_holds_up_neither_the_watch_nor_the_others() {
    let server = server();
    let running = Running::on(&server);
    let (ring, quick) =
        (Ring::new(running.informer.indexer().clone(), RingOptions::default()), Recorder::new());
    let _places = [running.informer.add_listener(ring.clone(), None).unwrap(), join(&running, &quick, None)];
    soon(server.wait_for_watches(1)).await;
    for n in 0..2000 {
        server.create(&format!("a/{n}"), json!({}));
    }
    running.caught_up(&server).await;
    for n in 0..2000 {
        server.update(&format!("a/{n}"), json!({}));
    }
    running.caught_up(&server).await;
    let truth = View::of(&server.objects());
    assert_eq!(quick.view(), truth);
    let metrics = running.informer.metrics();
    assert_eq!((metrics.informer_queued_items, metrics.listener_depth), (0, 2000));
    assert_eq!((server.watches().len(), server.open_watches()), (1, 1));
    let mut view = View::default();
    let batch = ring.try_next_batch(usize::MAX).unwrap();
    assert!(batch.iter().all(|event| matches!(event, Event::Added { .. })));
    batch.iter().for_each(|event| view.event(event));
    assert_eq!(view, truth);
    running.stop().await;
}

#[test]
fn listeners_that_come_and_go_while_changes_are_told_miss_and_repeat_nothing() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let server = server();
    let running = runtime.block_on(async {
        let running = Running::on(&server);
        soon(server.wait_for_watches(1)).await;
        running
    });
    let writer = std::thread::spawn({
        let server = server.clone();
        move || {
            let mut there = [false; 16];
            for n in 0..5000_usize {
                let key = n * 7 % 16;
                let name = format!("a/{key}");
                match (there[key], n % 5) {
                    (false, _) => _ = server.create(&name, json!({})),
                    (true, 0) => _ = server.delete(&name),
                    (true, 1) => _ = server.recreate(&name, json!({})),
                    (true, _) => _ = server.update(&name, json!({})),
                }
                there[key] = !there[key] || n % 5 != 0;
            }
        }
    });
    let (mut staying, mut gone) = (Vec::new(), Vec::new());
    while !writer.is_finished() {
        let recorder = Recorder::new();
        let place = join(&running, &recorder, None);
        assert!(place.has_synced());
        if staying.len() < 20 {
            staying.push((recorder, place));
            continue;
        }
        std::thread::yield_now();
        place.remove();
        let told = recorder.calls().len();
        gone.push((recorder, told));
    }
    writer.join().unwrap();
    runtime.block_on(running.caught_up(&server));
    let truth = View::of(&server.objects());
    // Listeners are called after the store has changed. Each checks that every call is a legal one: no second add, no update
    // from another state.
    runtime.block_on(soon(async {
        while staying.iter().any(|(recorder, _)| recorder.view() != truth) {
            sleep(Duration::from_millis(1)).await;
        }
    }));
    assert!(!gone.is_empty());
    assert!(gone.iter().all(|(recorder, told)| recorder.calls().len() == *told), "called after it left");
    runtime.block_on(async {
        running.cancel.cancel();
        running.task.await.unwrap();
    });
}

#[tokio::test(start_paused = true)]
async fn what_waits_in_the_queue_at_the_end_is_still_told() {
    let server = server();
    let running = Running::on(&server);
    soon(server.wait_for_watches(1)).await;
    let recorder = Recorder::new();
    let _place = join(&running, &recorder, None);
    let queue = running.informer.force_resync();
    for n in 0..5 {
        queue.push(Delta::Added(config_map(&format!("a/{n}"), "9")), Some("9".into())).await.unwrap();
    }
    assert_eq!(recorder.take(), [Call::InitialListEnd]);
    let informer = running.informer.clone();
    running.stop().await;
    assert_eq!(recorder.take().len(), 5);
    assert_eq!((informer.indexer().len(), informer.metrics().informer_queued_items), (5, 0));
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_has_ended_cannot_be_run_again() {
    let server = server();
    let running = Running::on(&server);
    soon(server.wait_for_watches(1)).await;
    let informer = running.informer.clone();
    running.stop().await;
    let asked = server.requests().len();
    let began = Instant::now();
    soon(informer.run(CancellationToken::new())).await;
    assert_eq!((began.elapsed(), server.requests().len()), (Duration::ZERO, asked));
    assert!(informer.is_stopped());
}

/// The number of listeners is that of the plugins: their calls for a few changes must not hold the thread of all informers.
#[tokio::test(start_paused = true)]
async fn other_tasks_run_between_the_calls_of_many_listeners() {
    /// Counts its calls since another task ran.
    #[derive(Default)]
    struct Calls {
        since: AtomicUsize,
        most: AtomicUsize,
        all: AtomicUsize,
    }
    impl Listener for Calls {
        fn on_add(&self, _: &Object, _: bool) {
            self.all.fetch_add(1, Ordering::Relaxed);
            self.most.fetch_max(self.since.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        fn on_update(&self, _: &Object, _: &Object, _: bool) {}
        fn on_delete(&self, _: &ObjectKey, _: Option<&Object>, _: bool) {}
    }
    const LISTENERS: usize = 3000;
    let server = server();
    let running = Running::on(&server);
    assert!(running.informer.wait_synced().await);
    let calls = Arc::new(Calls::default());
    let join = |_| running.informer.add_listener(Arc::clone(&calls) as _, None).unwrap();
    let _registrations: Vec<_> = (0..LISTENERS).map(join).collect();
    let other = tokio::spawn({
        let calls = Arc::clone(&calls);
        async move {
            loop {
                calls.since.store(0, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        }
    });
    for name in 0..3 {
        server.create(&format!("a/{name}"), json!({}));
    }
    while calls.all.load(Ordering::Relaxed) < 3 * LISTENERS {
        tokio::task::yield_now().await;
    }
    let most = calls.most.load(Ordering::Relaxed);
    // The end of one turn and the beginning of the next: the runtime turns the order around.
    assert!(most <= 2 * 1000, "{most} calls in a row");
    other.abort();
    running.stop().await;
}
