//! [`ScalePaths`]: where a custom resource has the fields of its scale, and what values these may have.

use serde::Deserialize;
use serde_json::Value;

use super::WrittenPart;
use crate::api::Cause;
use crate::schema::{invalid, shown};

/// Where the scale subresource of a custom resource has its fields.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScalePaths {
    #[serde(default)]
    pub(crate) spec_replicas_path: String,
    #[serde(default)]
    pub(crate) status_replicas_path: String,
    pub(crate) label_selector_path: Option<String>,
}

impl ScalePaths {
    /// What is wrong with the fields of an object that is written; in a status only with those of the status.
    pub(super) fn faults(&self, object: &Value, part: WrittenPart) -> Vec<Cause> {
        let mut causes = Vec::new();
        if part == WrittenPart::Object {
            causes.extend(replicas_fault(object, &self.spec_replicas_path));
        }
        causes.extend(replicas_fault(object, &self.status_replicas_path));
        causes.extend(self.label_selector_path.as_deref().and_then(|path| {
            let why = match value_at(object, path) {
                Ok(None | Some(Value::String(_))) => return None,
                Ok(Some(other)) => wrong_type(path, other, "string"),
                Err(why) => why,
            };
            Some(invalid(path, &"".into(), &why))
        }));
        causes
    }
}

fn replicas_fault(object: &Value, path: &str) -> Option<Cause> {
    let replicas = match value_at(object, path) {
        Ok(None) => return None,
        Ok(Some(value)) => match value.as_i64() {
            Some(replicas) => replicas,
            None => return Some(invalid(path, &0.into(), &wrong_type(path, value, "int64"))),
        },
        Err(why) => return Some(invalid(path, &0.into(), &why)),
    };
    let why = match replicas {
        ..0 => "should be a non-negative integer",
        _ if replicas > i64::from(i32::MAX) => "should be less than or equal to 2147483647",
        _ => return None,
    };
    Some(invalid(path, &replicas.into(), why))
}

/// The value at `.spec.replicas`; an error if something on the way is no object.
fn value_at<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let trimmed = path.strip_prefix('.').unwrap_or(path);
    let mut value = object;
    for (index, name) in trimmed.split('.').enumerate() {
        if value.is_null() {
            return Ok(None);
        }
        let Value::Object(fields) = value else {
            let before: Vec<&str> = trimmed.split('.').take(index + 1).collect();
            let shown = shown_bare(value);
            return Err(format!(
                ".{} accessor error: {shown} is of the type {}, expected map[string]interface{{}}",
                before.join("."),
                go_type(value)
            ));
        };
        let Some(next) = fields.get(name) else { return Ok(None) };
        value = next;
    }
    Ok(Some(value))
}

fn wrong_type(path: &str, value: &Value, expected: &str) -> String {
    let (path, shown) = (path.strip_prefix('.').unwrap_or(path), shown_bare(value));
    format!(".{path} accessor error: {shown} is of the type {}, expected {expected}", go_type(value))
}

/// A value without quotes.
fn shown_bare(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        other => shown(other).trim_matches('"').to_owned(),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn replicas_are_small_whole_numbers_and_selectors_texts() {
        let paths = ScalePaths {
            spec_replicas_path: ".spec.n".to_owned(),
            status_replicas_path: ".status.n".to_owned(),
            label_selector_path: Some(".status.s".to_owned()),
        };
        for (object, expected) in [
            (json!({}), ""),
            (json!({"spec": {"n": 1}, "status": {"n": 0, "s": "a=b"}}), ""),
            (json!({"spec": {"n": -1}}), ".spec.n: Invalid value: -1: should be a non-negative integer"),
            (
                json!({"status": {"n": 1i64 << 40}}),
                ".status.n: Invalid value: 1099511627776: should be less than or equal to 2147483647",
            ),
            (
                json!({"spec": {"n": "x"}}),
                ".spec.n: Invalid value: 0: .spec.n accessor error: x is of the type string, expected int64",
            ),
            (
                json!({"status": {"s": true}}),
                r#".status.s: Invalid value: "": .status.s accessor error: true is of the type bool, expected string"#,
            ),
            (
                json!({"spec": 1}),
                ".spec.n: Invalid value: 0: .spec.n accessor error: 1 is of the type int64, expected map[string]interface{}",
            ),
        ] {
            let causes = paths.faults(&object, WrittenPart::Object);
            let texts: Vec<String> = causes.iter().map(|c| format!("{}: {}", c.field, c.message)).collect();
            assert_eq!(texts.join("\n"), expected, "{object}");
        }
        assert!(paths.faults(&json!({"spec": {"n": -1}}), WrittenPart::Status).is_empty());
    }
}
