//! Any definitions, and any objects of what they define.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestCaseError;
use serde_json::{Map, Value, json};

use super::{Tried, check_answer, damage, damaged, junk};
use crate::client::{Answer, Cluster};
use crate::definitions::DEFINITIONS;

const KITES: &str = "/apis/wind.example/v1/namespaces/default/kites";

/// Schemas that are accepted, with all keywords.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string", "default": "x"})),
        Just(json!({"type": "string", "format": "date-time"})),
        Just(json!({"type": "string", "pattern": "^(a+)+$", "minLength": 1, "maxLength": 3})),
        Just(json!({"type": "string", "enum": ["a", "b"]})),
        Just(
            json!({"type": "integer", "minimum": 1, "exclusiveMaximum": true, "maximum": 9, "format": "int32"})
        ),
        Just(json!({"type": "number", "nullable": true, "multipleOf": 0.5})),
        Just(json!({"type": "boolean"})),
        Just(json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
        Just(
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true})
        ),
        Just(json!({"type": "object"})),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let keyed = json!({"type": "string", "default": "x"});
        prop_oneof![
            inner.clone().prop_map(|items| json!({"type": "array", "items": items, "maxItems": 3, "default": []})),
            inner.clone().prop_map(move |field| {
                json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"],
                    "items": {"type": "object", "properties": {"a": keyed, "b": field}}})
            }),
            Just(json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}})),
            inner.clone().prop_map(|entries| json!({"type": "object", "additionalProperties": entries})),
            prop::collection::btree_map("[a-d]", inner, 0..4).prop_map(|properties| {
                let required: Vec<&String> = properties.keys().filter(|name| *name != "d").take(1).collect();
                json!({"type": "object", "properties": properties, "required": required, "not": {"required": ["d"]},
                    "x-kubernetes-map-type": "granular", "x-kubernetes-validations": [{"rule": "true"}]})
            }),
        ]
    })
}

/// A value that fits one of these schemas.
fn fitting(schema: &Value) -> Value {
    let of_field = |name: &str| fitting(&schema["properties"][name]);
    match schema["type"].as_str() {
        Some("string") if schema["format"] == "date-time" => json!("2026-01-01T00:00:00Z"),
        Some("string") => json!("a"),
        Some("integer" | "number") => json!(2),
        Some("boolean") => json!(true),
        Some("array") => json!([fitting(&schema["items"])]),
        Some("object") if schema["x-kubernetes-embedded-resource"] == true => {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}})
        }
        Some("object") if schema["additionalProperties"].is_object() => {
            json!({"x": fitting(&schema["additionalProperties"])})
        }
        Some("object") => {
            let names = schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name);
            let fields = names.filter(|name| *name != "d").map(|name| (name.clone(), of_field(name)));
            fields.collect::<Map<_, _>>().into()
        }
        _ => json!(2),
    }
}

fn definition(schema: Value, paths: [&str; 3]) -> Value {
    let [replicas, selector, column] = paths;
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "kites.wind.example"},
        "spec": {
            "group": "wind.example", "scope": "Namespaced", "names": {"plural": "kites", "kind": "Kite", "singular": "kite"},
            "versions": [
                {"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema, "status": {"type": "object"}}}},
                    "subresources": {"status": {}, "scale": {"specReplicasPath": replicas, "statusReplicasPath": ".status.a",
                        "labelSelectorPath": selector}},
                    "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": column}]},
                {"name": "v2", "served": true, "storage": false,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
            ],
        },
    })
}

/// Values with the names of the schemas.
fn value() -> impl Strategy<Value = Value> {
    junk().prop_recursive(4, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|map| map.into_iter().collect::<Map<String, Value>>().into()),
        ]
    })
}

async fn try_kinds(
    cluster: &Cluster,
    objects: &[Value],
    codes: &RefCell<BTreeMap<u16, usize>>,
) -> Result<(), TestCaseError> {
    let check_answer = |answer: &Answer, known: &dyn Fn(&str) -> bool| {
        *codes.borrow_mut().entry(answer.code).or_default() += 1;
        check_answer(answer, known)
    };
    let known = |message: &str| {
        let beginnings = [
            "failed to create typed",
            "failed to create manager",
            "Internal error occurred: the spec replicas field",
        ];
        beginnings.iter().any(|beginning| message.starts_with(beginning))
    };
    for (index, spec) in objects.iter().enumerate() {
        let object = |version: &str| json!({"apiVersion": format!("wind.example/{version}"), "kind": "Kite", "metadata": {"name": "a"}, "spec": spec});
        let in_v2 = KITES.replace("/v1/", "/v2/");
        let apply = [("content-type", "application/apply-patch+yaml")];
        check_answer(&cluster.post(KITES, &object("v1")).await, &known)?;
        check_answer(&cluster.put(&format!("{KITES}/a"), &object("v1")).await, &known)?;
        let uri = format!("{KITES}/a?fieldManager=m{index}&force=true");
        check_answer(&cluster.send("PATCH", &uri, &apply, object("v1").to_string()).await, &known)?;
        check_answer(&cluster.put(&format!("{in_v2}/a"), &object("v2")).await, &known)?;
        check_answer(&cluster.merge(&format!("{KITES}/a/status"), &json!({"status": spec})).await, &known)?;
        check_answer(&cluster.get(&format!("{KITES}/a/scale")).await, &known)?;
        check_answer(
            &cluster.merge(&format!("{KITES}/a/scale"), &json!({"spec": {"replicas": index}})).await,
            &known,
        )?;
        check_answer(&cluster.put(&format!("{KITES}/a/scale"), spec).await, &known)?;
        check_answer(&cluster.get(&in_v2).await, &known)?;
        let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
        check_answer(&cluster.send("GET", KITES, &table, "").await, &known)?;
    }
    for version in ["v1", "v2"] {
        let document = cluster.get(&format!("/openapi/v3/apis/wind.example/{version}")).await;
        prop_assert!(matches!(document.code, 200 | 404), "{}", document.code);
    }
    Ok(())
}

#[test]
fn any_definition_and_any_object_of_it_are_answered() {
    let tried = Tried::new("random-definitions");
    let codes = RefCell::new(BTreeMap::<u16, usize>::new());
    let path = |usual: &'static str| {
        let others =
            select(&[".spec.b.c", "", ".", "spec", ".spec['a']", ".spec[0]", "{.spec.a}", ".spec.a-b"][..]);
        prop_oneof![9 => Just(usual), 1 => others]
    };
    let schemas = prop_oneof![9 => schema(), 1 => value()];
    let paths = [path(".spec.a").boxed(), path(".status.b").boxed(), path(".spec.a").boxed()];
    let damages = prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(damage(), 1..3)];
    let objects = prop_oneof![
        1 => Just(None),
        2 => prop::collection::vec(damage(), 1..3).prop_map(|damages| Some(Err(damages))),
        1 => value().prop_map(|value| Some(Ok(value))),
    ];
    let cases =
        (prop::collection::vec((schemas, paths, damages), 1..3), prop::collection::vec(objects, 1..4));
    tried.run(&cases, async |cluster, (definitions, objects)| {
        let spec = fitting(&definitions[0].0);
        let objects: Vec<Value> = objects
            .into_iter()
            .map(|object| match object {
                None => spec.clone(),
                Some(Err(damages)) => damaged(spec.clone(), damages),
                Some(Ok(value)) => value,
            })
            .collect();
        let definitions = definitions.into_iter();
        let definitions: Vec<Value> =
            definitions.map(|(schema, paths, damages)| damaged(definition(schema, paths), damages)).collect();
        for (index, definition) in definitions.iter().enumerate() {
            let answer = match index {
                0 => cluster.post(DEFINITIONS, definition).await,
                _ => {
                    cluster
                        .merge(
                            &format!("{DEFINITIONS}/kites.wind.example"),
                            &json!({"spec": definition["spec"]}),
                        )
                        .await
                }
            };
            check_answer(&answer, &|_| false)?;
            try_kinds(cluster, &objects, &codes).await?;
        }
        let list = cluster.get(DEFINITIONS).await.ok();
        for item in list["items"].as_array().unwrap() {
            let name = item["metadata"]["name"].as_str().unwrap();
            cluster.merge(&format!("{DEFINITIONS}/{name}"), &json!({"metadata": {"finalizers": []}})).await;
            cluster.delete(&format!("{DEFINITIONS}/{name}"), &Value::Null).await;
        }
        cluster.server.settled().await;
        Ok(())
    });
    let codes = codes.into_inner();
    for code in [200, 201, 400, 404, 409, 422] {
        assert!(codes.get(&code).is_some_and(|count| *count > 2), "{code}: {codes:?}");
    }
}
