use serde_json::{Value, json};

use super::{assert_cells, object};

const ADMISSION: &str = "admissionregistration.k8s.io/v1";

#[test]
fn webhooks_and_policies_are_counted() {
    let hooks = object(
        ADMISSION,
        "ValidatingWebhookConfiguration",
        "h",
        json!({"webhooks": [{"name": "a"}, {"name": "b"}]}),
    );
    assert_cells("validatingwebhookconfigurations", &hooks, json!(["h", 2, "10d"]));
    let hooks = object(ADMISSION, "MutatingWebhookConfiguration", "h", json!({}));
    assert_cells("mutatingwebhookconfigurations", &hooks, json!(["h", 0, "10d"]));
    let kind = json!({"apiVersion": "example.org/v1", "kind": "Limit"});
    let policy = json!({"spec": {"paramKind": kind, "validations": [{"expression": "true"}]}});
    let policy = object(ADMISSION, "ValidatingAdmissionPolicy", "p", policy);
    assert_cells("validatingadmissionpolicies", &policy, json!(["p", 1, "example.org/v1/Limit", "10d"]));
    let policy = object(ADMISSION, "MutatingAdmissionPolicy", "p", json!({"spec": {"mutations": [{}, {}]}}));
    assert_cells("mutatingadmissionpolicies", &policy, json!(["p", 2, "<unset>", "10d"]));
}

#[test]
fn a_policy_binding_names_its_parameters() {
    let selector = json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["1", "2"]}]});
    let debug = "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:In,Values:[1 2],},},}";
    for (reference, shown) in [
        (json!(null), "<unset>"),
        (json!({"name": "n", "namespace": "demo"}), "demo/n"),
        (json!({"name": "n"}), "*/n"),
        (json!({"selector": selector}), debug),
    ] {
        let binding = json!({"spec": {"policyName": "p", "paramRef": reference}});
        let binding = object(ADMISSION, "ValidatingAdmissionPolicyBinding", "b", binding);
        assert_cells("validatingadmissionpolicybindings", &binding, json!(["b", "p", shown, "10d"]));
    }
}

#[test]
fn a_signing_request_shows_how_far_it_is() {
    let request = |conditions: &[&str], certificate: &str| {
        let conditions: Vec<_> =
            conditions.iter().map(|kind| json!({"type": kind, "status": "True"})).collect();
        let spec = json!({"signerName": "example.org/signer", "username": "jane", "expirationSeconds": 3600, "request": ""});
        let members = json!({"spec": spec, "status": {"conditions": conditions, "certificate": certificate}});
        object("certificates.k8s.io/v1", "CertificateSigningRequest", "r", members)
    };
    let row = |status| json!(["r", "10d", "example.org/signer", "jane", "60m", status]);
    let assert_status =
        |request: Value, status| assert_cells("certificatesigningrequests", &request, row(status));
    assert_status(request(&[], ""), "Pending");
    assert_status(request(&["Approved"], "eA=="), "Approved,Issued");
    assert_status(request(&["Approved", "Denied"], ""), "Denied");
    assert_status(request(&["Approved", "Failed"], ""), "Approved,Failed");
}

#[test]
fn flow_control_shows_its_numbers() {
    let schema = |spec, status| {
        object("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", "f", json!({"spec": spec, "status": status}))
    };
    let spec = json!({"priorityLevelConfiguration": {"name": "high"}, "matchingPrecedence": 100});
    assert_cells("flowschemas", &schema(spec, json!({})), json!(["f", "high", 100, "<none>", "10d", "?"]));
    let spec = json!({"priorityLevelConfiguration": {"name": "high"}, "matchingPrecedence": 100, "distinguisherMethod": {"type": "ByUser"}});
    let dangling = json!({"conditions": [{"type": "Dangling", "status": "False"}]});
    assert_cells("flowschemas", &schema(spec, dangling), json!(["f", "high", 100, "ByUser", "10d", "False"]));

    let level = |spec| {
        object("flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfiguration", "l", json!({"spec": spec}))
    };
    let exempt = json!(["l", "Exempt", "<none>", "<none>", "<none>", "<none>", "10d"]);
    assert_cells("prioritylevelconfigurations", &level(json!({"type": "Exempt"})), exempt);
    let queuing = json!({"queues": 64, "handSize": 6, "queueLengthLimit": 50});
    let limited =
        json!({"nominalConcurrencyShares": 30, "limitResponse": {"type": "Queue", "queuing": queuing}});
    let row = json!(["l", "Limited", 30, 64, 6, 50, "10d"]);
    assert_cells("prioritylevelconfigurations", &level(json!({"type": "Limited", "limited": limited})), row);
}

#[test]
fn an_aggregated_api_says_where_it_is_and_whether_it_answers() {
    let mut api =
        object("apiregistration.k8s.io/v1", "APIService", "v1.", json!({"spec": {"version": "v1"}}));
    assert_cells("apiservices", &api, json!(["v1.", "Local", "Unknown", "10d"]));
    api["spec"]["service"] = json!({"namespace": "kube-system", "name": "metrics"});
    for (status, reason, shown) in [
        ("True", "Passed", "True"),
        ("False", "MissingEndpoints", "False (MissingEndpoints)"),
        ("False", "", "False"),
    ] {
        api["status"] = json!({"conditions": [{"type": "Available", "status": status, "reason": reason}]});
        assert_cells("apiservices", &api, json!(["v1.", "kube-system/metrics", shown, "10d"]));
    }
}

#[test]
fn a_storage_version_lists_three_servers() {
    let version = |versions: Value| {
        let status = json!({"storageVersions": versions, "commonEncodingVersion": "v1"});
        object(
            "internal.apiserver.k8s.io/v1alpha1",
            "StorageVersion",
            "apps.deployments",
            json!({"spec": {}, "status": status}),
        )
    };
    let row = |shown| json!(["apps.deployments", "v1", shown, "10d"]);
    assert_cells("storageversions", &version(json!([])), row("<unset>"));
    let servers: Vec<_> =
        (1..=4).map(|n| json!({"apiServerID": format!("s{n}"), "encodingVersion": "v1"})).collect();
    assert_cells("storageversions", &version(json!(servers)), row("s1=v1,s2=v1,s3=v1 + 1 more..."));
}
