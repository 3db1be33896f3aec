//! What the server is asked for, in which form, and what is made of answers that are good, old, partial or none.

use pilothouse_client::{Error, GroupVersion, ServerResources};

use super::surface::{Aggregated, Surface, paths};
use crate::support::{Reply, Server, client, status};

fn names(all: &ServerResources) -> Vec<String> {
    all.iter().map(|r| format!("{} {}", r.gvk.api_version(), r.plural)).collect()
}

fn failed(all: &ServerResources) -> Vec<String> {
    all.failed.iter().map(|failed| failed.group_version.to_string()).collect()
}

const ALL: [&str; 9] = [
    "v1 pods",
    "v1 namespaces",
    "v1 events",
    "apps/v1 deployments",
    "events.k8s.io/v1 events",
    "scaling.example/v2 scalers",
    "scaling.example/v1 scalers",
    "scaling.example/v1 oldscalers",
    "metrics.example/v1beta1 pods",
];

#[tokio::test]
async fn two_requests_tell_everything() {
    let server = Surface::new(Aggregated::Both).start().await;
    let all = client(&server).await.discovery().groups_and_resources().await.unwrap();
    assert_eq!(names(&all), ALL);
    assert!(all.failed.is_empty());
    assert_eq!(paths(&server), ["/api", "/apis"]);
    let accept = server.seen()[0].header("accept").unwrap().to_owned();
    let v2 = accept.find("g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList").unwrap();
    let beta = accept.find("g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList").unwrap();
    assert!(v2 < beta && accept.ends_with(",application/json"), "{accept}");
    let deployments = all.iter().find(|r| r.plural == "deployments").unwrap();
    assert_eq!(deployments.short_names, ["deploy"]);
    assert_eq!(deployments.categories, ["all"]);
    assert_eq!(
        (deployments.singular.as_str(), deployments.subresources.as_slice()),
        ("deployment", ["scale".to_owned()].as_slice())
    );
    assert!(!all.iter().find(|r| r.plural == "namespaces").unwrap().namespaced);
}

#[tokio::test]
async fn a_server_of_any_form_tells_the_same() {
    let server = Surface::new(Aggregated::Both).start().await;
    let expected = client(&server).await.discovery().groups_and_resources().await.unwrap();
    for (form, requests) in [(Aggregated::Core, 7), (Aggregated::Named, 3), (Aggregated::Neither, 8)] {
        let server = Surface::new(form).start().await;
        let discovery = client(&server).await.discovery();
        let all = discovery.groups_and_resources().await.unwrap();
        assert_eq!(all.resources, expected.resources);
        assert_eq!(all.groups, expected.groups);
        assert_eq!(discovery.groups().await.unwrap(), expected.groups);
        assert_eq!(server.seen().len(), requests + 2);
    }
    let old = client(&server).await.discovery().legacy();
    assert_eq!(old.groups_and_resources().await.unwrap().resources, expected.resources);
    assert!(server.seen()[2..].iter().all(|seen| seen.header("accept") == Some("application/json")));
}

#[tokio::test]
async fn one_group_and_one_version_can_be_asked_for() {
    let server = Surface::new(Aggregated::Both).start().await;
    let discovery = client(&server).await.discovery();
    let groups = discovery.groups().await.unwrap();
    let group = groups.iter().find(|group| group.name == "scaling.example").unwrap();
    assert_eq!(
        (group.versions.as_slice(), group.preferred_version()),
        (["v2".to_owned(), "v1".to_owned()].as_slice(), Some("v2"))
    );
    assert_eq!(discovery.resources("scaling.example", "v1").await.unwrap().len(), 2);
    assert!(discovery.resources("nothing.example", "v1").await.unwrap_err().is_not_found());
    assert!(discovery.resources("", "v2").await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn each_resource_is_preferred_in_one_version() {
    let server = Surface::new(Aggregated::Neither).start().await;
    let discovery = client(&server).await.discovery();
    let preferred = discovery.groups_and_resources().await.unwrap().preferred();
    let expected: Vec<&str> = ALL.into_iter().filter(|name| *name != "scaling.example/v1 scalers").collect();
    assert_eq!(names(&preferred), expected);
    let namespaced = names(&preferred.namespaced());
    let expected: Vec<&str> = expected.into_iter().filter(|name| *name != "v1 namespaces").collect();
    assert_eq!(namespaced, expected);
}

#[tokio::test]
async fn the_preferred_version_is_the_one_that_the_group_names() {
    let server = Server::start(|seen| match seen.path() {
        "/api" => Reply::new(404, "404 page not found"),
        _ => Reply::json(
            r#"{"kind":"APIGroupList","groups":[{"name":"apps","versions":[{"version":"v1beta1"},{"version":"v1"}],
                "preferredVersion":{"version":"v1"}}]}"#,
        ),
    })
    .await;
    let groups = client(&server).await.discovery().groups().await.unwrap();
    assert_eq!(groups[0].versions, ["v1", "v1beta1"]);
}

#[tokio::test]
async fn a_group_that_is_down_is_named_and_the_others_are_there() {
    for form in [Aggregated::Both, Aggregated::Neither] {
        let surface = Surface::new(form);
        surface.down("metrics.example", true);
        let server = surface.start().await;
        let all = client(&server).await.discovery().groups_and_resources().await.unwrap();
        assert_eq!(names(&all), ALL[..8]);
        assert_eq!(failed(&all), ["metrics.example/v1beta1"]);
        let error = &all.failed[0].error;
        assert_eq!(error.status().unwrap().code, 503);
        if form == Aggregated::Both {
            assert!(error.to_string().contains("APIService v1beta1.metrics.example"), "{error}");
            assert_eq!(paths(&server), ["/api", "/apis"], "what was just told is not asked");
        }
    }
}

#[tokio::test]
async fn half_a_document_of_a_group_concerns_that_group() {
    let surface = Surface::new(Aggregated::Neither);
    let server = Server::start(move |seen| match seen.path() {
        "/apis/apps/v1" => Reply::json(r#"{"kind":"APIResourceList","resources":[{"name":"deplo"#),
        "/apis/events.k8s.io/v1" => Reply::new(200, "<html><title>Welcome</title> to the proxy</html>"),
        _ => surface.reply(seen),
    })
    .await;
    let all = client(&server).await.discovery().groups_and_resources().await.unwrap();
    assert_eq!(failed(&all), ["apps/v1", "events.k8s.io/v1"]);
    assert_eq!(all.iter().count(), 7);
    let texts: Vec<String> = all.failed.iter().map(|failed| failed.error.to_string()).collect();
    assert!(texts[0].contains("/apis/apps/v1: unexpected response: no discovery document"), "{texts:?}");
    assert!(texts[1].contains("Welcome to the proxy") && !texts[1].contains('<'), "{texts:?}");
}

#[tokio::test]
async fn a_server_that_is_none_is_told_so() {
    for (body, text) in [
        ("<html>welcome</html>", "welcome"),
        (r#"{"kind":"APIGroupList","groups":[{"na"#, "it ends too soon"),
        (r#"{"kind":"Status","status":"Success"}"#, "\"Status\" is no list of groups"),
        ("{}", "missing field `kind`"),
        ("[]", "no discovery document"),
    ] {
        let server = Server::always(200, body).await;
        let error = client(&server).await.discovery().groups_and_resources().await.unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }), "{error:?}");
        assert!(error.to_string().contains("/api") && error.to_string().contains(text), "{error}");
    }
}

#[tokio::test]
async fn a_server_without_a_core_group_is_one() {
    let surface = Surface::new(Aggregated::Both);
    let of = surface.clone();
    let server = Server::start(move |seen| match seen.path() {
        "/api" => Reply::new(404, "404 page not found"),
        _ => of.reply(seen),
    })
    .await;
    let all = client(&server).await.discovery().groups_and_resources().await.unwrap();
    assert_eq!(names(&all), ALL[3..]);
    let server = Server::start(move |seen| match seen.path() {
        "/apis" => Reply::new(404, "404 page not found"),
        _ => surface.reply(seen),
    })
    .await;
    assert_eq!(status(client(&server).await.discovery().groups().await).code, 404);
}

#[tokio::test]
async fn what_go_writes_as_null_is_empty_and_beta_documents_are_read() {
    let server = Server::start(|seen| {
        Reply::new(200, match seen.path() {
            "/api" => r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2beta1","items":null}"#,
            _ => {
                r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2beta1","metadata":{},"items":[
                {"metadata":{"name":"a.example","creationTimestamp":null},"versions":[
                    {"version":"v1","resources":null,"freshness":"Current"},
                    {"version":"v2","freshness":"Current","resources":[
                        {"resource":"parents","scope":"Cluster","responseKind":null,"verbs":null,
                         "subresources":[{"subresource":"child","responseKind":{"kind":"Child"},"verbs":["get"]}]},
                        {"resource":"things","scope":"Cluster","responseKind":{"group":"","version":"","kind":"Thing"},
                         "verbs":null,"shortNames":null,"categories":null,"subresources":null}]}]}]}"#
            }
        })
    })
    .await;
    let all = client(&server).await.discovery().groups_and_resources().await.unwrap();
    assert_eq!(names(&all), ["a.example/v2 things"]);
    assert_eq!(all.resources[0].group_version, GroupVersion::new("a.example", "v1"));
    assert_eq!(all.iter().next().unwrap().singular, "thing", "guessed, where the server does not say");
}
