//! `patch`, in its three kinds.

use http::StatusCode;
use serde_json::Value;

use super::write::Source;
use super::{Answer, Core, JsonMap, ObjectPart, Outcome, Rendering, ResourceRequest, Write, identity};
use crate::api::{About, ApiError, Cause};
use crate::patch::{self, PatchError, PatchKind};
use crate::schema::{BuiltinTypes, Type};

impl Core {
    pub(super) fn patch(&self, request: &ResourceRequest) -> Outcome {
        self.patch_part(request, ObjectPart::Main)
    }

    pub(super) fn patch_part(&self, request: &ResourceRequest, part: ObjectPart) -> Outcome {
        if request.is_apply() {
            return self.apply(request, part);
        }
        let patch = Patch::of(request)?;
        let rendering = Rendering::of(request)?;
        let (write, source) = (request.write()?, request.source());
        let stored = self.update_object(&write, part, |current, _| {
            patch.apply(&write, &rendering.value(current), &source)
        })?;
        Ok(Answer::Whole { code: StatusCode::OK, body: rendering.object(&stored) })
    }
}

/// A patch, read.
pub(crate) struct Patch {
    kind: PatchKind,
    patch: Value,
}

impl Patch {
    /// # Errors
    /// 415 for a kind of patch that the resource or the server has not, 400 for one that is no JSON, 422 for the force that only
    /// an apply has.
    pub(super) fn of(request: &ResourceRequest) -> Result<Self, ApiError> {
        let kind = match request.content_type.as_str() {
            "application/json-patch+json" => PatchKind::Json,
            "application/merge-patch+json" => PatchKind::Merge,
            "application/strategic-merge-patch+json" if !request.resource.is_custom() => PatchKind::Strategic,
            _ => {
                let strategic = if request.resource.is_custom() {
                    ""
                } else {
                    ", application/strategic-merge-patch+json"
                };
                return Err(ApiError::unsupported_media_type(format!(
                    "the body of the request was in an unknown format - accepted media types include: \
                     application/json-patch+json, application/merge-patch+json{strategic}, application/apply-patch+yaml"
                )));
            }
        };
        let patch = serde_json::from_slice(&request.body)
            .map_err(|e| ApiError::bad_request(format!("the patch is not JSON: {e}")))?;
        if request.params.filled("force").is_some() {
            let cause = Cause::forbidden("force", "may not be specified for non-apply patch");
            return Err(ApiError::invalid(About::new("meta.k8s.io", "PatchOptions", ""), vec![cause]));
        }
        Ok(Self { kind, patch })
    }

    /// What the patch makes of an object as it is served, in the stored form.
    pub(crate) fn apply(
        &self,
        write: &Write,
        current: &Value,
        source: &Source<'_>,
    ) -> Result<JsonMap, ApiError> {
        let schema = BuiltinTypes::get().type_of_kind(&write.resource.api_version(), &write.resource.kind);
        let patched = self.apply_to(current, schema).map_err(|e| refused(&e))?;
        if self.kind != PatchKind::Strategic && !write.resource.is_custom() && patched["apiVersion"].is_null()
        {
            // Without a version a real server does not see the metadata.
            return Err(identity::unnamed(write));
        }
        match patched {
            Value::Object(object) => write.as_stored(object, source),
            _ => Err(ApiError::bad_request("the patch leaves no object")),
        }
    }

    /// What the patch makes of any tree.
    pub(super) fn apply_to(&self, current: &Value, schema: Option<&Type>) -> Result<Value, PatchError> {
        patch::apply(self.kind, &self.patch, current, schema)
    }
}

/// The answer to a patch that cannot be applied.
pub(super) fn refused(error: &PatchError) -> ApiError {
    let text = error.to_string();
    match error {
        PatchError::Malformed(_) => ApiError::bad_request(text),
        PatchError::TooManyOperations { .. } => {
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", text)
        }
        PatchError::DoesNotApply(_) => {
            let message = "the server rejected our request due to an error in our request";
            ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).about(About::default())
        }
        PatchError::MissingMergeKey { .. } | PatchError::Conflicting(_) => {
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", text)
        }
        PatchError::Unsupported => ApiError::unsupported_media_type(text),
    }
}
