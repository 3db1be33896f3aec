//! What two servers answer, with what is chance taken out, and where it differs.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::sides::{Answer, Verdict, is_uid};

/// How many places of a difference are shown.
const PLACES: usize = 12;
/// How much of a value is shown.
const SHOWN: usize = 700;

/// A place in which two answers differ.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place {
    pub(super) path: String,
    real: Value,
    development: Value,
}

/// What two answers differ in.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Difference {
    pub(super) places: Vec<Place>,
}

impl Difference {
    /// The same difference has the same one, whatever it is about: paths without indices.
    pub(super) fn signature(&self) -> String {
        let paths = self.places.iter().take(4).map(|place| {
            let parts =
                place.path.split('/').map(|part| if part.parse::<usize>().is_ok() { "*" } else { part });
            parts.collect::<Vec<_>>().join("/")
        });
        paths.collect::<Vec<_>>().join(" ")
    }

    pub(super) fn show(&self) -> String {
        let mut text = String::new();
        for place in self.places.iter().take(PLACES) {
            let cut = |value: &Value| value.to_string().chars().take(SHOWN).collect::<String>();
            let _ = writeln!(
                text,
                "    {}\n      real: {}\n      dev:  {}",
                place.path,
                cut(&place.real),
                cut(&place.development)
            );
        }
        if self.places.len() > PLACES {
            let _ = writeln!(text, "    and {} places more", self.places.len() - PLACES);
        }
        text
    }
}

/// An answer, and what was there before.
pub(super) struct Seen<'a> {
    pub(super) answer: &'a Answer,
    pub(super) before: &'a Answer,
    /// Whether the name is one that the server has made.
    pub(super) is_generated: bool,
}

impl Seen<'_> {
    /// The answer as a tree, without chance.
    fn tree(&self) -> Value {
        let answer = self.answer;
        if let Verdict::Refused { code, reason, fields } = answer.verdict() {
            return json!({"code": code, "reason": reason, "fields": fields});
        }
        let mut body = answer.body.clone();
        if self.is_generated
            && let Some(name) = body["metadata"]["name"].as_str().map(str::to_owned)
        {
            without_generated(&mut body, &name);
        }
        if let Value::Object(metadata) = &mut body["metadata"] {
            metadata.remove("resourceVersion");
            // What the write counts, since an earlier one may have counted more.
            if let Some(generation) = metadata.get_mut("generation") {
                let before = self.before.body["metadata"]["generation"].as_i64().unwrap_or_default();
                *generation = (generation.as_i64().unwrap_or_default() - before).into();
            }
        }
        sort(&mut body);
        without_chance(&mut body, "", self.before.version());
        // Of the others, words are free, and so is whether there are any.
        let of_fields = |warning: &&String| {
            ["unknown field ", "duplicate field "].iter().any(|start| warning.starts_with(start))
        };
        let mut warnings: Vec<&String> = answer.warnings.iter().filter(of_fields).collect();
        warnings.sort_unstable();
        json!({
            "code": answer.code, "body": body, "warnings": warnings,
            "changed": answer.version() != self.before.version(),
        })
    }

    /// Whether the object is what it was, as far as anybody can see.
    fn is_as_before(&self) -> bool {
        let visible = |answer: &Answer| {
            let mut object = answer.object()?.clone();
            if let Value::Object(metadata) = &mut object["metadata"] {
                let counted = ["resourceVersion", "generation", "managedFields"];
                metadata.retain(|field, _| !counted.contains(&field.as_str()));
            }
            Some(object)
        };
        visible(self.answer).is_some_and(|object| visible(self.before) == Some(object))
    }
}

/// Puts in order what has none: managers of the same second.
fn sort(body: &mut Value) {
    if let Some(Value::Array(managers)) = body.pointer_mut("/metadata/managedFields") {
        managers.sort_by_key(|entry| {
            ["operation", "manager", "apiVersion", "subresource"].map(|field| entry[field].to_string())
        });
    }
}

/// Whether a text is a time of this hour.
fn is_now(text: &str) -> bool {
    let Ok(time) = text.parse::<jiff::Timestamp>() else { return false };
    (jiff::Timestamp::now().as_second() - time.as_second()).abs() < 3600
}

/// Whether a text is an address of the cluster: the servers take them from different parts of 10.96.0.0/12.
fn is_allocated(text: &str) -> bool {
    text.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.to_bits() >> 20 == 0x0a60_0000 >> 20)
}

/// A text without UIDs, times, allocated addresses and the resource version.
fn plain(text: &str, version: &str) -> String {
    let of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | ':' | '.');
    let mut out = String::new();
    for piece in text.split_inclusive(|c| !of_word(c)) {
        let word = piece.trim_end_matches(|c| !of_word(c));
        let rest = &piece[word.len()..];
        let shown = match word {
            uid if is_uid(uid) => "<uid>",
            time if is_now(time) => "<now>",
            address if is_allocated(address) => "<address>",
            // A percentage is none.
            number if !version.is_empty() && number == version && !rest.starts_with('%') => "<version>",
            word => word,
        };
        out.push_str(shown);
        out.push_str(rest);
    }
    out
}

/// Puts what is not chance of a name that the server has made in the place of it, wherever it stands.
fn without_generated(value: &mut Value, name: &str) {
    match value {
        Value::String(text) => {
            let base = name.get(..name.len().saturating_sub(5)).unwrap_or_default();
            *text = text.replace(name, &format!("{base}<random>"));
        }
        Value::Array(list) => list.iter_mut().for_each(|element| without_generated(element, name)),
        Value::Object(members) => {
            members.values_mut().for_each(|member| without_generated(member, name));
        }
        _ => {}
    }
}

fn is_allocated_port(field: &str, port: Option<i64>) -> bool {
    // What a dry run would get may lie a little beyond the range.
    let is_port = port.is_some_and(|port| (30_000..=32_800).contains(&port));
    is_port && matches!(field, "nodePort" | "healthCheckNodePort")
}

fn without_chance(value: &mut Value, name: &str, version: &str) {
    match value {
        Value::String(text) => *text = plain(text, version),
        Value::Number(number) if is_allocated_port(name, number.as_i64()) => *value = "<port>".into(),
        Value::Array(list) => list.iter_mut().for_each(|element| without_chance(element, name, version)),
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                without_chance(member, name, version);
            }
            if members.keys().any(|name| plain(name, version) != *name) {
                let old = std::mem::take(members);
                members.extend(old.into_iter().map(|(name, member)| (plain(&name, version), member)));
            }
        }
        _ => {}
    }
}

/// Where two answers differ.
pub(super) fn compare(real: &Seen<'_>, development: &Seen<'_>) -> Option<Difference> {
    let mut places = Vec::new();
    let (one, other) = (real.tree(), development.tree());
    if one["code"] == other["code"] {
        walk(&one, &other, String::new(), &mut places);
    } else {
        // Of a refusal on one side only its words are of interest.
        let outcome = |answer: &Answer| {
            let body = &answer.body;
            json!([answer.code, body["reason"], body["message"], body["details"]])
        };
        places.push(Place {
            path: "/outcome".to_owned(),
            real: outcome(real.answer),
            development: outcome(development.answer),
        });
    }
    // A real server counts some writes that leave the object as it was, as of an empty list that becomes none.
    if development.is_as_before() {
        places.retain(|Place { path, real, development }| match path.as_str() {
            "/changed" => development == true,
            "/body/metadata/generation" => real.as_i64() < development.as_i64(),
            _ => true,
        });
    }
    (!places.is_empty()).then_some(Difference { places })
}

fn walk(real: &Value, development: &Value, path: String, places: &mut Vec<Place>) {
    if real == development {
        return;
    }
    match (real, development) {
        (Value::Object(a), Value::Object(b)) => {
            let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
            for name in names {
                let of = |members: &Map<String, Value>| {
                    members.get(name).cloned().unwrap_or_else(|| "<none>".into())
                };
                walk(&of(a), &of(b), format!("{path}/{name}"), places);
            }
        }
        // A real server answers a patch with an empty list where the object that it stores has null.
        (Value::Array(a), Value::Null) if a.is_empty() => {}
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                walk(a, b, format!("{path}/{index}"), places);
            }
        }
        _ => places.push(Place { path, real: real.clone(), development: development.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, body: Value) -> Answer {
        Answer { code, warnings: Vec::new(), body }
    }

    fn places(real: [&Answer; 2], development: [&Answer; 2]) -> Vec<String> {
        let [real, development] =
            [real, development].map(|[before, answer]| Seen { answer, before, is_generated: false });
        let difference = compare(&real, &development);
        difference.into_iter().flat_map(|found| found.places).map(|place| place.path).collect()
    }

    fn object(uid: &str, version: &str, time: &str, generation: u32) -> Answer {
        answer(
            200,
            json!({"metadata": {"uid": uid, "resourceVersion": version, "creationTimestamp": time, "generation": generation}}),
        )
    }

    #[test]
    fn words_of_a_refusal_are_free_and_its_fields_are_not() {
        let refused = |field: &str, message: &str| {
            let causes = json!([{"reason": "FieldValueInvalid", "field": field, "message": message}]);
            answer(422, json!({"reason": "Invalid", "message": message, "details": {"causes": causes}}))
        };
        let none = answer(404, json!({"reason": "NotFound"}));
        let (real, other) = (refused("spec.a", "Invalid value: must be 1"), refused("spec.a", "is not 1"));
        assert!(places([&none, &real], [&none, &other]).is_empty());
        assert_eq!(places([&none, &real], [&none, &refused("spec.b", "")]), ["/fields/0"]);
        assert_eq!(places([&none, &real], [&none, &answer(201, json!({}))]), ["/outcome"]);
    }

    #[test]
    fn chance_is_no_difference_and_all_else_is() {
        let now = jiff::Timestamp::now().to_string();
        let (one, two) = ("6f7b1f4e-6d2c-4f0e-8a55-1f2e3d4c5b6a", "11111111-2222-4333-8444-555555555555");
        let (before, real) = (object(one, "16", &now, 1), object(one, "17", &now, 2));
        let (ours_before, same) = (object(two, "3", &now, 4), object(two, "4", &now, 5));
        assert!(places([&before, &real], [&ours_before, &same]).is_empty());
        let unchanged = object(two, "3", "2020-01-01T00:00:00Z", 4);
        let mut found = places([&before, &real], [&ours_before, &unchanged]);
        found.sort_unstable();
        assert_eq!(found, ["/body/metadata/creationTimestamp", "/body/metadata/generation", "/changed"]);
    }

    #[test]
    fn a_write_without_effect_may_be_counted_by_the_real_server_only() {
        let (before, counted) = (object("u", "16", "t", 1), object("u", "17", "t", 2));
        let (counted, same) = ([&before, &counted], [&before, &before]);
        assert!(places(counted, same).is_empty());
        let mut found = places(same, counted);
        found.sort_unstable();
        assert_eq!(found, ["/body/metadata/generation", "/changed"]);
    }
}
