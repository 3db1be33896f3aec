//! The `scale` subresource: `autoscaling/v1 Scale` of built-in workloads and of custom resources that say where their
//! numbers are.

use http::StatusCode;
use serde_json::{Value, json};

use super::patch::{Patch, refused};
use super::{Answer, Core, JsonMap, Outcome, ResourceRequest, Write};
use crate::api::{ApiError, Cause};
use crate::printing::selector;
use crate::resources::{Origin, Resource, WrittenPart};
use crate::store::Stored;

/// Where an object has its numbers, as pointers.
struct Places {
    spec: String,
    status: String,
    selector: Option<String>,
}

impl Places {
    fn of(resource: &Resource) -> Self {
        match &resource.origin {
            Origin::Custom { scale: Some(paths), .. } => Self {
                spec: pointer(&paths.spec_replicas_path),
                status: pointer(&paths.status_replicas_path),
                selector: paths.label_selector_path.as_deref().map(pointer),
            },
            _ => Self {
                spec: "/spec/replicas".to_owned(),
                status: "/status/replicas".to_owned(),
                selector: Some("/spec/selector".to_owned()),
            },
        }
    }
}

/// A simple JSON path (`.spec.replicas`) as a pointer.
fn pointer(path: &str) -> String {
    path.replace('.', "/")
}

impl Core {
    pub(super) fn scale(&self, verb: &str, request: &ResourceRequest) -> Outcome {
        let write = request.write()?;
        let places = Places::of(&write.resource);
        let stored = match verb {
            "get" => self.current(&write)?,
            "update" => {
                let asked = Value::Object(request.json_body()?);
                self.change(&write, |current, old| scaled(&write, &places, current, old, &asked).map(Some))?
            }
            _ => {
                let patch = Patch::of(request)?;
                self.change(&write, |current, old| {
                    let now = scale_of(&write.resource, &places, old);
                    let schema = crate::schemas::Schemas::builtin().of_kind("autoscaling/v1", "Scale");
                    let asked = patch.apply_to(&now, schema).map_err(|e| refused(&e))?;
                    scaled(&write, &places, current, old, &asked).map(Some)
                })?
            }
        };
        Ok(Answer::json(StatusCode::OK, &scale_of(&write.resource, &places, &stored.value())))
    }
}

/// The scale of an object.
fn scale_of(resource: &Resource, places: &Places, object: &JsonMap) -> Value {
    let object = Value::Object(object.clone());
    let metadata = &object["metadata"];
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"], "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {},
        "status": {"replicas": object.pointer(&places.status).and_then(Value::as_i64).unwrap_or(0)},
    });
    if let Some(replicas) = object.pointer(&places.spec).and_then(Value::as_i64) {
        scale["spec"]["replicas"] = replicas.into();
    }
    if let Some(text) = places.selector.as_deref().and_then(|at| selector_text(resource, &object, at)) {
        scale["status"]["selector"] = text.into();
    }
    scale
}

/// The label selector at a place of an object, as text: custom resources have the text, replication controllers just labels.
fn selector_text(resource: &Resource, object: &Value, at: &str) -> Option<String> {
    match object.pointer(at)? {
        Value::String(text) => Some(text.clone()),
        Value::Object(labels) if resource.strategy.selects_by_map => {
            let terms = labels.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()));
            Some(terms.collect::<Vec<_>>().join(","))
        }
        _ => selector(object, at),
    }
}

/// The object with the number of replicas that a scale asks for.
fn scaled(
    write: &Write,
    places: &Places,
    current: &Stored,
    old: &JsonMap,
    asked: &Value,
) -> Result<JsonMap, ApiError> {
    let version = asked["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    if !version.is_empty() && version != current.object.resource_version() {
        return Err(ApiError::stale(write.about()));
    }
    let replicas = match &asked["spec"]["replicas"] {
        Value::Null => 0,
        number => number
            .as_i64()
            .ok_or_else(|| ApiError::bad_request("spec.replicas of a Scale must be a whole number"))?,
    };
    if replicas < 0 {
        let cause =
            Cause::invalid("spec.replicas", &replicas.to_string(), "must be greater than or equal to 0");
        let about = crate::api::About::new("autoscaling", "Scale", &write.name);
        return Err(ApiError::invalid(about, vec![cause]));
    }
    let mut object = Value::Object(old.clone());
    let before = object.pointer(&places.spec).and_then(Value::as_i64);
    set(&mut object, &places.spec, replicas.into());
    if before != Some(replicas)
        && let Some(generation) = object["metadata"]["generation"].as_i64()
    {
        object["metadata"]["generation"] = (generation + 1).into();
    }
    match object {
        Value::Object(mut object) => {
            let causes = write.review(&mut object, Some(old), WrittenPart::Object);
            write.accept(&write.name, causes)?;
            Ok(object)
        }
        _ => Err(ApiError::internal("an object stays an object")),
    }
}

/// Puts a value at a pointer of names, making what is not there on the way.
fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut at = object;
    for name in pointer.split('/').skip(1) {
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[name];
    }
    *at = value;
}
