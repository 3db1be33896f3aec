//! Writes as the real libraries do them, done again here: the seam at which tests hold this module to them.
//!
//! Cases are made by `tests/controlplane/fieldmanager`, whose head says what is in them.

use serde_json::{Value, json};

use super::{Applied, Kind, Managers, Set, Writer, apply, fields_v1, on_update};
use crate::api::{ApiError, Timestamp};
use crate::schema::{BuiltinTypes, Schema};

/// Does the writes of a case one after the other, and compares each with what the real libraries made of it.
///
/// Returns the number of writes.
///
/// # Errors
/// The first difference, or what is malformed in the case.
#[allow(unreachable_pub, reason = "it is reachable with the feature `testing`")]
pub fn replay_applies(case: &Value) -> Result<usize, String> {
    let schema = match &case["schema"] {
        Value::Object(schema) => Some(Schema::compile(schema).map_err(|why| format!("the schema: {why:?}"))?),
        _ => None,
    };
    let builtin = BuiltinTypes::get();
    let (version, name) = (text(case, "apiVersion"), text(case, "kind"));
    let (types, root) = match &schema {
        Some(schema) => schema.types(),
        None => {
            (builtin.types(), builtin.of_kind(version, name).ok_or_else(|| format!("{name} is not known"))?)
        }
    };
    let empty = &case["empty"];
    if schema.is_none() {
        let ours = crate::protobuf::empty(version, name);
        if ours.as_ref() != Some(empty) {
            return Err(format!("an empty {name} is {ours:?}"));
        }
    }
    let served: Vec<&str> =
        case["served"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let kind = Kind { types, root, name, served: &served, empty, ignores_alike: true, is_decoded: false };
    let mut live: Option<(Value, Managers)> = None;
    let writes = case["writes"].as_array().ok_or("a case has no writes")?;
    for (index, write) in writes.iter().enumerate() {
        let mut expected = write.clone();
        if let Value::Object(expected) = &mut expected {
            let is_outcome = |name: &str| matches!(name, "result" | "managers" | "code" | "error" | "fields");
            expected.retain(|name, _| is_outcome(name));
        }
        let ours = match outcome(&kind, live.as_ref(), write)? {
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
            let (should, is) = (differing(&expected, &ours), differing(&ours, &expected));
            return Err(format!("write {index} ({})\n  should be{should}\n  is{is}", write["verb"]));
        }
    }
    Ok(writes.len())
}

/// The members of one object that the other has otherwise.
fn differing(one: &Value, other: &Value) -> String {
    let members = one.as_object().into_iter().flatten();
    let members = members.filter(|(name, value)| other.get(name.as_str()) != Some(value));
    members.map(|(name, value)| format!("\n    {name}: {value}")).collect()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// What a write comes to, in the form of the cases; the outer error is one of the case.
fn outcome(
    kind: &Kind<'_>,
    live: Option<&(Value, Managers)>,
    write: &Value,
) -> Result<Result<(Value, Managers), ApiError>, String> {
    let (object, now) = (&write["object"], text(write, "now"));
    let writer = Writer {
        manager: text(write, "manager"),
        subresource: text(write, "subresource"),
        api_version: text(write, "apiVersion"),
        now: Timestamp(now.parse().map_err(|why| format!("the time {now:?}: {why}"))?),
    };
    let ignored = match write.get("ignored") {
        Some(fields) => fields_v1::read(fields).map_err(|why| format!("the ignored fields: {}", why.0))?,
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
        return Ok(Ok((object, managers)));
    }
    let applied = apply(&kind, live, object, &writer, write["force"] == true, &ignored);
    Ok(applied.map(|Applied { object, managers }| {
        (object.unwrap_or_else(|| live.map_or(&empty, |(object, _)| object).clone()), managers)
    }))
}

/// What is refused, in the form of the cases.
fn refusal(error: &ApiError, write: &Value) -> Value {
    let mut json = json!({"code": error.code.as_u16()});
    // Texts that the library itself changes from run to run are not in the cases.
    if write.get("error").is_some() {
        json["error"] = error.message.as_str().into();
    }
    if !error.causes.is_empty() {
        let fields = error.causes.iter().map(|cause| format!("{}: {}", cause.message, cause.field));
        let mut fields: Vec<String> = fields.collect();
        fields.sort();
        json["fields"] = fields.into();
    }
    json
}
