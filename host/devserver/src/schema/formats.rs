//! [`Format`]: the formats of strings that the API checks.
//!
//! Formats that it does not know are ignored, as the API does; so are here `isbn`, `creditcard`, `ssn` and `rgbcolor`, which
//! it knows. Each check takes time linear in the text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A format that strings are checked by.
#[derive(Debug, Clone)]
pub(crate) struct Format {
    name: Box<str>,
    check: fn(&str) -> bool,
}

impl Format {
    /// The format of this name, if it is one that is checked.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let check: fn(&str) -> bool = match name.replace('-', "").as_str() {
            "datetime" => is_date_time,
            "date" => is_date,
            "duration" => is_duration,
            "uri" => is_uri,
            "email" => is_email,
            "hostname" => is_hostname,
            "ipv4" => |text| text.parse::<Ipv4Addr>().is_ok(),
            "ipv6" => |text| text.parse::<Ipv6Addr>().is_ok(),
            "cidr" => is_cidr,
            "mac" => is_mac,
            "uuid" => |text| is_uuid(text, None),
            "uuid3" => |text| is_uuid(text, Some('3')),
            "uuid4" => |text| is_uuid(text, Some('4')),
            "uuid5" => |text| is_uuid(text, Some('5')),
            "byte" => |text| !text.is_empty() && STANDARD.decode(text).is_ok(),
            "bsonobjectid" => |text| text.len() == 24 && is_hex(text),
            "hexcolor" => is_hex_color,
            "password" => |_| true,
            _ => return None,
        };
        Some(Self { name: name.into(), check })
    }

    /// As the schema has it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn fits(&self, text: &str) -> bool {
        (self.check)(text)
    }
}

fn digits(text: &str, count: usize) -> bool {
    text.len() == count && text.bytes().all(|b| b.is_ascii_digit())
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// `2006-01-02`
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.splitn(4, '-').collect();
    let &[year, month, day] = &parts[..] else { return false };
    if !(digits(year, 4) && digits(month, 2) && digits(day, 2)) {
        return false;
    }
    let number = |text: &str| text.parse::<i16>().unwrap_or(0);
    jiff::civil::Date::new(number(year), number(month) as i8, number(day) as i8).is_ok()
}

/// RFC 3339, in either case.
fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['t', 'T']) else { return false };
    let Some((clock, rest)) = time.split_at_checked(8) else { return false };
    let parts: Vec<&str> = clock.split(':').collect();
    let in_range = |text: &str, max: &str| digits(text, 2) && text <= max;
    let is_clock = matches!(&parts[..], [hour, minute, second]
        if in_range(hour, "23") && in_range(minute, "59") && in_range(second, "59"));
    let fraction = rest.strip_prefix('.').unwrap_or_default();
    let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
    if rest.starts_with('.') && length == 0 {
        return false;
    }
    let zone = if length == 0 { rest } else { &fraction[length..] };
    let is_zone = matches!(zone, "z" | "Z")
        || zone.strip_prefix(['+', '-']).is_some_and(|offset| {
            offset.split_once(':').is_some_and(|(hours, minutes)| digits(hours, 2) && digits(minutes, 2))
        });
    is_date(date) && is_clock && is_zone
}

/// `1h30m`, as Go has it, or words: `3 days`.
fn is_duration(text: &str) -> bool {
    is_go_duration(text) || has_amount(text)
}

fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut parts = 0;
    while !rest.is_empty() {
        let number = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let is_number =
            rest[..number].bytes().any(|b| b.is_ascii_digit()) && rest[..number].matches('.').count() < 2;
        rest = &rest[number..];
        let unit = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"].into_iter().find(|unit| {
            rest.strip_prefix(unit).is_some_and(|behind| !behind.starts_with(|c: char| c.is_alphabetic()))
        });
        let Some(unit) = unit.filter(|_| is_number) else { return false };
        rest = &rest[unit.len()..];
        parts += 1;
    }
    parts > 0
}

/// Whether a number and a unit of time stand somewhere in a text.
fn has_amount(text: &str) -> bool {
    const EXACT: [&str; 11] = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    const PREFIXES: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    // What stands before the first digit belongs to no number.
    text.split(|c: char| c.is_ascii_digit()).skip(1).any(|behind| {
        let letters = behind.trim_start().chars().take_while(|c| c.is_ascii_alphabetic() || *c == 'µ');
        let unit = letters.collect::<String>().to_lowercase();
        EXACT.contains(&unit.as_str()) || PREFIXES.iter().any(|prefix| unit.starts_with(prefix))
    })
}

/// A URI as Go's `url.ParseRequestURI` takes it: with a scheme, or a path from the root.
fn is_uri(text: &str) -> bool {
    if text.bytes().any(|b| b <= b' ' || b == 0x7f) {
        return false;
    }
    let has_scheme = text.split_once(':').is_some_and(|(scheme, rest)| {
        !rest.is_empty()
            && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    });
    text.starts_with('/') || has_scheme
}

fn is_email(text: &str) -> bool {
    let address = text.rsplit_once('<').and_then(|(_, rest)| rest.strip_suffix('>')).unwrap_or(text);
    address.rsplit_once('@').is_some_and(|(local, domain)| {
        let is_part =
            |part: &str| !part.is_empty() && !part.contains(|c: char| c.is_whitespace() || c == '@');
        is_part(local) && is_part(domain) && !domain.starts_with('.') && !domain.ends_with('.')
    })
}

fn is_hostname(text: &str) -> bool {
    let is_sign = |c: char| c.is_ascii_alphanumeric() || !c.is_ascii();
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.starts_with(is_sign)
            && label.ends_with(is_sign)
            && label.chars().all(|c| is_sign(c) || c == '-')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    let is_top = |label: &str| label.chars().count() >= 2 && label.chars().all(char::is_alphabetic);
    text.len() <= 255 && text.split('.').all(is_label) && (!text.contains('.') || is_top(last))
}

fn is_cidr(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, bits)| {
        let longest = match address.parse() {
            Ok(IpAddr::V4(_)) => 32,
            Ok(IpAddr::V6(_)) => 128,
            Err(_) => return false,
        };
        let plain = bits == "0" || !bits.starts_with(['0', '+']);
        plain && bits.parse::<u8>().is_ok_and(|bits| bits <= longest)
    })
}

/// 6, 8 or 20 bytes in pairs of digits, or in fours behind dots.
fn is_mac(text: &str) -> bool {
    let parts = |sign: char, length: usize| {
        let parts: Vec<&str> = text.split(sign).collect();
        (parts.iter().all(|part| part.len() == length && is_hex(part))).then_some(parts.len() * length / 2)
    };
    [(':', 2), ('-', 2), ('.', 4)]
        .into_iter()
        .any(|(sign, length)| matches!(parts(sign, length), Some(6 | 8 | 20)))
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let dashes_stand_right = match text.len() {
        32 => true,
        36 => [8, 13, 18, 23].iter().all(|at| text.as_bytes()[*at] == b'-'),
        _ => false,
    };
    let variant =
        |c: char| version.is_none_or(|v| v == '3') || matches!(c, '8' | '9' | 'a' | 'b' | 'A' | 'B');
    dashes_stand_right
        && digits.len() == 32
        && is_hex(&digits)
        && version.is_none_or(|v| digits[12..].starts_with(v))
        && digits[16..].starts_with(variant)
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && is_hex(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_take_what_the_api_takes() {
        for (format, good, bad) in [
            (
                "date-time",
                &["2024-02-29T23:59:59Z", "2024-01-01t00:00:00.123+02:00"][..],
                &[
                    "2023-02-29T00:00:00Z",
                    "2024-01-01",
                    "2024-01-01T24:00:00Z",
                    "2024-01-01T00:00:00",
                    "x",
                    "T",
                ][..],
            ),
            ("date", &["2024-02-29"], &["2023-02-29", "24-1-1", "2024-01-01-", ""]),
            (
                "duration",
                &["1h30m", "-1.5h", "0", "3 days", "1w", "2 weeks 1s"],
                &["", "h", "5", "soon", "1x"],
            ),
            ("uri", &["http://a.b/c", "/x", "mailto:a@b"], &["x", "", "a b:c"]),
            ("email", &["a@b.c", "A <a@b.c>"], &["a", "@b", "a@", "a b@c"]),
            ("hostname", &["a", "a-b.example.com"], &["-a", "a..b", "a.1", "", "a_b"]),
            ("ipv4", &["10.0.0.1"], &["10.0.0.256", "::1", "01.0.0.1"]),
            ("ipv6", &["::1", "2001:db8::1"], &["10.0.0.1", "x"]),
            ("cidr", &["10.0.0.0/8", "::/0"], &["10.0.0.0/33", "10.0.0.0", "10.0.0.0/08", "x/1"]),
            ("mac", &["01:23:45:67:89:ab", "0123.4567.89ab"], &["01:23", "xx:23:45:67:89:ab"]),
            (
                "uuid",
                &["123e4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000"],
                &["123e4567-e89b-12d3-a456-42661417400", "ä23e4567-e89b-12d3-a456-42661417400"],
            ),
            ("uuid4", &["123e4567-e89b-42d3-a456-426614174000"], &["123e4567-e89b-12d3-a456-426614174000"]),
            ("byte", &["aGk="], &["aGk", "", "!"]),
            ("hexcolor", &["#fff", "00ff00"], &["#ff", "#ggg"]),
            ("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f"]),
            ("password", &["", "x"], &[]),
        ] {
            let checked = Format::named(format).unwrap();
            for text in good {
                assert!(checked.fits(text), "{format}: {text:?}");
            }
            for text in bad {
                assert!(!checked.fits(text), "{format}: {text:?}");
            }
        }
        assert!(Format::named("int32").is_none() && Format::named("my-own").is_none());
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in r"[0-9a-zA-ZµäT:.@/#<> -]{0,30}") {
            for format in [
                "date-time", "date", "duration", "uri", "email", "hostname", "cidr", "mac", "uuid", "uuid4", "byte", "hexcolor",
            ] {
                Format::named(format).unwrap().fits(&text);
            }
        }
    }
}
