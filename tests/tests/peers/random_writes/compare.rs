//! What two servers answer, with what is chance taken out, and where it differs.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::server::Answer;

/// How many places of a difference are shown.
const PLACES: usize = 12;
/// How the message begins about a configuration that is not of its type.
const UNTYPED: &str = "failed to create typed patch object (";
/// How much of a value is shown.
const SHOWN: usize = 700;

/// A place in which two answers differ.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place {
    pub(super) path: String,
    pub(super) real: Value,
    pub(super) development: Value,
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

/// Two answers, and whether the object has another resource version after the step.
pub(super) struct Seen<'a> {
    pub(super) answer: &'a Answer,
    /// The version of the object before.
    pub(super) before: &'a str,
    /// Whether the name is one that the server has made.
    pub(super) is_generated: bool,
}

impl Seen<'_> {
    /// The answer as a tree, without chance.
    fn tree(&self) -> Value {
        let mut tree = Map::new();
        let answer = self.answer;
        tree.insert("code".to_owned(), answer.code.into());
        let mut warnings: Value = answer.warnings.clone().into();
        let mut body = answer.body.clone();
        let version = answer.version();
        let is_object = answer.object().is_some() && !version.is_empty();
        if is_object {
            tree.insert("changed".to_owned(), (version != self.before).into());
        }
        if self.is_generated {
            let name = body["metadata"]["name"].as_str().or(body["details"]["name"].as_str());
            if let Some(name) = name.map(str::to_owned) {
                without_generated(&mut body, &name);
            }
        }
        if let Value::Object(metadata) = &mut body["metadata"] {
            metadata.remove("resourceVersion");
        }
        // The servers take the tests' client for different users.
        if body["kind"] == "CertificateSigningRequest"
            && let Value::Object(spec) = &mut body["spec"]
        {
            spec.retain(|field, _| !matches!(field.as_str(), "username" | "groups" | "extra"));
        }
        shorten(&mut body);
        sort(&mut body);
        for value in [&mut body, &mut warnings] {
            without_chance(value, "", self.before);
        }
        tree.insert("warnings".to_owned(), warnings);
        tree.insert("body".to_owned(), body);
        tree.into()
    }
}

/// Takes out of refusals what the development server does not have: of a change that is refused, how the two structures of Go
/// differ, and of a patch that is to blame, what it is.
fn shorten(body: &mut Value) {
    // A real server finds what is wrong in any order.
    if let Some((start, errors)) = body["message"].as_str().and_then(untyped) {
        body["message"] = format!("{start}): {}", errors.join("\n")).into();
    }
    if body["reason"] != "Invalid" {
        return;
    }
    let shortened = |value: &mut Value, is_patch: bool| {
        if let Value::String(text) = value {
            let start = text.split_once("\n@@ ").map_or(text.as_str(), |(start, _)| start);
            *text = if is_patch { without_patch(start) } else { start.to_owned() };
        }
    };
    let mut is_patch = false;
    for cause in body["details"]["causes"].as_array_mut().into_iter().flatten() {
        is_patch |= cause["field"] == "patch";
        shortened(&mut cause["message"], is_patch);
    }
    shortened(&mut body["message"], is_patch);
    if let Value::Object(members) = body {
        members.retain(|_, value| !value.is_null());
    }
}

/// What is wrong with the types of a configuration, in order, behind the start of the message about it.
pub(super) fn untyped(message: &str) -> Option<(&str, Vec<&str>)> {
    let (start, errors) = message.split_once("): ").filter(|(start, _)| start.starts_with(UNTYPED))?;
    let mut errors: Vec<&str> = errors.trim_start_matches("errors:\n").lines().map(str::trim).collect();
    errors.sort_unstable();
    Some((start, errors))
}

const VALUE: &str = "Invalid value: ";

/// A message without the patch in it.
fn without_patch(message: &str) -> String {
    let Some((start, rest)) = message.split_once(VALUE) else { return message.to_owned() };
    // A long one is cut.
    let why = rest.rsplit_once("…: ").or_else(|| rest.rsplit_once("\": ")).map_or(rest, |(_, why)| why);
    format!("{start}{VALUE}<value>: {why}")
}

/// Whether two messages are the same but for the order of members in the JSON that they show. A real server has the order of
/// Go's structs, and shows some with the names that they have in its own code alone: then any JSON is the same.
fn is_same_message(real: &str, development: &str) -> bool {
    let parts = |message: &str| {
        let (start, rest) = message.split_once(VALUE).filter(|(_, rest)| rest.starts_with(['{', '[']))?;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let value = values.next()?.ok()?;
        Some((start.to_owned(), value, rest[values.byte_offset()..].to_owned()))
    };
    let (Some(real), Some(development)) = (parts(real), parts(development)) else { return false };
    (&real.0, &real.2) == (&development.0, &development.2)
        && (real.1 == development.1 || is_internal(&real.1))
}

/// Whether a value has the names of Go: those of JSON begin with a small letter.
fn is_internal(value: &Value) -> bool {
    match value {
        Value::Object(members) => {
            members.keys().any(|name| name.starts_with(|letter: char| letter.is_ascii_uppercase()))
        }
        Value::Array(list) => list.iter().any(is_internal),
        _ => false,
    }
}

/// Puts in order what has none: managers of the same second, conflicts, and what is wrong by a schema.
fn sort(body: &mut Value) {
    if let Some(Value::Array(managers)) = body.pointer_mut("/metadata/managedFields") {
        managers.sort_by_key(|entry| {
            ["operation", "manager", "apiVersion", "subresource"].map(|field| entry[field].to_string())
        });
    }
    let is_conflict = body["reason"] == "Conflict";
    let is_custom = body["details"]["group"] == "rnd.example";
    if let Some(Value::Array(causes)) = body.pointer_mut("/details/causes") {
        // A conflict names managers in any order, and a schema the fields of a map.
        if is_conflict || is_custom {
            causes.sort_by_key(Value::to_string);
        }
        // The real server names some of an update several times: it looks at metadata more than once.
        let mut known = BTreeSet::new();
        causes.retain(|cause| known.insert(cause.to_string()));
        // The message has them again.
        if causes.len() > 1 && body["reason"] == "Invalid" {
            body["message"] = "<causes>".into();
        }
    }
}

/// Whether a text is a time of this hour.
fn is_now(text: &str) -> bool {
    let Ok(time) = text.parse::<jiff::Timestamp>() else { return false };
    (jiff::Timestamp::now().as_second() - time.as_second()).abs() < 3600
}

fn is_uid(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    lengths.eq([8, 4, 4, 4, 12]) && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
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
    let (real, development) = (real.tree(), development.tree());
    if real["code"] == development["code"] {
        walk(&real, &development, String::new(), &mut places);
    } else {
        // Of a refusal on one side only its words are of interest.
        let outcome = |tree: &Value| {
            json!([tree["code"], tree["body"]["reason"], tree["body"]["message"], tree["body"]["details"]])
        };
        places.push(Place {
            path: "/outcome".to_owned(),
            real: outcome(&real),
            development: outcome(&development),
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
        (Value::String(a), Value::String(b)) if path.ends_with("/message") && is_same_message(a, b) => {}
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

    fn answer(body: Value) -> Answer {
        Answer { code: 200, warnings: Vec::new(), body }
    }

    #[test]
    fn messages_differ_in_the_order_of_members_alone() {
        let message = |value: &str| format!("X is invalid: spec: Invalid value: {value}: field is immutable");
        let real = message(r#"{"b":1,"a":[2]}"#);
        assert!(is_same_message(&real, &message(r#"{"a":[2],"b":1}"#)));
        assert!(!is_same_message(&real, &message(r#"{"a":[3],"b":1}"#)));
        assert!(!is_same_message(&real, &message("null")));
        assert!(!is_same_message(&real, &real.replace("immutable", "mutable")));
        assert!(is_same_message(&message(r#"{"Rules":null}"#), &message(r#"{"rules":[]}"#)));
    }

    #[test]
    fn chance_is_no_difference_and_all_else_is() {
        let now = jiff::Timestamp::now().to_string();
        let object = |uid: &str, version: &str, time: &str, generation: u32| {
            answer(
                json!({"metadata": {"uid": uid, "resourceVersion": version, "creationTimestamp": time, "generation": generation}}),
            )
        };
        let real = object("6f7b1f4e-6d2c-4f0e-8a55-1f2e3d4c5b6a", "17", &now, 1);
        let same = object("11111111-2222-4333-8444-555555555555", "4", &now, 1);
        let seen = |answer, before| Seen { answer, before, is_generated: false };
        assert_eq!(compare(&seen(&real, "16"), &seen(&same, "3")), None);
        let unchanged = compare(&seen(&real, "16"), &seen(&same, "4")).unwrap();
        assert_eq!(unchanged.signature(), "/changed");
        let other = object("6f7b1f4e-6d2c-4f0e-8a55-1f2e3d4c5b6a", "17", "2020-01-01T00:00:00Z", 2);
        let places = compare(&seen(&real, "16"), &seen(&other, "16")).unwrap().places;
        let paths: Vec<&str> = places.iter().map(|place| place.path.as_str()).collect();
        assert_eq!(paths, ["/body/metadata/creationTimestamp", "/body/metadata/generation"]);
    }
}
