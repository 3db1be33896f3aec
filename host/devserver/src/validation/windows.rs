//! What Pods of Windows may have and others may not, and the other way round.

use super::node::Node;
use crate::api::syntax;
use crate::schema::Causes;

/// `windowsOptions` of a security context, which may be absent.
pub(super) fn options(options: &Node<'_, '_>, causes: &mut Causes) {
    options.field("gmsaCredentialSpecName").if_set(causes, syntax::dns_subdomain);
    let credentials = options.field("gmsaCredentialSpec");
    if credentials.is_set() {
        match credentials.text().len() {
            0 => credentials.invalid(causes, "gmsaCredentialSpec cannot be an empty string"),
            1..=65_536 => {}
            _ => credentials.invalid(causes, "gmsaCredentialSpec size must be under 64 KiB"),
        }
    }
    let user = options.field("runAsUserName");
    if user.is_set() {
        for fault in user_faults(user.text()) {
            user.invalid(causes, fault);
        }
    }
}

fn user_faults(name: &str) -> Vec<&'static str> {
    if name.is_empty() {
        return vec!["runAsUserName cannot be an empty string"];
    }
    if name.contains(|c: char| c.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters"];
    }
    if name.split('\\').count() > 2 {
        return vec!["runAsUserName cannot contain more than one backslash"];
    }
    let (domain, user) = name.split_once('\\').map_or((None, name), |(domain, user)| (Some(domain), user));
    let mut faults = Vec::new();
    if domain.is_some_and(|domain| domain.len() >= 256) {
        faults.push("runAsUserName's Domain length must be under 256 characters");
    }
    if domain.is_some_and(|domain| !is_net_bios(domain) && !is_domain(domain)) {
        faults.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
    }
    if user.is_empty() {
        faults.push("runAsUserName's User cannot be empty");
    } else if user.len() > 104 {
        faults.push("runAsUserName's User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        faults.push("runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains(|c: char| "\"/\\:;|=,+*?<>@[]".contains(c)) {
        faults.push("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
    faults
}

fn is_net_bios(domain: &str) -> bool {
    let count = domain.chars().count();
    (1..=15).contains(&count)
        && !domain.starts_with('.')
        && !domain.contains(|c: char| "\\/:*?\"<>|".contains(c))
}

fn is_domain(domain: &str) -> bool {
    domain.split('.').all(|part| part.len() <= 63 && syntax::dns_label(&part.to_lowercase()).is_empty())
}

/// The lists of containers of a Pod.
const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// A Pod of Linux has no options of Windows.
pub(super) fn linux_pod(spec: &Node<'_, '_>, causes: &mut Causes) {
    const WHY: &str = "windows options cannot be set for a linux pod";
    let context = spec.field("securityContext");
    if context.field("windowsOptions").is_set() {
        context.field("windowsOptions").forbidden(causes, WHY);
    }
    for list in LISTS.map(|list| spec.field(list)) {
        for container in list.each() {
            let context = container.field("securityContext");
            if context.field("windowsOptions").is_set() {
                context.field("windowsOptions").forbidden(causes, WHY);
            }
        }
    }
}

/// A Pod of Windows has no options of Linux.
pub(super) fn windows_pod(spec: &Node<'_, '_>, causes: &mut Causes) {
    const WHY: &str = "cannot be set for a windows pod";
    let context = spec.field("securityContext");
    let forbid = |of: &Node<'_, '_>, name: &str, causes: &mut Causes| {
        let field = of.field(name);
        let is_there = match name {
            "hostPID" | "hostIPC" => field.flag(),
            "sysctls" => !field.is_empty(),
            _ => field.is_set(),
        };
        if is_there {
            field.forbidden(causes, WHY);
        }
    };
    for name in ["appArmorProfile", "seLinuxOptions"] {
        forbid(&context, name, causes);
    }
    for name in ["hostUsers", "hostPID", "hostIPC"] {
        forbid(spec, name, causes);
    }
    for name in ["seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls"] {
        forbid(&context, name, causes);
    }
    forbid(spec, "shareProcessNamespace", causes);
    for name in
        ["runAsUser", "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy"]
    {
        forbid(&context, name, causes);
    }
    for list in LISTS.map(|list| spec.field(list)) {
        for container in list.each() {
            let context = container.field("securityContext");
            for name in [
                "appArmorProfile",
                "seLinuxOptions",
                "seccompProfile",
                "capabilities",
                "readOnlyRootFilesystem",
                "privileged",
                "allowPrivilegeEscalation",
                "procMount",
                "runAsUser",
                "runAsGroup",
            ] {
                forbid(&context, name, causes);
            }
        }
    }
}

/// Containers that are processes of the node: all of a Pod or none.
pub(super) fn host_process(spec: &Node<'_, '_>, at: &Node<'_, '_>, causes: &mut Causes) {
    let of = |context: &Node<'_, '_>| context.value()["windowsOptions"]["hostProcess"].as_bool();
    let pod = of(&spec.field("securityContext"));
    let (mut all, mut count) = (0, 0);
    for list in LISTS.map(|list| spec.field(list)) {
        for container in list.each() {
            all += 1;
            let context = container.field("securityContext");
            let own = of(&context);
            if let (Some(pod), Some(own)) = (pod, own)
                && pod != own
            {
                let why = format!("pod hostProcess value must be identical if both are specified, was {pod}");
                context.field("windowsOptions").field("hostProcess").invalid(causes, &why);
            }
            count += usize::from(own.or(pod) == Some(true));
        }
    }
    if count == 0 {
        return;
    }
    if count != all {
        let why =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        at.invalid_as(causes, &"".into(), why);
    }
    if !spec.field("hostNetwork").flag() {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        spec.field("hostNetwork").invalid_as(causes, &false.into(), why);
    }
}
