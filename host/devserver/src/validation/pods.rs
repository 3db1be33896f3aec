//! The spec of Pods, of templates of them, and the annotations that say the same.

use std::collections::HashSet;

use serde_json::Value;

use super::addresses::ip_address;
use super::containers::{Surroundings, containers, ephemeral_containers, image_alone, init_containers};
use super::metadata::{annotations, labels};
use super::node::{Node, field};
use super::paths::descending;
use super::resources::{ResourcesOf, amount, overhead, requirements};
use super::scheduling::{affinity, spread_constraints, tolerations};
use super::security;
use super::volumes::{Volumes, volumes};
use crate::api::{JsonMap, syntax};
use crate::schema::{Causes, shown};

const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// A Pod, which a server is about to store; `is_new` if there was none before.
pub(super) fn pod(object: &JsonMap, is_new: bool, causes: &mut Causes) {
    let (metadata, spec) = (field(object, "metadata"), field(object, "spec"));
    pod_annotations(&metadata.field("annotations"), &spec, causes);
    pod_spec(&spec, Some(&metadata), causes);
    // A projected token without a service account is not refused: on a cluster, admission has filled in the account by now.
    for list in ["containers", "initContainers"] {
        spec.field(list).each().for_each(|container| image_alone(&container, causes));
    }
    if !is_new {
        return;
    }
    if !spec.field("ephemeralContainers").is_empty() {
        spec.field("ephemeralContainers").forbidden(causes, "cannot be set on create");
    }
    if !spec.field("nodeName").text().is_empty() && !spec.field("schedulingGates").is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        spec.field("nodeName").forbidden(causes, why);
    }
}

/// A template of Pods.
pub(super) fn template(template: &Node<'_, '_>, causes: &mut Causes) {
    template_with(template, &template.field("spec"), causes);
}

/// A template of Pods whose spec is not quite its own.
pub(super) fn template_with(template: &Node<'_, '_>, spec: &Node<'_, '_>, causes: &mut Causes) {
    let metadata = template.field("metadata");
    // Causes leave out that they are in the metadata.
    labels(&metadata.field("labels").placed(&template.field("labels")), causes);
    let own_annotations = metadata.field("annotations").placed(&template.field("annotations"));
    annotations(&own_annotations, causes);
    pod_annotations(&own_annotations, spec, causes);
    pod_spec(spec, None, causes);
    if !spec.field("ephemeralContainers").is_empty() {
        spec.field("ephemeralContainers")
            .forbidden(causes, "ephemeral containers not allowed in pod template");
    }
}

/// Annotations of a Pod that mean something to the server.
fn pod_annotations(annotations: &Node<'_, '_>, spec: &Node<'_, '_>, causes: &mut Causes) {
    let mirror = annotations.key(MIRROR);
    if mirror.is_set() && spec.field("nodeName").text().is_empty() {
        mirror.invalid(causes, "must set spec.nodeName if mirror pod annotation is set");
    }
    let cost = annotations.key(DELETION_COST);
    if cost.is_set() && !is_cost(cost.text()) {
        cost.invalid(causes, "must be a 32bit integer");
    }
    let mut names = None;
    for (key, profile) in annotations.entries() {
        if key == "seccomp.security.alpha.kubernetes.io/pod"
            || key.starts_with("container.seccomp.security.alpha.kubernetes.io/")
        {
            seccomp_annotation(key, &profile, annotations, causes);
        }
        if let Some(name) = key.strip_prefix("container.apparmor.security.beta.kubernetes.io/") {
            let names = names.get_or_insert_with(|| container_names(spec));
            if !names.contains(name) {
                profile.invalid_as(causes, &name.into(), "container not found");
            }
            let text = profile.text();
            if !matches!(text, "" | "runtime/default" | "unconfined") && !text.starts_with("localhost/") {
                profile.invalid(causes, &format!("invalid AppArmor profile name: {text:?}"));
            }
        }
    }
}

fn container_names<'v>(spec: &Node<'_, 'v>) -> HashSet<&'v str> {
    let lists = LISTS.iter().filter_map(|list| spec.value().get(*list)?.as_array()).flatten();
    lists.filter_map(|container| container.get("name")?.as_str()).collect()
}

/// A number without a sign or zeros in front.
fn is_cost(text: &str) -> bool {
    let plain = text.strip_prefix('-').unwrap_or(text);
    !text.starts_with('+') && (text == "0" || !plain.starts_with('0')) && text.parse::<i32>().is_ok()
}

fn seccomp_annotation(key: &str, profile: &Node<'_, '_>, annotations: &Node<'_, '_>, causes: &mut Causes) {
    let at = annotations.field(key);
    let text = profile.text();
    if let Some(path) = text.strip_prefix("localhost/") {
        let path = Value::from(path);
        descending(&at, &Node::standing(&path, &at), causes);
    } else if !matches!(text, "runtime/default" | "docker/default" | "unconfined") {
        at.invalid_as(causes, &text.into(), "must be a valid seccomp profile");
    }
}

/// The spec of a Pod; `metadata` is that of a Pod and not of a template.
pub(super) fn pod_spec(spec: &Node<'_, '_>, metadata: Option<&Node<'_, '_>>, causes: &mut Causes) {
    let grace = spec.field("terminationGracePeriodSeconds");
    if !grace.is_set() {
        grace.required(causes, "");
    }
    let pod_name = metadata.map(|metadata| metadata.value()["name"].as_str().unwrap_or_default());
    let known: Volumes<'_> = volumes(&spec.field("volumes"), pod_name, causes);
    let claims = resource_claims(&spec.field("resourceClaims"), causes);
    let host_users = spec.field("hostUsers");
    let around = Surroundings {
        volumes: &known,
        claims: &claims,
        grace: grace.int(),
        restart_policy: spec.field("restartPolicy").text(),
        host_users: !host_users.is_set() || host_users.flag(),
    };
    let (regular, init) = (spec.field("containers"), spec.field("initContainers"));
    containers(&regular, &around, causes);
    init_containers(&init, &regular, &around, causes);
    ephemeral_containers(&spec.field("ephemeralContainers"), [&regular, &init], &around, causes);
    pod_resources(spec, &claims, causes);
    host_network(spec, metadata.is_some(), causes);
    spec.field("restartPolicy").given_one_of(causes, &["Always", "OnFailure", "Never"]);
    spec.field("dnsPolicy")
        .given_one_of(causes, &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]);
    labels(&spec.field("nodeSelector"), causes);
    security::pod(&spec.field("securityContext"), spec, causes);
    affinity(&spec.field("affinity"), causes);
    dns(&spec.field("dnsConfig"), spec.field("dnsPolicy").text(), causes);
    for gate in spec.field("readinessGates").each() {
        let kind = gate.field("conditionType");
        kind.faults(causes, syntax::qualified_name(kind.text()));
    }
    scheduling_gates(&spec.field("schedulingGates"), causes);
    spread_constraints(&spec.field("topologySpreadConstraints"), causes);
    users(spec, causes);
    names(spec, causes);
    tolerations(&spec.field("tolerations"), causes);
    for alias in spec.field("hostAliases").each() {
        ip_address(&alias.field("ip"), causes);
        for name in alias.field("hostnames").each() {
            name.faults(causes, syntax::dns_subdomain(name.text()));
        }
    }
    spec.field("priorityClassName").if_given(causes, syntax::dns_subdomain);
    spec.field("runtimeClassName").if_set(causes, syntax::dns_subdomain);
    let preemption = spec.field("preemptionPolicy");
    if preemption.is_set() {
        preemption.given_one_of(causes, &["PreemptLowerPriority", "Never"]);
    }
    let costs = spec.field("overhead");
    if costs.is_set() {
        overhead(&costs, &costs.placed(&costs.field("limits")), causes);
    }
    operating_system(spec, causes);
    file_keys(spec, causes);
}

fn resource_claims<'v>(claims: &Node<'_, 'v>, causes: &mut Causes) -> HashSet<&'v str> {
    let mut names = HashSet::new();
    for claim in claims.each() {
        let name = claim.field("name");
        if name.text().is_empty() {
            name.required(causes, "");
        } else if names.insert(name.text()) {
            name.faults(causes, syntax::dns_label(name.text()));
        } else {
            name.duplicate(causes);
        }
        let (own, template) = (claim.field("resourceClaimName"), claim.field("resourceClaimTemplateName"));
        match (own.is_set(), template.is_set()) {
            (true, true) => {
                let why =
                    "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                claim.invalid(causes, why);
            }
            (false, false) => {
                let why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                claim.invalid(causes, why);
            }
            _ => {}
        }
        own.if_set(causes, syntax::dns_subdomain);
        template.if_set(causes, syntax::dns_subdomain);
    }
    names
}

/// What the Pod as a whole asks for.
fn pod_resources(spec: &Node<'_, '_>, claims: &HashSet<&str>, causes: &mut Causes) {
    let resources = spec.field("resources");
    if !resources.is_set() {
        return;
    }
    if spec.field("os").field("name").text() == "windows" {
        resources.forbidden(causes, "may not be set for a windows pod");
        return;
    }
    if resources.field("claims").is_set() {
        resources.field("claims").forbidden(causes, "claims may not be set for Resources at pod-level");
    }
    requirements(ResourcesOf::Pod, &resources, claims, causes);
    // How much its containers may ask for together.
    let limits = resources.field("limits");
    for container in spec.field("containers").each() {
        for (name, limit) in container.field("resources").field("limits").entries() {
            let most = limits.key(name);
            if most.is_set() && amount(&limit) > amount(&most) {
                let why = format!("must be less than or equal to pod limits of {}", most.text());
                let (list, index) = (resources.field("containers"), container.position());
                let element = list.index(index);
                let resource = element.key(name);
                resource.field("limits").invalid_as(causes, limit.value(), &why);
            }
        }
    }
}

/// On the node's network a container's port is the node's.
fn host_network(spec: &Node<'_, '_>, is_pod: bool, causes: &mut Causes) {
    if !spec.field("hostNetwork").flag() {
        return;
    }
    for container in spec.field("containers").each() {
        for port in container.field("ports").each() {
            let (host, own) = (port.field("hostPort"), port.field("containerPort"));
            if (is_pod || host.int_or_zero() != 0) && host.int_or_zero() != own.int_or_zero() {
                host.invalid_number(causes, "must match `containerPort` when `hostNetwork` is true");
            }
        }
    }
}

fn dns(config: &Node<'_, '_>, policy: &str, causes: &mut Causes) {
    let servers = config.field("nameservers");
    if policy == "None" {
        if !config.is_set() {
            return config.required(causes, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if servers.is_empty() {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return servers.required(causes, why);
        }
    }
    if servers.len() > 3 {
        servers.invalid(causes, "must not have more than 3 nameservers");
    }
    for server in servers.each() {
        ip_address(&server, causes);
    }
    let searches = config.field("searches");
    if searches.len() > 32 {
        searches.invalid(causes, "must not have more than 32 search paths");
    }
    let letters = searches.texts().map(|search| search.len() + 1).sum::<usize>().saturating_sub(1);
    if letters > 2048 {
        let why = "must not have more than 2048 characters (including spaces) in the search list";
        searches.invalid(causes, why);
    }
    for search in searches.each().filter(|search| search.text() != ".") {
        let name = search.text().strip_suffix('.').unwrap_or(search.text());
        search.faults_of(causes, name, syntax::dns_subdomain_with_underscores(name));
    }
    for option in config.field("options").each() {
        if option.field("name").text().is_empty() {
            option.required(causes, "must not be empty");
        }
    }
}

fn scheduling_gates(gates: &Node<'_, '_>, causes: &mut Causes) {
    let mut seen = HashSet::new();
    for gate in gates.each() {
        let name = gate.field("name").text();
        gate.faults_of(causes, name, syntax::qualified_name(name));
        if !seen.insert(name) {
            gate.duplicate_as(causes, &shown(&name.into()), "");
        }
    }
}

/// A Pod with users of its own shares less with its node.
fn users(spec: &Node<'_, '_>, causes: &mut Causes) {
    const WHY: &str = "when `hostUsers` is false";
    let own = spec.field("hostUsers");
    if !own.is_set() || own.flag() {
        return;
    }
    for (field, named) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.field(field).flag() {
            spec.field(named).forbidden(causes, WHY);
        }
    }
    for list in LISTS.map(|list| spec.field(list)) {
        for container in list.each().filter(|container| !container.field("volumeDevices").is_empty()) {
            container.field("volumeDevices").forbidden(causes, WHY);
        }
    }
}

fn names(spec: &Node<'_, '_>, causes: &mut Causes) {
    let host = spec.field("hostnameOverride");
    if host.is_set() {
        if spec.field("setHostnameAsFQDN").flag() {
            host.forbidden(causes, "may not be specified when setHostnameAsFQDN is true");
        }
        if spec.field("hostNetwork").flag() {
            host.forbidden(causes, "may not be specified when hostNetwork is true");
        }
        if host.text().len() > 64 {
            host.too_long(causes, 64);
        }
        host.faults(causes, syntax::dns_subdomain(host.text()));
    }
    spec.field("serviceAccountName").if_given(causes, syntax::dns_subdomain);
    spec.field("nodeName").if_given(causes, syntax::dns_subdomain);
    let deadline = spec.field("activeDeadlineSeconds");
    if deadline.int().is_some_and(|seconds| !(1..=i64::from(i32::MAX)).contains(&seconds)) {
        deadline.invalid_number(causes, "must be between 1 and 2147483647, inclusive");
    }
    spec.field("hostname").if_given(causes, syntax::dns_label);
    spec.field("subdomain").if_given(causes, syntax::dns_label);
}

fn operating_system(spec: &Node<'_, '_>, causes: &mut Causes) {
    let system = spec.field("os");
    if !system.is_set() {
        return;
    }
    let name = system.field("name");
    match name.text() {
        "" => name.required(causes, ""),
        "linux" | "windows" => {}
        other => system.not_supported_as(causes, &shown(&other.into()), &["linux", "windows"]),
    }
}

/// Variables from files are in volumes that begin empty.
fn file_keys(spec: &Node<'_, '_>, causes: &mut Causes) {
    let volumes = spec.field("volumes");
    let empty: std::collections::HashMap<&str, bool> = volumes
        .each()
        .map(|volume| {
            (volume.value()["name"].as_str().unwrap_or_default(), volume.field("emptyDir").is_set())
        })
        .collect();
    for list in LISTS.map(|list| spec.field(list)) {
        for container in list.each() {
            for variable in container.field("env").each() {
                let from = variable.field("valueFrom");
                let key = from.field("fileKeyRef");
                if !key.is_set() {
                    continue;
                }
                let name = key.field("volumeName");
                match empty.get(name.text()) {
                    None => name.not_found(causes),
                    Some(false) => name.invalid(causes, "referenced volume must be of type emptyDir"),
                    Some(true) => {}
                }
            }
        }
    }
}
