//! What a follower of an informer is promised by the tap, where the informer tells changes out of the server's order.

use std::sync::Arc;

use pilothouse_client::WatchEvent;
use serde_json::json;
use tokio::sync::Notify;

use super::{Running, server, soon};
use crate::source::tap::{Tap, version_of};
use crate::testing::{config_map, errors};
use crate::{Delta, DeltaFifo, ResourceEventHandlerFuncs};

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
    // Pushed here, so that one round has more keys than the informer takes at once.
    let fifo = running.informer.force_resync();
    let count = DeltaFifo::BATCH + 500;
    for n in 0..count {
        let version = (n + 2).to_string();
        let object = config_map(&format!("a/{n:05}"), &version);
        fifo.push(Delta::Added(object), Some(&version)).await.unwrap();
    }
    let newest = (count + 2).to_string();
    fifo.push(Delta::Updated(config_map("a/00000", &newest)), Some(&newest)).await.unwrap();
    soon(half.notified()).await;
    let mut tap = Tap::join(&running.informer, "a").unwrap();
    let initial = tap.initial();
    assert_eq!(initial.len(), DeltaFifo::BATCH, "the test meets the moment between two batches");
    // The snapshot is not of one version: a watch that has shown less than the newest has not shown all of it.
    assert!(initial.iter().any(|object| object.resource_version() == newest));
    assert_eq!(
        (tap.version.to_string(), tap.horizon.to_string()),
        ((count - 499).to_string(), newest.clone())
    );
    let (events, version) = tap.drain().unwrap();
    assert_eq!((events.len(), &version), (0, &tap.version));
    soon(running.informer.indexer().wait_until_seen(&newest)).await;
    let (events, version) = tap.drain().unwrap();
    assert_eq!((events.len(), version.to_string()), (500, newest));
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
    server.break_watches(&errors::internal());
    soon(server.wait_for_lists(2)).await;
    soon(tap.voided()).await;
    assert!(tap.is_void() && tap.drain().is_none());
    running.stop().await;
}
