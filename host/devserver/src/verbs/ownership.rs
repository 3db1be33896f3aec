//! Who owns the fields of an object after a write: the managed fields that are stored with it.

use serde_json::{Value, json};

use super::render::Rendering;
use super::write::Write;
use super::{Core, JsonMap};
use crate::api::{ApiError, Timestamp};
use crate::apply::{self, Applied, Kind, Managers, ReplicasPaths, Set, Writer};
use crate::kinds;
use crate::protobuf;
use crate::resources::Origin;
use crate::schema::BuiltinTypes;
use crate::store::{ManagedFields, Stored};

/// What a client says of managers in the object that it sends, taken out of it.
pub(super) fn take_sent(object: &mut JsonMap) -> Option<Managers> {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut)?;
    metadata.remove("managedFields").and_then(|list| Managers::sent(&list))
}

/// The managers that stored managed fields name.
fn managers_of(managed: &ManagedFields) -> Managers {
    if managed.is_empty() {
        return Managers::default();
    }
    // They were written by `managed_fields`.
    let list = serde_json::from_slice(&managed.text()).ok();
    list.and_then(|list: Value| Managers::parse(&list).ok()).unwrap_or_default()
}

/// How many entries are stored: a write of a Scale may leave several that count as one.
fn entries_of(managed: &ManagedFields) -> usize {
    if managed.is_empty() {
        return 0;
    }
    let list: Value = serde_json::from_slice(&managed.text()).unwrap_or_default();
    list.as_array().map_or(0, Vec::len)
}

fn managed_fields(managers: &Managers) -> ManagedFields {
    if managers.is_empty() {
        return ManagedFields::default();
    }
    let mut text = Vec::new();
    managers.write(&mut text);
    ManagedFields::new(text)
}

/// Fields that a write of a resource or of its subresource resets, and so leaves to their owners.
fn ignored(write: &Write) -> Set {
    let resource = &write.resource;
    match write.subresource.as_str() {
        "" => {
            let paths: &[&[&str]] = if resource.has_status() { &[&["status"]] } else { &[] };
            Set::of_fields(paths)
        }
        "status" | "approval" => {
            let paths: Vec<Vec<&str>> =
                resource.strategy.status_reset.iter().map(|path| path.split('.').collect()).collect();
            let paths: Vec<&[&str]> = paths.iter().map(Vec::as_slice).collect();
            Set::of_fields(&paths)
        }
        _ => Set::default(),
    }
}

/// An object in the version of the write, of which entries tell.
fn served(write: &Write, object: &JsonMap) -> Value {
    let mut object = object.clone();
    if kinds::needs_conversion(&write.resource) {
        kinds::from_stored(&write.resource, &mut object);
    }
    object.into()
}

/// Calls `done` with the kind and the writer of a write as managed fields see them; nothing of a kind without types.
fn with_kind<R>(write: &Write, done: impl FnOnce(&Kind<'_>, &Writer<'_>) -> R) -> Option<R> {
    let resource = &*write.resource;
    let api_version = resource.api_version();
    let writer = Writer {
        manager: &write.manager,
        subresource: &write.subresource,
        api_version: &api_version,
        now: Timestamp::now(),
    };
    let (types, root) = match &resource.origin {
        Origin::Custom { schemas, .. } => schemas.own.types(),
        Origin::Builtin => {
            let types = BuiltinTypes::get();
            (types.types(), types.of_kind(&api_version, &resource.kind)?)
        }
    };
    let empty = protobuf::empty(&api_version, &resource.kind)
        .unwrap_or_else(|| json!({"apiVersion": api_version, "kind": resource.kind}));
    let served: Vec<&str> = resource.served.iter().map(String::as_str).collect();
    let ignores_alike = !resource.is_custom() || !write.subresource.is_empty();
    let is_decoded = matches!(resource.origin, Origin::Builtin);
    let kind =
        Kind { types, root, name: &resource.kind, served: &served, empty: &empty, ignores_alike, is_decoded };
    Some(done(&kind, &writer))
}

impl Core {
    /// The managed fields of an object after a write that is no apply; `sent` is what the client says of them. The new object is
    /// as it was when this returns.
    pub(super) fn managed(
        &self,
        write: &Write,
        old: Option<(&Stored, &JsonMap)>,
        new: &mut JsonMap,
        sent: Option<Managers>,
    ) -> ManagedFields {
        if kinds::needs_conversion(&write.resource) {
            return self.managed_as_served(write, old, &served(write, new), sent);
        }
        // Not copied: it may be large.
        let whole = Value::Object(std::mem::take(new));
        let managed = self.managed_as_served(write, old, &whole, sent);
        if let Value::Object(whole) = whole {
            *new = whole;
        }
        managed
    }

    fn managed_as_served(
        &self,
        write: &Write,
        old: Option<(&Stored, &JsonMap)>,
        new: &Value,
        sent: Option<Managers>,
    ) -> ManagedFields {
        let before = old.map(|(stored, object)| (served(write, object), managers_of(&stored.managed)));
        let managers = with_kind(write, |kind, writer| {
            let old = before.as_ref().map(|(object, managers)| (object, managers));
            apply::on_update(kind, old, new, sent, writer, &ignored(write))
        });
        let Some(managers) = managers else { return ManagedFields::default() };
        if let (Some((_, before)), Some((stored, _))) = (&before, old)
            && managers == *before
            && managers.len() == entries_of(&stored.managed)
        {
            return stored.managed.clone();
        }
        managed_fields(&managers)
    }

    /// What an apply request makes of an object, as it is served, and its managed fields after it.
    pub(super) fn applied(
        &self,
        write: &Write,
        live: Option<&Stored>,
        config: &Value,
        force: bool,
    ) -> Result<(Value, ManagedFields), ApiError> {
        let rendering = Rendering::plain(&write.resource);
        let before = live.map(|stored| {
            let mut object = rendering.value(stored);
            if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                metadata.remove("managedFields");
            }
            (object, managers_of(&stored.managed))
        });
        let applied = with_kind(write, |kind, writer| {
            let live = before.as_ref().map(|(object, managers)| (object, managers));
            apply::apply(kind, live, config, writer, force, &ignored(write))
        });
        let Some(applied) = applied else {
            return Err(ApiError::unsupported_media_type(
                "the kind has no types by which it could be applied",
            ));
        };
        let Applied { object, managers } = applied?;
        let object = object.or_else(|| before.map(|(object, _)| object));
        Ok((object.unwrap_or_else(|| config.clone()), managed_fields(&managers)))
    }
}

/// The managed fields of Scales.
impl Core {
    /// The managers of an object's Scale.
    pub(super) fn scale_managers(&self, write: &Write, current: &Stored) -> Managers {
        apply::to_scale(&managers_of(&current.managed), &self.replicas_paths(write).as_ref())
    }

    /// The managed fields of an object whose Scale has these managers after a write.
    pub(super) fn managers_of_scaled(
        &self,
        write: &Write,
        current: &Stored,
        scale: &Managers,
    ) -> ManagedFields {
        let version = write.resource.api_version();
        let paths = self.replicas_paths(write);
        managed_fields(&apply::to_parent(&managers_of(&current.managed), scale, &paths.as_ref(), &version))
    }

    /// The managers of a Scale after a write that is no apply.
    pub(super) fn updated_scale(
        &self,
        on_scale: &Write,
        old: &Value,
        managers: &Managers,
        new: &JsonMap,
    ) -> Managers {
        let new = Value::Object(new.clone());
        let done = with_kind(on_scale, |kind, writer| {
            apply::on_update(kind, Some((old, managers)), &new, None, writer, &Set::default())
        });
        done.unwrap_or_default()
    }

    /// What an apply request makes of a Scale, and its managers after it.
    pub(super) fn applied_scale(
        &self,
        on_scale: &Write,
        old: &Value,
        managers: &Managers,
        config: &Value,
        force: bool,
    ) -> Result<(JsonMap, Managers), ApiError> {
        let applied = with_kind(on_scale, |kind, writer| {
            apply::apply(kind, Some((old, managers)), config, writer, force, &Set::default())
        });
        let Applied { object, managers } =
            applied.ok_or_else(|| ApiError::internal("a Scale has types"))??;
        match object.unwrap_or_else(|| old.clone()) {
            Value::Object(scale) => Ok((scale, managers)),
            _ => Err(ApiError::internal("a Scale stays an object")),
        }
    }

    /// Where the objects of a write's resource have their replicas, by version.
    fn replicas_paths(&self, write: &Write) -> VersionPaths {
        let resource = &write.resource;
        let now = self.registry.now();
        let of_version = |version: &String| {
            let path = match now.of_kind(version, &resource.kind).map(|resource| &resource.origin) {
                Some(Origin::Custom { scale: Some(paths), .. }) => Some(paths.spec_replicas_path.clone()),
                Some(Origin::Custom { .. }) | None => None,
                Some(Origin::Builtin) => Some(".spec.replicas".to_owned()),
            };
            (version.clone(), path)
        };
        VersionPaths(resource.served.iter().map(of_version).collect())
    }
}

/// Versions, and the path of the replicas in each.
struct VersionPaths(Vec<(String, Option<String>)>);

impl VersionPaths {
    fn as_ref(&self) -> ReplicasPaths<'_> {
        self.0
            .iter()
            .map(|(version, path)| {
                let path = path.as_deref().map(|path| path.split('.').skip(1).collect());
                (version.as_str(), path)
            })
            .collect()
    }
}

/// Whether managed fields differ in nothing but times: entry by entry.
pub(super) fn differ_in_times_alone(a: &ManagedFields, b: &ManagedFields) -> bool {
    let untimed = |managed: &ManagedFields| {
        let mut list: Value = serde_json::from_slice(&managed.text()).unwrap_or_default();
        for entry in list.as_array_mut().into_iter().flatten() {
            if let Value::Object(entry) = entry {
                entry.remove("time");
            }
        }
        list
    };
    a == b || !a.is_empty() && !b.is_empty() && untimed(a) == untimed(b)
}
