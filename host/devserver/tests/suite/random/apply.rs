//! Any sequence of appliers and writers with any managed fields on a few objects.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestCaseError;
use serde_json::{Map, Value, json};

use super::samples::valid;
use super::{Damage, Tried, check_answer, damage, damaged, junk, pointers};
use crate::client::Cluster;
use crate::definitions::{DEFINITIONS, boats};

/// Where objects are applied, and of which kind they are.
const TARGETS: [(&str, &str, &str); 7] = [
    ("/api/v1/namespaces/default/configmaps", "v1", "ConfigMap"),
    ("/api/v1/namespaces/default/pods", "v1", "Pod"),
    ("/api/v1/namespaces/default/services", "v1", "Service"),
    ("/apis/apps/v1/namespaces/default/deployments", "apps/v1", "Deployment"),
    (
        "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
    ),
    ("/apis/yard.test/v1/namespaces/default/boats", "yard.test/v1", "Boat"),
    ("/apis/yard.test/v2/namespaces/default/boats", "yard.test/v2", "Boat"),
];

#[derive(Debug, Clone)]
struct WriteStep {
    method: &'static str,
    content_type: &'static str,
    part: &'static str,
    query: String,
    damages: Vec<Damage>,
    managed: Option<Value>,
    as_yaml: bool,
}

/// The set of some fields of an object, with something wrong in it now and then.
fn fields_v1(object: &Value, picks: &[(Index, bool)], wrong: Option<(String, Value)>) -> Value {
    let mut all = Vec::new();
    pointers(object, "", &mut all);
    let mut set = json!({});
    for (pick, is_member) in picks {
        if all.is_empty() {
            break;
        }
        let mut place = &mut set;
        for step in pick.get(&all).split('/').skip(1) {
            let name = if step.parse::<usize>().is_ok() { format!("i:{step}") } else { format!("f:{step}") };
            let Value::Object(here) = place else { break };
            place = here.entry(name).or_insert_with(|| json!({}));
        }
        if let (Value::Object(here), true) = (place, is_member) {
            here.insert(".".to_owned(), json!({}));
        }
    }
    if let Some((name, value)) = wrong {
        set[name] = value;
    }
    set
}

/// What a client sends as `metadata.managedFields`.
fn managed() -> impl Strategy<Value = Value> {
    let name = select(
        &["v:1", "v:\"a\"", "k:{\"name\":\"main\"}", "k:{", "i:x", "f:", ".", "x:y", "", "f:spec"][..],
    );
    let wrong = prop_oneof![3 => Just(None), 1 => (name, junk()).prop_map(|(name, value)| Some((name.to_owned(), value)))];
    let entry = (
        (select(&["a", "b", "kubectl", ""][..]), select(&["Apply", "Update", "Steal"][..])),
        (
            select(&["v1", "apps/v1", "yard.test/v1", "yard.test/v2", "gone/v1", ""][..]),
            select(&["", "status", "scale"][..]),
        ),
        (prop::collection::vec((any::<Index>(), any::<bool>()), 0..8), wrong),
        select(&["2024-01-01T00:00:00Z", "x", "9999-12-31T23:59:59Z", ""][..]),
    );
    let entry = (entry, select(valid())).prop_map(
        |(((manager, operation), (version, subresource), (picks, wrong), time), (_, object))| {
            json!({"manager": manager, "operation": operation, "apiVersion": version, "time": time,
                "subresource": subresource, "fieldsType": "FieldsV1", "fieldsV1": fields_v1(&object, &picks, wrong)})
        },
    );
    prop_oneof![
        6 => prop::collection::vec(entry, 0..14).prop_map(Value::from),
        1 => junk(),
        1 => prop::collection::vec(junk(), 0..3).prop_map(Value::from),
    ]
}

fn step() -> impl Strategy<Value = WriteStep> {
    let way = select(
        &[
            ("PATCH", "application/apply-patch+yaml"),
            ("PATCH", "application/apply-patch+yaml"),
            ("PATCH", "application/apply-patch+yaml"),
            ("PATCH", "application/merge-patch+json"),
            ("PUT", "application/json"),
        ][..],
    );
    let damages = prop_oneof![1 => Just(Vec::new()), 1 => prop::collection::vec(damage(), 1..4)];
    let mostly = |usual: &'static [&'static str], other: &'static [&'static str]| prop_oneof![9 => select(usual), 1 => select(other)];
    let query = (
        mostly(
            &["fieldManager=a", "fieldManager=b", "fieldManager=kubectl"],
            &["fieldManager=", "a=b", "fieldManager=%00"],
        ),
        mostly(&["", "&force=true", "&force=false"], &["&force=x"]),
        mostly(&["", "&fieldValidation=Ignore"], &["&fieldValidation=Strict", "&fieldValidation=Never"]),
        mostly(&[""], &["&dryRun=All", "&dryRun=Some"]),
    );
    (
        (way, select(&["", "", "", "", "", "", "/status", "/scale", "/nothing"][..]), query),
        (damages, prop::option::weighted(0.3, managed()), any::<bool>()),
    )
        .prop_map(
            |(
                ((method, content_type), part, (manager, force, validation, dry)),
                (damages, managed, as_yaml),
            )| {
                let query = format!("{manager}{force}{validation}{dry}");
                WriteStep { method, content_type, part, query, damages, managed, as_yaml }
            },
        )
}

/// A text in YAML that a generator of YAML would not write.
fn yaml(value: &Value, out: &mut String, indent: usize) {
    let Value::Object(object) = value else {
        out.push_str(&format!(" {value}\n"));
        return;
    };
    if object.is_empty() {
        out.push_str(" {}\n");
        return;
    }
    out.push('\n');
    for (name, value) in object {
        out.push_str(&format!("{}{}:", " ".repeat(indent), Value::from(name.as_str())));
        yaml(value, out, indent + 1);
    }
}

async fn write(cluster: &Cluster, target: usize, step: WriteStep) -> Result<u16, TestCaseError> {
    let (path, version, kind) = TARGETS[target];
    let object =
        valid().into_iter().find(|(at, _)| *at == path).map(|(_, object)| object).unwrap_or(json!({}));
    let mut object = damaged(object, step.damages);
    if let Value::Object(members) = &mut object {
        members.entry("apiVersion").or_insert_with(|| version.into());
        members.entry("kind").or_insert_with(|| kind.into());
        let metadata = members.entry("metadata").or_insert_with(|| json!({}));
        if let (Some(managed), Value::Object(metadata)) = (step.managed, metadata) {
            metadata.insert("managedFields".to_owned(), managed);
        }
    }
    let mut text = object.to_string();
    if step.as_yaml && step.content_type.ends_with("yaml") {
        text = String::new();
        yaml(&object, &mut text, 0);
    }
    let uri = format!("{path}/a{}?{}", step.part, step.query);
    let body = text.replace("NAME", "a");
    let answer = cluster.send(step.method, &uri, &[("content-type", step.content_type)], body).await;
    check_answer(&answer, &|message| {
        [
            "failed to create typed",
            "failed to convert new object",
            "failed to create manager",
            "failed to convert",
            "Internal error occurred: the spec replicas field",
        ]
        .iter()
        .any(|known| message.starts_with(known))
    })?;
    Ok(answer.code)
}

#[test]
fn any_appliers_and_managed_fields_are_answered() {
    let tried = Tried::new("random-appliers");
    let codes = RefCell::new(BTreeMap::<(bool, u16), usize>::new());
    let steps = (0..TARGETS.len(), prop::collection::vec(step(), 1..20));
    tried.run(&steps, async |cluster, (target, steps)| {
        cluster.post(DEFINITIONS, &boats()).await;
        for step in steps {
            let is_apply = step.content_type.ends_with("yaml");
            let code = write(cluster, target, step).await?;
            *codes.borrow_mut().entry((is_apply, code)).or_default() += 1;
        }
        let (path, ..) = TARGETS[target];
        let answer = cluster.get(&format!("{path}/a")).await;
        prop_assert!(matches!(answer.code, 200 | 404), "{}", answer.code);
        if answer.code == 200 {
            let object = answer.json();
            let empty = Vec::new();
            let entries = object["metadata"]["managedFields"].as_array().unwrap_or(&empty);
            let updates = entries.iter().filter(|entry| entry["operation"] == "Update").count();
            prop_assert!(updates <= 10, "{} entries of updates", updates);
            let names: Vec<Map<String, Value>> =
                entries.iter().filter_map(|entry| entry.as_object().cloned()).collect();
            prop_assert_eq!(names.len(), entries.len());
        }
        cluster.send("DELETE", &format!("{path}/a?gracePeriodSeconds=0"), &[], "").await;
        Ok(())
    });
    let codes = codes.into_inner();
    for (is_apply, code) in
        [(true, 201), (true, 200), (true, 409), (true, 400), (true, 422), (true, 500), (false, 200)]
    {
        assert!(codes.get(&(is_apply, code)).is_some_and(|count| *count > 2), "{is_apply} {code}: {codes:?}");
    }
}

#[test]
fn any_text_is_a_body_of_an_apply_request_or_refused() {
    let tried = Tried::new("random-bodies");
    let pieces = prop::collection::vec(
        select(
            &[
                "a",
                ": ",
                "\n",
                "  ",
                "- ",
                "&x",
                "*x",
                "<<: ",
                "{",
                "}",
                "[",
                "]",
                ",",
                "\"",
                "'",
                "|",
                ">",
                "#",
                "---\n",
                "...\n",
                "!!str ",
                "!<x> ",
                "%YAML 1.2\n",
                "\t",
                "\u{0}",
                "\u{feff}",
                "? ",
                "~",
                "0x1",
                "1e999",
                ".nan",
                "yes",
                "apiVersion: v1\n",
                "kind: ConfigMap\n",
                "metadata: {name: a}\n",
                "data:\n",
            ][..],
        ),
        0..40,
    )
    .prop_map(|pieces| pieces.concat().into_bytes());
    let bodies = prop_oneof![3 => pieces, 1 => prop::collection::vec(any::<u8>(), 0..60)];
    tried.run(&bodies, async |cluster, body| {
        let path = "/api/v1/namespaces/default/configmaps";
        for (method, uri, content_type) in [
            ("PATCH", format!("{path}/a?fieldManager=a&force=true"), "application/apply-patch+yaml"),
            ("POST", path.to_owned(), "application/yaml"),
        ] {
            let answer = cluster.send(method, &uri, &[("content-type", content_type)], body.clone()).await;
            check_answer(&answer, &|message| message.starts_with("failed to create typed patch object"))?;
        }
        Ok(())
    });
}
