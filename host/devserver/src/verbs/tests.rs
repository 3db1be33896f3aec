//! Watches within the process: what all of them share.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::api::{Accepted, Params, Target, Warnings};
use crate::resources::{DEFINITIONS, NAMESPACES};

/// A request on ConfigMaps of `default`.
pub(crate) fn config_maps(core: &Core, query: &str) -> ResourceRequest {
    let resource = core.registry.now().get("", "v1", "configmaps").unwrap().clone();
    let target = Target {
        group: String::new(),
        version: "v1".to_owned(),
        resource: "configmaps".to_owned(),
        namespace: Some("default".to_owned()),
        name: None,
        subresource: None,
        old_watch: false,
    };
    ResourceRequest {
        resource,
        target,
        params: Params::parse(query),
        accepted: Accepted::default(),
        content_type: String::new(),
        body: Bytes::new(),
        user: User::default(),
        user_agent: String::new(),
        twist: ListTwist::default(),
        warnings: Warnings::default(),
    }
}

fn create(core: &Core, object: Value) {
    let write = core.own_write("/configmaps", Some("default"), "").unwrap();
    core.create_object(&write, object.as_object().unwrap().clone()).unwrap();
}

fn watch(core: &Arc<Core>, query: &str) -> Box<WatchStream> {
    match core.answer("watch", &config_maps(core, query)).unwrap() {
        Answer::Watch(stream) => stream,
        other => panic!("{other:?}"),
    }
}

async fn line(stream: &mut WatchStream) -> Bytes {
    match stream.next().await {
        Some(Piece::Event(line)) => line,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_change_is_written_once_for_all_watches_that_see_it_whole() {
    let core = Core::new(Store::new(10), Duration::from_secs(60));
    let mut all = watch(&core, "");
    let mut again = watch(&core, "");
    let mut selecting = watch(&core, "labelSelector=app%3Da");
    let mut elsewhere = watch(&core, "labelSelector=app%3Db");
    let object = json!({"metadata": {"name": "a", "labels": {"app": "a"}}});
    create(&core, object);
    let first = line(&mut all).await;
    for stream in [&mut again, &mut selecting] {
        let other = line(stream).await;
        assert_eq!(other.as_ptr(), first.as_ptr(), "the same memory, not just the same text");
        assert_eq!(other, first);
    }
    let other = json!({"metadata": {"name": "b", "labels": {"app": "b"}}});
    create(&core, other);
    assert_eq!(line(&mut elsewhere).await.as_ptr(), line(&mut all).await.as_ptr());
}

fn name(number: u64) -> Value {
    json!({"metadata": {"name": format!("a{number}")}})
}

/// The resource version that a line speaks of.
fn revision(line: &Bytes) -> u64 {
    let event: Value = serde_json::from_slice(line).unwrap();
    event["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_never_idle_gets_its_bookmarks_and_ends_in_time() {
    let core = Core::new(Store::new(100), Duration::from_secs(10));
    let mut stream = watch(&core, "timeoutSeconds=35&allowWatchBookmarks=true");
    let (mut sent, mut bookmarks) = (0, Vec::new());
    for second in 0..60 {
        create(&core, name(second));
        match stream.next().await {
            Some(Piece::Event(line)) => sent = revision(&line),
            Some(Piece::Bookmark(line)) => {
                assert_eq!(revision(&line), sent, "what waits to be sent is not counted");
                bookmarks.push(second);
            }
            None => {
                assert_eq!((second, &bookmarks[..]), (35, &[10, 20, 30][..]));
                return;
            }
            other => panic!("{other:?}"),
        }
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    panic!("it does not end; bookmarks at {bookmarks:?}");
}

#[tokio::test(start_paused = true)]
async fn no_bookmark_comes_before_the_end_of_the_initial_events() {
    let core = Core::new(Store::new(100), Duration::from_secs(10));
    for number in 0..3 {
        create(&core, name(number));
    }
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut stream = watch(&core, query);
    let mut kinds = Vec::new();
    for _ in 0..5 {
        kinds.push(match stream.next().await.unwrap() {
            Piece::Initial(_) => "initial",
            Piece::InitialEnd(_) => "end",
            Piece::Bookmark(_) => "bookmark",
            other => panic!("{other:?}"),
        });
        tokio::time::advance(Duration::from_secs(60)).await;
    }
    assert_eq!(kinds, ["initial", "initial", "initial", "end", "bookmark"]);
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_of_an_idle_watch_is_of_now() {
    let core = Core::new(Store::new(100), Duration::from_secs(10));
    let mut stream = watch(&core, "allowWatchBookmarks=true");
    for _ in 0..3 {
        // It waits while others write, and is woken by the time of its bookmark alone.
        let written = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let namespaces = core.own_write(NAMESPACES, None, "default").unwrap();
            core.change(&namespaces, |_, old| {
                let mut next = old.clone();
                next["metadata"]["labels"]["at"] = core.store.revision().to_string().into();
                Ok(Some(next))
            })
            .unwrap();
        };
        let (piece, ()) = tokio::join!(stream.next(), written);
        match piece {
            Some(Piece::Bookmark(line)) => assert_eq!(revision(&line), core.store.revision()),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn no_object_is_made_when_its_definition_has_gone() {
    let core = Core::new(Store::new(100), Duration::from_secs(10));
    let definitions = |name| core.own_write(DEFINITIONS, None, name).unwrap();
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let definition = json!({
        "metadata": {"name": "widgets.x.io"},
        "spec": {
            "group": "x.io", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    let Value::Object(definition) = definition else { unreachable!() };
    core.create_object(&definitions(""), definition).unwrap();
    let resource = core.registry.now().get("x.io", "v1", "widgets").cloned().unwrap();
    core.delete_object(&definitions("widgets.x.io"), &DeleteOptions::default()).unwrap();
    // A request that began while it was there.
    let write = Write::own(resource, Some("default".to_owned()), "");
    let Value::Object(object) = name(1) else { unreachable!() };
    assert_eq!(core.create_object(&write, object).unwrap_err().code, StatusCode::NOT_FOUND);
}
