//! What a follower of an informer is promised by the tap, where the informer tells changes out of the server's order.

use std::sync::Arc;

use pilothouse_client::WatchEvent;
use serde_json::json;
use tokio::sync::Notify;

use super::{Running, server, soon};
use crate::tap::{Tap, version_of};
use crate::{DeltaFifo, ResourceEventHandlerFuncs};

fn versions(events: &[WatchEvent]) -> Vec<u64> {
    events.iter().map(|event| version_of(event).parse().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn events_of_one_batch_come_in_the_order_of_the_server() {
    let server = server();
    let running = Running::on(&server);
    assert!(soon(running.informer.wait_synced()).await);
    soon(server.wait_for_watches(1)).await;
    let mut tap = Tap::join(&running.informer, "a").unwrap();
    server.create("a/x", json!({}));
    server.create("a/y", json!({}));
    server.create("b/x", json!({}));
    server.update("a/x", json!({}));
    running.caught_up(&server).await;
    let (events, version) = tap.drain().unwrap();
    // They were told key by key.
    assert_eq!((versions(&events), &*version), (vec![2, 3, 5], "5"));
    assert!(tap.drain().unwrap().0.is_empty());
    running.stop().await;
    assert!(tap.is_void() && tap.drain().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_tap_on_half_of_a_round_says_how_new_the_newest_change_in_its_snapshot_may_be() {
    let server = server();
    let running = Running::on(&server);
    assert!(soon(running.informer.wait_synced()).await);
    soon(server.wait_for_watches(1)).await;
    let half = Arc::new(Notify::new());
    let last = format!("a/{:05}", DeltaFifo::BATCH - 1);
    let note = ResourceEventHandlerFuncs::new().on_add({
        let half = half.clone();
        move |object, _| {
            if object.key().as_str() == last {
                half.notify_one();
            }
        }
    });
    let _place = running.informer.add_listener(Arc::new(note), None).unwrap();
    let count = DeltaFifo::BATCH + 500;
    for n in 0..count {
        server.create(&format!("a/{n:05}"), json!({}));
    }
    server.update("a/00000", json!({}));
    soon(half.notified()).await;
    let mut tap = Tap::join(&running.informer, "a").unwrap();
    let initial = tap.initial();
    assert_eq!(initial.len(), DeltaFifo::BATCH, "the test meets the moment between two batches");
    let newest = initial.iter().map(|object| object.resource_version().parse::<u64>().unwrap()).max();
    assert!(newest > tap.version.parse().ok(), "the snapshot is not of one version");
    assert!(
        newest <= tap.horizon.parse().ok(),
        "a watch that has shown less than {newest:?} is not complete"
    );
    let (events, version) = tap.drain().unwrap();
    assert_eq!((events.len(), &version), (0, &tap.version));
    running.caught_up(&server).await;
    let (events, version) = tap.drain().unwrap();
    assert_eq!((events.len(), version.to_string()), (500, server.version()));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_tap_is_void_after_a_list_even_one_without_changes() {
    let server = server();
    server.create("a/x", json!({}));
    let running = Running::on(&server);
    assert!(soon(running.informer.wait_synced()).await);
    soon(server.wait_for_watches(1)).await;
    let mut tap = Tap::join(&running.informer, "a").unwrap();
    server.break_watches(&crate::testing::errors::internal());
    soon(server.wait_for_lists(2)).await;
    soon(tap.voided()).await;
    assert!(tap.is_void() && tap.drain().is_none());
    running.stop().await;
}
