//! Watches within the process: what all of them share.

use std::time::Duration;

use serde_json::json;

use super::*;

/// A call on ConfigMaps of `default`.
fn call(core: &Core, query: &str, body: &Value) -> Call {
    let resource = core.registry.now().get("", "v1", "configmaps").unwrap().clone();
    let plain = Call::plain(resource, Some("default".to_owned()), None);
    Call { params: Params::parse(query), body: body.to_string().into(), ..plain }
}

fn watch(core: &Arc<Core>, query: &str) -> Box<WatchStream> {
    match core.answer("watch", &call(core, query, &Value::Null)).unwrap() {
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
    core.answer("create", &call(&core, "", &object)).unwrap();
    let first = line(&mut all).await;
    for stream in [&mut again, &mut selecting] {
        let other = line(stream).await;
        assert_eq!(other.as_ptr(), first.as_ptr(), "the same memory, not just the same text");
        assert_eq!(other, first);
    }
    let other = json!({"metadata": {"name": "b", "labels": {"app": "b"}}});
    core.answer("create", &call(&core, "", &other)).unwrap();
    assert_eq!(line(&mut elsewhere).await.as_ptr(), line(&mut all).await.as_ptr());
}
