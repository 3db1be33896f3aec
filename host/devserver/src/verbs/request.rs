//! [`ResourceRequest`]: a request that names objects, read as far as every verb needs it.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use super::read::ListTwist;
use super::write::{Source, Write, key};
use crate::api::{About, Accepted, ApiError, Cause, JsonMap, Params, Target, Warnings};
use crate::apply::manager_name;
use crate::kinds::Creation;
use crate::protobuf;
use crate::resources::Resource;
use crate::schema::duplicate_fields;

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
    pub(crate) uid: String,
    pub(crate) extra: Vec<(String, Vec<String>)>,
}

/// What a request asks for.
#[derive(Debug)]
pub(crate) struct ResourceRequest {
    pub(crate) resource: Arc<Resource>,
    pub(crate) target: Target,
    pub(crate) params: Params,
    pub(crate) accepted: Accepted,
    /// The media type of the body.
    pub(crate) content_type: String,
    pub(crate) body: Bytes,
    pub(crate) user: User,
    pub(crate) user_agent: String,
    /// What a fault does to lists and reads.
    pub(crate) twist: ListTwist,
    /// What the answer carries in `Warning` headers.
    pub(crate) warnings: Warnings,
}

/// The verb of a request on objects, by the API's names.
pub(crate) fn verb(method: &Method, target: &Target, params: &Params) -> Option<&'static str> {
    let named = target.name.is_some();
    Some(match *method {
        Method::GET if target.old_watch => "watch",
        Method::GET if !named && params.is_on("watch") => "watch",
        Method::GET if named => "get",
        Method::GET => "list",
        Method::POST => "create",
        Method::PUT if named => "update",
        Method::PATCH if named => "patch",
        Method::DELETE if named => "delete",
        Method::DELETE => "deletecollection",
        _ => return None,
    })
}

impl ResourceRequest {
    /// Namespaced resources need a namespace except for lists, watches and collections; others take none.
    pub(super) fn check_scope(&self, verb: &str) -> Result<(), ApiError> {
        let everywhere = matches!(verb, "list" | "watch") && self.target.name.is_none();
        let is_review = matches!(self.resource.strategy.creation, Creation::Review(_));
        match (&self.target.namespace, self.resource.namespaced) {
            (Some(_), false) => Err(ApiError::no_path()),
            (None, true) if everywhere || is_review => Ok(()),
            // Their lists are there for all namespaces, so the path is, too.
            (None, true) if self.target.name.is_none() && !self.resource.is_custom() => {
                Err(ApiError::method_not_allowed())
            }
            (None, true) => Err(ApiError::no_path()),
            _ => Ok(()),
        }
    }

    /// The write that a request asks for.
    ///
    /// # Errors
    /// For options that the API has not.
    pub(super) fn write(&self) -> Result<Write, ApiError> {
        Ok(Write {
            resource: self.resource.clone(),
            namespace: self.target.namespace.clone(),
            name: self.name().to_owned(),
            dry: self.params.dry_run()?,
            is_patch: self.is_patch(),
            validation: self.params.field_validation(self.options())?,
            warnings: self.warnings.clone(),
            manager: manager_name(self.field_manager()?, &self.user_agent),
            subresource: self.target.subresource.clone().unwrap_or_default(),
        })
    }

    pub(super) fn name(&self) -> &str {
        self.target.name.as_deref().unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> &str {
        self.target.namespace.as_deref().unwrap_or_default()
    }

    /// Under which key the named object is stored.
    pub(super) fn key(&self) -> String {
        key(self.namespace(), self.name())
    }

    /// What errors are about: the resource and the name.
    pub(super) fn about(&self) -> About {
        About::new(&self.resource.group, &self.resource.name, self.name())
    }

    /// `fieldManager`; empty if the request names none.
    fn field_manager(&self) -> Result<&str, ApiError> {
        const LIMIT: usize = 128;
        let name = self.params.filled("fieldManager").unwrap_or_default();
        let invalid = |message: String, reason| {
            let cause = Cause { reason, message, field: "fieldManager".to_owned() };
            ApiError::invalid(About::new("meta.k8s.io", self.options(), ""), vec![cause])
        };
        if name.len() > LIMIT {
            let message = format!("Too long: may not be more than {LIMIT} bytes");
            return Err(invalid(message, "FieldValueTooLong"));
        }
        if name.chars().any(char::is_control) {
            let message =
                format!("Invalid value: {}: should only contain printable characters", Value::from(name));
            return Err(invalid(message, "FieldValueInvalid"));
        }
        Ok(name)
    }

    /// Whether the request applies a configuration.
    pub(super) fn is_apply(&self) -> bool {
        self.content_type.starts_with("application/apply-patch+")
    }

    /// Whether the request is a patch, by its media type.
    fn is_patch(&self) -> bool {
        self.content_type.ends_with("-patch+json") || self.is_apply()
    }

    /// The kind of the request's options.
    fn options(&self) -> &'static str {
        match &self.target.name {
            _ if self.is_patch() => "PatchOptions",
            Some(_) => "UpdateOptions",
            None => "CreateOptions",
        }
    }

    /// The body as an object of the resource, in the stored form.
    pub(super) fn object(&self, write: &Write) -> Result<JsonMap, ApiError> {
        write.as_stored(self.json_body()?, &self.source())
    }

    /// What is known of the text of the body: the fields that stand in it more than once, if it is JSON.
    pub(super) fn source(&self) -> Source<'_> {
        let patch = self.is_patch().then_some(&*self.body);
        let prefix = match self.content_type.as_str() {
            "application/json-patch+json" => "json patch ",
            "" | "application/json" => "",
            _ if self.is_patch() => "",
            _ => return Source { patch, text: &self.body, ..Source::default() },
        };
        let is_strategic = self.content_type == "application/strategic-merge-patch+json";
        let is_json = patch.is_none();
        // Those of a built-in kind are found with the unknown fields, in the order of the text.
        let paths = match is_json && !self.resource.is_custom() {
            true => Vec::new(),
            false => duplicate_fields(&self.body),
        };
        let faults = paths.iter().map(|path| format!("{prefix}duplicate field \"{path}\"")).collect();
        Source { faults, patch, is_strategic, is_json, text: &self.body, is_applied: false }
    }

    /// The body as a JSON object, whatever it is.
    pub(super) fn json_body(&self) -> Result<JsonMap, ApiError> {
        let value: Value = match self.content_type.as_str() {
            "" | "application/json" => serde_json::from_slice(&self.body)
                .map_err(|e| ApiError::bad_request(format!("the body is not JSON: {e}")))?,
            "application/yaml" => {
                let text = std::str::from_utf8(&self.body)
                    .map_err(|_| ApiError::bad_request("the body is not UTF-8"))?;
                serde_saphyr::from_str(text)
                    .map_err(|e| ApiError::bad_request(format!("the body is not YAML: {e}")))?
            }
            protobuf::MEDIA_TYPE => protobuf::decode(&self.body)
                .map_err(|e| ApiError::bad_request(format!("the body cannot be decoded: {e}")))?,
            other => {
                return Err(ApiError::unsupported_media_type(format!(
                    "the body of the request was in an unknown format - accepted media types include: application/json, \
                     application/yaml, application/vnd.kubernetes.protobuf (got {other:?})"
                )));
            }
        };
        match value {
            Value::Object(object) => Ok(object),
            _ => Err(ApiError::bad_request("the body is not an object")),
        }
    }
}
