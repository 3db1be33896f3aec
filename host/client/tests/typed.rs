//! Typed, dynamic and metadata clients: what they send, and what becomes of answers. That servers understand it is shown
//! in the workspace's `tests/clients.rs`.

use http::Method;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pilothouse_client::{
    Api, DeleteParams, Error, ListParams, Patch, Preconditions, Resource, WatchEvent, WatchParams,
    WriteParams,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::support::{Reply, Server, client, event, key, page, pod, pods, soon, status};

/// A kind of a user's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ship {
    api_version: String,
    kind: String,
    metadata: ObjectMeta,
    mass: u32,
}

impl Resource for Ship {
    const GROUP: &'static str = "sea.example";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Ship";
    const PLURAL: &'static str = "ships";
    const NAMESPACED: bool = true;

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[test]
fn code_over_any_kind_reads_and_changes_metadata() {
    fn label<K: Resource>(object: &mut K) -> String {
        object.meta_mut().labels.get_or_insert_default().insert("a".to_owned(), "b".to_owned());
        format!("{} {}", K::KIND, object.meta().name.as_deref().unwrap_or_default())
    }
    let metadata = ObjectMeta { name: Some("x".to_owned()), ..ObjectMeta::default() };
    let mut pod = Pod { metadata: metadata.clone(), ..Pod::default() };
    let mut ship = Ship { api_version: String::new(), kind: String::new(), metadata, mass: 1 };
    assert_eq!((label(&mut pod), label(&mut ship)), ("Pod x".to_owned(), "Ship x".to_owned()));
    assert!(pod.metadata.labels.is_some() && ship.metadata.labels.is_some());
}

#[test]
fn types_of_k8s_openapi_know_where_they_are() {
    let pods = Pod::api_resource();
    assert_eq!(
        (pods.gvk.api_version().as_str(), pods.plural.as_str(), pods.namespaced),
        ("v1", "pods", true)
    );
    let reviews = k8s_openapi::api::authorization::v1::SelfSubjectAccessReview::api_resource();
    assert_eq!(reviews.gvk.api_version(), "authorization.k8s.io/v1");
    assert_eq!((reviews.plural.as_str(), reviews.namespaced), ("selfsubjectaccessreviews", false));
}

#[tokio::test]
async fn each_verb_sends_its_method_path_and_body() {
    let server =
        Server::always(200, r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#).await;
    let client = client(&server).await;
    let maps: Api<ConfigMap> = Api::namespaced(&client, "x");
    let map: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).unwrap();
    let (write, delete) = (WriteParams::default(), DeleteParams::default());
    let body =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    let (all, a) = ("/api/v1/namespaces/x/configmaps", "/api/v1/namespaces/x/configmaps/a");

    let expect = |method: Method, path: &str, body: Option<&Value>| {
        let seen = server.seen().pop().unwrap();
        assert_eq!((seen.method.clone(), seen.uri.path()), (method, path));
        let sent = (!seen.body.is_empty()).then(|| serde_json::from_slice::<Value>(&seen.body).unwrap());
        assert_eq!(sent.as_ref(), body);
        seen
    };
    assert_eq!(maps.get("a").await.unwrap().metadata.name.as_deref(), Some("a"));
    expect(Method::GET, a, None);
    maps.create(&map, &write).await.unwrap();
    assert_eq!(expect(Method::POST, all, Some(&body)).query("fieldManager"), Some("pilothouse"));
    maps.update("a", &map, &write).await.unwrap();
    expect(Method::PUT, a, Some(&body));
    maps.update_status("a", &map, &write).await.unwrap();
    expect(Method::PUT, &format!("{a}/status"), Some(&body));
    let patch = json!({"data": {"k": "w"}});
    maps.patch("a", Patch::Merge(patch.to_string().as_bytes()), &write).await.unwrap();
    let seen = expect(Method::PATCH, a, Some(&patch));
    assert_eq!(seen.header("content-type"), Some("application/merge-patch+json"));
    maps.apply("a", &body, true, &write).await.unwrap();
    let seen = expect(Method::PATCH, a, Some(&body));
    assert_eq!(
        (seen.header("content-type"), seen.query("force")),
        (Some("application/apply-patch+yaml"), Some("true"))
    );
    maps.delete("a", &delete).await.unwrap();
    expect(Method::DELETE, a, Some(&json!({"apiVersion": "v1", "kind": "DeleteOptions"})));
    let of = ListParams { label_selector: "a=b".to_owned(), ..ListParams::default() };
    let uid = Preconditions { uid: Some("u".to_owned()), resource_version: None };
    maps.delete_collection(&DeleteParams { preconditions: uid, ..delete }, &of).await.unwrap();
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u"}});
    assert_eq!(expect(Method::DELETE, all, Some(&options)).query("labelSelector"), Some("a%3Db"));
    let _: Value = maps.get_subresource("a", "status").await.unwrap();
    expect(Method::GET, &format!("{a}/status"), None);
}

#[tokio::test]
async fn what_is_on_an_object_is_created_there() {
    let server = Server::always(201, r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","metadata":{},"spec":{"audiences":[]},"status":{"token":"t","expirationTimestamp":"2026-01-01T00:00:00Z"}}"#).await;
    let client = client(&server).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(&client, "x");
    let request = json!({"spec": {"audiences": ["api"]}});
    let made: TokenRequest =
        accounts.create_subresource("a", "token", &request, &WriteParams::default()).await.unwrap();
    assert_eq!(made.status.unwrap().token.as_deref(), Some("t"));
    let seen = server.only();
    assert_eq!(
        (seen.method.as_str(), seen.uri.path()),
        ("POST", "/api/v1/namespaces/x/serviceaccounts/a/token")
    );
    assert!(std::str::from_utf8(&seen.body).unwrap().contains("\"audiences\":[\"api\"]"));
}

#[tokio::test]
async fn an_eviction_names_the_pod_and_carries_delete_options() {
    let server = Server::always(429, &crate::support::failure(429, "TooManyRequests", "budget")).await;
    let client = client(&server).await;
    let params = DeleteParams { grace_period_seconds: Some(5), ..DeleteParams::default() };
    let error = client.evict(&key("x/p"), &params).await.unwrap_err();
    assert!(error.is_too_many_requests());
    let seen = server.only();
    assert_eq!((seen.method.as_str(), seen.uri.path()), ("POST", "/api/v1/namespaces/x/pods/p/eviction"));
    let body: Value = serde_json::from_slice(&seen.body).unwrap();
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 5});
    let meta = json!({"name": "p", "namespace": "x"});
    assert_eq!(
        body,
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta, "deleteOptions": options})
    );
}

#[tokio::test]
async fn a_list_of_many_pages_is_one_typed_list() {
    let server = Server::start(|seen| {
        Reply::json(match seen.query("continue") {
            None => page(7, "next", &[pod("a", 1), pod("b", 2)]),
            Some(_) => page(7, "", &[pod("c", 3)]),
        })
    })
    .await;
    let client = client(&server).await;
    let pods: Api<Pod> = Api::all(&client);
    let list = pods.list_all(&ListParams { limit: 2, ..ListParams::default() }).await.unwrap();
    let names: Vec<_> = list.items.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect();
    assert_eq!((names, list.meta.resource_version.as_str()), (vec!["a", "b", "c"], "7"));
    assert_eq!(server.seen()[0].uri.path(), "/api/v1/pods");

    let first = pods.list(&ListParams { limit: 2, ..ListParams::default() }).await.unwrap();
    assert_eq!((first.items.len(), first.meta.continue_token.as_str()), (2, "next"));
}

#[tokio::test]
async fn an_object_that_is_not_of_the_type_is_named() {
    let bad = r#"{"metadata":{"namespace":"x","name":"bad"},"spec":7}"#.to_owned();
    let list = page(1, "", &[pod("a", 1), bad.clone()]);
    let server = Server::start(move |seen| match seen.uri.path() {
        "/api/v1/pods" => Reply::json(list.clone()),
        _ => Reply::json(bad.clone()),
    })
    .await;
    let client = client(&server).await;
    let api: Api<Pod> = Api::all(&client);
    let errors = [
        api.list_all(&ListParams::default()).await.map(drop).unwrap_err(),
        api.list(&ListParams::default()).await.map(drop).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(&error, Error::Protocol { doing, .. } if doing.contains("x/bad")), "{error:?}");
    }
    let error = Api::<Pod>::namespaced(&client, "x").get("bad").await.unwrap_err();
    assert!(
        matches!(&error, Error::Protocol { doing, .. } if doing.ends_with("/namespaces/x/pods/bad")),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_typed_watch_goes_on_after_an_object_that_is_not_of_the_type() {
    let bad = r#"{"metadata":{"namespace":"x","name":"bad"},"spec":7}"#;
    let lines =
        [event("ADDED", &pod("a", 1)), event("MODIFIED", bad), event("DELETED", &pod("b", 3))].concat();
    let server = Server::always(200, &lines).await;
    let client = client(&server).await;
    let mut events = Api::<Pod>::all(&client).watch(&WatchParams::default()).await.unwrap();
    let first = soon(events.next()).await.unwrap().unwrap();
    assert!(matches!(first, WatchEvent::Added(pod) if pod.metadata.name.as_deref() == Some("a")));
    let error = soon(events.next()).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("x/bad"), "{error}");
    let last = soon(events.next()).await.unwrap().unwrap();
    assert!(matches!(last, WatchEvent::Deleted(pod) if pod.metadata.name.as_deref() == Some("b")));
    assert!(soon(events.next()).await.is_none());
}

#[tokio::test]
async fn a_kind_of_the_users_own_is_reached_by_what_it_says() {
    let ship = json!({"apiVersion": "sea.example/v1", "kind": "Ship", "metadata": {"name": "a"}, "mass": 7});
    let server = Server::always(200, &ship.to_string()).await;
    let client = client(&server).await;
    let ships: Api<Ship> = Api::namespaced(&client, "x");
    let got = ships.get("a").await.unwrap();
    assert_eq!(got.mass, 7);
    assert_eq!(ships.update("a", &got, &WriteParams::default()).await.unwrap(), got);
    let seen = server.seen().pop().unwrap();
    assert_eq!(seen.uri.path(), "/apis/sea.example/v1/namespaces/x/ships/a");
    assert_eq!(serde_json::from_slice::<Value>(&seen.body).unwrap(), ship);
}

#[tokio::test]
async fn what_is_not_there_is_none_and_other_errors_are_errors() {
    let server = Server::start(|seen| match seen.uri.path() {
        "/api/v1/nodes/gone" => Reply::new(404, crate::support::failure(404, "NotFound", "no")),
        _ => Reply::new(403, crate::support::failure(403, "Forbidden", "no")),
    })
    .await;
    let client = client(&server).await;
    let nodes: Api<Node> = Api::all(&client);
    assert!(nodes.get_opt("gone").await.unwrap().is_none());
    assert_eq!(status(nodes.get_opt("hidden").await).code, 403);
}

#[tokio::test]
async fn a_namespace_that_is_missing_or_too_much_is_told_before_anything_is_sent() {
    let server = Server::always(200, "{}").await;
    let client = client(&server).await;
    let (pods_everywhere, nodes_in_x) = (Api::<Pod>::all(&client), Api::<Node>::namespaced(&client, "x"));
    let pod = Pod::default();
    let all = (DeleteParams::default(), ListParams::default());
    let errors = [
        pods_everywhere.get("a").await.map(drop).unwrap_err(),
        pods_everywhere.create(&pod, &WriteParams::default()).await.map(drop).unwrap_err(),
        pods_everywhere.delete_collection(&all.0, &all.1).await.unwrap_err(),
        nodes_in_x.get("a").await.map(drop).unwrap_err(),
        pods_everywhere.get("").await.map(drop).unwrap_err(),
        client.dynamic().resource(&pods()).get("a", None).await.map(drop).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::Request(_)), "{error:?}");
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn the_metadata_client_asks_for_metadata_alone() {
    let partial = r#"{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":{"namespace":"x","name":"a"}}"#;
    let server = Server::always(200, partial).await;
    let client = client(&server).await;
    let metadata = client.metadata().resource(&pods()).namespace("x");
    assert_eq!(metadata.get("a", None).await.unwrap().name(), "a");
    metadata.patch("a", Patch::Merge(b"{}"), &WriteParams::default()).await.unwrap();
    for seen in server.seen() {
        assert!(seen.header("accept").unwrap().starts_with("application/json;as=PartialObjectMetadata;"));
    }
}
