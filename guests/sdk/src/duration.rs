//! Durations as text, in the form of descriptors and manifests: `250ms`, `10s`, `1m30s`, `2h`. The builders of the
//! descriptor use this form. Use [`parse`] for durations in your own configuration.

use std::fmt::Write;
use std::time::Duration;

/// Units, largest first, in milliseconds.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Formats a duration, rounded up to a millisecond.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(pilothouse_sdk::duration::format(Duration::from_secs(90)), "1m30s");
/// ```
pub fn format(duration: Duration) -> String {
    let mut rest = milliseconds(duration);
    let mut text = String::new();
    for (unit, length) in UNITS {
        if rest >= length {
            // Writing to a string cannot fail.
            let _ = write!(text, "{}{unit}", rest / length);
            rest %= length;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Parses a duration: whole numbers with the units `h`, `m`, `s` and `ms`, from the largest to the smallest.
///
/// # Errors
/// When the text does not have this form or the duration is too long; the message shows the form.
pub fn parse(text: &str) -> Result<Duration, String> {
    let malformed = || format!("`{text}` is not a duration: write one like `250ms`, `10s`, `1m30s` or `2h`");
    let mut rest = text;
    let mut total: u64 = 0;
    let mut largest = u64::MAX;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(malformed)?;
        let (number, tail) = rest.split_at(digits);
        let unit = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let length =
            UNITS.iter().find(|(name, _)| *name == unit).map(|(_, length)| *length).ok_or_else(malformed)?;
        if length >= largest {
            return Err(malformed());
        }
        largest = length;
        let number: u64 = number.parse().map_err(|_| malformed())?;
        total = number.checked_mul(length).and_then(|part| total.checked_add(part)).ok_or_else(malformed)?;
        rest = tail;
    }
    if text.is_empty() { Err(malformed()) } else { Ok(Duration::from_millis(total)) }
}

/// The duration in milliseconds, the unit of the host's interface. Rounded up, so that a delay is never shortened.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_the_units_from_the_largest() {
        for (milliseconds, text) in [
            (0, "0s"),
            (5, "5ms"),
            (10_000, "10s"),
            (90_250, "1m30s250ms"),
            (7_200_000, "2h"),
            (1_000_000, "16m40s"),
        ] {
            assert_eq!(format(Duration::from_millis(milliseconds)), text);
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)));
        }
    }

    #[test]
    fn rounds_up_to_the_millisecond() {
        assert_eq!(milliseconds(Duration::from_nanos(1)), 1);
        assert_eq!(milliseconds(Duration::MAX), u64::MAX);
    }

    #[test]
    fn refuses_what_is_no_duration() {
        for text in ["", "5", "s", "1.5s", "-1s", "1s1m", "1s1s", "1 s", "1d", "99999999999999999999h"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
