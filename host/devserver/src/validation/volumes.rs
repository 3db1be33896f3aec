//! Volumes of Pods and their sources.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::claims;
use super::metadata;
use super::node::Node;
use super::paths::{descending, file_mode, local, no_backsteps};
use super::projected;
use super::sources;
use crate::api::syntax;
use crate::schema::Causes;

/// The volumes that containers can mount, by name.
pub(super) type Volumes<'v> = HashMap<&'v str, &'v Value>;

type Check = fn(&Node<'_, '_>, &mut Causes);

/// A source of a volume: its field, its name in paths of causes, its name where there is another source already, and its check.
type Source = (&'static str, &'static str, &'static str, Check);

/// The sources in the order in which a server looks at them.
const SOURCES: &[Source] = &[
    ("hostPath", "hostPath", "hostPath", sources::host_path),
    ("gitRepo", "gitRepo", "gitRepo", git_repo),
    ("gcePersistentDisk", "persistentDisk", "gcePersistentDisk", sources::gce_disk),
    ("awsElasticBlockStore", "awsElasticBlockStore", "awsElasticBlockStore", sources::aws_disk),
    ("secret", "secret", "secret", |secret, causes| keys(secret, "secretName", causes)),
    ("nfs", "nfs", "nfs", sources::nfs),
    ("iscsi", "iscsi", "iscsi", sources::iscsi),
    ("glusterfs", "glusterfs", "glusterfs", |at, causes| {
        sources::all_given(at, &["endpoints", "path"], causes);
    }),
    ("persistentVolumeClaim", "persistentVolumeClaim", "persistentVolumeClaim", |at, causes| {
        sources::all_given(at, &["claimName"], causes);
    }),
    ("rbd", "rbd", "rbd", sources::rbd),
    ("cinder", "cinder", "cinder", sources::cinder),
    ("cephfs", "cephfs", "cephFS", sources::ceph_fs),
    ("quobyte", "quobyte", "quobyte", sources::quobyte),
    ("downwardAPI", "downwardAPI", "downwarAPI", projected::downward_api),
    ("fc", "fc", "fc", sources::fibre_channel),
    ("flexVolume", "flexVolume", "flexVolume", sources::flex),
    ("configMap", "configMap", "configMap", |map, causes| keys(map, "name", causes)),
    ("azureFile", "azureFile", "azureFile", |at, causes| {
        sources::all_given(at, &["secretName", "shareName"], causes);
    }),
    ("vsphereVolume", "vsphereVolume", "vsphereVolume", |at, causes| {
        sources::all_given(at, &["volumePath"], causes);
    }),
    ("photonPersistentDisk", "photonPersistentDisk", "photonPersistentDisk", |at, causes| {
        sources::all_given(at, &["pdID"], causes);
    }),
    ("portworxVolume", "portworxVolume", "portworxVolume", |at, causes| {
        sources::all_given(at, &["volumeID"], causes);
    }),
    ("azureDisk", "azureDisk", "azureDisk", sources::azure_disk),
    ("storageos", "storageos", "storageos", sources::storage_os),
    ("projected", "projected", "projected", projected::projected),
    ("scaleIO", "scaleIO", "scaleIO", sources::scale_io),
    ("csi", "csi", "csi", csi),
    ("ephemeral", "ephemeral", "ephemeral", ephemeral),
];

/// Looks at the volumes of a Pod, or of a template if there is no name of a Pod, and gives those with which nothing is wrong.
pub(super) fn volumes<'v>(volumes: &Node<'_, 'v>, pod: Option<&str>, causes: &mut Causes) -> Volumes<'v> {
    let mut known = Volumes::new();
    let pod = pod.filter(|name| !name.is_empty());
    // Claims that are made with the Pod.
    let mut made = HashSet::new();
    if let Some(pod) = pod {
        let ephemeral = volumes.each().filter(|volume| volume.field("ephemeral").is_set());
        made.extend(ephemeral.map(|volume| format!("{pod}-{}", volume.field("name").text())));
    }
    for volume in volumes.each() {
        let before = causes.len();
        let name = volume.field("name");
        source(&volume, pod, causes);
        name.given_as(causes, syntax::dns_label);
        if known.contains_key(name.text()) {
            name.duplicate(causes);
        }
        if causes.len() == before {
            known.insert(name.text(), volume.value());
        }
        let claim = volume.field("persistentVolumeClaim");
        if claim.is_set() && made.contains(claim.field("claimName").text()) {
            let why = "must not reference a PVC that gets created for an ephemeral volume";
            claim.field("claimName").invalid(causes, why);
        }
    }
    known
}

fn source(volume: &Node<'_, '_>, pod: Option<&str>, causes: &mut Causes) {
    const MORE: &str = "may not specify more than 1 volume type";
    let name = volume.field("name");
    let empty_dir = volume.field("emptyDir");
    let mut has_source = empty_dir.is_set();
    let limit = empty_dir.field("sizeLimit");
    if limit.is_set() && super::resources::amount(&limit) < crate::quantity::Amount::ZERO {
        limit.forbidden(causes, "SizeLimit field must be a valid resource quantity");
    }
    let image = volume.field("image");
    for (field, named, if_second, check) in SOURCES {
        let source = volume.field(field);
        if !source.is_set() {
            continue;
        }
        if has_source {
            source.named(if_second).forbidden(causes, MORE);
        } else {
            check(&source.named(named), causes);
            if let (&"ephemeral", Some(pod), false) = (field, pod, name.text().is_empty()) {
                let claim = format!("{pod}-{}", name.text());
                for fault in syntax::dns_subdomain(&claim) {
                    name.invalid(causes, &format!("PVC name {claim:?}: {fault}"));
                }
            }
        }
        has_source = true;
        if *field == "iscsi" && source.field("initiatorName").is_set() {
            sources::iscsi_length(&name, name.text(), &source, causes);
        }
    }
    if image.is_set() {
        if has_source {
            image.forbidden(causes, MORE);
        } else {
            // A template may leave it out.
            if pod.is_some() {
                image.field("reference").is_given(causes);
            }
            image.field("pullPolicy").given_one_of(causes, super::containers::PULL_POLICIES);
        }
        has_source = true;
    }
    if !has_source {
        volume.required(causes, "must specify a volume type");
    }
}

/// Entries of a ConfigMap or a Secret as files.
fn keys(source: &Node<'_, '_>, name: &str, causes: &mut Causes) {
    source.field(name).is_given(causes);
    file_mode(&source.field("defaultMode"), causes);
    source.field("items").each().for_each(|item| key_to_path(&item, causes));
}

pub(super) fn key_to_path(item: &Node<'_, '_>, causes: &mut Causes) {
    item.field("key").is_given(causes);
    item.field("path").is_given(causes);
    local(&item.field("path"), causes);
    file_mode(&item.field("mode"), causes);
}

fn git_repo(repository: &Node<'_, '_>, causes: &mut Causes) {
    repository.field("repository").is_given(causes);
    descending(&repository.field("directory"), &repository.field("directory"), causes);
}

fn csi(csi: &Node<'_, '_>, causes: &mut Causes) {
    sources::csi_driver(&csi.field("driver"), causes);
    let secret = csi.field("nodePublishSecretRef");
    if secret.is_set() {
        let name = secret.field("name");
        if name.is_given(causes) {
            csi.field("name").faults_of(causes, name.text(), syntax::dns_subdomain(name.text()));
        }
    }
}

fn ephemeral(ephemeral: &Node<'_, '_>, causes: &mut Causes) {
    let template = ephemeral.field("volumeClaimTemplate");
    if !template.is_set() {
        template.required(causes, "");
        return;
    }
    metadata::claim_template(&template.field("metadata"), causes);
    claims::claim_spec(&template.field("spec"), causes);
}

/// Where a local volume of a node or a volume of Pods is.
pub(super) fn host_directory(path: &Node<'_, '_>, causes: &mut Causes) {
    if path.is_given(causes) {
        no_backsteps(path, path, causes);
    }
}
