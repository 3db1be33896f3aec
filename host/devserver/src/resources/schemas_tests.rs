//! What the schemas of resources do to objects that are written and read.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use super::*;
use crate::resources::Registry;

fn map(value: Value) -> JsonMap {
    let Value::Object(map) = value else { panic!("an object") };
    map
}

/// A definition of `cs.a.b` with these versions.
fn definition(versions: Value) -> Value {
    json!({"metadata": {"name": "cs.a.b"}, "spec": {
        "group": "a.b", "scope": "Namespaced",
        "names": {"plural": "cs", "singular": "c", "kind": "C", "listKind": "CList"}, "versions": versions,
    }})
}

fn version(name: &str, storage: bool, spec: Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
}

fn registry(definitions: &[Value]) -> Registry {
    let registry = Registry::new();
    define(&registry, definitions);
    registry
}

fn define(registry: &Registry, definitions: &[Value]) {
    static REVISION: AtomicU64 = AtomicU64::new(1);
    let list = definitions.iter().map(|d| {
        let name = d["metadata"]["name"].as_str().unwrap().to_owned();
        (name, REVISION.fetch_add(1, Ordering::Relaxed), d)
    });
    registry.define(|| list.collect(), |d| Some(Definition::read(d).unwrap()));
}

fn served(registry: &Registry, version: &str) -> Arc<Resource> {
    registry.now().get("a.b", version, "cs").unwrap().clone()
}

fn of_size(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn review(object: Value, old: Option<Value>) -> Vec<String> {
    let registry = Registry::new();
    let definitions =
        registry.now().get("apiextensions.k8s.io", "v1", "customresourcedefinitions").unwrap().clone();
    let review = definitions.review(&mut map(object), old.map(map).as_ref(), WrittenPart::Object);
    let causes = review.causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message));
    causes.chain(review.warnings).collect()
}

#[test]
fn unknown_metadata_of_every_kind_is_dropped_and_named() {
    let registry = registry(&[definition(json!([version("v1", true, of_size(json!({})))]))]);
    let core = registry.now().get("", "v1", "configmaps").unwrap().clone();
    for (resource, head) in [(core, ("v1", "ConfigMap")), (served(&registry, "v1"), ("a.b/v1", "C"))] {
        let mut object =
            map(json!({"apiVersion": head.0, "kind": head.1, "metadata": {"name": "a", "nmae": "b"}}));
        assert_eq!(resource.admit(&mut object).unwrap(), ["metadata.nmae"], "{head:?}");
        assert_eq!(object["metadata"], json!({"name": "a"}));
    }
}

#[test]
fn resources_in_fields_are_pruned_and_checked() {
    let spec = json!({"type": "object", "properties": {"template": {
        "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
    }}});
    let registry = registry(&[definition(json!([version("v1", true, spec)]))]);
    let resource = served(&registry, "v1");
    let object = |template: Value| map(json!({"metadata": {"name": "a"}, "spec": {"template": template}}));
    let mut pruned =
        object(json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "b", "nmae": "c"}, "any": 1}));
    assert_eq!(resource.admit(&mut pruned).unwrap(), ["spec.template.metadata.nmae"]);
    for (template, expected) in [
        (json!({"apiVersion": "v1", "kind": "K", "metadata": {"labels": {"a": "b"}}}), vec![]),
        (json!({}), vec!["spec.template.apiVersion", "spec.template.kind"]),
        (
            json!({"apiVersion": "a/b/c", "kind": "k k"}),
            vec!["spec.template.apiVersion", "spec.template.kind"],
        ),
        (
            json!({"apiVersion": "v1", "kind": "K", "metadata": {"labels": {"a b": "c"}}}),
            vec!["spec.template.metadata.labels"],
        ),
        (json!({"apiVersion": "v1", "kind": "K", "metadata": {"labels": 1}}), vec!["spec.template.metadata"]),
    ] {
        let review = resource.review(&mut object(template.clone()), None, WrittenPart::Object);
        let fields: Vec<&str> = review.causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(fields, expected, "{template}");
    }
}

#[test]
fn an_old_object_is_compared_as_it_is_read() {
    let before = definition(json!([version("v1", true, of_size(json!({"a": {"type": "string"}})))]));
    let registry = registry(&[before]);
    let with_default =
        of_size(json!({"a": {"type": "string"}, "b": {"type": "string", "default": "x", "maxLength": 0}}));
    define(&registry, &[definition(json!([version("v1", true, with_default)]))]);
    let resource = served(&registry, "v1");
    let stored = map(json!({"metadata": {"name": "o"}, "spec": {"a": "1"}}));
    let read = resource.as_read(&stored).into_owned();
    assert_eq!(read["spec"], json!({"a": "1", "b": "x"}));
    // The default breaks the schema, and was not put in by the one who writes.
    let mut next = read.clone();
    next["spec"]["a"] = json!("2");
    let review = resource.review(&mut next, Some(&stored), WrittenPart::Object);
    assert!(review.causes.is_empty(), "{:?}", review.causes);
}

#[test]
fn a_definition_that_serves_nothing_for_a_while_does_not_forget_that_its_schema_changed() {
    let of = |served: bool, field: &str| {
        let mut version = version("v1", true, of_size(json!({field: {"type": "string", "default": "x"}})));
        version["served"] = json!(served);
        definition(json!([version]))
    };
    let registry = registry(&[of(true, "a")]);
    define(&registry, &[of(false, "a")]);
    define(&registry, &[of(false, "b")]);
    define(&registry, &[of(true, "b")]);
    assert!(served(&registry, "v1").is_converted_by_schema());
}

#[test]
fn the_defaults_of_an_object_and_of_all_objects_of_an_answer_are_bounded() {
    let registry = registry(&[definition(json!([version("v1", true, of_size(json!({})))]))]);
    let default = |text: &str| json!({"type": "string", "default": text});
    let large = of_size(json!({"b": default(&"x".repeat(1 << 20))}));
    define(&registry, &[definition(json!([version("v1", true, large)]))]);
    let resource = served(&registry, "v1");
    let mut limit = DefaultsLimit::of_answer();
    let defaulted = (0..100).take_while(|_| {
        let mut object = map(json!({"spec": {}}));
        resource.convert_by_schema(&mut object, &mut limit);
        assert!(object["spec"].get("b").is_some() || limit.is_spent());
        !limit.is_spent()
    });
    assert_eq!(defaulted.count(), 63);
    // One object that wants more than it may have leaves the others theirs.
    let element = json!({"type": "object", "properties": {"b": default(&"x".repeat(1 << 20))}});
    let many = of_size(json!({"list": {"type": "array", "items": element}}));
    define(&registry, &[definition(json!([version("v1", true, many)]))]);
    let resource = served(&registry, "v1");
    let mut limit = DefaultsLimit::of_answer();
    let mut object = map(json!({"spec": {"list": vec![json!({}); 100]}}));
    resource.convert_by_schema(&mut object, &mut limit);
    let defaulted = object["spec"]["list"].as_array().unwrap().iter().filter(|one| one.get("b").is_some());
    assert_eq!(defaulted.count(), 7);
    assert!(!limit.is_spent());
}

#[test]
fn writes_in_a_deprecated_version_and_with_bare_finalizers_are_warned_of() {
    let mut old_version = version("v1", true, of_size(json!({})));
    old_version["deprecated"] = json!(true);
    let mut told = version("v2", false, of_size(json!({})));
    told["deprecated"] = json!(true);
    told["deprecationWarning"] = json!("use v3");
    let registry =
        registry(&[definition(json!([old_version, told, version("v3", false, of_size(json!({})))]))]);
    let deprecations = ["v1", "v2", "v3"].map(|version| served(&registry, version).deprecation());
    assert_eq!(
        deprecations,
        [Some("a.b/v1 C is deprecated; use a.b/v3 C".to_owned()), Some("use v3".to_owned()), None]
    );
    let mut object =
        map(json!({"metadata": {"name": "a", "finalizers": ["had", "foo", "a.b", "a.b/c", "orphan"]}}));
    let old = map(json!({"metadata": {"finalizers": ["had"]}}));
    let review = served(&registry, "v3").review(&mut object, Some(&old), WrittenPart::Object);
    assert!(review.causes.is_empty());
    assert_eq!(
        review.warnings,
        [
            "metadata.finalizers: \"a.b\": prefer a domain-qualified finalizer name including a path (/) to avoid accidental \
             conflicts with other finalizer writers",
            "metadata.finalizers: \"foo\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other \
             finalizer writers",
        ]
    );
}

#[test]
fn formats_without_effect_are_warned_of_once() {
    let spec = json!({"type": "object", "properties": {
        "a": {"type": "string", "format": "my-own"}, "b": {"type": "integer", "format": "int32"},
        "c": {"type": "integer", "format": "date"}, "d": {"type": "string", "format": "my-own"},
    }});
    let new = definition(json!([version("v1", true, spec)]));
    assert_eq!(review(new.clone(), None), ["unrecognized format \"my-own\"", "unrecognized format \"date\""]);
    assert_eq!(review(new.clone(), Some(new)), [""; 0]);
}

#[test]
fn definitions_are_checked_as_by_a_real_server() {
    let good = definition(json!([version("v1", true, of_size(json!({"a": {"type": "string"}})))]));
    assert_eq!(review(good.clone(), None), [""; 0]);
    let with = |path: &str, value: Value| {
        let mut changed = good.clone();
        let (parent, field) = path.rsplit_once('/').unwrap();
        changed.pointer_mut(parent).unwrap()[field] = value;
        changed
    };
    for (path, value, expected) in [
        (
            "/spec/names/singular",
            json!("C"),
            "spec.names.singular: Invalid value: \"C\": a DNS-1035 label must",
        ),
        (
            "/spec/names/listKind",
            json!("C"),
            "spec.names.listKind: Invalid value: \"C\": kind and listKind may not be the same",
        ),
        ("/spec/names/shortNames", json!(["ok", "1"]), "spec.names.shortNames[1]: Invalid value: \"1\""),
        (
            "/spec/versions/0/additionalPrinterColumns",
            json!([{"name": "A", "type": "text", "jsonPath": ".a"}]),
            "spec.additionalPrinterColumns[0].type: Invalid value: \"text\": must be one of boolean,date,integer,number,string",
        ),
        (
            "/spec/versions/0/subresources",
            json!({"scale": {"specReplicasPath": ".status.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".x"}}),
            "spec.subresources.scale.specReplicasPath: Invalid value: \".status.n\": should be a json path under .spec\n\
             spec.subresources.scale.labelSelectorPath: Invalid value: \".x\": should be a json path under either .spec or .status",
        ),
        (
            "/spec/versions/0/selectableFields",
            json!([{"jsonPath": ".spec.a"}, {"jsonPath": ".spec"}, {"jsonPath": ".no"}]),
            "spec.selectableFields[1].jsonPath: Invalid value: \".spec\": must point to a field",
        ),
        (
            "/spec/conversion",
            json!({"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://x"}, "conversionReviewVersions": ["v2"]}}),
            "spec.conversion.conversionReviewVersions: Invalid value: [\"v2\"]: must include at least one of v1, v1beta1",
        ),
        (
            "/spec/versions/0/deprecationWarning",
            json!("x"),
            "spec.versions[0].deprecationWarning: Invalid value: \"x\": can only be set for deprecated versions",
        ),
    ] {
        let found = review(with(path, value), None).join("\n");
        assert!(found.starts_with(expected), "{path}: {found}");
    }
    let mut old = good.clone();
    old["status"] =
        json!({"storedVersions": ["v1", "v0"], "conditions": [{"type": "Established", "status": "True"}]});
    let mut changed = good.clone();
    changed["spec"]["scope"] = json!("Cluster");
    changed["spec"]["names"]["kind"] = json!("D");
    let found = review(changed, Some(old));
    let fields: Vec<&str> = found.iter().map(|text| text.split(": ").next().unwrap()).collect();
    assert_eq!(fields, ["spec.scope", "spec.names.kind", "status.storedVersions[1]"], "{found:?}");
}

#[test]
fn the_fields_of_a_scale_are_checked_on_writes() {
    let mut scaled =
        version("v1", true, json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    scaled["subresources"] =
        json!({"scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}});
    let registry = registry(&[definition(json!([scaled]))]);
    let mut object = map(json!({"metadata": {"name": "a"}, "spec": {"n": -1}}));
    let review = served(&registry, "v1").review(&mut object, None, WrittenPart::Object);
    assert_eq!(review.causes.len(), 1);
    assert_eq!(review.causes[0].field, ".spec.n");
}
