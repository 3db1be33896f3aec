//! PersistentVolumeClaims and PersistentVolumes.

use super::node::{Node, field};
use super::resources::{positive_quantity, quantity_of};
use super::scheduling::node_selector;
use super::selector::selector;
use super::sources;
use crate::api::{JsonMap, syntax};
use crate::quantity::Amount;
use crate::schema::{Causes, shown};

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];

/// A claim.
pub(super) fn claim(object: &JsonMap, causes: &mut Causes) {
    claim_spec(&field(object, "spec"), causes);
}

/// The modes of a list; causes name the list.
fn access_modes(modes: &Node<'_, '_>, causes: &mut Causes) {
    let (mut is_single, mut is_shared) = (false, false);
    for mode in modes.texts() {
        if !ACCESS_MODES.contains(&mode) {
            modes.not_supported_as(causes, &shown(&mode.into()), ACCESS_MODES);
        } else if mode == "ReadWriteOncePod" {
            is_single = true;
        } else {
            is_shared = true;
        }
    }
    if is_single && is_shared {
        modes.forbidden(causes, "may not use ReadWriteOncePod with other access modes");
    }
}

/// The spec of a claim, or of claims that are made from a template.
pub(super) fn claim_spec(spec: &Node<'_, '_>, causes: &mut Causes) {
    let modes = spec.field("accessModes");
    if modes.is_empty() {
        modes.required(causes, "at least 1 access mode is required");
    }
    selector(&spec.field("selector"), causes);
    access_modes(&modes, causes);
    let resources = spec.field("resources");
    let size = resources.field("requests").key("storage").value();
    let size = Node::standing(size, &resources.key("storage"));
    if !size.is_set() {
        size.required(causes, "");
    } else if positive_quantity(&size, causes) {
        quantity_of("storage", &size, causes);
    }
    spec.field("storageClassName").if_given(causes, syntax::dns_subdomain);
    spec.field("volumeMode").one_of_if_set(causes, VOLUME_MODES);
    let (source, reference) = (spec.field("dataSource"), spec.field("dataSourceRef"));
    for source in [&source, &reference].into_iter().filter(|source| source.is_set()) {
        data_source(source, causes);
    }
    let is_same =
        ["apiGroup", "kind", "name"].iter().all(|name| source.value()[name] == reference.value()[name]);
    if source.is_set() && reference.is_set() && !is_same {
        // What is shown is a path, of which nothing is visible.
        spec.invalid_as(causes, &serde_json::json!({}), "must match dataSourceRef");
    }
    spec.field("volumeAttributesClassName").if_given(causes, syntax::dns_subdomain);
}

fn data_source(source: &Node<'_, '_>, causes: &mut Causes) {
    source.field("name").is_given(causes);
    let (kind, group) = (source.field("kind"), source.field("apiGroup"));
    kind.is_given(causes);
    if group.text().is_empty() && kind.text() != "PersistentVolumeClaim" {
        let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        source.invalid_as(causes, &kind.text().into(), why);
    }
    group.if_given(causes, syntax::dns_subdomain);
}

type Check = fn(&str, &Node<'_, '_>, &mut Causes);

/// Sources of volumes in a server's order: the field, its name in paths, its name where there is another source, the check, which
/// gets the name of the volume.
const SOURCES: &[(&str, &str, &str, Check)] = &[
    ("hostPath", "hostPath", "hostPath", |_, at, causes| sources::host_path(at, causes)),
    ("gcePersistentDisk", "persistentDisk", "gcePersistentDisk", |_, at, causes| {
        sources::gce_disk(at, causes);
    }),
    ("awsElasticBlockStore", "awsElasticBlockStore", "awsElasticBlockStore", |_, at, causes| {
        sources::aws_disk(at, causes);
    }),
    ("glusterfs", "glusterfs", "glusterfs", |_, at, causes| glusterfs(at, causes)),
    ("flocker", "flocker", "flocker", |_, at, causes| sources::flocker(at, causes)),
    ("nfs", "nfs", "nfs", |_, at, causes| sources::nfs(at, causes)),
    ("rbd", "rbd", "rbd", |_, at, causes| sources::rbd(at, causes)),
    ("quobyte", "quobyte", "quobyte", |_, at, causes| sources::quobyte(at, causes)),
    ("cephfs", "cephfs", "cephFS", |_, at, causes| sources::ceph_fs(at, causes)),
    ("iscsi", "iscsi", "iscsi", sources::iscsi_of_volume),
    ("cinder", "cinder", "cinder", |_, at, causes| sources::cinder_of_volume(at, causes)),
    ("fc", "fc", "fc", |_, at, causes| sources::fibre_channel(at, causes)),
    ("flexVolume", "flexVolume", "flexVolume", |_, at, causes| sources::flex(at, causes)),
    ("azureFile", "azureFile", "azureFile", |_, at, causes| {
        sources::all_given(at, &["secretName", "shareName"], causes);
        if at.field("secretNamespace").is_set() {
            at.field("secretNamespace").is_given(causes);
        }
    }),
    ("vsphereVolume", "vsphereVolume", "vsphereVolume", |_, at, causes| {
        sources::all_given(at, &["volumePath"], causes);
    }),
    ("photonPersistentDisk", "photonPersistentDisk", "photonPersistentDisk", |_, at, causes| {
        sources::all_given(at, &["pdID"], causes);
    }),
    ("portworxVolume", "portworxVolume", "portworxVolume", |_, at, causes| {
        sources::all_given(at, &["volumeID"], causes);
    }),
    ("azureDisk", "azureDisk", "azureDisk", |_, at, causes| sources::azure_disk(at, causes)),
    ("scaleIO", "scaleIO", "scaleIO", |_, at, causes| sources::scale_io(at, causes)),
    ("local", "local", "local", |_, at, causes| sources::local_volume(at, causes)),
    ("storageos", "storageos", "storageos", |_, at, causes| sources::storage_os_of_volume(at, causes)),
    ("csi", "csi", "csi", |_, at, causes| csi(at, causes)),
];

fn glusterfs(source: &Node<'_, '_>, causes: &mut Causes) {
    sources::all_given(source, &["endpoints", "path"], causes);
    let namespace = source.field("endpointsNamespace");
    if namespace.is_set() && namespace.text().is_empty() {
        namespace.invalid(causes, "if the endpointnamespace is set, it must be a valid namespace name");
    }
    namespace.if_given(causes, syntax::dns_label);
}

fn csi(csi: &Node<'_, '_>, causes: &mut Causes) {
    sources::csi_driver(&csi.field("driver"), causes);
    csi.field("volumeHandle").is_given(causes);
    for name in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let secret = csi.field(name);
        if secret.is_set() {
            secret.field("name").given_as(causes, syntax::dns_subdomain);
            secret.field("namespace").given_as(causes, syntax::dns_label);
        }
    }
}

/// A PersistentVolume.
pub(super) fn volume(object: &JsonMap, causes: &mut Causes) {
    let (metadata, spec) = (field(object, "metadata"), field(object, "spec"));
    let modes = spec.field("accessModes");
    if modes.is_empty() {
        modes.required(causes, "");
    }
    access_modes(&modes, causes);
    capacity(&spec.field("capacity"), causes);
    let policy = spec.field("persistentVolumeReclaimPolicy");
    if !policy.text().is_empty() {
        policy.one_of(causes, &["Delete", "Recycle", "Retain"]);
    }
    let affinity = spec.field("nodeAffinity");
    if affinity.is_set() {
        let required = affinity.field("required");
        if required.is_set() {
            node_selector(&required, causes);
        } else {
            required.required(causes, "must specify required node constraints");
        }
    }
    let mut has_source = false;
    for (name, named, if_second, check) in SOURCES {
        let source = spec.field(name);
        if !source.is_set() {
            continue;
        }
        if has_source && *name != "flexVolume" {
            source.named(if_second).forbidden(causes, "may not specify more than 1 volume type");
            continue;
        }
        has_source = true;
        check(metadata.field("name").text(), &source.named(named), causes);
        if *name == "local" && !affinity.is_set() {
            affinity.required(causes, "Local volume requires node affinity");
        }
    }
    if !has_source {
        spec.required(causes, "must specify a volume type");
    }
    if sources::is_root(&spec.field("hostPath").field("path")) && policy.text() == "Recycle" {
        policy.forbidden(causes, "may not be 'recycle' for a hostPath mount of '/'");
    }
    spec.field("storageClassName").if_given(causes, syntax::dns_subdomain);
    spec.field("volumeMode").one_of_if_set(causes, VOLUME_MODES);
    let class = spec.field("volumeAttributesClassName");
    if class.is_set() {
        if class.text().is_empty() {
            class.required(causes, "an empty string is disallowed");
        }
        class.if_given(causes, syntax::dns_subdomain);
        if !spec.field("csi").is_set() {
            spec.field("csi").required(causes, "has to be specified when using volumeAttributesClassName");
        }
    }
}

fn capacity(capacity: &Node<'_, '_>, causes: &mut Causes) {
    if capacity.is_empty() {
        capacity.required(causes, "");
    }
    if !capacity.key("storage").is_set() || capacity.len() > 1 {
        let value = if capacity.is_set() { shown(capacity.value()) } else { "{}".to_owned() };
        capacity.not_supported_as(causes, &value, &["storage"]);
    }
    for (_, quantity) in capacity.entries() {
        let whole = Amount::of(quantity.text()).rounded_up();
        if whole < 0 {
            quantity.invalid_as(causes, &whole.into(), "must be a valid resource quantity");
        }
        positive_quantity(&quantity, causes);
    }
}
