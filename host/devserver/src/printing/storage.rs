//! Volumes, claims and the group `storage.k8s.io`.

use serde_json::Value;

use super::Row;
use super::read::{
    NONE, UNSET, annotation, count, exists, flag, is_deleted, joined, list, map, name, optional_text, text,
    texts,
};
use crate::quantity::canonical;

pub(super) fn cells(resource: &str, row: Row<'_>) -> Option<Vec<Value>> {
    let object = row.object;
    Some(match resource {
        "storageclasses" => storage_class(row),
        "csidrivers" => csi_driver(row),
        "csinodes" => vec![row.name(), count(object, "/spec/drivers").into(), row.age()],
        "csistoragecapacities" => row.name_and_creation(),
        "volumeattachments" => volume_attachment(row),
        "volumeattributesclasses" => vec![row.name(), text(object, "/driverName").into(), row.age()],
        _ => return None,
    })
}

pub(super) fn persistent_volume(row: Row<'_>) -> Vec<Value> {
    let volume = row.object;
    let claim = if exists(volume, "/spec/claimRef") {
        format!("{}/{}", text(volume, "/spec/claimRef/namespace"), text(volume, "/spec/claimRef/name"))
    } else {
        String::new()
    };
    vec![
        row.name(),
        storage(volume, "/spec/capacity").into(),
        access_modes(volume, "/spec/accessModes").into(),
        text(volume, "/spec/persistentVolumeReclaimPolicy").into(),
        phase(volume).into(),
        claim.into(),
        class(volume).into(),
        optional_text(volume, "/spec/volumeAttributesClassName").unwrap_or(UNSET).into(),
        text(volume, "/status/reason").into(),
        row.age(),
        optional_text(volume, "/spec/volumeMode").unwrap_or(UNSET).into(),
    ]
}

pub(super) fn persistent_volume_claim(row: Row<'_>) -> Vec<Value> {
    let claim = row.object;
    let volume = text(claim, "/spec/volumeName");
    let (capacity, modes) = match volume {
        "" => (String::new(), String::new()),
        _ => (storage(claim, "/status/capacity"), access_modes(claim, "/status/accessModes")),
    };
    vec![
        row.name(),
        phase(claim).into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        class(claim).into(),
        optional_text(claim, "/spec/volumeAttributesClassName").unwrap_or(UNSET).into(),
        row.age(),
        optional_text(claim, "/spec/volumeMode").unwrap_or(UNSET).into(),
    ]
}

fn phase(object: &Value) -> &str {
    if is_deleted(object) { "Terminating" } else { text(object, "/status/phase") }
}

fn class(object: &Value) -> &str {
    let annotated = annotation(object, "volume.beta.kubernetes.io/storage-class");
    annotated.unwrap_or_else(|| text(object, "/spec/storageClassName"))
}

fn storage(object: &Value, pointer: &str) -> String {
    map(object, pointer)
        .and_then(|resources| resources.get("storage"))
        .map_or_else(|| "0".to_owned(), canonical)
}

fn access_modes(object: &Value, pointer: &str) -> String {
    const MODES: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let given = texts(object, pointer);
    let shown = MODES.iter().filter(|(mode, _)| given.contains(mode)).map(|(_, short)| *short);
    shown.collect::<Vec<_>>().join(",")
}

fn storage_class(row: Row<'_>) -> Vec<Value> {
    let class = row.object;
    let markers =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    let default = markers.iter().any(|marker| annotation(class, marker) == Some("true"));
    vec![
        format!("{}{}", name(class), if default { " (default)" } else { "" }).into(),
        text(class, "/provisioner").into(),
        optional_text(class, "/reclaimPolicy").unwrap_or("Delete").into(),
        optional_text(class, "/volumeBindingMode").unwrap_or("Immediate").into(),
        flag(class, "/allowVolumeExpansion").into(),
        row.age(),
    ]
}

fn csi_driver(row: Row<'_>) -> Vec<Value> {
    let driver = row.object;
    let audiences = list(driver, "/spec/tokenRequests").iter().map(|request| text(request, "/audience"));
    let audiences = if exists(driver, "/spec/tokenRequests") {
        audiences.collect::<Vec<_>>().join(",")
    } else {
        UNSET.to_owned()
    };
    vec![
        row.name(),
        driver.pointer("/spec/attachRequired").and_then(Value::as_bool).unwrap_or(true).into(),
        flag(driver, "/spec/podInfoOnMount").into(),
        flag(driver, "/spec/storageCapacity").into(),
        audiences.into(),
        flag(driver, "/spec/requiresRepublish").into(),
        joined(&texts(driver, "/spec/volumeLifecycleModes"), NONE).into(),
        row.age(),
    ]
}

fn volume_attachment(row: Row<'_>) -> Vec<Value> {
    let attachment = row.object;
    vec![
        row.name(),
        text(attachment, "/spec/attacher").into(),
        text(attachment, "/spec/source/persistentVolumeName").into(),
        text(attachment, "/spec/nodeName").into(),
        flag(attachment, "/status/attached").into(),
        row.age(),
    ]
}
