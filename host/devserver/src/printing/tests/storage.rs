use serde_json::{Value, json};

use super::{ago, assert_cells, merge, object};

#[test]
fn a_volume_shows_what_it_offers_and_to_whom() {
    let mut volume = object(
        "v1",
        "PersistentVolume",
        "pv-1",
        json!({
            "spec": {
                "capacity": {"storage": "10240Mi"},
                "accessModes": ["ReadWriteMany", "ReadWriteOnce", "ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "fast",
                "volumeMode": "Filesystem",
                "claimRef": {"namespace": "demo", "name": "data"},
            },
            "status": {"phase": "Bound"},
        }),
    );
    let row = |status, claim, class, attributes| {
        json!([
            "pv-1",
            "10Gi",
            "RWO,RWX",
            "Retain",
            status,
            claim,
            class,
            attributes,
            "",
            "10d",
            "Filesystem"
        ])
    };
    assert_cells("persistentvolumes", &volume, row("Bound", "demo/data", "fast", "<unset>"));
    let beta = json!({"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}, "deletionTimestamp": ago(60)});
    merge(&mut volume, json!({"metadata": beta}));
    volume["spec"]["claimRef"] = json!(null);
    volume["spec"]["volumeAttributesClassName"] = json!("gold");
    assert_cells("persistentvolumes", &volume, row("Terminating", "", "old", "gold"));
}

#[test]
fn a_claim_shows_capacity_only_once_it_is_bound() {
    let mut claim = object(
        "v1",
        "PersistentVolumeClaim",
        "data",
        json!({
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}, "storageClassName": "fast"},
            "status": {"phase": "Pending"},
        }),
    );
    let pending = json!(["data", "Pending", "", "", "", "fast", "<unset>", "10d", "<unset>"]);
    assert_cells("persistentvolumeclaims", &claim, pending);
    claim["spec"]["volumeName"] = json!("pv-1");
    claim["spec"]["volumeMode"] = json!("Block");
    claim["status"] =
        json!({"phase": "Bound", "accessModes": ["ReadWriteOncePod"], "capacity": {"storage": "8Gi"}});
    let bound = json!(["data", "Bound", "pv-1", "8Gi", "RWOP", "fast", "<unset>", "10d", "Block"]);
    assert_cells("persistentvolumeclaims", &claim, bound);
    claim["status"] = json!({"phase": "Lost"});
    let lost = json!(["data", "Lost", "pv-1", "0", "", "fast", "<unset>", "10d", "Block"]);
    assert_cells("persistentvolumeclaims", &claim, lost);
}

fn storage(kind: &str, members: Value) -> Value {
    object("storage.k8s.io/v1", kind, "x", members)
}

#[test]
fn a_storage_class_shows_its_defaults() {
    let class = storage("StorageClass", json!({"provisioner": "example.org/disk"}));
    assert_cells(
        "storageclasses",
        &class,
        json!(["x", "example.org/disk", "Delete", "Immediate", false, "10d"]),
    );
    let class = storage(
        "StorageClass",
        json!({
            "metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "example.org/disk",
            "reclaimPolicy": "Retain",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowVolumeExpansion": true,
        }),
    );
    let row = json!(["x (default)", "example.org/disk", "Retain", "WaitForFirstConsumer", true, "10d"]);
    assert_cells("storageclasses", &class, row);
}

#[test]
fn drivers_and_attachments_show_what_they_do() {
    let plain = storage(
        "CSIDriver",
        json!({"spec": {"attachRequired": true, "volumeLifecycleModes": ["Persistent"]}}),
    );
    assert_cells(
        "csidrivers",
        &plain,
        json!(["x", true, false, false, "<unset>", false, "Persistent", "10d"]),
    );
    let full = json!({
        "attachRequired": false,
        "podInfoOnMount": true,
        "storageCapacity": true,
        "requiresRepublish": true,
        "tokenRequests": [{"audience": "a"}, {"audience": "b"}],
        "volumeLifecycleModes": ["Persistent", "Ephemeral"],
    });
    let row = json!(["x", false, true, true, "a,b", true, "Persistent,Ephemeral", "10d"]);
    assert_cells("csidrivers", &storage("CSIDriver", json!({"spec": full})), row);
    assert_cells(
        "csinodes",
        &storage("CSINode", json!({"spec": {"drivers": [{"name": "d", "nodeID": "n"}]}})),
        json!(["x", 1, "10d"]),
    );
    let class = json!({"driverName": "example.org/disk"});
    assert_cells(
        "volumeattributesclasses",
        &storage("VolumeAttributesClass", class),
        json!(["x", "example.org/disk", "10d"]),
    );
    let attachment = storage(
        "VolumeAttachment",
        json!({
            "spec": {"attacher": "example.org/disk", "nodeName": "node-1", "source": {"persistentVolumeName": "pv-1"}},
            "status": {"attached": true},
        }),
    );
    let row = json!(["x", "example.org/disk", "pv-1", "node-1", true, "10d"]);
    assert_cells("volumeattachments", &attachment, row);
}
