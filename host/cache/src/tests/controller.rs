//! §1.8: the low-level controller, a reflector over a queue and the loop behind it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{server, soon};
use crate::testing::{Call, FakeControllerSource, Recorder, config_maps};
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
async fn what_failed_is_dropped_and_the_store_does_not_claim_it() {
    let server = server();
    server.create("a/x", json!({}));
    let (config, seen, store) = noting(&server, &["a/x"]);
    let running = run(Controller::new(config));
    soon(running.handle.wait_synced()).await;
    assert!(!store.has_seen("1"));
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
