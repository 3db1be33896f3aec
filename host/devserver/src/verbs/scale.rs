//! The `scale` subresource: `autoscaling/v1 Scale` of built-in workloads and of custom resources that say where their
//! numbers are.
//!
//! A Scale is written as an object of its own kind would be: read, checked, patched or applied with managed fields of its
//! own. Then its number of replicas goes into the object, and its managed fields into those of the object.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::apply::check_manager;
use super::patch::Patch;
use super::write::Source;
use super::{Answer, Core, JsonMap, Outcome, ResourceRequest, Write, configuration, identity};
use crate::api::{About, ApiError, Cause};
use crate::kinds::Strategy;
use crate::printing::selector;
use crate::resources::{Origin, Resource};
use crate::validation::{MetadataOf, check_metadata};

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

/// What a client asks of a Scale.
enum Asked {
    Object(JsonMap),
    Patch(Patch),
    Apply(JsonMap),
}

impl Core {
    pub(super) fn scale(&self, verb: &str, request: &ResourceRequest) -> Outcome {
        let write = request.write()?;
        let places = Places::of(&write.resource);
        if verb == "get" {
            let scale = scale_of(&write.resource, &places, &self.current(&write)?.value())?;
            return Ok(Answer::json(StatusCode::OK, &scale));
        }
        let on_scale = Write { resource: Arc::new(scale_resource(&write.resource)), ..write.clone() };
        let source = request.source();
        let asked = match verb {
            "update" => Asked::Object(request.object(&on_scale)?),
            _ if request.is_apply() => {
                check_manager(request)?;
                Asked::Apply(configuration::read(request)?)
            }
            _ => Asked::Patch(Patch::of(request)?),
        };
        let force = request.params.is_on("force");
        let stored = self.update_scaled(&write, |current, old| {
            let managers = self.scale_managers(&write, current);
            let is_scale = |config: &JsonMap| {
                config.get("kind").is_some_and(|kind| kind == "Scale")
                    && config.get("apiVersion").is_some_and(|version| version == "autoscaling/v1")
            };
            if let Asked::Apply(config) = &asked
                && !is_scale(config)
            {
                // Refused before all else.
                self.applied_scale(&on_scale, &json!({}), &managers, &config.clone().into(), force)?;
            }
            let now = scale_of(&write.resource, &places, old)?;
            let (scale, managers) = match &asked {
                Asked::Apply(config) => {
                    let config = Value::Object(config.clone());
                    let applied = self.applied_scale(&on_scale, &now, &managers, &config, force)?;
                    configuration::check_doubles(request, &on_scale)?;
                    identity::check_names_of(&on_scale, &applied.0)?;
                    applied
                }
                other => {
                    let scale = match other {
                        Asked::Patch(patch) => patch.apply(&on_scale, &now, &source)?,
                        Asked::Object(scale) | Asked::Apply(scale) => scale.clone(),
                    };
                    identity::check_names_of(&on_scale, &scale)?;
                    let managers = self.updated_scale(&on_scale, &now, &managers, &scale);
                    (scale, managers)
                }
            };
            let scale = Value::Object(on_scale.as_stored(scale, &Source::default())?);
            let (uid, own) = (scale["metadata"]["uid"].as_str().unwrap_or_default(), current.object.uid());
            if !uid.is_empty() && uid != own {
                let why =
                    format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {own}");
                let about = About::new(&write.resource.group, &on_scale.resource.name, &write.name);
                return Err(ApiError::conflict(about, &why));
            }
            let object = scaled(&on_scale, &places, old, &scale)?;
            Ok((object, self.managers_of_scaled(&write, current, &managers)))
        })?;
        let scale = scale_of(&write.resource, &places, &stored.value())?;
        Ok(Answer::json(StatusCode::OK, &scale))
    }
}

/// The resource that a Scale would be, if there were one of its kind.
fn scale_resource(of: &Resource) -> Resource {
    Resource {
        group: "autoscaling".to_owned(),
        version: "v1".to_owned(),
        kind: "Scale".to_owned(),
        name: format!("{}/scale", of.name),
        strategy: Strategy::builtin("autoscaling", "scales"),
        served: Arc::new(["autoscaling/v1".to_owned()]),
        subresources: Vec::new(),
        origin: Origin::Builtin,
        ..of.clone()
    }
}

/// The scale of an object.
fn scale_of(resource: &Resource, places: &Places, object: &JsonMap) -> Result<Value, ApiError> {
    let object = Value::Object(object.clone());
    let metadata = &object["metadata"];
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata["name"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"], "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {},
        "status": {"replicas": object.pointer(&places.status).and_then(Value::as_i64).unwrap_or(0)},
    });
    if metadata["namespace"].is_string() {
        scale["metadata"]["namespace"] = metadata["namespace"].clone();
    }
    match object.pointer(&places.spec).and_then(Value::as_i64) {
        // As Go leaves out what is zero.
        Some(0) => {}
        Some(replicas) => scale["spec"]["replicas"] = replicas.into(),
        None if resource.is_custom() => {
            let path = places.spec.replace('/', ".");
            let why = format!("Internal error occurred: the spec replicas field {path:?} does not exist");
            return Err(ApiError::internal(why));
        }
        None => {}
    }
    if let Some(text) = places.selector.as_deref().and_then(|at| selector_text(resource, &object, at)) {
        scale["status"]["selector"] = text.into();
    }
    Ok(scale)
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

/// The object with the number of replicas that a scale asks for, at the version that it names.
fn scaled(on_scale: &Write, places: &Places, old: &JsonMap, scale: &Value) -> Result<JsonMap, ApiError> {
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    let whole = scale.as_object().cloned().unwrap_or_default();
    let mut causes = check_metadata(&whole, on_scale.resource.strategy.names, MetadataOf::Builtin);
    if replicas < 0 {
        let message = format!("Invalid value: {replicas}: must be greater than or equal to 0");
        causes.push(Cause { message, ..Cause::invalid("spec.replicas", "", "") });
    }
    on_scale.accept(&on_scale.name, causes)?;
    let mut object = Value::Object(old.clone());
    set(&mut object, &places.spec, replicas.into());
    // A Scale need not say of which version it is.
    for field in ["resourceVersion", "uid"] {
        if let Some(given) = scale["metadata"][field].as_str().filter(|given| !given.is_empty()) {
            object["metadata"][field] = given.into();
        }
    }
    match object {
        Value::Object(object) => Ok(object),
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
