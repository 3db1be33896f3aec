//! [`Cluster`]: objects of a control plane, made, changed and read as admin in some milliseconds each, where `kubectl`
//! takes a quarter of a second.
//!
//! Invariant: a call returns when the API server has answered. All methods block; they must not be called from within a
//! tokio runtime.

use anyhow::Context;
use kube_client::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube_client::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube_client::{Api, Client};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::ControlPlane;

/// The objects of a control plane.
pub struct Cluster {
    runtime: Runtime,
    client: Client,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cluster")
    }
}

impl Cluster {
    /// The objects of this control plane.
    pub fn of(plane: &ControlPlane) -> anyhow::Result<Cluster> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let client = runtime.block_on(plane.client())?;
        Ok(Cluster { runtime, client })
    }

    /// Makes a namespace.
    pub fn namespace(&self, name: &str) -> anyhow::Result<()> {
        self.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).map(drop)
    }

    /// Makes a ConfigMap with one entry, `value`.
    pub fn config_map(&self, namespace: &str, name: &str) -> anyhow::Result<Value> {
        self.create(&json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": namespace, "name": name}, "data": {"value": "first"},
        }))
    }

    /// Gives the `value` of a ConfigMap another value and returns the new object.
    pub fn change(&self, namespace: &str, name: &str, value: &str) -> anyhow::Result<Value> {
        self.merge("v1/ConfigMap", namespace, name, &json!({"data": {"value": value}}))
    }

    /// Makes an object and returns it as the API server has it.
    pub fn create(&self, object: &Value) -> anyhow::Result<Value> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let kind = format!("{}/{}", text("/apiVersion"), text("/kind"));
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        let api = self.api(&kind, namespace);
        let object: DynamicObject = serde_json::from_value(object.clone())?;
        let made = self.runtime.block_on(api.create(&PostParams::default(), &object));
        finish(made, "creating", &kind, namespace, name)
    }

    /// Changes an object by a merge patch. The kind is written as `apps/v1/Deployment`.
    pub fn merge(&self, kind: &str, namespace: &str, name: &str, patch: &Value) -> anyhow::Result<Value> {
        let (api, params) = (self.api(kind, namespace), PatchParams::default());
        let changed = self.runtime.block_on(api.patch(name, &params, &Patch::Merge(patch)));
        finish(changed, "changing", kind, namespace, name)
    }

    /// As [`Cluster::merge`], for the status.
    pub fn merge_status(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> anyhow::Result<Value> {
        let (api, params) = (self.api(kind, namespace), PatchParams::default());
        let changed = self.runtime.block_on(api.patch_status(name, &params, &Patch::Merge(patch)));
        finish(changed, "changing the status of", kind, namespace, name)
    }

    /// Deletes an object.
    pub fn delete(&self, kind: &str, namespace: &str, name: &str) -> anyhow::Result<()> {
        let deleted = self.runtime.block_on(self.api(kind, namespace).delete(name, &DeleteParams::default()));
        deleted.map(drop).with_context(|| format!("deleting {kind} {namespace}/{name}"))
    }

    /// An object, if it is there.
    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> anyhow::Result<Option<Value>> {
        let found = self.runtime.block_on(self.api(kind, namespace).get_opt(name));
        let found = found.with_context(|| format!("reading {kind} {namespace}/{name}"))?;
        Ok(found.map(serde_json::to_value).transpose()?)
    }

    fn api(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let (api_version, kind) = kind.rsplit_once('/').unwrap_or(("v1", kind));
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        if namespace.is_empty() {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), namespace, &resource)
        }
    }
}

fn finish(
    answer: kube_client::Result<DynamicObject>,
    doing: &str,
    kind: &str,
    namespace: &str,
    name: &str,
) -> anyhow::Result<Value> {
    let object = answer.with_context(|| format!("{doing} {kind} {namespace}/{name}"))?;
    Ok(serde_json::to_value(object)?)
}
