//! Durations in manifests and descriptors, in Go's form: `250ms`, `10s`, `1m30s`, `1.5h`.
//!
//! Invariant: a parsed duration is exact to the nanosecond and not negative; an overflow is an error. Called by
//! [`crate::manifest`] and [`crate::descriptor`].

use std::time::Duration;

/// The reason why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a duration: {reason}; write one like 250ms, 10s, 1m30s or 1.5h")]
pub struct DurationError {
    text: String,
    reason: &'static str,
}

/// Units in nanoseconds. Whole units are compared, so the order does not matter.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Parses a duration: one or more numbers, each with a unit (`ns`, `us`, `ms`, `s`, `m`, `h`) and optionally a
/// fraction; or `0`.
///
/// # Errors
/// When the text has another form, is negative, or is too long to count in nanoseconds.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let error = |reason| DurationError { text: text.to_owned(), reason };
    match text.as_bytes().first() {
        None => return Err(error("it is empty")),
        Some(b'-') => return Err(error("it is negative")),
        _ if text == "0" => return Ok(Duration::ZERO),
        _ => {}
    }
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (number, tail) = rest.split_at(rest.find(|c: char| !is_number(c)).unwrap_or(rest.len()));
        let (unit, tail) = tail.split_at(tail.find(is_number).unwrap_or(tail.len()));
        if number.is_empty() {
            return Err(error("a number is missing"));
        }
        if unit.is_empty() {
            return Err(error("a unit is missing"));
        }
        let (_, length) = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(|| error("the units are ns, us, ms, s, m and h"))?;
        let part = nanoseconds(number, *length).ok_or_else(|| error("a number is malformed or too large"))?;
        total = total.checked_add(part).ok_or_else(|| error("it is too long"))?;
        rest = tail;
    }
    Ok(Duration::from_nanos(total))
}

fn is_number(c: char) -> bool {
    c.is_ascii_digit() || c == '.'
}

/// `number` times `unit`; a fraction of a nanosecond is truncated.
fn nanoseconds(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut total = whole.checked_mul(unit)?;
    let mut place = u128::from(unit);
    let mut part: u128 = 0;
    let mut scale: u128 = 1;
    // Thirteen digits reach below a nanosecond even of an hour.
    for digit in fraction.bytes().take(13) {
        part = part * 10 + u128::from(char::from(digit).to_digit(10)?);
        scale *= 10;
    }
    if fraction.bytes().any(|digit| !digit.is_ascii_digit()) {
        return None;
    }
    place = place * part / scale;
    total = total.checked_add(u64::try_from(place).ok()?)?;
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(text: &str) -> u128 {
        parse_duration(text).unwrap().as_millis()
    }

    #[test]
    fn reads_what_go_writes() {
        for (text, expected) in [
            ("250ms", 250),
            ("10s", 10_000),
            ("1m30s", 90_000),
            ("2h", 7_200_000),
            ("1.5h", 5_400_000),
            ("1h15m30.918s", 4_530_918),
            ("0", 0),
            ("0s", 0),
            (".5s", 500),
            ("1s1m", 61_000),
        ] {
            assert_eq!(millis(text), expected, "{text}");
        }
        assert_eq!(parse_duration("3\u{b5}s5ns"), Ok(Duration::from_nanos(3005)));
        assert_eq!(parse_duration("0.000000000001h"), Ok(Duration::from_nanos(3)));
    }

    #[test]
    fn refuses_the_rest_and_says_how_to_write_it() {
        for text in ["", "5", "s", "-1s", "+1s", "1 s", "1d", ".s", "1.2.3s", "9999999999h", "1s 2s", "ten"] {
            let error = parse_duration(text).unwrap_err().to_string();
            assert!(error.contains("is not a duration") && error.contains("1m30s"), "{text}: {error}");
        }
    }

    #[test]
    fn reads_back_any_number_of_nanoseconds() {
        proptest::proptest!(|(n: u64)| {
            proptest::prop_assert_eq!(parse_duration(&format!("{n}ns")), Ok(Duration::from_nanos(n)));
            let seconds = format!("{}.{:09}s", n / 1_000_000_000, n % 1_000_000_000);
            proptest::prop_assert_eq!(parse_duration(&seconds), Ok(Duration::from_nanos(n)));
        });
    }
}
