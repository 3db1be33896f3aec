//! Field selectors: `metadata.name=a,spec.nodeName!=b`. In values, `\` escapes `\`, `,` and `=`.
//!
//! The API server supports a few fields of each kind. Matching here reads any dotted path from the object's text. An
//! absent field equals the empty string, as on the server.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

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

    /// Whether the object meets every requirement.
    #[must_use]
    pub fn matches(&self, object: &Object) -> bool {
        self.requirements.iter().all(|r| (field(object, &r.field) == r.value) == r.equal)
    }
}

fn field<'a>(object: &'a Object, path: &str) -> Cow<'a, str> {
    match path {
        "metadata.name" => Cow::Borrowed(object.name()),
        "metadata.namespace" => Cow::Borrowed(object.namespace().unwrap_or_default()),
        _ => {
            let value = path.split('.').try_fold(object.json(), |json, name| pointer::member(json, name));
            match value {
                None | Some("null") => Cow::Borrowed(""),
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
