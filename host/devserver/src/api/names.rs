//! The rules for names, and for the keys and values of labels and annotations.

use std::net::IpAddr;

/// Which names a resource takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// Labels joined by dots, 253 characters at most (most resources).
    Subdomain,
    /// One label of 63 characters at most (namespaces, services).
    Label,
    /// Anything that can stand in a path (roles and their bindings).
    Segment,
    /// An IP address in its shortest form.
    Address,
}

/// What is wrong with a name, if anything is.
pub(crate) fn check_name(name: &str, rule: NameRule) -> Result<(), &'static str> {
    match rule {
        NameRule::Subdomain if is_subdomain(name) => Ok(()),
        NameRule::Subdomain => {
            Err("must be a lowercase RFC 1123 subdomain: at most 253 letters, digits, '-' and '.', with \
                                    a letter or digit at both ends of each part")
        }
        NameRule::Label if is_label(name) => Ok(()),
        NameRule::Label => {
            Err("must be a lowercase RFC 1123 label: at most 63 letters, digits and '-', with a letter or \
                                digit at both ends")
        }
        NameRule::Segment if matches!(name, "." | "..") || name.contains(['/', '%']) => {
            Err("may not be '.' or '..' and may not contain '/' or '%'")
        }
        NameRule::Segment => Ok(()),
        NameRule::Address if name.parse::<IpAddr>().is_ok_and(|ip| ip.to_string() == name) => Ok(()),
        NameRule::Address => Err("must be a valid IP address in canonical form"),
    }
}

/// What is wrong with a label of DNS by RFC 1035, in the words of the API: it may not begin with a digit.
pub(crate) fn dns_1035_fault(text: &str) -> Option<&'static str> {
    if text.len() > 63 {
        return Some("must be no more than 63 bytes");
    }
    let fits = is_part(text) && text.starts_with(|c: char| c.is_ascii_lowercase());
    (!fits).then_some(
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and \
         end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is \
         '[a-z]([-a-z0-9]*[a-z0-9])?')",
    )
}

/// What is wrong with a label of DNS by RFC 1123, in the words of the API.
pub(crate) fn dns_1123_faults(text: &str) -> Vec<&'static str> {
    let mut faults = Vec::new();
    if text.len() > 63 {
        faults.push("must be no more than 63 bytes");
    }
    if !is_part(text) {
        faults.push(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with \
             an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
        );
    }
    faults
}

/// What is wrong with a name of DNS, in the words of the API.
pub(crate) fn dns_subdomain_fault(text: &str) -> Option<&'static str> {
    if text.len() > 253 {
        return Some("must be no more than 253 bytes");
    }
    (!is_subdomain(text)).then_some(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and \
         end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
    )
}

fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_part(text)
}

fn is_subdomain(text: &str) -> bool {
    // Only the whole is limited: a part may be longer than a label of DNS.
    text.len() <= 253 && text.split('.').all(is_part)
}

fn is_part(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.iter().all(|end| end.is_some_and(|&b| inner(b))) && bytes.iter().all(|&b| inner(b) || b == b'-')
}

/// `prefix/name` or `name`, as keys of labels, annotations and finalizers are.
pub(crate) fn is_qualified(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_word(name, false),
        None => is_word(key, false),
    }
}

pub(crate) fn is_label_value(value: &str) -> bool {
    is_word(value, true)
}

fn is_word(text: &str, may_be_empty: bool) -> bool {
    let bytes = text.as_bytes();
    match bytes {
        [] => may_be_empty,
        [first, .., last] if !(first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric()) => false,
        [b'-' | b'_' | b'.'] => false,
        _ => bytes.len() <= 63 && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let long = "a".repeat(254);
        for (name, subdomain, label, segment) in [
            ("a", true, true, true),
            ("1svc", true, true, true),
            ("a.b-c.d", true, false, true),
            ("A", false, false, true),
            ("-a", false, false, true),
            ("a-", false, false, true),
            ("a..b", false, false, true),
            ("", false, false, true),
            ("system:admin", false, false, true),
            ("a/b", false, false, false),
            ("..", false, false, false),
            (&"a".repeat(63), true, true, true),
            (&"a".repeat(64), true, false, true),
            (&long, false, false, true),
        ] {
            assert_eq!(check_name(name, NameRule::Subdomain).is_ok(), subdomain, "{name:?}");
            assert_eq!(check_name(name, NameRule::Label).is_ok(), label, "{name:?}");
            assert_eq!(check_name(name, NameRule::Segment).is_ok(), segment, "{name:?}");
        }
    }

    #[test]
    fn keys_and_values() {
        for (key, good) in
            [("a", true), ("a.b/C_d", true), ("A/b", false), ("a/b/c", false), ("", false), ("/a", false)]
        {
            assert_eq!(is_qualified(key), good, "{key:?}");
        }
        for (value, good) in [("", true), ("a b", false), ("A_1.x", true), ("-", false), ("x-", false)] {
            assert_eq!(is_label_value(value), good, "{value:?}");
        }
    }
}
