//! What `kubectl get` shows: the cells of the Tables that the server makes of objects.
//!
//! [`cells`] is for the built-in kinds, [`custom_cells`] for custom resources. The columns' names, types and
//! priorities come from elsewhere (the generated table of resources, a CRD's `additionalPrinterColumns`); here are
//! only the values, as many and in the same order, those of wide output always among them. Objects are read
//! leniently: what is absent or of another type reads as empty, zero or false, so no object makes this fail.
//!
//! Called when a client asks for `as=Table`.

mod core;
mod custom;
mod duration;
mod jsonpath;
mod network;
mod pods;
mod policy;
mod read;
mod storage;
mod workloads;

use jiff::Timestamp;
use serde_json::Value;

pub(crate) use custom::{CustomColumn, custom_cells};
use duration::age;
pub(crate) use read::selector;
use read::{name, text};

/// The cells of an object of a built-in kind; `None` of a kind that is shown by name and age alone, or if there is no such kind.
pub(crate) fn cells(group: &str, resource: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let row = Row { object, now };
    Some(match (group, resource) {
        ("", "pods") => pods::pod(row),
        ("", "services") => network::service(row),
        ("", "endpoints") => network::endpoints(row),
        ("", "persistentvolumes") => storage::persistent_volume(row),
        ("", "persistentvolumeclaims") => storage::persistent_volume_claim(row),
        ("", "replicationcontrollers") => workloads::replication_controller(row),
        ("", "podtemplates") => workloads::pod_template(row),
        ("" | "events.k8s.io", "events") => core::event(row),
        ("", _) => core::cells(resource, row)?,
        ("apps" | "batch" | "autoscaling", _) => workloads::cells(resource, row)?,
        ("networking.k8s.io" | "discovery.k8s.io", _) => network::cells(resource, row)?,
        ("rbac.authorization.k8s.io" | "policy" | "coordination.k8s.io", _) => policy::cells(resource, row)?,
        ("apiextensions.k8s.io", "customresourcedefinitions") => row.name_and_creation(),
        _ => return None,
    })
}

/// An object to be shown, and when.
#[derive(Clone, Copy)]
struct Row<'a> {
    object: &'a Value,
    now: Timestamp,
}

impl Row<'_> {
    fn name(self) -> Value {
        name(self.object).into()
    }

    fn age(self) -> Value {
        self.since("/metadata/creationTimestamp").into()
    }

    fn since(self, pointer: &str) -> String {
        age(Some(text(self.object, pointer)), self.now)
    }

    /// The cells of kinds for which the server has no columns of their own.
    fn name_and_creation(self) -> Vec<Value> {
        vec![self.name(), text(self.object, "/metadata/creationTimestamp").into()]
    }

    fn name_and_age(self) -> Vec<Value> {
        vec![self.name(), self.age()]
    }
}

#[cfg(test)]
mod tests;
