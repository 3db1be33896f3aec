//! The API itself: admission, certificates, flow control, CRDs and aggregated APIs.

use pilothouse_object::human_duration;
use serde_json::Value;

use super::Row;
use super::read::{
    NONE, UNSET, condition, count, exists, int, list, map, name, optional_text, text, text_or, texts,
};

pub(super) fn cells(resource: &str, row: Row<'_>) -> Option<Vec<Value>> {
    let object = row.object;
    Some(match resource {
        "mutatingwebhookconfigurations" | "validatingwebhookconfigurations" => {
            vec![row.name(), count(object, "/webhooks").into(), row.age()]
        }
        "validatingadmissionpolicies" => admission_policy(row, "/spec/validations"),
        "mutatingadmissionpolicies" => admission_policy(row, "/spec/mutations"),
        "validatingadmissionpolicybindings" | "mutatingadmissionpolicybindings" => {
            admission_policy_binding(row)
        }
        "certificatesigningrequests" => certificate_signing_request(row),
        "flowschemas" => flow_schema(row),
        "prioritylevelconfigurations" => priority_level(row),
        "customresourcedefinitions" => row.name_and_creation(),
        "apiservices" => api_service(row),
        "storageversions" => storage_version(row),
        "storageversionmigrations" => storage_version_migration(row),
        "clustertrustbundles" => vec![row.name(), text(row.object, "/spec/signerName").into()],
        "podcertificaterequests" => pod_certificate_request(row),
        _ => return None,
    })
}

fn admission_policy(row: Row<'_>, rules: &str) -> Vec<Value> {
    let policy = row.object;
    let parameters = if exists(policy, "/spec/paramKind") {
        format!("{}/{}", text(policy, "/spec/paramKind/apiVersion"), text(policy, "/spec/paramKind/kind"))
    } else {
        UNSET.to_owned()
    };
    vec![row.name(), count(policy, rules).into(), parameters.into(), row.age()]
}

fn admission_policy_binding(row: Row<'_>) -> Vec<Value> {
    let binding = row.object;
    let parameters = match text(binding, "/spec/paramRef/name") {
        "" if exists(binding, "/spec/paramRef/selector") => {
            debug_selector(&binding["spec"]["paramRef"]["selector"])
        }
        "" => UNSET.to_owned(),
        name => format!("{}/{name}", text_or(binding, "/spec/paramRef/namespace", "*")),
    };
    vec![row.name(), text(binding, "/spec/policyName").into(), parameters.into(), row.age()]
}

/// A label selector as the server's generated code writes it for debugging.
fn debug_selector(selector: &Value) -> String {
    let labels = map(selector, "/matchLabels").into_iter().flatten();
    let labels: String =
        labels.map(|(name, value)| format!("{name}: {},", value.as_str().unwrap_or_default())).collect();
    let expressions = list(selector, "/matchExpressions").iter().map(|expression| {
        let (key, operator) = (text(expression, "/key"), text(expression, "/operator"));
        let values = texts(expression, "/values").join(" ");
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
    });
    let expressions: String = expressions.collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

fn certificate_signing_request(row: Row<'_>) -> Vec<Value> {
    let request = row.object;
    let has = |wanted| condition(request, "/status/conditions", wanted).is_some();
    let mut status = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        status.push_str(",Failed");
    }
    if !text(request, "/status/certificate").is_empty() {
        status.push_str(",Issued");
    }
    let requested = request.pointer("/spec/expirationSeconds").and_then(Value::as_i64);
    vec![
        row.name(),
        row.age(),
        text_or(request, "/spec/signerName", NONE).into(),
        text(request, "/spec/username").into(),
        requested.map_or_else(|| NONE.to_owned(), human_duration).into(),
        status.into(),
    ]
}

fn flow_schema(row: Row<'_>) -> Vec<Value> {
    let schema = row.object;
    let by = exists(schema, "/spec/distinguisherMethod");
    let dangling = condition(schema, "/status/conditions", "Dangling");
    vec![
        row.name(),
        text(schema, "/spec/priorityLevelConfiguration/name").into(),
        int(schema, "/spec/matchingPrecedence").into(),
        if by { text(schema, "/spec/distinguisherMethod/type") } else { NONE }.into(),
        row.age(),
        dangling.map_or("?", |condition| text(condition, "/status")).into(),
    ]
}

fn priority_level(row: Row<'_>) -> Vec<Value> {
    let level = row.object;
    let of = |part, pointer| -> Value {
        if exists(level, part) { int(level, pointer).into() } else { NONE.into() }
    };
    let queuing = "/spec/limited/limitResponse/queuing";
    vec![
        row.name(),
        text(level, "/spec/type").into(),
        of("/spec/limited", "/spec/limited/nominalConcurrencyShares"),
        of(queuing, "/spec/limited/limitResponse/queuing/queues"),
        of(queuing, "/spec/limited/limitResponse/queuing/handSize"),
        of(queuing, "/spec/limited/limitResponse/queuing/queueLengthLimit"),
        row.age(),
    ]
}

fn api_service(row: Row<'_>) -> Vec<Value> {
    let api = row.object;
    let service = if exists(api, "/spec/service") {
        format!("{}/{}", text(api, "/spec/service/namespace"), text(api, "/spec/service/name"))
    } else {
        "Local".to_owned()
    };
    let available = condition(api, "/status/conditions", "Available").map_or_else(
        || "Unknown".to_owned(),
        |available| match (text(available, "/status"), text(available, "/reason")) {
            ("True", _) => "True".to_owned(),
            (status, "") => status.to_owned(),
            (status, reason) => format!("{status} ({reason})"),
        },
    );
    vec![row.name(), service.into(), available.into(), row.age()]
}

/// Whether a condition of the status is true.
fn has(row: Row<'_>, kind: &str) -> bool {
    condition(row.object, "/status/conditions", kind).is_some_and(|c| c["status"] == "True")
}

fn pod_certificate_request(row: Row<'_>) -> Vec<Value> {
    let of = |pointer| -> Value { text(row.object, pointer).into() };
    let state = ["Issued", "Denied", "Failed"].into_iter().find(|kind| has(row, kind));
    let annotations = map(row.object, "/spec/unverifiedUserAnnotations").into_iter().flatten();
    let annotations =
        annotations.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()));
    vec![
        row.name(),
        of("/spec/podName"),
        of("/spec/serviceAccountName"),
        of("/spec/nodeName"),
        of("/spec/signerName"),
        state.unwrap_or("Pending").into(),
        annotations.collect::<Vec<_>>().join(",").into(),
    ]
}

fn storage_version_migration(row: Row<'_>) -> Vec<Value> {
    let of = |pointer| text(row.object, pointer);
    let resource = match of("/spec/resource/group") {
        "" => of("/spec/resource/resource").to_owned(),
        group => format!("{}.{group}", of("/spec/resource/resource")),
    };
    let state = ["Succeeded", "Failed", "Running"].into_iter().find(|kind| has(row, kind));
    vec![row.name(), resource.into(), state.unwrap_or_default().into()]
}

fn storage_version(row: Row<'_>) -> Vec<Value> {
    const SHOWN: usize = 3;
    let versions = list(row.object, "/status/storageVersions").iter();
    let versions = versions.map(|v| format!("{}={}", text(v, "/apiServerID"), text(v, "/encodingVersion")));
    let versions = super::read::at_most(SHOWN, &versions.collect::<Vec<_>>());
    vec![
        name(row.object).into(),
        optional_text(row.object, "/status/commonEncodingVersion").unwrap_or(UNSET).into(),
        if versions.is_empty() { UNSET } else { &versions }.into(),
        row.age(),
    ]
}
