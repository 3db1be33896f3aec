//! Server-side apply: a PATCH that says what the whole of the applier's fields is to be.

use http::StatusCode;
use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;

use super::write::Source;
use super::yaml_doubles::yaml_doubles;
use super::{Answer, Core, JsonMap, ObjectPart, Outcome, Rendering, ResourceRequest, Write, identity};
use crate::api::{About, ApiError, Cause, FieldValidation};

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
        let source = Source::default();
        let as_stored = |object: Value| match object {
            Value::Object(object) => write.as_stored(object, &source),
            _ => Err(ApiError::bad_request("the patch leaves no object")),
        };
        if part == ObjectPart::Main && self.store.get(&write.resource.storage, &write.key()).is_none() {
            let (object, managed) = self.applied(&write, None, &config, force)?;
            check_doubles(request, &write)?;
            let mut object = as_stored(object)?;
            identity::check_new(&write, &mut object)?;
            let stored = self.create_owned(&write, object, Some(managed))?;
            return Ok(Answer::Whole { code: StatusCode::CREATED, body: rendering.object(&stored) });
        }
        let stored = self.update_applied(&write, part, |current| {
            let (object, managed) = self.applied(&write, Some(current), &config, force)?;
            check_doubles(request, &write)?;
            Ok((as_stored(object)?, managed))
        })?;
        Ok(Answer::Whole { code: StatusCode::OK, body: rendering.object(&stored) })
    }
}

/// The configuration that a request applies: YAML, of which JSON is a part. Of keys that are there twice the last counts.
pub(super) fn configuration(request: &ResourceRequest) -> Result<JsonMap, ApiError> {
    let wrong = |why: String| ApiError::bad_request(format!("error decoding YAML: {why}"));
    if request.content_type != "application/apply-patch+yaml" {
        return Err(ApiError::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: \
             application/apply-patch+yaml (got {:?})",
            request.content_type
        )));
    }
    let text = std::str::from_utf8(&request.body).map_err(|e| wrong(e.to_string()))?;
    let options = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins };
    let value = serde_saphyr::from_str_with_options(text, options).map_err(|e| wrong(e.to_string()))?;
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(wrong("it is no object".to_owned())),
    }
}

/// Warns of keys that are there twice, or refuses them, as a request asks for: once its configuration was merged, as on a
/// real server.
pub(super) fn check_doubles(request: &ResourceRequest, write: &Write) -> Result<(), ApiError> {
    if write.validation == FieldValidation::Ignore {
        return Ok(());
    }
    let doubles = yaml_doubles(std::str::from_utf8(&request.body).unwrap_or_default());
    if doubles.is_empty() {
        return Ok(());
    }
    if write.validation == FieldValidation::Warn {
        write.warnings.add(doubles);
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {}",
        doubles.join("\n  ")
    )))
}
