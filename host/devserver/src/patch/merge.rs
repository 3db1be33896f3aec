//! JSON merge patch, RFC 7386, as the server does it.
//!
//! Two deviations: a patch that is no object is refused, and nulls are also dropped from objects inside the arrays of
//! a patch, unless the array takes the place of an object.

use serde_json::{Map, Value};

use super::PatchError;

/// Applies a merge patch.
pub(super) fn apply(patch: &Value, current: &Value) -> Result<Value, PatchError> {
    let Value::Object(patch) = patch else {
        return Err(PatchError::Malformed("a merge patch is a JSON object".to_owned()));
    };
    let mut merged = current.as_object().cloned().unwrap_or_default();
    merge(&mut merged, patch);
    Ok(Value::Object(merged))
}

fn merge(current: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, change) in patch {
        match (current.get_mut(name), change) {
            (_, Value::Null) => {
                current.remove(name);
            }
            (Some(Value::Object(inner)), Value::Object(change)) => merge(inner, change),
            (Some(object @ Value::Object(_)), _) => *object = change.clone(),
            _ => {
                current.insert(name.clone(), without_nulls(change));
            }
        }
    }
}

/// The value without the null members of its objects; null elements of arrays stay.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, value)| !value.is_null());
            kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect()
        }
        Value::Array(elements) => elements.iter().map(without_nulls).collect(),
        scalar => scalar.clone(),
    }
}
