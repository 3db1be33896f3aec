//! Schemas: what the API knows of the fields of a kind.
//!
//! ```text
//! a definition is written:  openAPIV3Schema ─► structural, openapi (may it be served?) ─► compile ─► Types
//! an object is written:     body ─► strict (duplicates) ─► prune ─► default ─► … the verb … ─► validate
//! ```
//!
//! [`Types`] is the one model, of custom resources and of built-in kinds; `builtin` fills it from a generated table. A
//! [`Schema`] is made when a definition is written and is held by its resource.
//!
//! Both sides of every check come from clients. Depth is bounded by the decoders of JSON, YAML and protobuf and by
//! [`structural::MAX_DEPTH`], work by a [`Budget`] an object, regular expressions by their number of states,
//! defaults by a [`DefaultsLimit`], and messages by their number and length.

mod budget;
mod builtin;
mod causes;
mod compile;
mod decode;
mod default;
mod embedded;
mod formats;
mod lists;
mod numbers;
mod openapi;
mod pattern;
mod prune;
mod strict;
mod structural;
mod types;
mod validate;

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use serde_json::Value;

use crate::api::{Cause, JsonMap};
use causes::Path;
use pattern::Patterns;

pub(crate) use budget::Budget;
pub(crate) use builtin::{BUILTIN_TABLE, BuiltinTable, BuiltinTypes, FieldText, attribute};
pub(crate) use causes::{Causes, clipped, invalid, shown};
pub(crate) use decode::unreadable_keyword;
pub(crate) use default::{DefaultsLimit, Nulls, TooManyDefaults};
pub(crate) use formats::is_go_duration;
pub(crate) use strict::{duplicate_fields, faults_of_text};
pub(crate) use structural::MAX_DEPTH;
pub(crate) use types::{Entries, Field, Kind, ListKind, Type, TypeId, Types};

const TOO_MANY_PATTERNS: &str = "the regular expressions of the schema are too large together";
const TOO_DEEP: &str = "the schema is nested too deeply";
const TOO_COSTLY: &str = "the object costs too much to be validated against its schema";

/// How many schemas are kept between the check of a definition and its serving.
const RECENT: usize = 8;

/// The schema of one version of a custom resource, compiled.
#[derive(Debug)]
pub(crate) struct Schema {
    types: Types,
    root: TypeId,
    fingerprint: u64,
    embeds_resources: bool,
}

/// What is to be said of a schema that can be served.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SchemaNotes {
    /// It has rules in CEL, which this server does not run.
    pub(crate) has_rules: bool,
    /// Formats in it that have no effect.
    pub(crate) unrecognized_formats: Vec<String>,
}

impl Schema {
    /// Whether an `openAPIV3Schema`, which stands at `path`, can be served. The budget is for its defaults.
    ///
    /// # Errors
    /// What a server has against it.
    pub(crate) fn check(
        schema: &JsonMap,
        path: &str,
        budget: &mut Budget,
    ) -> Result<SchemaNotes, Vec<Cause>> {
        let mut patterns = Patterns::default();
        let mut causes = structural::check(schema, path, &mut patterns);
        let is_structural = causes.is_empty();
        let checked = openapi::check(schema, path);
        let is_known = checked.causes.is_empty();
        causes.append(checked.causes);
        if !(is_structural && is_known) {
            return Err(causes.into_vec());
        }
        let compiled =
            Self::with(schema, &mut patterns).map_err(|why| vec![Cause::invalid(path, "", why)])?;
        let mut check =
            DefaultCheck { types: &compiled.types, path: Path::new(path), budget, causes: Causes::default() };
        check.schema(schema, compiled.root);
        if check.budget.is_spent() {
            check.causes.add(Cause::invalid(
                path,
                "",
                "the defaults of the schema cost too much to be validated",
            ));
        }
        if !check.causes.is_empty() {
            return Err(check.causes.into_vec());
        }
        let mut recent = recent().lock();
        if recent.len() >= RECENT {
            recent.pop_front();
        }
        recent.push_back(Arc::new(compiled));
        Ok(checked.notes)
    }

    /// Compiles a schema that [`Schema::check`] has let pass; one that was checked just before is compiled already.
    ///
    /// # Errors
    /// Why it is too large.
    pub(crate) fn compile(schema: &JsonMap) -> Result<Arc<Self>, &'static str> {
        let wanted = fingerprint(schema);
        let mut recent = recent().lock();
        if let Some(at) = recent.iter().position(|one| one.fingerprint == wanted)
            && let Some(found) = recent.remove(at)
        {
            return Ok(found);
        }
        drop(recent);
        Self::with(schema, &mut Patterns::default()).map(Arc::new)
    }

    fn with<'a>(schema: &'a JsonMap, patterns: &mut Patterns<'a>) -> Result<Self, &'static str> {
        let (types, root) = compile::compile(schema, patterns).map_err(|why| match why {
            compile::TooLarge::Patterns => TOO_MANY_PATTERNS,
            compile::TooLarge::Depth => TOO_DEEP,
        })?;
        let embeds_resources = types.embed_resources();
        Ok(Self { types, root, fingerprint: fingerprint(schema), embeds_resources })
    }

    /// The types, and that of the object.
    pub(crate) fn types(&self) -> (&Types, TypeId) {
        (&self.types, self.root)
    }

    /// The [`fingerprint`] of what it was compiled from.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Drops the fields that the schema does not name, also of `metadata`; gives their paths.
    pub(crate) fn prune(&self, object: &mut JsonMap) -> Vec<String> {
        prune::prune(&self.types, self.root, object)
    }

    /// Puts in the defaults that an object lacks.
    pub(crate) fn default(
        &self,
        object: &mut JsonMap,
        limit: &mut DefaultsLimit,
    ) -> Result<(), TooManyDefaults> {
        self.default_with(object, Nulls::Dropped, limit)
    }

    /// As [`Schema::default`].
    pub(crate) fn default_with(
        &self,
        object: &mut JsonMap,
        nulls: Nulls,
        limit: &mut DefaultsLimit,
    ) -> Result<(), TooManyDefaults> {
        default::default(&self.types, self.root, object, nulls, limit)
    }

    /// What is wrong with the values of an object; with `old`, which it replaces, only what has changed.
    pub(crate) fn validate(&self, object: &Value, old: Option<&JsonMap>, budget: &mut Budget) -> Vec<Cause> {
        let whole_old = || old.map(|old| Value::Object(old.clone()));
        self.violations(self.root, "", object, whole_old, budget).into_vec()
    }

    /// What is wrong with the status of an object, which alone is being written.
    pub(crate) fn validate_status(&self, object: &Value, old: &JsonMap, budget: &mut Budget) -> Vec<Cause> {
        let field = self.types.get(self.root).fields.get("status");
        let causes = match (object.get("status"), field) {
            (Some(status), Some(field)) => {
                self.violations(field.value_type, "status", status, || old.get("status").cloned(), budget)
            }
            _ => Causes::default(),
        };
        causes.into_vec()
    }

    /// What is wrong with an object beside its values: with the resources in it, and with its sets and lists with keys. An
    /// object that had wrong lists before may keep and get some. Comes after [`Schema::validate`], as on a real server.
    pub(crate) fn validate_structure(
        &self,
        object: &Value,
        old: Option<&JsonMap>,
        budget: &mut Budget,
    ) -> Vec<Cause> {
        let (Some(object), false) = (object.as_object(), budget.is_spent()) else { return Vec::new() };
        let mut causes = match self.embeds_resources {
            true => embedded::check_embedded(&self.types, self.root, object, budget),
            false => Causes::default(),
        };
        let lists = lists::check_lists(&self.types, self.root, object, budget);
        let excuses = |old: &JsonMap, budget: &mut Budget| {
            !lists::check_lists(&self.types, self.root, old, budget).is_empty()
        };
        if !lists.is_empty() && !old.is_some_and(|old| excuses(old, budget)) {
            causes.append(lists);
        }
        Self::with_cost(causes, "", budget).into_vec()
    }

    /// `old` is asked for only if something is wrong.
    fn violations(
        &self,
        id: TypeId,
        prefix: &str,
        value: &Value,
        old: impl FnOnce() -> Option<Value>,
        budget: &mut Budget,
    ) -> Causes {
        let mut causes = validate::validate(&self.types, id, prefix, value, None, budget);
        if !causes.is_empty()
            && let Some(old) = old()
        {
            causes = validate::validate(&self.types, id, prefix, value, Some(&old), budget);
        }
        Self::with_cost(causes, prefix, budget)
    }

    /// Says first that not all was looked at, if it was not.
    fn with_cost(found: Causes, prefix: &str, budget: &Budget) -> Causes {
        if !budget.is_spent() {
            return found;
        }
        let mut causes = Causes::default();
        causes.add(Cause::invalid(prefix, "", TOO_COSTLY));
        causes.append(found);
        causes
    }
}

/// The schemas that were checked last: their definitions are about to be served.
fn recent() -> &'static Mutex<VecDeque<Arc<Schema>>> {
    static CHECKED: LazyLock<Mutex<VecDeque<Arc<Schema>>>> = LazyLock::new(Mutex::default);
    &CHECKED
}

/// Defaults of a schema that it would itself prune or refuse.
struct DefaultCheck<'a> {
    types: &'a Types,
    path: Path,
    /// One for all defaults.
    budget: &'a mut Budget,
    causes: Causes,
}

impl DefaultCheck<'_> {
    fn schema(&mut self, schema: &JsonMap, id: TypeId) {
        let types = self.types;
        let found = types.get(id);
        if let Some(default) = &found.default {
            let field = self.path.of("default");
            let mut pruned = default.clone();
            prune::prune_part(types, id, &field, &mut pruned);
            if pruned != *default {
                self.causes.add(causes::invalid(field.as_str(), default, "must not have unknown fields"));
            }
            self.causes.append(validate::validate(types, id, &field, default, None, self.budget));
        }
        // Maps are left out: which entries an object will have is not known.
        if let (Some(items), Some(Value::Object(schema))) = (found.items, schema.get("items")) {
            let mark = self.path.field("items");
            self.schema(schema, items);
            self.path.back(&mark);
        }
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if self.causes.is_full() || self.budget.is_spent() {
                return;
            }
            if let (Some(field), Value::Object(schema)) = (found.fields.get(name.as_str()), property) {
                let mark = self.path.entry("properties", name);
                self.schema(schema, field.value_type);
                self.path.back(&mark);
            }
        }
    }
}

/// A hash of a schema, by which equal ones are known; its keys are made at random, so that nobody can look for two schemas
/// of the same.
pub(crate) fn fingerprint(schema: &JsonMap) -> u64 {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    KEYS.hash_one(schema)
}

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod tests;
