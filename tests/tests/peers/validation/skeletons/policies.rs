//! Skeletons of admission policies and of their bindings.

use serde_json::{Value, json};

use super::{Skeleton, in_group, of};

const VERSION: &str = "admissionregistration.k8s.io/v1";

fn matched() -> Value {
    let rule = json!({
        "resourceNames": ["a", "b"], "operations": ["CREATE", "UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"],
        "resources": ["deployments", "deployments/scale"], "scope": "Namespaced",
    });
    json!({
        "matchPolicy": "Equivalent", "namespaceSelector": {"matchLabels": {"a": "b"}},
        "objectSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
        "resourceRules": [rule], "excludeResourceRules": [rule],
    })
}

fn parameters() -> [Value; 2] {
    [
        json!({"name": "a", "namespace": "default", "parameterNotFoundAction": "Deny"}),
        json!({"selector": {"matchLabels": {"a": "b"}}, "parameterNotFoundAction": "Allow"}),
    ]
}

pub(super) fn policies() -> Vec<Skeleton> {
    let [named, selected] = parameters();
    let policies = in_group!("admissionregistration.k8s.io/v1", "validatingadmissionpolicies");
    let mutating = in_group!("admissionregistration.k8s.io/v1", "mutatingadmissionpolicies");
    let bindings = in_group!("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings");
    let mutating_bindings = in_group!("admissionregistration.k8s.io/v1", "mutatingadmissionpolicybindings");
    let conditions = json!([
        {"name": "first", "expression": "request.userInfo.username != 'a'"},
        {"name": "example.com/second", "expression": "true"},
    ]);
    let variables = json!([{"name": "size", "expression": "1"}, {"name": "other_2", "expression": "'a'"}]);
    let validation = json!({
        "expression": "object.spec.replicas < 5", "message": "too many", "reason": "Invalid",
        "messageExpression": "'a' + 'b'",
    });
    vec![
        of(
            policies,
            VERSION,
            "ValidatingAdmissionPolicy",
            "policy",
            &json!({"spec": {
                "failurePolicy": "Fail", "matchConstraints": matched(), "matchConditions": conditions,
                "paramKind": {"apiVersion": "rules.example.com/v1", "kind": "Limit"}, "variables": variables,
                "validations": [validation, {"expression": "true", "message": "a"}],
                "auditAnnotations": [
                    {"key": "seen", "valueExpression": "'a'"}, {"key": "other.key", "valueExpression": "string(1)"},
                ],
            }}),
        ),
        of(
            policies,
            VERSION,
            "ValidatingAdmissionPolicy",
            "small",
            &json!({"spec": {
                "matchConstraints": {"resourceRules": [{
                    "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"],
                }]},
                "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
                "validations": [{"expression": "true"}],
            }}),
        ),
        of(
            mutating,
            VERSION,
            "MutatingAdmissionPolicy",
            "policy",
            &json!({"spec": {
                "failurePolicy": "Ignore", "reinvocationPolicy": "IfNeeded", "matchConstraints": matched(),
                "matchConditions": conditions, "variables": variables,
                "paramKind": {"apiVersion": "rules.example.com/v1", "kind": "Limit"},
                "mutations": [
                    {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'remove', path: '/spec/a'}]"}},
                    {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}},
                ],
            }}),
        ),
        of(
            bindings,
            VERSION,
            "ValidatingAdmissionPolicyBinding",
            "binding",
            &json!({"spec": {
                "policyName": "policy", "paramRef": named, "matchResources": matched(), "validationActions": ["Audit", "Deny"],
            }}),
        ),
        of(
            bindings,
            VERSION,
            "ValidatingAdmissionPolicyBinding",
            "selecting",
            &json!({"spec": {"policyName": "policy", "paramRef": selected, "validationActions": ["Warn"]}}),
        ),
        of(
            mutating_bindings,
            VERSION,
            "MutatingAdmissionPolicyBinding",
            "binding",
            &json!({"spec": {"policyName": "policy", "paramRef": named, "matchResources": matched()}}),
        ),
        of(
            mutating_bindings,
            VERSION,
            "MutatingAdmissionPolicyBinding",
            "selecting",
            &json!({"spec": {"policyName": "policy", "paramRef": selected}}),
        ),
    ]
}
