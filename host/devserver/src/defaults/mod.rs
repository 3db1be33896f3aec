//! Defaults of built-in kinds: the values that a server gives to absent fields as it reads an object.
//!
//! Most are facts of a generated table, `tables/defaults.json`: a field of a struct and its value, wherever the struct is.
//! `tests/controlplane/tables_defaults.go` says how they are found, and which fields depend on others; for these there are
//! [`Rule`]s, as for what changes when a server converts an object. A struct's rules come before its facts, since they see which fields were absent, and both before the structs
//! below it. Defaulting twice changes nothing more.
//!
//! What a server fills in later, when it stores an object, is in `kinds`.
//!
//! The object is in Go's form ([`crate::typed`]) with its empty values kept. The work is one step a value, and what is added
//! is in proportion to what is there.

mod converted;
mod images;
mod kinds;
mod network;
mod pods;
mod workloads;

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use crate::api::JsonMap;
use crate::protobuf::Shape;
use crate::typed::{StructId, Structs, is_empty};

/// Puts in the defaults that an object of a built-in kind lacks.
pub(crate) fn default(kind: StructId, object: &mut JsonMap) {
    Defaults::get().object(kind, object);
}

#[derive(Deserialize)]
struct Table {
    types: HashMap<String, BTreeMap<String, Value>>,
    /// Fields that rules must cover.
    #[cfg(test)]
    conditional: Vec<String>,
}

impl Table {
    fn parse() -> Self {
        // The table is part of the program and every test reads it.
        serde_json::from_str(include_str!("../tables/defaults.json"))
            .expect("tables/defaults.json is well formed")
    }
}

/// Defaults of a struct's fields that depend on other fields, or on where the struct is.
struct Rule {
    /// The struct whose objects it is applied to, as OpenAPI names it.
    on: &'static str,
    /// The fields that it gives a value to, by the table's names without what all begin with.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests compare it with the table"))]
    gives: &'static [&'static str],
    apply: fn(&mut JsonMap),
}

fn rules() -> impl Iterator<Item = &'static Rule> {
    [workloads::RULES, pods::RULES, network::RULES, kinds::RULES, converted::RULES].into_iter().flatten()
}

/// What is defaulted in a struct and below it.
#[derive(Default)]
struct Plan {
    rules: Vec<fn(&mut JsonMap)>,
    facts: Vec<(&'static str, &'static Shape, Value)>,
    /// The fields under which there are defaults.
    below: Vec<(&'static str, &'static Shape)>,
}

impl Plan {
    fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.facts.is_empty() && self.below.is_empty()
    }
}

struct Defaults(HashMap<StructId, Plan>);

impl Defaults {
    fn get() -> &'static Self {
        static DEFAULTS: LazyLock<Defaults> = LazyLock::new(|| Defaults::new(&Table::parse()));
        &DEFAULTS
    }

    fn new(table: &Table) -> Self {
        let structs = Structs::get();
        let mut plans: HashMap<StructId, Plan> = HashMap::new();
        for (id, found) in structs.iter() {
            let mut plan = Plan::default();
            let parts = found.inlined.iter().map(|inner| structs.of(*inner).name);
            for name in std::iter::once(found.name).chain(parts) {
                plan.rules.extend(rules().filter(|rule| rule.on == name).map(|rule| rule.apply));
                for (field, value) in table.types.get(name).into_iter().flatten() {
                    if let Some((name, known)) = found.fields.get_key_value(field.as_str()) {
                        plan.facts.push((name, known.shape, value.clone()));
                    }
                }
            }
            plans.insert(id, plan);
        }
        // Structs hold each other in circles: go on until nothing is found any more.
        loop {
            let mut has_grown = false;
            for (id, found) in structs.iter() {
                let below: Vec<_> = found
                    .fields
                    .iter()
                    .filter(|(_, field)| {
                        core(field.shape)
                            .and_then(|inner| plans.get(&inner))
                            .is_some_and(|plan| !plan.is_empty())
                    })
                    .map(|(name, field)| (*name, field.shape))
                    .collect();
                if let Some(plan) = plans.get_mut(&id)
                    && plan.below.len() != below.len()
                {
                    plan.below = below;
                    has_grown = true;
                }
            }
            if !has_grown {
                break;
            }
        }
        plans.retain(|_, plan| !plan.is_empty());
        Self(plans)
    }

    fn object(&self, id: StructId, object: &mut JsonMap) {
        let Some(plan) = self.0.get(&id) else { return };
        for rule in &plan.rules {
            rule(object);
        }
        for (name, shape, default) in &plan.facts {
            let lacks = object.get(*name).is_none_or(|value| match shape {
                Shape::Pointer(_) => value.is_null(),
                shape => is_empty(shape, value),
            });
            if lacks {
                object.insert((*name).to_owned(), default.clone());
            }
        }
        for (name, shape) in &plan.below {
            if let Some(value) = object.get_mut(*name) {
                self.value(shape, value);
            }
        }
    }

    fn value(&self, shape: &'static Shape, value: &mut Value) {
        match (shape, value) {
            (Shape::Message(index), Value::Object(object)) => self.object((*index).into(), object),
            (Shape::Pointer(inner) | Shape::Only(inner), value) => self.value(inner, value),
            (Shape::List(items), Value::Array(list)) => {
                list.iter_mut().for_each(|one| self.value(items, one));
            }
            (Shape::Map(entries), Value::Object(object)) => {
                object.values_mut().for_each(|one| self.value(entries, one));
            }
            _ => {}
        }
    }
}

/// The struct at the core of a shape.
fn core(shape: &Shape) -> Option<StructId> {
    match shape {
        Shape::Message(index) => Some((*index).into()),
        Shape::Pointer(inner) | Shape::Only(inner) | Shape::List(inner) | Shape::Map(inner) => core(inner),
        _ => None,
    }
}

/// The text of a field; empty if it has none.
fn text<'a>(object: &'a JsonMap, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn lacks(object: &JsonMap, field: &str) -> bool {
    object.get(field).is_none_or(Value::is_null)
}

/// Whether a list or a map is absent or has nothing in it.
fn has_none(object: &JsonMap, field: &str) -> bool {
    match object.get(field) {
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::Object(object)) => object.is_empty(),
        other => other.is_none_or(Value::is_null),
    }
}

fn set(object: &mut JsonMap, field: &str, value: impl Into<Value>) {
    object.insert(field.to_owned(), value.into());
}

/// Sets a field that is absent.
fn give(object: &mut JsonMap, field: &str, value: impl Into<Value>) {
    if lacks(object, field) {
        set(object, field, value);
    }
}

/// The object in a field, if there is one.
fn part<'a>(object: &'a mut JsonMap, field: &str) -> Option<&'a mut JsonMap> {
    object.get_mut(field).and_then(Value::as_object_mut)
}

/// The object in a field, which is made if it is absent.
fn made<'a>(object: &'a mut JsonMap, field: &str) -> Option<&'a mut JsonMap> {
    give(object, field, JsonMap::new());
    part(object, field)
}

/// The objects in the list in a field.
fn each<'a>(object: &'a mut JsonMap, field: &str) -> impl Iterator<Item = &'a mut JsonMap> {
    object.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

#[cfg(test)]
mod tests;
