//! Custom resources: the columns that a CRD declares.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::Row;
use super::duration::age;
use super::jsonpath::JsonPath;

/// A column of a CRD's `additionalPrinterColumns`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CustomColumn {
    /// What stands above it.
    pub(crate) name: String,
    /// Its type: `integer`, `number`, `boolean`, `string` or `date`.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// What it shows.
    pub(crate) json_path: String,
    /// A hint for clients.
    #[serde(default)]
    pub(crate) format: String,
    /// What it means.
    #[serde(default)]
    pub(crate) description: String,
    /// Columns above 0 are for wide output.
    #[serde(default)]
    pub(crate) priority: i32,
}

/// The name, then a cell for each column; a CRD without columns has one, the age.
///
/// A cell is null if its path selects nothing or cannot be applied, or what it selects is not of the column's type.
pub(crate) fn custom_cells(columns: &[CustomColumn], object: &Value, now: Timestamp) -> Vec<Value> {
    let row = Row { object, now };
    if columns.is_empty() {
        return row.name_and_age();
    }
    let cell = |column: &CustomColumn| {
        let selected = JsonPath::parse(&column.json_path)?.select(object)?;
        cell(&column.kind, selected.first()?, now)
    };
    let cells = columns.iter().map(|column| cell(column).unwrap_or_default());
    [row.name()].into_iter().chain(cells).collect()
}

fn cell(kind: &str, value: &Value, now: Timestamp) -> Option<Value> {
    match (kind, value) {
        ("string", value) => Some(printed(value).into()),
        ("integer", Value::Number(number)) => {
            // The server cuts off the fraction.
            number.as_i64().or_else(|| number.as_f64().map(|float| float as i64)).map(Value::from)
        }
        ("number", Value::Number(number)) => {
            Some(number.as_f64().map_or_else(|| value.clone(), whole_or_float))
        }
        ("boolean", Value::Bool(_)) => Some(value.clone()),
        ("date", Value::String(time)) if time.is_empty() => Some(age(None, now).into()),
        ("date", Value::String(time)) => Some(match time.parse::<Timestamp>() {
            Ok(_) => age(Some(time), now).into(),
            Err(_) => "<invalid>".into(),
        }),
        _ => None,
    }
}

/// A float that is whole is written without a fraction.
fn whole_or_float(float: f64) -> Value {
    const EXACT: f64 = (1_u64 << 53) as f64;
    if float.fract() == 0.0 && float.abs() < EXACT { (float as i64).into() } else { float.into() }
}

/// A value as text: lists and maps as JSON, in which Go escapes what is special in HTML.
fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => printed_float(number.as_f64().unwrap_or_default()),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(_) | Value::Object(_) => {
            let json =
                value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
            json.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
        }
    }
}

/// Very large and very small floats have an exponent, of two digits at least.
fn printed_float(float: f64) -> String {
    let scientific = format!("{float:e}");
    let exponent = scientific
        .split_once('e')
        .and_then(|(digits, exponent)| Some((digits, exponent.parse::<i32>().ok()?)));
    match exponent {
        Some((digits, exponent)) if float != 0.0 && !(-4..21).contains(&exponent) => {
            format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
        }
        _ => float.to_string(),
    }
}
