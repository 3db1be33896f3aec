//! Volumes and claims.

use serde_json::Value;

use super::Row;
use super::read::{UNSET, annotation, exists, is_deleted, map, optional_text, text, texts};
use crate::quantity::canonical;

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
