//! [`Cluster`]: creates, changes and reads objects of a control plane as admin. An operation takes some milliseconds;
//! `kubectl` takes a quarter of a second.
//!
//! Invariant: a call returns when the API server has responded. All methods block and must not be called within a tokio
//! runtime.

use ::http::Method;
use anyhow::{Context, ensure};
use pilothouse_client::{ApiResource, Client, DeleteParams, Patch, WriteParams};
use pilothouse_object::{Gvk, Object, ObjectKey};
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

    /// Creates a namespace.
    pub fn namespace(&self, name: &str) -> anyhow::Result<()> {
        self.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).map(drop)
    }

    /// Creates a ConfigMap with one entry, `value`.
    pub fn config_map(&self, namespace: &str, name: &str) -> anyhow::Result<Value> {
        self.create(&json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": namespace, "name": name}, "data": {"value": "first"},
        }))
    }

    /// Changes the entry `value` of a ConfigMap and returns the new object.
    pub fn change(&self, namespace: &str, name: &str, value: &str) -> anyhow::Result<Value> {
        self.merge("v1/ConfigMap", namespace, name, &json!({"data": {"value": value}}))
    }

    /// Creates an object and returns the stored object.
    pub fn create(&self, object: &Value) -> anyhow::Result<Value> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let kind = format!("{}/{}", text("/apiVersion"), text("/kind"));
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        let (resource, body) = (resource(&kind, namespace), serde_json::to_vec(object)?);
        let (of, params) = ((!namespace.is_empty()).then_some(namespace), WriteParams::default());
        let made = self.runtime.block_on(self.client.create(&resource, of, &body, &params));
        finish(made, "creating", &kind, namespace, name)
    }

    /// Changes an object with a merge patch. The kind has the form `apps/v1/Deployment`.
    pub fn merge(&self, kind: &str, namespace: &str, name: &str, patch: &Value) -> anyhow::Result<Value> {
        let changed = self.patch(kind, namespace, name, patch, &WriteParams::default())?;
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
        let params = WriteParams { subresource: Some("status".to_owned()), ..WriteParams::default() };
        let changed = self.patch(kind, namespace, name, patch, &params)?;
        finish(changed, "changing the status of", kind, namespace, name)
    }

    /// Deletes an object.
    pub fn delete(&self, kind: &str, namespace: &str, name: &str) -> anyhow::Result<()> {
        self.delete_with(kind, namespace, name, &DeleteParams::default())
    }

    /// Deletes an object without a grace period.
    pub fn delete_now(&self, kind: &str, namespace: &str, name: &str) -> anyhow::Result<()> {
        let params = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.delete_with(kind, namespace, name, &params)
    }

    fn delete_with(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        params: &DeleteParams,
    ) -> anyhow::Result<()> {
        let (resource, key) = (resource(kind, namespace), key(namespace, name)?);
        let deleted = self.runtime.block_on(self.client.delete(&resource, &key, params));
        deleted.map(drop).with_context(|| format!("deleting {kind} {namespace}/{name}"))
    }

    /// Reads an object; `None` if it does not exist.
    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> anyhow::Result<Option<Value>> {
        let (resource, key) = (resource(kind, namespace), key(namespace, name)?);
        match self.runtime.block_on(self.client.get(&resource, &key, None)) {
            Err(error) if error.is_not_found() => Ok(None),
            found => finish(found, "reading", kind, namespace, name).map(Some),
        }
    }

    /// Reads all objects of a kind in a namespace, or in all if `namespace` is empty, with their managed fields.
    pub fn list(&self, kind: &str, namespace: &str) -> anyhow::Result<Vec<Value>> {
        let resource = resource(kind, namespace);
        let (group, version) = (&resource.gvk.group, &resource.gvk.version);
        let prefix = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
        let within = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
        let path = format!("{prefix}/{version}{within}/{}", resource.plural);
        let listed = self.runtime.block_on(self.client.request_raw(Method::GET, &path, None));
        let (status, body) = listed.with_context(|| format!("listing {path}"))?;
        ensure!(status.is_success(), "listing {path}: {status}");
        let mut list: Value = serde_json::from_slice(&body)?;
        Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    /// Whether there is an Event with this reason about an object of this name.
    pub fn has_event(&self, namespace: &str, name: &str, reason: &str) -> anyhow::Result<bool> {
        let events = self.list("v1/Event", namespace)?;
        Ok(events.iter().any(|event| event["involvedObject"]["name"] == name && event["reason"] == reason))
    }

    /// Sends a merge patch and returns the result.
    fn patch(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        patch: &Value,
        params: &WriteParams,
    ) -> anyhow::Result<pilothouse_client::Result<Object>> {
        let (resource, key, body) =
            (resource(kind, namespace), key(namespace, name)?, serde_json::to_vec(patch)?);
        Ok(self.runtime.block_on(self.client.patch(&resource, &key, Patch::Merge(&body), params)))
    }
}

/// The resource of a kind in the form `apps/v1/Deployment`; cluster-scoped if `namespace` is empty. The plural is the
/// lower-case kind with an `s`, which is right for every kind in these tests.
fn resource(kind: &str, namespace: &str) -> ApiResource {
    let (api_version, kind) = kind.rsplit_once('/').unwrap_or(("v1", kind));
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let plural = format!("{}s", kind.to_lowercase());
    ApiResource::new(Gvk::new(group, version, kind), &plural, !namespace.is_empty())
}

fn key(namespace: &str, name: &str) -> anyhow::Result<ObjectKey> {
    Ok(ObjectKey::new((!namespace.is_empty()).then_some(namespace), name)?)
}

fn finish(
    answer: pilothouse_client::Result<Object>,
    doing: &str,
    kind: &str,
    namespace: &str,
    name: &str,
) -> anyhow::Result<Value> {
    let object = answer.with_context(|| format!("{doing} {kind} {namespace}/{name}"))?;
    Ok(serde_json::from_slice(object.bytes())?)
}
