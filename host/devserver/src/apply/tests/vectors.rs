//! Writes as the real libraries do them: `vectors.json`, or the file that the environment variable `APPLY_VECTORS` names.
//!
//! Both are made by `tests/controlplane/fieldmanager`, whose head says what is in them and how.

use serde_json::{Value, json};

use crate::api::{ApiError, Timestamp};
use crate::apply::{Applied, Kind, Managers, Set, Writer, apply, fields_v1, on_update};
use crate::schema::{BuiltinTypes, Schema};

const VECTORS: &str = include_str!("vectors.json");

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// What a write comes to, in the form of the vectors.
fn outcome(
    kind: &Kind<'_>,
    live: Option<&(Value, Managers)>,
    write: &Value,
) -> Result<(Value, Managers), ApiError> {
    let (object, now) = (&write["object"], text(write, "now"));
    let writer = Writer {
        manager: text(write, "manager"),
        subresource: text(write, "subresource"),
        api_version: text(write, "apiVersion"),
        now: Timestamp(now.parse().unwrap()),
    };
    let ignored = match write.get("ignored") {
        Some(fields) => fields_v1::read(fields).unwrap(),
        None => Set::default(),
    };
    // The object before the write is read in the version of the write.
    let live = live.map(|(object, managers)| {
        let mut object = object.clone();
        object["apiVersion"] = writer.api_version.into();
        (object, managers)
    });
    let live = live.as_ref().map(|(object, managers)| (object, *managers));
    let mut empty = kind.empty.clone();
    empty["apiVersion"] = writer.api_version.into();
    let kind = Kind { empty: &empty, ..*kind };
    if write["verb"] == "update" {
        let sent = write.get("sent").filter(|_| writer.subresource.is_empty()).and_then(Managers::sent);
        let managers = on_update(&kind, live, object, sent, &writer, &ignored);
        let mut object = object.clone();
        object["kind"] = kind.name.into();
        return Ok((object, managers));
    }
    let Applied { object: applied, managers } =
        apply(&kind, live, object, &writer, write["force"] == true, &ignored)?;
    Ok((applied.unwrap_or_else(|| live.map_or(&empty, |(object, _)| object).clone()), managers))
}

/// What is refused, in the form of the vectors.
fn refusal(error: &ApiError, told: &Value) -> Value {
    let mut json = json!({"code": error.code.as_u16()});
    // Texts that the library itself changes from run to run are not among the vectors.
    if told.get("error").is_some() {
        json["error"] = error.message.as_str().into();
    }
    if !error.causes.is_empty() {
        let mut fields: Vec<String> =
            error.causes.iter().map(|c| format!("{}: {}", c.message, c.field)).collect();
        fields.sort();
        json["fields"] = fields.into();
    }
    json
}

fn check(case: &Value) -> Result<usize, String> {
    let schema = match &case["schema"] {
        Value::Object(schema) => Some(Schema::compile(schema).unwrap()),
        _ => None,
    };
    let builtin = BuiltinTypes::get();
    let (version, name) = (text(case, "apiVersion"), text(case, "kind"));
    let (types, root) = match &schema {
        Some(schema) => schema.types(),
        None => (builtin.types(), builtin.of_kind(version, name).unwrap()),
    };
    let empty = &case["empty"];
    if schema.is_none() {
        let ours = crate::protobuf::empty(version, name);
        if ours.as_ref() != Some(empty) {
            return Err(format!("an empty {name} is {ours:?}"));
        }
    }
    let served: Vec<&str> = case["served"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let kind = Kind { types, root, name, served: &served, empty };
    let mut live: Option<(Value, Managers)> = None;
    let writes = case["writes"].as_array().unwrap();
    for (index, write) in writes.iter().enumerate() {
        let mut expected = write.clone();
        expected
            .as_object_mut()
            .unwrap()
            .retain(|name, _| matches!(name.as_str(), "result" | "managers" | "code" | "error" | "fields"));
        let ours = match outcome(&kind, live.as_ref(), write) {
            Ok((object, managers)) => {
                let mut ours = json!({"result": object});
                if !managers.is_empty() {
                    ours["managers"] = managers.render();
                }
                live = Some((object, managers));
                ours
            }
            Err(error) => refusal(&error, write),
        };
        if ours != expected {
            let differing = |one: &Value, other: &Value| {
                let members =
                    one.as_object().unwrap().iter().filter(|(name, value)| other.get(name) != Some(value));
                members.map(|(name, value)| format!("\n    {name}: {value}")).collect::<String>()
            };
            let (told, made) = (differing(&expected, &ours), differing(&ours, &expected));
            return Err(format!("write {index} ({})\n  should be{told}\n  is{made}", write["verb"]));
        }
    }
    Ok(writes.len())
}

#[test]
fn writes_are_owned_merged_and_refused_as_by_the_real_libraries() {
    let file = std::env::var_os("APPLY_VECTORS").map(|path| std::fs::read_to_string(path).unwrap());
    let cases: Vec<Value> = serde_json::from_str(file.as_deref().unwrap_or(VECTORS)).unwrap();
    let mut writes = 0;
    let mut failures = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        match check(case) {
            Ok(count) => writes += count,
            Err(why) => {
                failures.push(format!("case {index} ({}): {why}\n  schema {}", case["kind"], case["schema"]));
            }
        }
    }
    failures.truncate(5);
    assert!(failures.is_empty(), "of {} cases some differ:\n{}", cases.len(), failures.join("\n"));
    assert!(writes > 0);
}
