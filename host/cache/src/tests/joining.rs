//! Listeners that join and leave: from inside calls of other informers' listeners, beside long replays, and with code of their
//! own that panics when they are dropped.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_object::{Object, ObjectKey};
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::factory::factory;
use super::{Running, server, soon};
use crate::testing::{Call, FakeControllerSource, Recorder, View, config_maps};
use crate::{IndexFn, InformerLease, Listener, Registration, SharedInformerFactory};

/// On real threads: far more than anything takes that comes at all.
const HANG: Duration = Duration::from_secs(60);

/// A listener that hands every object that is added or updated to a closure.
struct Calls<F>(F);

impl<F: Fn(&Object) + Send + Sync> Listener for Calls<F> {
    fn on_add(&self, object: &Object, _: bool) {
        (self.0)(object);
    }
    fn on_update(&self, _: &Object, new: &Object, _: bool) {
        (self.0)(new);
    }
    fn on_delete(&self, _: &ObjectKey, _: Option<&Object>, _: bool) {}
}

/// A listener that panics when it is dropped.
struct PanicsAtDrop;

impl Listener for PanicsAtDrop {
    fn on_add(&self, _: &Object, _: bool) {}
    fn on_update(&self, _: &Object, _: &Object, _: bool) {}
    fn on_delete(&self, _: &ObjectKey, _: Option<&Object>, _: bool) {}
}

impl Drop for PanicsAtDrop {
    fn drop(&mut self) {
        panic!("a listener panics when it is dropped");
    }
}

/// A registration that somebody drops later.
type Place = Arc<Mutex<Option<Registration>>>;

fn threads(workers: usize) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap()
}

/// What a thread sends. A runtime whose threads hang is not waited for.
fn receive<T>(receiver: &Receiver<T>, runtime: tokio::runtime::Runtime) -> (T, tokio::runtime::Runtime) {
    match receiver.recv_timeout(HANG) {
        Ok(received) => (received, runtime),
        Err(_) => {
            runtime.shutdown_background();
            panic!("the threads wait for each other");
        }
    }
}

/// An informer of all namespaces, and one of the namespace a that follows it.
async fn wide_and_follower(
    server: &FakeControllerSource,
) -> (SharedInformerFactory, InformerLease, InformerLease) {
    let factory = factory(server);
    let wide = factory.informer(&config_maps(), None);
    assert!(wide.wait_synced().await);
    let narrow = factory.informer(&config_maps(), Some("a"));
    assert!(narrow.wait_synced().await);
    server.wait_for_watches(1).await;
    (factory, wide, narrow)
}

#[test]
fn a_listener_of_a_follower_joins_and_leaves_the_wide_informer_while_that_waits_for_the_follower() {
    let server = server();
    server.create("a/x", json!({}));
    let runtime = threads(2);
    let (factory, wide, narrow) = runtime.block_on(wide_and_follower(&server));
    // The wide informer computes index values while its processor is locked; then it waits for the follower's.
    let (locked, is_locked) = mpsc::channel();
    let trigger = move |object: &Object, _: &mut dyn FnMut(&str)| {
        if object.name() == "trigger" {
            locked.send(()).unwrap();
        }
    };
    wide.indexer().add_indexer("trigger", IndexFn::closure(trigger)).unwrap();
    let (leaving, joining) = (Recorder::new(), Recorder::new());
    let place: Place = Arc::new(Mutex::new(Some(wide.add_listener(leaving.clone(), None).unwrap())));
    let (writes, wide_too, joins, is_locked) =
        (server.clone(), wide.clone(), joining.clone(), Mutex::new(is_locked));
    let (send, joined) = mpsc::channel();
    let listener = Calls(move |object: &Object| {
        if object.name() == "x" {
            writes.create("a/trigger", json!({}));
            is_locked.lock().recv_timeout(HANG).unwrap();
            drop(place.lock().take());
            send.send(wide_too.add_listener(joins.clone(), Some(Duration::from_secs(1))).unwrap()).unwrap();
        }
    });
    let adds = std::thread::spawn(move || (narrow.add_listener(Arc::new(listener), None).unwrap(), narrow));
    let (registration, runtime) = receive(&joined, runtime);
    assert!(runtime.block_on(async { timeout(HANG, registration.wait_synced()).await.unwrap() }));
    let (_added, _narrow) = adds.join().unwrap();
    runtime.block_on(wide.indexer().wait_until_seen(&server.version()));
    // This one falls behind the calls for what is in the store.
    drop(wide.add_listener(Recorder::new(), None).unwrap());
    assert_eq!(joining.view(), View::of(&server.objects()));
    // Two objects, the end of the initial list, and a resync.
    runtime.block_on(async { timeout(HANG, joining.wait_for_calls(4)).await.unwrap() });
    assert_eq!(leaving.calls(), [Call::Add("a/x".into(), "2".into(), true), Call::InitialListEnd]);
    // The status does not wait for a call that is under way, and shows the figure before then.
    pilothouse_testkit::poll::until("one listener", HANG, || wide.status().listeners == 1).unwrap();
    runtime.block_on(factory.shutdown());
}

#[test]
fn a_follower_of_a_large_namespace_leaves_its_thread_to_other_tasks_while_it_takes_the_objects_over() {
    let server = server();
    for n in 0..10_001 {
        server.create(&format!("a/{n}"), json!({}));
    }
    let runtime = threads(1);
    let (ask, asked) = tokio::sync::oneshot::channel();
    let (answer, answered) = mpsc::channel();
    runtime.spawn(async move {
        let () = asked.await.unwrap();
        answer.send(()).unwrap();
    });
    let (ask, answered, send_done) = (Mutex::new(Some(ask)), Mutex::new(answered), mpsc::channel());
    let listener = Calls(move |_: &Object| {
        if let Some(ask) = ask.lock().take() {
            ask.send(()).unwrap();
            send_done.0.send(answered.lock().recv_timeout(HANG)).unwrap();
        }
    });
    let (factory, _wide, _narrow, _place) = runtime.block_on(async {
        let factory = factory(&server);
        let wide = factory.informer(&config_maps(), None);
        assert!(wide.wait_synced().await);
        let narrow = factory.informer(&config_maps(), Some("a"));
        let place = narrow.add_listener(Arc::new(listener), None).unwrap();
        (factory, wide, narrow, place)
    });
    let (outcome, runtime) = receive(&send_done.1, runtime);
    outcome.expect("the only thread was blocked");
    runtime.block_on(factory.shutdown());
}

#[tokio::test(start_paused = true)]
async fn a_listener_gets_its_first_objects_at_once_also_beside_a_replay_that_goes_on() {
    let server = server();
    for n in 0..2500 {
        server.create(&format!("a/{n:04}"), json!({}));
    }
    let running = Running::on(&server);
    soon(running.informer.wait_synced()).await;
    let (first, second) = (Recorder::new(), Recorder::new());
    let _places = [
        running.informer.add_listener(first.clone(), None).unwrap(),
        running.informer.add_listener(second.clone(), None).unwrap(),
    ];
    assert_eq!((first.calls().len(), second.calls().len()), (1000, 1000));
    for recorder in [&first, &second] {
        soon(recorder.wait_for_calls(2501)).await;
        assert_eq!(recorder.view(), View::of(&server.objects()));
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_between_store_and_listeners_hides_no_change_from_them() {
    let server = server();
    server.create("a/x", json!({}));
    let (factory, wide, narrow) = wide_and_follower(&server).await;
    let (of_wide, of_narrow) = (Recorder::new(), Recorder::new());
    let _places = [
        wide.add_listener(of_wide.clone(), None).unwrap(),
        narrow.add_listener(of_narrow.clone(), None).unwrap(),
    ];
    let place: Place = Arc::new(Mutex::new(Some(wide.add_listener(Arc::new(PanicsAtDrop), None).unwrap())));
    // It is dropped when the followers have been called, and the listeners of the wide informer have not.
    let listener = Calls(move |object: &Object| {
        if object.name() == "y" {
            drop(place.lock().take());
        }
    });
    let _place = narrow.add_listener(Arc::new(listener), None).unwrap();
    server.create("a/y", json!({}));
    server.delete("a/x");
    while wide.status().restarts == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    server.create("b/z", json!({}));
    soon(wide.indexer().wait_until_seen(&server.version())).await;
    sleep(Duration::from_millis(1)).await;
    assert_eq!(of_wide.view(), View::of(&server.objects()));
    assert_eq!(of_narrow.view(), View::of(&narrow.indexer().list()));
    assert_eq!((wide.status().restarts, narrow.status().restarts), (1, 0));
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_user_code_while_following_restarts_the_follower_alone() {
    let server = server();
    server.create("a/x", json!({}));
    let (factory, wide, narrow) = wide_and_follower(&server).await;
    let recorder = Recorder::new();
    let _place = narrow.add_listener(recorder.clone(), None).unwrap();
    let place: Place = Arc::new(Mutex::new(Some(narrow.add_listener(Arc::new(PanicsAtDrop), None).unwrap())));
    // Updates without a change are resyncs, which the task of the follower delivers.
    let resynced = Calls(move |_: &Object| {
        let left = place.lock().take();
        drop(left);
    });
    let first = Mutex::new(true);
    let skips_first = Calls(move |object: &Object| {
        if !std::mem::take(&mut *first.lock()) {
            resynced.on_add(object, false);
        }
    });
    let _resynced = narrow.add_listener(Arc::new(skips_first), Some(Duration::from_secs(60))).unwrap();
    assert_eq!(narrow.status().restarts, 0);
    soon(async {
        while narrow.status().restarts == 0 {
            sleep(Duration::from_secs(1)).await;
        }
    })
    .await;
    sleep(Duration::from_secs(60)).await;
    server.create("a/y", json!({}));
    soon(narrow.indexer().wait_until_seen(&server.version())).await;
    sleep(Duration::from_millis(1)).await;
    assert_eq!(recorder.view(), View::of(&server.objects()));
    assert_eq!((wide.status().restarts, narrow.status().restarts), (0, 1));
    assert_eq!(server.open_watches(), 1, "it does not follow any more");
    factory.shutdown().await;
}
