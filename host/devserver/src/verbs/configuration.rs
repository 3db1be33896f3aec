//! The configuration that a request applies: YAML, of which JSON is a part. Of several documents the first counts, of equal
//! keys the last.

use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use serde_saphyr::options::DuplicateKeyPolicy;

use super::{JsonMap, ResourceRequest, Write};
use crate::api::{ApiError, FieldValidation};
use crate::schema::duplicate_fields;

/// Reads the configuration of a request.
///
/// # Errors
/// 415 for another media type, 400 for what is no configuration.
pub(super) fn read(request: &ResourceRequest) -> Result<JsonMap, ApiError> {
    let wrong = |why: String| ApiError::bad_request(format!("error decoding YAML: {why}"));
    if request.content_type != "application/apply-patch+yaml" {
        return Err(ApiError::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: \
             application/apply-patch+yaml (got {:?})",
            request.content_type
        )));
    }
    // Most clients send JSON, which is read faster, and without the bounds of YAML.
    let value = match serde_json::from_slice(&request.body) {
        Ok(value) => value,
        Err(_) => first_document(&request.body, DuplicateKeyPolicy::LastWins).map_err(wrong)?,
    };
    match value {
        Value::Object(object) => Ok(object),
        // Nothing is an object without a kind.
        Value::Null => Ok(Map::new()),
        _ => Err(wrong("it is no object".to_owned())),
    }
}

fn first_document(mut text: &[u8], duplicate_keys: DuplicateKeyPolicy) -> Result<Value, String> {
    let options = serde_saphyr::options! { duplicate_keys: duplicate_keys };
    let first = serde_saphyr::read_with_options(&mut text, options).next();
    first.unwrap_or(Ok(Value::Null)).map_err(|error| error.without_snippet().to_string())
}

/// Warns of keys that are there twice, or refuses them, as a request asks for: once its configuration was merged, as on a
/// real server.
///
/// # Errors
/// 400 if the request is strict.
pub(super) fn check_doubles(request: &ResourceRequest, write: &Write) -> Result<(), ApiError> {
    if write.validation == FieldValidation::Ignore {
        return Ok(());
    }
    let doubles: Vec<String> = match serde_json::from_slice::<IgnoredAny>(&request.body) {
        Ok(_) => {
            let paths = duplicate_fields(&request.body).into_iter();
            paths.map(|path| format!("key {path:?} already set in map")).collect()
        }
        // It has been read before, but for this.
        Err(_) => first_document(&request.body, DuplicateKeyPolicy::Error).err().into_iter().collect(),
    };
    if doubles.is_empty() {
        return Ok(());
    }
    if write.validation == FieldValidation::Warn {
        write.warnings.add(doubles);
        return Ok(());
    }
    let why = format!("error converting YAML to JSON: yaml: unmarshal errors:\n  {}", doubles.join("\n  "));
    Err(ApiError::bad_request(format!("error strict decoding YAML: {why}")))
}
