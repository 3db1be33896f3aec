mod core;
mod custom;
mod duration;
mod network;
mod pods;
mod policy;
mod robustness;
mod storage;
mod workloads;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::cells;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn ago(seconds: i64) -> String {
    (now() - SignedDuration::from_secs(seconds)).to_string()
}

/// An object of this name, ten days old, with the members given.
fn object(api_version: &str, kind: &str, name: &str, members: Value) -> Value {
    let metadata = json!({"name": name, "namespace": "demo", "creationTimestamp": ago(10 * DAY)});
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
    merge(&mut object, members);
    object
}

fn merge(into: &mut Value, members: Value) {
    match (into, members) {
        (Value::Object(into), Value::Object(members)) => {
            for (name, value) in members {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, value) => *into = value,
    }
}

#[track_caller]
fn assert_cells(resource: &str, object: &Value, expected: Value) {
    let group = object["apiVersion"].as_str().unwrap().rsplit_once('/').map_or("", |(group, _)| group);
    assert_eq!(cells(group, resource, object, now()).map(Value::Array), Some(expected));
}
