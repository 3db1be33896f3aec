//! [`Validity`]: from when until when a certificate counts.
//!
//! rustls checks certificates of servers and never looks at our own; these two dates are all that is wanted of one, so
//! only the way to them is walked (RFC 5280, section 4.1).

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// `[0] EXPLICIT`: the version.
const VERSION: u8 = 0xa0;

/// First and last second of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) not_before: Timestamp,
    pub(crate) not_after: Timestamp,
}

impl Validity {
    /// That of a certificate in DER; `None` when it is none.
    pub(crate) fn of(der: &[u8]) -> Option<Self> {
        let (certificate, _) = element(der, SEQUENCE)?;
        let (signed, _) = element(certificate, SEQUENCE)?;
        // The version may be left out, which means the first.
        let rest = element(signed, VERSION).map_or(signed, |(_, rest)| rest);
        let (_serial, rest) = element(rest, INTEGER)?;
        let (_algorithm, rest) = element(rest, SEQUENCE)?;
        let (_issuer, rest) = element(rest, SEQUENCE)?;
        let (validity, _) = element(rest, SEQUENCE)?;
        let (not_before, rest) = time(validity)?;
        let (not_after, _) = time(rest)?;
        Some(Self { not_before, not_after })
    }
}

/// The content of an element that has this tag, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, short], rest) = der.split_first_chunk::<2>()?;
    if found != tag {
        return None;
    }
    let (length, rest) = if short < 0x80 {
        (usize::from(short), rest)
    } else {
        let count = usize::from(short & 0x7f);
        if count > size_of::<u32>() {
            return None;
        }
        let (bytes, rest) = rest.split_at_checked(count)?;
        (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
    };
    rest.split_at_checked(length)
}

fn time(der: &[u8]) -> Option<(Timestamp, &[u8])> {
    let (text, rest, year_digits) = match element(der, UTC_TIME) {
        Some((text, rest)) => (text, rest, 2),
        None => element(der, GENERALIZED_TIME).map(|(text, rest)| (text, rest, 4))?,
    };
    let digits = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if digits.len() != year_digits + 10 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (year, rest_digits) = digits.split_at(year_digits);
    let year: i16 = year.parse().ok()?;
    // Two digits reach from 1950 to 2049.
    let year = match year_digits {
        2 if year < 50 => 2000 + year,
        2 => 1900 + year,
        _ => year,
    };
    let two = |index: usize| rest_digits[index..index + 2].parse::<i8>().ok();
    let civil = DateTime::new(year, two(0)?, two(2)?, two(4)?, two(6)?, two(8)?, 0).ok()?;
    Some((civil.to_zoned(TimeZone::UTC).ok()?.timestamp(), rest))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn made(from: (i32, u8, u8), until: (i32, u8, u8)) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["a".to_owned()]).unwrap();
        params.not_before = date_time_ymd(from.0, from.1, from.2);
        params.not_after = date_time_ymd(until.0, until.1, until.2);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn both_forms_of_a_date_are_read() {
        for (from, until) in
            [((1975, 1, 2), (2049, 12, 31)), ((2024, 2, 29), (2050, 1, 1)), ((2051, 6, 7), (4096, 1, 1))]
        {
            let validity = Validity::of(&made(from, until)).unwrap();
            let text = |(y, m, d): (i32, u8, u8)| format!("{y:04}-{m:02}-{d:02}T00:00:00Z");
            assert_eq!(validity.not_before.to_string(), text(from));
            assert_eq!(validity.not_after.to_string(), text(until));
        }
    }

    #[test]
    fn what_is_no_certificate_has_none() {
        let der = made((2024, 1, 1), (2025, 1, 1));
        for end in 0..der.len() {
            assert_eq!(Validity::of(&der[..end]), None);
        }
        for index in 0..200 {
            let mut broken = der.clone();
            broken[index] = broken[index].wrapping_add(1);
            let _ = Validity::of(&broken);
            broken[index] = 0xff;
            let _ = Validity::of(&broken);
        }
        assert_eq!(Validity::of(b"\x30\x84\xff\xff\xff\xff"), None);
    }
}
