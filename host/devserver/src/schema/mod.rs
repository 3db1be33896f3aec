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
//! [`structural::MAX_DEPTH`], work by a [`budget::Budget`] an object, regular expressions by their number of states, and
//! defaults and messages by their number and length.

mod budget;
mod builtin;
mod causes;
mod compile;
mod default;
mod formats;
mod openapi;
mod pattern;
mod prune;
mod strict;
mod structural;
mod types;
mod validate;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

use serde_json::Value;

use crate::api::{Cause, JsonMap};
use budget::Budget;
use causes::{Causes, Path};

pub(crate) use builtin::{BUILTIN_TABLE, BuiltinTable, BuiltinTypes, FieldText, attribute};
pub(crate) use causes::invalid;
pub(crate) use default::TooManyDefaults;
pub(crate) use strict::duplicate_fields;
pub(crate) use structural::MAX_DEPTH;
pub(crate) use types::{Entries, Field, Kind, ListKind, Type, TypeId, Types};

/// The schema of one version of a custom resource, compiled.
#[derive(Debug)]
pub(crate) struct Schema {
    types: Types,
    root: TypeId,
    fingerprint: u64,
}

impl Schema {
    /// Whether an `openAPIV3Schema`, which stands at `path`, can be served; gives whether it has rules in CEL, which this
    /// server does not run.
    ///
    /// # Errors
    /// What a server has against it.
    pub(crate) fn check(schema: &JsonMap, path: &str) -> Result<bool, Vec<Cause>> {
        let mut causes = structural::check(schema, path);
        let is_structural = causes.is_empty();
        let checked = openapi::check(schema, path);
        let is_known = checked.causes.is_empty();
        causes.append(checked.causes);
        if !(is_structural && is_known) {
            return Err(causes.into_vec());
        }
        let compiled = Self::compile(schema).map_err(|why| vec![Cause::invalid(path, "", why)])?;
        let mut check = DefaultCheck {
            types: &compiled.types,
            path: Path::new(path),
            budget: Budget::new(),
            causes: Causes::default(),
        };
        check.schema(schema, compiled.root);
        if !check.causes.is_empty() {
            return Err(check.causes.into_vec());
        }
        Ok(checked.has_rules)
    }

    /// Compiles a schema that [`Schema::check`] has let pass.
    ///
    /// # Errors
    /// Why it is too large.
    pub(crate) fn compile(schema: &JsonMap) -> Result<Self, &'static str> {
        let (types, root) = compile::compile(schema).map_err(|why| match why {
            compile::TooLarge::Patterns => "the regular expressions of the schema are too large together",
            compile::TooLarge::Depth => "the schema is nested too deeply",
        })?;
        Ok(Self { types, root, fingerprint: fingerprint(schema) })
    }

    /// The types, and that of the object.
    #[allow(dead_code, reason = "for server-side apply, which the verbs do not call yet")]
    pub(crate) fn types(&self) -> (&Types, TypeId) {
        (&self.types, self.root)
    }

    /// The [`fingerprint`] of what it was compiled from.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Drops the fields that the schema does not name, also of `metadata`; gives their paths.
    pub(crate) fn prune(&self, object: &mut JsonMap) -> Vec<String> {
        let mut dropped = match object.get_mut("metadata") {
            Some(metadata) => BuiltinTypes::get().prune_metadata("metadata", metadata),
            None => Vec::new(),
        };
        dropped.extend(prune::prune(&self.types, self.root, object));
        dropped
    }

    /// Puts in the defaults that an object lacks.
    pub(crate) fn default(&self, object: &mut JsonMap) -> Result<(), TooManyDefaults> {
        default::default(&self.types, self.root, object)
    }

    /// What is wrong with an object; with `old`, which it replaces, only what has changed.
    pub(crate) fn validate(&self, object: &Value, old: Option<&JsonMap>) -> Vec<Cause> {
        let whole_old = || old.map(|old| Value::Object(old.clone()));
        let mut causes = self.violations(self.root, "", object, whole_old);
        causes.append(self.wrong_lists(object, old));
        causes.into_vec()
    }

    /// What is wrong with the status of an object, which alone is being written.
    pub(crate) fn validate_status(&self, object: &Value, old: &JsonMap) -> Vec<Cause> {
        let field = self.types.get(self.root).fields.get("status");
        let mut causes = match (object.get("status"), field) {
            (Some(status), Some(field)) => {
                self.violations(field.value_type, "status", status, || old.get("status").cloned())
            }
            _ => Causes::default(),
        };
        causes.append(self.wrong_lists(object, Some(old)));
        causes.into_vec()
    }

    /// `old` is asked for only if something is wrong.
    fn violations(
        &self,
        id: TypeId,
        prefix: &str,
        value: &Value,
        old: impl FnOnce() -> Option<Value>,
    ) -> Causes {
        let causes = validate::validate(&self.types, id, prefix, value, &mut Budget::new());
        if causes.is_empty() {
            return causes;
        }
        match old() {
            Some(old) => validate::validate_change(&self.types, id, prefix, value, &old, &mut Budget::new()),
            None => causes,
        }
    }

    /// Lists that are not what their type says; an object that had such lists before may keep and get some.
    fn wrong_lists(&self, object: &Value, old: Option<&JsonMap>) -> Causes {
        let wrong = |object: &JsonMap| validate::check_lists(&self.types, self.root, object);
        let causes = object.as_object().map(wrong).unwrap_or_default();
        if !causes.is_empty() && old.is_some_and(|old| !wrong(old).is_empty()) {
            return Causes::default();
        }
        causes
    }
}

/// Defaults of a schema that it would itself prune or refuse.
struct DefaultCheck<'a> {
    types: &'a Types,
    path: Path,
    /// One for all defaults.
    budget: Budget,
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
            self.causes.append(validate::validate(types, id, &field, default, &mut self.budget));
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
mod tests;
