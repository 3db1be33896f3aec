//! Watches within the process: what all of them share.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::api::{Accepted, Params, Target, Warnings};

/// A request on ConfigMaps of `default`.
fn request(core: &Core, query: &str) -> RequestInfo {
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
    RequestInfo {
        resource,
        target,
        params: Params::parse(query),
        accepted: Accepted::default(),
        content_type: String::new(),
        body: Bytes::new(),
        user: User::default(),
        twist: ListTwist::default(),
        warnings: Warnings::default(),
    }
}

fn create(core: &Core, object: Value) {
    let write = core.own_write("/configmaps", Some("default"), "").unwrap();
    core.create_object(&write, object.as_object().unwrap().clone()).unwrap();
}

fn watch(core: &Arc<Core>, query: &str) -> Box<WatchStream> {
    match core.answer("watch", &request(core, query)).unwrap() {
        Answer::Watch(stream) => stream,
        other => panic!("{other:?}"),
    }
}

async fn line(stream: &mut WatchStream) -> Bytes {
    match stream.next().await {
        Some(Piece::Line(line)) => line,
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
