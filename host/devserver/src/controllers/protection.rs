//! The protection of volumes: a claim that is being deleted stays while a Pod uses it, and a volume while a claim is bound to it.
//! The finalizers that say so are there from the start; here they are taken off.

use std::sync::Arc;

use serde_json::Value;

use super::queue::{Queue, Reference, Work};
use crate::api::Metadata;
use crate::store::{Query, Stored};
use crate::verbs::Core;

const CLAIMS: &str = "/persistentvolumeclaims";
const VOLUMES: &str = "/persistentvolumes";
const PODS: &str = "/pods";
const OF_CLAIMS: &str = "kubernetes.io/pvc-protection";
const OF_VOLUMES: &str = "kubernetes.io/pv-protection";

/// Queues what a change may set free: an object that is being deleted, and the claims of a Pod that has ended.
pub(super) fn observe(core: &Core, table: &Arc<str>, now: &Stored, queue: &mut Queue) {
    match &**table {
        CLAIMS | VOLUMES if now.object.deletion_timestamp().is_some() => {
            queue.add(Work::Unprotect(Reference::new(table, now)));
        }
        PODS if has_ended(now) => queue_claims(core, now, queue),
        _ => {}
    }
}

/// The same for an object that has gone.
pub(super) fn observe_end(core: &Core, table: &Arc<str>, last: &Stored, queue: &mut Queue) {
    match &**table {
        PODS => queue_claims(core, last, queue),
        CLAIMS => {
            if let Some(volume) = last.object.get_string("/spec/volumeName") {
                queue_deleted(core, VOLUMES, &volume, queue);
            }
        }
        _ => {}
    }
}

fn queue_claims(core: &Core, pod: &Stored, queue: &mut Queue) {
    let Some(namespace) = pod.object.namespace() else { return };
    for claim in claims_of(pod) {
        queue_deleted(core, CLAIMS, &format!("{namespace}/{claim}"), queue);
    }
}

/// Queues an object if it is being deleted.
fn queue_deleted(core: &Core, table: &str, key: &str, queue: &mut Queue) {
    let found = core.store.get(table, key);
    if let Some(found) = found.filter(|found| found.object.deletion_timestamp().is_some()) {
        queue.add(Work::Unprotect(Reference::new(&table.into(), &found)));
    }
}

/// Takes the finalizer off a claim or a volume that is being deleted and that nobody uses; how many Pods were looked at.
pub(super) fn unprotect(core: &Core, reference: &Reference) -> usize {
    let Some(found) = core.store.get(&reference.table, reference.key.as_str()) else { return 1 };
    if found.object.deletion_timestamp().is_none() {
        return 1;
    }
    let (looks, finalizer) = match &*reference.table {
        CLAIMS => match pods_before_user(core, &found) {
            Some(looks) => (looks, OF_CLAIMS),
            None => return core.store.count(PODS),
        },
        _ if is_bound(core, &found) => return 1,
        _ => (1, OF_VOLUMES),
    };
    let object = &found.object;
    if let Some(write) = core.own_write(&reference.table, object.namespace(), object.name()) {
        // It fails only if the object has gone.
        let _ = core.change(&write, |current, old| {
            let mut next = old.clone();
            let mut metadata = Metadata::of(&mut next)?;
            let is_protected = metadata.finalizers().any(|name| name == finalizer);
            metadata.remove_finalizer(finalizer);
            Ok((is_protected && current.object.uid() == object.uid()).then_some(next))
        });
    }
    looks
}

/// How many Pods there are in the namespace of a claim, of which none uses it; `None` if one does.
fn pods_before_user(core: &Core, claim: &Stored) -> Option<usize> {
    let prefix = format!("{}/", claim.object.namespace()?);
    let name = claim.object.name();
    let looks = std::cell::Cell::new(1);
    let uses = |pod: &Stored| {
        looks.set(looks.get() + 1);
        !has_ended(pod) && claims_of(pod).iter().any(|used| used == name)
    };
    let query = Query { table: PODS, prefix: &prefix, after: None, revision: None, limit: 1, wanted: &uses };
    let users = core.store.list(&query).map(|found| found.objects).unwrap_or_default();
    users.is_empty().then(|| looks.get())
}

/// Whether a claim that is there is bound to a volume.
fn is_bound(core: &Core, volume: &Stored) -> bool {
    let text = |pointer: &str| volume.object.get_string(pointer).unwrap_or_default();
    let claim = format!("{}/{}", text("/spec/claimRef/namespace"), text("/spec/claimRef/name"));
    text("/status/phase") == "Bound" && core.store.get(CLAIMS, &claim).is_some()
}

fn has_ended(pod: &Stored) -> bool {
    matches!(pod.object.get_string("/status/phase").as_deref(), Some("Succeeded" | "Failed"))
}

/// The names of the claims that a Pod uses, those that are made for it included.
fn claims_of(pod: &Stored) -> Vec<String> {
    let Some(text) = pod.object.get("/spec/volumes") else { return Vec::new() };
    // Most Pods use none.
    if !text.contains("\"persistentVolumeClaim\"") && !text.contains("\"ephemeral\"") {
        return Vec::new();
    }
    let volumes: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    let claim = |volume: &Value| match volume["persistentVolumeClaim"]["claimName"].as_str() {
        Some(name) => Some(name.to_owned()),
        None if volume["ephemeral"].is_object() => {
            Some(format!("{}-{}", pod.object.name(), volume["name"].as_str().unwrap_or_default()))
        }
        None => None,
    };
    volumes.iter().filter_map(claim).collect()
}
