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
fn one_of_two_ranges_of_a_node_that_is_none_fails_their_comparison_as_well() {
    let node = |ranges: &[&str]| {
        let spec = json!({"podCIDR": ranges[0], "podCIDRs": ranges});
        said("v1", "Node", json!({"metadata": {"name": "a"}, "spec": spec}))
    };
    let not_one_each = "may specify no more than one CIDR for each IP family";
    assert_eq!(
        node(&["10.1.0.0/24", "10.1.0.0/24-"]),
        [
            "spec.podCIDRs[1]: Invalid value: \"10.1.0.0/24-\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
                .to_owned(),
            "spec.podCIDRs: Internal error: invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[1]: <nil> \
             (invalid CIDR address: 10.1.0.0/24-)"
                .to_owned(),
            format!("spec.podCIDRs: Invalid value: [\"10.1.0.0/24\",\"10.1.0.0/24-\"]: {not_one_each}"),
        ]
    );
    let both = ["10.1.0.0/24", "10.2.0.0/24"];
    assert_eq!(node(&both), [format!("spec.podCIDRs: Invalid value: {}: {not_one_each}", json!(both))]);
    assert_eq!(node(&["10.1.0.0/24", "fd00::/64"]), [""; 0]);
    // A single one is compared with none.
    assert_eq!(node(&["x"]).len(), 1);
}

#[test]
fn the_address_of_a_webhook_without_a_scheme_is_no_url() {
    let webhook = |url: &str| {
        let webhook = json!({
            "name": "a.example.com", "clientConfig": {"url": url}, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        });
        let object = json!({"metadata": {"name": "a"}, "webhooks": [webhook]});
        said("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", object)
    };
    assert_eq!(
        webhook("::1#a"),
        [
            "webhooks[0].clientConfig.url: Required value: url must be a valid URL: parse \"::1\": missing protocol scheme; \
          desired format: https://host[/path]"
        ]
    );
    assert_eq!(webhook("https://a/"), [""; 0]);
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
    let hard: serde_json::Map<_, _> = (0..5_000).map(|n| (format!("hugepages-{n}"), json!("1"))).collect();
    let scopes = many(5_000, &json!("BestEffort"));
    let quota = json!({"metadata": {"name": "a"}, "spec": {"hard": hard, "scopes": scopes}});
    let said_of_quota = said("v1", "ResourceQuota", quota);
    assert!(said_of_quota.len() <= 100 && !said_of_quota.is_empty());
}

#[test]
fn expressions_are_limited_in_length() {
    let long = "a".repeat((10 << 10) + 1);
    let class = |expression: &str| {
        let object =
            json!({"metadata": {"name": "a"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}});
        said("resource.k8s.io/v1", "DeviceClass", object)
    };
    assert_eq!(class(&long[1..]), [""; 0]);
    let why = "spec.selectors[0].cel.expression: Too long: may not be more than 10240 bytes";
    assert_eq!(class(&long), [why]);
    let parameters = json!({"metadata": {"name": "a"}, "spec": {"config": [
        {"opaque": {"driver": "a.example", "parameters": {"a": long}}},
    ]}});
    let why = "spec.config[0].opaque.parameters: Too long: may not be more than 10240 bytes";
    assert_eq!(said("resource.k8s.io/v1", "DeviceClass", parameters), [why]);
    let policy = json!({"metadata": {"name": "a"}, "spec": {
        "failurePolicy": "Fail", "matchConstraints": {"resourceRules": [
            {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]},
        ]},
        "auditAnnotations": [{"key": "a", "valueExpression": long}],
    }});
    let why =
        "spec.auditAnnotations[0].valueExpression: Required value: must not exceed 5120 bytes in length";
    assert_eq!(said("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", policy), [why]);
}
