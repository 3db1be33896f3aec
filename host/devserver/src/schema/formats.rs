//! [`Format`]: the formats of strings and numbers that the API checks.
//!
//! Formats that it does not know, or not with a type, are ignored, as the API does. Each check takes time linear in the text,
//! or the caller's [`Budget`] ends it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use super::budget::Budget;
use super::pattern::Pattern;
use super::types::Kind;

/// A format that values are checked by.
#[derive(Debug, Clone)]
pub(crate) struct Format {
    name: Box<str>,
    check: Check,
}

/// How texts are checked.
#[derive(Debug, Clone, Copy)]
enum Check {
    By(fn(&str) -> bool),
    /// By one of the server's own regular expressions, for texts that are not longer.
    Pattern(&'static LazyLock<Option<Pattern>>, usize),
    /// Numbers alone have it.
    Never,
}

/// One of the server's own regular expressions.
macro_rules! pattern {
    ($text:expr) => {{
        static PATTERN: LazyLock<Option<Pattern>> = LazyLock::new(|| Pattern::new($text).ok());
        &PATTERN
    }};
}

impl Format {
    /// The format of this name, if it is one that is checked with a type.
    pub(crate) fn of(kind: Kind, name: &str) -> Option<Self> {
        let check = match (kind, name) {
            (Kind::Integer, "int32" | "int64") | (Kind::Number, "float" | "double") => Check::Never,
            (Kind::Any | Kind::String | Kind::IntOrString, name) => text_check(name)?,
            _ => return None,
        };
        Some(Self { name: name.into(), check })
    }

    /// As the schema has it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn fits(&self, text: &str, budget: &mut Budget) -> bool {
        match self.check {
            Check::By(check) => check(text),
            Check::Pattern(pattern, longest) => {
                text.len() <= longest
                    && LazyLock::force(pattern).as_ref().is_some_and(|pattern| pattern.matches(text, budget))
            }
            Check::Never => true,
        }
    }
}

/// How the texts of a format are checked.
fn text_check(name: &str) -> Option<Check> {
    const LONGEST_LABEL: usize = 63;
    const LONGEST_SUBDOMAIN: usize = 253;
    const UUID: usize = 36;
    Some(match name.replace('-', "").as_str() {
        "datetime" => Check::By(is_date_time),
        "date" => Check::By(is_date),
        "duration" => Check::By(is_duration),
        "uri" => Check::By(is_uri),
        "email" => Check::By(is_email),
        "hostname" => Check::By(is_hostname),
        "ipv4" => Check::By(is_ipv4),
        "ipv6" => Check::By(|text| text.parse::<Ipv6Addr>().is_ok()),
        "cidr" => Check::By(is_cidr),
        "mac" => Check::By(is_mac),
        "uuid" => Check::Pattern(
            pattern!("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"),
            UUID,
        ),
        "uuid3" => Check::Pattern(
            pattern!("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$"),
            UUID,
        ),
        "uuid4" => Check::Pattern(
            pattern!("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"),
            UUID,
        ),
        "uuid5" => Check::Pattern(
            pattern!("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"),
            UUID,
        ),
        "byte" => Check::By(is_base64),
        "bsonobjectid" => Check::By(|text| text.len() == 24 && is_hex(text)),
        "password" => Check::By(|_| true),
        "k8sshortname" => Check::Pattern(pattern!("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"), LONGEST_LABEL),
        "k8slongname" => Check::Pattern(
            pattern!(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"),
            LONGEST_SUBDOMAIN,
        ),
        _ => return None,
    })
}

/// Labels of letters, digits and symbols; the last of several has letters alone. One that is alone may have a dash behind its
/// first letter and no other.
fn is_hostname(text: &str) -> bool {
    const LONGEST: usize = 255;
    const LONGEST_LABEL: usize = 63;
    let pattern = pattern!(
        r"^([a-zA-Z0-9\p{S}\p{L}]-?[a-zA-Z0-9\p{S}\p{L}]*|([a-zA-Z0-9\p{S}\p{L}]([a-zA-Z0-9-\p{S}\p{L}]*[a-zA-Z0-9\p{S}\p{L}])?\.)+[a-zA-Z\p{L}]{2,})$"
    );
    let longest = LONGEST_LABEL + usize::from(!text.contains('.') && text.contains('-'));
    text.len() <= LONGEST
        && text.split('.').all(|label| label.chars().count() <= longest)
        && LazyLock::force(pattern).as_ref().is_some_and(|pattern| pattern.matches(text, &mut Budget::new()))
}

/// Whether the API knows this format of this type in a schema; others have no effect, of which it warns.
pub(super) fn is_recognized(kind: Kind, name: &str) -> bool {
    Format::of(kind, name).is_some()
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

/// A duration as Go reads it: `1h30m`.
pub(crate) fn is_go_duration(text: &str) -> bool {
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

/// A number of an IPv4 address, also with zeros before it.
fn octet(text: &str) -> Option<u8> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let digits = text.trim_start_matches('0');
    if !is_number || digits.len() > 3 { None } else { format!("0{digits}").parse().ok() }
}

fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let parts: Vec<&str> = text.splitn(5, '.').collect();
    let &[a, b, c, d] = &parts[..] else { return None };
    Some(Ipv4Addr::new(octet(a)?, octet(b)?, octet(c)?, octet(d)?))
}

/// An IPv6 address; the numbers of an IPv4 address at its end may begin with zeros.
fn ipv6(text: &str) -> Option<Ipv6Addr> {
    let plain = match text.rsplit_once(':') {
        Some((before, last)) if last.contains('.') => format!("{before}:{}", ipv4(last)?),
        _ => text.to_owned(),
    };
    plain.parse().ok()
}

/// An address with dots in it, also an IPv6 address that ends as an IPv4 address does.
fn is_ipv4(text: &str) -> bool {
    text.contains('.') && (ipv4(text).is_some() || ipv6(text).is_some())
}

fn is_cidr(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, bits)| {
        let address = ipv4(address).map(IpAddr::V4).or_else(|| ipv6(address).map(IpAddr::V6));
        let longest = match address {
            Some(IpAddr::V4(_)) => 32,
            Some(IpAddr::V6(_)) => 128,
            None => return false,
        };
        let is_number = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
        let digits = bits.trim_start_matches('0');
        is_number && (digits.is_empty() || digits.parse::<u32>().is_ok_and(|bits| bits <= longest))
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

/// Base64 with all of its padding; bits that stand for nothing are not looked at.
fn is_base64(text: &str) -> bool {
    let letters = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && letters.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/".contains(&b))
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
            (
                "hostname",
                &["a", "a-b", "a-b-c.example.com", "ä.de", "a-"],
                &["-a", "a..b", "a.1", "", "a_b", "a-b-c"],
            ),
            (
                "ipv4",
                &["10.0.0.1", "01.0.0.1", "::ffff:1.2.3.4"],
                &["10.0.0.256", "::1", "1.2.3", "1.2.3.4.5", "1..2.3"],
            ),
            ("ipv6", &["::1", "2001:db8::1"], &["10.0.0.1", "x"]),
            (
                "cidr",
                &["10.0.0.0/8", "::/0", "10.0.0.0/08", "010.0.0.0/8"],
                &["10.0.0.0/33", "10.0.0.0", "x/1", "10.0.0.0/+8", "10.0.0.0/"],
            ),
            ("mac", &["01:23:45:67:89:ab", "0123.4567.89ab"], &["01:23", "xx:23:45:67:89:ab"]),
            (
                "uuid",
                &[
                    "123e4567-e89b-12d3-a456-426614174000",
                    "123E4567e89b12d3a456426614174000",
                    "123e4567-e89b12d3-a456426614174000",
                ],
                &["123e4567-e89b-12d3-a456-42661417400", "ä23e4567-e89b-12d3-a456-42661417400"],
            ),
            ("uuid4", &["123e4567-e89b-42d3-a456-426614174000"], &["123e4567-e89b-12d3-a456-426614174000"]),
            ("byte", &["aGk=", "aGl="], &["aGk", "", "!", "aGk=aGk=", "a=k="]),
            ("k8s-short-name", &["a-b", "1"], &["a.b", "A", "-a", ""]),
            ("k8s-long-name", &["a.b-c", "1"], &["a..b", "A", ".a", ""]),
            ("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f"]),
            ("password", &["", "x"], &[]),
        ] {
            let checked = Format::of(Kind::String, format).unwrap();
            let fits = |text: &str| checked.fits(text, &mut Budget::new());
            for text in good {
                assert!(fits(text), "{format}: {text:?}");
            }
            for text in bad {
                assert!(!fits(text), "{format}: {text:?}");
            }
        }
        for (kind, format) in [
            (Kind::String, "int32"),
            (Kind::String, "my-own"),
            (Kind::Integer, "float"),
            (Kind::Number, "int32"),
            (Kind::Object, "date"),
        ] {
            assert!(Format::of(kind, format).is_none(), "{format}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in r"[0-9a-zA-ZµäT:.@/#<> -]{0,30}") {
            for format in [
                "date-time", "date", "duration", "uri", "email", "hostname", "cidr", "mac", "uuid", "uuid4", "byte", "ipv4",
                "k8s-long-name",
            ] {
                Format::of(Kind::String, format).unwrap().fits(&text, &mut Budget::new());
            }
        }
    }
}
