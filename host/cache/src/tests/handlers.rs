//! §1.11: handlers made of closures, and handlers behind a filter.

use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_object::{Object, ObjectKey};
use serde_json::json;

use super::{Running, server, soon};
use crate::testing::{Call, Recorder, config_map, config_maps, object};
use crate::{
    Event, EventFilter, FilteringResourceEventHandler, Indexer, Listener, ResourceEventHandlerFuncs, Ring,
    RingOptions,
};

fn labelled(version: &str, app: &str) -> Object {
    object(
        &config_maps().gvk,
        "a/x",
        "u",
        version,
        json!({"metadata": {"labels": {"app": app}}, "data": {"n": app}}),
    )
}

/// A recorder behind a filter for `app=web`.
fn filtered() -> (Arc<Recorder>, impl Listener) {
    struct To(Arc<Recorder>);
    impl Listener for To {
        fn on_add(&self, object: &Object, initial: bool) {
            self.0.on_add(object, initial);
        }
        fn on_update(&self, old: &Object, new: &Object, is_sync: bool) {
            self.0.on_update(old, new, is_sync);
        }
        fn on_delete(&self, key: &ObjectKey, object: Option<&Object>, unknown: bool) {
            self.0.on_delete(key, object, unknown);
        }
    }
    let recorder = Recorder::new();
    let web = |object: &Object| object.label("app").as_deref() == Some("web");
    (recorder.clone(), FilteringResourceEventHandler::by(web, To(recorder)))
}

#[test]
fn across_the_filter_an_update_is_an_add_a_deletion_or_nothing() {
    let (recorder, filtered) = filtered();
    filtered.on_add(&labelled("1", "db"), true);
    filtered.on_update(&labelled("1", "db"), &labelled("2", "db"), false);
    assert_eq!(recorder.take(), []);
    filtered.on_update(&labelled("2", "db"), &labelled("3", "web"), false);
    filtered.on_update(&labelled("3", "web"), &labelled("4", "web"), false);
    filtered.on_update(&labelled("4", "web"), &labelled("4", "web"), true);
    filtered.on_update(&labelled("4", "web"), &labelled("5", "db"), false);
    filtered.on_delete(labelled("6", "db").key(), Some(&labelled("6", "db")), false);
    let x = || "a/x".to_owned();
    assert_eq!(
        recorder.take(),
        [
            Call::Add(x(), "3".into(), false),
            Call::Update(x(), "3".into(), "4".into(), false),
            Call::Update(x(), "4".into(), "4".into(), true),
            Call::Delete(x(), Some("4".into()), false),
        ]
    );
    filtered.on_add(&labelled("7", "web"), true);
    filtered.on_delete(labelled("8", "web").key(), Some(&labelled("8", "web")), true);
    assert_eq!(
        recorder.take(),
        [Call::Add(x(), "7".into(), true), Call::Delete(x(), Some("8".into()), true)]
    );
}

#[test]
fn in_front_of_a_ring_an_object_that_goes_out_of_view_and_is_then_deleted_is_told_as_deleted() {
    let ring = Ring::new(Arc::new(Indexer::new(true)), RingOptions::default());
    let web = |object: &Object| object.label("app").as_deref() == Some("web");
    let filtered = FilteringResourceEventHandler::new(web, ring.clone());
    filtered.on_add(&labelled("1", "web"), true);
    drop(ring.try_next_batch(9));
    filtered.on_update(&labelled("1", "web"), &labelled("2", "db"), false);
    filtered.on_delete(labelled("3", "db").key(), Some(&labelled("3", "db")), false);
    let batch = ring.try_next_batch(9).unwrap();
    assert!(
        matches!(&batch[..], [Event::Deleted { object: Some(object), .. }] if object.resource_version() == "1")
    );
}

#[test]
fn a_tombstone_without_an_object_is_delivered_by_its_key() {
    let (recorder, filtered) = filtered();
    filtered.on_add(&labelled("1", "web"), false);
    filtered.on_delete(labelled("1", "web").key(), None, true);
    assert_eq!(recorder.take().pop(), Some(Call::Delete("a/x".into(), None, true)));
}

#[test]
fn a_filter_of_keys_decides_on_a_tombstone() {
    struct Namespace(&'static str);
    impl EventFilter for Namespace {
        fn shows(&self, object: &Object) -> bool {
            self.shows_key(object.key())
        }
        fn shows_key(&self, key: &ObjectKey) -> bool {
            key.namespace() == Some(self.0)
        }
    }
    let recorder = Recorder::new();
    let filtered = FilteringResourceEventHandler::new(Namespace("a"), recorder.clone());
    filtered.on_add(&config_map("a/x", "1"), false);
    filtered.on_delete(&"a/x".parse().unwrap(), None, true);
    filtered.on_delete(&"b/x".parse().unwrap(), None, true);
    filtered.on_initial_list_end();
    assert_eq!(recorder.take().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn each_closure_is_optional() {
    let server = server();
    server.create("a/x", json!({}));
    let running = Running::on(&server);
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let note = |what: &str| {
        let (told, what) = (told.clone(), what.to_owned());
        move |key: &ObjectKey| told.lock().push(format!("{what} {key}"))
    };
    let (added, updated, deleted) = (note("add"), note("update"), note("delete"));
    let all = ResourceEventHandlerFuncs::new()
        .on_add(move |object, initial| {
            if initial {
                added(object.key());
            }
        })
        .on_update(move |old, new| {
            if old.uid() == new.uid() {
                updated(new.key());
            }
        })
        .on_delete(move |key, object, unknown| {
            if object.is_some() && !unknown {
                deleted(key);
            }
        });
    let places = [
        running.informer.add_listener(Arc::new(all), None).unwrap(),
        running.informer.add_listener(Arc::new(ResourceEventHandlerFuncs::new()), None).unwrap(),
    ];
    assert!(soon(places[1].wait_synced()).await);
    server.update("a/x", json!({}));
    server.delete("a/x");
    running.caught_up(&server).await;
    assert_eq!(*told.lock(), ["add a/x", "update a/x", "delete a/x"]);
    running.stop().await;
}
