//! The pipeline: what every write goes through on its way to the store, whoever is behind it.
//!
//! ```text
//! decoded ─► admitted (kind, unknown fields, defaults: `Write::as_stored`) ─► [patched] ─► identity ─► strategy ─► validated ─► store
//! ```

use std::sync::Arc;

use serde_json::Value;

use super::write::{Write, check_type, key};
use super::{Core, JsonMap, identity, ownership};
use crate::api::{About, ApiError, Cause, Metadata, Timestamp};
use crate::kinds::{self, Content, Generation};
use crate::resources::{NAMESPACES, Resource, WrittenPart, check_stored};
use crate::store::{ManagedFields, Raced, Stored};
use crate::validation::{MetadataOf, check_metadata};

/// How often a change is tried again when another write came between; each try starts from the new state.
pub(super) const TRIES: usize = 64;
/// The tables of claims and of storage classes.
const CLAIMS: &str = "/persistentvolumeclaims";
const CLASSES: &str = "storage.k8s.io/storageclasses";
/// How many names a `generateName` is tried with.
const NAMES: usize = 8;

/// Which part of an object a write may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectPart {
    /// Everything but the status.
    Main,
    Status,
    /// One field of the spec.
    Spec(&'static str),
}

impl Core {
    /// Makes an object, which has been admitted.
    pub(crate) fn create_object(&self, write: &Write, mut object: JsonMap) -> Result<Arc<Stored>, ApiError> {
        identity::wipe(&mut object)?;
        self.create_owned(write, object, None, "")
    }

    /// As [`Core::create_object`], for a PUT or an apply, which may say when the object was deleted. `applied` are the managed
    /// fields of an object that was applied, and `asked_version` the resource version that the write came with, which a dry
    /// run repeats.
    pub(super) fn create_owned(
        &self,
        write: &Write,
        mut object: JsonMap,
        applied: Option<ManagedFields>,
        asked_version: &str,
    ) -> Result<Arc<Stored>, ApiError> {
        let now = Timestamp::now();
        let strategy = write.resource.strategy;
        let sent = ownership::take_sent(&mut object);
        // Before it has a UID: by that an object that is new is known.
        let managed = applied.unwrap_or_else(|| self.managed(write, None, &mut object, sent));
        let base = identity::begin(write, &mut object, now)?;
        let mut name = Metadata::of(&mut object)?.text("name").to_owned();
        self.check_place(write, &name)?;
        if write.resource.has_status() && !strategy.creates_with_status {
            object.remove("status");
        }
        (strategy.prepare_create)(&mut object)?;
        let mut causes = (strategy.prepare)(&mut object, now);
        // The status is another door to the store, behind which nobody allocates.
        if write.subresource.is_empty() {
            self.allocate(write, &mut object, None);
        }
        check_type(write, &object)?;
        causes.extend(metadata_causes(write, &object));
        causes.extend(write.review(&mut object, None, WrittenPart::Object));
        write.accept(&name, causes)?;
        write.warnings.add(kinds::warnings(&write.resource, &object, None, true));
        // The store would refuse it.
        let version = Metadata::of(&mut object)?.text("resourceVersion").to_owned();
        let asked_version = if version.is_empty() { asked_version } else { &version };
        if !write.dry {
            identity::check_unversioned(&mut object)?;
        }
        check_stored(&object, &managed)?;
        for _ in 0..NAMES {
            let key = key(write.namespace(), &name);
            let outcome = match self.store.get(&write.resource.storage, &key) {
                Some(found) => Err(Raced::Exists(found)),
                None if write.dry => return write.imagine(object, managed, asked_version),
                None => self.store.create(
                    &write.resource.storage,
                    &key,
                    &write.head(),
                    object.clone(),
                    managed.clone(),
                ),
            };
            match (outcome, &base) {
                (Ok(stored), _) => {
                    // What it is in may have come to its end meanwhile, and been looked through before this was there.
                    if let Err(error) = self.check_place(write, &name) {
                        if self.store.remove(&write.resource.storage, &key, &stored).is_ok() {
                            self.after_change(write);
                        }
                        return Err(error);
                    }
                    self.after_change(write);
                    return Ok(stored);
                }
                (Err(Raced::Exists(_)), Some(base)) => {
                    name = identity::generate(base);
                    Metadata::of(&mut object)?.set("name", name.as_str());
                }
                (Err(Raced::Exists(found)), None) => {
                    let mut error = exists(write, &name, &found);
                    if !Metadata::of(&mut object)?.text("generateName").is_empty() {
                        // As if the name had been generated.
                        error
                            .message
                            .push_str(", the server was not able to generate a unique name for the object");
                        error.retry_after = Some(1);
                    }
                    return Err(error);
                }
                (Err(raced), _) => return Err(write.raced(&raced)),
            }
        }
        Err(ApiError::already_exists(write.about_name(&name)))
    }

    /// Whether something can be made where the write says: not in what is being deleted.
    fn check_place(&self, write: &Write, name: &str) -> Result<(), ApiError> {
        if write.resource.is_custom() && !self.is_defined(&write.resource.storage) {
            return Err(ApiError::no_path());
        }
        if write.resource.is_custom() && self.is_definition_ending(&write.resource.storage) {
            let why = "create not allowed while custom resource definition is terminating";
            let code = http::StatusCode::METHOD_NOT_ALLOWED;
            return Err(ApiError::new(code, "MethodNotAllowed", why).about(write.about_name(name)));
        }
        if !write.resource.namespaced {
            return Ok(());
        }
        let namespace = write.namespace();
        let Some(found) = self.store.get(NAMESPACES, namespace) else {
            return Err(ApiError::not_found(About::new("", "namespaces", namespace)));
        };
        if found.object.deletion_timestamp().is_none() {
            return Ok(());
        }
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut error = ApiError::forbidden(write.about_name(name), &why);
        error.causes.push(Cause {
            reason: "NamespaceTerminating",
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".to_owned(),
        });
        Err(error)
    }

    /// Changes an object: `change` gets the current one, also as a tree, and says what is to be there; `None` leaves it as it
    /// is. Tried again when another write comes between.
    pub(crate) fn change(
        &self,
        write: &Write,
        mut change: impl FnMut(&Stored, &JsonMap) -> Result<Option<JsonMap>, ApiError>,
    ) -> Result<Arc<Stored>, ApiError> {
        self.change_owned(write, |current, old| {
            let Some(mut object) = change(current, old)? else { return Ok(None) };
            let managed = self.managed(write, Some((current, old)), &mut object, None);
            Ok(Some((object, managed)))
        })
    }

    /// As [`Core::change`], without a new owner of the changed fields.
    pub(super) fn change_unowned(
        &self,
        write: &Write,
        mut change: impl FnMut(&Stored, &JsonMap) -> Result<Option<JsonMap>, ApiError>,
    ) -> Result<Arc<Stored>, ApiError> {
        self.change_owned(write, |current, old| {
            Ok(change(current, old)?.map(|object| (object, current.managed.clone())))
        })
    }

    /// As [`Core::change`], with the managed fields of what is to be there.
    fn change_owned(
        &self,
        write: &Write,
        mut change: impl FnMut(&Stored, &JsonMap) -> Result<Option<(JsonMap, ManagedFields)>, ApiError>,
    ) -> Result<Arc<Stored>, ApiError> {
        let key = write.key();
        for _ in 0..TRIES {
            let current = self.current(write)?;
            let old = current.value();
            let Some((object, managed)) = change(&current, &old)? else { return Ok(current) };
            check_stored(&object, &managed)?;
            if write.dry {
                let is_same = changes_nothing(&current, &old, &object, &managed);
                let managed = if is_same { current.managed.clone() } else { managed };
                return write.imagine(object, managed, current.object.resource_version());
            }
            match self.put(write, &key, &current, &old, object, managed) {
                Err(Raced::Changed) => {}
                other => return other.map_err(|raced| write.raced(&raced)),
            }
        }
        Err(ApiError::stale(write.about()))
    }

    /// Replaces a part of an object by what `asked` makes of the current one, as PUT and PATCH do.
    pub(crate) fn update_object(
        &self,
        write: &Write,
        part: ObjectPart,
        mut asked: impl FnMut(&Stored, &JsonMap) -> Result<JsonMap, ApiError>,
    ) -> Result<Arc<Stored>, ApiError> {
        self.change_owned(write, |current, old| {
            let mut object = asked(current, old)?;
            // A subresource is not there to say who owns what.
            let sent = ownership::take_sent(&mut object).filter(|_| write.subresource.is_empty());
            let (mut composed, next) = self.next(write, current, old, object, part)?;
            let managed = self.managed(write, Some((current, old)), &mut composed, sent);
            Ok(Some((next, managed)))
        })
    }

    /// As [`Core::update_object`], for what is applied: `asked` also says what the managed fields are.
    pub(super) fn update_applied(
        &self,
        write: &Write,
        part: ObjectPart,
        mut asked: impl FnMut(&Stored) -> Result<(JsonMap, ManagedFields), ApiError>,
    ) -> Result<Arc<Stored>, ApiError> {
        self.change_owned(write, |current, old| {
            let (object, managed) = asked(current)?;
            let (_, next) = self.next(write, current, old, object, part)?;
            Ok(Some((next, managed)))
        })
    }

    /// As [`Core::update_object`], for a write of the replicas alone: `asked` also says what the managed fields are.
    pub(super) fn update_scaled(
        &self,
        write: &Write,
        mut asked: impl FnMut(&Stored, &JsonMap) -> Result<(JsonMap, ManagedFields), ApiError>,
    ) -> Result<Arc<Stored>, ApiError> {
        self.change_owned(write, |current, old| {
            let (mut object, managed) = asked(current, old)?;
            // It may have been written in another version before.
            object.insert("apiVersion".to_owned(), write.resource.api_version().into());
            let (_, next) = self.next(write, current, old, object, ObjectPart::Main)?;
            Ok(Some((next, managed)))
        })
    }

    /// The state that follows the current one when a client asks for `object`: as the client has it, by which fields get their
    /// owners, and as it is to be stored.
    fn next(
        &self,
        write: &Write,
        current: &Stored,
        old: &JsonMap,
        mut object: JsonMap,
        part: ObjectPart,
    ) -> Result<(JsonMap, JsonMap), ApiError> {
        identity::check(write, current, &mut object)?;
        check_type(write, &object)?;
        let old = &*write.resource.as_read(old);
        let composed = match part {
            ObjectPart::Status => return next_status(write, old, object),
            ObjectPart::Main | ObjectPart::Spec(_) => object,
        };
        let strategy = write.resource.strategy;
        let mut next = composed.clone();
        if let ObjectPart::Spec(field) = part {
            next = old.clone();
            let mut metadata = Metadata::of(&mut next)?;
            for field in ["uid", "creationTimestamp", "deletionGracePeriodSeconds"] {
                let asked = composed.get("metadata").and_then(|metadata| metadata.get(field));
                metadata.copy(field, asked);
            }
            if let (Some(Value::Object(to)), Some(Value::Object(from))) =
                (next.get_mut("spec"), composed.get("spec"))
            {
                match field {
                    "containers" => kinds::resize(to, from),
                    field => copy(to, from, field),
                }
            }
        }
        if write.resource.has_status() {
            copy(&mut next, old, "status");
        }
        for field in strategy.reset {
            copy(&mut next, old, field);
        }
        let mut causes = (strategy.prepare)(&mut next, Timestamp::now());
        (strategy.prepare_update)(old, &mut next)?;
        self.allocate(write, &mut next, Some(old));
        let counts = counts_on(&write.resource, old, &next);
        let metadata = identity::keep(write, old, &mut next, counts, &mut causes)?;
        causes.extend(identity::new_finalizers(old, &metadata));
        causes.extend(metadata_causes(write, &next));
        causes.extend(write.review(&mut next, Some(old), WrittenPart::Object));
        causes.extend(match part {
            ObjectPart::Main => strategy.changed(old, &next),
            ObjectPart::Spec("containers") => kinds::check_resize(old, &next),
            ObjectPart::Spec("ephemeralContainers") => kinds::check_ephemeral(old, &next),
            ObjectPart::Spec(_) | ObjectPart::Status => Vec::new(),
        });
        write.accept(&write.name, causes)?;
        if part == ObjectPart::Main {
            write.warnings.add(kinds::warnings(&write.resource, &next, Some(old), counts));
        }
        if part == ObjectPart::Main && write.resource.storage.as_ref() == CLAIMS {
            self.check_growth(write, old, &next)?;
        }
        Ok((composed, next))
    }

    /// Whether a claim may ask for more than before: if it has a volume, of a class that lets its volumes grow.
    fn check_growth(&self, write: &Write, old: &JsonMap, new: &JsonMap) -> Result<(), ApiError> {
        let Some(class) = kinds::class_of_growing(old, new) else { return Ok(()) };
        let is_bound = old.get("status").is_some_and(|status| status["phase"] == "Bound");
        let grows = || {
            let class = self.store.get(CLASSES, &class?)?;
            Some(class.object.get("/allowVolumeExpansion").is_some_and(|allows| allows == "true"))
        };
        match is_bound {
            false => {
                Err(ApiError::forbidden(write.about(), "Only bound persistent volume claims can be expanded"))
            }
            true if grows() == Some(true) => Ok(()),
            true => {
                let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
                           support resize";
                Err(ApiError::forbidden(write.about(), why))
            }
        }
    }

    /// Puts an object in the place of the current one, or ends it if it only waited for its finalizers and the last is gone.
    pub(super) fn put(
        &self,
        write: &Write,
        key: &str,
        current: &Stored,
        old: &JsonMap,
        object: JsonMap,
        managed: ManagedFields,
    ) -> Result<Arc<Stored>, Raced> {
        let table = &write.resource.storage;
        if is_finished(&write.resource, &object) {
            self.store.remove(table, key, current)?;
            self.after_change(write);
            if write.resource.strategy.allocates {
                self.delete_endpoints(write);
            }
            // The answer is what the client has asked for, at the version that was the last.
            let version = current.object.resource_version().to_owned();
            return write.imagined(object, managed, &version);
        }
        if changes_nothing(current, old, &object, &managed) {
            return self
                .store
                .get(table, key)
                .filter(|s| s.revision == current.revision)
                .ok_or(Raced::Changed);
        }
        let stored = self.store.replace(table, key, current, &write.head(), object, managed)?;
        self.after_change(write);
        Ok(stored)
    }

    /// The object that a write names.
    pub(super) fn current(&self, write: &Write) -> Result<Arc<Stored>, ApiError> {
        self.store
            .get(&write.resource.storage, &write.key())
            .ok_or_else(|| ApiError::not_found(write.about()))
    }

    /// What must have happened when a write is answered: a definition is served. All else is the controllers'.
    pub(super) fn after_change(&self, write: &Write) {
        if write.resource.strategy.content == Content::Defined {
            self.redefine();
        }
    }
}

/// As [`Core::next`], when a client asks for `object` through the path of the status.
fn next_status(write: &Write, old: &JsonMap, object: JsonMap) -> Result<(JsonMap, JsonMap), ApiError> {
    let mut causes = Vec::new();
    let composed = object.clone();
    let mut next = if write.resource.is_custom() {
        let mut next = old.clone();
        copy(&mut next, &object, "status");
        next
    } else {
        // Controllers of built-in kinds note things beside the status.
        let mut next = object;
        for path in write.resource.strategy.status_reset {
            match path.strip_prefix("metadata.") {
                Some(field) => {
                    let old = old.get("metadata").and_then(|metadata| metadata.get(field));
                    Metadata::of(&mut next)?.copy(field, old);
                }
                None => {
                    let uid = Metadata::of(&mut next)?.text("uid").to_owned();
                    copy(&mut next, old, path);
                    // Whose it is stays to be checked.
                    if *path == "metadata" && !uid.is_empty() {
                        Metadata::of(&mut next)?.set("uid", uid);
                    }
                }
            }
        }
        (write.resource.strategy.prepare_update)(old, &mut next)?;
        let metadata = identity::keep(write, old, &mut next, false, &mut causes)?;
        causes.extend(identity::new_finalizers(old, &metadata));
        causes.extend(metadata_causes(write, &next));
        next
    };
    causes.extend(write.review(&mut next, Some(old), WrittenPart::Status));
    write.accept(&write.name, causes)?;
    Ok((composed, next))
}

/// What is wrong with the metadata of an object.
fn metadata_causes(write: &Write, object: &JsonMap) -> Vec<Cause> {
    let of = if write.resource.is_custom() { MetadataOf::Custom } else { MetadataOf::Builtin };
    check_metadata(object, write.resource.strategy.names, of)
}

fn copy(next: &mut JsonMap, old: &JsonMap, field: &str) {
    match old.get(field) {
        Some(value) => next.insert(field.to_owned(), value.clone()),
        None => next.remove(field),
    };
}

/// Whether the generation of an object counts the step from one state of it to another.
fn counts_on(resource: &Resource, old: &JsonMap, new: &JsonMap) -> bool {
    let metadata = |object: &JsonMap, field: &str| object.get("metadata").and_then(|m| m.get(field)).cloned();
    let changed = |field: &str| metadata(old, field) != metadata(new, field);
    match resource.strategy.generation {
        Generation::None | Generation::First => false,
        Generation::SpecAndAnnotations if changed("annotations") => true,
        Generation::SpecAndLabels if changed("labels") => true,
        _ => changes_spec(resource, old, new),
    }
}

/// Whether anything but metadata differs, and the status where it has a path of its own.
fn changes_spec(resource: &Resource, old: &JsonMap, new: &JsonMap) -> bool {
    let (has_status, is_custom) = (resource.has_status(), resource.is_custom());
    let counts = |field: &str| match field {
        "kind" | "apiVersion" | "metadata" => false,
        "status" => !has_status,
        _ => true,
    };
    let is_none = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    let differs = |field: &String| match (old.get(field), new.get(field)) {
        // An empty list is none, but not in a custom object.
        (before, after) if !is_custom && before.is_none_or(is_none) => !after.is_none_or(is_none),
        (before, after) => before != after,
    };
    old.keys().chain(new.keys()).any(|field| counts(field) && differs(field))
}

fn exists(write: &Write, name: &str, found: &Stored) -> ApiError {
    let mut error = ApiError::already_exists(write.about_name(name));
    if found.object.deletion_timestamp().is_some() {
        error.message = format!("object is being deleted: {}", error.message);
    }
    error
}

/// Whether an object that is being deleted waits for nothing any more.
pub(super) fn is_finished(resource: &Resource, object: &JsonMap) -> bool {
    let Some(metadata) = object.get("metadata") else { return false };
    if metadata.get("deletionTimestamp").is_none() {
        return false;
    }
    let waits = |list: Option<&Value>| list.and_then(Value::as_array).is_some_and(|l| !l.is_empty());
    let for_content = resource.strategy.content == Content::Namespaced
        && waits(object.get("spec").and_then(|spec| spec.get("finalizers")));
    let graceful = metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0) > 0;
    !(for_content || graceful || waits(metadata.get("finalizers")))
}

/// Whether a write leaves an object as it is. Its managed fields then keep the times that they have.
fn changes_nothing(current: &Stored, old: &JsonMap, object: &JsonMap, managed: &ManagedFields) -> bool {
    is_same(old, object) && ownership::differ_in_times_alone(&current.managed, managed)
}

/// Whether two objects are the same but for their kind and resource version.
fn is_same(a: &JsonMap, b: &JsonMap) -> bool {
    let rest = |object: &JsonMap| object.iter().filter(|(k, _)| !is_head(k)).count();
    let same_metadata = |a: &Value, b: &Value| match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let fields = |m: &JsonMap| m.keys().filter(|k| *k != "resourceVersion").count();
            fields(a) == fields(b) && a.iter().all(|(k, v)| k == "resourceVersion" || b.get(k) == Some(v))
        }
        _ => false,
    };
    rest(a) == rest(b)
        && a.iter().filter(|(k, _)| !is_head(k)).all(|(k, v)| match b.get(k) {
            Some(other) if k == "metadata" => same_metadata(v, other),
            other => other == Some(v),
        })
}

fn is_head(field: &str) -> bool {
    matches!(field, "kind" | "apiVersion")
}
