//! [`Objects`]: what there is on a server, and what of it differs from another.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;

use anyhow::Result;
use pilothouse_tests::Cluster;
use serde_json::Value;

/// The kinds that controllers of kube-controller-manager write.
pub(super) const BUILT_IN: &[&str] = &[
    "apps/v1/Deployment",
    "apps/v1/ReplicaSet",
    "apps/v1/StatefulSet",
    "apps/v1/DaemonSet",
    "apps/v1/ControllerRevision",
    "batch/v1/Job",
    "batch/v1/CronJob",
    "v1/Pod",
    "v1/Service",
    "discovery.k8s.io/v1/EndpointSlice",
    "policy/v1/PodDisruptionBudget",
    "autoscaling/v2/HorizontalPodAutoscaler",
    "v1/ResourceQuota",
    "v1/ServiceAccount",
    "v1/ConfigMap",
];

/// Objects whose names begin so come and go with the minute: they are not compared.
const BY_THE_CLOCK: &str = "tick";

/// The namespace of the test.
const NAMESPACE: &str = "default";

/// The objects of a server.
pub(super) struct Objects(Vec<Value>);

impl Objects {
    /// All objects of some kinds in the namespace of the test, with the events there and all namespaces.
    pub(super) fn read(cluster: &Cluster, kinds: &[&str]) -> Result<Self> {
        let mut objects = Vec::new();
        for kind in kinds {
            for mut object in cluster.list(kind, NAMESPACE)? {
                object["kind"] = kind.rsplit('/').next().unwrap_or_default().into();
                objects.push(object);
            }
        }
        for mut event in cluster.list("v1/Event", NAMESPACE)? {
            event["kind"] = "Event".into();
            objects.push(event);
        }
        for mut namespace in cluster.list("v1/Namespace", "")? {
            namespace["kind"] = "Namespace".into();
            objects.push(namespace);
        }
        Ok(Self(objects))
    }

    /// Those of a kind whose name is `stem` or begins with it and a dash.
    pub(super) fn of<'a>(&'a self, kind: &'a str, stem: &'a str) -> impl Iterator<Item = &'a Value> {
        let begins = move |name: &str| {
            name.strip_prefix(stem).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        self.0.iter().filter(move |object| object["kind"] == kind && begins(name(object)))
    }

    pub(super) fn count(&self, kind: &str, stem: &str) -> usize {
        self.of(kind, stem).count()
    }

    /// Whether an event about an object has this reason.
    pub(super) fn has_event(&self, stem: &str, reason: &str) -> bool {
        self.0.iter().any(|event| {
            let of = event["involvedObject"]["name"].as_str().unwrap_or_default();
            event["reason"] == reason && of.starts_with(stem)
        })
    }

    /// A line an object: its name, the kind of its owner, its status or what else tells how it is.
    pub(super) fn summary(&self) -> String {
        self.0.iter().fold(String::new(), |mut text, object| {
            let owner = &object["metadata"]["ownerReferences"][0]["kind"];
            let state = ["status", "endpoints", "reason"].map(|field| &object[field]);
            let state = state.into_iter().find(|state| !state.is_null()).unwrap_or(&Value::Null);
            let _ = writeln!(text, "{} {} of {owner}: {state}", object["kind"], name(object));
            text
        })
    }

    /// The lines that only one of them has, object by object.
    pub(super) fn difference(&self, other: &Objects) -> String {
        let (own, others) = (self.comparable(), other.comparable());
        let mut text = String::new();
        for id in own.keys().chain(others.keys()).collect::<BTreeSet<_>>() {
            let (own, others) = (lines(own.get(id)), lines(others.get(id)));
            if own == others {
                continue;
            }
            let _ = writeln!(text, "{id}");
            own.difference(&others).for_each(|line| text += &format!("- {line}\n"));
            others.difference(&own).for_each(|line| text += &format!("+ {line}\n"));
        }
        text
    }

    /// What has to be equal, by kind and name.
    fn comparable(&self) -> BTreeMap<String, Vec<String>> {
        let generated = |object: &Value| {
            let stem = object["metadata"]["generateName"].as_str()?;
            Some((name(object).to_owned(), format!("{stem}*")))
        };
        let names: BTreeMap<String, String> = self.0.iter().filter_map(generated).collect();
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for object in self.0.iter().filter(|object| !is_left_out(object)) {
            let mut object = if object["kind"] == "Event" { event(object) } else { object.clone() };
            strip(&mut object);
            without_chance(&mut object, &names);
            let id = format!("{} {}", object["kind"].as_str().unwrap_or_default(), name(&object));
            found.entry(id).or_default().push(serde_json::to_string_pretty(&object).unwrap_or_default());
        }
        for (id, texts) in &mut found {
            texts.sort();
            if id.starts_with("Event") {
                // How often it happened depends on the speed.
                texts.dedup();
            }
        }
        found
    }
}

fn lines(texts: Option<&Vec<String>>) -> BTreeSet<String> {
    let numbered = |(index, text): (usize, &String)| {
        text.lines().map(move |line| format!("{index} {line}")).collect::<Vec<_>>()
    };
    texts.into_iter().flatten().enumerate().flat_map(numbered).collect()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn is_left_out(object: &Value) -> bool {
    let of = object["involvedObject"]["name"].as_str().unwrap_or_default();
    let is_by_the_clock = name(object).starts_with(BY_THE_CLOCK) || of.starts_with(BY_THE_CLOCK);
    // The real API server's own: a Service for its address, and what it says of Services that are new to it at its start.
    let is_of_the_server = object["kind"] == "Service" && name(object) == "kubernetes"
        || object["reason"] == "ClusterIPNotAllocated";
    is_by_the_clock || is_of_the_server
}

/// Of an event: about which object it is, and why.
fn event(object: &Value) -> Value {
    let involved = &object["involvedObject"];
    let of = involved["name"].as_str().unwrap_or_default();
    serde_json::json!({
        "kind": "Event",
        "metadata": {"name": format!("{} {of}: {}", involved["kind"], object["reason"])},
        "type": object["type"],
        "source": object["source"],
    })
}

/// Removes what the server gives by chance, and what depends on the order in which controllers act.
fn strip(object: &mut Value) {
    // A rollout scales and lists pods in steps that depend on which are ready when.
    let counts_steps = ["ReplicaSet", "EndpointSlice"].iter().any(|kind| object["kind"] == *kind);
    let is_namespace = object["kind"] == "Namespace";
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["uid", "resourceVersion", "creationTimestamp"] {
            metadata.remove(field);
        }
        for entry in metadata.get_mut("managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
            // On the real server that of the scale subresource has none.
            entry.as_object_mut().and_then(|entry| entry.remove("time"));
        }
        if is_namespace {
            // The real server writes its own namespaces as a client.
            metadata.remove("managedFields");
        }
        if counts_steps {
            metadata.remove("generation");
        }
    }
    if counts_steps && let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("observedGeneration");
    }
}

/// Replaces times, UIDs, addresses and generated names.
fn without_chance(value: &mut Value, names: &BTreeMap<String, String>) {
    match value {
        Value::Object(map) => {
            // In managed fields: items of lists by their UIDs and addresses.
            let by_chance =
                |key: &&String| ["k:{\"uid\":", "k:{\"ip\":"].iter().any(|start| key.starts_with(start));
            let keys: Vec<String> = map.keys().filter(by_chance).cloned().collect();
            for (index, key) in keys.iter().enumerate() {
                let value = map.remove(key).unwrap_or_default();
                map.insert(format!("k: {index}"), value);
            }
            for (key, value) in map.iter_mut() {
                without_chance(value, names);
                // Their order is that of the controllers.
                if ["conditions", "endpoints", "managedFields"].contains(&&**key)
                    && let Some(list) = value.as_array_mut()
                {
                    list.sort_by_key(ToString::to_string);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| without_chance(value, names)),
        Value::String(text) => {
            let new = match &**text {
                text if text.parse::<jiff::Timestamp>().is_ok() => "TIME".to_owned(),
                text if text.parse::<IpAddr>().is_ok() => "ADDRESS".to_owned(),
                text if is_uid(text) => "UID".to_owned(),
                text if text.starts_with("-----BEGIN CERTIFICATE") => "CERTIFICATE".to_owned(),
                text => names.get(text).cloned().unwrap_or_else(|| text.to_owned()),
            };
            *text = new;
        }
        _ => {}
    }
}

fn is_uid(text: &str) -> bool {
    text.len() == 36 && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}
