//! The configuration that a request applies: YAML, of which JSON is a part. Of several documents the first counts, of equal
//! keys the last.

use serde_json::{Map, Value};
use serde_saphyr::options::DuplicateKeyPolicy;

use super::{JsonMap, ResourceRequest};
use crate::api::{ApiError, FieldValidation, Warnings};
use crate::schema::duplicate_fields;

/// Reads the configuration of a request. Keys that stand in an object more than once are refused or warned of as the request
/// asks for; one of them is named.
///
/// # Errors
/// 415 for another media type, 400 for what is no configuration.
pub(super) fn read(
    request: &ResourceRequest,
    validation: FieldValidation,
    warnings: &Warnings,
) -> Result<JsonMap, ApiError> {
    let wrong = |why: String| ApiError::bad_request(format!("error decoding YAML: {why}"));
    if request.content_type != "application/apply-patch+yaml" {
        return Err(ApiError::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: \
             application/apply-patch+yaml (got {:?})",
            request.content_type
        )));
    }
    // Most clients send JSON, which is read faster, and without the bounds of YAML.
    let (value, may_have_duplicates) = match serde_json::from_slice(&request.body) {
        Ok(value) => (value, !duplicate_fields(&request.body).is_empty()),
        Err(_) => (first_document(&request.body, DuplicateKeyPolicy::LastWins).map_err(wrong)?, true),
    };
    if may_have_duplicates
        && validation != FieldValidation::Ignore
        && let Err(why) = first_document(&request.body, DuplicateKeyPolicy::Error)
    {
        if validation == FieldValidation::Strict {
            let why = format!("error converting YAML to JSON: yaml: unmarshal errors:\n  {why}");
            return Err(ApiError::bad_request(format!("error strict decoding YAML: {why}")));
        }
        warnings.add(vec![why]);
    }
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
    first.unwrap_or(Ok(Value::Null)).map_err(|error| match error.without_snippet() {
        serde_saphyr::Error::DuplicateMappingKey { key, location } => {
            format!(
                "line {}: key {:?} already set in map",
                location.line(),
                key.as_deref().unwrap_or_default()
            )
        }
        other => other.to_string(),
    })
}
