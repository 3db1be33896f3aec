//! §1.8: the low-level controller, a reflector over a queue and the loop behind it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{server, soon};
use crate::testing::{Call, FakeControllerSource, Recorder, View, config_maps};
use crate::{
    Config, Controller, ControllerHandle, Delta, DeltaType, Deltas, Indexer, ProcessFailure, new_informer,
};

type Seen = Arc<Mutex<Vec<(String, Vec<DeltaType>, bool)>>>;

struct Running {
    handle: ControllerHandle,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

fn run(controller: Controller) -> Running {
    let (handle, cancel) = (controller.handle(), CancellationToken::new());
    let task = tokio::spawn(controller.run(cancel.clone()));
    Running { handle, cancel, task }
}

impl Running {
    async fn stop(self) {
        self.cancel.cancel();
        soon(self.task).await.unwrap();
    }
}

/// A controller whose function notes what it gets, applies it, and fails once for each of some keys.
fn noting(server: &FakeControllerSource, fails: &[&str]) -> (Config, Seen, Arc<Indexer>) {
    let (seen, store) = (Seen::default(), Arc::new(Indexer::new(true)));
    let mut to_fail: HashSet<String> = fails.iter().map(|&key| key.to_owned()).collect();
    let process = {
        let (seen, store) = (seen.clone(), store.clone());
        move |deltas: &Deltas, initial: bool| -> Result<(), ProcessFailure> {
            let kinds = deltas.iter().map(Delta::kind).collect();
            seen.lock().push((deltas.key().to_string(), kinds, initial));
            if to_fail.remove(deltas.key().as_str()) {
                return Err("not this time".into());
            }
            store.apply(deltas.iter().cloned(), None);
            Ok(())
        }
    };
    let config = Config::new(config_maps(), server.source(), store.clone(), process);
    (config, seen, store)
}

#[tokio::test(start_paused = true)]
async fn a_controller_processes_the_list_and_then_each_delta_and_is_synced_after_the_list() {
    let server = server();
    server.create("a/x", json!({}));
    let (config, seen, store) = noting(&server, &[]);
    let controller = Controller::new(config);
    assert!(!controller.handle().has_synced());
    let running = run(controller);
    soon(running.handle.wait_synced()).await;
    assert_eq!(*seen.lock(), [("a/x".to_owned(), vec![DeltaType::Replaced], true)]);
    assert_eq!(&*running.handle.last_sync_resource_version(), "2");
    server.update("a/x", json!({}));
    server.delete("a/x");
    soon(store.wait_until_seen("4")).await;
    let told: Vec<_> = seen.lock().drain(1..).collect();
    assert!(told.iter().all(|(_, _, initial)| !initial));
    let kinds: Vec<_> = told.into_iter().flat_map(|(_, kinds, _)| kinds).collect();
    assert_eq!(kinds, [DeltaType::Updated, DeltaType::Deleted]);
    assert!(store.is_empty() && running.handle.status().synced);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_deletes_what_is_known_and_not_in_it() {
    let server = server();
    server.create("a/x", json!({}));
    let (config, seen, store) = noting(&server, &[]);
    let gone = crate::testing::config_map("a/gone", "1");
    store.apply([Delta::Added(gone)], None);
    let running = run(Controller::new(config));
    soon(running.handle.wait_synced()).await;
    let keys: Vec<_> = seen.lock().iter().map(|(key, kinds, _)| (key.clone(), kinds[0])).collect();
    assert_eq!(keys, [("a/gone".into(), DeltaType::Deleted), ("a/x".into(), DeltaType::Replaced)]);
    assert_eq!(store.len(), 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_failed_comes_again_and_until_then_the_store_claims_nothing() {
    let server = server();
    server.create("a/x", json!({}));
    server.create("a/y", json!({}));
    let (config, seen, store) = noting(&server, &["a/x", "a/z"]);
    let running = run(Controller::new(config));
    soon(running.handle.wait_synced()).await;
    assert!(!store.has_seen("1"), "a/x is still to come");
    soon(store.wait_until_seen("3")).await;
    server.create("a/z", json!({}));
    soon(store.wait_until_seen("4")).await;
    assert_eq!(View::of(&store.list()), View::of(&server.objects()));
    let keys: Vec<_> = seen.lock().iter().map(|(key, ..)| key.clone()).collect();
    assert_eq!(keys, ["a/x", "a/y", "a/x", "a/z", "a/z"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_failed_is_not_retried_when_newer_deltas_of_the_key_come_first() {
    let server = server();
    let (config, seen, store) = noting(&server, &["a/x"]);
    let running = run(Controller::new(config));
    soon(running.handle.wait_synced()).await;
    server.create("a/x", json!({}));
    while seen.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    // No time passes before this comes, so the retry is not due.
    server.update("a/x", json!({}));
    soon(store.wait_until_seen("3")).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let kinds: Vec<_> = seen.lock().iter().map(|(_, kinds, _)| kinds.clone()).collect();
    assert_eq!(kinds, [vec![DeltaType::Added], vec![DeltaType::Updated]]);
    running.stop().await;
}

/// A controller whose function fails for a key as often as it is asked to.
fn failing(
    server: &FakeControllerSource,
    fails: &Arc<Mutex<Vec<(String, u32)>>>,
) -> (Config, Seen, Arc<Indexer>) {
    let (config, seen, store) = noting(server, &[]);
    let (fails, mut process) = (fails.clone(), config.process);
    let process = move |deltas: &Deltas, initial: bool| -> Result<(), ProcessFailure> {
        if let Some((_, left)) =
            fails.lock().iter_mut().find(|(key, left)| *key == *deltas.key().as_str() && *left > 0)
        {
            *left -= 1;
            return Err("not this time".into());
        }
        process(deltas, initial)
    };
    (Config::new(config_maps(), server.source(), store.clone(), process), seen, store)
}

#[tokio::test(start_paused = true)]
async fn a_key_that_fails_on_and_on_holds_up_no_other_key() {
    let server = server();
    let fails = Arc::new(Mutex::new(vec![("a/bad".to_owned(), u32::MAX)]));
    let (config, _, store) = failing(&server, &fails);
    let running = run(Controller::new(config));
    soon(running.handle.wait_synced()).await;
    server.create("a/bad", json!({}));
    // Long enough for the longest delay.
    tokio::time::sleep(Duration::from_secs(600)).await;
    let before = Instant::now();
    server.create("a/good", json!({}));
    while store.get_by_key("a/good").is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(before.elapsed(), Duration::ZERO);
    let before = Instant::now();
    running.stop().await;
    assert_eq!(before.elapsed(), Duration::ZERO, "the run waited for a retry");
}

#[tokio::test(start_paused = true)]
async fn the_delay_of_a_key_starts_over_when_its_deltas_were_processed() {
    let server = server();
    let fails = Arc::new(Mutex::new(vec![("a/x".to_owned(), 12)]));
    let (config, _, store) = failing(&server, &fails);
    let running = run(Controller::new(config));
    soon(running.handle.wait_synced()).await;
    server.create("a/x", json!({}));
    soon(store.wait_until_seen("2")).await;
    fails.lock()[0].1 = 1;
    let before = Instant::now();
    server.update("a/x", json!({}));
    soon(store.wait_until_seen("3")).await;
    let waited = before.elapsed();
    assert!(waited >= Duration::from_millis(5) && waited < Duration::from_millis(20), "{waited:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_retries_what_failed_is_dropped() {
    let server = server();
    server.create("a/x", json!({}));
    let (config, seen, store) = noting(&server, &["a/x"]);
    let running = run(Controller::new(Config { retry_on_error: false, ..config }));
    soon(running.handle.wait_synced()).await;
    server.create("a/y", json!({}));
    soon(store.wait_until_seen("3")).await;
    assert_eq!((store.len(), seen.lock().len()), (1, 2));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_resync_announces_every_known_object() {
    let server = server();
    server.create("a/x", json!({}));
    let recorder = Recorder::new();
    let period = Duration::from_secs(30);
    let (store, controller) = new_informer(config_maps(), server.source(), Some(period), recorder.clone());
    let running = run(controller);
    soon(running.handle.wait_synced()).await;
    soon(recorder.wait_for_calls(3)).await;
    assert_eq!(
        recorder.take(),
        [
            Call::Add("a/x".into(), "2".into(), true),
            Call::Update("a/x".into(), "2".into(), "2".into(), true),
            Call::Update("a/x".into(), "2".into(), "2".into(), true)
        ]
    );
    server.delete("a/x");
    soon(store.wait_until_seen("3")).await;
    assert_eq!(recorder.take(), [Call::Delete("a/x".into(), Some("3".into()), false)]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_is_cancelled_waits_for_both_its_parts_and_leaves_no_watch() {
    let server = server();
    let (config, ..) = noting(&server, &[]);
    let running = run(Controller::new(config));
    soon(server.wait_for_watches(1)).await;
    running.stop().await;
    assert_eq!(server.open_watches(), 0);
}
