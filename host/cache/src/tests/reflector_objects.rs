//! What becomes of objects on their way in: transform, selection, kinds that go; and lists on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pilothouse_object::Object;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{Running, server, soon};
use crate::testing::{Call, Recorder, errors};
use crate::{ReflectorOptions, Transform};

/// Drops `data`; cannot do it for objects that are labelled `odd`.
fn transform(calls: &Arc<AtomicUsize>) -> Transform {
    let calls = calls.clone();
    Arc::new(move |object: Object| {
        calls.fetch_add(1, Ordering::Relaxed);
        let mut value: serde_json::Value = serde_json::from_slice(object.bytes())?;
        if value["metadata"]["labels"]["odd"].is_string() {
            return Err("odd".into());
        }
        value.as_object_mut().ok_or("no object")?.remove("data");
        Ok(Object::decode(value.to_string().as_bytes())?)
    })
}

#[tokio::test(start_paused = true)]
async fn the_transform_runs_once_for_each_object_of_a_list_and_of_a_watch() {
    for streaming in [false, true] {
        let server = server();
        server.set_watch_lists(streaming);
        server.create("a/x", json!({"data": {"k": "v"}}));
        let calls = Arc::new(AtomicUsize::new(0));
        let options = ReflectorOptions { transform: Some(transform(&calls)), ..Default::default() };
        let running = Running::with(&server, options);
        soon(running.informer.wait_synced()).await;
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        server.create("a/y", json!({"data": {"k": "v"}}));
        running.caught_up(&server).await;
        assert_eq!(calls.load(Ordering::Relaxed), 2);
        for object in running.informer.indexer().list() {
            assert!(!object.json().contains("\"data\""), "{}", object.json());
        }
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_transformed_changes_nothing_and_is_counted() {
    for streaming in [false, true] {
        let server = server();
        server.set_watch_lists(streaming);
        server.create("a/odd", json!({"metadata": {"labels": {"odd": ""}}}));
        server.create("a/x", json!({}));
        let calls = Arc::new(AtomicUsize::new(0));
        let options = ReflectorOptions { transform: Some(transform(&calls)), ..Default::default() };
        let running = Running::with(&server, options);
        let recorder = Recorder::new();
        let _registration = running.informer.add_listener(recorder.clone(), None).unwrap();
        soon(running.informer.wait_synced()).await;
        assert_eq!(recorder.take(), [Call::Add("a/x".into(), "3".into(), true), Call::InitialListEnd]);
        // It turns odd: the state before stays, through a relist too, and the store is not held up.
        server.update("a/x", json!({"metadata": {"labels": {"odd": ""}}}));
        running.caught_up(&server).await;
        running.informer.relist();
        server.create("a/y", json!({}));
        running.caught_up(&server).await;
        sleep(Duration::from_secs(10)).await;
        assert_eq!(running.informer.indexer().get_by_key("a/x").unwrap().resource_version(), "3");
        // Nothing is held of it: the version moves all the same.
        server.update("a/odd", json!({"metadata": {"labels": {"odd": ""}}}));
        running.caught_up(&server).await;
        server.delete("a/odd");
        server.delete("a/x");
        running.caught_up(&server).await;
        // Its last state is odd: the state before is shown, as one that may not be the last.
        assert_eq!(
            recorder.take(),
            [Call::Add("a/y".into(), "5".into(), false), Call::Delete("a/x".into(), Some("3".into()), true)]
        );
        assert!(running.informer.metrics().reflector_transform_errors_total >= 4);
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_on_demand_comes_at_once_and_one_that_is_under_way_does_not_count() {
    let server = server();
    let running = Running::on(&server);
    soon(server.wait_for_watches(1)).await;
    sleep(Duration::from_secs(2)).await;
    let before = Instant::now();
    running.informer.relist();
    soon(server.wait_for_lists(2)).await;
    assert_eq!(before.elapsed(), Duration::ZERO, "it waited");
    soon(server.wait_for_watches(2)).await;
    sleep(Duration::from_secs(100)).await;
    assert_eq!(server.list_versions(), ["0", "1"], "once is once");
    // While it waits to list again, a wish for that is met by it.
    server.fail_lists([errors::internal()]);
    server.break_watches(&errors::internal());
    soon(server.wait_for_lists(3)).await;
    running.informer.relist();
    running.informer.relist();
    sleep(Duration::from_secs(100)).await;
    assert_eq!(server.list_versions().len(), 4);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_a_kind_that_was_removed_go_when_that_has_lasted_and_come_again_with_it() {
    for streaming in [false, true] {
        let server = server();
        server.set_watch_lists(streaming);
        server.create("a/x", json!({}));
        let running = Running::on(&server);
        let recorder = Recorder::new();
        let _registration = running.informer.add_listener(recorder.clone(), None).unwrap();
        soon(running.informer.wait_synced()).await;
        // One 404 is not believed.
        server.fail_lists([errors::not_found()]);
        server.fail_watches([errors::not_found()]);
        server.break_watches(&errors::internal());
        sleep(Duration::from_secs(60)).await;
        server.heal();
        assert_eq!(running.informer.indexer().len(), 1);
        sleep(Duration::from_secs(60)).await;
        let gone = Instant::now();
        server.set_served(Ok(false));
        server.fail_lists((0..8).map(|_| errors::not_found()));
        server.fail_watches((0..8).map(|_| errors::not_found()));
        server.break_watches(&errors::internal());
        soon(async {
            while !running.informer.indexer().is_empty() {
                sleep(Duration::from_millis(100)).await;
            }
        })
        .await;
        assert!((30..60).contains(&gone.elapsed().as_secs()), "{:?}", gone.elapsed());
        assert_eq!(recorder.view().objects.len(), 0);
        server.heal();
        server.create("a/y", json!({}));
        let back = Instant::now();
        running.caught_up(&server).await;
        assert!(back.elapsed() <= Duration::from_secs(11), "{:?}", back.elapsed());
        assert_eq!(running.informer.indexer().len(), 2);
        assert_eq!(recorder.view().objects.len(), 2);
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_was_never_served_is_no_empty_list() {
    let server = server();
    server.fail_lists((0..20).map(|_| errors::not_found()));
    let running = Running::on(&server);
    sleep(Duration::from_secs(90)).await;
    assert!(!running.informer.has_synced());
    soon(running.informer.wait_synced()).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn internal_errors_of_a_watch_lead_to_watches_for_as_long_as_allowed_and_then_to_a_list() {
    let server = server();
    let options =
        ReflectorOptions { max_internal_error_retry: Duration::from_secs(30), ..Default::default() };
    let running = Running::with(&server, options);
    for watches in 1..100 {
        soon(server.wait_for_watches(watches)).await;
        if server.list_versions().len() > 1 {
            break;
        }
        server.break_watches(&errors::internal());
    }
    // The first, 31 a second apart, and the one behind the second list.
    assert_eq!(server.watches().len(), 33);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn figures_follow_what_the_reflector_does() {
    let server = server();
    server.create("a/x", json!({}));
    server.create("a/y", json!({}));
    let running = Running::on(&server);
    soon(server.wait_for_watches(1)).await;
    server.create("a/z", json!({}));
    server.bookmark();
    running.caught_up(&server).await;
    sleep(Duration::from_secs(200)).await;
    server.drop_watches();
    soon(server.wait_for_watches(2)).await;
    let metrics = running.informer.metrics();
    assert_eq!((metrics.reflector_lists_total, metrics.reflector_watches_total), (1, 2));
    assert_eq!(metrics.reflector_list_duration_seconds.count(), 1);
    assert_eq!((metrics.reflector_items_per_list.count(), metrics.reflector_items_per_list.sum()), (1, 2.0));
    let duration = &metrics.reflector_watch_duration_seconds;
    assert_eq!((duration.count(), duration.sum().round()), (1, 200.0), "the one that is open does not count");
    assert_eq!(
        (metrics.reflector_items_per_watch.count(), metrics.reflector_items_per_watch.sum()),
        (1, 2.0)
    );
    assert_eq!(&*metrics.reflector_last_resource_version, "4");
    assert_eq!(&*metrics.informer_store_resource_version, "4");
    assert_eq!(metrics.informer_queued_items, 0);
    assert!(metrics.informer_processing_latency_seconds.count() >= 2);
    running.stop().await;
}
