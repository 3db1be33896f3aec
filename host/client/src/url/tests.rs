//! No name can change where a request goes.

use pilothouse_object::Gvk;
use proptest::prelude::*;

use super::*;

fn pods() -> ApiResource {
    resource("", "v1", "pods", true)
}

fn resource(group: &str, version: &str, plural: &str, namespaced: bool) -> ApiResource {
    let gvk = Gvk::new(group, version, "Kind");
    ApiResource::new(gvk, plural, namespaced)
}

fn key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(Some(namespace), name).unwrap()
}

/// Decodes a segment as a server does.
fn decoded(segment: &str) -> Vec<u8> {
    let bytes = segment.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%' {
            out.push(u8::from_str_radix(&segment[at + 1..at + 3], 16).unwrap());
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    out
}

#[test]
fn paths_are_those_of_the_api() {
    let path = |target: Result<Target>| target.unwrap().as_str().to_owned();
    assert_eq!(path(Target::collection(&pods(), None)), "/api/v1/pods");
    assert_eq!(path(Target::collection(&pods(), Some(""))), "/api/v1/pods");
    assert_eq!(
        path(Target::object(&pods(), &key("a", "b"), Some("status"))),
        "/api/v1/namespaces/a/pods/b/status"
    );
    let roles = resource("rbac.authorization.k8s.io", "v1", "clusterroles", false);
    let name = ObjectKey::new(None, "system:node").unwrap();
    assert_eq!(
        path(Target::object(&roles, &name, None)),
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode"
    );
    assert_eq!(path(Target::group_version("", "v1")), "/api/v1");
}

#[test]
fn scope_and_key_must_agree() {
    let nodes = resource("", "v1", "nodes", false);
    assert!(Target::collection(&nodes, Some("a")).unwrap_err().to_string().contains("not in namespaces"));
    assert!(Target::object(&nodes, &key("a", "b"), None).is_err());
    let bare = ObjectKey::new(None, "b").unwrap();
    assert!(Target::object(&pods(), &bare, None).unwrap_err().to_string().contains("needs a namespace"));
}

#[test]
fn names_that_proxies_would_resolve_are_refused() {
    for name in [".", ".."] {
        assert!(Target::object(&pods(), &key("a", name), None).is_err());
        assert!(Target::object(&pods(), &key(name, "a"), None).is_err());
        assert!(Target::object(&pods(), &key("a", "b"), Some(name)).is_err());
        assert!(Target::collection(&resource(name, "v1", "pods", true), None).is_err());
        assert!(Target::collection(&resource("", name, "pods", true), None).is_err());
        assert!(Target::collection(&resource("", "v1", name, true), None).is_err());
    }
    assert!(Target::object(&pods(), &key("a", "b"), Some("log/../..")).is_err());
    assert!(Target::collection(&pods(), Some("a/b")).is_err());
    assert_eq!(
        Target::object(&pods(), &key("a", "%2e"), None).unwrap().path(),
        "/api/v1/namespaces/a/pods/%252e"
    );
    assert_eq!(
        Target::object(&pods(), &key("a", "?x#"), None).unwrap().path(),
        "/api/v1/namespaces/a/pods/%3Fx%23"
    );
}

#[test]
fn raw_paths_begin_at_the_root_and_stay_there() {
    assert_eq!(Target::raw("/readyz?verbose").unwrap().path(), "/readyz");
    for bad in [
        "",
        "readyz",
        "//evil/readyz",
        "http://evil/",
        "/api/../x",
        "/a/%2E%2e/b",
        "/a/..%2Fb",
        "/a%5c..",
        "/a b",
        "/a\r\nX: y",
    ] {
        assert!(Target::raw(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn parameters_become_a_query() {
    let mut target = Target::collection(&pods(), None).unwrap();
    target.list(&ListParams {
        label_selector: "a=b,c in (d, e)".to_owned(),
        resource_version: Some("0".to_owned()),
        resource_version_match: Some(ResourceVersionMatch::NotOlderThan),
        limit: 500,
        continue_token: Some("x&y=".to_owned()),
        ..ListParams::default()
    });
    assert_eq!(
        target.as_str(),
        "/api/v1/pods?labelSelector=a%3Db%2Cc%20in%20%28d%2C%20e%29&resourceVersion=0\
         &resourceVersionMatch=NotOlderThan&limit=500&continue=x%26y%3D"
    );
    assert_eq!(target.path(), "/api/v1/pods");
}

proptest! {
    #[test]
    fn a_name_stays_in_its_segment(namespace in "[^/]{1,12}", name in "[^/]{1,12}", subresource in "[^/]{1,12}") {
        let built = Target::object(&pods(), &key(&namespace, &name), Some(&subresource));
        let dots = |s: &str| s == "." || s == "..";
        if dots(&namespace) || dots(&name) || dots(&subresource) {
            prop_assert!(built.is_err());
        } else {
            let built = built.unwrap();
            let uri: http::Uri = format!("https://host{}", built.as_str()).parse().unwrap();
            prop_assert_eq!(uri.host(), Some("host"));
            prop_assert_eq!(uri.query(), None);
            let segments: Vec<_> = uri.path().split('/').map(decoded).collect();
            let wanted = ["", "api", "v1", "namespaces", &namespace, "pods", &name, &subresource];
            prop_assert_eq!(segments, wanted.map(|s| s.as_bytes().to_vec()));
        }
    }

    #[test]
    fn a_value_stays_in_its_pair(value in ".{0,20}") {
        let mut target = Target::collection(&pods(), None).unwrap();
        target.query("labelSelector", &value);
        target.query("limit", "1");
        let uri: http::Uri = target.as_str().parse().unwrap();
        let pairs: Vec<_> = uri.query().unwrap().split('&').collect();
        prop_assert_eq!(pairs.len(), 2);
        prop_assert_eq!(decoded(pairs[0].strip_prefix("labelSelector=").unwrap()), value.as_bytes());
    }
}
