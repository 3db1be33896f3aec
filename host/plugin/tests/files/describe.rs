//! [`Description`]: what is read, and that each refusal names place, reason and remedy.

use std::time::Duration;

use pilothouse_object::Gvk;
use pilothouse_plugin::{
    Batch, Bucket, Delivery, DescribeError, Description, DescriptorLimits, EventKinds, IndexSource, KeyMap,
    Predicate, RateLimiter, World,
};
use serde_json::{Value, json};

fn parse(mut value: Value, world: World) -> Result<Description, DescribeError> {
    let fields = value.as_object_mut().unwrap();
    fields.entry("apiVersion").or_insert("pilothouse.dev/describe/v1alpha1".into());
    fields.entry("name").or_insert("a".into());
    Description::parse(value.to_string().as_bytes(), world, &DescriptorLimits::default())
}

/// Refused in the world `controller`, which takes the most; the text.
#[track_caller]
fn refused(value: Value, parts: &[&str]) {
    let text = parse(value.clone(), World::Controller).expect_err(&value.to_string()).to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing from: {text}");
    }
    assert!(text.contains(": ") && text.contains("; "), "no place or no remedy: {text}");
}

fn watch(more: Value) -> Value {
    let mut watch = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
    watch.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    watch
}

#[test]
fn reads_every_field() {
    let description = parse(
        json!({
            "name": "everything",
            "watches": [
                {
                    "group": "apps", "version": "v1", "kind": "Deployment", "namespaces": ["b", "a", "b"],
                    "labelSelector": "app=web,tier!=test", "fieldSelector": "metadata.name!=x",
                    "predicates": [
                        {"type": "generationChanged"}, {"type": "resourceVersionChanged"}, {"type": "labelsChanged"},
                        {"type": "annotationsChanged"}, {"type": "fieldChanged", "path": "/spec"},
                    ],
                    "map": {"type": "owner", "group": "x.io", "kind": "App", "controllerOnly": true}, "delivery": "every",
                },
                {"group": "", "version": "v1", "kind": "Pod", "map": {"type": "field", "path": "/spec/nodeName"}},
                {"version": "v1", "kind": "Node", "namespaces": ["*"], "map": {"type": "label", "name": "app", "sameNamespace": true}},
                {"version": "v1", "kind": "Secret", "map": {"type": "handler"}, "namespaces": []},
            ],
            "indexes": [
                {"group": "", "version": "v1", "kind": "Pod", "name": "n", "path": "/spec/nodeName", "where": "/status", "split": ","},
                {"group": "apps", "version": "v1", "kind": "Deployment", "name": "n", "label": "app"},
                {"version": "v1", "kind": "Pod", "name": "o", "owner": true},
            ],
            "schedules": [{"every": "30s", "key": "ns/name"}, {"every": "1h30m", "key": "name"}],
            "maxConcurrentReconciles": 1024,
            "rateLimiter": {"baseDelay": "10ms", "maxDelay": "1m", "qps": 2.5, "burst": 7},
            "resync": "10h",
            "permissions": [{"groups": [""], "resources": ["pods"], "verbs": ["get"], "namespaces": ["a"], "names": ["b"]}],
            "outgoingHosts": ["Search.example.com:9200", "*.example.com"],
            "projections": [
                {"version": "v1", "kind": "Pod", "fields": ["/spec/nodeName", "/status/conditions/[*]/type"]},
                {"version": "v1", "kind": "Node", "fields": []},
            ],
        }),
        World::Controller,
    )
    .unwrap();
    assert_eq!(description.name, "everything");
    let hosts: Vec<String> = description.outgoing_hosts.iter().map(ToString::to_string).collect();
    assert_eq!(hosts, ["search.example.com:9200", "*.example.com"]);
    let [deployments, pods, nodes, secrets] = &description.watches[..] else { panic!() };
    assert_eq!(deployments.kind, Gvk::new("apps", "v1", "Deployment"));
    assert_eq!(deployments.namespaces, Some(vec!["a".into(), "b".into()]));
    assert_eq!(deployments.label_selector.to_string(), "app=web,tier!=test");
    assert_eq!(deployments.field_selector.to_string(), "metadata.name!=x");
    assert_eq!(
        deployments.predicates,
        [
            Predicate::GenerationChanged,
            Predicate::ResourceVersionChanged,
            Predicate::LabelsChanged,
            Predicate::AnnotationsChanged,
            Predicate::FieldChanged("/spec".parse().unwrap()),
        ]
    );
    assert_eq!(
        deployments.maps,
        [KeyMap::Owner { group: "x.io".into(), kind: "App".into(), controller_only: true }]
    );
    assert_eq!(deployments.delivery, Delivery::Every);
    assert_eq!(pods.maps, [KeyMap::Field { path: "/spec/nodeName".parse().unwrap(), same_namespace: false }]);
    assert_eq!((pods.delivery, &pods.namespaces), (Delivery::Latest, &None));
    assert_eq!(nodes.maps, [KeyMap::Label { name: "app".into(), same_namespace: true }]);
    assert_eq!(nodes.namespaces, None);
    assert_eq!((&secrets.maps[..], &secrets.namespaces), (&[KeyMap::Handler][..], &None));
    assert_eq!(description.indexes[0].source, IndexSource::Path("/spec/nodeName".parse().unwrap()));
    assert_eq!(description.indexes[0].only_where, Some("/status".parse().unwrap()));
    assert_eq!(description.indexes[0].split.as_deref(), Some(","));
    assert_eq!(description.indexes[1].source, IndexSource::Label("app".into()));
    assert_eq!(description.indexes[2].source, IndexSource::Owner);
    assert_eq!(description.projections.len(), 2);
    assert_eq!(description.projections[0].kind, Gvk::new("", "v1", "Pod"));
    assert_eq!(description.projections[0].fields[1], "/status/conditions/[*]/type".parse().unwrap());
    assert_eq!(description.projections[1].fields, []);
    assert_eq!(description.schedules[1].every, Duration::from_secs(5400));
    assert_eq!(description.schedules[0].key.namespace(), Some("ns"));
    assert_eq!(description.max_concurrent_reconciles, 1024);
    assert_eq!(
        description.rate_limiter,
        RateLimiter {
            base_delay: Duration::from_millis(10),
            max_delay: Duration::from_secs(60),
            bucket: Some(Bucket { qps: 2.5, burst: 7 }),
        }
    );
    assert_eq!(description.resync, Some(Duration::from_secs(36_000)));
    assert_eq!(description.permissions[0].names, ["b"]);
}

#[test]
fn what_is_absent_has_its_default() {
    let description = parse(json!({"watches": [watch(json!({}))]}), World::Reconciler).unwrap();
    assert_eq!(description.watches[0].maps, [KeyMap::Itself]);
    assert_eq!(description.max_concurrent_reconciles, 1);
    assert_eq!(description.rate_limiter, RateLimiter::default());
    assert_eq!(description.rate_limiter.bucket, Some(Bucket { qps: 10.0, burst: 100 }));
    assert_eq!((description.resync, description.schedules.len()), (None, 0));
    let handlers = parse(json!({"watches": [watch(json!({}))]}), World::EventHandler).unwrap();
    assert_eq!(handlers.watches[0].maps, [KeyMap::Handler]);
    let both = parse(json!({"watches": [watch(json!({}))]}), World::Controller).unwrap();
    assert_eq!(both.watches[0].maps, [KeyMap::Itself]);
}

#[test]
fn zero_means_off_where_the_sdk_writes_it() {
    let description = parse(json!({"rateLimiter": {"qps": 0.0}, "resync": "0s"}), World::Reconciler).unwrap();
    assert_eq!((description.rate_limiter.bucket, description.resync), (None, None));
}

#[test]
fn other_schemas_are_told_apart_first() {
    refused(
        json!({"apiVersion": "pilothouse.dev/describe/v9", "new": 1}),
        &[
            "apiVersion",
            "describe/v9",
            "build the guest with an SDK that writes pilothouse.dev/describe/v1alpha1",
        ],
    );
    for text in ["", "[]", "null", "{}", "{\"apiVersion\":1}", "\u{1}"] {
        let error = Description::parse(text.as_bytes(), World::Reconciler, &DescriptorLimits::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains("the description") && error.contains("docs/describe.md"), "{error}");
    }
}

#[test]
fn unknown_fields_are_refused_by_name_and_place() {
    refused(
        json!({"wathces": []}),
        &["the description", "unknown field `wathces`", "`watches`", "docs/describe.md"],
    );
    refused(
        json!({"watches": [watch(json!({})), watch(json!({"selector": "a=b"}))]}),
        &["watches[1] (apps/v1/Deployment)", "unknown field `selector`", "`labelSelector`"],
    );
    for predicate in ["generationChanged", "resourceVersionChanged", "labelsChanged", "annotationsChanged"] {
        refused(
            json!({"watches": [watch(json!({"predicates": [{"type": predicate, "path": "/a"}]}))]}),
            &["watches[0]", "unknown field `path`"],
        );
    }
    for map in [
        json!({"type": "self", "x": 1}),
        json!({"type": "owner", "kind": "A", "x": 1}),
        json!({"type": "label", "name": "A", "x": 1}),
        json!({"type": "field", "path": "/a", "x": 1}),
        json!({"type": "handler", "x": 1}),
    ] {
        refused(json!({"watches": [watch(json!({"map": map}))]}), &["watches[0]", "unknown field `x`"]);
    }
    refused(
        json!({"watches": [watch(json!({"map": {"type": "cel"}}))]}),
        &["watches[0]", "unknown variant `cel`"],
    );
    refused(
        json!({"indexes": [watch(json!({"name": "a", "x": 1}))]}),
        &["indexes[0] (apps/v1/Deployment)", "`x`"],
    );
    refused(json!({"schedules": [{"every": "1s", "key": "a", "x": 1}]}), &["schedules[0]", "`x`"]);
    refused(json!({"rateLimiter": {"x": 1}}), &["rateLimiter", "`x`"]);
    refused(json!({"permissions": [{"apiGroups": []}]}), &["permissions[0]", "`apiGroups`"]);
}

#[test]
fn errors_within_a_list_do_not_give_a_misleading_position() {
    let text = parse(json!({"watches": [{"kind": 1}]}), World::Reconciler).unwrap_err().to_string();
    assert!(text.contains("watches[0]: ") && !text.contains(" line "), "{text}");
}

#[test]
fn a_watch_may_have_several_maps_and_predicates_within_each_other() {
    let description = json!({
        "watches": [
            watch(json!({
                "map": [{"type": "self"}, {"type": "annotation", "name": "a/b", "sameNamespace": true}],
                "predicates": [{"type": "any", "of": [
                    {"type": "generationChanged"},
                    {"type": "not", "of": {"type": "on", "events": ["update", "delete"]}},
                    {"type": "field", "path": "/spec/paused", "equals": null},
                    {"type": "field", "path": "/spec/replicas", "exists": false},
                ]}],
            })),
            {"version": "v1", "kind": "ConfigMap",
             "map": {"type": "allKeys", "group": "apps", "version": "v1", "kind": "Deployment"}},
        ],
        "indexes": [watch(json!({"name": "i", "annotation": "a/b"}))],
        "projections": [watch(json!({"fields": []}))],
    });
    let description = parse(description, World::Reconciler).unwrap();
    let [deployments, settings] = &description.watches[..] else { panic!("{description:?}") };
    let annotation = KeyMap::Annotation { name: "a/b".into(), same_namespace: true };
    assert_eq!(deployments.maps, [KeyMap::Itself, annotation]);
    let pointer = |path: &str| path.parse().unwrap();
    let kinds = EventKinds { adds: false, updates: true, deletes: true };
    let of = vec![
        Predicate::GenerationChanged,
        Predicate::Not(Box::new(Predicate::On(kinds))),
        Predicate::FieldEquals(pointer("/spec/paused"), Value::Null),
        Predicate::FieldExists(pointer("/spec/replicas"), false),
    ];
    assert_eq!(deployments.predicates, [Predicate::Any(of)]);
    assert_eq!(settings.maps, [KeyMap::AllKeys(deployments.kind.clone())]);
    assert_eq!(description.indexes[0].source, IndexSource::Annotation("a/b".into()));
    // The cache keeps what they look at.
    let kept = description.kept_fields(&deployments.kind).unwrap();
    assert_eq!(kept, [pointer("/spec/paused"), pointer("/spec/replicas")]);
}

#[test]
fn watches_of_handlers_have_names_of_their_own() {
    let named = |watches: Value| parse(json!({"watches": watches}), World::Controller);
    let handled = |more: Value| {
        let mut watch = watch(json!({"map": {"type": "handler"}}));
        watch.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        watch
    };
    let by_label = |label: &str| json!({"labelSelector": label});
    let error = named(json!([handled(by_label("a=1")), handled(by_label("a=2"))])).unwrap_err().to_string();
    assert!(
        error.contains("watches[1] (apps/v1/Deployment).name: \"Deployment\" is the name of watches[0]"),
        "{error}"
    );
    assert!(named(json!([handled(by_label("a=1")), handled(json!({"name": "other"}))])).is_ok());
    // Keys have no names.
    assert!(named(json!([watch(by_label("a=1")), watch(by_label("a=2")), handled(json!({}))])).is_ok());
    // A name makes no watch another.
    let twice = json!([handled(json!({})), handled(json!({"name": "other"}))]);
    refused(json!({"watches": twice}), &["watches[1]", "identical to watches[0]"]);
}

#[test]
fn handler_is_the_only_map_of_its_watch() {
    let watches = json!([watch(json!({"map": [{"type": "self"}, {"type": "handler"}]}))]);
    refused(json!({"watches": watches}), &[".map: handler is one of several maps", "a second time"]);
}

#[test]
fn values_that_mean_nothing_are_refused_with_a_remedy() {
    let watched = |more: Value| json!({"watches": [watch(more)]});
    let indexed = |more: Value| json!({"watches": [watch(json!({}))], "indexes": [watch(more)]});
    for (value, parts) in [
        (
            watched(json!({"labelSelector": "a in ("})),
            ["watches[0] (apps/v1/Deployment).labelSelector", "app=web"],
        ),
        (
            watched(json!({"fieldSelector": "a"})),
            ["watches[0] (apps/v1/Deployment).fieldSelector", "spec.nodeName=n1"],
        ),
        (
            watched(json!({"map": {"type": "field", "path": "spec"}})),
            [".map", "write one like /spec/nodeName"],
        ),
        (watched(json!({"map": {"type": "label", "name": ""}})), [".map.name", "give it a value"]),
        (watched(json!({"map": [{"type": "annotation", "name": ""}]})), [".map[0].name", "give it a value"]),
        (watched(json!({"map": []})), [".map: there are 0 maps", "write 1 to 8"]),
        (watched(json!({"map": vec![json!({"type": "self"}); 9]})), [".map: there are 9 maps", "1 to 8"]),
        (
            watched(json!({"map": {"type": "allKeys", "version": "v1", "kind": "Foo"}})),
            [".map: no watch of v1/Foo maps to its own keys", "watch that kind with the map self"],
        ),
        (watched(json!({"map": {"type": "allKeys", "version": "", "kind": "Foo"}})), [".map.version", "v1"]),
        (watched(json!({"map": {"type": "owner", "kind": ""}})), [".map.kind", "give it a value"]),
        (
            watched(json!({"predicates": [{"type": "fieldChanged", "path": "x"}]})),
            [".predicates[0]", "/spec/nodeName"],
        ),
        (watched(json!({"namespaces": ["", "a"]})), [".namespaces", "leave it out"]),
        (watched(json!({"kind": ""})), ["watches[0]", "name group, version and kind apart"]),
        (watched(json!({"version": "apps/v1"})), [".version", "name group, version and kind apart"]),
        (
            indexed(json!({"name": "a"})),
            ["indexes[0] (apps/v1/Deployment)", "set one of path, label, annotation and owner"],
        ),
        (
            indexed(json!({"name": "a", "owner": false})),
            ["indexes[0]", "set one of path, label, annotation and owner"],
        ),
        (indexed(json!({"name": "a", "owner": true, "label": "b"})), ["more than one", "one index for each"]),
        (indexed(json!({"name": "a", "path": "b"})), ["indexes[0]", "/spec/nodeName"]),
        (
            indexed(json!({"name": "", "path": "/b"})),
            ["indexes[0] (apps/v1/Deployment).name", "give it a value"],
        ),
        (indexed(json!({"name": "a", "path": "/b", "split": ""})), [".split", "name the separator"]),
        (indexed(json!({"name": "a", "path": "/b", "where": "c"})), [".where", "/spec/nodeName"]),
        (indexed(json!({"kind": "Pod", "name": "a", "path": "/b"})), ["not watched", "watch it as well"]),
        (json!({"schedules": [{"every": "99ms", "key": "a"}]}), ["schedules[0].every", "use 100ms or more"]),
        (json!({"schedules": [{"every": "soon", "key": "a"}]}), ["schedules[0].every", "1m30s"]),
        (json!({"schedules": [{"every": "1s", "key": "a/b/c"}]}), ["schedules[0].key", "namespace/name"]),
        (json!({"maxConcurrentReconciles": 0}), ["maxConcurrentReconciles", "from 1 to 1024"]),
        (json!({"maxConcurrentReconciles": 1025}), ["maxConcurrentReconciles", "from 1 to 1024"]),
        (json!({"rateLimiter": {"baseDelay": "0s"}}), ["rateLimiter.baseDelay", "1ms or more"]),
        (json!({"rateLimiter": {"baseDelay": "1m", "maxDelay": "1s"}}), ["rateLimiter.maxDelay", "raise it"]),
        (json!({"rateLimiter": {"qps": -1}}), ["rateLimiter.qps", "0 for no bucket"]),
        (json!({"rateLimiter": {"burst": 0}}), ["rateLimiter.burst", "1 or more"]),
        (json!({"resync": "1ms"}), ["resync", "10s or more, or lower limits.shortestResync"]),
        (
            json!({"permissions": [{"groups": [""], "resources": ["pods"], "verbs": ["see"]}]}),
            ["permissions[0].verbs", "\"see\""],
        ),
    ] {
        refused(value, &parts);
    }
}

#[test]
fn names_of_indexes_are_unique_for_a_kind() {
    let index = |kind: &str| json!({"version": "v1", "kind": kind, "name": "a", "owner": true});
    let watches = json!([{"version": "v1", "kind": "Pod"}, {"version": "v1", "kind": "Node"}]);
    let of = |kinds: [&str; 2]| json!({"watches": watches, "indexes": kinds.map(index)});
    assert!(parse(of(["Pod", "Node"]), World::Reconciler).is_ok());
    refused(of(["Pod", "Pod"]), &["indexes[1] (v1/Pod)", "another index \"a\"", "its own name"]);
}

#[test]
fn maps_and_schedules_fit_the_world() {
    let mapped = |map: Value, world| {
        parse(json!({"watches": [watch(json!({"map": map}))]}), world).map_err(|e| e.to_string())
    };
    let handler = json!({"type": "handler"});
    assert!(mapped(handler.clone(), World::Controller).is_ok());
    assert!(mapped(handler.clone(), World::EventHandler).is_ok());
    let error = mapped(handler, World::Reconciler).unwrap_err();
    assert!(
        error.contains("watches[0] (apps/v1/Deployment).map") && error.contains("exports no handler"),
        "{error}"
    );
    for map in [
        json!({"type": "self"}),
        json!({"type": "owner", "kind": "A"}),
        json!({"type": "label", "name": "A"}),
        json!({"type": "field", "path": "/a"}),
    ] {
        assert!(mapped(map.clone(), World::Controller).is_ok());
        assert!(mapped(map.clone(), World::Reconciler).is_ok());
        let error = mapped(map, World::EventHandler).unwrap_err();
        assert!(error.contains(".map") && error.contains("exports no reconcile"), "{error}");
    }
    let schedule = json!({"schedules": [{"every": "1s", "key": "a"}]});
    assert!(parse(schedule.clone(), World::Reconciler).is_ok());
    let error = parse(schedule, World::EventHandler).unwrap_err().to_string();
    assert!(error.contains("schedules: the guest exports no reconcile"), "{error}");
}

#[test]
fn a_host_that_is_asked_for_is_written_as_in_the_manifest() {
    refused(
        json!({"outgoingHosts": ["a:1", "https://b"]}),
        &["outgoingHosts[1]", "it has a scheme", "host:port"],
    );
    refused(json!({"outgoingHosts": [1]}), &["outgoingHosts[0]"]);
}

#[test]
fn a_projection_names_fields_of_a_watched_kind_once() {
    let of =
        |kind: &str, fields: Value| json!({"group": "apps", "version": "v1", "kind": kind, "fields": fields});
    let document = |projections: Value| json!({"watches": [watch(json!({}))], "projections": projections});
    let at = "projections[0] (apps/v1/Deployment)";
    for (projections, parts) in [
        (json!(["/spec"]), &["projections[0]"][..]),
        (json!([of("Deployment", json!(["spec"]))]), &[at, "fields", "write one like"]),
        (json!([of("Deployment", json!([""]))]), &[at, "the whole object", "leave the projection out"]),
        (json!([of("Deployment", json!(vec!["/spec"; 257]))]), &[at, "257", "256 at most"]),
        (json!([of("Pod", json!([]))]), &["projections[0] (apps/v1/Pod)", "not watched", "watch it"]),
        (
            json!([of("Deployment", json!([])), of("Deployment", json!(["/spec"]))]),
            &["projections[1] (apps/v1/Deployment)", "another projection", "in one"],
        ),
        (json!([{"version": "v1", "kind": "Pod"}]), &["projections[0] (v1/Pod)", "missing field `fields`"]),
        (json!([{"version": "v1", "kind": "Pod", "fields": [], "x": 1}]), &["unknown field `x`"]),
    ] {
        refused(document(projections), parts);
    }
}

#[test]
fn what_the_descriptor_itself_looks_at_is_kept_with_a_projection() {
    let watches = json!([
        watch(json!({
            "fieldSelector": "spec.paused=true,metadata.name!=x",
            "predicates": [{"type": "fieldChanged", "path": "/spec/replicas"}],
            "map": {"type": "field", "path": "/spec/owner"},
        })),
        {"version": "v1", "kind": "Pod"},
    ]);
    let indexes = json!([
        {"group": "apps", "version": "v1", "kind": "Deployment", "name": "a", "path": "/spec/a~1b", "where": "/status"},
        {"version": "v1", "kind": "Pod", "name": "a", "path": "/spec/nodeName"},
    ]);
    let projections =
        json!([{"group": "apps", "version": "v1", "kind": "Deployment", "fields": ["/spec/template"]}]);
    let document = json!({"watches": watches, "indexes": indexes, "projections": projections});
    let description = parse(document, World::Controller).unwrap();
    let kept = description.kept_fields(&Gvk::new("apps", "v1", "Deployment")).unwrap();
    let wanted = [
        "/spec/template",
        "/spec/replicas",
        "/spec/owner",
        "/spec/paused",
        "/metadata/name",
        "/spec/a~1b",
        "/status",
    ];
    assert_eq!(kept, wanted.map(|path| path.parse().unwrap()));
    assert_eq!(description.kept_fields(&Gvk::new("", "v1", "Pod")), None, "whole");
}

#[test]
fn a_projection_keeps_the_path_that_a_field_selector_reads_in_place_of_the_name_on_the_server() {
    let job = json!({"group": "batch", "version": "v1", "kind": "Job"});
    let with = |name: &str, value: Value| {
        let mut job = job.clone();
        job[name] = value;
        json!([job])
    };
    let document = json!({
        "watches": with("fieldSelector", json!("status.successful=1")),
        "projections": with("fields", json!(["/spec/parallelism"])),
    });
    let description = parse(document, World::Controller).unwrap();
    let kept = description.kept_fields(&Gvk::new("batch", "v1", "Job")).unwrap();
    assert_eq!(kept, ["/spec/parallelism", "/status/succeeded"].map(|path| path.parse().unwrap()));
}

#[test]
fn no_answer_of_a_guest_makes_it_panic() {
    proptest::proptest!(|(bytes: Vec<u8>)| {
        let _ = Description::parse(&bytes, World::Controller, &DescriptorLimits::default());
    });
}

#[test]
fn only_guests_that_take_many_keys_say_how_many() {
    let batch = |fields: Value| parse(fields, World::BatchReconciler);
    assert_eq!(batch(json!({})).unwrap().batch, Batch::default());
    let (max, linger) = (500, Duration::from_millis(1500));
    assert_eq!(batch(json!({"maxBatch": 500, "linger": "1.5s"})).unwrap().batch, Batch { max, linger });
    assert!(batch(json!({"maxBatch": 10_000, "linger": "60s"})).is_ok());
    for (fields, part) in [
        (json!({"maxBatch": 0}), "maxBatch: 0 is out of bounds"),
        (json!({"maxBatch": 10_001}), "maxBatch: 10001 is out of bounds"),
        (json!({"linger": "61s"}), "linger: \"61s\" is too long"),
        (json!({"linger": "soon"}), "linger: "),
        (json!({"watches": [watch(json!({"map": {"type": "handler"}}))]}), "the guest exports no handler"),
    ] {
        let text = batch(fields).unwrap_err().to_string();
        assert!(text.contains(part), "{text}");
    }
    for fields in [json!({"maxBatch": 5}), json!({"linger": "1s"})] {
        refused(fields, &["the guest takes one key at a time", "batch-reconciler"]);
    }
    let schedule = json!({"schedules": [{"every": "1s", "key": "a"}]});
    assert!(batch(schedule).is_ok());
}

/// A guest chooses these numbers; each is refused with its limit before any work that grows faster than the text.
#[test]
fn what_is_beyond_a_limit_is_refused_by_the_name_of_the_limit() {
    let list = |count: usize, entry: Value| Value::Array(vec![entry; count]);
    let words = |count: usize| (0..count).map(|n| format!("a{n}")).collect::<Vec<_>>();
    let watches = |more: Value| json!({"watches": [watch(more)]});
    let terms = |count: usize| words(count).join(",");
    let rule = |groups: usize, resources: usize| json!({"permissions": [{"groups": words(groups), "resources": words(resources), "verbs": ["get"]}]});
    let schedule = json!({"every": "1s", "key": "a"});
    let generation = json!({"type": "generationChanged"});
    for (value, at, limit, most) in [
        (json!({"watches": list(65, json!({}))}), "watches", "watches", "65, and 64"),
        (json!({"indexes": list(65, json!({}))}), "indexes", "indexes", "65, and 64"),
        (json!({"projections": list(65, json!({}))}), "projections", "watches", "65, and 64"),
        (json!({"schedules": list(65, schedule)}), "schedules", "schedules", "65, and 64"),
        (json!({"permissions": list(101, json!({}))}), "permissions", "permissions", "101, and 100"),
        (json!({"outgoingHosts": list(101, json!("a"))}), "outgoingHosts", "outgoingHosts", "101, and 100"),
        (rule(101, 100), "permissions[0]", "ruleCombinations", "10100, and 10000"),
        (rule(1000, 1000), "permissions[0]", "ruleCombinations", "1000000, and 10000"),
        (watches(json!({"namespaces": words(65)})), ".namespaces", "watchNamespaces", "65, and 64"),
        (watches(json!({"predicates": list(17, generation)})), ".predicates", "predicates", "17, and 16"),
        (watches(json!({"labelSelector": terms(65)})), ".labelSelector", "selectorTerms", "65, and 64"),
        (
            watches(json!({"labelSelector": format!("a in ({})", terms(65))})),
            ".labelSelector",
            "selectorTerms",
            "65, and 64",
        ),
        (watches(json!({"fieldSelector": terms(65)})), ".fieldSelector", "selectorTerms", "65, and 64"),
    ] {
        refused(value, &[at, most, "split the plugin", &format!("raise limits.{limit} in the manifest")]);
    }
    // As many as are allowed are taken.
    assert!(parse(rule(100, 100), World::Reconciler).is_ok());
    assert!(parse(watches(json!({"labelSelector": terms(64)})), World::Reconciler).is_ok());
    refused(
        json!({"name": "a".repeat(256 << 10)}),
        &["the description", "262144 are allowed", "descriptorBytes"],
    );
}

/// Each watch has its listener; the second would do the same work again.
#[test]
fn an_identical_watch_is_refused() {
    let pod = json!({"version": "v1", "kind": "Pod", "namespaces": ["b", "a"]});
    let same = json!({"version": "v1", "kind": "Pod", "namespaces": ["a", "b", "a"]});
    let other = json!({"version": "v1", "kind": "Pod", "namespaces": ["a"]});
    refused(
        json!({"watches": [pod, other, same]}),
        &["watches[2] (v1/Pod)", "identical to watches[0]", "leave one"],
    );
    assert!(parse(json!({"watches": [pod, other]}), World::Reconciler).is_ok());
}

#[test]
fn a_limit_of_the_manifest_is_the_one_that_counts() {
    let text = json!({
        "apiVersion": "pilothouse.dev/describe/v1alpha1", "name": "a", "resync": "2s",
        "watches": [{"version": "v1", "kind": "Pod"}, {"version": "v1", "kind": "Node"}],
    })
    .to_string();
    let limits = DescriptorLimits {
        watches: 2,
        shortest_resync: Duration::from_secs(2),
        ..DescriptorLimits::default()
    };
    assert!(Description::parse(text.as_bytes(), World::Reconciler, &limits).is_ok());
    let fewer = DescriptorLimits { watches: 1, ..limits };
    assert!(Description::parse(text.as_bytes(), World::Reconciler, &fewer).is_err());
}
