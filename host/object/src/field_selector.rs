//! Field selectors: `metadata.name=a,spec.nodeName!=b`. In values, `\` escapes `\`, `,` and `=`.
//!
//! The server supports a few fields of each kind. Most are dotted paths into the object, and matching here reads any such
//! path, an absent field counting as the empty string. Where the server's field has another path, or a value for an object
//! that omits it, [`SERVER_FIELDS`] says which.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::field_values::FieldValues;
use crate::object::Object;
use crate::pointer::{self, json_string};

/// A parsed field selector; the default matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct FieldRequirement {
    field: String,
    equal: bool,
    value: String,
}

/// Why a text is not a field selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid field selector {text:?}: {reason}")]
pub struct FieldSelectorError {
    text: String,
    reason: &'static str,
}

/// Fields whose value on the server is not what the JSON at that path says: API group and kind, field, path, and the
/// value of an object that lacks it. They are the conversions of the server's API types.
const SERVER_FIELDS: &[(&str, &str, &str, &str, &str)] = &[
    ("", "Pod", "spec.hostNetwork", "spec.hostNetwork", "false"),
    ("", "Node", "spec.unschedulable", "spec.unschedulable", "false"),
    ("", "ReplicationController", "status.replicas", "status.replicas", "0"),
    ("apps", "ReplicaSet", "status.replicas", "status.replicas", "0"),
    ("extensions", "ReplicaSet", "status.replicas", "status.replicas", "0"),
    ("batch", "Job", "status.successful", "status.succeeded", "0"),
    ("", "Event", "source", "source.component", ""),
];

impl FieldSelector {
    /// Whether the selector has no requirement.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements: the path of the field, `true` for equal or `false` for different, and the value.
    pub fn requirements(&self) -> impl Iterator<Item = (&str, bool, &str)> {
        self.requirements.iter().map(|r| (r.field.as_str(), r.equal, r.value.as_str()))
    }

    /// The paths in the JSON of objects of a kind that matching reads, in dotted form.
    pub fn paths<'a>(&'a self, group: &'a str, kind: &'a str) -> impl Iterator<Item = &'a str> {
        self.requirements
            .iter()
            .map(move |r| server_field(group, kind, &r.field).map_or(&*r.field, |(path, _)| path))
    }

    /// Whether the object meets every requirement.
    #[must_use]
    pub fn matches(&self, object: &Object) -> bool {
        self.meets(|path| field(object, path))
    }

    /// As [`matches`](Self::matches), with values that others may have read before.
    #[must_use]
    pub fn matches_values(&self, values: &FieldValues<'_>) -> bool {
        self.meets(|path| values.field(path))
    }

    fn meets<'a>(&self, value: impl Fn(&str) -> Cow<'a, str>) -> bool {
        self.requirements.iter().all(|r| (value(&r.field) == r.value) == r.equal)
    }
}

/// The path and the value of absence, for a field whose value on the server is not what the JSON at that path says.
fn server_field(group: &str, kind: &str, field: &str) -> Option<(&'static str, &'static str)> {
    let row = SERVER_FIELDS.iter().find(|(of, own, name, ..)| (*of, *own, *name) == (group, kind, field));
    row.map(|(.., path, absent)| (*path, *absent))
}

/// The value of a field on the server; empty when it is absent.
pub(crate) fn field<'a>(object: &'a Object, path: &str) -> Cow<'a, str> {
    match path {
        "metadata.name" => Cow::Borrowed(object.name()),
        "metadata.namespace" => Cow::Borrowed(object.namespace().unwrap_or_default()),
        _ => {
            let group = object.api_version().rsplit_once('/').map_or("", |(group, _)| group);
            let (path, absent) = server_field(group, object.kind(), path).unwrap_or((path, ""));
            let mut names = path.split('.');
            let first = object.member(names.next().unwrap_or_default());
            let value = first.and_then(|value| names.try_fold(value, pointer::member));
            match value {
                None | Some("null") => Cow::Borrowed(absent),
                Some(raw) => json_string(raw).unwrap_or(Cow::Borrowed(raw)),
            }
        }
    }
}

impl FromStr for FieldSelector {
    type Err = FieldSelectorError;

    fn from_str(text: &str) -> Result<Self, FieldSelectorError> {
        let error = |reason| FieldSelectorError { text: text.to_owned(), reason };
        let mut requirements = Vec::new();
        for term in split_terms(text) {
            if term.is_empty() {
                continue;
            }
            // The operator ends at the first `=`; a `!` alone is not an operator.
            let operator = term.find('=').ok_or_else(|| error("a term is FIELD=VALUE or FIELD!=VALUE"))?;
            let (name, value) = (&term[..operator], &term[operator + 1..]);
            let (name, equal, value) = match name.strip_suffix('!') {
                Some(name) => (name, false, value),
                None => (name, true, value.strip_prefix('=').unwrap_or(value)),
            };
            if name.is_empty() || name.split('.').any(str::is_empty) {
                return Err(error("a field is a dotted path such as metadata.name"));
            }
            let value =
                unescape(value).ok_or_else(|| error("in a value, \\ stands only before \\, comma or ="))?;
            requirements.push(FieldRequirement { field: name.to_owned(), equal, value });
        }
        Ok(Self { requirements })
    }
}

/// Splits at commas that no backslash precedes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn unescape(value: &str) -> Option<String> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(chars.next().filter(|c| matches!(c, '\\' | ',' | '='))?),
            '=' => return None,
            c => out.push(c),
        }
    }
    Some(out)
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, r) in self.requirements.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            let value = r.value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
            write!(f, "{comma}{}{}{value}", r.field, if r.equal { "=" } else { "!=" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str) -> bool {
        let pod = Object::decode(
            br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"b"},
                "spec":{"nodeName":"n","hostNetwork":true,"odd":"x,y=z"}}"#,
        )
        .unwrap();
        selector.parse::<FieldSelector>().unwrap().matches(&pod)
    }

    #[test]
    fn compares_fields_as_text() {
        assert!(matches(""));
        assert!(matches("metadata.name=a,metadata.namespace==b,spec.nodeName=n"));
        assert!(matches("spec.hostNetwork=true"));
        assert!(!matches("spec.nodeName!=n"));
    }

    #[test]
    fn an_absent_field_is_empty() {
        assert!(matches("status.phase="));
        assert!(matches("status.phase!=Running"));
    }

    #[test]
    fn fields_that_the_server_derives_have_its_values() {
        let matches = |api_version: &str, kind: &str, rest: &str, selector: &str| {
            let text = format!(
                r#"{{"apiVersion":"{api_version}","kind":"{kind}","metadata":{{"name":"a"}}{rest}}}"#
            );
            selector.parse::<FieldSelector>().unwrap().matches(&Object::decode(text.as_bytes()).unwrap())
        };
        assert!(matches("v1", "Pod", "", "spec.hostNetwork=false"));
        assert!(matches("v1", "Node", "", "spec.unschedulable=false"));
        assert!(!matches("v1", "Node", r#","spec":{"unschedulable":true}"#, "spec.unschedulable=false"));
        assert!(matches("apps/v1", "ReplicaSet", "", "status.replicas=0"));
        assert!(matches("batch/v1", "Job", r#","status":{"succeeded":1}"#, "status.successful=1"));
        assert!(matches("batch/v1", "Job", "", "status.successful=0"));
        assert!(matches("v1", "Event", r#","source":{"component":"kubelet"}"#, "source=kubelet"));
        // Kinds of the same name in another group have no such fields.
        assert!(matches("example.com/v1", "Job", "", "status.successful="));
    }

    #[test]
    fn escapes_read_back() {
        let text = r"spec.odd=x\,y\=z";
        assert!(matches(text));
        assert_eq!(text.parse::<FieldSelector>().unwrap().to_string(), text);
    }

    #[test]
    fn malformed_terms_are_refused() {
        for text in ["a", "=b", "a!b", "a=b=c", "a!==b", "a..b=c", r"a=\x"] {
            assert!(text.parse::<FieldSelector>().is_err(), "{text}");
        }
    }
}
