//! Live calls to subresources other than `status`: evictions, bindings, tokens, scales and logs.

use serde::Serialize;
use serde_json::json;

use super::{Client, LogOptions, json as body_of};
use crate::sys::CallOptions;
use crate::{Error, Key, Kind, Object};

const POD: Kind = Kind::core("v1", "Pod");

impl<'call> Client<'call> {
    /// Reads a subresource of an object, such as `scale`.
    ///
    /// # Errors
    /// See the [module](super).
    pub fn get_subresource(&self, kind: &Kind, key: &Key, subresource: &str) -> Result<Object<'call>, Error> {
        let options = CallOptions { subresource: Some(subresource), ..CallOptions::default() };
        Ok(Object::new(self.ctx.host().client_get(self.ctx.cluster(), kind, key, &options)?))
    }

    /// Creates a subresource of an object, such as `eviction`, `binding` or `token`.
    ///
    /// # Errors
    /// See the [module](super).
    pub fn create_subresource(
        &self,
        kind: &Kind,
        key: &Key,
        subresource: &str,
        body: &impl Serialize,
    ) -> Result<Object<'call>, Error> {
        let options =
            CallOptions { subresource: Some(subresource), name: Some(key), ..CallOptions::default() };
        let host = self.ctx.host();
        Ok(Object::new(host.client_create(self.ctx.cluster(), kind, &body_of(body)?, &options)?))
    }

    /// Evicts a pod: deletes it if its disruption budgets allow that. A budget that does not is an error of the code
    /// 429, after which the eviction may be tried again.
    ///
    /// # Errors
    /// See the [module](super).
    pub fn evict(&self, pod: &Key) -> Result<(), Error> {
        let metadata = json!({"namespace": pod.namespace, "name": pod.name});
        let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata});
        self.create_subresource(&POD, pod, "eviction", &body).map(drop)
    }

    /// Binds a pod to a node, as a scheduler does.
    ///
    /// # Errors
    /// See the [module](super).
    pub fn bind(&self, pod: &Key, node: &str) -> Result<(), Error> {
        let metadata = json!({"namespace": pod.namespace, "name": pod.name});
        let target = json!({"apiVersion": "v1", "kind": "Node", "name": node});
        let body = json!({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target});
        self.create_subresource(&POD, pod, "binding", &body).map(drop)
    }

    /// Requests a token of a ServiceAccount, for these audiences; without any, for the API server.
    ///
    /// # Errors
    /// See the [module](super).
    pub fn token(
        &self,
        account: &Key,
        audiences: &[&str],
        lifetime: std::time::Duration,
    ) -> Result<String, Error> {
        let spec = json!({"audiences": audiences, "expirationSeconds": lifetime.as_secs()});
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
        let kind = Kind::core("v1", "ServiceAccount");
        let answer = self.create_subresource(&kind, account, "token", &body)?;
        Ok(answer.get_string("/status/token")?.unwrap_or_default())
    }

    /// Sets the number of replicas of an object with the subresource `scale`.
    ///
    /// # Errors
    /// See the [module](super).
    pub fn scale(&self, kind: &Kind, key: &Key, replicas: u32) -> Result<(), Error> {
        let options = super::WriteOptions { subresource: Some("scale".to_owned()), ..Default::default() };
        self.patch_merge(kind, key, &json!({"spec": {"replicas": replicas}}), &options).map(drop)
    }

    /// Reads the log of a container, at most 16 MiB.
    ///
    /// # Errors
    /// See the [module](super).
    pub fn pod_log(&self, pod: &Key, options: &LogOptions) -> Result<Vec<u8>, Error> {
        Ok(self.ctx.host().pod_log(self.ctx.cluster(), pod, &options.raw())?)
    }
}
