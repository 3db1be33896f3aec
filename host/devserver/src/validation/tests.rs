//! Whole objects: what is said of them, in which order, and how much.

use serde_json::{Value, json};

use super::*;
use crate::resources::Registry;

/// What is said of an object that has been read.
fn said(api_version: &str, kind: &str, object: Value) -> Vec<String> {
    let served = Registry::new().now();
    let resource = served.of_kind(api_version, kind).unwrap();
    let Value::Object(mut object) = object else { panic!("an object") };
    resource.admit(&mut object).unwrap();
    let causes = validate(resource, &object, None).into_iter();
    causes.map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

fn pod(spec: &Value) -> Vec<String> {
    said("v1", "Pod", json!({"metadata": {"name": "a"}, "spec": spec}))
}

#[test]
fn a_good_pod_has_nothing_wrong_and_a_bad_one_is_told_all_at_once() {
    assert_eq!(pod(&json!({"containers": [{"name": "a", "image": "b"}]})), [""; 0]);
    let said = pod(&json!({
        "containers": [
            {"name": "a", "ports": [{"containerPort": 70000}]},
            {"name": "a", "image": "b", "volumeMounts": [{"name": "v", "mountPath": ""}]},
        ],
        "volumes": [{"name": "w", "emptyDir": {}, "hostPath": {"path": "/a"}}],
    }));
    assert_eq!(
        said,
        [
            "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
            "spec.containers[0].image: Required value",
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
            "spec.containers[1].volumeMounts[0].name: Not found: \"v\"",
            "spec.containers[1].volumeMounts[0].mountPath: Required value",
            "spec.containers[1].name: Duplicate value: \"a\"",
        ]
    );
}

#[test]
fn an_object_of_very_many_wrong_parts_has_a_short_answer() {
    let many = |count: usize, part: &Value| -> Value { (0..count).map(|_| part.clone()).collect() };
    let constraint = json!({"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"});
    let said_of_pod = pod(&json!({
        "containers":
            many(5_000, &json!({"name": "a", "image": "b", "resources": {"claims": [{"name": "x"}]}})),
        "resourceClaims": many(5_000, &json!({"name": "y", "resourceClaimName": "z"})),
        "topologySpreadConstraints": many(5_000, &constraint),
    }));
    assert_eq!(said_of_pod.len(), 100);
}
