//! What Go makes of a tree of values that it did not read from a text: what a strategic merge patch or an apply has made.
//!
//! Unlike its decoder, the converter ends with the first value of a wrong type, struct by struct in the order of their fields,
//! and has words of its own. It takes a float that is a whole number for one, and cuts off what is too large.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::time;
use crate::api::JsonMap;
use crate::protobuf::{ProtobufTypes, Shape, TypeIndex};
use crate::quantity;

/// Brings the numbers of an object to their types.
///
/// # Errors
/// What Go's converter says of a value that is not of its field's type.
pub(crate) fn convert(api_version: &str, kind: &str, object: &mut JsonMap) -> Result<(), String> {
    match ProtobufTypes::builtin().of_kind(api_version, kind) {
        Some(index) => fields(index, object),
        None => Ok(()),
    }
}

fn fields(index: TypeIndex, object: &mut JsonMap) -> Result<(), String> {
    for field in &ProtobufTypes::builtin().messages()[index.0].fields {
        match field.shape {
            Shape::Message(inlined) if field.name.is_empty() => fields(inlined, object)?,
            _ => {
                if let Some(member) = object.get_mut(field.name) {
                    value(&field.shape, field.go_name, member)?;
                }
            }
        }
    }
    Ok(())
}

/// `go_name`: as in [`super::read`].
fn value(shape: &Shape, go_name: Option<&str>, found: &mut Value) -> Result<(), String> {
    if found.is_null() {
        return Ok(());
    }
    match (shape, &mut *found) {
        (Shape::Pointer(inner) | Shape::Only(inner), _) => value(inner, go_name, found),
        (Shape::Message(index), Value::Object(object)) => fields(*index, object),
        (Shape::Message(_), other) => Err(format!("cannot restore struct from: {}", kind(other))),
        (Shape::List(items), Value::Array(list)) => {
            let of = go_name.and_then(|name| name.strip_prefix("[]"));
            list.iter_mut().try_for_each(|element| value(items, of, element))
        }
        (Shape::Map(entries), Value::Object(object)) => {
            let of = go_name.and_then(|name| name.strip_prefix("map[")?.split_once(']')).map(|(_, of)| of);
            object.values_mut().try_for_each(|entry| value(entries, of, entry))
        }
        (Shape::Map(_), other) => Err(format!("cannot restore map from {}", kind(other))),
        (Shape::Text, Value::String(_))
        | (Shape::Bool, Value::Bool(_))
        | (Shape::Double, Value::Number(_)) => Ok(()),
        (Shape::Text, Value::Number(number)) if !number.is_f64() => {
            Err(format!("cannot convert int64 to {}", go_name.unwrap_or("string")))
        }
        (Shape::Text, _) => Err("unrecognized type: string".to_owned()),
        (Shape::Bool, _) => Err("unrecognized type: bool".to_owned()),
        (Shape::Double, _) => Err("unrecognized type: float64".to_owned()),
        (Shape::Int32 | Shape::Int64, _) => integer(matches!(shape, Shape::Int32), go_name, found),
        (Shape::Quantity, _) => {
            let text = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
            quantity::read(&text).map(drop).map_err(str::to_owned)
        }
        (Shape::IntOrString, Value::String(_)) => Ok(()),
        (Shape::IntOrString, other) => match other.as_i64().map(i32::try_from) {
            Some(Ok(_)) => Ok(()),
            _ => Err(format!("json: cannot unmarshal {} into Go value of type int32", json_kind(other))),
        },
        (Shape::Time, other) => of_time(time::Precision::Seconds, other),
        (Shape::MicroTime, other) => of_time(time::Precision::Micros, other),
        (Shape::Bytes, Value::String(text)) => {
            let at = STANDARD.decode(text.replace(['\r', '\n'], "")).err().map(|why| match why {
                base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => at,
                _ => text.len() / 4 * 4,
            });
            let why = |at| format!("error decoding from json: illegal base64 data at input byte {at}");
            at.map_or(Ok(()), |at| Err(why(at)))
        }
        (Shape::Bytes, Value::Array(_)) | (Shape::Json | Shape::Either(..), _) => Ok(()),
        (Shape::List(_) | Shape::Bytes, other) => Err(format!("cannot restore slice from {}", kind(other))),
    }
}

fn integer(is_short: bool, go_name: Option<&str>, found: &mut Value) -> Result<(), String> {
    let own = if is_short { "int32" } else { "int64" };
    let Value::Number(number) = &*found else { return Err(format!("unrecognized type: {own}")) };
    let whole = match number.as_i64() {
        Some(whole) => whole,
        None => number
            .as_f64()
            .and_then(super::read::whole)
            .ok_or_else(|| format!("cannot convert {} to {}", kind(found), go_name.unwrap_or(own)))?,
    };
    #[expect(clippy::cast_possible_truncation, reason = "as in Go")]
    let short = whole as i32;
    *found = if is_short { short.into() } else { whole.into() };
    Ok(())
}

fn of_time(precision: time::Precision, found: &Value) -> Result<(), String> {
    match found {
        Value::String(text) => time::read(text, precision).map(drop),
        other => Err(format!("json: cannot unmarshal {} into Go value of type string", plain_kind(other))),
    }
}

/// As Go's reflection names the kind of a value in a tree.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

/// As messages about JSON name the kind of a value.
fn plain_kind(value: &Value) -> &'static str {
    super::read::kind(value)
}

/// As [`plain_kind`], with the number that does not fit.
fn json_kind(value: &Value) -> String {
    match value {
        Value::Number(number) => format!("number {number}"),
        other => plain_kind(other).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(spec: Value) -> Option<String> {
        let Value::Object(mut pod) = json!({"spec": spec}) else { return None };
        convert("v1", "Pod", &mut pod).err()
    }

    #[test]
    fn the_first_field_of_a_wrong_type_is_refused_in_gos_words() {
        let container = |field: &str, value: Value| json!({"containers": [{"name": "a", field: value}]});
        let probe = |port: Value| container("readinessProbe", json!({"httpGet": {"port": port}}));
        for (spec, why) in [
            (
                json!({"activeDeadlineSeconds": "x", "containers": [{"image": 5}]}),
                "cannot convert int64 to string",
            ),
            (container("imagePullPolicy", json!(5)), "cannot convert int64 to v1.PullPolicy"),
            (container("imagePullPolicy", json!(true)), "unrecognized type: string"),
            (container("image", json!(1.5)), "unrecognized type: string"),
            (container("args", json!("x")), "cannot restore slice from string"),
            (container("readinessProbe", json!([])), "cannot restore struct from: slice"),
            (json!({"nodeSelector": 5}), "cannot restore map from int64"),
            (json!({"priority": 1.5}), "cannot convert float64 to int32"),
            (json!({"priority": true}), "unrecognized type: int32"),
            (probe(json!(1.5)), "json: cannot unmarshal number 1.5 into Go value of type int32"),
            (probe(json!({})), "json: cannot unmarshal object into Go value of type int32"),
        ] {
            assert_eq!(refusal(spec.clone()).as_deref(), Some(why), "{spec}");
        }
        let Value::Object(mut config) = json!({"binaryData": {"a": "%%"}}) else { panic!("an object") };
        let why = "error decoding from json: illegal base64 data at input byte 0";
        assert_eq!(convert("v1", "ConfigMap", &mut config), Err(why.to_owned()));
        let Value::Object(mut config) = json!({"metadata": {"creationTimestamp": 5}}) else {
            panic!("an object")
        };
        let why = "json: cannot unmarshal number into Go value of type string";
        assert_eq!(convert("v1", "ConfigMap", &mut config), Err(why.to_owned()));
    }

    #[test]
    fn numbers_are_brought_to_their_types() {
        let Value::Object(mut pod) = json!({"spec": {"priority": 2.0, "activeDeadlineSeconds": null}}) else {
            panic!("an object")
        };
        convert("v1", "Pod", &mut pod).unwrap();
        assert_eq!(pod["spec"]["priority"], json!(2));
        pod["spec"]["priority"] = json!(99_999_999_999_i64);
        convert("v1", "Pod", &mut pod).unwrap();
        assert_eq!(pod["spec"]["priority"], json!(1_215_752_191));
    }
}
