//! [`Labels`]: reads the labels of an object, either from its JSON or from the uncompressed part of a packed object.
//!
//! A packed object stores its labels as pairs in the form `name"value`: some in a [`Family`](crate::families::Family),
//! the others in its own buffer. Invariants: no part of a pair contains a quote, a backslash or a line feed, because
//! the source JSON had no escapes; no name occurs twice.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::members::{members, string_map};
use crate::pointer;
use crate::scan::has_escapes;
use crate::walk::each_member;

/// The labels of an object in the form in which it stores them.
#[derive(Clone, Copy)]
pub(crate) enum Labels<'a> {
    /// The JSON of `metadata.labels`; `None` when it is absent.
    Json(Option<&'a str>),
    /// Pairs shared with other objects, and this object's own pairs, each terminated by [`END`].
    Pairs { shared: &'a [Arc<str>], own: &'a str },
}

/// Separates the name from the value of a pair.
const SEPARATOR: char = '"';

/// Terminates each of an object's own pairs.
pub(crate) const END: char = '\n';

impl<'a> Labels<'a> {
    /// The value of a label.
    pub(crate) fn get(self, name: &str) -> Option<Cow<'a, str>> {
        match self {
            Self::Json(json) => pointer::json_string(pointer::member(json?, name)?),
            Self::Pairs { shared, own } => {
                let mut pairs = shared.iter().map(AsRef::as_ref).chain(own.split_terminator(END)).map(parts);
                pairs.find(|(known, _)| *known == name).map(|(_, value)| Cow::Borrowed(value))
            }
        }
    }

    /// Calls `found` with the name and value of each label that has a string as its value.
    pub(crate) fn each(self, mut found: impl FnMut(&str, &str)) {
        match self {
            Self::Json(None) => {}
            Self::Json(Some(json)) => {
                // What precedes a scan error has been found, as in a search for one label.
                let _ = each_member(json, |name, value| {
                    if let (Some(name), Some(value)) = (name.unescaped(), pointer::json_string(value)) {
                        found(&name, &value);
                    }
                    true
                });
            }
            Self::Pairs { shared, own } => {
                let pairs = shared.iter().map(AsRef::as_ref).chain(own.split_terminator(END)).map(parts);
                pairs.for_each(|(name, value)| found(name, value));
            }
        }
    }

    /// All labels.
    pub(crate) fn map(self) -> BTreeMap<Cow<'a, str>, Cow<'a, str>> {
        match self {
            Self::Json(json) => string_map(json),
            Self::Pairs { .. } => {
                let pairs = self.sorted().unwrap_or_default();
                pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
            }
        }
    }

    /// Whether both are equal maps.
    pub(crate) fn same(self, other: Self) -> bool {
        match (self, other) {
            (Self::Json(a), Self::Json(b)) if a == b => true,
            (Self::Pairs { shared: a, own: a_own }, Self::Pairs { shared: b, own: b_own })
                if std::ptr::eq(a, b) =>
            {
                a_own == b_own
            }
            _ => match (self.sorted(), other.sorted()) {
                (Some(a), Some(b)) => a == b,
                _ => self.map() == other.map(),
            },
        }
    }

    /// The pairs sorted by name; `None` when the JSON contains escapes, a value that is not a string, or a name twice.
    fn sorted(self) -> Option<Vec<(&'a str, &'a str)>> {
        let mut pairs = Vec::with_capacity(16);
        match self {
            Self::Json(None) => {}
            Self::Json(Some(json)) => members(json, |name, value| {
                pairs.push((name, value));
                !has_escapes(name) && !has_escapes(value)
            })?,
            Self::Pairs { shared, own } => {
                pairs.extend(shared.iter().map(AsRef::as_ref).chain(own.split_terminator(END)).map(parts));
            }
        }
        pairs.sort_unstable();
        pairs.is_sorted_by(|(a, _), (b, _)| a != b).then_some(pairs)
    }

    /// All pairs, each terminated by [`END`]; `None` for labels that the API does not allow and that cannot be stored
    /// as pairs.
    pub(crate) fn lines(self) -> Option<String> {
        let pairs = self.sorted()?;
        let mut lines =
            String::with_capacity(pairs.iter().map(|(name, value)| name.len() + value.len() + 2).sum());
        for (name, value) in pairs {
            lines.extend([name, "\"", value, "\n"]);
        }
        Some(lines)
    }

    /// Whether [`json`](Self::json) would reproduce this JSON text exactly.
    pub(crate) fn are_written_so(json: &str) -> bool {
        let (mut last, mut len) = (None, "{".len());
        let sorted = members(json, |name, value| {
            len += r#""":"","#.len() + name.len() + value.len();
            last.replace(name).is_none_or(|last| last < name) && !has_escapes(name) && !has_escapes(value)
        });
        // The closing bracket takes the place of the last comma.
        sorted.is_some() && (len == json.len() || json == "{}")
    }

    /// The JSON of the pairs as the API server writes it: sorted by name, without white space.
    pub(crate) fn json(self) -> String {
        let mut json = String::from("{");
        for (name, value) in self.sorted().unwrap_or_default() {
            if json.len() > 1 {
                json.push(',');
            }
            json.extend(["\"", name, "\":\"", value, "\""]);
        }
        json.push('}');
        json
    }
}

/// Splits a pair into name and value.
fn parts(pair: &str) -> (&str, &str) {
    pair.split_once(SEPARATOR).unwrap_or((pair, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(json: &str) -> Option<String> {
        Labels::Json(Some(json)).lines()
    }

    #[test]
    fn each_label_that_can_be_read_is_found() {
        let all = |labels: Labels<'_>| {
            let mut found = Vec::new();
            labels.each(|name, value| found.push((name.to_owned(), value.to_owned())));
            found
        };
        // Where one value is no string, the others can still be read.
        let json = Labels::Json(Some(r#"{"a":"1","b" : "x\u0026y","\u0063":"3","n":4,"z":""}"#));
        let shared: Vec<Arc<str>> = vec!["c\"3".into(), "a\"1".into()];
        let pairs = Labels::Pairs { shared: &shared, own: "b\"x&y\nz\"\n" };
        for labels in [json, pairs] {
            let mut found = all(labels);
            found.sort();
            let wanted = [("a", "1"), ("b", "x&y"), ("c", "3"), ("z", "")];
            assert_eq!(found, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())));
            assert!(found.iter().all(|(name, value)| labels.get(name).as_deref() == Some(value)));
        }
        assert_eq!((all(Labels::Json(None)), all(Labels::Json(Some("null")))), (vec![], vec![]));
    }

    #[test]
    fn labels_of_the_api_become_pairs_and_their_json_comes_back() {
        for json in [r#"{"a":"1","a-b":"","b":"x"}"#, "{}"] {
            let own = own(json).unwrap();
            assert_eq!(Labels::Pairs { shared: &[], own: &own }.json(), json);
            assert!(Labels::are_written_so(json));
        }
        for other in [r#"{"b":"1","a":"2"}"#, r#"{"a": "1"}"#, r#"{ }"#, r#"{"a":"1"} "#, ""] {
            assert!(!Labels::are_written_so(other), "{other}");
        }
        for other in ["[]", r#"{"a":1}"#, r#"{"a":"\n"}"#, r#"{"a":"1","a":"2"}"#, r#"{"\u0061":"1"}"#] {
            assert_eq!(own(other), None, "{other}");
            assert!(!Labels::are_written_so(other), "{other}");
        }
    }

    #[test]
    fn pairs_and_json_are_the_same_labels_however_they_are_divided() {
        let shared: Vec<Arc<str>> = vec!["c\"3".into(), "a\"1".into()];
        let pairs = Labels::Pairs { shared: &shared, own: "b\"2\n" };
        for same in [
            r#"{"a":"1","b":"2","c":"3"}"#,
            r#"{"c":"3", "a":"\u0031","b":"2"}"#,
            r#"{"a":"0","a":"1","b":"2","c":"3"}"#,
        ] {
            assert!(pairs.same(Labels::Json(Some(same))) && Labels::Json(Some(same)).same(pairs), "{same}");
        }
        for other in
            [r#"{"a":"1","b":"2"}"#, r#"{"a":"1","b":"2","c":"4"}"#, r#"{"a":"1","b":"2","c":"3","d":""}"#]
        {
            assert!(!pairs.same(Labels::Json(Some(other))), "{other}");
        }
        assert!(!pairs.same(Labels::Pairs { shared: &shared, own: "b\"3\n" }));
        assert!(pairs.same(Labels::Pairs { shared: &[], own: "a\"1\nb\"2\nc\"3\n" }));
        assert!(Labels::Json(None).same(Labels::Pairs { shared: &[], own: "" }));
        assert_eq!(
            (pairs.get("a").as_deref(), pairs.get("b").as_deref(), pairs.get("d")),
            (Some("1"), Some("2"), None)
        );
    }
}
