//! Ownership of fields, write by write: [`on_update`] for all that is no apply, [`apply`].
//!
//! All objects of a call are in one version, that of the request. The versions of a kind differ in nothing but their name
//! here, so an entry that was written in another version is compared by the same paths, and keeps its version. An entry of a
//! version that the kind is no longer served in is dropped.

use serde_json::Value;

use super::cap::cap;
use super::check::{Duplicates, check};
use super::compare::{Comparison, compare};
use super::conflict::{self, Conflict};
use super::managers::{Entry, Identity, Managers, Operation};
use super::merge::merge;
use super::reconcile::reconcile;
use super::remove::{remove, with_parents};
use super::set::Set;
use super::types::TypeRef;
use super::{fields, last_applied, value};
use crate::api::{ApiError, Timestamp};
use crate::schema::{TypeId, Types};
use http::StatusCode;
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

/// How many versions of a kind are looked at apart when an applier gives fields up, which costs a walk over the object each;
/// a definition may serve thousands. The others count as one.
const MAX_VERSIONS: usize = 8;
/// The manager of what an object had before its managers were known.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// A kind, in the version of the request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind<'a> {
    pub(crate) types: &'a Types,
    pub(crate) root: TypeId,
    pub(crate) name: &'a str,
    /// All versions in which it is served, as `apiVersion` has them.
    pub(crate) served: &'a [&'a str],
    /// An object of which nothing is set: of a built-in kind as Go has it ([`crate::protobuf::empty`]), else only with
    /// `apiVersion` and `kind`.
    pub(crate) empty: &'a Value,
    /// Whether what a write ignores is ignored in all versions: a write of a custom object, but not of its status, ignores it in
    /// its own version alone.
    pub(crate) ignores_alike: bool,
    /// Whether objects have been decoded as ones of a built-in kind: then they have its types, and need no check of these.
    pub(crate) is_decoded: bool,
}

impl<'a> Kind<'a> {
    fn root(&self) -> TypeRef<'a> {
        TypeRef::of_resource(self.types, self.root)
    }
}

/// Who writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writer<'a> {
    /// See [`super::manager_name`].
    pub(crate) manager: &'a str,
    /// The subresource that is written, such as `status`.
    pub(crate) subresource: &'a str,
    /// Of the request.
    pub(crate) api_version: &'a str,
    pub(crate) now: Timestamp,
}

impl Writer<'_> {
    fn identity(&self, operation: Operation) -> Identity {
        Identity::new(self.manager, operation, self.api_version, self.subresource)
    }
}

/// What comes of an apply request.
#[derive(Debug)]
pub(crate) struct Applied {
    /// `None` if the configuration changes nothing. Maps and lists that lost all they had are null.
    pub(crate) object: Option<Value>,
    pub(crate) managers: Managers,
}

/// The managers of an object after a create, an update, a patch that is no apply, or a write of a subresource.
///
/// `old` is the object with its managers before the write, `new` the whole object that is to be stored, both without
/// `metadata.managedFields`. `sent` is what the writer sends as managed fields (never that of a subresource's writer), and
/// `ignored` what this resource takes from no writer, such as the status. As on a real server an object whose managers are
/// not known stays without until it is applied, and an object that does not fit its type loses them.
pub(crate) fn on_update(
    kind: &Kind<'_>,
    old: Option<(&Value, &Managers)>,
    new: &Value,
    sent: Option<Managers>,
    writer: &Writer<'_>,
    ignored: &Set,
) -> Managers {
    let managers = match (sent, old) {
        (Some(sent), _) => sent,
        (None, Some((_, managers))) => managers.clone(),
        (None, None) => Managers::default(),
    };
    let old = old.map_or(kind.empty, |(object, _)| object);
    let is_create = old.pointer("/metadata/uid").and_then(Value::as_str).is_none_or(str::is_empty);
    if managers.is_empty() && !is_create {
        return managers;
    }
    track(kind, old, new, &managers, writer, ignored).unwrap_or_default()
}

/// Merges a configuration into an object.
///
/// `live` is the object with its managers, `None` if it is to be created, and `config` what the request holds, which is
/// checked against the type of the kind.
///
/// # Errors
/// Conflicts with other managers unless `force` says otherwise, a configuration of another kind, or one that does not fit.
pub(crate) fn apply(
    kind: &Kind<'_>,
    live: Option<(&Value, &Managers)>,
    config: &Value,
    writer: &Writer<'_>,
    force: bool,
    ignored: &Set,
) -> Result<Applied, ApiError> {
    check_config(kind, config, writer)?;
    let none = Managers::default();
    let (live, managers) = live.unwrap_or((kind.empty, &none));
    let first;
    let managers = if managers.is_empty() {
        let before = Writer { manager: BEFORE_FIRST_APPLY, ..*writer };
        first = track(kind, kind.empty, live, managers, &before, ignored)
            .map_err(|why| internal(format!("failed to create manager for existing fields: {why}")))?;
        &first
    } else {
        managers
    };
    let applying = Applying::new(kind, live, managers, config, writer, ignored)?;
    let mut applied = match applying.run(force) {
        Ok(applied) => applied,
        Err(conflicts) if writer.manager == last_applied::KUBECTL => {
            let allowed =
                last_applied::unchanged_fields(kind.root(), live, writer.api_version).unwrap_or_default();
            let left: Vec<Conflict> = conflicts
                .into_iter()
                .map(|conflict| Conflict { fields: conflict.fields.difference(&allowed), ..conflict })
                .filter(|conflict| !conflict.fields.is_empty())
                .collect();
            if !left.is_empty() {
                return Err(conflict::error(left));
            }
            applying.run(true).map_err(conflict::error)?
        }
        Err(conflicts) => return Err(conflict::error(conflicts)),
    };
    if writer.manager == last_applied::KUBECTL {
        let mut object = applied.object.take();
        let was_unchanged = object.is_none();
        let followed = object.get_or_insert_with(|| live.clone());
        let changed = last_applied::follow(followed, config);
        applied.object = object.filter(|_| changed || !was_unchanged);
    }
    Ok(applied)
}

fn internal(message: String) -> ApiError {
    // Without a reason, as a real server.
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
}

/// `group/version, Kind=kind` of an object.
fn group_version_kind(object: &Value) -> String {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let version = text("apiVersion");
    let slash = if version.contains('/') { "" } else { "/" };
    format!("{slash}{version}, Kind={}", text("kind"))
}

/// An object as messages name it.
fn described(object: &Value) -> String {
    let text = |field: &str| object.pointer(field).and_then(Value::as_str).unwrap_or_default();
    format!("{}/{}; {}", text("/metadata/namespace"), text("/metadata/name"), group_version_kind(object))
}

fn check_config(kind: &Kind<'_>, config: &Value, writer: &Writer<'_>) -> Result<(), ApiError> {
    let has = |field: &str, wanted: &str| config.get(field).and_then(Value::as_str) == Some(wanted);
    if !has("apiVersion", writer.api_version) || !has("kind", kind.name) {
        return Err(ApiError::bad_request(format!("invalid object type: {}", group_version_kind(config))));
    }
    if config.pointer("/metadata/managedFields").is_some_and(Value::is_array) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    Ok(())
}

/// Fields that nobody owns: every object has them, or the server sets them.
fn unowned() -> &'static Set {
    static UNOWNED: LazyLock<Set> = LazyLock::new(|| {
        Set::of_fields(&[
            &["apiVersion"],
            &["kind"],
            &["metadata"],
            &["metadata", "name"],
            &["metadata", "namespace"],
            &["metadata", "creationTimestamp"],
            &["metadata", "selfLink"],
            &["metadata", "uid"],
            &["metadata", "clusterName"],
            &["metadata", "generation"],
            &["metadata", "managedFields"],
            &["metadata", "resourceVersion"],
        ])
    });
    &UNOWNED
}

/// The entries in the terms of the schema of today, without those of versions that are gone.
fn current(kind: &Kind<'_>, managers: &Managers) -> Vec<Entry> {
    // As many as the definition and the entries have.
    let served: HashSet<&str> = kind.served.iter().copied().collect();
    let served = managers.entries().iter().filter(|entry| served.contains(&*entry.api_version));
    let reconciled = served.map(|entry| {
        let fields = reconcile(kind.root(), &entry.fields).unwrap_or_else(|| entry.fields.clone());
        Entry { fields, ..entry.clone() }
    });
    reconciled.collect()
}

/// A real server converts objects to the version of each entry, and lets no duplicates pass then.
fn check_conversion(
    kind: &Kind<'_>,
    object: &Value,
    entries: &[Entry],
    writer: &Writer<'_>,
) -> Result<(), String> {
    match entries.iter().any(|entry| *entry.api_version != *writer.api_version) {
        true => check(kind.root(), object, Duplicates::Refused),
        false => Ok(()),
    }
}

/// What a write changes: as it counts for its writer, and for the entries of other versions.
struct Changes {
    version: Arc<str>,
    own: Comparison,
    own_written: Set,
    others: Others,
}

/// What a write changes for the entries of other versions.
enum Others {
    /// The same.
    Alike,
    /// The same in all of them: what is written, and all changes.
    One(Set, Comparison),
}

impl Changes {
    fn new(kind: &Kind<'_>, (old, new): (&Value, &Value), writer: &Writer<'_>, ignored: &Set) -> Self {
        let all = compare(kind.root(), old, new);
        let own = all.without(ignored);
        let others = match kind.ignores_alike || ignored.is_empty() {
            true => Others::Alike,
            false => Others::One(all.written(), all),
        };
        Self { version: writer.api_version.into(), own_written: own.written(), own, others }
    }

    /// The fields that count as written, and as removed, for an entry.
    fn of(&self, entry: &Entry) -> (&Set, &Set) {
        match &self.others {
            Others::One(written, changes) if entry.api_version != self.version => (written, &changes.removed),
            _ => (&self.own_written, &self.own.removed),
        }
    }
}

/// Takes from all entries but one what a write has set or removed; entries without fields are dropped.
fn release(entries: &mut Vec<Entry>, changes: &Changes, writer: Option<&Identity>) {
    for entry in entries.iter_mut().filter(|entry| Some(&entry.identity) != writer) {
        let (written, removed) = changes.of(entry);
        entry.fields = entry.fields.difference(written).difference(removed);
    }
    entries.retain(|entry| !entry.fields.is_empty());
}

/// The managers after a write that is no apply.
fn track(
    kind: &Kind<'_>,
    old: &Value,
    new: &Value,
    managers: &Managers,
    writer: &Writer<'_>,
    ignored: &Set,
) -> Result<Managers, String> {
    let root = kind.root();
    for (which, object) in [("new", new), ("live", old)].into_iter().filter(|_| !kind.is_decoded) {
        check(root, object, Duplicates::Allowed).map_err(|why| {
            format!("failed to convert {which} object ({}) to smd typed: {why}", described(object))
        })?;
    }
    let mut entries = current(kind, managers);
    for object in [old, new] {
        check_conversion(kind, object, &entries, writer)?;
    }
    let changes = Changes::new(kind, (old, new), writer, ignored);
    release(&mut entries, &changes, None);
    let own = changes.own_written.difference(unowned());
    if !own.is_empty() {
        let identity = writer.identity(Operation::Update);
        let time = Some(writer.now);
        match entries.iter_mut().find(|entry| entry.identity == identity) {
            Some(entry) => {
                entry.fields = entry.fields.union(&own);
                entry.time = time;
            }
            None => {
                entries.push(Entry { identity, api_version: writer.api_version.into(), time, fields: own });
            }
        }
    }
    cap(&mut entries);
    Ok(Managers::of(entries))
}

/// An apply request whose parts fit their types.
struct Applying<'a> {
    kind: Kind<'a>,
    live: &'a Value,
    /// Of all managers, the applier included.
    entries: Vec<Entry>,
    writer: &'a Writer<'a>,
    identity: Identity,
    ignored: &'a Set,
    /// What the applier has applied before.
    last: Set,
    last_version: Arc<str>,
    /// What it applies now.
    fields: Set,
    /// What is to be stored: merged, and then without what nobody owns any more.
    object: Value,
}

impl<'a> Applying<'a> {
    fn new(
        kind: &Kind<'a>,
        live: &'a Value,
        managers: &Managers,
        config: &Value,
        writer: &'a Writer<'a>,
        ignored: &'a Set,
    ) -> Result<Self, ApiError> {
        let root = kind.root();
        check(root, config, Duplicates::Refused).map_err(|why| {
            internal(format!("failed to create typed patch object ({}): {why}", described(config)))
        })?;
        check(root, live, Duplicates::Allowed).map_err(|why| {
            internal(format!("failed to create typed live object ({}): {why}", described(live)))
        })?;
        let mut entries = current(kind, managers);
        check_conversion(kind, live, &entries, writer).map_err(internal)?;
        let identity = writer.identity(Operation::Apply);
        let fields = fields::of(root, config).recursive_difference(ignored);
        let api_version: Arc<str> = writer.api_version.into();
        let mut last_version = api_version.clone();
        let last = match entries.iter_mut().find(|entry| entry.identity == identity) {
            Some(entry) => {
                last_version = std::mem::replace(&mut entry.api_version, api_version);
                std::mem::replace(&mut entry.fields, fields.clone())
            }
            None => {
                let (identity, fields) = (identity.clone(), fields.clone());
                entries.push(Entry { identity, api_version, time: None, fields });
                Set::default()
            }
        };
        let object = merge(root, live, config);
        let kind = *kind;
        let mut applying =
            Self { kind, live, entries, writer, identity, ignored, last, last_version, fields, object };
        if !applying.last.is_empty() {
            let pruned = applying.pruned();
            applying.object = pruned.map_err(|why| internal(format!("failed to prune fields: {why}")))?;
            if !kind.is_decoded {
                check_conversion(&kind, &applying.object, &applying.entries, writer)
                    .map_err(|why| internal(format!("failed to convert new object: {why}")))?;
            }
        }
        Ok(applying)
    }

    /// Looks for what keeps an object that has lost fields from another version. An element of a list whose fields are all
    /// gone is null, which no version of a custom object takes; a built-in one has an empty element then.
    fn check_pruned(&self, object: &Value, from: &str, version: &str) -> Result<(), String> {
        if self.kind.is_decoded || from == version {
            return Ok(());
        }
        check(self.kind.root(), object, Duplicates::Refused)
    }

    /// The merged object without what the applier has applied before, does not apply now, and nobody else owns; why it
    /// cannot be converted to a version on the way.
    fn pruned(&self) -> Result<Value, String> {
        let (root, merged) = (self.kind.root(), &self.object);
        let members = |object: &Value| with_parents(root, &fields::of(root, object));
        let of_merged = members(merged);
        let last = with_parents(root, &self.last);
        let mut pruned = remove(root, merged, &last);
        let mut pruned_in: &str = &self.last_version;
        // What others own comes back, and what the applier owns now: version by version, first that of the last apply.
        let mut versions: Vec<(&str, Vec<Set>)> = vec![(&self.last_version, Vec::new())];
        for entry in &self.entries {
            let place = versions.iter().position(|(version, _)| *version == &*entry.api_version);
            match place.or((versions.len() == MAX_VERSIONS).then_some(MAX_VERSIONS - 1)) {
                Some(place) => versions[place].1.push(entry.fields.clone()),
                None => versions.push((&entry.api_version, vec![entry.fields.clone()])),
            }
        }
        for (version, fields) in versions {
            let owned = with_parents(root, &Set::union_all(fields));
            self.check_pruned(&pruned, pruned_in, version).map_err(|why| {
                format!(
                    "failed add back owned items: failed to convert pruned object at version {version}: {why}"
                )
            })?;
            let kept = members(&pruned).union(&owned);
            pruned = remove(root, merged, &of_merged.difference(&kept));
            pruned_in = version;
        }
        // So does what was taken out with something that the applier owned, and nobody ever applied.
        self.check_pruned(&pruned, pruned_in, &self.last_version).map_err(|why| {
            format!("failed add back dangling items: failed to convert pruned object to last applied version: {why}")
        })?;
        let object = remove(root, merged, &of_merged.difference(&members(&pruned)).intersection(&last));
        self.check_pruned(&object, &self.last_version, self.writer.api_version)?;
        Ok(object)
    }

    fn run(&self, force: bool) -> Result<Applied, Vec<Conflict>> {
        let changes = Changes::new(&self.kind, (self.live, &self.object), self.writer, self.ignored);
        if !force {
            let others = self.entries.iter().filter(|entry| entry.identity != self.identity);
            let conflicts = others.map(|entry| Conflict {
                manager: entry.identity.clone(),
                fields: entry.fields.intersection(changes.of(entry).0),
            });
            let conflicts: Vec<Conflict> = conflicts.filter(|one| !one.fields.is_empty()).collect();
            if !conflicts.is_empty() {
                return Err(conflicts);
            }
        }
        let mut entries = self.entries.clone();
        release(&mut entries, &changes, Some(&self.identity));
        let is_changed = value::compare(self.live, &self.object).is_ne();
        if let Some(own) = entries.iter_mut().find(|entry| entry.identity == self.identity) {
            own.fields = self.fields.difference(unowned());
            if is_changed {
                own.time = Some(self.writer.now);
            }
        }
        entries.retain(|entry| !entry.fields.is_empty());
        Ok(Applied { object: is_changed.then(|| self.object.clone()), managers: Managers::of(entries) })
    }
}
