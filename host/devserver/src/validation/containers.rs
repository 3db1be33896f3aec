//! Containers of Pods: names, images, ports, mounts, policies.

use std::collections::{HashMap, HashSet};

use super::node::Node;
use super::paths::{descending, no_backsteps};
use super::probes::{Probe, lifecycle, probe};
use super::resources::{ResourcesOf, requirements};
use super::volumes::Volumes;
use super::{environment, security};
use crate::api::syntax;
use crate::schema::{Causes, shown};

pub(super) const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
pub(super) const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];

/// What containers share with the Pod around them.
pub(super) struct Surroundings<'a, 'v> {
    pub(super) volumes: &'a Volumes<'v>,
    pub(super) claims: &'a HashSet<&'v str>,
    pub(super) grace: Option<i64>,
    pub(super) restart_policy: &'v str,
    /// Users in the containers are those of the node.
    pub(super) host_users: bool,
}

/// `containers` of a Pod.
pub(super) fn containers(list: &Node<'_, '_>, around: &Surroundings<'_, '_>, causes: &mut Causes) {
    if list.is_empty() {
        list.required(causes, "");
        return;
    }
    let mut names = HashSet::new();
    for container in list.each() {
        common(&container, around, causes);
        let name = container.field("name");
        if !names.insert(name.text()) {
            name.duplicate(causes);
        }
        running(&container, around, causes);
        restart_policy(&container, causes);
    }
    host_ports(list.each().map(|container| (container.value(), container)), causes);
}

/// `initContainers` of a Pod.
pub(super) fn init_containers(
    list: &Node<'_, '_>,
    regular: &Node<'_, '_>,
    around: &Surroundings<'_, '_>,
    causes: &mut Causes,
) {
    const ONLY: &str = "may not be set for init containers without restartPolicy=Always";
    let mut names: HashSet<&str> =
        regular.each().filter_map(|container| container.value()["name"].as_str()).collect();
    if regular.each().any(|container| container.field("name").text().is_empty()) {
        names.insert("");
    }
    for container in list.each() {
        common(&container, around, causes);
        restart_policy(&container, causes);
        let name = container.field("name");
        if names.contains(name.text()) {
            name.duplicate(causes);
        } else if !name.text().is_empty() {
            names.insert(name.text());
        }
        // Causes name the first of the list, whichever it is.
        host_ports(std::iter::once((container.value(), container.placed(&list.index(0)))), causes);
        let stays = container.field("restartPolicy").text() == "Always";
        if stays {
            running(&container, around, causes);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if container.field(field).is_set() {
                container.field(field).forbidden(causes, ONLY);
            }
        }
        for policy in container.field("resizePolicy").each() {
            if policy.field("restartPolicy").text() == "RestartContainer" {
                let why = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                policy.field("restartPolicy").invalid(causes, why);
            }
        }
    }
}

/// What a container has that goes on running.
fn running(container: &Node<'_, '_>, around: &Surroundings<'_, '_>, causes: &mut Causes) {
    lifecycle(&container.field("lifecycle"), around.grace, causes);
    probe(Probe::Liveness, &container.field("livenessProbe"), causes);
    probe(Probe::Readiness, &container.field("readinessProbe"), causes);
    probe(Probe::Startup, &container.field("startupProbe"), causes);
}

/// `ephemeralContainers` of a Pod.
pub(super) fn ephemeral_containers(
    list: &Node<'_, '_>,
    others: [&Node<'_, '_>; 2],
    around: &Surroundings<'_, '_>,
    causes: &mut Causes,
) {
    const NOT: &str = "cannot be set for an Ephemeral Container";
    const FIELDS: [&str; 6] =
        ["ports", "resources", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"];
    let others: HashSet<&str> = others
        .into_iter()
        .flat_map(|list| {
            list.each()
                .map(|container| container.value()["name"].as_str().unwrap_or_default())
                .collect::<Vec<_>>()
        })
        .collect();
    let mut names = others.clone();
    for container in list.each() {
        common(&container, around, causes);
        image_alone(&container, causes);
        let (name, target) = (container.field("name"), container.field("targetContainerName"));
        if !names.insert(name.text()) {
            name.duplicate(causes);
        }
        if !target.text().is_empty() && !others.contains(target.text()) {
            target.not_found(causes);
        }
        for field in FIELDS {
            let value = container.field(field);
            let is_set = if field == "resources" { !value.is_empty() } else { value.is_set() };
            if is_set {
                value.forbidden(causes, NOT);
            }
        }
        for mount in container.field("volumeMounts").each() {
            for field in ["subPath", "subPathExpr"] {
                if !mount.field(field).text().is_empty() {
                    mount.field(field).forbidden(causes, NOT);
                }
            }
        }
    }
}

/// What only a Pod's container must not have, and a template's may.
pub(super) fn image_alone(container: &Node<'_, '_>, causes: &mut Causes) {
    let image = container.field("image");
    if image.text().trim() != image.text() {
        image.invalid(causes, "must not have leading or trailing whitespace");
    }
}

fn common(container: &Node<'_, '_>, around: &Surroundings<'_, '_>, causes: &mut Causes) {
    container.field("name").given_as(causes, syntax::dns_label);
    container.field("image").is_given(causes);
    container.field("terminationMessagePolicy").given_one_of(causes, &["File", "FallbackToLogsOnError"]);
    ports(&container.field("ports"), causes);
    environment::env(&container.field("env"), causes);
    environment::env_from(&container.field("envFrom"), causes);
    let (mounts, devices) = (container.field("volumeMounts"), container.field("volumeDevices"));
    volume_mounts(&mounts, &devices, container, around, causes);
    volume_devices(&devices, &mounts, around, causes);
    container.field("imagePullPolicy").given_one_of(causes, PULL_POLICIES);
    requirements(ResourcesOf::Container, &container.field("resources"), around.claims, causes);
    resize_policy(&container.field("resizePolicy"), around.restart_policy, causes);
    security::container(&container.field("securityContext"), around.host_users, causes);
}

fn ports(ports: &Node<'_, '_>, causes: &mut Causes) {
    let mut names = HashSet::new();
    for port in ports.each() {
        let name = port.field("name");
        if !name.text().is_empty() {
            let faults = syntax::port_name(name.text());
            if faults.is_empty() && !names.insert(name.text()) {
                name.duplicate(causes);
            }
            name.faults(causes, faults);
        }
        let (inner, host) = (port.field("containerPort"), port.field("hostPort"));
        if inner.int_or_zero() == 0 {
            inner.required(causes, "");
        } else {
            inner.port_number(causes);
        }
        if host.int_or_zero() != 0 {
            host.port_number(causes);
        }
        port.field("protocol").given_one_of(causes, PROTOCOLS);
    }
}

/// No two containers take the same port of the node; `containers` with where causes say that they are.
fn host_ports<'p, 'v: 'p>(
    containers: impl Iterator<Item = (&'v serde_json::Value, Node<'p, 'v>)>,
    causes: &mut Causes,
) {
    let mut taken = HashSet::new();
    for (_, container) in containers {
        for port in container.field("ports").each() {
            let host = port.field("hostPort");
            let number = host.int_or_zero();
            let key = (port.field("protocol").text(), port.field("hostIP").text(), number);
            if number != 0 && !taken.insert(key) {
                let text = format!("{}/{}/{}", key.0, key.1, key.2);
                host.duplicate_as(causes, &shown(&text.into()), "");
            }
        }
    }
}

fn volume_mounts(
    mounts: &Node<'_, '_>,
    devices: &Node<'_, '_>,
    container: &Node<'_, '_>,
    around: &Surroundings<'_, '_>,
    causes: &mut Causes,
) {
    let devices = last_by_name(devices, "devicePath");
    let device_paths: HashSet<&str> = devices.values().copied().collect();
    let mut paths = HashSet::new();
    for mount in mounts.each() {
        let (name, path) = (mount.field("name"), mount.field("mountPath"));
        name.is_given(causes);
        if !around.volumes.contains_key(name.text()) {
            name.not_found(causes);
        }
        path.is_given(causes);
        if !paths.insert(path.text()) {
            path.invalid(causes, "must be unique");
        }
        if devices.contains_key(name.text()) {
            name.invalid(causes, "must not already exist in volumeDevices");
        }
        if device_paths.contains(path.text()) {
            path.invalid(causes, "must not already exist as a path in volumeDevices");
        }
        let (sub_path, expression) = (mount.field("subPath"), mount.field("subPathExpr"));
        // Causes of these name the list and not its element.
        if !sub_path.text().is_empty() {
            descending(&mounts.field("subPath"), &sub_path, causes);
        }
        if !expression.text().is_empty() {
            if !sub_path.text().is_empty() {
                expression.invalid(causes, "subPathExpr and subPath are mutually exclusive");
            }
            descending(&mounts.field("subPathExpr"), &expression, causes);
        }
        propagation(
            &mount.field("mountPropagation").placed(&mounts.field("mountPropagation")),
            container,
            causes,
        );
        read_only(&mount, &mounts.field("recursiveReadOnly"), causes);
    }
}

fn propagation(mode: &Node<'_, '_>, container: &Node<'_, '_>, causes: &mut Causes) {
    mode.one_of_if_set(causes, &["Bidirectional", "HostToContainer", "None"]);
    let security = container.field("securityContext");
    if mode.text() == "Bidirectional" && !security.field("privileged").flag() {
        mode.forbidden(causes, "Bidirectional mount propagation is available only to privileged containers");
    }
}

fn read_only(mount: &Node<'_, '_>, at: &Node<'_, '_>, causes: &mut Causes) {
    let mode = mount.field("recursiveReadOnly").placed(at);
    mode.one_of_if_set(causes, &["Disabled", "Enabled", "IfPossible"]);
    if !matches!(mode.text(), "Enabled" | "IfPossible") {
        return;
    }
    if !mount.field("readOnly").flag() {
        mode.forbidden(causes, "may only be specified when readOnly is true");
    }
    let propagation = mount.field("mountPropagation");
    if propagation.is_set() && propagation.text() != "None" {
        mode.forbidden(causes, "may only be specified when mountPropagation is None or not specified");
    }
}

/// The paths of a list's elements by their names.
fn last_by_name<'v>(list: &Node<'_, 'v>, path: &str) -> HashMap<&'v str, &'v str> {
    list.each()
        .map(|one| (one.field("name").text(), one.value()[path].as_str().unwrap_or_default()))
        .collect()
}

fn volume_devices(
    devices: &Node<'_, '_>,
    mounts: &Node<'_, '_>,
    around: &Surroundings<'_, '_>,
    causes: &mut Causes,
) {
    let mounts = last_by_name(mounts, "mountPath");
    let mount_paths: HashSet<&str> = mounts.values().copied().collect();
    let (mut paths, mut names) = (HashSet::new(), HashSet::new());
    for device in devices.each() {
        let (name, path) = (device.field("name"), device.field("devicePath"));
        name.is_given(causes);
        if names.contains(name.text()) {
            name.invalid(causes, "must be unique");
        }
        match around.volumes.get(name.text()) {
            None => name.not_found(causes),
            Some(volume) if volume["persistentVolumeClaim"].is_null() && volume["ephemeral"].is_null() => {
                let why =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                name.invalid(causes, why);
            }
            Some(_) => {}
        }
        path.is_given(causes);
        if paths.contains(path.text()) {
            path.invalid(causes, "must be unique");
        }
        let mut upwards = Causes::default();
        no_backsteps(&path, &path, &mut upwards);
        if upwards.is_empty() {
            paths.insert(path.text());
        } else {
            path.invalid(causes, "can not contain backsteps ('..')");
        }
        if mounts.contains_key(name.text()) {
            name.invalid(causes, "must not already exist in volumeMounts");
        }
        if mount_paths.contains(path.text()) {
            path.invalid(causes, "must not already exist as a path in volumeMounts");
        }
        if !name.text().is_empty() {
            names.insert(name.text());
        }
    }
}

/// Causes of these name the list and not its elements.
fn resize_policy(policies: &Node<'_, '_>, pod_policy: &str, causes: &mut Causes) {
    let mut resources = HashSet::new();
    for policy in policies.each() {
        let (resource, restart) = (policy.field("resourceName"), policy.field("restartPolicy"));
        if !resources.insert(resource.text()) {
            policy.duplicate_as(causes, &shown(resource.value()), "");
        }
        resource.placed(policies).given_one_of(causes, &["cpu", "memory"]);
        restart.placed(policies).given_one_of(causes, &["NotRequired", "RestartContainer"]);
        if pod_policy == "Never" && restart.text() != "NotRequired" {
            let why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            policies.invalid_as(causes, &restart.text().into(), why);
        }
    }
}

/// When a single container is started again.
fn restart_policy(container: &Node<'_, '_>, causes: &mut Causes) {
    let (policy, rules) = (container.field("restartPolicy"), container.field("restartPolicyRules"));
    if policy.is_set() {
        policy.one_of(causes, &["Always", "Never", "OnFailure"]);
    } else if !rules.is_empty() {
        policy.required(causes, "must specify restartPolicy when restart rules are used");
        // Of an init container that is all.
    }
    if rules.len() > 20 {
        rules.too_many(causes, 20);
    }
    for rule in rules.each() {
        rule.field("action").one_of(causes, &["Restart", "RestartAllContainers"]);
        let codes = rule.field("exitCodes");
        if !codes.is_set() {
            codes.required(causes, "must be specified");
            continue;
        }
        codes.field("operator").one_of(causes, &["In", "NotIn"]);
        if codes.field("values").len() > 255 {
            codes.field("values").too_many(causes, 255);
        }
    }
}
