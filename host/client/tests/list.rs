//! List pages and the pager.

use pilothouse_client::{Error, ListParams, ResourceVersionMatch};
use pilothouse_object::Object;

use crate::support::{Counter, Reply, Server, client, failure, page, pod, pods, status};

#[tokio::test]
async fn a_page_is_handed_on_item_by_item() {
    let server = Server::always(200, &page(9, "next", &[pod("a", 1), pod("b", 2)])).await;
    let mut names = Vec::new();
    let params = ListParams { limit: 2, label_selector: "a=b".to_owned(), ..ListParams::default() };
    let meta = client(&server)
        .await
        .list_page(&pods(), Some("default"), &params, &mut |object| names.push(object.name().to_owned()))
        .await
        .unwrap();
    assert_eq!((meta.resource_version.as_str(), meta.continue_token.as_str()), ("9", "next"));
    assert_eq!(names, ["a", "b"]);
    assert_eq!(server.only().path(), "/api/v1/namespaces/default/pods?labelSelector=a%3Db&limit=2");
}

#[tokio::test]
async fn a_list_of_metadata_only_asks_for_it_and_takes_whole_objects_where_it_must() {
    let server = Server::always(
        200,
        r#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"9"},"items":[
        {"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","namespace":"default"}}]}"#,
    )
    .await;
    let params = ListParams { metadata_only: true, ..ListParams::default() };
    let list = client(&server).await.list_all(&pods(), None, &params).await.unwrap();
    assert_eq!(list.items[0].kind(), "PartialObjectMetadata");
    assert_eq!(
        server.only().header("accept"),
        Some("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json")
    );
}

#[tokio::test]
async fn all_pages_are_one_list_and_later_pages_name_no_version() {
    let server = Server::start(|seen| match seen.query("continue") {
        None => Reply::json(page(9, "2", &[pod("a", 1), pod("b", 2)])),
        Some("2") => Reply::json(page(9, "3", &[pod("c", 3)])),
        _ => Reply::json(page(9, "", &[pod("d", 4)])),
    })
    .await;
    let params = ListParams {
        resource_version: Some("5".to_owned()),
        resource_version_match: Some(ResourceVersionMatch::NotOlderThan),
        ..ListParams::default()
    };
    let list = client(&server).await.list_all(&pods(), None, &params).await.unwrap();
    assert_eq!(list.items.iter().map(Object::name).collect::<Vec<_>>(), ["a", "b", "c", "d"]);
    assert!(list.paginated && list.meta.continue_token.is_empty());
    let paths: Vec<_> = server.seen().iter().map(|seen| seen.path().to_owned()).collect();
    assert_eq!(
        paths,
        [
            "/api/v1/pods?resourceVersion=5&resourceVersionMatch=NotOlderThan&limit=500",
            "/api/v1/pods?limit=500&continue=2",
            "/api/v1/pods?limit=500&continue=3",
        ]
    );
}

#[tokio::test]
async fn a_token_that_expires_turns_the_pages_into_one_full_list() {
    let server = Server::start(|seen| match (seen.query("limit"), seen.query("continue")) {
        (Some(_), None) => Reply::json(page(9, "2", &[pod("a", 1)])),
        (Some(_), Some(_)) => Reply::new(410, failure(410, "Expired", "too old")),
        _ => Reply::json(page(12, "", &[pod("b", 11), pod("c", 12)])),
    })
    .await;
    let params = ListParams { resource_version: Some("5".to_owned()), ..ListParams::default() };
    let mut seen_by_keep = 0;
    let list = client(&server)
        .await
        .list_all_with(&pods(), None, &params, &mut |object| {
            seen_by_keep += 1;
            (object.name() != "c").then_some(object)
        })
        .await
        .unwrap();
    assert_eq!(list.items.iter().map(Object::name).collect::<Vec<_>>(), ["b"]);
    assert_eq!(seen_by_keep, 3);
    assert!(list.paginated);
    assert_eq!(list.meta.resource_version, "12");
    assert_eq!(server.seen()[2].path(), "/api/v1/pods?resourceVersion=5");
}

#[tokio::test]
async fn other_errors_and_an_expired_first_page_are_returned() {
    let server = Server::always(410, &failure(410, "Expired", "too old")).await;
    assert_eq!(status(client(&server).await.list_all(&pods(), None, &ListParams::default()).await).code, 410);
    let calls = Counter::default();
    let server = Server::start(move |_| match calls.next() {
        0 => Reply::json(page(9, "2", &[])),
        1 => Reply::new(410, failure(410, "Expired", "too old")),
        _ => Reply::new(410, failure(410, "Expired", "still too old")),
    })
    .await;
    assert_eq!(status(client(&server).await.list_all(&pods(), None, &ListParams::default()).await).code, 410);
    assert_eq!(server.seen().len(), 3, "the full list is tried once");
}

#[tokio::test]
async fn a_large_page_is_decoded_in_order_too() {
    let padding = "x".repeat(9000);
    let items: Vec<String> = (0..1000)
        .map(|i| format!(r#"{{"metadata":{{"namespace":"d","name":"p{i}"}},"spec":"{padding}"}}"#))
        .collect();
    let body = page(9, "", &items);
    assert!(body.len() > 8 << 20);
    let server = Server::always(200, &body).await;
    let list = client(&server).await.list_all(&pods(), None, &ListParams::default()).await.unwrap();
    assert_eq!(list.items.len(), 1000);
    assert!(list.items.iter().enumerate().all(|(i, o)| o.name() == format!("p{i}")));
    assert!(!list.paginated);
}

#[tokio::test]
async fn items_are_handed_on_while_the_page_comes_and_others_run_meanwhile() {
    let (sender, reply) = Reply::pieces();
    let reply = parking_lot::Mutex::new(Some(reply));
    let server = Server::start(move |_| reply.lock().take().unwrap()).await;
    let client = client(&server).await;
    let (names, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let listing = tokio::spawn(async move {
        let mut item = |object: Object| names.send(object.name().to_owned()).unwrap();
        client.list_page(&pods(), None, &ListParams::default(), &mut item).await
    });
    let padding = "x".repeat(40_000);
    sender.send(Ok("{\"kind\":\"PodList\",\"items\":[".into())).unwrap();
    for i in 0..100 {
        let comma = if i > 0 { "," } else { "" };
        let item = format!(r#"{comma}{{"metadata":{{"name":"p{i}"}},"spec":"{padding}"}}"#);
        sender.send(Ok(item.into())).unwrap();
        if i >= 2 {
            // Only the pieces that the decoder gathers are held.
            assert_eq!(seen.recv().await.unwrap(), format!("p{}", i - 2));
        }
    }
    sender.send(Ok("],\"metadata\":{\"resourceVersion\":\"7\"}}".into())).unwrap();
    drop(sender);
    assert_eq!(listing.await.unwrap().unwrap().resource_version, "7");
    assert_eq!(seen.recv().await.unwrap(), "p98");
}

#[tokio::test]
async fn tables_and_rubbish_are_protocol_errors() {
    let large = format!("{{\"items\":[{}", "{\"metadata\":{\"name\":\"a\"}},".repeat(1 << 18));
    for body in [r#"{"kind":"Table","rows":[]}"#, "<html>", "", r#"{"kind":"PodList","items":[{}]}"#, &large]
    {
        let server = Server::always(200, body).await;
        let error = client(&server).await.list_all(&pods(), None, &ListParams::default()).await.unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_full_list_may_take_long_while_bytes_come_and_no_longer() {
    let (sender, reply) = Reply::pieces();
    let reply = parking_lot::Mutex::new(Some(reply));
    let server = Server::start(move |_| reply.lock().take().unwrap()).await;
    let client = client(&server).await;
    sender.send(Ok("{\"kind\":\"PodList\",".into())).unwrap();
    let listing =
        tokio::spawn(
            async move { client.list_page(&pods(), None, &ListParams::default(), &mut |_| {}).await },
        );
    server.until_seen(1).await;
    // Nothing more comes: time runs on to the limit between two pieces.
    tokio::time::pause();
    let error = listing.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Transport { timeout: true, .. }), "{error:?}");
    drop(sender);
}
