//! Watch streams: frames, faults, cancellation, deadlines.

use std::io;

use bytes::Bytes;
use parking_lot::Mutex;
use pilothouse_client::{Client, Error, Result, WatchEvent, WatchParams, WatchStream};
use tokio::sync::mpsc::UnboundedSender;

use crate::support::{Kubeconfig, Reply, Server, client, event, failure, pod, pods, soon, status, tls};

/// An open watch whose bytes the test sends.
struct Watching {
    server: Server,
    _client: Client,
    stream: WatchStream,
    sender: UnboundedSender<io::Result<Bytes>>,
}

async fn watching(params: &WatchParams) -> Watching {
    let (sender, reply) = Reply::pieces();
    let reply = Mutex::new(Some(reply));
    let server = Server::start(move |_| reply.lock().take().unwrap()).await;
    let client = client(&server).await;
    let stream = client.watch(&pods(), None, params).await.unwrap();
    Watching { server, _client: client, stream, sender }
}

impl Watching {
    fn send(&self, bytes: impl Into<Bytes>) {
        self.sender.send(Ok(bytes.into())).unwrap();
    }

    async fn next(&mut self) -> Option<Result<WatchEvent>> {
        soon(self.stream.next()).await
    }

    async fn event(&mut self) -> String {
        describe(&self.next().await.unwrap().unwrap())
    }

    async fn error(&mut self) -> Error {
        let error = self.next().await.unwrap().unwrap_err();
        assert!(self.next().await.is_none(), "an error ends the stream");
        error
    }
}

fn describe(event: &WatchEvent) -> String {
    match event {
        WatchEvent::Added(o) => format!("added {} {}", o.name(), o.kind()),
        WatchEvent::Modified(o) => format!("modified {}", o.name()),
        WatchEvent::Deleted(o) => format!("deleted {}", o.name()),
        WatchEvent::Bookmark { resource_version, initial_events_end } => {
            format!("bookmark {resource_version} {initial_events_end}")
        }
    }
}

fn some_events() -> String {
    [
        event("ADDED", &pod("a", 1)),
        event("MODIFIED", &pod("ä", 2)),
        // Other servers write other JSON.
        format!("{{ \"object\" : {}, \"type\": \"DELETED\" }}\r\n\n", pod("c", 3)),
        event("BOOKMARK", r#"{"kind":"Pod","metadata":{"resourceVersion":"4","creationTimestamp":null}}"#),
    ]
    .concat()
}

const SOME_EVENTS: [&str; 4] = ["added a Pod", "modified ä", "deleted c", "bookmark 4 false"];

#[tokio::test]
async fn a_watch_asks_for_bookmarks_and_no_compression() {
    let watch = watching(&WatchParams {
        label_selector: "a=b".to_owned(),
        resource_version: Some("5".to_owned()),
        timeout_seconds: Some(300),
        ..WatchParams::default()
    })
    .await;
    let seen = watch.server.only();
    assert_eq!(
        seen.path(),
        "/api/v1/pods?watch=true&allowWatchBookmarks=true&labelSelector=a%3Db&resourceVersion=5&timeoutSeconds=300"
    );
    assert_eq!(seen.header("accept-encoding"), Some("identity"));
    assert!(seen.header("accept").unwrap().contains("drop=metadata.managedFields"));
    let watch = watching(&WatchParams { metadata_only: true, ..WatchParams::default() }).await;
    assert_eq!(
        watch.server.only().header("accept"),
        Some("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json")
    );
    let watch = watching(&WatchParams { send_initial_events: true, ..WatchParams::default() }).await;
    assert!(
        watch.server.only().path().ends_with("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
    );
}

#[tokio::test]
async fn events_do_not_depend_on_where_chunks_end() {
    let all = some_events().into_bytes();
    for size in [1, 2, 3, 7, 50, 64, 200, all.len()] {
        let mut watch = watching(&WatchParams::default()).await;
        for chunk in all.chunks(size) {
            watch.send(chunk.to_vec());
        }
        for wanted in SOME_EVENTS {
            assert_eq!(watch.event().await, wanted, "chunks of {size}");
        }
        drop(watch.sender);
        assert!(soon(watch.stream.next()).await.is_none());
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_loses_nothing() {
    let mut watch = watching(&WatchParams::default()).await;
    let all = some_events().into_bytes();
    let mut found = Vec::new();
    for byte in all {
        watch.send(vec![byte]);
        // Polls once and gives up, whatever has come so far.
        tokio::select! {
            biased;
            next = watch.stream.next() => found.push(describe(&next.unwrap().unwrap())),
            () = tokio::task::yield_now() => {}
        }
    }
    while found.len() < SOME_EVENTS.len() {
        found.push(watch.event().await);
    }
    assert_eq!(found, SOME_EVENTS);
}

#[tokio::test]
async fn only_the_annotation_true_ends_the_initial_events() {
    let mut watch = watching(&WatchParams::default()).await;
    for value in ["false", "true"] {
        watch.send(event(
            "BOOKMARK",
            &format!(
                r#"{{"metadata":{{"resourceVersion":"4","annotations":{{"a":"b","k8s.io/initial-events-end":"{value}"}}}}}}"#
            ),
        ));
        assert_eq!(watch.event().await, format!("bookmark 4 {value}"));
    }
}

#[tokio::test]
async fn an_error_frame_is_a_typed_error_and_the_end() {
    let mut watch = watching(&WatchParams::default()).await;
    watch.send(
        event("ADDED", &pod("a", 1)) + &event("ERROR", &failure(410, "Expired", "too old resource version")),
    );
    watch.event().await;
    let error = watch.error().await;
    assert!(error.is_expired(), "{error:?}");
    assert!(error.to_string().starts_with("watching http://127.0.0.1"), "{error}");
}

#[tokio::test]
async fn errors_at_opening_are_typed() {
    let server = Server::always(410, &failure(410, "Gone", "too old")).await;
    assert_eq!(status(client(&server).await.watch(&pods(), None, &WatchParams::default()).await).code, 410);
    let server = Server::always(502, "<html>bad gateway</html>").await;
    assert_eq!(status(client(&server).await.watch(&pods(), None, &WatchParams::default()).await).code, 502);
    let server = Server::start(|_| Reply::new(302, "").header("location", "https://elsewhere/")).await;
    let error = client(&server).await.watch(&pods(), None, &WatchParams::default()).await.unwrap_err();
    assert!(error.to_string().contains("elsewhere"), "{error}");
}

#[tokio::test]
async fn a_reset_in_the_middle_of_a_line_is_a_transport_error() {
    let mut watch = watching(&WatchParams::default()).await;
    watch.send(event("ADDED", &pod("a", 1)) + "{\"type\":\"ADD");
    assert_eq!(watch.event().await, "added a Pod");
    watch.sender.send(Err(io::Error::other("reset"))).unwrap();
    let error = watch.error().await;
    assert!(matches!(error, Error::Transport { .. }), "{error:?}");
}

#[tokio::test]
async fn an_end_in_the_middle_of_a_line_is_told_from_a_clean_one() {
    let watch = watching(&WatchParams::default()).await;
    watch.send("{\"type\":\"ADDED\",\"obj");
    let Watching { mut stream, sender, .. } = watch;
    drop(sender);
    let error = soon(stream.next()).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("in the middle of an event"), "{error}");
    // A last line break may be missing.
    let watch = watching(&WatchParams::default()).await;
    watch.send(event("ADDED", &pod("a", 1)).trim_end().to_owned());
    let Watching { mut stream, sender, .. } = watch;
    drop(sender);
    assert_eq!(describe(&soon(stream.next()).await.unwrap().unwrap()), "added a Pod");
    assert!(soon(stream.next()).await.is_none());
}

#[tokio::test]
async fn lines_that_are_no_events_are_errors_of_one_event() {
    let tail = format!(r#"{{"type":"ADDED","object":{},"x":1}}"#, pod("a", 1));
    for (line, wanted) in [
        (event("SURPRISE", "{}"), "event of unknown type \"SURPRISE\""),
        ("<html>\n".to_owned(), "undecodable event:"),
        (event("ADDED", "{}"), "undecodable event:"),
        (event("ADDED", &(pod("a", 1) + &pod("b", 2))), "undecodable event:"),
        (event("BOOKMARK", "{}"), "undecodable event:"),
        ("{\"type\":\"ADDED\"}\n".to_owned(), "undecodable event:"),
        (format!("{tail}}}\n"), "undecodable event:"),
    ] {
        let mut watch = watching(&WatchParams::default()).await;
        watch.send(line.clone());
        let error = watch.next().await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Event { .. }), "{line}: {error:?}");
        assert!(error.to_string().contains(wanted), "{error}");
    }
}

#[tokio::test]
async fn metadata_of_an_event_must_be_json_and_other_fields_need_only_an_end() {
    let object = |labels: &str, spec: &str| {
        format!(r#"{{"metadata":{{"name":"a","labels":{labels}}},"spec":{spec}}}"#)
    };
    let mut watch = watching(&WatchParams::default()).await;
    watch.send(event("ADDED", &object("{}", "{]")) + &event("MODIFIED", &object("{}", "{}")));
    assert_eq!([watch.event().await, watch.event().await], ["added a Pod", "modified a"]);
    for broken in [object("{]", "{}"), object("{}", "{"), object("{}", "{\"a\":\"b}")] {
        watch.send(event("ADDED", &broken));
        let error = watch.next().await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Event { .. }), "{broken}: {error:?}");
    }
}

#[tokio::test]
async fn an_object_of_16_mib_is_read_and_a_longer_one_refused() {
    const LIMIT: usize = 16 << 20;
    let large = |size: usize| {
        let (begin, end) = (r#"{"metadata":{"name":"big"},"data":""#, r#""}"#);
        event("ADDED", &format!("{begin}{}{end}", "x".repeat(size - begin.len() - end.len())))
    };
    let mut watch = watching(&WatchParams::default()).await;
    watch.send(large(LIMIT));
    assert_eq!(watch.event().await, "added big Pod");
    watch.send(large(LIMIT + 1));
    let error = watch.next().await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Event { .. }), "{error:?}");
    assert!(error.to_string().contains("objects up to 16777216 bytes are read"), "{error}");
}

#[tokio::test]
async fn a_watch_that_outlives_its_timeout_is_taken_for_dead() {
    let mut watch = watching(&WatchParams { timeout_seconds: Some(300), ..WatchParams::default() }).await;
    watch.send(event("ADDED", &pod("a", 1)));
    watch.event().await;
    // From here on time runs to the next timer as soon as nothing else is to do.
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let error = watch.stream.next().await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Transport { timeout: true, .. }), "{error:?}");
    let waited = began.elapsed().as_secs();
    assert!((320..=330).contains(&waited), "{waited}");
}

/// A bookmark as servers send about every minute.
fn bookmark(version: u32) -> String {
    event("BOOKMARK", &format!(r#"{{"metadata":{{"resourceVersion":"{version}"}}}}"#))
}

#[tokio::test]
async fn a_watch_that_fell_silent_after_bookmarks_is_taken_for_dead() {
    let mut watch = watching(&WatchParams { timeout_seconds: Some(3600), ..WatchParams::default() }).await;
    watch.send(bookmark(4));
    assert_eq!(watch.event().await, "bookmark 4 false");
    // From here on time runs to the next timer as soon as nothing else is to do.
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let error = watch.stream.next().await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Transport { timeout: true, .. }), "{error:?}");
    assert!(error.to_string().contains("neither an event nor a bookmark for 300s"), "{error}");
    let waited = began.elapsed().as_secs();
    assert!((290..=300).contains(&waited), "{waited}");
}

#[tokio::test]
async fn a_watch_without_a_row_of_bookmarks_or_with_the_alarm_off_may_be_silent() {
    let end = r#"{"metadata":{"resourceVersion":"4","annotations":{"k8s.io/initial-events-end":"true"}}}"#;
    for (line, bookmark_age) in [
        (event("ADDED", &pod("a", 1)), Some(WatchParams::BOOKMARK_AGE)),
        (event("BOOKMARK", end), Some(WatchParams::BOOKMARK_AGE)),
        (bookmark(4), None),
    ] {
        let params = WatchParams { timeout_seconds: Some(3600), bookmark_age, ..WatchParams::default() };
        let mut watch = watching(&params).await;
        watch.send(line);
        watch.event().await;
        tokio::time::pause();
        let began = tokio::time::Instant::now();
        let error = watch.stream.next().await.unwrap().unwrap_err();
        assert!(error.to_string().contains("after its timeout"), "{error}");
        assert!(began.elapsed().as_secs() > 3600);
        tokio::time::resume();
    }
}

#[tokio::test]
async fn dropping_a_watch_closes_it_at_the_server() {
    let watch = watching(&WatchParams::default()).await;
    let Watching { stream, sender, server: _server, _client } = watch;
    drop(stream);
    soon(sender.closed()).await;
}

#[tokio::test]
async fn dropping_a_watch_leaves_the_others_of_its_connection() {
    let tls = tls(&["h2"]);
    let (senders, mut sent) = tokio::sync::mpsc::unbounded_channel();
    let server = Server::start_tls(tls.server.clone(), move |_| {
        let (sender, reply) = Reply::pieces();
        senders.send(sender).unwrap();
        reply
    })
    .await;
    let client = Kubeconfig::trusting(&server.url, &tls).client().await.unwrap();
    let first = soon(client.watch(&pods(), None, &WatchParams::default())).await.unwrap();
    let mut second = soon(client.watch(&pods(), None, &WatchParams::default())).await.unwrap();
    let (of_first, of_second) = (sent.recv().await.unwrap(), sent.recv().await.unwrap());
    assert!(server.seen().iter().all(|seen| seen.connection == 0));
    // In the middle of an event.
    of_first.send(Ok("{\"type\":\"ADD".into())).unwrap();
    drop(first);
    soon(of_first.closed()).await;
    of_second.send(Ok(event("ADDED", &pod("a", 1)).into())).unwrap();
    assert_eq!(describe(&soon(second.next()).await.unwrap().unwrap()), "added a Pod");
}
