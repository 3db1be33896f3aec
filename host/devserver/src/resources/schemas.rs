//! What schemas do to objects: as they come in, before they are stored, and as they are read.
//!
//! A custom object is pruned, defaulted and validated by the version it comes in, and then pruned and defaulted by the
//! version it is stored in. A read in another version drops what that one does not know; its defaults do not appear, as on a
//! real server. If a definition has changed since, a read prunes and defaults what was stored before.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;

use super::{Definition, Origin, Resource, ScalePaths, sizes};
use crate::api::{ApiError, Cause, JsonMap};
use crate::defaults;
use crate::kinds::Content;
use crate::schema::{
    Budget, BuiltinTypes, DefaultsLimit, Nulls, Schema, TooManyDefaults, unreadable_keyword,
};
use crate::typed::{self, Empties, Structs};
use crate::validation;

/// The schemas of one version of a custom resource.
#[derive(Debug, Clone)]
pub(crate) struct VersionSchemas {
    pub(crate) own: Arc<Schema>,
    /// Of the version in which objects are stored; the same as `own` if both are equal.
    pub(super) stored: Arc<Schema>,
    /// Objects may have been stored by another schema.
    pub(super) has_changed: bool,
}

/// What of an object is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WrittenPart {
    Object,
    Status,
}

/// What came of the last look at an object that is to be stored.
#[derive(Debug, Default)]
pub(crate) struct Review {
    pub(crate) causes: Vec<Cause>,
    pub(crate) warnings: Vec<String>,
}

/// How many warnings of one kind are given.
const MAX_WARNINGS: usize = 100;
const TOO_LARGE: &str = "the defaults of the schema would make the object too large";

impl Resource {
    /// Drops the fields of an object that its kind does not have, gives their paths, and puts in the defaults of a custom
    /// resource's schema.
    pub(crate) fn admit(&self, object: &mut JsonMap) -> Result<Vec<String>, ApiError> {
        self.admit_with(object, Nulls::Dropped)
    }

    /// As [`Resource::admit`], for what an apply has made: nulls in a custom object stay, and are refused.
    pub(crate) fn admit_applied(&self, object: &mut JsonMap) -> Result<Vec<String>, ApiError> {
        self.admit_with(object, Nulls::Kept)
    }

    fn admit_with(&self, object: &mut JsonMap, nulls: Nulls) -> Result<Vec<String>, ApiError> {
        let Origin::Custom { schemas, .. } = &self.origin else {
            if self.strategy.content == Content::Defined
                && let Some(why) = unreadable_keyword(object)
            {
                let (kind, version) = (&self.kind, &self.version);
                let why = format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}");
                return Err(ApiError::bad_request(why));
            }
            let dropped =
                admit_builtin(&self.api_version(), &self.kind, object).map_err(ApiError::bad_request)?;
            sizes::check_object(object)?;
            return Ok(dropped);
        };
        let dropped = schemas.own.prune(object);
        settle_metadata(object).map_err(|why| {
            let (kind, version) = (&self.kind, &self.version);
            ApiError::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
            ))
        })?;
        let defaulted = schemas.own.default_with(object, nulls, &mut DefaultsLimit::default());
        defaulted.map_err(|TooManyDefaults| {
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", TOO_LARGE)
        })?;
        sizes::check_object(object)?;
        Ok(dropped)
    }

    /// Validates an object that is complete, and brings it to the form in which it is stored; `old` is the stored form of
    /// the one that it replaces.
    pub(crate) fn review(&self, object: &mut JsonMap, old: Option<&JsonMap>, part: WrittenPart) -> Review {
        let mut review = match &self.origin {
            Origin::Builtin if self.strategy.content != Content::Defined => {
                let causes = match part {
                    WrittenPart::Object => validation::validate(self, object, old),
                    WrittenPart::Status => validation::validate_status(self, object, old),
                };
                Review { causes, warnings: Vec::new() }
            }
            _ => {
                let whole = Value::Object(std::mem::take(object));
                let review = self.review_whole(&whole, old, part);
                if let Value::Object(whole) = whole {
                    *object = whole;
                }
                review
            }
        };
        if let Origin::Custom { schemas, .. } = &self.origin
            && review.causes.is_empty()
            && schemas.to_stored(object).is_err()
        {
            review.causes.push(Cause::forbidden("", TOO_LARGE));
        }
        if matches!(self.origin, Origin::Builtin) {
            // Definitions are stored as JSON.
            let is_json = self.strategy.content == Content::Defined;
            self.settle(object, if is_json { Empties::Dropped } else { Empties::Stored });
        }
        review
    }

    /// What there is to say of a custom object or a definition.
    fn review_whole(&self, whole: &Value, old: Option<&JsonMap>, part: WrittenPart) -> Review {
        let Origin::Custom { schemas, scale, .. } = &self.origin else {
            return match part {
                WrittenPart::Object => review_definition(whole, old),
                WrittenPart::Status => Review::default(),
            };
        };
        let old = old.map(|old| self.as_read(old));
        let mut review = schemas.own.review(whole, old.as_deref(), part, scale.as_ref());
        if part == WrittenPart::Object {
            review.warnings.extend(new_finalizer_warnings(whole, old.as_deref()));
        }
        review
    }

    /// The [`fingerprint`](crate::schema::fingerprint) of a custom resource's own schema.
    pub(crate) fn schema_fingerprint(&self) -> Option<u64> {
        match &self.origin {
            Origin::Custom { schemas, .. } => Some(schemas.own.fingerprint()),
            Origin::Builtin => None,
        }
    }

    /// Brings a built-in object to Go's form again: a verb may have taken its status away, where Go always has one.
    fn settle(&self, object: &mut JsonMap, empties: Empties) {
        let (api_version, kind) = self.stored_kind();
        if let Some(id) = Structs::get().of_kind(&api_version, kind) {
            // What the verb has put in is of the right types.
            let _ = typed::read(id, object, empties);
        }
    }

    /// The version and kind in which objects are stored: as they come, with few exceptions.
    fn stored_kind(&self) -> (String, &str) {
        match (self.group.as_str(), self.name.as_str()) {
            ("events.k8s.io", "events") => ("v1".to_owned(), "Event"),
            _ => (self.api_version(), &self.kind),
        }
    }

    /// A stored object as this version shows it: what a new state of it is compared with. A definition may have gained a
    /// default since it was stored, and this version may lack some of its fields.
    pub(crate) fn as_read<'a>(&self, stored: &'a JsonMap) -> Cow<'a, JsonMap> {
        if !self.is_converted_by_schema() {
            return Cow::Borrowed(stored);
        }
        let mut read = stored.clone();
        self.convert_by_schema(&mut read, &mut DefaultsLimit::default());
        Cow::Owned(read)
    }

    /// Whether stored objects of a custom resource are read otherwise than they were stored.
    pub(crate) fn is_converted_by_schema(&self) -> bool {
        match &self.origin {
            Origin::Custom { schemas, .. } => {
                schemas.has_changed || !Arc::ptr_eq(&schemas.own, &schemas.stored)
            }
            Origin::Builtin => false,
        }
    }

    /// From the stored form of a custom object to that of this version. `limit` is that of all objects of an answer; an object
    /// whose own defaults are too many is shown with those that it got.
    pub(crate) fn convert_by_schema(&self, object: &mut JsonMap, limit: &mut DefaultsLimit) {
        let Origin::Custom { schemas, .. } = &self.origin else { return };
        if schemas.has_changed {
            schemas.stored.prune(object);
            limit.with_object(|limit| {
                let _ = schemas.stored.default(object, limit);
            });
        }
        if !Arc::ptr_eq(&schemas.own, &schemas.stored) {
            schemas.own.prune(object);
        }
    }
}

/// Drops the unknown fields of an object of a built-in kind, gives their paths, and brings the others to the form that they
/// have after a server has read them, with their defaults.
///
/// # Errors
/// The message about a value that is not of its field's type.
fn admit_builtin(api_version: &str, kind: &str, object: &mut JsonMap) -> Result<Vec<String>, String> {
    let types = BuiltinTypes::get();
    let dropped = types.of_kind(api_version, kind).map(|id| types.prune(id, object)).unwrap_or_default();
    if let Some(id) = Structs::get().of_kind(api_version, kind) {
        let refused = |why| {
            let version = api_version.rsplit('/').next().unwrap_or_default();
            format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}")
        };
        if sizes::has_too_many_parts(object) {
            return Err(refused(format!("it has more than {} objects in it", sizes::PARTS)));
        }
        typed::read(id, object, Empties::Kept).map_err(refused)?;
        defaults::default(id, object);
        typed::read(id, object, Empties::Dropped).map_err(refused)?;
    }
    Ok(dropped)
}

/// Drops what is empty in the metadata of a custom object, as the server reads it as a struct.
fn settle_metadata(object: &mut JsonMap) -> Result<(), String> {
    match (object.get_mut("metadata"), Structs::get().of_metadata()) {
        (Some(Value::Object(metadata)), Some(id)) => typed::read(id, metadata, Empties::Dropped),
        _ => Ok(()),
    }
}

/// Brings an object of a built-in kind to the form that it has after a server has read it: without unknown fields, each value
/// in its canonical form, with the defaults of its kind. What a server fills in as it stores an object is not among them.
///
/// An object without `apiVersion` and `kind`, or of another kind, stays as it is.
///
/// # Errors
/// The server's message if a value is not of its field's type.
#[cfg(feature = "testing")]
pub fn read_builtin(object: &mut serde_json::Map<String, Value>) -> Result<(), String> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    admit_builtin(&text("apiVersion"), &text("kind"), object).map(drop)
}

/// What is to be said of finalizers that an object gets and whose names belong to nobody.
fn new_finalizer_warnings(object: &Value, old: Option<&JsonMap>) -> Vec<String> {
    let finalizers = |metadata: Option<&Value>| -> BTreeSet<String> {
        let list = metadata.and_then(|metadata| metadata.get("finalizers")).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let had = finalizers(old.and_then(|old| old.get("metadata")));
    let has = finalizers(object.get("metadata"));
    let is_known = |name: &str| matches!(name, "orphan" | "foregroundDeletion" | "kubernetes");
    has.difference(&had)
        .filter(|name| !name.contains('/') && !is_known(name))
        .take(MAX_WARNINGS)
        .map(|name| {
            let path = if name.contains('.') { " including a path (/)" } else { "" };
            format!(
                "metadata.finalizers: {}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with \
                 other finalizer writers",
                Value::from(name.as_str())
            )
        })
        .collect()
}

/// What is to be said of a definition that is written; one that cannot be read is refused when it is served.
fn review_definition(object: &Value, old: Option<&JsonMap>) -> Review {
    Definition::read(object).map(|definition| definition.review(object, old)).unwrap_or_default()
}

impl VersionSchemas {
    fn to_stored(&self, object: &mut JsonMap) -> Result<(), TooManyDefaults> {
        if !Arc::ptr_eq(&self.own, &self.stored) {
            self.stored.prune(object);
        }
        // Also what the verb has taken away since the object came in: a status, which a read would default anyway.
        self.stored.default(object, &mut DefaultsLimit::default())
    }
}

impl Schema {
    fn review(
        &self,
        whole: &Value,
        old: Option<&JsonMap>,
        part: WrittenPart,
        scale: Option<&ScalePaths>,
    ) -> Review {
        let mut budget = Budget::new();
        let mut causes = match (part, old) {
            (WrittenPart::Status, Some(old)) => self.validate_status(whole, old, &mut budget),
            (_, old) => self.validate(whole, old, &mut budget),
        };
        causes.extend(scale.into_iter().flat_map(|scale| scale.faults(whole, part)));
        causes.extend(self.validate_structure(whole, old, &mut budget));
        Review { causes, warnings: Vec::new() }
    }
}

#[cfg(test)]
#[path = "schemas_tests.rs"]
mod tests;
