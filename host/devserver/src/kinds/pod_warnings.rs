//! What a server warns of in a Pod, or in the template of Pods.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

const NODE_LABELS: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

const ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

/// Kinds of volumes that are deprecated, and what is said of them.
const VOLUMES: [(&str, &str); 9] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value[field].as_array().into_iter().flatten()
}

fn node_label(name: &str) -> Option<&'static str> {
    NODE_LABELS.iter().find(|(label, _)| *label == name).map(|(_, why)| *why)
}

/// Deprecated labels in the terms of a node selector.
pub(super) fn node_terms(path: &str, terms: &Value, warnings: &mut Vec<String>) {
    for (index, term) in terms.as_array().into_iter().flatten().enumerate() {
        node_term(&format!("{path}[{index}]"), term, warnings);
    }
}

fn node_term(path: &str, term: &Value, warnings: &mut Vec<String>) {
    for (index, expression) in list(term, "matchExpressions").enumerate() {
        let key = expression["key"].as_str().unwrap_or_default();
        if let Some(why) = node_label(key) {
            warnings.push(format!("{path}.matchExpressions[{index}].key: {key} is {why}"));
        }
    }
}

/// A kind of volume that is deprecated.
pub(super) fn old_volume(path: &str, volume: &Value, warnings: &mut Vec<String>) {
    for (kind, why) in VOLUMES {
        if volume[kind].is_object() {
            warnings.push(format!("{path}.{kind}: {why}"));
        }
    }
}

/// An amount of bytes that is no whole number.
pub(super) fn fraction(path: &str, resource: &str, amount: &Value, warnings: &mut Vec<String>) {
    if let Some(amount) = amount.as_str().filter(|amount| amount.ends_with(['m', 'u', 'n'])) {
        warnings.push(format!(
            "{path}[{resource}]: fractional byte value {amount:?} is invalid, must be an integer"
        ));
    }
}

/// The warnings of a Pod (at an empty path) or of a template at a path.
pub(super) fn of(path: &str, metadata: &Value, spec: &Value) -> Vec<String> {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    let annotations = &metadata["annotations"];
    let (in_spec, in_annotations) = (below("spec"), below("metadata.annotations"));
    let mut warnings = Vec::new();
    scheduling(&in_spec, spec, &mut warnings);
    for (name, why) in ANNOTATIONS {
        if annotations.get(name).is_some() {
            warnings.push(format!("{in_annotations}[{name}]: {why}"));
        }
    }
    for (index, volume) in list(spec, "volumes").enumerate() {
        old_volume(&format!("{in_spec}.volumes[{index}]"), volume, &mut warnings);
    }
    doubles(&in_spec, spec, &mut warnings);
    for resource in ["memory", "ephemeral-storage"] {
        fraction(&format!("{in_spec}.overhead"), resource, &spec["overhead"][resource], &mut warnings);
    }
    let seccomp = "seccomp.security.alpha.kubernetes.io/pod";
    if spec["securityContext"]["seccompProfile"].is_null() && annotations.get(seccomp).is_some() {
        let why = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
        warnings.push(format!("{in_annotations}[{seccomp}]: {why}"));
    }
    let containers: Vec<(String, &Value)> = ["initContainers", "containers", "ephemeralContainers"]
        .iter()
        .flat_map(|name| {
            let path = format!("{in_spec}.{name}");
            list(spec, name)
                .enumerate()
                .map(move |(index, container)| (format!("{path}[{index}]"), container))
        })
        .collect();
    for (path, container) in &containers {
        for kind in ["limits", "requests"] {
            let path = format!("{path}.resources.{kind}");
            fraction(&path, "memory", &container["resources"][kind]["memory"], &mut warnings);
        }
        for kind in ["limits", "requests"] {
            let path = format!("{path}.resources.{kind}");
            let amount = &container["resources"][kind]["ephemeral-storage"];
            fraction(&path, "ephemeral-storage", amount, &mut warnings);
        }
        environment(path, container, &mut warnings);
    }
    ports(&containers, &mut warnings);
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        let why = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.push(format!("{in_spec}.terminationGracePeriodSeconds: {why}"));
    }
    pod_affinity(&in_spec, spec, &mut warnings);
    warnings
}

const NULL_SELECTOR: &str = "a null labelSelector results in matching no pod";

fn scheduling(path: &str, spec: &Value, warnings: &mut Vec<String>) {
    for name in spec["nodeSelector"].as_object().into_iter().flatten().map(|(name, _)| name) {
        if let Some(why) = node_label(name) {
            warnings.push(format!("{path}.nodeSelector[{name}]: {why}"));
        }
    }
    let (required, preferred) =
        ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution");
    let affinity = &spec["affinity"]["nodeAffinity"];
    let in_affinity = format!("{path}.affinity.nodeAffinity");
    let terms = &affinity[required]["nodeSelectorTerms"];
    node_terms(&format!("{in_affinity}.{required}.nodeSelectorTerms"), terms, warnings);
    for (index, term) in list(affinity, preferred).enumerate() {
        node_term(&format!("{in_affinity}.{preferred}[{index}].preference"), &term["preference"], warnings);
    }
    for (index, constraint) in list(spec, "topologySpreadConstraints").enumerate() {
        let path = format!("{path}.topologySpreadConstraints[{index}]");
        let key = constraint["topologyKey"].as_str().unwrap_or_default();
        if let Some(why) = node_label(key) {
            warnings.push(format!("{path}.topologyKey: {key} is {why}"));
        }
        if constraint["labelSelector"].is_null() {
            warnings.push(format!("{path}.labelSelector: {NULL_SELECTOR}"));
        }
    }
}

fn pod_affinity(path: &str, spec: &Value, warnings: &mut Vec<String>) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let affinity = &spec["affinity"][kind];
        for (list_name, inner) in [
            ("requiredDuringSchedulingIgnoredDuringExecution", ""),
            ("preferredDuringSchedulingIgnoredDuringExecution", "podAffinityTerm"),
        ] {
            for (index, term) in list(affinity, list_name).enumerate() {
                let (term, inner) = if inner.is_empty() {
                    (term, String::new())
                } else {
                    (&term[inner], format!(".{inner}"))
                };
                if term["labelSelector"].is_null() {
                    warnings.push(format!(
                        "{path}.affinity.{kind}.{list_name}[{index}]{inner}.labelSelector: {NULL_SELECTOR}"
                    ));
                }
            }
        }
    }
}

/// Elements of lists that have the key of an earlier one.
fn doubles(path: &str, spec: &Value, warnings: &mut Vec<String>) {
    for (name, key) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let mut seen = HashSet::new();
        for (index, element) in list(spec, name).enumerate() {
            let value = element[key].as_str().unwrap_or_default();
            if !seen.insert(value) {
                warnings.push(format!("{path}.{name}[{index}].{key}: duplicate {key} {value:?}"));
            }
        }
    }
    for (index, secret) in list(spec, "imagePullSecrets").enumerate() {
        if secret["name"].as_str().unwrap_or_default().is_empty() {
            warnings.push(format!("{path}.imagePullSecrets[{index}].name: invalid empty name \"\""));
        }
    }
}

/// Variables that hide an earlier one of their name and do not refer to it.
fn environment(path: &str, container: &Value, warnings: &mut Vec<String>) {
    let mut seen = HashSet::new();
    for (index, variable) in list(container, "env").enumerate() {
        let name = variable["name"].as_str().unwrap_or_default();
        if seen.insert(name) {
            continue;
        }
        let (reference, value) = (format!("$({name})"), variable["value"].as_str().unwrap_or_default());
        if !variable["valueFrom"].is_null() || value == reference || !value.contains(&reference) {
            warnings.push(format!(
                "{path}.env[{index}]: hides previous definition of {name:?}, which may be dropped when using apply"
            ));
        }
    }
}

/// A port of a container: where it is, and its port and address on the host.
type Port<'a> = (String, i64, &'a str);

fn ports(containers: &[(String, &Value)], warnings: &mut Vec<String>) {
    let mut all: HashMap<(i64, &str), Vec<Port<'_>>> = HashMap::new();
    let each = || {
        containers.iter().flat_map(|(path, container)| {
            list(container, "ports")
                .enumerate()
                .map(move |(index, port)| (format!("{path}.ports[{index}]"), port))
        })
    };
    for (path, port) in each() {
        let text = |field: &str| port[field].as_str().unwrap_or_default();
        let number = |field: &str| port[field].as_i64().unwrap_or_default();
        let (ip, host) = (text("hostIP"), number("hostPort"));
        if !ip.is_empty() && host == 0 {
            warnings.push(format!(
                "{path}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{} Protocol:{} HostIP:{ip}}}",
                text("name"),
                number("containerPort"),
                text("protocol"),
            ));
        }
        let others = all.entry((number("containerPort"), text("protocol"))).or_default();
        for (other, other_host, other_ip) in others.iter() {
            if ip == *other_ip && host == *other_host {
                warnings.push(format!("{path}: duplicate port definition with {other}"));
            } else if host == 0 || *other_host == 0 {
                warnings.push(format!("{path}: overlapping port definition with {other}"));
            } else if host == *other_host && ip.is_empty() != other_ip.is_empty() {
                warnings.push(format!("{path}: dangerously ambiguous port definition with {other}"));
            }
        }
        others.push((path, host, ip));
    }
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    for (path, port) in each() {
        let name = port["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            continue;
        }
        if let Some(other) = names.get(name) {
            warnings.push(format!(
                "{path}: duplicate port name {name:?} with {other}, services and probes that select ports by name will use \
                 {other}"
            ));
        } else {
            names.insert(name, path);
        }
    }
}
