//! Single objects: what is sent, and what answers become.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use parking_lot::Mutex;
use pilothouse_client::{
    DeleteParams, Deleted, Error, Identity, Impersonation, ObservedRequest, Patch, Preconditions,
    Propagation, RequestObserver, RetryPolicy, WriteParams,
};
use serde_json::{Value, json};

use crate::support::{Reply, Server, client, client_with, failure, key, pod, pods, soon, status};

#[tokio::test]
async fn get_asks_for_json_without_field_managers_and_fills_in_the_kind() {
    let server = Server::always(200, &pod("a", 7)).await;
    let object = client(&server).await.get(&pods(), &key("default/a"), None).await.unwrap();
    assert_eq!((object.kind(), object.api_version(), object.resource_version()), ("Pod", "v1", "7"));
    let seen = server.only();
    assert_eq!((seen.method.as_str(), seen.path()), ("GET", "/api/v1/namespaces/default/pods/a"));
    assert_eq!(seen.header("accept"), Some("application/json;drop=metadata.managedFields, application/json"));
    assert!(seen.header("user-agent").unwrap().starts_with("pilothouse/"));
    assert_eq!(seen.header("authorization"), None);
}

#[tokio::test]
async fn identities_differ_in_headers_and_share_a_connection() {
    let server = Server::always(200, &pod("a", 1)).await;
    let host = client(&server).await;
    let plugin = host.with_identity(Identity {
        user_agent: "demo/1".to_owned(),
        field_manager: "demo".to_owned(),
        impersonate: Some(Impersonation {
            user: "system:serviceaccount:a:b".to_owned(),
            groups: vec!["g1".to_owned(), "g2".to_owned()],
            uid: Some("u".to_owned()),
            extra: BTreeMap::from([("Example.com/Scope".to_owned(), vec!["x".to_owned(), "y".to_owned()])]),
        }),
        rate_limit: None,
    });
    host.get(&pods(), &key("default/a"), None).await.unwrap();
    plugin.update(&pods(), &key("default/a"), b"{}", &WriteParams::default()).await.unwrap();
    let [first, second] = server.seen().try_into().unwrap();
    assert_eq!(first.connection, second.connection);
    assert_eq!(first.header("impersonate-user"), None);
    assert_eq!(second.header("user-agent"), Some("demo/1"));
    assert_eq!(second.query("fieldManager"), Some("demo"));
    assert_eq!(second.header("impersonate-user"), Some("system:serviceaccount:a:b"));
    assert_eq!(second.header("impersonate-uid"), Some("u"));
    let all = |name| second.headers.get_all(name).iter().map(|v| v.to_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(all("impersonate-group"), ["g1", "g2"]);
    assert_eq!(all("impersonate-extra-example.com%2fscope"), ["x", "y"]);
}

#[tokio::test]
async fn an_identity_that_cannot_be_sent_sends_nothing() {
    let server = Server::always(200, &pod("a", 1)).await;
    let host = client(&server).await;
    let groups = Impersonation { groups: vec!["g".to_owned()], ..Impersonation::default() };
    let newline = Impersonation { user: "a\r\nx: y".to_owned(), ..Impersonation::default() };
    for who in [groups, newline] {
        let plugin = host.with_identity(Identity { impersonate: Some(who), ..Identity::default() });
        let error = plugin.get(&pods(), &key("default/a"), None).await.unwrap_err();
        assert!(matches!(error, Error::Config(_)), "{error:?}");
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn writes_carry_their_options() {
    let server = Server::always(201, &pod("a", 2)).await;
    let client = client(&server).await;
    let params = WriteParams {
        field_manager: Some("other".to_owned()),
        dry_run: true,
        field_validation: Some("Strict".to_owned()),
        subresource: None,
    };
    client.create(&pods(), Some("default"), b"{\"new\":1}", &params).await.unwrap();
    let status = WriteParams { subresource: Some("status".to_owned()), ..WriteParams::default() };
    client.update(&pods(), &key("default/a"), b"{}", &status).await.unwrap();
    let [create, update] = server.seen().try_into().unwrap();
    assert_eq!(
        (create.method.as_str(), create.path()),
        ("POST", "/api/v1/namespaces/default/pods?fieldManager=other&dryRun=All&fieldValidation=Strict")
    );
    assert_eq!(&create.body[..], b"{\"new\":1}");
    assert_eq!(create.header("content-type"), Some("application/json"));
    assert_eq!(
        (update.method.as_str(), update.path()),
        ("PUT", "/api/v1/namespaces/default/pods/a/status?fieldManager=pilothouse")
    );
    for bad in
        [client.create(&pods(), None, b"{}", &params), client.create(&pods(), Some("a"), b"{}", &status)]
    {
        assert!(matches!(bad.await.unwrap_err(), Error::Request(_)));
    }
}

#[tokio::test]
async fn each_patch_has_its_content_type() {
    let server = Server::always(200, &pod("a", 2)).await;
    let client = client(&server).await;
    for (patch, content_type, force) in [
        (Patch::Json(b"[]"), "application/json-patch+json", None),
        (Patch::Merge(b"{}"), "application/merge-patch+json", None),
        (Patch::Strategic(b"{}"), "application/strategic-merge-patch+json", None),
        (Patch::Apply { body: b"{}", force: true }, "application/apply-patch+yaml", Some("true")),
        (Patch::Apply { body: b"{}", force: false }, "application/apply-patch+yaml", Some("false")),
    ] {
        client.patch(&pods(), &key("default/a"), patch, &WriteParams::default()).await.unwrap();
        let seen = server.seen().pop().unwrap();
        assert_eq!(seen.method, Method::PATCH);
        assert_eq!(seen.header("content-type"), Some(content_type));
        assert_eq!(seen.query("force"), force);
        assert_eq!(seen.query("fieldManager"), Some("pilothouse"));
    }
}

#[tokio::test]
async fn delete_sends_its_options_and_takes_both_answers() {
    let server = Server::start(|seen| {
        if seen.path().ends_with("/a") {
            Reply::json(r#"{"kind":"Status","apiVersion":"v1","status":"Success","details":{"name":"a","kind":"pods"}}"#)
        } else {
            Reply::json(pod("b", 3))
        }
    })
    .await;
    let client = client(&server).await;
    let params = DeleteParams {
        preconditions: Preconditions { uid: Some("u".to_owned()), resource_version: Some("1".to_owned()) },
        propagation: Some(Propagation::Foreground),
        grace_period_seconds: Some(0),
        dry_run: true,
    };
    let Deleted::Status(done) = client.delete(&pods(), &key("default/a"), &params).await.unwrap() else {
        panic!()
    };
    assert_eq!(done.details.unwrap().name, "a");
    let plain = DeleteParams::default();
    let Deleted::Object(left) = client.delete(&pods(), &key("default/b"), &plain).await.unwrap() else {
        panic!()
    };
    assert_eq!(left.name(), "b");
    let [first, second] = server.seen().try_into().unwrap();
    let body = |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap();
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u", "resourceVersion": "1"},
        "propagationPolicy": "Foreground", "gracePeriodSeconds": 0, "dryRun": ["All"],
    });
    assert_eq!(body(&first.body), options);
    assert_eq!(body(&second.body), json!({"apiVersion": "v1", "kind": "DeleteOptions"}));
}

#[tokio::test]
async fn failures_become_typed_errors_that_say_what_was_done() {
    let body = failure(404, "NotFound", "pods \\\"a\\\" not found");
    let server = Server::start(move |_| Reply::new(404, body.clone())).await;
    let client = client(&server).await;
    let error = client.get(&pods(), &key("default/a"), None).await.unwrap_err();
    assert!(error.is_not_found());
    assert_eq!(error.status().unwrap().message, "pods \"a\" not found");
    let wanted = format!("GET {}/api/v1/namespaces/default/pods/a: pods \"a\" not found", server.url);
    assert_eq!(error.to_string(), wanted);
}

#[tokio::test]
async fn retry_after_comes_from_the_header_when_the_body_has_none() {
    let body = failure(429, "TooManyRequests", "slow down");
    let server = Server::start(move |_| Reply::new(429, body.clone()).header("retry-after", "7")).await;
    let client = client(&server).await.with_retry_policy(RetryPolicy::none());
    let error = client.get(&pods(), &key("default/a"), None).await.unwrap_err();
    assert!(error.is_too_many_requests());
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    assert_eq!(server.seen().len(), 1, "no hidden retry");
}

#[tokio::test]
async fn a_page_of_a_proxy_is_shortened_and_keeps_its_code() {
    let html = format!("<html><title>502 Bad Gateway</title><body>{}</body></html>", "nginx ".repeat(2000));
    let server = Server::start(move |_| Reply::new(502, html.clone()).header("retry-after", "3")).await;
    let status = status(client(&server).await.get(&pods(), &key("default/a"), None).await);
    assert_eq!(status.code, 502);
    assert!(status.message.contains("502 Bad Gateway") && status.message.len() < 320, "{}", status.message);
    assert!(!status.message.contains('<'));
    assert_eq!(status.details.unwrap().retry_after_seconds, Some(3));
}

#[tokio::test]
async fn redirects_are_refused() {
    let server =
        Server::start(|_| Reply::new(302, "").header("location", "https://login.example/?token=s3cret"))
            .await;
    let error = client(&server).await.get(&pods(), &key("default/a"), None).await.unwrap_err().to_string();
    assert!(error.contains("redirected to login.example (302)") && !error.contains("s3cret"), "{error}");
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn answers_that_are_no_objects_are_protocol_errors() {
    for body in ["", "{\"metadata\":", "<html>hello</html>", "[]", "{}"] {
        let server = Server::always(200, body).await;
        let error = client(&server).await.get(&pods(), &key("default/a"), None).await.unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }), "{body}: {error:?}");
        assert!(error.to_string().starts_with("GET http://127.0.0.1"), "{error}");
    }
}

#[tokio::test]
async fn an_answer_that_is_compressed_unasked_is_refused() {
    let server = Server::start(|_| Reply::json("x").header("content-encoding", "gzip")).await;
    let error = client(&server).await.get(&pods(), &key("default/a"), None).await.unwrap_err();
    assert!(error.to_string().contains("gzip"), "{error}");
}

#[tokio::test]
async fn an_object_over_the_limit_is_refused_announced_or_not() {
    let server = Server::start(|seen| {
        let megabyte = vec![b' '; 1 << 20];
        if seen.path().ends_with("/a") {
            return Reply::json(megabyte.repeat(17));
        }
        let (sender, reply) = Reply::pieces();
        for _ in 0..17 {
            sender.send(Ok(megabyte.clone().into())).unwrap();
        }
        reply
    })
    .await;
    let client = client(&server).await;
    for name in ["default/a", "default/b"] {
        let error = client.get(&pods(), &key(name), None).await.unwrap_err();
        assert!(error.to_string().contains("larger than 16777216 bytes"), "{error}");
    }
}

#[tokio::test]
async fn a_slow_answer_is_given_up_at_the_request_timeout() {
    let held = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&held);
    let server = Server::start(move |_| {
        let (release, reply) = Reply::json("{}").held();
        kept.lock().push(release);
        reply
    })
    .await;
    let client = client(&server).await;
    let call = tokio::spawn(async move { client.get(&pods(), &key("default/a"), None).await });
    server.until_seen(1).await;
    // From here on time runs to the next timer as soon as nothing else is to do.
    tokio::time::pause();
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Transport { timeout: true, .. }), "{error:?}");
    assert!(error.to_string().contains("no response within 30s"), "{error}");
}

#[tokio::test]
async fn a_body_that_stops_in_the_middle_is_a_transport_error() {
    let server = Server::start(|_| {
        let (sender, reply) = Reply::pieces();
        sender.send(Ok("{\"metadata\"".into())).unwrap();
        sender.send(Err(std::io::Error::other("reset"))).unwrap();
        reply
    })
    .await;
    let error = client(&server).await.get(&pods(), &key("default/a"), None).await.unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error:?}");
}

#[tokio::test]
async fn odd_endpoints_answer_whatever_their_status() {
    let server = Server::start(|seen| match seen.path() {
        "/version" => {
            Reply::json(r#"{"major":"1","minor":"36","gitVersion":"v1.36.3","platform":"linux/amd64"}"#)
        }
        _ => Reply::new(500, "[-]etcd failed"),
    })
    .await;
    let client = client(&server).await;
    assert_eq!(client.server_version().await.unwrap().git_version, "v1.36.3");
    let (code, body) = client.request_raw(Method::GET, "/readyz?verbose", None).await.unwrap();
    assert_eq!((code.as_u16(), &body[..]), (500, &b"[-]etcd failed"[..]));
    client.request_raw(Method::POST, "/x", Some(b"{}")).await.unwrap();
    assert_eq!(server.seen().pop().unwrap().header("content-type"), Some("application/json"));
}

/// Keeps what it is told.
#[derive(Default)]
struct Told(Mutex<Vec<OneRequest>>);

/// Method, code, user agent, whether a watch.
type OneRequest = (String, Option<u16>, String, bool);

impl RequestObserver for Told {
    fn request(&self, request: &ObservedRequest<'_>) {
        let told = (request.method.to_owned(), request.code, request.user_agent.to_owned(), request.watch);
        self.0.lock().push(told);
    }
}

#[tokio::test]
async fn the_observer_is_told_of_each_request_once() {
    let told = Arc::new(Told::default());
    let server = Server::start(|seen| {
        if seen.method == Method::GET { Reply::json(pod("a", 1)) } else { Reply::new(409, "") }
    })
    .await;
    let observer: Arc<dyn RequestObserver> = told.clone();
    let client = client_with(&server, |options| options.observer = Some(observer)).await;
    client.get(&pods(), &key("default/a"), None).await.unwrap();
    let plugin = client.with_identity(Identity { user_agent: "demo/1".to_owned(), ..Identity::default() });
    plugin.update(&pods(), &key("default/a"), b"{}", &WriteParams::default()).await.unwrap_err();
    drop(server);
    soon(client.get(&pods(), &key("default/a"), None)).await.unwrap_err();
    let told = told.0.lock();
    let agent = format!("pilothouse/{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        *told,
        [
            ("GET".to_owned(), Some(200), agent.clone(), false),
            ("PUT".to_owned(), Some(409), "demo/1".to_owned(), false),
            ("GET".to_owned(), None, agent, false),
        ]
    );
}
