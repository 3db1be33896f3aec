//! What is a message in protobuf and a string or a number in JSON: quantities, times, JSON itself.

use jiff::SignedDuration;
use jiff::civil::{DateTime, date};
use serde_json::Value;

use super::object::{last, numbered};
use super::{MAX_DEPTH, Problem, text, varint};

/// The first second of the year 1, which Go takes for no time at all.
const NO_TIME: i64 = -62_135_596_800;
/// The last second of the year 9999.
const LAST_TIME: i64 = 253_402_300_799;

const SUFFIXES: [&str; 16] =
    ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// A float as Go writes it: without a fraction if it has none.
pub(super) fn double(bits: u64) -> Result<Value, Problem> {
    let value = f64::from_bits(bits);
    if !value.is_finite() {
        return Err(Problem::Number);
    }
    // Up to here each whole number stands for itself; beyond, JSON has it as a float again.
    let is_whole = value.fract() == 0.0 && !(value == 0.0 && value.is_sign_negative());
    Ok(if is_whole && (0.0..2_f64.powi(64)).contains(&value) {
        (value as u64).into()
    } else if is_whole && (-2_f64.powi(63)..0.0).contains(&value) {
        (value as i64).into()
    } else {
        value.into()
    })
}

/// JSON as text in field 1; `null` if there is none. It stands in so many arrays and objects.
pub(super) fn json(pieces: &[&[u8]], depth: usize) -> Result<Value, Problem> {
    let Some(content) = last(&numbered(pieces, 1)?, super::bytes)?.filter(|c| !c.is_empty()) else {
        return Ok(Value::Null);
    };
    let value = serde_json::from_slice(content).map_err(|e| Problem::Json(e.to_string()))?;
    if depth + height(&value) > MAX_DEPTH { Err(Problem::Depth) } else { Ok(value) }
}

/// How many arrays and objects stand in each other.
fn height(value: &Value) -> usize {
    match value {
        Value::Array(values) => 1 + values.iter().map(height).max().unwrap_or_default(),
        Value::Object(values) => 1 + values.values().map(height).max().unwrap_or_default(),
        _ => 0,
    }
}

/// A quantity as it came: Go's clients send the canonical form.
pub(super) fn quantity(pieces: &[&[u8]]) -> Result<Value, Problem> {
    match last(&numbered(pieces, 1)?, text)? {
        None => Ok("0".into()),
        Some(text) if is_quantity(&text) => Ok(text.into()),
        Some(text) => Err(Problem::Quantity(text)),
    }
}

fn is_quantity(text: &str) -> bool {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, rest) = unsigned.split_at(digits(unsigned));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    let is_exponent =
        || suffix.strip_prefix(['e', 'E']).is_some_and(|exponent| exponent.parse::<i32>().is_ok());
    !(whole.is_empty() && fraction.is_empty()) && (SUFFIXES.contains(&suffix) || is_exponent())
}

/// A number (2) or a string (3), as the type (1) says.
pub(super) fn int_or_string(pieces: &[&[u8]]) -> Result<Value, Problem> {
    match last(&numbered(pieces, 1)?, varint)?.unwrap_or_default() as i64 {
        0 => Ok((last(&numbered(pieces, 2)?, varint)?.unwrap_or_default() as i32).into()),
        1 => Ok(last(&numbered(pieces, 3)?, text)?.unwrap_or_default().into()),
        other => Err(Problem::IntOrString(other)),
    }
}

/// `metav1.Time`: to the second.
pub(super) fn time(message: &[u8]) -> Result<Value, Problem> {
    written(message, |_| 0, |time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// `metav1.MicroTime`: always with six decimals.
pub(super) fn micro_time(message: &[u8]) -> Result<Value, Problem> {
    written(
        message,
        |nanos| i64::from(nanos) / 1000,
        |time| time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
    )
}

/// A time of seconds (1) and nanoseconds (2); one without any bytes is none.
fn written(
    message: &[u8],
    micros: impl Fn(i32) -> i64,
    write: impl Fn(DateTime) -> String,
) -> Result<Value, Problem> {
    if message.is_empty() {
        return Ok(Value::Null);
    }
    let seconds = last(&numbered(&[message], 1)?, varint)?.unwrap_or_default() as i64;
    let nanos = last(&numbered(&[message], 2)?, varint)?.unwrap_or_default() as i32;
    // Nanoseconds may be negative, or more than a second's.
    let total = i128::from(seconds) * 1_000_000 + i128::from(micros(nanos));
    let years = i128::from(NO_TIME) * 1_000_000..(i128::from(LAST_TIME) + 1) * 1_000_000;
    if !years.contains(&total) {
        return Err(Problem::Time);
    }
    if total == years.start {
        return Ok(Value::Null);
    }
    let since_epoch = i64::try_from(total).map(SignedDuration::from_micros).map_err(|_| Problem::Time)?;
    // jiff's own timestamps end some hours before the year 9999 does.
    let time = date(1970, 1, 1).at(0, 0, 0, 0).checked_add(since_epoch).map_err(|_| Problem::Time)?;
    Ok(write(time).into())
}
