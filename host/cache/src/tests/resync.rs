//! §1.9: resyncs of several listeners, each at its own time.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep_until};

use super::{Running, server, soon};
use crate::testing::{Call, FakeControllerSource, Recorder, config_maps, object};
use crate::{Delta, Registration};

async fn synced(server: &FakeControllerSource) -> Running {
    let running = Running::on(server);
    soon(server.wait_for_watches(1)).await;
    running
}

fn join(running: &Running, recorder: &Arc<Recorder>, millis: u64) -> Registration {
    let period = Some(Duration::from_millis(millis));
    let registration = running.informer.add_listener(recorder.clone(), period).unwrap();
    let _ = recorder.take();
    registration
}

fn sync(key: &str, version: &str) -> Call {
    Call::Update(key.into(), version.into(), version.into(), true)
}

/// The calls by then, up to half a second after `seconds`.
async fn at(start: Instant, seconds: u64) {
    sleep_until(start + Duration::from_secs(seconds) + Duration::from_millis(500)).await;
}

#[tokio::test(start_paused = true)]
async fn listeners_at_two_and_three_seconds_are_told_at_their_own_times() {
    let server = server();
    server.create("a/x", json!({}));
    let running = synced(&server).await;
    let (two, three, never) = (Recorder::new(), Recorder::new(), Recorder::new());
    let start = Instant::now();
    let _two = join(&running, &two, 2000);
    let _three = join(&running, &three, 3000);
    let _never = running.informer.add_listener(never.clone(), None).unwrap();
    let _ = never.take();
    for (second, told_two, told_three) in
        [(1, 0, 0), (2, 1, 0), (3, 0, 1), (4, 1, 0), (5, 0, 0), (6, 1, 1), (8, 1, 0), (9, 0, 1)]
    {
        at(start, second).await;
        assert_eq!(two.take(), vec![sync("a/x", "2"); told_two], "second {second}");
        assert_eq!(three.take(), vec![sync("a/x", "2"); told_three], "second {second}");
    }
    assert_eq!(never.take(), []);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_period_below_a_second_is_raised_to_it_and_zero_means_never() {
    let server = server();
    server.create("a/x", json!({}));
    let running = synced(&server).await;
    let (fast, zero) = (Recorder::new(), Recorder::new());
    let start = Instant::now();
    let _fast = join(&running, &fast, 1);
    let _zero = join(&running, &zero, 0);
    at(start, 3).await;
    assert_eq!(fast.take().len(), 3);
    assert_eq!(zero.take(), []);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_joins_a_running_informer_with_a_shorter_period_gets_it() {
    let server = server();
    server.create("a/x", json!({}));
    let running = synced(&server).await;
    let (slow, fast) = (Recorder::new(), Recorder::new());
    let _slow = join(&running, &slow, 600_000);
    let start = Instant::now();
    at(start, 10).await;
    let fast_registration = join(&running, &fast, 2000);
    at(start, 13).await;
    assert_eq!(fast.take().len(), 1);
    fast_registration.remove();
    at(start, 60).await;
    assert_eq!(fast.take(), []);
    assert_eq!(slow.take(), []);
    assert_eq!(running.informer.metrics().resyncs_total, 1, "the timer of a listener that left goes with it");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_resync_before_the_first_list() {
    let server = server();
    server.create("a/x", json!({}));
    server.refuse(true);
    let running = Running::on(&server);
    let recorder = Recorder::new();
    let start = Instant::now();
    let _registration = join(&running, &recorder, 1000);
    at(start, 30).await;
    assert_eq!(running.informer.metrics().resyncs_total, 0);
    server.refuse(false);
    soon(running.informer.wait_synced()).await;
    assert_eq!(recorder.calls()[0], Call::Add("a/x".into(), "2".into(), true));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_key_with_pending_deltas_is_skipped() {
    let server = server();
    server.create("a/1", json!({}));
    server.create("a/2", json!({}));
    let running = synced(&server).await;
    let recorder = Recorder::new();
    let _registration = join(&running, &recorder, 600_000);
    // A change comes in behind the resync and before it is handled.
    let queue = running.informer.force_resync();
    let changed = object(&config_maps().gvk, "a/2", "uid-2", "9", json!({}));
    queue.push(Delta::Updated(changed), Some("9".into())).await.unwrap();
    soon(running.informer.indexer().wait_until_seen("9")).await;
    assert_eq!(
        recorder.take(),
        [sync("a/1", "2"), Call::Update("a/2".into(), "3".into(), "9".into(), false)]
    );
    running.stop().await;
}
