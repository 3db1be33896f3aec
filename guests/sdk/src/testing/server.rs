//! The API server of a [`World`](super::World): objects, their versions and lives.
//!
//! Every change is noted in `changes`, with the object before and after, for the cache and the queue of the world.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::fields::Owners;
use super::json_patch::{json_merge, json_patch};
use super::time;
use crate::bindings::imports::types as raw;
use crate::client::Propagation;
use crate::sys::{CallOptions, PatchKind};
use crate::{Key, Kind};

pub(super) type Answer<T> = Result<T, raw::Status>;

/// Group and kind: objects are the same in all versions.
pub(super) type Group = (String, String);

/// What the server knows of a kind.
#[derive(Clone)]
pub(super) struct KindInfo {
    pub(super) plural: String,
    pub(super) is_namespaced: bool,
}

/// An object before and after a change.
pub(super) struct Change {
    pub(super) kind: Kind,
    pub(super) old: Option<Rc<Value>>,
    pub(super) new: Option<Rc<Value>>,
}

struct Stored {
    value: Rc<Value>,
    owners: Owners,
}

/// Objects by their keys.
pub(super) type Objects = BTreeMap<Key, Rc<Value>>;

pub(super) struct Server {
    objects: BTreeMap<Group, BTreeMap<Key, Stored>>,
    kinds: BTreeMap<Group, KindInfo>,
    version: u64,
    uids: u64,
    /// Milliseconds since 1970.
    pub(super) now: u64,
    pub(super) changes: Vec<Change>,
}

pub(super) fn status(code: u16, reason: &str, message: impl Into<String>) -> raw::Status {
    raw::Status {
        code,
        reason: reason.to_owned(),
        message: message.into(),
        causes: Vec::new(),
        retry_after: None,
    }
}

pub(super) fn group_of(kind: &Kind) -> Group {
    (kind.group().to_owned(), kind.kind().to_owned())
}

fn key_of(object: &Value) -> Key {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    Key::namespaced(text("namespace"), text("name"))
}

/// The plural of a kind that was not defined.
fn plural(kind: &str) -> String {
    let name = kind.to_lowercase();
    match name.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if name.ends_with("endpoints") => name,
        _ if name.ends_with(['s', 'x', 'z']) || name.ends_with("ch") || name.ends_with("sh") => {
            format!("{name}es")
        }
        _ => format!("{name}s"),
    }
}

impl Server {
    pub(super) fn new(now: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            kinds: BTreeMap::new(),
            version: 1,
            uids: 0,
            now,
            changes: Vec::new(),
        }
    }

    pub(super) fn define(&mut self, kind: &Kind, info: KindInfo) {
        self.kinds.insert(group_of(kind), info);
    }

    /// What is known of a kind. Of one that was not defined the plural is guessed, and it has namespaces unless an object
    /// without one was stored.
    pub(super) fn info(&self, kind: &Kind) -> KindInfo {
        self.kinds
            .get(&group_of(kind))
            .cloned()
            .unwrap_or_else(|| KindInfo { plural: plural(kind.kind()), is_namespaced: true })
    }

    pub(super) fn is_namespaced(&self, group: &str, kind: &str) -> bool {
        self.kinds.get(&(group.to_owned(), kind.to_owned())).is_none_or(|info| info.is_namespaced)
    }

    pub(super) fn version(&self) -> String {
        self.version.to_string()
    }

    fn not_found(&self, kind: &Kind, key: &Key) -> raw::Status {
        status(404, "NotFound", format!("{} {:?} not found", self.resource(kind), key.name))
    }

    fn conflict(&self, kind: &Kind, key: &Key, why: &str) -> raw::Status {
        let resource = self.resource(kind);
        let message = format!("Operation cannot be fulfilled on {resource} {:?}: {why}", key.name);
        status(409, "Conflict", message)
    }

    fn resource(&self, kind: &Kind) -> String {
        let plural = self.info(kind).plural;
        if kind.group().is_empty() { plural } else { format!("{plural}.{}", kind.group()) }
    }

    pub(super) fn get(&self, kind: &Kind, key: &Key) -> Answer<Rc<Value>> {
        let stored = self.objects.get(&group_of(kind)).and_then(|objects| objects.get(key));
        stored.map(|stored| Rc::clone(&stored.value)).ok_or_else(|| self.not_found(kind, key))
    }

    pub(super) fn all(&self, kind: &Kind) -> impl Iterator<Item = &Rc<Value>> {
        self.objects.get(&group_of(kind)).into_iter().flat_map(BTreeMap::values).map(|stored| &stored.value)
    }

    /// Creates an object. Plugins cannot set a status; the author of a test can.
    pub(super) fn create(
        &mut self,
        kind: &Kind,
        mut object: Value,
        manager: &str,
        keeps_status: bool,
        dry_run: bool,
    ) -> Answer<Rc<Value>> {
        self.check_body(kind, &object)?;
        if object["metadata"]["name"].as_str().is_none_or(str::is_empty) {
            match object["metadata"]["generateName"].as_str() {
                Some(prefix) => object["metadata"]["name"] = format!("{prefix}{:05x}", self.uids + 1).into(),
                None => {
                    let message = format!("{} is invalid: metadata.name: Required value", kind.kind());
                    return Err(status(422, "Invalid", message));
                }
            }
        }
        let key = key_of(&object);
        if !key.is_namespaced() {
            let info = KindInfo { is_namespaced: false, ..self.info(kind) };
            self.kinds.entry(group_of(kind)).or_insert(info);
        }
        if self.get(kind, &key).is_ok() {
            let message = format!("{} {:?} already exists", self.resource(kind), key.name);
            return Err(status(409, "AlreadyExists", message));
        }
        if object["metadata"]["resourceVersion"].as_str().is_some_and(|version| !version.is_empty()) {
            return Err(status(
                400,
                "BadRequest",
                "resourceVersion should not be set on objects to be created",
            ));
        }
        if !keeps_status && let Value::Object(fields) = &mut object {
            fields.remove("status");
        }
        let metadata = &mut object["metadata"];
        metadata["uid"] = format!("uid-{}", self.uids + 1).into();
        metadata["creationTimestamp"] = time::rfc3339(self.now).into();
        if let Value::Object(fields) = metadata {
            fields.remove("deletionTimestamp");
            fields.remove("generation");
            if has_generation(kind) {
                fields.insert("generation".to_owned(), 1.into());
            }
        }
        if dry_run {
            return Ok(Rc::new(object));
        }
        self.uids += 1;
        let mut owners = Owners::default();
        owners.write(manager, None, &object);
        Ok(self.store(kind, key, object, owners, None))
    }

    fn check_body(&self, kind: &Kind, object: &Value) -> Answer<()> {
        let bad = |message: String| Err(status(400, "BadRequest", message));
        if !object.is_object() {
            return bad("the body is not a JSON object".to_owned());
        }
        if object["kind"] != kind.kind() || object["apiVersion"] != kind.api_version().as_str() {
            return bad(format!(
                "the body is {} {}, and the call is about {} {}",
                object["apiVersion"],
                object["kind"],
                kind.api_version(),
                kind.kind()
            ));
        }
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let info = self.kinds.get(&group_of(kind));
        match info.map(|info| info.is_namespaced) {
            Some(true) if namespace.is_empty() => bad(format!("{} needs a namespace", kind.kind())),
            Some(false) if !namespace.is_empty() => {
                bad(format!("{} is cluster-scoped and has the namespace {namespace:?}", kind.kind()))
            }
            _ => Ok(()),
        }
    }

    fn store(
        &mut self,
        kind: &Kind,
        key: Key,
        mut object: Value,
        owners: Owners,
        old: Option<Rc<Value>>,
    ) -> Rc<Value> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let value = Rc::new(object);
        let stored = Stored { value: Rc::clone(&value), owners };
        self.objects.entry(group_of(kind)).or_default().insert(key, stored);
        self.changes.push(Change { kind: kind.clone(), old, new: Some(Rc::clone(&value)) });
        value
    }

    /// Replaces an object, or its status.
    pub(super) fn update(
        &mut self,
        kind: &Kind,
        object: Value,
        manager: &str,
        part: Part,
        dry_run: bool,
    ) -> Answer<Rc<Value>> {
        self.check_body(kind, &object)?;
        let key = key_of(&object);
        let owners = |owners: &mut Owners, old: &Value, new: &Value| owners.write(manager, Some(old), new);
        self.replace(kind, &key, object, part, dry_run, owners)
    }

    fn replace(
        &mut self,
        kind: &Kind,
        key: &Key,
        mut new: Value,
        part: Part,
        dry_run: bool,
        own: impl FnOnce(&mut Owners, &Value, &Value),
    ) -> Answer<Rc<Value>> {
        let old = self.get(kind, key)?;
        let (before, after) = (&old["metadata"], &new["metadata"]);
        let version = after["resourceVersion"].as_str().unwrap_or_default();
        if !version.is_empty() && before["resourceVersion"] != version {
            let why =
                "the object has been modified; please apply your changes to the latest version and try again";
            return Err(self.conflict(kind, key, why));
        }
        let uid = after["uid"].as_str().unwrap_or_default();
        if !uid.is_empty() && before["uid"] != uid {
            let why = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                before["uid"]
            );
            return Err(self.conflict(kind, key, &why));
        }
        match part {
            Part::Status => {
                let status = new["status"].take();
                new = (*old).clone();
                new["status"] = status;
            }
            Part::Spec => new["status"] = old["status"].clone(),
            Part::Whole => {}
        }
        if new["status"].is_null()
            && let Value::Object(fields) = &mut new
        {
            fields.remove("status");
        }
        for name in ["uid", "creationTimestamp", "deletionTimestamp", "generation", "resourceVersion"] {
            match before.get(name) {
                Some(value) => new["metadata"][name] = value.clone(),
                None => {
                    if let Value::Object(fields) = &mut new["metadata"] {
                        fields.remove(name);
                    }
                }
            }
        }
        if new == *old {
            return Ok(old);
        }
        if let Some(generation) = generation_of(&old)
            && spec_of(&old) != spec_of(&new)
        {
            new["metadata"]["generation"] = (generation + 1).into();
        }
        if dry_run {
            return Ok(Rc::new(new));
        }
        let stored = self.objects.get_mut(&group_of(kind)).and_then(|objects| objects.get_mut(key));
        let mut owners = stored.map(|stored| std::mem::take(&mut stored.owners)).unwrap_or_default();
        own(&mut owners, &old, &new);
        let is_gone = new["metadata"]["deletionTimestamp"].is_string() && !has_finalizers(&new);
        let value = self.store(kind, key.clone(), new, owners, Some(old));
        if is_gone {
            // A deletion is all that watches see of it.
            self.changes.pop();
            self.remove(kind, key, None);
        }
        Ok(value)
    }

    /// Patches an object, or creates it by an apply.
    pub(super) fn patch(
        &mut self,
        kind: &Kind,
        key: &Key,
        patch: PatchKind,
        body: &Value,
        manager: &str,
        options: &CallOptions<'_>,
    ) -> Answer<Rc<Value>> {
        let part = if options.subresource.is_some() { Part::Status } else { Part::Spec };
        if patch == PatchKind::Apply {
            return self.apply(kind, key, body, manager, part, options);
        }
        let old = self.get(kind, key)?;
        let mut new = (*old).clone();
        match patch {
            PatchKind::Json => {
                new = json_patch(&old, body).map_err(|error| {
                    let message =
                        format!("the server rejected our request due to an error in our request: {error}");
                    status(422, "Invalid", message)
                })?;
            }
            PatchKind::Merge => json_merge(&mut new, body),
            _ => {
                let message = "the test world does no strategic merge patches: use a merge patch or apply";
                return Err(status(415, "UnsupportedMediaType", message));
            }
        }
        if key_of(&new) != *key {
            return Err(status(400, "BadRequest", "a patch cannot change the name or the namespace"));
        }
        self.update(kind, new, manager, part, options.dry_run)
    }

    fn apply(
        &mut self,
        kind: &Kind,
        key: &Key,
        body: &Value,
        manager: &str,
        part: Part,
        options: &CallOptions<'_>,
    ) -> Answer<Rc<Value>> {
        self.check_body(kind, body)?;
        if key_of(body) != *key {
            return Err(status(400, "BadRequest", "the name of the body is not that of the call"));
        }
        let present = self.get(kind, key).ok();
        let stored = self.objects.get(&group_of(kind)).and_then(|objects| objects.get(key));
        let mut owners = stored.map(|stored| stored.owners.clone()).unwrap_or_default();
        let mut merged = present.as_deref().cloned().unwrap_or_else(|| {
            let metadata: Map<String, Value> = ["name", "namespace"]
                .iter()
                .filter_map(|name| Some(((*name).to_owned(), body["metadata"].get(*name)?.clone())))
                .collect();
            json!({"apiVersion": kind.api_version(), "kind": kind.kind(), "metadata": metadata})
        });
        // Each endpoint takes its own part.
        let mut applied = body.clone();
        if let Value::Object(fields) = &mut applied {
            match part {
                Part::Status => fields.retain(|name, _| name == "status"),
                Part::Spec | Part::Whole => {
                    fields.remove("status");
                }
            }
        }
        if let Err(conflicts) = owners.apply(manager, options.force, &mut merged, &applied) {
            let list: Vec<String> =
                conflicts.iter().map(|(other, field)| format!("conflict with {other:?}: {field}")).collect();
            let message = format!("Apply failed with {} conflicts: {}", conflicts.len(), list.join(", "));
            let mut error = status(409, "Conflict", message);
            error.causes = conflicts
                .into_iter()
                .map(|(other, field)| raw::StatusCause {
                    reason: "FieldManagerConflict".to_owned(),
                    message: format!("conflict with {other:?}"),
                    field,
                })
                .collect();
            return Err(error);
        }
        if present.is_some() {
            return self.replace(kind, key, merged, part, options.dry_run, |own, _, _| *own = owners);
        }
        if part == Part::Status {
            return Err(self.not_found(kind, key));
        }
        let created = self.create(kind, merged, manager, false, options.dry_run)?;
        if let Some(stored) = self.objects.get_mut(&group_of(kind)).and_then(|objects| objects.get_mut(key)) {
            stored.owners = owners;
        }
        Ok(created)
    }

    /// Deletes an object. Returns it if it has finalizers.
    pub(super) fn delete(
        &mut self,
        kind: &Kind,
        key: &Key,
        options: &CallOptions<'_>,
    ) -> Answer<Option<Rc<Value>>> {
        let object = self.get(kind, key)?;
        for (name, wanted) in
            [("uid", options.precondition_uid), ("resourceVersion", options.precondition_resource_version)]
        {
            if let Some(wanted) = wanted
                && object["metadata"][name] != wanted
            {
                let why = format!("Precondition failed: {name} is {}", object["metadata"][name]);
                return Err(self.conflict(kind, key, &why));
            }
        }
        if options.dry_run {
            return Ok(has_finalizers(&object).then_some(object));
        }
        if !has_finalizers(&object) {
            self.remove(kind, key, options.propagation);
            return Ok(None);
        }
        if object["metadata"]["deletionTimestamp"].is_string() {
            return Ok(Some(object));
        }
        let mut marked = (*object).clone();
        marked["metadata"]["deletionTimestamp"] = time::rfc3339(self.now).into();
        if let Some(generation) = generation_of(&object) {
            marked["metadata"]["generation"] = (generation + 1).into();
        }
        let stored = self.objects.get_mut(&group_of(kind)).and_then(|objects| objects.get_mut(key));
        let owners = stored.map(|stored| std::mem::take(&mut stored.owners)).unwrap_or_default();
        Ok(Some(self.store(kind, key.clone(), marked, owners, Some(object))))
    }

    /// Removes an object, and what only it owned.
    fn remove(&mut self, kind: &Kind, key: &Key, propagation: Option<Propagation>) {
        let removed = self.objects.get_mut(&group_of(kind)).and_then(|objects| objects.remove(key));
        let Some(removed) = removed else { return };
        self.version += 1;
        let uid = removed.value["metadata"]["uid"].clone();
        self.changes.push(Change { kind: kind.clone(), old: Some(removed.value), new: None });
        let owned: Vec<(Kind, Key, Value)> = self
            .objects
            .values()
            .flat_map(|objects| objects.iter())
            .filter(|(_, stored)| owners_of(&stored.value).iter().any(|owner| owner["uid"] == uid))
            .map(|(key, stored)| (kind_of(&stored.value), key.clone(), (*stored.value).clone()))
            .collect();
        for (kind, key, mut object) in owned {
            let mut owners = owners_of(&object);
            owners.retain(|owner| owner["uid"] != uid);
            if owners.is_empty() && propagation != Some(Propagation::Orphan) {
                // The finalizers of a dependent keep it, and its own dependents follow it.
                let _ = self.delete(&kind, &key, &CallOptions::default());
            } else {
                object["metadata"]["ownerReferences"] = owners.into();
                let _ = self.update(&kind, object, "garbage-collector", Part::Spec, false);
            }
        }
    }
}

/// Which part of an object a write may change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// All but the status.
    Spec,
    /// The status.
    Status,
    /// All: the author of a test.
    Whole,
}

fn generation_of(object: &Value) -> Option<i64> {
    object["metadata"]["generation"].as_i64()
}

/// Whether objects of a kind have a generation. Custom resources have, and about half of the built-in kinds.
fn has_generation(kind: &Kind) -> bool {
    match (kind.group(), kind.kind()) {
        ("", kind) => matches!(kind, "Pod" | "ReplicationController" | "PodTemplate"),
        ("apps", kind) => kind != "ControllerRevision",
        ("networking.k8s.io", kind) => !matches!(kind, "IPAddress" | "ServiceCIDR"),
        ("resource.k8s.io", kind) => matches!(kind, "DeviceClass" | "DeviceTaintRule" | "ResourceSlice"),
        (group, _) => !matches!(
            group,
            "autoscaling"
                | "certificates.k8s.io"
                | "coordination.k8s.io"
                | "events.k8s.io"
                | "internal.apiserver.k8s.io"
                | "node.k8s.io"
                | "rbac.authorization.k8s.io"
                | "storage.k8s.io"
                | "storagemigration.k8s.io"
        ),
    }
}

/// The parts of an object that its generation counts.
fn spec_of(object: &Value) -> Vec<(&String, &Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields
        .filter(|(name, _)| !["metadata", "status", "apiVersion", "kind"].contains(&name.as_str()))
        .collect()
}

fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}

fn owners_of(object: &Value) -> Vec<Value> {
    object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default()
}

pub(super) fn kind_of(object: &Value) -> Kind {
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    Kind::of_api_version(text("apiVersion"), text("kind"))
}
