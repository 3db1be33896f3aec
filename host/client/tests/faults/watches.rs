//! What happens to watches that no verb shows: initial events without an end, and a connection that nobody closes.

use std::time::Duration;

use pilothouse_client::{Error, WatchEvent, WatchParams, WatchStream};
use pilothouse_devserver::{Fault, FaultRule};

use super::scene::{Protocol, Scene, config_maps};
use crate::support::soon;

/// A watch that begins with the present objects.
async fn initial_events(scene: &Scene, bookmark_age: Option<Duration>) -> WatchStream {
    let params = WatchParams {
        send_initial_events: true,
        timeout_seconds: Some(30),
        bookmark_age,
        ..WatchParams::default()
    };
    soon(scene.user.watch(&config_maps(), Some("default"), &params)).await.unwrap()
}

/// Whether the end of the initial events is told before `d`, which is made behind the first two.
async fn tells_the_end(scene: &Scene) -> bool {
    let mut watch = initial_events(scene, None).await;
    let (mut objects, mut told) = (0, false);
    loop {
        match soon(watch.next()).await.unwrap().unwrap() {
            WatchEvent::Bookmark { initial_events_end, .. } => told |= initial_events_end,
            WatchEvent::Added(object) if object.name() == "d" => return told,
            WatchEvent::Added(_) => objects += 1,
            other => panic!("nothing else happened: {other:?}"),
        }
        if objects == 2 {
            objects += 1;
            scene.make("d").await;
        }
    }
}

#[tokio::test]
async fn initial_events_whose_end_is_not_told_go_on_without_it() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let scene = Scene::start(&Fault::NoInitialEventsEnd, protocol).await;
        scene.server.faults().add(FaultRule::on("watch", "configmaps", Fault::NoInitialEventsEnd));
        assert!(!tells_the_end(&scene).await);
        let scene = Scene::start(&Fault::NoInitialEventsEnd, protocol).await;
        assert!(tells_the_end(&scene).await);
    }
}

#[tokio::test]
async fn a_watch_on_a_connection_that_nobody_closes_is_given_up_by_the_age_of_its_bookmarks() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let scene = Scene::start(&Fault::HalfOpen, protocol).await;
        // Twenty bookmarks that do not come.
        let mut watch = initial_events(&scene, Some(Duration::from_secs(1))).await;
        let mut seen = loop {
            let event = soon(watch.next()).await.unwrap().unwrap();
            if let WatchEvent::Bookmark { resource_version, initial_events_end: false } = event {
                break resource_version;
            }
        };
        scene.server.pause();
        let error = loop {
            match soon(watch.next()).await.unwrap() {
                Ok(WatchEvent::Bookmark { resource_version, .. }) => seen = resource_version,
                Ok(other) => panic!("nothing happened: {other:?}"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Transport { timeout: true, .. }), "{error:?}");
        assert!(soon(watch.next()).await.is_none());
        drop(watch);
        scene.server.resume();
        // Another goes on where this one ended.
        scene.make("d").await;
        let params = WatchParams { resource_version: Some(seen), ..WatchParams::default() };
        let mut watch = soon(scene.other.watch(&config_maps(), None, &params)).await.unwrap();
        let event = soon(watch.next()).await.unwrap().unwrap();
        assert!(matches!(&event, WatchEvent::Added(object) if object.name() == "d"), "{event:?}");
    }
}
