//! `Client::discover`: one small document per group version, fetched once and again when that could help.

use std::time::Duration;

use pilothouse_client::{ApiResource, Identity, Impersonation, PartialResource, RateLimit};
use pilothouse_object::Gvk;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::later;
use super::surface::{Aggregated, Resource, Surface, resource};
use crate::support::{Counter, Reply, Server, client, failure, status};

const CORE: &str = r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[
    {"name":"namespaces","singularName":"namespace","namespaced":false,"kind":"Namespace","verbs":["get","list"]},
    {"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get","list","watch"]},
    {"name":"pods/eviction","namespaced":true,"group":"policy","version":"v1","kind":"Eviction","verbs":["create"]},
    {"name":"pods/status","namespaced":true,"kind":"Pod","verbs":["get","patch","update"]}]}"#;

fn with_kind(kind: &str, plural: &str) -> String {
    format!(r#"{{"resources":[{{"name":"{plural}","namespaced":true,"kind":"{kind}","verbs":["get"]}}]}}"#)
}

#[tokio::test]
async fn kinds_are_found_with_their_subresources() {
    let server = Server::always(200, CORE).await;
    let client = client(&server).await;
    let pods = client.discover(&Gvk::new("", "v1", "Pod")).await.unwrap();
    assert_eq!((pods.plural.as_str(), pods.namespaced), ("pods", true));
    assert_eq!(pods.subresources, ["eviction", "status"]);
    assert_eq!(pods.verbs, ["get", "list", "watch"]);
    assert!(!client.discover(&Gvk::new("", "v1", "Namespace")).await.unwrap().namespaced);
    assert_eq!(server.only().path(), "/api/v1");
}

#[tokio::test]
async fn a_kind_that_a_known_group_version_does_not_have_waits_for_a_turn_and_a_known_kind_does_not() {
    let server = Surface::new(Aggregated::Both).start().await;
    let limited = client(&server).await.with_identity(Identity {
        user_agent: "limited/1".to_owned(),
        rate_limit: Some(RateLimit { qps: 0.01, burst: 2 }),
        ..Identity::default()
    });
    let ask = async |kind: &str| limited.discover_charged(&Gvk::new("apps", "v1", kind)).await.map(drop);
    // Both turns of the burst: nothing is known at first, and then not this kind.
    ask("Deployment").await.unwrap();
    assert!(ask("Unknown").await.unwrap_err().is_not_found());
    tokio::time::pause();
    let began = Instant::now();
    ask("Deployment").await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
    let _ = ask("Unknown").await;
    assert!(began.elapsed() > Duration::from_secs(50), "{:?}", began.elapsed());
}

#[tokio::test]
async fn many_who_ask_at_once_cause_one_request() {
    let (release, reply) = Reply::json(CORE).held();
    let reply = parking_lot::Mutex::new(Some(reply));
    let server = Server::start(move |_| reply.lock().take().unwrap()).await;
    let client = client(&server).await;
    let mut calls = JoinSet::new();
    for _ in 0..20 {
        let client = client.clone();
        calls.spawn(async move { client.discover(&Gvk::new("", "v1", "Pod")).await.unwrap() });
    }
    server.until_seen(1).await;
    release.send(()).unwrap();
    assert_eq!(calls.join_all().await.len(), 20);
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn identities_share_what_the_host_has_asked_for() {
    let server = Server::always(200, CORE).await;
    let host = client(&server).await;
    let who = Impersonation { user: "nobody".to_owned(), ..Impersonation::default() };
    let plugin = host.with_identity(Identity { impersonate: Some(who), ..Identity::default() });
    plugin.discover(&Gvk::new("", "v1", "Pod")).await.unwrap();
    host.discover(&Gvk::new("", "v1", "Namespace")).await.unwrap();
    assert_eq!(server.only().header("impersonate-user"), None);
}

#[tokio::test]
async fn a_miss_is_looked_up_again_but_not_at_once() {
    let calls = Counter::default();
    let server = Server::start(move |_| match calls.next() {
        0 => Reply::new(404, "404 page not found"),
        1 => Reply::json(with_kind("Other", "others")),
        _ => Reply::json(with_kind("Widget", "widgets")),
    })
    .await;
    let client = client(&server).await;
    let widget = Gvk::new("example.com", "v1", "Widget");
    for _ in 0..3 {
        let error = client.discover(&widget).await.unwrap_err();
        assert!(error.is_not_found());
        let text = error.to_string();
        assert!(
            text.contains("\"Widget\" in example.com/v1") && text.contains("CustomResourceDefinition"),
            "{text}"
        );
    }
    assert_eq!(server.seen().len(), 1);
    later(9).await;
    client.discover(&widget).await.unwrap_err();
    assert_eq!(server.seen().len(), 1);
    later(1).await;
    client.discover(&widget).await.unwrap_err();
    client.discover(&widget).await.unwrap_err();
    assert_eq!(server.seen().len(), 2);
    later(10).await;
    assert_eq!(client.discover(&widget).await.unwrap().plural, "widgets");
    later(599).await;
    client.discover(&widget).await.unwrap();
    assert_eq!(server.seen().len(), 3, "what is known is not asked for again");
}

#[tokio::test]
async fn what_was_made_anew_is_known_after_ten_minutes() {
    let surface = Surface::new(Aggregated::Both);
    surface.serve("sea.example", "v1", &[resource("ships", "Ship")]);
    let server = surface.start().await;
    let client = client(&server).await;
    let kind = Gvk::new("sea.example", "v1", "Ship");
    assert_eq!(client.discover(&kind).await.unwrap().plural, "ships");
    surface.serve("sea.example", "v1", &[Resource { namespaced: false, ..resource("vessels", "Ship") }]);
    later(599).await;
    assert_eq!(client.discover(&kind).await.unwrap().plural, "ships");
    assert_eq!(server.seen().len(), 1);
    later(1).await;
    let found = client.discover(&kind).await.unwrap();
    assert_eq!((found.plural.as_str(), found.namespaced), ("vessels", false));
    assert_eq!(server.seen().len(), 2);
    surface.remove("sea.example");
    later(600).await;
    assert!(client.discover(&kind).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn what_has_expired_counts_while_no_newer_one_can_be_had() {
    for form in [Aggregated::Both, Aggregated::Neither] {
        let surface = Surface::new(form);
        let server = surface.start().await;
        let client = client(&server).await;
        let mapper = client.rest_mapper();
        let kind = Gvk::new("apps", "v1", "Deployment");
        client.discover(&kind).await.unwrap();
        let scalers = PartialResource::of_group("scalers", "scaling.example");
        mapper.resource_for(&scalers).await.unwrap();
        mapper.resolve("po").await.unwrap();
        surface.away(Some(503));
        later(600).await;
        for _ in 0..2 {
            let before = server.seen().len();
            for _ in 0..3 {
                assert_eq!(client.discover(&kind).await.unwrap().plural, "deployments");
            }
            assert_eq!(server.seen().len(), before + 1, "once in ten seconds");
            for _ in 0..3 {
                assert_eq!(mapper.resolve("po").await.unwrap().plural, "pods");
            }
            let asked: Vec<String> =
                server.seen()[before + 1..].iter().map(|seen| seen.path().to_owned()).collect();
            assert!(asked.iter().all(|path| path == "/api" || path == "/apis"), "not each list: {asked:?}");
            assert_eq!(asked.len(), 2, "{asked:?}");
            mapper.resource_for(&scalers).await.unwrap();
            later(10).await;
        }
        surface.away(None);
        surface.serve("apps", "v1", &[resource("deployings", "Deployment")]);
        assert_eq!(client.discover(&kind).await.unwrap().plural, "deployings");
    }
}

#[tokio::test]
async fn a_broken_group_concerns_nobody_else_and_is_asked_again_at_once() {
    let calls = Counter::default();
    let server = Server::start(move |seen| match seen.path() {
        "/api/v1" => Reply::json(CORE),
        _ if calls.next() == 0 => Reply::new(503, failure(503, "ServiceUnavailable", "no endpoints")),
        _ => Reply::json(with_kind("NodeMetrics", "nodes")),
    })
    .await;
    let client = client(&server).await;
    let metrics = Gvk::new("metrics.k8s.io", "v1beta1", "NodeMetrics");
    assert_eq!(status(client.discover(&metrics).await).code, 503);
    client.discover(&Gvk::new("", "v1", "Pod")).await.unwrap();
    client.discover(&metrics).await.unwrap();
}

#[tokio::test]
async fn who_is_refused_is_not_refused_for_ever() {
    for code in [401, 403] {
        let surface = Surface::new(Aggregated::Both);
        surface.away(Some(code));
        let server = surface.start().await;
        let client = client(&server).await;
        let kind = Gvk::new("apps", "v1", "Deployment");
        for _ in 0..3 {
            assert_eq!(status(client.discover(&kind).await).code, code);
        }
        assert_eq!(server.seen().len(), 1);
        surface.away(None);
        later(10).await;
        client.discover(&kind).await.unwrap();
    }
}

#[tokio::test]
async fn a_document_that_is_none_is_told_so() {
    let server = Server::always(200, "<html>welcome</html>").await;
    let error = client(&server).await.discover(&Gvk::new("", "v1", "Pod")).await.unwrap_err();
    assert!(error.to_string().contains("/api/v1: unexpected response"), "{error}");
}

#[tokio::test]
async fn a_resource_is_gone_only_when_a_discovery_document_says_so() {
    const WIDGETS: &str = r#"{"kind":"APIResourceList","groupVersion":"example.dev/v1","resources":[
        {"name":"widgets","namespaced":true,"kind":"Widget","verbs":["list"]}]}"#;
    const OTHERS: &str = r#"{"kind":"APIResourceList","groupVersion":"example.dev/v1","resources":[]}"#;
    const OTHER_PLACE: &str = r#"{"kind":"APIResourceList","groupVersion":"example.dev/v2","resources":[]}"#;
    let groups = |name: &str, version: &str| {
        format!(
            r#"{{"kind":"APIGroupList","groups":[{{"name":"{name}","versions":[
                {{"groupVersion":"{name}/{version}","version":"{version}"}}]}}]}}"#
        )
    };
    let page = || Reply::new(404, "<html>no such route</html>");
    let missing = || Reply::new(404, "404 page not found");
    let list = |body: &'static str| move || Reply::json(body);
    type Answer = Box<dyn Fn() -> Reply + Send + Sync>;
    let root = |name: &str, version: &str| -> Answer {
        let body = groups(name, version);
        Box::new(move || Reply::json(body.clone()))
    };
    // What the group version answers, what `/apis` answers, and whether the resource is served; nothing when it is not known.
    let cases: Vec<(Answer, Answer, Option<bool>)> = vec![
        (Box::new(list(WIDGETS)), Box::new(page), Some(true)),
        (Box::new(list(OTHERS)), Box::new(page), Some(false)),
        (Box::new(missing), root("apps", "v1"), Some(false)),
        (Box::new(missing), root("example.dev", "v2"), Some(false)),
        (Box::new(missing), root("example.dev", "v1"), None),
        (Box::new(page), Box::new(page), None),
        (Box::new(list("{}")), Box::new(page), None),
        (Box::new(list(OTHER_PLACE)), Box::new(page), None),
        (Box::new(missing), Box::new(list(r#"{"kind":"APIGroupList","groups":[]}"#)), None),
        (Box::new(missing), Box::new(list("{}")), None),
        (Box::new(|| Reply::new(403, failure(403, "Forbidden", "no"))), root("apps", "v1"), None),
        (Box::new(|| Reply::new(503, failure(503, "ServiceUnavailable", "no"))), root("apps", "v1"), None),
    ];
    let widgets = ApiResource::new(Gvk::new("example.dev", "v1", "Widget"), "widgets", true);
    for (number, (version, root, expected)) in cases.into_iter().enumerate() {
        let server = Server::start(move |seen| if seen.path() == "/apis" { root() } else { version() }).await;
        let answer = client(&server).await.discovery().is_served(&widgets).await;
        assert_eq!(answer.as_ref().ok().copied(), expected, "case {number}: {answer:?}");
    }
    // The core group is never gone as a whole.
    let server =
        Server::start(
            move |seen| if seen.path() == "/apis" { Reply::json(groups("apps", "v1")) } else { missing() },
        )
        .await;
    let pods = ApiResource::new(Gvk::new("", "v1", "Pod"), "pods", true);
    assert!(client(&server).await.discovery().is_served(&pods).await.unwrap_err().is_not_found());
}
