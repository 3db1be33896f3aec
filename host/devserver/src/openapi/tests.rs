//! The documents of all built-in group versions, and those of definitions.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::components::referenced;
use super::{GroupVersion, document, group_versions};
use crate::resources::{Definition, Registry, Resources};
use crate::schema::{BUILTIN_TABLE, BuiltinTable};
use crate::store::{Head, ManagedFields, Store};

fn document_of(served: &GroupVersion<'_>, store: &Store, max_size: usize) -> Value {
    let text = document::make(served, store, max_size).text;
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", served.name()))
}

/// The document of a built-in group version.
fn builtin(name: &str) -> Value {
    let resources = Registry::new().now();
    let served = group_versions(&resources).find(|served| served.name() == name).unwrap();
    document_of(&served, &Store::new(1), document::MAX_SIZE)
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            if let Some(name) = members.get("$ref").and_then(Value::as_str) {
                found.insert(referenced(name).expect("a reference to a component").to_owned());
            }
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(elements) => elements.iter().for_each(|element| references(element, found)),
        _ => {}
    }
}

/// The operations of a document, each with its path.
fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.iter().flat_map(|(path, item)| {
        let item = item.as_object().unwrap();
        item.iter().map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
    });
    operations.filter(|(_, method, _)| *method != "parameters").collect()
}

#[test]
fn every_reference_of_a_document_is_to_one_of_its_components_and_no_component_is_idle() {
    let resources = Registry::new().now();
    let mut documents = 0;
    for served in group_versions(&resources) {
        let document = document_of(&served, &Store::new(1), document::MAX_SIZE);
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        let components: BTreeSet<String> =
            document["components"]["schemas"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(found, components, "{}", served.name());
        let ids: Vec<&Value> = operations(&document).iter().map(|(_, _, o)| &o["operationId"]).collect();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "{}", served.name());
        documents += 1;
    }
    assert!(documents > 20);
}

#[test]
fn every_resource_has_a_schema_of_its_kind_and_the_operations_that_it_allows() {
    let resources = Registry::new().now();
    for served in group_versions(&resources) {
        let document = document_of(&served, &Store::new(1), document::MAX_SIZE);
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for resource in &served.version.resources {
            let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
            let of_kind = |schema: &&Value| {
                let kinds = schema["x-kubernetes-group-version-kind"].as_array();
                kinds.is_some_and(|kinds| kinds.contains(&kind))
            };
            assert!(schemas.values().any(|schema| of_kind(&schema)), "{kind}");
            let end = format!("/{}/{{name}}", resource.name);
            let patch = operations(&document)
                .into_iter()
                .find(|(path, method, _)| path.ends_with(&end) && *method == "patch");
            assert_eq!(patch.is_some(), resource.allows("patch"), "{kind}");
            let Some((_, _, patch)) = patch else { continue };
            assert_eq!(patch["x-kubernetes-group-version-kind"], kind);
            // Without this kubectl refuses to validate.
            let validation = json!({
                "name": "fieldValidation", "in": "query", "schema": {"type": "string", "uniqueItems": true},
            });
            assert!(patch["parameters"].as_array().unwrap().contains(&validation), "{kind}");
            assert!(
                patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_some(),
                "{kind}"
            );
        }
    }
}

#[test]
fn both_tables_are_about_the_same_fields() {
    let types: BuiltinTable<'_> = serde_json::from_str(BUILTIN_TABLE).unwrap();
    let leaves: Value = serde_json::from_str(super::components::OPENAPI_TABLE).unwrap();
    let mut facts = 0;
    for (name, fields) in leaves["fields"].as_object().unwrap() {
        for (field, fact) in fields.as_object().unwrap() {
            assert!(types.types[name.as_str()].contains_key(field.as_str()), "{name}.{field}");
            let is_leaf = fact.as_str().is_some_and(|leaf| leaves["leaves"].get(leaf).is_some());
            assert!(is_leaf || fact.as_array().is_some_and(|values| !values.is_empty()), "{name}.{field}");
            facts += 1;
        }
    }
    assert!(facts > 200, "{facts}");
}

#[test]
fn fields_have_the_schemas_of_a_real_server() {
    let document = builtin("api/v1");
    let field = |kind: &str, field: &str| {
        document["components"]["schemas"][format!("io.k8s.api.core.v1.{kind}")]["properties"][field].clone()
    };
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/io.k8s.{name}")});
    for (kind, name, expected) in [
        ("Container", "name", json!({"type": "string"})),
        (
            "Container",
            "imagePullPolicy",
            json!({"type": "string", "enum": ["Always", "IfNotPresent", "Never"]}),
        ),
        (
            "Container",
            "ports",
            json!({
                "type": "array", "items": reference("api.core.v1.ContainerPort"),
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
                "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "containerPort",
            }),
        ),
        (
            "ContainerPort",
            "protocol",
            json!({"type": "string", "default": "TCP", "enum": ["SCTP", "TCP", "UDP"]}),
        ),
        ("ServicePort", "targetPort", reference("apimachinery.pkg.util.intstr.IntOrString")),
        (
            "ResourceRequirements",
            "limits",
            json!({
                "type": "object", "additionalProperties": reference("apimachinery.pkg.api.resource.Quantity"),
            }),
        ),
        ("Event", "eventTime", reference("apimachinery.pkg.apis.meta.v1.MicroTime")),
        ("PodStatus", "startTime", reference("apimachinery.pkg.apis.meta.v1.Time")),
        ("PodSpec", "terminationGracePeriodSeconds", json!({"type": "integer", "format": "int64"})),
        (
            "PersistentVolumeSpec",
            "claimRef",
            json!({
                "allOf": [reference("api.core.v1.ObjectReference")], "x-kubernetes-map-type": "granular",
            }),
        ),
        ("PersistentVolume", "spec", reference("api.core.v1.PersistentVolumeSpec")),
        (
            "ServiceSpec",
            "selector",
            json!({
                "type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic",
            }),
        ),
    ] {
        assert_eq!(field(kind, name), expected, "{kind}.{name}");
    }
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["io.k8s.api.core.v1.ObjectReference"]["x-kubernetes-map-type"], "atomic");
    assert_eq!(schemas["io.k8s.api.core.v1.PodSpec"]["required"], json!(["containers"]));
    let quantity = json!({"oneOf": [{"type": "string"}, {"type": "number"}]});
    assert_eq!(schemas["io.k8s.apimachinery.pkg.api.resource.Quantity"], quantity);
}

#[test]
fn kinds_that_every_group_has_name_the_core_group_and_their_own() {
    let kinds = |document: &str| {
        builtin(document)["components"]["schemas"]["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]
            ["x-kubernetes-group-version-kind"]
            .clone()
    };
    let core = json!({"group": "", "version": "v1", "kind": "DeleteOptions"});
    assert_eq!(kinds("api/v1"), json!([core]));
    let apps = json!({"group": "apps", "version": "v1", "kind": "DeleteOptions"});
    assert_eq!(kinds("apis/apps/v1"), json!([core, apps]));
}

/// A definition whose schema says `description` of the object.
fn definition(plural: &str, group: &str, schema: &Value) -> Value {
    json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": plural.to_uppercase()},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn defined(definitions: &[Value]) -> (Arc<Resources>, Arc<Store>) {
    let (registry, store) = (Registry::new(), Store::new(1));
    let list = definitions.iter().map(|d| (d["metadata"]["name"].as_str().unwrap().to_owned(), 1, d));
    registry.define(|| list.collect(), |d| Some(Definition::read(d).unwrap()));
    let table: Arc<str> = "apiextensions.k8s.io/customresourcedefinitions".into();
    let head = Head::new("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    for definition in definitions {
        let name = definition["metadata"]["name"].as_str().unwrap();
        store
            .create(&table, name, &head, definition.as_object().unwrap().clone(), ManagedFields::default())
            .unwrap();
    }
    (registry.now(), store)
}

#[test]
fn a_document_that_would_be_too_large_has_open_schemas_for_the_rest() {
    let schema = json!({"type": "object", "properties": {"note": {
        "type": "string", "description": "x".repeat(100_000),
    }}});
    let plurals: Vec<String> = (0..20).map(|n| format!("kind{n:02}")).collect();
    let definitions: Vec<Value> = plurals.iter().map(|p| definition(p, "wide.test", &schema)).collect();
    let (resources, store) = defined(&definitions);
    let served = group_versions(&resources).find(|served| served.group == "wide.test").unwrap();
    let whole = document::make(&served, &store, document::MAX_SIZE);
    assert!(whole.is_of_these_resources && whole.text.len() > 2_000_000);

    let made = document_of(&served, &store, 500_000);
    let schemas = made["components"]["schemas"].as_object().unwrap();
    let mut open = 0;
    for plural in plurals {
        let schema = &schemas[&format!("test.wide.v1.{}", plural.to_uppercase())];
        assert!(schema["properties"].get("metadata").is_some());
        open += usize::from(schema["x-kubernetes-preserve-unknown-fields"] == true);
    }
    assert!((10..20).contains(&open), "{open}");
    assert!(made.to_string().len() < 800_000);
}

#[test]
fn a_definition_that_changes_while_its_document_is_made_is_noticed() {
    let (resources, _) = defined(&[definition("a", "wide.test", &json!({"type": "object"}))]);
    let later = definition("a", "wide.test", &json!({"type": "object", "description": "later"}));
    let (_, store) = defined(&[later]);
    let served = group_versions(&resources).find(|served| served.group == "wide.test").unwrap();
    assert!(!document::make(&served, &store, document::MAX_SIZE).is_of_these_resources);
    assert!(!document::make(&served, &Store::new(1), document::MAX_SIZE).is_of_these_resources);
}
