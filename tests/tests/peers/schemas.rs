//! Schemas of custom resources on both servers: which definitions are refused, what becomes of objects that do not fit, and what is
//! stored of those that do.

use std::fmt::Write as _;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::sides::{Answer, Both, DEFINITIONS, Request};

pilothouse_tests::on_the_real_server!(schemas_are_the_same_on_both_servers);

const KITES: &str = "/apis/wind.example/v1/namespaces/default/kites";

/// A request: a method, a path below that of the kites unless it begins with a slash, and a body.
struct Step(&'static str, String, String);

fn define(definition: &Value) -> Step {
    Step("POST", DEFINITIONS.to_owned(), definition.to_string())
}

fn create(name: &str, spec: &Value) -> Step {
    Step("POST", String::new(), kite(name, spec).to_string())
}

fn patch(path: &str, patch: &Value) -> Step {
    Step("PATCH", path.to_owned(), patch.to_string())
}

fn get(name: &str) -> Step {
    Step("GET", name.to_owned(), String::new())
}

fn definition(group: &str, schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("kites.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "kites", "kind": "Kite"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}},
            }],
        },
    })
}

fn kite(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "wind.example/v1", "kind": "Kite", "metadata": {"name": name}, "spec": spec})
}

/// Definitions that are refused.
fn refused() -> Vec<Step> {
    let field = |schema: Value| json!({"type": "object", "properties": {"a": schema}});
    let schemas = [
        json!({}),
        field(json!({})),
        field(json!({"type": "array"})),
        field(json!({"type": "array", "items": {}})),
        field(json!({"type": "text"})),
        field(json!({"type": "string", "anyOf": [{"type": "string"}]})),
        field(json!({"type": "string", "pattern": "(?=a)"})),
        field(json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}})),
        field(
            json!({"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
        ),
        field(json!({"type": "integer", "default": "x"})),
        field(json!({"type": "object", "default": {"b": 1}})),
        field(json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"})),
        field(json!({"type": "object", "$ref": "#/x"})),
    ];
    let mut steps: Vec<Step> =
        schemas.iter().map(|schema| define(&definition("rain.example", schema))).collect();
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut without = definition("rain.example", &open);
    without["spec"]["versions"][0]["schema"] = json!({});
    let mut bare = without.clone();
    bare["spec"]["versions"][0]["schema"].take();
    let root = json!({"type": "object", "allOf": [{"properties": {"b": {"minLength": 1}}}]});
    let incomplete = definition("rain.example", &root);
    let mut two = definition("rain.example", &field(json!({})));
    let mut second = two["spec"]["versions"][0].clone();
    (second["name"], second["storage"], second["schema"]["openAPIV3Schema"]) =
        ("v2".into(), false.into(), open.clone());
    two["spec"]["versions"].as_array_mut().expect("a list").push(second);
    let protected = definition("wind.k8s.io", &open);
    let mut unapproved = protected.clone();
    unapproved["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "yes"});
    steps.extend([without, bare, incomplete, two, protected, unapproved].iter().map(define));
    steps
}

/// The definition of the objects.
fn kites() -> Value {
    let spec = json!({"type": "object", "required": ["size"], "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "ratio": {"type": "number", "multipleOf": 0.5},
        "mode": {"type": "string", "enum": ["calm", "storm"], "default": "calm"},
        "name": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 4},
        "since": {"type": "string", "format": "date-time"},
        "port": {"x-kubernetes-int-or-string": true},
        "note": {"type": "string", "nullable": true},
        "tail": {"type": "object", "properties": {"knots": {"type": "integer", "default": 3}}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}, "maxItems": 3},
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"], "items": {
            "type": "object", "required": ["n"], "properties": {"n": {"type": "string"}, "v": {"type": "integer", "default": 1}}}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "choice": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    }});
    let status = json!({"type": "object", "properties": {"height": {"type": "integer"}}});
    definition("wind.example", &json!({"type": "object", "properties": {"spec": spec, "status": status}}))
}

/// Objects of the definition, that fit and that do not.
fn objects() -> Vec<Step> {
    let mut steps = vec![Step("GET", format!("{DEFINITIONS}/kites.wind.example"), String::new())];
    for spec in [
        json!({}),
        json!({"size": "big"}),
        json!({"size": 1.5}),
        json!({"size": null}),
        json!({"size": {"a": 1}}),
        json!({"size": 0}),
        json!({"size": 10}),
        json!({"size": 1, "ratio": 0.3}),
        json!({"size": 1, "mode": "wild"}),
        json!({"size": 1, "name": "A1"}),
        json!({"size": 1, "name": "a"}),
        json!({"size": 1, "name": "abcde"}),
        json!({"size": 1, "since": "yesterday"}),
        json!({"size": 1, "port": true}),
        json!({"size": 1, "set": ["a", "a"]}),
        json!({"size": 1, "set": ["a", "b", "c", "d"]}),
        json!({"size": 1, "map": [{"n": "a"}, {"n": "a"}]}),
        json!({"size": 1, "map": [{"v": 1}]}),
        json!({"size": 1, "labels": {"a": 1}}),
        json!({"size": 1, "choice": {"a": "x", "b": "y"}}),
        json!([]),
    ] {
        steps.push(create("wrong", &spec));
    }
    let full = json!({
        "size": 2, "ratio": 1.5, "note": null, "mode": null, "tail": {}, "port": "http", "colour": "red",
        "map": [{"n": "a", "w": 1}], "extra": {"any": {"thing": 1}}, "labels": {"a": null}, "since": "2024-01-01T00:00:00Z",
    });
    let twice = r#"{"apiVersion": "wind.example/v1", "kind": "Kite", "metadata": {"name": "twice", "nmae": "x"},
                    "spec": {"size": 1, "size": 2, "colour": "red"}}"#;
    steps.extend([create("full", &full), get("full")]);
    for mode in ["Strict", "Loose", "Warn", "Ignore"] {
        let name = mode.to_lowercase();
        steps.push(Step("POST", format!("?fieldValidation={mode}"), twice.replace("twice", &name)));
        steps.push(get(&name));
    }
    steps.extend([
        patch("full", &json!({"spec": {"colour": "red", "size": 3}})),
        patch("full", &json!({"spec": {"size": "big"}})),
        patch("full", &json!({"spec": {"mode": null}})),
        get("full"),
        patch("full/status", &json!({"status": {"height": "tall"}})),
        patch("full/status", &json!({"status": {"height": 5, "wind": 1}})),
        get("full"),
    ]);
    steps
}

/// What is compared of an answer: whether something is refused and why, what is stored of an object, and whether there are
/// warnings.
fn told(answer: &Answer) -> String {
    let shown = answer.object().map(|object| {
        // The status of a definition has times.
        let status = if object["kind"] == "Kite" { &object["status"] } else { &Value::Null };
        json!([object["spec"], status, object["metadata"]["generation"], answer.warnings.len()])
    });
    format!("{:?} {}", answer.verdict(), shown.unwrap_or_default())
}

fn schemas_are_the_same_on_both_servers() -> Result<()> {
    let both = Both::start()?;
    let served = kites();
    let steps: Vec<Step> = refused().into_iter().chain(objects()).collect();
    let (real, development) = both.each(async |side| {
        side.define(&served, KITES).await?;
        let mut answers = Vec::new();
        for Step(method, path, body) in &steps {
            let path = if path.starts_with('/') { path.clone() } else { format!("{KITES}/{path}") };
            let (path, mode) = path.split_once("?fieldValidation=").unwrap_or((&path, "Warn"));
            let content_type = match *method {
                "PATCH" => "application/merge-patch+json",
                "POST" => "application/json",
                _ => "",
            };
            let (path, query) = (path.trim_end_matches('/'), [("fieldValidation", mode.to_owned())]);
            let query = if *method == "GET" { &[][..] } else { &query };
            answers.push(side.send(Request { method, path, query, content_type, body: body.clone() }).await?);
        }
        Ok(answers)
    })?;
    let mut differences = String::new();
    for ((Step(method, path, body), real), ours) in steps.iter().zip(&real).zip(&development) {
        let (one, other) = (told(real), told(ours));
        if one != other {
            let words = [&real.body["message"], &ours.body["message"]];
            let _ = writeln!(
                differences,
                "\n{method} {path} {body}\n--- real {one}\n{}\n--- ours {other}\n{}",
                words[0], words[1]
            );
        }
    }
    ensure!(differences.is_empty(), "{differences}");
    Ok(())
}
