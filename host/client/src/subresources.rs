//! Calls on subresources of objects: to create one, and to read the log of a pod.

use http::Method;
use pilothouse_object::{Gvk, Object, ObjectKey};
use serde_json::{Map, Value, json};

use crate::client::failure::{undecodable, unexpected};
use crate::client::{Call, Client, OBJECT_LIMIT};
use crate::error::{Error, Result};
use crate::params::{ApiResource, WriteParams};
use crate::url::Target;

/// Parameters of reading a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogParams {
    /// The container; may be left out for a pod of one container.
    pub container: Option<String>,
    /// The last lines only.
    pub tail_lines: Option<u32>,
    /// The log of the run before this one.
    pub previous: bool,
    /// The log is cut after so many bytes.
    pub limit_bytes: usize,
}

impl Client {
    /// Creates a subresource of an object, such as `eviction`, `binding` or `token`, from its JSON. A server that answers with a
    /// Status, which has no name, is given as a Status with the name of the object.
    ///
    /// # Errors
    /// As the server answers; [`Error::Request`] when `params` names no subresource.
    pub async fn create_subresource(
        &self,
        resource: &ApiResource,
        key: &ObjectKey,
        body: &[u8],
        params: &WriteParams,
    ) -> Result<Object> {
        if params.subresource.is_none() {
            return Err(Error::Request("no subresource is named".to_owned()));
        }
        let call = self.write_call(Method::POST, resource, key, body, params)?;
        let body = self.fetch_ok(&call, OBJECT_LIMIT).await?;
        // What answers may be no API, as behind a proxy.
        let mut answer: Map<String, Value> =
            serde_json::from_slice(&body).map_err(|e| unexpected(self.doing(&call), &e))?;
        let metadata = answer.entry("metadata").or_insert_with(|| json!({}));
        if !metadata.is_object() {
            *metadata = json!({});
        }
        if metadata["name"].as_str().is_none_or(str::is_empty) {
            metadata["name"] = key.name().into();
            if let Some(namespace) = key.namespace() {
                metadata["namespace"] = namespace.into();
            }
        }
        let named = crate::verbs::json(&answer)?;
        Object::decode_as(&named, &resource.gvk).map_err(|e| undecodable(self.doing(&call), &e))
    }

    /// Reads the log of a container as it is now.
    ///
    /// # Errors
    /// As the server answers.
    pub async fn pod_log(&self, pod: &ObjectKey, params: &LogParams) -> Result<Vec<u8>> {
        let resource = ApiResource::new(Gvk::new("", "v1", "Pod"), "pods", true);
        let mut target = Target::object(&resource, pod, Some("log"))?;
        if let Some(container) = &params.container {
            target.query("container", container);
        }
        if let Some(lines) = params.tail_lines {
            target.query("tailLines", &lines.to_string());
        }
        if params.previous {
            target.query("previous", "true");
        }
        target.query("limitBytes", &params.limit_bytes.to_string());
        let call = Call::new(Method::GET, target);
        let mut log = Vec::new();
        self.fetch_pieces(&call, &mut |piece| {
            // Servers may answer more than they were asked for.
            let room = params.limit_bytes - log.len();
            log.extend_from_slice(&piece[..piece.len().min(room)]);
            Ok(())
        })
        .await?;
        Ok(log)
    }
}
