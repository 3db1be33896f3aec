//! Server-side apply: a PATCH that says what the whole of the applier's fields is to be.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;

use super::write::{Source, Write};
use super::{Answer, Core, JsonMap, ObjectPart, Outcome, Rendering, ResourceRequest, identity};
use crate::api::{ALREADY_EXISTS, About, ApiError, Cause};
use crate::store::Stored;

impl Core {
    /// Applies the body to an object, which is made if it is not there.
    pub(super) fn apply(&self, request: &ResourceRequest, part: ObjectPart) -> Outcome {
        let write = request.write()?;
        if request.params.filled("fieldManager").is_none() {
            let cause = Cause::required("fieldManager", "is required for apply patch");
            return Err(ApiError::invalid(About::new("meta.k8s.io", "PatchOptions", ""), vec![cause]));
        }
        let force = request.params.is_on("force");
        let config = Value::Object(configuration(request)?);
        let rendering = Rendering::of(request)?;
        let (stored, is_new) = self.apply_object(&write, part, &config, force)?;
        let code = if is_new { StatusCode::CREATED } else { StatusCode::OK };
        Ok(Answer::Whole { code, body: rendering.object(&stored) })
    }

    /// Applies a configuration to an object, which is made if it is not there; whether it was made.
    pub(crate) fn apply_object(
        &self,
        write: &Write,
        part: ObjectPart,
        config: &Value,
        force: bool,
    ) -> Result<(Arc<Stored>, bool), ApiError> {
        let source = Source::default();
        let as_stored = |object: Value| match object {
            Value::Object(object) => write.as_stored(object, &source),
            _ => Err(ApiError::bad_request("the patch leaves no object")),
        };
        if part == ObjectPart::Main && self.store.get(&write.resource.storage, &write.key()).is_none() {
            let (object, managed) = self.applied(write, None, config, force)?;
            let mut object = as_stored(object)?;
            identity::check_new(write, &mut object)?;
            match self.create_owned(write, object, Some(managed)) {
                // Another request was faster: then it is applied to what that one has made.
                Err(error) if error.reason == ALREADY_EXISTS => {}
                made => return made.map(|stored| (stored, true)),
            }
        }
        let stored = self.update_applied(write, part, |current| {
            let (object, managed) = self.applied(write, Some(current), config, force)?;
            Ok((as_stored(object)?, managed))
        })?;
        Ok((stored, false))
    }
}

/// The configuration that a request applies: YAML, of which JSON is a part.
fn configuration(request: &ResourceRequest) -> Result<JsonMap, ApiError> {
    let wrong = |why: String| ApiError::bad_request(format!("error decoding YAML: {why}"));
    if request.content_type != "application/apply-patch+yaml" {
        return Err(ApiError::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: \
             application/apply-patch+yaml (got {:?})",
            request.content_type
        )));
    }
    let text = std::str::from_utf8(&request.body).map_err(|e| wrong(e.to_string()))?;
    match serde_saphyr::from_str(text).map_err(|e| wrong(e.to_string()))? {
        Value::Object(object) => Ok(object),
        _ => Err(wrong("it is no object".to_owned())),
    }
}
