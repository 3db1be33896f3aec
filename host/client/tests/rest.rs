//! Requests put together part by part: what is sent, and what answers become.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use parking_lot::Mutex;
use pilothouse_client::{Error, PatchKind, Result};
use serde_json::{Value, json};

use crate::support::{Reply, Server, client, client_with, soon, status};

#[tokio::test]
async fn parts_become_paths_whatever_their_order() {
    let server = Server::always(200, "{}").await;
    let client = client(&server).await;
    let (core, apps) = (client.rest("", "v1"), client.rest("apps", "v1"));
    let requests = [
        (core.get(), "/api/v1"),
        (apps.get(), "/apis/apps/v1"),
        (core.get().resource("nodes").name("a"), "/api/v1/nodes/a"),
        (
            apps.get().name("web").resource("deployments").namespace("x"),
            "/apis/apps/v1/namespaces/x/deployments/web",
        ),
        (core.get().resource("pods").namespace(""), "/api/v1/pods"),
        (
            core.post().subresource(["eviction"]).name("p").resource("pods").namespace("x"),
            "/api/v1/namespaces/x/pods/p/eviction",
        ),
        (
            core.get()
                .resource("services")
                .namespace("x")
                .name("https:web:443")
                .subresource(["proxy", "a b"]),
            "/api/v1/namespaces/x/services/https%3Aweb%3A443/proxy/a%20b",
        ),
        (core.get().absolute_path("/readyz").resource("pods"), "/readyz"),
    ];
    for (request, path) in requests {
        request.send().await.unwrap();
        assert_eq!(server.seen().last().unwrap().path(), path);
    }
}

#[tokio::test]
async fn a_part_that_cannot_be_sent_is_named_and_nothing_goes_out() {
    let server = Server::always(200, "{}").await;
    let client = client(&server).await;
    let core = client.rest("", "v1");
    let in_x = || core.get().namespace("x");
    let requests = [
        (in_x().resource("pods").name("../../secrets"), "name \"../../secrets\""),
        (in_x().resource("pods").name(".."), "name \"..\""),
        (in_x().resource("pods").name(""), "the name of the object is empty"),
        (in_x().resource("pods/log"), "resource \"pods/log\""),
        (core.get().namespace("a/b").resource("pods"), "namespace \"a/b\""),
        (in_x().resource("pods").name("a").subresource(["log", ""]), "subresource \"\""),
        (in_x(), "of which resource?"),
        (in_x().resource("pods").subresource(["log"]), "of which object?"),
        (core.get().absolute_path("readyz"), "it must begin with one \"/\""),
        (core.get().absolute_path("/api/../version"), "\"..\" are not allowed"),
        (core.get().header("a b", "c"), "header \"a b\""),
        (core.get().header("a", "b\r\nc: d"), "header \"a\""),
        (core.delete().absolute_path("/api/v1/namespaces/x#y"), "\"#\""),
        (core.get().header("Content-Length", "1"), "for the transport to say"),
        (core.get().header("Authorization", "Bearer x"), "use Client::with_identity"),
        (core.get().header("impersonate-user", "root"), "use Client::with_identity"),
        (core.post().json(&std::collections::BTreeMap::from([((1, 2), 3)])), "cannot be written as JSON"),
        // The first fault counts.
        (core.get().header("a b", "c").namespace("a/b").resource("pods"), "header \"a b\""),
    ];
    for (request, words) in requests {
        let error = request.send().await.unwrap_err();
        assert!(matches!(&error, Error::Request(message) if message.contains(words)), "{words}: {error:?}");
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn options_become_parameters_and_headers() {
    let server = Server::always(201, "{\"a\":1}").await;
    let request = client(&server).await.rest("apps", "v1").patch(PatchKind::Apply);
    let answer = request
        .namespace("x")
        .resource("deployments")
        .name("web")
        .param("dryRun", "All")
        .param("fieldManager", "me & you")
        .param("fieldValidation", "Strict")
        .param("a&b", "c=d")
        .param("a&b", "e")
        .timeout(Duration::from_millis(1500))
        .header("x-trace", "7")
        .accept("application/yaml")
        .json(&json!({"spec": {}}))
        .send()
        .await
        .unwrap();
    assert_eq!((answer.status(), answer.json::<Value>().unwrap()), (StatusCode::CREATED, json!({"a": 1})));
    let seen = server.only();
    assert_eq!(seen.method, Method::PATCH);
    let query =
        "dryRun=All&fieldManager=me%20%26%20you&fieldValidation=Strict&a%26b=c%3Dd&a%26b=e&timeout=1s";
    assert_eq!(seen.uri.query(), Some(query));
    assert_eq!(seen.header("content-type"), Some("application/apply-patch+yaml"));
    assert_eq!((seen.header("x-trace"), seen.header("accept")), (Some("7"), Some("application/yaml")));
    assert_eq!(&seen.body[..], b"{\"spec\":{}}");
}

#[tokio::test]
async fn an_error_is_typed_with_its_causes_unless_any_answer_is_asked_for() {
    let body = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"Invalid","code":422,
        "details":{"name":"a","kind":"pods","causes":[{"reason":"FieldValueInvalid","message":"bad","field":"spec.x"}],
        "retryAfterSeconds":3}}"#;
    let server = Server::always(422, body).await;
    let pods = client(&server).await.rest("", "v1").post();
    let found = status(pods.resource("pods").namespace("x").json(&json!({})).send().await);
    assert_eq!((found.code, found.reason.as_str()), (422, "Invalid"));
    let details = found.details.unwrap();
    assert_eq!((details.causes[0].field.as_str(), details.retry_after_seconds), ("spec.x", Some(3)));

    let any = client(&server).await.rest("", "v1").get().absolute_path("/readyz").send_any().await.unwrap();
    assert_eq!(any.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert!(any.body().starts_with(b"{\"kind\":\"Status\""));
    assert!(any.json::<Vec<u8>>().unwrap_err().to_string().contains("GET http://"));
}

#[tokio::test]
async fn warnings_are_on_the_answer() {
    let server = Server::start(|_| {
        Reply::json("{}")
            .header("warning", r#"299 - "policy/v1beta1 is deprecated", 299 - "unknown field \"spec.x\"""#)
    })
    .await;
    let answer = client(&server).await.rest("", "v1").get().send().await.unwrap();
    let texts: Vec<_> = answer.warnings().into_iter().map(|warning| warning.text).collect();
    assert_eq!(texts, ["policy/v1beta1 is deprecated", "unknown field \"spec.x\""]);
}

#[tokio::test]
async fn a_requests_own_time_limit_counts_instead_of_the_clients() {
    let held = Arc::new(Mutex::new(Vec::new()));
    let holds = Arc::clone(&held);
    let server = Server::start(move |seen| match seen.uri.path() {
        "/slow" => {
            let (release, reply) = Reply::json("{}").held();
            holds.lock().push(release);
            reply
        }
        _ => Reply::json("{}"),
    })
    .await;
    let client = client_with(&server, |options| options.request_timeout = Duration::from_secs(3600)).await;
    let root = client.rest("", "v1");
    let slow = root.get().absolute_path("/slow").timeout(Duration::from_millis(20)).send();
    let error = soon(slow).await.unwrap_err();
    assert!(matches!(error, Error::Transport { timeout: true, .. }), "{error:?}");
    soon(root.get().timeout(Duration::ZERO).send()).await.unwrap();
    assert_eq!(server.seen().last().unwrap().uri.query(), None);
}

#[tokio::test]
async fn an_answer_above_the_limit_is_refused() {
    let server = Server::always(200, &"x".repeat(5000)).await;
    let root = client(&server).await.rest("", "v1");
    assert_eq!(root.get().send().await.unwrap().body().len(), 5000);
    let message = root.get().limit(4999).send().await.unwrap_err().to_string();
    assert!(message.contains("larger than 4999 bytes"), "{message}");
}

#[tokio::test]
async fn a_stream_gives_pieces_as_they_come_and_then_its_end_or_its_error() -> Result<()> {
    let (pieces, reply) = Reply::pieces();
    let reply = Mutex::new(Some(reply));
    let server = Server::start(move |_| reply.lock().take().unwrap_or_else(|| Reply::new(404, "gone"))).await;
    let pods = client(&server).await.rest("", "v1");
    let log =
        || pods.get().namespace("x").resource("pods").name("p").subresource(["log"]).param("follow", "true");
    let mut stream = log().stream().await?;
    assert_eq!(server.only().header("accept-encoding"), Some("identity"));
    for line in ["one\n", "two\n"] {
        pieces.send(Ok(line.into())).unwrap();
        assert_eq!(soon(stream.next()).await.unwrap()?, line);
    }
    drop(pieces);
    assert!(soon(stream.next()).await.is_none());
    assert!(soon(stream.next()).await.is_none());
    assert_eq!(status(log().stream().await).code, 404);
    Ok(())
}

#[tokio::test]
async fn a_stream_that_breaks_says_so_once() {
    let (pieces, reply) = Reply::pieces();
    let reply = Mutex::new(Some(reply));
    let server = Server::start(move |_| reply.lock().take().unwrap()).await;
    let request = client(&server).await.rest("", "v1").get().absolute_path("/logs");
    let mut stream = request.stream().await.unwrap();
    pieces.send(Err(std::io::Error::other("broken"))).unwrap();
    let error = soon(stream.next()).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error:?}");
    assert!(soon(stream.next()).await.is_none());
}

#[tokio::test]
async fn what_may_be_secret_is_in_no_debug_print_and_no_error() {
    let server = Server::always(200, r#"{"kind":"Secret","data":{"password":"c2VjcmV0"}}"#).await;
    let root = client(&server).await.rest("", "v1");
    let request = || {
        let request =
            root.post().absolute_path("/api/v1/secrets?token=c2VjcmV0").header("x-token", "c2VjcmV0");
        request.json(&json!({"data": "c2VjcmV0"}))
    };
    let answer = request().send().await.unwrap();
    let (as_numbers, as_text) =
        (answer.json::<std::collections::BTreeMap<String, u8>>(), answer.json::<String>());
    let errors = [as_numbers.unwrap_err(), as_text.unwrap_err()];
    let prints =
        [format!("{:?}", request()), format!("{answer:?}"), format!("{errors:?}"), errors[0].to_string()];
    for print in prints {
        assert!(!print.contains("c2VjcmV0") && !print.contains("Secret"), "{print}");
    }
}
