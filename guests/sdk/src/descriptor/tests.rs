//! The JSON of descriptors against the schema of `docs/describe.md`.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::{Key, Kind};

const POD: Kind = Kind::core("v1", "Pod");
const REPLICA_SET: Kind = Kind::new("apps", "v1", "ReplicaSet");

fn json_of(descriptor: &Descriptor) -> Value {
    serde_json::from_slice(&descriptor.to_json().unwrap()).unwrap()
}

fn map_of(map: Map) -> Value {
    json_of(&Descriptor::new("a").watch(Watch::new(POD).map(map)))["watches"][0]["map"].clone()
}

#[test]
fn what_was_not_set_is_not_written() {
    assert_eq!(
        json_of(&Descriptor::new("a").watch(Watch::new(POD))),
        json!({
            "apiVersion": "pilothouse.dev/describe/v1alpha1",
            "name": "a",
            "watches": [{"group": "", "version": "v1", "kind": "Pod"}],
        })
    );
}

#[test]
fn everything_has_its_place_in_the_schema() {
    let descriptor = Descriptor::new("a")
        .watch(
            Watch::new(REPLICA_SET)
                .namespaces(["x", "y"])
                .label_selector("app=web")
                .field_selector("metadata.name=z")
                .predicate(Predicate::GenerationChanged)
                .predicate(Predicate::field_changed("/spec"))
                .map(Map::itself())
                .delivery(Delivery::Every),
        )
        .index(Index::by_path(POD, "by-node", "/spec/nodeName"))
        .index(Index::by_label(POD, "by-app", "app").only_where("/status/podIP").split(","))
        .index(Index::by_annotation(POD, "by-note", "note"))
        .index(Index::by_owner(POD, "by-owner"))
        .projection(Projection::new(POD, ["/spec/nodeName", "/status/podIP"]))
        .projection(Projection::new(REPLICA_SET, [""; 0]))
        .schedule(Schedule::every(Duration::from_secs(30), &Key::namespaced("a", "b")))
        .max_concurrent_reconciles(4)
        .rate_limiter(
            RateLimiter::new()
                .base_delay(Duration::from_millis(5))
                .max_delay(Duration::from_secs(1000))
                .bucket(10.0, 100),
        )
        .resync(Duration::from_secs(36_000))
        .permission(Permission::new("", ["pods"]).namespaces(["x"]).names(["n"]))
        .permission(Permission::new("apps", ["replicasets/status"]).verbs(["patch"]))
        .outgoing_host("localhost:9200")
        .field("tomorrow", true);
    assert_eq!(
        json_of(&descriptor),
        json!({
            "apiVersion": "pilothouse.dev/describe/v1alpha1",
            "name": "a",
            "watches": [{
                "group": "apps", "version": "v1", "kind": "ReplicaSet",
                "namespaces": ["x", "y"],
                "labelSelector": "app=web",
                "fieldSelector": "metadata.name=z",
                "predicates": [{"type": "generationChanged"}, {"type": "fieldChanged", "path": "/spec"}],
                "map": {"type": "self"},
                "delivery": "every",
            }],
            "indexes": [
                {"group": "", "version": "v1", "kind": "Pod", "name": "by-node", "path": "/spec/nodeName"},
                {"group": "", "version": "v1", "kind": "Pod", "name": "by-app", "label": "app",
                 "where": "/status/podIP", "split": ","},
                {"group": "", "version": "v1", "kind": "Pod", "name": "by-note", "annotation": "note"},
                {"group": "", "version": "v1", "kind": "Pod", "name": "by-owner", "owner": true},
            ],
            "projections": [
                {"group": "", "version": "v1", "kind": "Pod", "fields": ["/spec/nodeName", "/status/podIP"]},
                {"group": "apps", "version": "v1", "kind": "ReplicaSet", "fields": []},
            ],
            "schedules": [{"every": "30s", "key": "a/b"}],
            "maxConcurrentReconciles": 4,
            "rateLimiter": {"baseDelay": "5ms", "maxDelay": "16m40s", "qps": 10.0, "burst": 100},
            "resync": "10h",
            "permissions": [
                {"groups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"],
                 "namespaces": ["x"], "names": ["n"]},
                {"groups": ["apps"], "resources": ["replicasets/status"], "verbs": ["patch"], "namespaces": ["*"]},
            ],
            "outgoingHosts": ["localhost:9200"],
            "tomorrow": true,
        })
    );
}

#[test]
fn every_map_has_its_type() {
    assert_eq!(map_of(Map::handler()), json!({"type": "handler"}));
    assert_eq!(
        map_of(Map::owner(&REPLICA_SET)),
        json!({"type": "owner", "group": "apps", "kind": "ReplicaSet"})
    );
    assert_eq!(
        map_of(Map::controller(&REPLICA_SET)),
        json!({"type": "owner", "group": "apps", "kind": "ReplicaSet", "controllerOnly": true})
    );
    assert_eq!(map_of(Map::label("app")), json!({"type": "label", "name": "app"}));
    assert_eq!(
        map_of(Map::label_in_namespace("app")),
        json!({"type": "label", "name": "app", "sameNamespace": true})
    );
    assert_eq!(map_of(Map::field("/spec/a")), json!({"type": "field", "path": "/spec/a"}));
    assert_eq!(
        map_of(Map::field_in_namespace("/spec/a")),
        json!({"type": "field", "path": "/spec/a", "sameNamespace": true})
    );
    assert_eq!(map_of(Map::annotation("a/b")), json!({"type": "annotation", "name": "a/b"}));
    assert_eq!(
        map_of(Map::annotation_in_namespace("a/b")),
        json!({"type": "annotation", "name": "a/b", "sameNamespace": true})
    );
    assert_eq!(
        map_of(Map::all_keys(&REPLICA_SET)),
        json!({"type": "allKeys", "group": "apps", "version": "v1", "kind": "ReplicaSet"})
    );
    let several = Descriptor::new("a").watch(Watch::new(POD).map(Map::itself()).map(Map::label("app")));
    assert_eq!(
        json_of(&several)["watches"][0]["map"],
        json!([{"type": "self"}, {"type": "label", "name": "app"}])
    );
}

#[test]
fn predicates_are_combined() {
    let json = |predicate: Predicate| {
        json_of(&Descriptor::new("a").watch(Watch::new(POD).predicate(predicate)))["watches"][0]["predicates"]
            [0]
        .clone()
    };
    assert_eq!(
        json(Predicate::any([
            Predicate::all([Predicate::on_update(), !Predicate::GenerationChanged]),
            Predicate::on_add(),
            Predicate::on_delete(),
        ])),
        json!({"type": "any", "of": [
            {"type": "all", "of": [
                {"type": "on", "events": ["update"]},
                {"type": "not", "of": {"type": "generationChanged"}},
            ]},
            {"type": "on", "events": ["add"]},
            {"type": "on", "events": ["delete"]},
        ]})
    );
    assert_eq!(
        json(Predicate::field_equals("/spec/a", "x\"")),
        json!({"type": "field", "path": "/spec/a", "equals": "x\""})
    );
    assert_eq!(
        json(Predicate::field_equals("/spec/a", Value::Null)),
        json!({"type": "field", "path": "/spec/a", "equals": null})
    );
    assert_eq!(
        json(Predicate::field_exists("/spec/a")),
        json!({"type": "field", "path": "/spec/a", "exists": true})
    );
}

#[test]
fn no_bucket_is_a_rate_of_nothing() {
    let descriptor = Descriptor::new("a").rate_limiter(RateLimiter::new().no_bucket());
    assert_eq!(json_of(&descriptor)["rateLimiter"], json!({"qps": 0.0}));
}
