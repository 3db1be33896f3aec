//! Sources of volumes, beside those of the cluster itself.

use super::node::Node;
use super::volumes::host_directory;
use crate::api::syntax;
use crate::schema::Causes;

/// All of these fields must be there.
pub(super) fn all_given(source: &Node<'_, '_>, fields: &[&str], causes: &mut Causes) {
    for field in fields {
        source.field(field).is_given(causes);
    }
}

fn in_byte(number: &Node<'_, '_>, causes: &mut Causes, why: &str) {
    if !(0..=255).contains(&number.int_or_zero()) {
        number.invalid_number(causes, why);
    }
}

/// A list that must have something in it.
fn some(list: &Node<'_, '_>, causes: &mut Causes) {
    if list.is_empty() {
        list.required(causes, "");
    }
}

/// A reference to a Secret.
fn secret(source: &Node<'_, '_>, causes: &mut Causes) {
    let secret = source.field("secretRef");
    if secret.is_set() {
        secret.field("name").is_given(causes);
    }
}

pub(super) fn host_path(source: &Node<'_, '_>, causes: &mut Causes) {
    const TYPES: [&str; 8] =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    let path = source.field("path");
    host_directory(&path, causes);
    if !path.text().is_empty() {
        source.field("type").one_of_if_set(causes, &TYPES);
    }
}

pub(super) fn gce_disk(disk: &Node<'_, '_>, causes: &mut Causes) {
    disk.field("pdName").is_given(causes);
    in_byte(&disk.field("partition"), causes, "must be between 1 and 255, inclusive");
}

pub(super) fn aws_disk(disk: &Node<'_, '_>, causes: &mut Causes) {
    disk.field("volumeID").is_given(causes);
    in_byte(&disk.field("partition"), causes, "must be between 1 and 255, inclusive");
}

pub(super) fn nfs(nfs: &Node<'_, '_>, causes: &mut Causes) {
    nfs.field("server").is_given(causes);
    let path = nfs.field("path");
    path.is_given(causes);
    if !path.text().starts_with('/') {
        path.invalid(causes, "must be an absolute path");
    }
}

/// A name of iSCSI: `iqn.2001-04.com.example:storage`, `eui.…`, `naa.…`; what is wrong with it, if anything is.
fn iscsi_fault(name: &str) -> Option<&'static str> {
    let is_long = |prefix: &str, length: usize| {
        // The letter behind the prefix may be any.
        let rest = name.strip_prefix(prefix).map(|rest| rest.chars().skip(1).collect::<String>());
        rest.is_some_and(|rest| rest.len() == length && rest.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    };
    let fits = if name.starts_with("iqn") {
        is_iqn(name)
    } else if name.starts_with("eui") {
        is_long("eui", 16)
    } else if name.starts_with("naa") {
        is_long("naa", 32)
    } else {
        return Some("must be valid format starting with iqn, eui, or naa");
    };
    (!fits).then_some("must be valid format")
}

/// `iqn.`, a month, a domain and behind a colon anything but a few marks.
fn is_iqn(name: &str) -> bool {
    let Some((head, rest)) = name.strip_prefix("iqn.").and_then(|rest| rest.split_at_checked(8)) else {
        return false;
    };
    let is_month = head.bytes().enumerate().all(|(at, byte)| match at {
        4 => byte == b'-',
        7 => byte == b'.',
        _ => byte.is_ascii_digit(),
    });
    let Some((domain, name)) = rest.split_once(':') else { return false };
    let is_domain = !domain.is_empty()
        && domain.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    let is_name = !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || ",;*&$|".contains(c));
    is_month && is_domain && is_name
}

pub(super) fn iscsi(source: &Node<'_, '_>, causes: &mut Causes) {
    source.field("targetPortal").is_given(causes);
    let iqn = source.field("iqn");
    if iqn.is_given(causes)
        && let Some(fault) = iscsi_fault(iqn.text())
    {
        iqn.invalid(causes, fault);
    }
    in_byte(&source.field("lun"), causes, "must be between 0 and 255, inclusive");
    let authenticates = source.field("chapAuthDiscovery").flag() || source.field("chapAuthSession").flag();
    let secret = source.field("secretRef");
    if authenticates && !secret.is_set() {
        secret.required(causes, "");
    }
    let initiator = source.field("initiatorName");
    if initiator.is_set()
        && let Some(fault) = iscsi_fault(initiator.text())
    {
        initiator.named("initiatorname").invalid(causes, fault);
    }
}

const ISCSI_LENGTH: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";

/// The name of an interface on a node is made of the name of a volume of a Pod and an address.
pub(super) fn iscsi_length(at: &Node<'_, '_>, name: &str, source: &Node<'_, '_>, causes: &mut Causes) {
    if name.len() + 1 + source.field("targetPortal").text().len() > 64 {
        at.invalid_as(causes, &name.into(), ISCSI_LENGTH);
    }
}

pub(super) fn rbd(source: &Node<'_, '_>, causes: &mut Causes) {
    some(&source.field("monitors"), causes);
    source.field("image").is_given(causes);
}

pub(super) fn cinder(source: &Node<'_, '_>, causes: &mut Causes) {
    source.field("volumeID").is_given(causes);
    secret(source, causes);
}

pub(super) fn ceph_fs(source: &Node<'_, '_>, causes: &mut Causes) {
    some(&source.field("monitors"), causes);
}

pub(super) fn quobyte(source: &Node<'_, '_>, causes: &mut Causes) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let (registry, tenant) = (source.field("registry"), source.field("tenant"));
    if registry.text().is_empty() {
        registry.required(causes, PAIRS);
    } else if tenant.text().len() >= 65 {
        tenant.required(causes, "must be a UUID and may not exceed a length of 64 characters");
    } else {
        let is_pair = |pair: &str| {
            pair.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'))
        };
        for _ in registry.text().split(',').filter(|pair| !is_pair(pair)) {
            registry.invalid(causes, PAIRS);
        }
    }
    source.field("volume").is_given(causes);
}

pub(super) fn fibre_channel(source: &Node<'_, '_>, causes: &mut Causes) {
    let (targets, ids, lun) = (source.field("targetWWNs"), source.field("wwids"), source.field("lun"));
    match (targets.is_empty(), ids.is_empty()) {
        (true, true) => targets.required(causes, "must specify either targetWWNs or wwids, but not both"),
        (false, false) => targets.invalid(causes, "targetWWNs and wwids can not be specified simultaneously"),
        _ => {}
    }
    if targets.is_empty() {
        return;
    }
    if lun.is_set() {
        in_byte(&lun, causes, "must be between 0 and 255, inclusive");
    } else {
        lun.required(causes, "lun is required if targetWWNs is specified");
    }
}

pub(super) fn flex(source: &Node<'_, '_>, causes: &mut Causes) {
    source.field("driver").is_given(causes);
    for (key, option) in source.field("options").entries() {
        let domain = format!(".{}", key.split('/').next().unwrap_or_default().to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            option.invalid_as(causes, &key.into(), "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

pub(super) fn azure_disk(disk: &Node<'_, '_>, causes: &mut Causes) {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    all_given(disk, &["diskName", "diskURI"], causes);
    disk.field("cachingMode").one_of_if_set(causes, &["None", "ReadOnly", "ReadWrite"]);
    let (kind, uri) = (disk.field("kind"), disk.field("diskURI"));
    kind.one_of_if_set(causes, &["Dedicated", "Managed", "Shared"]);
    if kind.text() == "Managed" && !uri.text().starts_with("/subscriptions/") {
        uri.not_supported(causes, &[MANAGED]);
    }
    if kind.is_set() && kind.text() != "Managed" && !uri.text().starts_with("https://") {
        uri.not_supported(causes, &[BLOB]);
    }
}

fn storage_os_names(source: &Node<'_, '_>, causes: &mut Causes) {
    source.field("volumeName").given_as(causes, syntax::dns_label);
    source.field("volumeNamespace").if_given(causes, syntax::dns_label);
}

pub(super) fn storage_os(source: &Node<'_, '_>, causes: &mut Causes) {
    storage_os_names(source, causes);
    secret(source, causes);
}

pub(super) fn scale_io(source: &Node<'_, '_>, causes: &mut Causes) {
    all_given(source, &["gateway", "system", "volumeName"], causes);
}

/// The name of a driver of storage.
pub(super) fn csi_driver(driver: &Node<'_, '_>, causes: &mut Causes) {
    if !driver.is_given(causes) {
        return;
    }
    if driver.text().len() > 63 {
        driver.too_long(causes, 63);
    }
    driver.faults(causes, syntax::dns_subdomain(&driver.text().to_lowercase()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_iscsi() {
        for (name, fits) in [
            ("iqn.2001-04.com.example:storage.disk1", true),
            ("iqn.2001-04.com.example", false),
            ("iqn.2001-4.com.example:a", false),
            ("iqn.2001-04.com.example:a b", false),
            ("eui.02004567A425678D", true),
            ("eui.0200", false),
            ("naa.62004567BA64678D0123456789ABCDEF", true),
            ("iqn.ä", false),
            ("abc", false),
        ] {
            assert_eq!(iscsi_fault(name).is_none(), fits, "{name}");
        }
    }
}
