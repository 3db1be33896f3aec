//! `patch`, in its three kinds.

use http::StatusCode;
use serde_json::Value;

use super::update::{ObjectPart, next};
use super::{Answer, Call, Core, JsonMap, Outcome, Rendering};
use crate::api::{About, ApiError};
use crate::patch::{self, PatchError, PatchKind};
use crate::schemas::Schemas;

impl Core {
    pub(super) fn patch(&self, call: &Call) -> Outcome {
        self.patch_part(call, ObjectPart::Main)
    }

    pub(super) fn patch_part(&self, call: &Call, part: ObjectPart) -> Outcome {
        let patch = Patch::of(call)?;
        let rendering = Rendering::of(call)?;
        let stored = self.change(call, |current, _| {
            let object = patch.apply(call, &rendering.value(current))?;
            let mut next = next(call, current, object, part)?;
            self.allocate(call, &mut next, Some(&current.value()));
            Ok(Some(next))
        })?;
        Ok(Answer::Whole { code: StatusCode::OK, body: rendering.object(&stored) })
    }
}

/// A patch, read.
pub(super) struct Patch {
    kind: PatchKind,
    patch: Value,
}

impl Patch {
    /// # Errors
    /// 415 for a kind of patch that the resource or the server has not, 400 for one that is no JSON.
    pub(super) fn of(call: &Call) -> Result<Self, ApiError> {
        let kind = match call.content_type.as_str() {
            "application/json-patch+json" => PatchKind::Json,
            "application/merge-patch+json" => PatchKind::Merge,
            "application/strategic-merge-patch+json" if !call.resource.is_custom() => PatchKind::Strategic,
            "application/apply-patch+yaml" | "application/apply-patch+cbor" => {
                return Err(ApiError::unsupported_media_type(
                    "server-side apply is not supported by this development server yet; use a merge patch, or kubectl \
                     without --server-side",
                ));
            }
            _ => {
                let strategic =
                    if call.resource.is_custom() { "" } else { ", application/strategic-merge-patch+json" };
                return Err(ApiError::unsupported_media_type(format!(
                    "the body of the request was in an unknown format - accepted media types include: \
                     application/json-patch+json, application/merge-patch+json{strategic}"
                )));
            }
        };
        let patch = serde_json::from_slice(&call.body)
            .map_err(|e| ApiError::bad_request(format!("the patch is not JSON: {e}")))?;
        Ok(Self { kind, patch })
    }

    /// What the patch makes of an object, in the stored form.
    pub(super) fn apply(&self, call: &Call, current: &Value) -> Result<JsonMap, ApiError> {
        let schema = Schemas::builtin().of_kind(&call.resource.api_version(), &call.resource.kind);
        let patched = self.apply_to(current, schema).map_err(|e| refused(&e))?;
        match patched {
            Value::Object(object) => call.as_stored(object),
            _ => Err(ApiError::bad_request("the patch leaves no object")),
        }
    }

    /// What the patch makes of any tree.
    pub(super) fn apply_to(
        &self,
        current: &Value,
        schema: Option<crate::schemas::TypeRef<'_>>,
    ) -> Result<Value, PatchError> {
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
            let message = format!("the server rejected our request due to an error in our request: {text}");
            ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).about(About::default())
        }
        PatchError::MissingMergeKey { .. } | PatchError::Conflicting(_) => {
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", text)
        }
        PatchError::Unsupported => ApiError::unsupported_media_type(text),
    }
}
