//! Security contexts of Pods and containers.

use std::collections::HashSet;

use serde_json::json;

use super::node::Node;
use super::paths::descending;
use crate::api::syntax;
use crate::schema::Causes;

const PROFILES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];

fn user(id: &Node<'_, '_>, causes: &mut Causes) {
    if id.is_set() {
        for fault in syntax::user_number(id.int_or_zero()) {
            id.invalid_number(causes, fault);
        }
    }
}

/// `securityContext` of a container, which may be absent.
pub(super) fn container(context: &Node<'_, '_>, host_users: bool, causes: &mut Causes) {
    if !context.is_set() {
        return;
    }
    user(&context.field("runAsUser"), causes);
    user(&context.field("runAsGroup"), causes);
    let mount = context.field("procMount");
    mount.one_of_if_set(causes, &["Default", "Unmasked"]);
    if host_users && mount.text() == "Unmasked" {
        mount.invalid(causes, "`hostUsers` must be false to use `Unmasked`");
    }
    seccomp(&context.field("seccompProfile"), causes);
    let escalation = context.field("allowPrivilegeEscalation");
    if escalation.is_set() && !escalation.flag() {
        if context.field("privileged").flag() {
            let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            context.invalid(causes, why);
        }
        if context.field("capabilities").field("add").texts().any(|name| name == "CAP_SYS_ADMIN") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            context.invalid(causes, why);
        }
    }
    app_armor(&context.field("appArmorProfile"), causes);
}

/// `securityContext` of a Pod, which may be absent; `spec` is that of the Pod.
pub(super) fn pod(context: &Node<'_, '_>, spec: &Node<'_, '_>, causes: &mut Causes) {
    if !context.is_set() {
        return;
    }
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        user(&context.field(name), causes);
    }
    context.field("supplementalGroups").each().for_each(|group| user(&group, causes));
    if spec.field("shareProcessNamespace").flag() && spec.field("hostPID").flag() {
        let at = context.field("shareProcessNamespace");
        at.invalid_as(causes, &json!(true), "ShareProcessNamespace and HostPID cannot both be enabled");
    }
    sysctls(&context.field("sysctls"), spec, causes);
    context.field("fsGroupChangePolicy").one_of_if_set(causes, &["Always", "OnRootMismatch"]);
    seccomp(&context.field("seccompProfile"), causes);
    app_armor(&context.field("appArmorProfile"), causes);
    context.field("supplementalGroupsPolicy").one_of_if_set(causes, &["Merge", "Strict"]);
    context.field("seLinuxChangePolicy").one_of_if_set(causes, &["Recursive"]);
}

fn is_sysctl(name: &str) -> bool {
    let is_lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_segment = |segment: &str| {
        let bytes = segment.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        ends.iter().all(|end| end.is_some_and(|byte| is_lower(*byte)))
            && bytes.iter().all(|byte| is_lower(*byte) || b"-_".contains(byte))
    };
    name.len() <= 253 && name.split(['.', '/']).all(is_segment)
}

/// The parts of the kernel that a parameter belongs to.
fn sysctl_namespace(name: &str) -> &'static str {
    let name = name.replace('/', ".");
    if name.starts_with("net.") {
        "net"
    } else if name.starts_with("kernel.shm")
        || name.starts_with("kernel.msg")
        || name.starts_with("fs.mqueue.")
        || name == "kernel.sem"
    {
        "ipc"
    } else {
        ""
    }
}

fn sysctls(sysctls: &Node<'_, '_>, spec: &Node<'_, '_>, causes: &mut Causes) {
    let mut names = HashSet::new();
    for sysctl in sysctls.each() {
        let name = sysctl.field("name");
        if name.is_given(causes) {
            if !is_sysctl(name.text()) {
                let why = "must have at most 253 characters and match regex \
                           ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
                name.invalid(causes, why);
            } else if names.contains(name.text()) {
                name.duplicate(causes);
            }
        }
        match sysctl_namespace(name.text()) {
            "net" if spec.field("hostNetwork").flag() => {
                name.invalid(causes, "may not be specified when 'hostNetwork' is true");
            }
            "ipc" if spec.field("hostIPC").flag() => {
                name.invalid(causes, "may not be specified when 'hostIPC' is true");
            }
            _ => {}
        }
        names.insert(name.text());
    }
}

fn seccomp(profile: &Node<'_, '_>, causes: &mut Causes) {
    if !profile.is_set() {
        return;
    }
    let (kind, file) = (profile.field("type"), profile.field("localhostProfile"));
    if kind.text().is_empty() {
        kind.required(causes, "type is required when seccompProfile is set");
    } else {
        kind.one_of(causes, PROFILES);
    }
    match (kind.text(), file.is_set()) {
        ("Localhost", false) => file.required(causes, "must be set when seccomp type is Localhost"),
        ("Localhost", true) => descending(&file, &file, causes),
        (_, true) => file.invalid(causes, "can only be set when seccomp type is Localhost"),
        (_, false) => {}
    }
}

fn app_armor(profile: &Node<'_, '_>, causes: &mut Causes) {
    const MISSING: &str = "must be set when AppArmor type is Localhost";
    if !profile.is_set() {
        return;
    }
    let (kind, file) = (profile.field("type"), profile.field("localhostProfile"));
    match kind.text() {
        "Localhost" if !file.is_set() => file.required(causes, MISSING),
        "Localhost" => {
            if file.text().trim() != file.text() {
                file.invalid(causes, "must not be padded with whitespace");
            } else if file.text().is_empty() {
                file.required(causes, MISSING);
            }
            if file.text().len() > 4095 {
                file.too_long(causes, 4095);
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if file.is_set() {
                file.invalid(causes, "can only be set when AppArmor type is Localhost");
            }
        }
        "" => kind.required(causes, "type is required when appArmorProfile is set"),
        _ => kind.not_supported(causes, PROFILES),
    }
}
