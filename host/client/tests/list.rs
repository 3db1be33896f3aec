//! List pages and the pager.

use pilothouse_client::{Error, ListParams, Listed, ResourceVersionMatch};
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

/// A server of pages `a b`, `c`, whose second is gone the first time it is asked for; the full list is `c d`.
async fn server_that_forgets() -> Server {
    Server::start(|seen| match (seen.query("limit"), seen.query("continue")) {
        (Some(_), None) => Reply::json(page(9, "2", &[pod("a", 1), pod("b", 2)])),
        (Some(_), Some(_)) => Reply::new(410, failure(410, "Expired", "too old")),
        _ => Reply::json(page(12, "", &[pod("c", 11), pod("d", 12)])),
    })
    .await
}

#[tokio::test]
async fn a_list_that_begins_anew_says_so_and_its_items_show_one_version() {
    let server = server_that_forgets().await;
    let mut told = Vec::new();
    let mut take = |listed| {
        told.push(match listed {
            Listed::Item(object) => object.name().to_owned(),
            Listed::Restarted => "restarted".to_owned(),
        });
        Ok(())
    };
    let client = client(&server).await;
    let summary = client.list_each(&pods(), None, &ListParams::default(), &mut take).await.unwrap();
    assert_eq!(told, ["a", "b", "restarted", "c", "d"]);
    assert_eq!((summary.meta.resource_version.as_str(), summary.paginated), ("12", true));
}

#[tokio::test]
async fn who_takes_the_items_can_end_the_list() {
    let enough = |code| {
        let status = pilothouse_client::Status { code, ..Default::default() };
        Err(Error::Api(Box::new(status)))
    };
    // Of the first page, of the second, and with an error that a server's could be taken for.
    for (after, code, requests) in [(1, 500, 1), (3, 500, 2), (3, 410, 2)] {
        let server = Server::start(|seen| match seen.query("continue") {
            None => Reply::json(page(9, "2", &[pod("a", 1), pod("b", 2)])),
            _ => Reply::json(page(9, "3", &[pod("c", 3), pod("d", 4)])),
        })
        .await;
        let mut taken = 0;
        let mut take = |_| {
            taken += 1;
            if taken < after { Ok(()) } else { enough(code) }
        };
        let client = client(&server).await;
        let ended = client.list_each(&pods(), None, &ListParams::default(), &mut take).await;
        assert_eq!(status(ended).code, code);
        assert_eq!((taken, server.seen().len()), (after, requests));
    }
}

#[tokio::test]
async fn pages_that_lead_to_themselves_are_a_protocol_error() {
    let server = Server::always(200, &page(9, "2", &[pod("a", 1)])).await;
    let error = client(&server).await.list_all(&pods(), None, &ListParams::default()).await.unwrap_err();
    assert!(matches!(&error, Error::Protocol { message, .. } if message.contains("never end")), "{error:?}");
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn an_item_of_16_mib_is_listed_and_a_longer_one_refused() {
    const LIMIT: usize = 16 << 20;
    let large = |size: usize| {
        let (begin, end) = (r#"{"metadata":{"name":"big"},"data":""#, r#""}"#);
        page(9, "", &[format!("{begin}{}{end}", "x".repeat(size - begin.len() - end.len()))])
    };
    for (size, good) in [(LIMIT, true), (LIMIT + 1, false)] {
        let server = Server::always(200, &large(size)).await;
        match client(&server).await.list_all(&pods(), None, &ListParams::default()).await {
            Ok(list) => assert!(good && list.items[0].name() == "big"),
            Err(error) => {
                assert!(!good && matches!(error, Error::Protocol { .. }), "{error:?}");
                assert!(error.to_string().contains("longer than 16777216 bytes"), "{error}");
            }
        }
    }
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
