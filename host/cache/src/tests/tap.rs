//! What a follower of an informer is promised by the tap, where the informer tells changes out of the server's order.

use pilothouse_client::WatchEvent;
use serde_json::json;

use super::{Running, server, soon};
use crate::source::tap::{Tap, version_of};
use crate::testing::errors;

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
    assert_eq!((versions(&events), &*version), (vec![2, 3, 5], "5"));
    assert!(tap.drain().unwrap().0.is_empty());
    running.stop().await;
    assert!(tap.is_void() && tap.drain().is_none());
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
