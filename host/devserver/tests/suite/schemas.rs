//! Schemas over HTTP: which definitions are refused, and what becomes of objects that do not fit.

use serde_json::{Value, json};

use crate::client::{Answer, CONFIG_MAPS, Cluster};
use crate::definitions::{DEFINITIONS, boats};

const KITES: &str = "/apis/wind.test/v1/namespaces/default/kites";
const KITES_V2: &str = "/apis/wind.test/v2/namespaces/default/kites";

/// Kites in one version, with defaults, rules and a status.
fn kites() -> Value {
    let spec = json!({"type": "object", "required": ["size"], "properties": {
        "size": {"type": "integer", "minimum": 1},
        "mode": {"type": "string", "enum": ["calm", "storm"], "default": "calm"},
        "tail": {"type": "object", "properties": {"knots": {"type": "integer", "default": 3}}},
        "note": {"type": "string", "nullable": true},
        "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    let status = json!({"type": "object", "properties": {"height": {"type": "integer"}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "kites.wind.test"},
        "spec": {
            "group": "wind.test", "scope": "Namespaced", "names": {"plural": "kites", "kind": "Kite"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.height"}},
            }],
        },
    })
}

fn kite(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "wind.test/v1", "kind": "Kite", "metadata": {"name": name}, "spec": spec})
}

async fn with_kites() -> Cluster {
    let cluster = Cluster::start().await;
    cluster.post(DEFINITIONS, &kites()).await.ok();
    cluster
}

/// The warnings of an answer.
fn warnings(answer: &Answer) -> Vec<&str> {
    answer.headers.get_all("warning").iter().map(|w| w.to_str().unwrap()).collect()
}

/// The message of an answer that must be 422.
#[track_caller]
fn invalid(answer: Answer) -> String {
    let (code, reason, message) = answer.failed();
    assert_eq!((code, reason.as_str()), (422, "Invalid"), "{message}");
    message
}

#[tokio::test]
async fn objects_get_the_defaults_of_their_schema() {
    let cluster = with_kites().await;
    let made = cluster
        .post(KITES, &kite("a", json!({"size": 1, "tail": {}, "note": null, "mode": null})))
        .await
        .ok();
    assert_eq!(made["spec"], json!({"size": 1, "mode": "calm", "tail": {"knots": 3}, "note": null}));
    assert_eq!(cluster.get(&format!("{KITES}/a")).await.ok(), made);
    let patched = cluster
        .merge(&format!("{KITES}/a"), &json!({"spec": {"mode": null, "tail": {"knots": 9}}}))
        .await
        .ok();
    assert_eq!(patched["spec"], json!({"size": 1, "mode": "calm", "tail": {"knots": 9}, "note": null}));
    let mut other = patched.clone();
    other["spec"] = json!({"size": 2});
    let put = cluster.put(&format!("{KITES}/a"), &other).await.ok();
    assert_eq!(put["spec"], json!({"size": 2, "mode": "calm"}));
    assert_eq!(put["metadata"]["generation"], 3);
    let again = cluster.merge(&format!("{KITES}/a"), &json!({"spec": {"mode": null}})).await.ok();
    assert_eq!(again, put, "the default in the place of the default is no change");
}

#[tokio::test]
async fn unknown_and_duplicate_fields_are_dropped_with_a_warning_or_refused() {
    let cluster = with_kites().await;
    let body = r#"{"apiVersion": "wind.test/v1", "kind": "Kite", "metadata": {"name": "a", "nmae": "b"},
        "spec": {"size": 1, "size": 2, "colour": "red", "extra": {"kept": 1}}}"#;
    let json = [("content-type", "application/json")];
    let expected = [
        r#"299 - "duplicate field \"spec.size\"""#,
        r#"299 - "unknown field \"metadata.nmae\"""#,
        r#"299 - "unknown field \"spec.colour\"""#,
    ];
    for (query, wanted) in
        [("", &expected[..]), ("?fieldValidation=Warn", &expected), ("?fieldValidation=Ignore", &[])]
    {
        let answer = cluster.send("POST", &format!("{KITES}{query}"), &json, body).await;
        assert_eq!(warnings(&answer), wanted, "{query}");
        let made = answer.ok();
        assert_eq!(made["spec"], json!({"size": 2, "mode": "calm", "extra": {"kept": 1}}));
        cluster.delete(&format!("{KITES}/a"), &Value::Null).await.ok();
    }
    let strict = format!("{KITES}?fieldValidation=Strict");
    let (code, reason, message) = cluster.send("POST", &strict, &json, body).await.failed();
    assert_eq!((code, reason.as_str()), (400, "BadRequest"));
    assert_eq!(
        message,
        r#"Kite in version "v1" cannot be handled as a Kite: strict decoding error: duplicate field "spec.size", unknown field "metadata.nmae", unknown field "spec.colour""#
    );
    cluster.post(&strict, &kite("b", json!({"size": 1}))).await.ok();
    let unknown =
        cluster.post(&format!("{KITES}?fieldValidation=Loose"), &kite("c", json!({"size": 1}))).await;
    assert_eq!(
        invalid(unknown),
        r#"CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Loose": supported values: "", "Ignore", "Strict", "Warn""#
    );
}

#[tokio::test]
async fn a_patch_is_held_to_the_schema_too() {
    let cluster = with_kites().await;
    cluster.post(KITES, &kite("a", json!({"size": 1}))).await.ok();
    let path = format!("{KITES}/a");
    let answer = cluster.merge(&path, &json!({"spec": {"colour": "red"}})).await;
    assert_eq!(warnings(&answer), [r#"299 - "unknown field \"spec.colour\"""#]);
    assert_eq!(answer.ok()["spec"], json!({"size": 1, "mode": "calm"}));
    let strict =
        cluster.merge(&format!("{path}?fieldValidation=Strict"), &json!({"spec": {"colour": "red"}})).await;
    let message = invalid(strict);
    assert!(message.starts_with(r#" "" is invalid: patch: Invalid value: "#), "{message}");
    assert!(message.ends_with(r#"strict decoding error: unknown field "spec.colour""#), "{message}");
    assert_eq!(
        invalid(cluster.merge(&path, &json!({"spec": {"size": "big"}})).await),
        r#"Kite.wind.test "a" is invalid: [spec.size: Invalid value: "string": spec.size in body must be of type integer: "string", .spec.size: Invalid value: 0: .spec.size accessor error: big is of the type string, expected int64]"#
    );
}

#[tokio::test]
async fn values_that_do_not_fit_are_named() {
    let cluster = with_kites().await;
    for (spec, cause) in [
        (json!({"mode": "calm"}), "spec.size: Required value"),
        (
            json!({"size": 0}),
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
        (
            json!({"size": 1, "mode": "x"}),
            r#"spec.mode: Unsupported value: "x": supported values: "calm", "storm""#,
        ),
        (
            json!([]),
            r#"[spec: Invalid value: "array": spec in body must be of type object: "array", .spec.size: Invalid value: 0: .spec.size accessor error: [] is of the type []interface {}, expected map[string]interface{}]"#,
        ),
    ] {
        let message = invalid(cluster.post(KITES, &kite("a", spec)).await);
        assert_eq!(message, format!(r#"Kite.wind.test "a" is invalid: {cause}"#));
    }
    let answer = cluster.post(KITES, &kite("a", json!({"mode": "x"}))).await.json();
    let reasons: Vec<&Value> =
        answer["details"]["causes"].as_array().unwrap().iter().map(|c| &c["reason"]).collect();
    assert_eq!(reasons, ["FieldValueNotSupported", "FieldValueRequired"]);
}

#[tokio::test]
async fn a_status_is_pruned_and_validated_on_its_own() {
    let cluster = with_kites().await;
    cluster.post(KITES, &kite("a", json!({"size": 1}))).await.ok();
    let path = format!("{KITES}/a/status");
    assert_eq!(
        invalid(cluster.merge(&path, &json!({"status": {"height": "tall"}})).await),
        r#"Kite.wind.test "a" is invalid: [status.height: Invalid value: "string": height in body must be of type integer: "string", .status.height: Invalid value: 0: .status.height accessor error: tall is of the type string, expected int64]"#
    );
    let answer = cluster.merge(&path, &json!({"status": {"height": 5, "wind": 1}})).await;
    assert_eq!(warnings(&answer), [r#"299 - "unknown field \"status.wind\"""#]);
    assert_eq!(answer.ok()["status"], json!({"height": 5}));
}

#[tokio::test]
async fn a_scale_is_held_to_the_schema() {
    let cluster = with_kites().await;
    cluster.post(KITES, &kite("a", json!({"size": 1}))).await.ok();
    let path = format!("{KITES}/a/scale");
    let message = invalid(cluster.merge(&path, &json!({"spec": {"replicas": 0}})).await);
    assert!(message.ends_with("spec.size in body should be greater than or equal to 1"), "{message}");
    assert_eq!(cluster.merge(&path, &json!({"spec": {"replicas": 7}})).await.ok()["spec"]["replicas"], 7);
}

#[tokio::test]
async fn what_was_stored_before_is_read_by_the_schema_of_now() {
    let cluster = with_kites().await;
    cluster.post(KITES, &kite("a", json!({"size": 1, "note": "n"}))).await.ok();
    let path = format!("{DEFINITIONS}/kites.wind.test");
    let mut definition = cluster.get(&path).await.ok();
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let fields = definition.pointer_mut(spec).unwrap().as_object_mut().unwrap();
    fields.remove("note");
    fields.insert("line".to_owned(), json!({"type": "integer", "default": 50}));
    let mut watch = cluster.watch(&format!("{KITES}?watch=1&resourceVersion=0")).await;
    assert_eq!(watch.told().await, "ADDED a");
    cluster.put(&path, &definition).await.ok();
    let expected = json!({"size": 1, "mode": "calm", "line": 50});
    assert_eq!(cluster.get(&format!("{KITES}/a")).await.ok()["spec"], expected);
    assert_eq!(cluster.get(KITES).await.ok()["items"][0]["spec"], expected);
    let mut later = cluster.watch(&format!("{KITES}?watch=1&resourceVersion=0")).await;
    assert_eq!(later.next().await.unwrap()["object"]["spec"], expected);
    let patched = cluster.merge(&format!("{KITES}/a"), &json!({"spec": {"size": 2}})).await.ok();
    assert_eq!(patched["spec"], json!({"size": 2, "mode": "calm", "line": 50}));
}

#[tokio::test]
async fn an_object_that_a_new_schema_refuses_can_be_changed_elsewhere() {
    let cluster = with_kites().await;
    cluster.post(KITES, &kite("a", json!({"size": 1, "note": "a long note"}))).await.ok();
    let path = format!("{DEFINITIONS}/kites.wind.test");
    let mut definition = cluster.get(&path).await.ok();
    let note = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/note";
    *definition.pointer_mut(note).unwrap() = json!({"type": "string", "maxLength": 3});
    cluster.put(&path, &definition).await.ok();
    let changed = cluster.merge(&format!("{KITES}/a"), &json!({"spec": {"size": 2}})).await.ok();
    assert_eq!(changed["spec"]["note"], "a long note");
    let message =
        invalid(cluster.merge(&format!("{KITES}/a"), &json!({"spec": {"note": "also long"}})).await);
    assert!(message.ends_with("spec.note: Too long: may not be more than 3 bytes"), "{message}");
}

#[tokio::test]
async fn a_version_shows_and_stores_what_its_schema_has() {
    let cluster = Cluster::start().await;
    let mut definition = kites();
    let mut second = definition["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    second["storage"] = false.into();
    second["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = json!({
        "size": {"type": "integer"}, "reel": {"type": "string", "default": "wood"},
    });
    definition["spec"]["versions"].as_array_mut().unwrap().push(second);
    cluster.post(DEFINITIONS, &definition).await.ok();
    let mut object = kite("a", json!({"size": 1, "reel": "steel"}));
    object["apiVersion"] = "wind.test/v2".into();
    // What the stored version does not know is dropped when it is stored, and no default of v2 takes its place.
    assert_eq!(cluster.post(KITES_V2, &object).await.ok()["spec"], json!({"size": 1}));
    assert_eq!(cluster.get(&format!("{KITES}/a")).await.ok()["spec"], json!({"size": 1, "mode": "calm"}));
    assert_eq!(cluster.get(&format!("{KITES_V2}/a")).await.ok()["spec"], json!({"size": 1}));
}

#[tokio::test]
async fn definitions_without_a_structural_schema_are_refused() {
    let cluster = Cluster::start().await;
    let mut none = kites();
    none["spec"]["versions"][0].as_object_mut().unwrap().remove("schema");
    assert_eq!(
        invalid(cluster.post(DEFINITIONS, &none).await),
        r#"CustomResourceDefinition.apiextensions.k8s.io "kites.wind.test" is invalid: spec.versions[0].schema.openAPIV3Schema: Required value"#
    );
    let mut untyped = kites();
    untyped["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({});
    assert_eq!(
        invalid(cluster.post(DEFINITIONS, &untyped).await),
        r#"CustomResourceDefinition.apiextensions.k8s.io "kites.wind.test" is invalid: spec.validation.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object fields"#
    );
    let mut second = untyped["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    second["storage"] = false.into();
    second["schema"]["openAPIV3Schema"]["description"] = "another".into();
    untyped["spec"]["versions"].as_array_mut().unwrap().push(second);
    let message = invalid(cluster.post(DEFINITIONS, &untyped).await);
    for index in [0, 1] {
        let path =
            format!("spec.versions[{index}].schema.openAPIV3Schema.properties[spec].type: Required value");
        assert!(message.contains(&path), "{message}");
    }
    let mut narrow = kites();
    narrow["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["anyOf"] = json!([{"required": ["spec"]}]);
    let message = invalid(cluster.post(DEFINITIONS, &narrow).await);
    assert!(
        message.contains("fields are allowed at the root of the schema if the status subresource is enabled"),
        "{message}"
    );
    assert_eq!(cluster.get(KITES).await.code, 404, "and nothing is served");
}

#[tokio::test]
async fn groups_of_the_community_need_its_approval() {
    let cluster = Cluster::start().await;
    let mut definition = boats();
    definition["metadata"]["name"] = "boats.yard.k8s.io".into();
    definition["spec"]["group"] = "yard.k8s.io".into();
    let message = invalid(cluster.post(DEFINITIONS, &definition).await);
    let field = "metadata.annotations[api-approved.kubernetes.io]";
    assert!(
        message.contains(&format!("{field}: Required value: protected groups must have approval annotation")),
        "{message}"
    );
    definition["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "yes"});
    let message = invalid(cluster.post(DEFINITIONS, &definition).await);
    assert!(message.contains(&format!(r#"{field}: Invalid value: "yes": protected groups"#)), "{message}");
    for approval in ["unapproved, a test", "https://example.com/approved"] {
        definition["metadata"]["annotations"]["api-approved.kubernetes.io"] = approval.into();
        cluster.post(DEFINITIONS, &definition).await.ok();
        cluster.delete(&format!("{DEFINITIONS}/boats.yard.k8s.io"), &Value::Null).await.ok();
    }
}

#[tokio::test]
async fn what_a_real_server_does_and_this_one_does_not_is_warned_of() {
    let cluster = Cluster::start().await;
    let mut definition = kites();
    definition["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": {"service": {"namespace": "a", "name": "b"}},
    }});
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] =
        json!([{"rule": "self.size > 1"}]);
    let answer = cluster.post(DEFINITIONS, &definition).await;
    let told = warnings(&answer).join("\n");
    assert!(told.contains("conversion webhooks") && told.contains("x-kubernetes-validations"), "{told}");
    let made = answer.ok();
    assert_eq!(made["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["port"], 443);
    cluster.post(KITES, &kite("a", json!({"size": 1}))).await.ok();
}

#[tokio::test]
async fn built_in_kinds_lose_unknown_fields_too() {
    let cluster = Cluster::start().await;
    let object = json!({"metadata": {"name": "a"}, "data": {"a": "b"}, "daat": {"c": "d"}});
    let answer = cluster.post(CONFIG_MAPS, &object).await;
    assert_eq!(warnings(&answer), [r#"299 - "unknown field \"daat\"""#]);
    let made = answer.ok();
    assert!(made.get("daat").is_none() && made["data"]["a"] == "b", "{made}");
    let (code, _, message) =
        cluster.post(&format!("{CONFIG_MAPS}?fieldValidation=Strict"), &object).await.failed();
    assert_eq!(
        (code, message.as_str()),
        (
            400,
            r#"ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "daat""#
        )
    );
}
