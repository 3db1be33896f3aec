//! Schemas of custom resources on both servers: which definitions are refused, and what becomes of objects that do not fit.
//!
//! As in `kubectl`, the real server is the oracle. Here what kubectl writes to standard error counts too: the warnings, and
//! the causes of a refusal word by word.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};
use pilothouse_testkit::poll::SOON;
use pilothouse_tests::ControlPlane;
use pilothouse_tests::controlplane::{Options, Server};
use pilothouse_tests::process;
use serde_json::{Value, json};

pilothouse_tests::on_the_real_server!(schemas_are_the_same_on_both_servers);

const KITES: &str = "/apis/wind.example/v1/namespaces/default/kites";

/// A command and its input.
struct Step {
    args: String,
    stdin: String,
}

fn run(args: &str) -> Step {
    Step { args: args.to_owned(), stdin: String::new() }
}

/// Sends an object as it is: kubectl itself looks at nothing.
fn post(path: &str, object: impl ToString) -> Step {
    Step { args: format!("create --raw {path} -f -"), stdin: object.to_string() }
}

fn define(definition: &Value) -> Step {
    post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
}

fn patch(name: &str, patch: &Value) -> Step {
    run(&format!("patch kite {name} --type merge -p {patch}"))
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

/// Definitions that are refused, each for one reason: a real server names several in any order.
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
        schemas.iter().map(|schema| define(&definition("wind.example", schema))).collect();
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut without = definition("wind.example", &open);
    without["spec"]["versions"][0]["schema"] = json!({});
    let mut bare = without.clone();
    bare["spec"]["versions"][0]["schema"].take();
    // With a status a server refuses `allOf` at the root too, and shows the schema as Go prints it.
    let root = json!({"type": "object", "allOf": [{"properties": {"b": {"minLength": 1}}}]});
    let mut incomplete = definition("wind.example", &root);
    incomplete["spec"]["versions"][0]["subresources"].take();
    let mut two = definition("wind.example", &field(json!({})));
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

/// Objects of a definition, that fit and that do not.
fn objects() -> Vec<Step> {
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
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    let mut steps = vec![
        Step {
            args: "create --validate=false -f -".to_owned(),
            stdin: definition("wind.example", &schema).to_string(),
        },
        run("wait --for condition=established crd/kites.wind.example --timeout=20s"),
        run("get crd kites.wind.example -o jsonpath={.spec.names}{.spec.conversion}"),
    ];
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
        steps.push(Step {
            args: "create --validate=false -f -".to_owned(),
            stdin: kite("wrong", &spec).to_string(),
        });
    }
    let shown = "-o jsonpath={.spec}{.status}/{.metadata.generation}";
    let full = json!({
        "size": 2.0, "ratio": 1.5, "note": null, "mode": null, "tail": {}, "port": "http", "colour": "red",
        "map": [{"n": "a", "w": 1}], "extra": {"any": {"thing": 1}}, "labels": {"a": null}, "since": "2024-01-01T00:00:00Z",
    });
    let twice = r#"{"apiVersion": "wind.example/v1", "kind": "Kite", "metadata": {"name": "twice", "nmae": "x"},
                    "spec": {"size": 1, "size": 2, "colour": "red"}}"#;
    steps.push(Step {
        args: "create --validate=false -f -".to_owned(),
        stdin: kite("full", &full).to_string(),
    });
    steps.push(run(&format!("get kite full {shown}")));
    steps.push(post(&format!("{KITES}?fieldValidation=Strict"), twice));
    steps.push(post(&format!("{KITES}?fieldValidation=Loose"), twice));
    for (name, mode) in [("warned", "Warn"), ("ignored", "Ignore")] {
        // The answer holds UIDs and times; the warnings are what counts.
        steps.push(Step {
            args: format!("QUIET create --raw {KITES}?fieldValidation={mode} -f -"),
            stdin: twice.replace("twice", name),
        });
        steps.push(run(&format!("get kite {name} {shown}")));
    }
    steps.extend([
        patch("full", &json!({"spec": {"colour": "red", "size": 3}})),
        patch("full", &json!({"spec": {"size": "big"}})),
        patch("full", &json!({"spec": {"mode": null}})),
        run(&format!("get kite full {shown}")),
        run("patch kite full --subresource=status --type merge -p {\"status\":{\"height\":\"tall\"}}"),
        run("patch kite full --subresource=status --type merge -p {\"status\":{\"height\":5,\"wind\":1}}"),
        run(&format!("get kite full {shown}")),
    ]);
    steps
}

/// Runs the steps on a server: whether each succeeds, and all that it prints.
fn play(server: Server, steps: &[Step]) -> Result<Vec<(bool, String)>> {
    let plane = ControlPlane::start(Options::on(server))?;
    steps
        .iter()
        .map(|step| {
            let quiet = step.args.strip_prefix("QUIET ");
            let args: Vec<&str> = quiet.unwrap_or(&step.args).split_whitespace().collect();
            let finished = process::run(&mut plane.kubectl_command(&args)?, &step.stdin, SOON)?;
            let stdout = if quiet.is_some() { "" } else { &finished.stdout };
            Ok((finished.status.success(), format!("{stdout}{}", finished.stderr)))
        })
        .collect()
}

fn schemas_are_the_same_on_both_servers() -> Result<()> {
    let steps: Vec<Step> = refused().into_iter().chain(objects()).collect();
    let real = play(Server::Real, &steps).context("on the real server")?;
    let development = play(Server::Development, &steps).context("on the development server")?;
    let mut differences = String::new();
    for ((step, real), development) in steps.iter().zip(&real).zip(&development) {
        if real != development {
            let _ = writeln!(
                differences,
                "\nkubectl {}\n{}\n--- the real server ({})\n{}--- the development server ({})\n{}",
                step.args, step.stdin, real.0, real.1, development.0, development.1
            );
        }
    }
    ensure!(differences.is_empty(), "{differences}");
    Ok(())
}
