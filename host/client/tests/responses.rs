//! Responses that are odd, large, compressed or hostile, and what becomes of their status and their texts.

use std::io::Write as _;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use pilothouse_client::{
    ClientOptions, DeleteParams, Error, ListParams, RetryPolicy, WatchEvent, WatchParams, WriteParams,
};

use crate::support::{
    Counter, Reply, Server, client, client_with, event, failure, key, page, pod, pods, soon, status,
};

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn an_error_response_in_gzip_keeps_its_status_and_its_message() {
    let server = Server::start(|_| {
        let body = gzip(&failure(410, "Expired", "the version is too old"));
        Reply::new(410, body).header("content-encoding", "gzip").header("retry-after", "7")
    })
    .await;
    let compressing = client_with(&server, |options| options.compress_lists = true).await;
    let error = compressing.list_all(&pods(), None, &ListParams::default()).await.unwrap_err();
    assert!(error.is_expired(), "{error:?}");
    assert!(error.to_string().contains("the version is too old"), "{error}");
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    // Unasked as well, and where the encoding is one that cannot be read.
    let error = client(&server).await.get(&pods(), &key("default/a"), None).await.unwrap_err();
    assert!(error.is_expired(), "{error:?}");
    let server = Server::start(|_| Reply::new(403, "zzz").header("content-encoding", "br")).await;
    let error = client(&server).await.watch(&pods(), None, &WatchParams::default()).await.unwrap_err();
    assert!(error.is_forbidden(), "{error:?}");
}

#[tokio::test]
async fn a_list_in_gzip_whose_token_expires_begins_anew() {
    let calls = Counter::default();
    let server = Server::start(move |_| match calls.next() {
        0 => Reply::json(page(1, "next", &[pod("a", 1)])),
        1 => Reply::new(410, gzip(&failure(410, "Expired", "old"))).header("content-encoding", "gzip"),
        _ => Reply::json(page(2, "", &[pod("a", 1), pod("b", 2)])),
    })
    .await;
    let client = client_with(&server, |options| options.compress_lists = true).await;
    let list = client.list_all(&pods(), None, &ListParams::default()).await.unwrap();
    assert_eq!((list.items.len(), server.seen().len()), (2, 3));
}

#[tokio::test]
async fn an_error_body_beyond_the_limit_is_cut_and_keeps_its_status() {
    let server = Server::always(503, &"down ".repeat(1 << 19)).await;
    let client = client(&server).await;
    let status = status(client.get(&pods(), &key("default/a"), None).await);
    assert_eq!(status.code, 503);
    assert!(status.message.contains("down") && status.message.len() < 300, "{}", status.message);
}

#[tokio::test]
async fn texts_of_a_status_are_bounded_and_without_control_characters() {
    let message = format!("\\u001b[31mred\\u0007 {}", "x".repeat(1 << 17));
    let body = format!(
        r#"{{"kind":"Status","status":"Failure","code":422,"reason":"In\u001bvalid","message":"{message}",
        "details":{{"causes":[{{"message":"{message}","field":"a\u001bb"}}]}}}}"#
    );
    let watched = event("ERROR", &body.replace('\n', " "));
    let server = Server::start(move |seen| match seen.query("watch") {
        Some(_) => Reply::json(watched.clone()),
        None => Reply::new(422, body.clone()),
    })
    .await;
    let client = client(&server).await;
    let read = client.get(&pods(), &key("default/a"), None).await.unwrap_err();
    let mut watch = client.watch(&pods(), None, &WatchParams::default()).await.unwrap();
    for error in [read, watch.next().await.unwrap().unwrap_err()] {
        let status = error.status().unwrap();
        let cause = &status.details.as_ref().unwrap().causes[0];
        for text in [&status.reason, &status.message, &cause.message, &cause.field] {
            assert!(text.len() < 5000 && !text.contains(char::is_control), "{text:?}");
        }
        assert!(status.message.starts_with(" [31mred"), "{}", &status.message[..20]);
    }
}

#[tokio::test]
async fn values_of_a_response_that_cannot_be_read_are_not_in_the_error() {
    const SECRET: &str = "s3cretvalue";
    let odd = [
        format!(r#"{{"kind":{{"{SECRET}":1}}}}"#),
        format!(r#"{{"kind":"Status","code":"{SECRET}"}}"#),
        format!(r#"{{"kind":"Pod","apiVersion":"v1","metadata":"{SECRET}"}}"#),
        format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":"{SECRET}","items":[]}}"#),
        format!(r#"{{"gitVersion":["{SECRET}"],"major":{{"{SECRET}":1}},"minor":"{SECRET}" "{SECRET}"}}"#),
        r#"{"gitVersion":"v1","major":"1","minor":918273}"#.to_owned(),
        format!(r#"{{"kind":"APIGroupList","groups":"{SECRET}","versions":"{SECRET}"}}"#),
    ];
    let (widgets, namespace) = (pods(), Some("default"));
    for body in odd {
        let answer = body.clone();
        let server = Server::start(move |seen| match seen.query("watch") {
            Some(_) => Reply::json(event("BOOKMARK", &answer)),
            None => Reply::json(answer.clone()),
        })
        .await;
        let client = client(&server).await;
        let key = key("default/a");
        let mut errors = vec![
            client.get(&widgets, &key, None).await.err(),
            client.create(&widgets, namespace, b"{}", &WriteParams::default()).await.err(),
            client.delete(&widgets, &key, &DeleteParams::default()).await.err(),
            client.list_all(&widgets, None, &ListParams::default()).await.err(),
            client.server_version().await.err(),
            client.discovery().groups().await.err(),
            client.discovery().resources("apps", "v1").await.err(),
        ];
        let mut watch = client.watch(&widgets, None, &WatchParams::default()).await.unwrap();
        errors.push(watch.next().await.unwrap().err());
        assert!(errors.iter().flatten().count() >= 4, "{body}: {errors:?}");
        for error in errors.into_iter().flatten() {
            let text = format!("{error} {error:?}");
            assert!(!text.contains(SECRET) && !text.contains("918273"), "{body}: {text}");
        }
    }
}

#[tokio::test]
async fn a_retry_after_of_an_age_is_cut_to_a_minute() {
    for seconds in ["18446744073709551615", "86400"] {
        let server = Server::start(move |_| Reply::new(429, "later").header("retry-after", seconds)).await;
        let error = client(&server).await.get(&pods(), &key("default/a"), None).await.unwrap_err();
        assert_eq!(error.retry_after(), Some(Duration::from_secs(60)), "{seconds}");
        // A policy without a bound waits a bounded time and does not overflow.
        let policy = RetryPolicy { max_retries: 1, max_wait: Duration::MAX };
        let patient = client(&server).await.with_retry_policy(policy);
        let error = soon(patient.get(&pods(), &key("default/a"), None)).await.unwrap_err();
        assert!(error.is_too_many_requests(), "{error:?}");
    }
}

#[tokio::test]
async fn an_event_with_a_field_that_servers_do_not_write_is_read() {
    let body = format!("{{\"type\":\"ADDED\",\"object\":{},\"x\":1}}\n", pod("a", 1));
    let server = Server::always(200, &body).await;
    let mut watch = client(&server).await.watch(&pods(), None, &WatchParams::default()).await.unwrap();
    let read = watch.next().await.unwrap();
    assert!(matches!(&read, Ok(WatchEvent::Added(object)) if object.name() == "a"), "{read:?}");
}

#[tokio::test]
async fn an_event_that_cannot_be_decoded_does_not_end_the_watch() {
    let odd = [
        event("ADDED", r#"{"kind":"Pod","metadata":{"namespace":"default"}}"#),
        event("ADDED", r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{}}"#),
        event("RENAMED", &pod("a", 1)),
        "no JSON at all\n".to_owned(),
        event("MODIFIED", &format!(r#"{{"metadata":{{"name":"large"}},"x":"{}"}}"#, "x".repeat(17 << 20))),
    ];
    for odd in odd {
        let body = [event("ADDED", &pod("a", 1)), odd, event("ADDED", &pod("b", 2))].concat();
        let server = Server::always(200, &body).await;
        let mut watch = client(&server).await.watch(&pods(), None, &WatchParams::default()).await.unwrap();
        assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Added(_)))));
        let skipped = watch.next().await.unwrap().unwrap_err();
        assert!(matches!(skipped, Error::Event { .. }) && skipped.is_skippable(), "{skipped:?}");
        let next = watch.next().await;
        assert!(matches!(&next, Some(Ok(WatchEvent::Added(b))) if b.name() == "b"), "{next:?}");
        assert!(watch.next().await.is_none());
    }
}

#[tokio::test]
async fn a_write_that_is_turned_away_with_429_is_sent_again() {
    let calls = Counter::default();
    let server = Server::start(move |_| match calls.next() {
        0 | 2 => Reply::new(429, "later").header("retry-after", "0"),
        4 => Reply::new(503, "later").header("retry-after", "0"),
        _ => Reply::json(pod("a", 1)),
    })
    .await;
    let client = client(&server).await;
    let params = WriteParams::default();
    soon(client.create(&pods(), Some("default"), b"{}", &params)).await.unwrap();
    let merge = pilothouse_client::Patch::Merge(b"{}");
    soon(client.patch(&pods(), &key("default/a"), merge, &params)).await.unwrap();
    assert_eq!(server.seen().len(), 4);
    // The server may have done something before it answered this.
    assert_eq!(status(client.create(&pods(), Some("default"), b"{}", &params).await).code, 503);
    assert_eq!(server.seen().len(), 5);
}

#[tokio::test]
async fn a_call_that_is_sent_again_uses_the_connection_it_had() {
    let calls = Counter::default();
    let server = Server::start(move |_| match calls.next() {
        call if call < 3 => Reply::new(429, "later ".repeat(10_000)).header("retry-after", "0"),
        _ => Reply::json(pod("a", 1)),
    })
    .await;
    soon(client(&server).await.get(&pods(), &key("default/a"), None)).await.unwrap();
    let connections: Vec<_> = server.seen().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [0; 4], "HTTP/1.1: a body that is not read costs the connection");
}

#[tokio::test]
async fn the_identity_says_the_user_agent_of_a_request_that_is_put_together() {
    let server = Server::always(200, "{}").await;
    let client = client(&server).await;
    let core = client.rest("", "v1");
    let error = core.get().resource("pods").header("User-Agent", "other/1").send().await.unwrap_err();
    assert!(matches!(&error, Error::Request(message) if message.contains("with_identity")), "{error:?}");
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn what_certainly_never_left_is_told_from_what_may_have_been_done() {
    // Nobody listens; and a server that closes in the middle.
    let gone = Server::always(200, "").await.url.clone();
    let options = ClientOptions { server: Some(gone), ..ClientOptions::default() };
    let client = pilothouse_client::Client::new(options).await.unwrap();
    let error = client.create(&pods(), Some("default"), b"{}", &WriteParams::default()).await.unwrap_err();
    assert!(matches!(error, Error::Transport { unsent: true, .. }), "{error:?}");
    let (pieces, reply) = Reply::pieces();
    pieces.send(Err(std::io::Error::other("broken"))).unwrap();
    let reply = parking_lot::Mutex::new(Some(reply));
    let server = Server::start(move |_| reply.lock().take().unwrap()).await;
    let client = crate::support::client(&server).await;
    let error = client.create(&pods(), Some("default"), b"{}", &WriteParams::default()).await.unwrap_err();
    assert!(matches!(error, Error::Transport { unsent: false, .. }), "{error:?}");
}

/// Behind a subresource such as `proxy` may be anything.
#[tokio::test]
async fn a_created_subresource_may_be_answered_by_something_that_is_no_api() {
    let params = WriteParams { subresource: Some("proxy".to_owned()), ..WriteParams::default() };
    for (answer, is_object) in [
        ("[]", false),
        ("[0,0]", false),
        ("\"text\"", false),
        ("7", false),
        ("null", false),
        ("<html>", false),
        ("{}", true),
        (r#"{"metadata":[]}"#, true),
        (r#"{"metadata":{"name":7}}"#, true),
    ] {
        let server = Server::always(200, answer).await;
        let client = client(&server).await;
        let created = client.create_subresource(&pods(), &key("default/a"), b"{}", &params).await;
        assert_eq!(created.is_ok(), is_object, "{answer}: {created:?}");
        assert_eq!(server.seen().len(), 1);
        if let Ok(created) = created {
            assert_eq!(created.key(), &key("default/a"), "{answer}");
        }
    }
}
