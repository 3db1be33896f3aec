//! `update`, and what a new state of an object may change: the rules that PUT and PATCH share.

use http::StatusCode;
use serde_json::Value;

use super::{Answer, Call, Core, JsonMap, Outcome, Rendering};
use crate::api::{ApiError, Cause, Metadata, check_metadata};
use crate::kinds;
use crate::resources::WrittenPart;
use crate::store::Stored;

/// Which part of an object a request may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectPart {
    /// Everything but the status.
    Main,
    Status,
    /// One field of the spec.
    Spec(&'static str),
}

impl Core {
    pub(super) fn update(&self, call: &Call) -> Outcome {
        let mut object = call.object()?;
        if self.store.get(&call.resource.storage, &call.key()).is_none()
            && kinds::creates_on_update(&call.resource)
        {
            check_new(call, &mut object)?;
            let stored = self.create_object(call, object)?;
            let body = Rendering::of(call)?.object(&stored);
            return Ok(Answer::Whole { code: StatusCode::CREATED, body });
        }
        self.update_part(call, &object, ObjectPart::Main)
    }

    pub(super) fn update_part(&self, call: &Call, object: &JsonMap, part: ObjectPart) -> Outcome {
        let stored = self.change(call, |current, _| {
            let mut object = object.clone();
            if kinds::needs_version(&call.resource)
                && Metadata::of(&mut object)?.text("resourceVersion").is_empty()
            {
                let cause = Cause::invalid("metadata.resourceVersion", "", "must be specified for an update");
                return Err(ApiError::invalid(call.about_kind(call.name()), vec![cause]));
            }
            let mut next = next(call, current, object, part)?;
            self.allocate(call, &mut next, Some(&current.value()));
            Ok(Some(next))
        })?;
        Ok(Answer::Whole { code: StatusCode::OK, body: Rendering::of(call)?.object(&stored) })
    }
}

/// Whether an object that is not there can be made by a PUT: it must be the one that the URL names, and not one that was
/// there before.
fn check_new(call: &Call, object: &mut JsonMap) -> Result<(), ApiError> {
    let mut metadata = Metadata::of(object)?;
    check_names(call, &metadata)?;
    let uid = metadata.text("uid");
    if !uid.is_empty() {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: ");
        return Err(ApiError::conflict(call.about(), &why));
    }
    metadata.remove("resourceVersion");
    Ok(())
}

/// Whether an object is of the name and the namespace that the URL names.
fn check_names(call: &Call, metadata: &Metadata<'_>) -> Result<(), ApiError> {
    let name = metadata.text("name");
    if name.is_empty() {
        return Err(ApiError::bad_request("name must be provided"));
    }
    if name != call.name() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.name()
        )));
    }
    let namespace = metadata.text("namespace");
    if !namespace.is_empty() && namespace != call.namespace() {
        return Err(ApiError::bad_request(format!(
            "the namespace of the object ({namespace}) does not match the namespace on the URL ({})",
            call.namespace()
        )));
    }
    Ok(())
}

/// The state that follows the current one when a client asks for `object`.
pub(super) fn next(
    call: &Call,
    current: &Stored,
    mut object: JsonMap,
    part: ObjectPart,
) -> Result<JsonMap, ApiError> {
    let old = current.value();
    check_identity(call, current, &mut object)?;
    let mut next = match part {
        ObjectPart::Main => object,
        ObjectPart::Status => {
            let mut next = old.clone();
            copy(&mut next, &object, "status");
            if !call.resource.is_custom() {
                // Kubelets and controllers of built-in kinds note things beside the status.
                let from = Metadata::of(&mut object)?;
                Metadata::of(&mut next)?.copy("annotations", from.get("annotations"));
            }
            let causes = call.review(&mut next, Some(&old), WrittenPart::Status);
            return if causes.is_empty() {
                Ok(next)
            } else {
                Err(ApiError::invalid(call.about_kind(call.name()), causes))
            };
        }
        ObjectPart::Spec(field) => {
            let mut next = old.clone();
            if let (Some(Value::Object(to)), Some(Value::Object(from))) =
                (next.get_mut("spec"), object.get("spec"))
            {
                copy(to, from, field);
            }
            next
        }
    };
    if call.resource.has_status() {
        copy(&mut next, &old, "status");
    }
    if call.resource.is("", "namespaces") {
        copy(&mut next, &old, "spec");
    }
    let mut causes = kinds::prepare_update(&call.resource, &mut next, call.now());
    kinds::carry_over(&call.resource, &old, &mut next);
    let changed = changes_spec(&old, &next, call.resource.has_status());
    let old_metadata = old.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut metadata = Metadata::of(&mut next)?;
    for field in [
        "uid",
        "namespace",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "generateName",
    ] {
        metadata.copy(field, old_metadata.get(field));
    }
    metadata.remove("selfLink");
    metadata.remove("managedFields");
    if changed && kinds::keeps_generation(&call.resource) {
        let generation = metadata.generation();
        metadata.set("generation", generation + 1);
    }
    if old_metadata.contains_key("deletionTimestamp") {
        causes.extend(new_finalizers(&old_metadata, &metadata));
    }
    causes.extend(check_metadata(&metadata, kinds::name_rule(&call.resource)));
    causes.extend(call.review(&mut next, Some(&old), WrittenPart::Object));
    if causes.is_empty() { Ok(next) } else { Err(ApiError::invalid(call.about_kind(call.name()), causes)) }
}

fn copy(next: &mut JsonMap, old: &JsonMap, field: &str) {
    match old.get(field) {
        Some(value) => next.insert(field.to_owned(), value.clone()),
        None => next.remove(field),
    };
}

/// Whether `object` is a state of the object that the call names, made from its current version.
pub(super) fn check_identity(call: &Call, current: &Stored, object: &mut JsonMap) -> Result<(), ApiError> {
    let metadata = Metadata::of(object)?;
    check_names(call, &metadata)?;
    let uid = metadata.text("uid");
    if !uid.is_empty() && uid != current.object.uid() && call.is_patch() {
        let cause = Cause::invalid("metadata.uid", uid, "field is immutable");
        return Err(ApiError::invalid(call.about_kind(call.name()), vec![cause]));
    }
    if !uid.is_empty() && uid != current.object.uid() {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            current.object.uid()
        );
        return Err(ApiError::conflict(call.about(), &why));
    }
    match metadata.text("resourceVersion") {
        "" => Ok(()),
        version if version == current.object.resource_version() => Ok(()),
        version if version.parse::<u64>().is_err() => {
            let why = format!("metadata.resourceVersion is not a number: {version:?}");
            Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", why))
        }
        _ => Err(ApiError::stale(call.about())),
    }
}

/// Whether anything but metadata differs, and the status where it has a path of its own.
fn changes_spec(old: &JsonMap, new: &JsonMap, has_status: bool) -> bool {
    let counts = |field: &str| match field {
        "kind" | "apiVersion" | "metadata" => false,
        "status" => !has_status,
        _ => true,
    };
    let fields = |object: &JsonMap| object.keys().filter(|k| counts(k)).count();
    fields(old) != fields(new) || old.iter().filter(|(k, _)| counts(k)).any(|(k, v)| new.get(k) != Some(v))
}

fn new_finalizers(old: &JsonMap, metadata: &Metadata<'_>) -> Option<Cause> {
    let had = |name: &str| {
        old.get("finalizers").and_then(Value::as_array).is_some_and(|list| list.iter().any(|f| f == name))
    };
    let new: Vec<&str> = metadata.finalizers().filter(|name| !had(name)).collect();
    (!new.is_empty()).then(|| {
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers {new:?}"
        );
        Cause::forbidden("metadata.finalizers", &why)
    })
}
