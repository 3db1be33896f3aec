//! Remote clusters: their numbers, and that they have live calls alone.

use super::*;
use api::cache::HostQuery;
use api::client::HostPage;
use api::events::{EventType, HostEvent};
use api::objects::HostObject;

fn east() -> (Arc<Recording>, StoreState) {
    state(Recording { remote: vec!["east"], objects: vec![object("a/x")], ..Recording::default() })
}

#[test]
fn clusters_are_named_by_their_numbers_and_others_are_refused() {
    let (_, mut state) = east();
    assert_eq!(api::kinds::Host::clusters(&mut import_call(&mut state)).unwrap(), ["home", "east"]);
    let kind = kind_in(&mut state, 1).unwrap();
    assert_eq!(api::kinds::HostKind::cluster(&mut import_call(&mut state), kind).unwrap(), 1);
    let (reason, message) = refusal(kind_in(&mut state, 2));
    assert_eq!(reason, RefusalReason::Unsupported);
    assert!(message.contains("0 (home), 1 (east)") && message.contains("spec.remoteClusters"), "{message}");
}

#[tokio::test]
async fn live_calls_go_to_the_cluster_of_the_kind_and_so_do_their_objects() {
    let (host, mut state) = east();
    let (here, there) = (kind(&mut state), kind_in(&mut state, 1).unwrap());
    let mut call = import_call(&mut state);
    let at = || ("a".to_owned(), "x".to_owned());
    for (kind, cluster) in [(here, 0), (there, 1)] {
        let (namespace, name) = at();
        let got = api::client::Host::get(&mut call, lent(&kind), namespace, name, None).await.unwrap();
        assert_eq!(HostObject::cluster(&mut call, got).unwrap(), cluster);
        let page = api::client::Host::list(&mut call, kind, None).await.unwrap();
        for listed in HostPage::items(&mut call, page).unwrap() {
            assert_eq!(HostObject::cluster(&mut call, listed).unwrap(), cluster);
        }
    }
    let (namespace, name) = at();
    // It answers no log, but it was asked for one.
    let log = api::client::Host::pod_log(&mut call, 1, namespace, name, None).await;
    assert_eq!(call_refusal(log).0, RefusalReason::Unavailable);
    assert_eq!(*host.sent_to.lock(), [0, 0, 1, 1, 1]);
}

#[tokio::test]
async fn the_cache_and_events_are_of_the_cluster_of_the_run() {
    let (host, mut state) = east();
    let kind = kind_in(&mut state, 1).unwrap();
    let mut call = import_call(&mut state);
    let key = || wit::types::ObjectKey { namespace: "a".to_owned(), name: "x".to_owned() };
    let cached = [
        refusal(api::cache::Host::get(&mut call, lent(&kind), "a".to_owned(), "x".to_owned())),
        refusal(api::cache::Host::get_many(&mut call, lent(&kind), vec![key()])),
        refusal(api::cache::Host::index_values(&mut call, lent(&kind), "i".to_owned())),
        refusal(HostQuery::new(&mut call, lent(&kind))),
    ];
    for (reason, message) in cached {
        assert_eq!(reason, RefusalReason::NotWatched);
        assert!(message.contains("cluster \"east\"") && message.contains("live calls"), "{message}");
    }
    let live = api::client::Host::get(&mut call, lent(&kind), "a".to_owned(), "x".to_owned(), None);
    let live = live.await.unwrap();
    let [reason, note] = ["R", "n"].map(str::to_owned);
    let about = HostEvent::about(&mut call, lent(&live), EventType::Normal, reason.clone(), note.clone());
    let about_key = HostEvent::about_key(
        &mut call,
        kind,
        key(),
        String::new(),
        EventType::Normal,
        reason.clone(),
        note.clone(),
    );
    for (why, message) in [refusal(about), refusal(about_key)] {
        assert_eq!(why, RefusalReason::Unsupported);
        assert!(message.contains("cluster \"east\""), "{message}");
    }
    let here = call.handles.push_cached(object("a/x")).unwrap();
    let event = HostEvent::about(&mut call, here, EventType::Normal, reason, note).unwrap();
    HostEvent::related(&mut call, lent(&event), live).unwrap();
    assert_eq!(refusal(HostEvent::record(&mut call, event)).0, RefusalReason::Unsupported);
    assert!(host.events.lock().is_empty());
}
