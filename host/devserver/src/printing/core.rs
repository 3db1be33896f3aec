//! The core group, other than pods, volumes and what belongs to the network; events of both groups.

use std::collections::BTreeSet;

use pilothouse_object::human_duration;
use serde_json::Value;

use super::Row;
use super::duration::{age, seconds_between, time};
use super::read::{NONE, count, exists, flag, int, list, map, text, text_or};
use crate::quantity::canonical;

pub(super) fn cells(resource: &str, row: Row<'_>) -> Option<Vec<Value>> {
    let object = row.object;
    Some(match resource {
        "configmaps" => {
            vec![row.name(), (count(object, "/data") + count(object, "/binaryData")).into(), row.age()]
        }
        "secrets" => vec![row.name(), text(object, "/type").into(), count(object, "/data").into(), row.age()],
        "serviceaccounts" => row.name_and_age(),
        "namespaces" => vec![row.name(), text(object, "/status/phase").into(), row.age()],
        "nodes" => node(row),
        "resourcequotas" => resource_quota(row),
        "limitranges" => row.name_and_creation(),
        _ => return None,
    })
}

fn node(row: Row<'_>) -> Vec<Value> {
    let node = row.object;
    // The last condition of a type counts.
    let conditions = list(node, "/status/conditions").iter();
    let mut status = match conditions.rev().find(|condition| text(condition, "/type") == "Ready") {
        None => "Unknown",
        Some(ready) if text(ready, "/status") == "True" => "Ready",
        Some(_) => "NotReady",
    }
    .to_owned();
    if flag(node, "/spec/unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    let address = |wanted| {
        let mut addresses = list(node, "/status/addresses").iter();
        addresses
            .find(|address| text(address, "/type") == wanted)
            .map_or(NONE, |address| text(address, "/address"))
    };
    let mut kernel = text_or(node, "/status/nodeInfo/kernelVersion", "<unknown>").to_owned();
    let architecture = text(node, "/status/nodeInfo/architecture");
    if !architecture.is_empty() {
        kernel = format!("{kernel} ({architecture})");
    }
    vec![
        row.name(),
        status.into(),
        roles(node).into(),
        row.age(),
        text(node, "/status/nodeInfo/kubeletVersion").into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        text_or(node, "/status/nodeInfo/osImage", "<unknown>").into(),
        kernel.into(),
        text_or(node, "/status/nodeInfo/containerRuntimeVersion", "<unknown>").into(),
    ]
}

fn roles(node: &Value) -> String {
    let labels = map(node, "/metadata/labels").into_iter().flatten();
    let roles: BTreeSet<_> = labels
        .filter_map(|(label, value)| match label.strip_prefix("node-role.kubernetes.io/") {
            None if label == "kubernetes.io/role" => value.as_str(),
            role => role,
        })
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() { NONE.to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

fn resource_quota(row: Row<'_>) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in map(row.object, "/status/hard").into_iter().flatten() {
        let used = map(row.object, "/status/used").and_then(|used| used.get(resource));
        let used = used.map_or_else(|| "0".to_owned(), canonical);
        let column = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
        column.push(format!("{resource}: {used}/{}", canonical(hard)));
    }
    vec![row.name(), requests.join(", ").into(), limits.join(", ").into(), row.age()]
}

/// An event of either group; they call the same things by different names.
pub(super) fn event(row: Row<'_>) -> Vec<Value> {
    let event = row.object;
    let either = |core, events| text_or(event, core, text(event, events));
    let since = |text| time(text).map(|time| human_duration(seconds_between(time, row.now)));

    let first = since(either("/firstTimestamp", "/deprecatedFirstTimestamp"));
    let first = first.unwrap_or_else(|| age(Some(text(event, "/eventTime")), row.now));
    let mut last =
        since(either("/lastTimestamp", "/deprecatedLastTimestamp")).unwrap_or_else(|| first.clone());
    let mut count = int(event, "/count").max(int(event, "/deprecatedCount"));
    if exists(event, "/series") {
        last = row.since("/series/lastObservedTime");
        count = int(event, "/series/count");
    } else if count == 0 {
        count = 1;
    }

    let about = either("/involvedObject/kind", "/regarding/kind").to_lowercase();
    let about_name = either("/involvedObject/name", "/regarding/name");
    let about = if about_name.is_empty() { about } else { format!("{about}/{about_name}") };
    let reporter = either("/reportingComponent", "/reportingController");
    let component =
        text_or(event, "/source/component", text_or(event, "/deprecatedSource/component", reporter));
    let instance = text(event, "/reportingInstance");
    let host = text_or(event, "/source/host", text_or(event, "/deprecatedSource/host", instance));
    let source = if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") };
    vec![
        last.into(),
        text(event, "/type").into(),
        text(event, "/reason").into(),
        about.into(),
        either("/involvedObject/fieldPath", "/regarding/fieldPath").into(),
        source.into(),
        either("/message", "/note").trim().into(),
        first.into(),
        count.into(),
        row.name(),
    ]
}
