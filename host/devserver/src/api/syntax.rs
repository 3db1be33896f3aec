//! How the texts in objects must look: names, labels, ports, keys, paths. Each check gives what is wrong, in the words of the API.
//!
//! The words are known to people and to programs, regular expressions included; the checks themselves need none.

/// What is wrong with a text; nothing if it is empty.
pub(crate) type Faults = Vec<&'static str>;

macro_rules! label_format {
    () => {
        "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    };
}

macro_rules! subdomain_format {
    () => {
        concat!(label_format!(), "(\\.", label_format!(), ")*")
    };
}

macro_rules! subdomain_words {
    () => {
        concat!(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
             and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '",
            subdomain_format!(),
            "')"
        )
    };
}

macro_rules! key_format {
    () => {
        "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
    };
}

macro_rules! key_words {
    () => {
        concat!(
            "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
             (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '",
            key_format!(),
            "')"
        )
    };
}

/// The longest label of DNS, and the longest name and value of a label of an object.
const LABEL: usize = 63;
/// The longest name of DNS.
const SUBDOMAIN: usize = 253;

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Whether a text begins and ends with what `end` takes and has only what `inner` takes.
fn is_made_of(text: &str, end: fn(u8) -> bool, inner: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.iter().all(|byte| byte.is_some_and(|byte| end(*byte))) && bytes.iter().all(|byte| inner(*byte))
}

fn is_label(text: &str) -> bool {
    is_made_of(text, is_lower, |byte| is_lower(byte) || byte == b'-')
}

fn is_subdomain(text: &str) -> bool {
    // Only the whole is limited: a part may be longer than a label of DNS.
    text.split('.').all(is_label)
}

fn is_key(text: &str) -> bool {
    is_made_of(
        text,
        |byte| byte.is_ascii_alphanumeric(),
        |byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte),
    )
}

/// A text that is taken for the beginning of a name, as one that is checked as a whole: it may end with a dash.
pub(crate) fn without_dash(text: &str) -> std::borrow::Cow<'_, str> {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let mut letters = rest.chars();
            letters.next_back();
            format!("{}a", letters.as_str()).into()
        }
        _ => text.into(),
    }
}

/// One label of DNS: `my-name`.
pub(crate) fn dns_label(text: &str) -> Faults {
    let mut faults = Faults::new();
    if text.len() > LABEL {
        faults.push("must be no more than 63 characters");
    }
    if is_label(text) {
        return faults;
    }
    faults.push(if is_subdomain(text) {
        "must not contain dots"
    } else {
        concat!(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
             with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '",
            label_format!(),
            "')"
        )
    });
    faults
}

/// Labels of DNS joined by dots: `my.name`.
pub(crate) fn dns_subdomain(text: &str) -> Faults {
    let mut faults = Faults::new();
    if text.len() > SUBDOMAIN {
        faults.push("must be no more than 253 characters");
    }
    if !is_subdomain(text) {
        faults.push(subdomain_words!());
    }
    faults
}

/// As [`dns_subdomain`], with underscores.
pub(crate) fn dns_subdomain_with_underscores(text: &str) -> Faults {
    let is_part = |part: &str| {
        let rest = part.strip_prefix('_').unwrap_or(part);
        is_made_of(rest, is_lower, |byte| is_lower(byte) || b"-_".contains(&byte))
    };
    let mut faults = Faults::new();
    if text.len() > SUBDOMAIN {
        faults.push("must be no more than 253 characters");
    }
    if !text.split('.').all(is_part) {
        faults.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start \
             and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')",
        );
    }
    faults
}

/// `*.` and a name of DNS.
pub(crate) fn wildcard_subdomain(text: &str) -> Faults {
    let mut faults = Faults::new();
    if text.len() > SUBDOMAIN {
        faults.push("must be no more than 253 characters");
    }
    if !text.strip_prefix("*.").is_some_and(is_subdomain) {
        faults.push(concat!(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of \
             lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', \
             regex used for validation is '\\*\\.",
            subdomain_format!(),
            "')"
        ));
    }
    faults
}

/// A label of DNS by RFC 1035: it may not begin with a digit.
pub(crate) fn dns_1035_label(text: &str) -> Faults {
    let mut faults = Faults::new();
    if text.len() > LABEL {
        faults.push("must be no more than 63 characters");
    }
    if !is_label(text) || text.starts_with(|c: char| c.is_ascii_digit()) {
        faults.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and \
             end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is \
             '[a-z]([-a-z0-9]*[a-z0-9])?')",
        );
    }
    faults
}

/// `name` or `prefix/name`, as the keys of labels, annotations and finalizers are.
pub(crate) fn qualified_name(text: &str) -> Faults {
    let mut faults = Faults::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => {
            return vec![concat!(
                "a valid label key ",
                key_words!(),
                " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty");
            } else {
                if prefix.len() > SUBDOMAIN {
                    faults.push("prefix part must be no more than 253 bytes");
                }
                if !is_subdomain(prefix) {
                    faults.push(concat!("prefix part ", subdomain_words!()));
                }
            }
            name
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty");
    } else if name.len() > LABEL {
        faults.push("name part must be no more than 63 bytes");
    }
    if !is_key(name) {
        faults.push(concat!("name part ", key_words!()));
    }
    faults
}

/// The value of a label.
pub(crate) fn label_value(text: &str) -> Faults {
    let mut faults = Faults::new();
    if text.len() > LABEL {
        faults.push("must be no more than 63 bytes");
    }
    if !text.is_empty() && !is_key(text) {
        faults.push(concat!(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
             and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation \
             is '(",
            key_format!(),
            ")?')"
        ));
    }
    faults
}

/// What can be one part of a path of the API.
pub(crate) fn path_segment(text: &str) -> Faults {
    match text {
        "." => vec!["may not be '.'"],
        ".." => vec!["may not be '..'"],
        text => [('/', "may not contain '/'"), ('%', "may not contain '%'")]
            .into_iter()
            .filter_map(|(letter, fault)| text.contains(letter).then_some(fault))
            .collect(),
    }
}

/// The name of a port of a container.
pub(crate) fn port_name(text: &str) -> Faults {
    let bytes = text.as_bytes();
    let checks = [
        (text.len() <= 15, "must be no more than 15 characters"),
        (
            !text.is_empty() && bytes.iter().all(|byte| is_lower(*byte) || *byte == b'-'),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (bytes.iter().any(u8::is_ascii_lowercase), "must contain at least one letter (a-z)"),
        (!text.contains("--"), "must not contain consecutive hyphens"),
        (!text.starts_with('-') && !text.ends_with('-'), "must not begin or end with a hyphen"),
    ];
    checks.into_iter().filter_map(|(holds, fault)| (!holds).then_some(fault)).collect()
}

/// The number of a port.
pub(crate) fn port_number(port: i64) -> Faults {
    if (1..=65535).contains(&port) { Faults::new() } else { vec!["must be between 1 and 65535, inclusive"] }
}

/// The number of a user or a group.
pub(crate) fn user_number(id: i64) -> Faults {
    if (0..=i64::from(i32::MAX)).contains(&id) {
        Faults::new()
    } else {
        vec!["must be between 0 and 2147483647, inclusive"]
    }
}

/// `25%`.
pub(crate) fn percent(text: &str) -> Faults {
    let digits = text.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Faults::new();
    }
    vec![
        "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for \
         validation is '[0-9]+%')",
    ]
}

/// The reason of a condition.
pub(crate) fn condition_reason(text: &str) -> Faults {
    let is_end = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = text.as_bytes();
    let starts = bytes.first().is_some_and(u8::is_ascii_alphabetic);
    if starts
        && bytes.iter().all(|byte| is_end(*byte) || b",:".contains(byte))
        && bytes.last().is_some_and(|byte| is_end(*byte))
    {
        return Faults::new();
    }
    vec![
        "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters \
         or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or \
         'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')",
    ]
}

/// The name of a header of HTTP.
pub(crate) fn header_name(text: &str) -> Faults {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Faults::new();
    }
    vec![
        "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation \
         is '[-A-Za-z0-9]+')",
    ]
}

/// The name of an environment variable.
pub(crate) fn env_name(text: &str) -> Faults {
    if text.is_empty() {
        return vec!["environment variable name must be non-empty"];
    }
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
        return Faults::new();
    }
    vec!["a valid environment variable name must consist only of printable ASCII characters other than '='"]
}

/// The key of an entry of a ConfigMap or a Secret.
pub(crate) fn config_key(text: &str) -> Faults {
    let mut faults = Faults::new();
    if text.len() > SUBDOMAIN {
        faults.push("must be no more than 253 characters");
    }
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        faults.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or \
             'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
        );
    }
    match text {
        "." => faults.push("must not be '.'"),
        ".." => faults.push("must not be '..'"),
        text if text.starts_with("..") => faults.push("must not start with '..'"),
        _ => {}
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_dns() {
        let long = "a".repeat(254);
        for (text, label, subdomain, label_1035) in [
            ("a", true, true, true),
            ("1svc", true, true, false),
            ("a.b-c.d", false, true, false),
            ("A", false, false, false),
            ("-a", false, false, false),
            ("a-", false, false, false),
            ("a..b", false, false, false),
            ("", false, false, false),
            (&"a".repeat(63), true, true, true),
            (&"a".repeat(64), false, true, false),
            (&long, false, false, false),
        ] {
            assert_eq!(dns_label(text).is_empty(), label, "{text:?}");
            assert_eq!(dns_subdomain(text).is_empty(), subdomain, "{text:?}");
            assert_eq!(dns_1035_label(text).is_empty(), label_1035, "{text:?}");
        }
        assert_eq!(dns_label("a.b"), ["must not contain dots"]);
        assert!(wildcard_subdomain("*.a.b").is_empty() && !wildcard_subdomain("a.*").is_empty());
        assert!(dns_subdomain_with_underscores("_a._tcp.b_c").is_empty());
        assert!(!dns_subdomain_with_underscores("a_").is_empty());
    }

    #[test]
    fn keys_and_values_of_labels() {
        for (key, faults) in
            [("a", 0), ("a.b/C_d", 0), ("A/b", 1), ("a/b/c", 1), ("", 2), ("/a", 1), ("a/", 2), ("-", 1)]
        {
            assert_eq!(qualified_name(key).len(), faults, "{key:?}");
        }
        for (value, good) in [("", true), ("a b", false), ("A_1.x", true), ("-", false), ("x-", false)] {
            assert_eq!(label_value(value).is_empty(), good, "{value:?}");
        }
    }

    #[test]
    fn all_that_is_wrong_is_said() {
        assert_eq!(port_name("").len(), 2);
        assert_eq!(port_name("-A--sixteenletters").len(), 5 - 1);
        assert_eq!(config_key("..a/").len(), 2);
        assert_eq!(path_segment("a/b%").len(), 2);
        assert!(percent("%").len() == 1 && percent("25%").is_empty());
        assert!(env_name("a=b").len() == 1 && env_name("1 b").is_empty());
        assert!(header_name("").len() == 1 && header_name("X-A").is_empty());
    }
}
