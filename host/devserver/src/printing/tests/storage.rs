use serde_json::json;

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
