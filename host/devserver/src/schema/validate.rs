//! Validation of objects against their schema, with the words and the paths of the API.
//!
//! A path in a message begins at the value that is validated; with a prefix the field that is blamed begins before it, as the
//! status is validated on its own. Work is bounded by a [`Budget`], which is charged for every value, byte and cause that is
//! looked at, the list of causes by itself, and the recursion is as deep as the object and its schema.

use std::collections::HashMap;

use serde_json::Value;

use super::budget::Budget;
use super::causes::{Causes, Path, clipped, invalid, not_supported, too_long, too_many, type_invalid};
use super::lists::{ElementKey, element_key};
use super::numbers;
use super::types::{Entries, Kind, ListKind, Rules, Type, TypeId, Types};
use crate::api::{Cause, JsonMap};

/// What a cause costs that is written: often it is thrown away, since another alternative fits.
const STEPS_A_CAUSE: u64 = 32;

/// What is wrong with a value; with the one that it replaces, what was not wrong with that: parts that have not changed are
/// not looked at. Nothing is said of what a spent budget left out.
pub(super) fn validate<'a>(
    types: &'a Types,
    root: TypeId,
    prefix: &'a str,
    value: &'a Value,
    old: Option<&'a Value>,
    budget: &'a mut Budget,
) -> Causes {
    Validation { types, prefix, path: Path::default(), budget }.value(types.get(root), value, old).causes
}

struct Validation<'a> {
    types: &'a Types,
    prefix: &'a str,
    path: Path,
    budget: &'a mut Budget,
}

/// What came of a value.
#[derive(Default)]
struct Found {
    causes: Causes,
    /// How much was looked at: of several alternatives that fail, the causes of the one that went furthest are told.
    checks: u64,
}

impl Found {
    fn append(&mut self, other: Self) {
        self.causes.append(other.causes);
        self.checks += other.checks;
    }
}

impl<'a> Validation<'a> {
    /// The field to be blamed.
    fn field(&self) -> String {
        match (self.prefix, self.path.as_str()) {
            ("", path) => path.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, path) => format!("{prefix}.{path}"),
        }
    }

    fn field_of(&self, name: &str) -> String {
        let path = self.path.of(name);
        if self.prefix.is_empty() { path } else { format!("{}.{path}", self.prefix) }
    }

    /// `spec.size in body should …`
    fn detail(&self, should: impl std::fmt::Display) -> String {
        format!("{} in body {should}", self.path.as_str())
    }

    fn invalid(&self, value: &Value, should: impl std::fmt::Display) -> Cause {
        invalid(self.field(), value, &self.detail(should))
    }

    /// What names the object as a whole, for causes that a server gives no field.
    fn root(&self) -> String {
        if self.prefix.is_empty() { "<nil>".to_owned() } else { self.prefix.to_owned() }
    }

    fn is_done(&self, found: &Found) -> bool {
        found.causes.is_full() || self.budget.is_spent()
    }

    fn value(&mut self, value_type: &'a Type, value: &'a Value, old: Option<&'a Value>) -> Found {
        let mut found = Found { causes: Causes::default(), checks: 2 };
        if old.is_some_and(|old| self.budget.are_equal(old, value)) || !self.budget.spend(1) {
            return found;
        }
        self.kind_of(value_type, value, &mut found);
        let rules = value_type.rules.as_deref();
        if let Some(rules) = rules.filter(|_| !value.is_null()) {
            self.junctors(rules, value, old, &mut found);
            match value {
                Value::String(text) => self.text(rules, value, text, &mut found),
                Value::Array(list) => self.length(rules, list.len(), &mut found),
                _ => {}
            }
        }
        if let Value::Number(number) = value {
            self.number(value_type, rules, value, number, &mut found);
        }
        if let Some(rules) = rules {
            self.allowed(rules, value, &mut found);
            if let Value::Object(object) = value {
                self.size(rules, object, &mut found);
            }
        }
        let required = rules.map(|rules| &rules.required[..]).unwrap_or_default();
        self.children(value_type, required, value, old, &mut found);
        self.budget.spend(1 + STEPS_A_CAUSE * found.causes.len() as u64);
        found
    }

    fn kind_of(&self, value_type: &Type, value: &Value, found: &mut Found) {
        let kind = value_type.kind;
        let format = value_type.rules.as_ref().and_then(|rules| rules.format.as_ref());
        if kind == Kind::Any && format.is_none() {
            return;
        }
        found.checks += 1;
        // The type, and the format that a server gives numbers.
        let (given, given_format) = match value {
            Value::Null if value_type.nullable || kind == Kind::Any => return,
            Value::Null => ("null", ""),
            Value::Bool(_) => ("boolean", ""),
            Value::Number(number) if number.is_i64() => ("integer", "int64"),
            Value::Number(_) => ("number", "float64"),
            Value::String(_) => ("string", ""),
            Value::Array(_) => ("array", ""),
            Value::Object(_) => ("object", ""),
        };
        let is_one_of_the_kinds = match kind {
            Kind::IntOrString => given == "string" || numbers::is_whole(value),
            Kind::Integer => numbers::is_whole(value),
            Kind::Number => value.is_number(),
            kind => given == kind.name(),
        };
        let mut blame = |kind: &str, given: &str| {
            let should = format!("must be of type {kind}: {given:?}");
            found.causes.add(type_invalid(&self.field(), given, &self.detail(should)));
        };
        if let Some(format) = format.filter(|_| !value.is_null()) {
            match value {
                // The check of the format will say what is wrong with texts; of lists nothing is said.
                Value::String(_) | Value::Array(_)
                    if !matches!(kind, Kind::Integer | Kind::Number | Kind::IntOrString) =>
                {
                    return;
                }
                Value::String(_) | Value::Array(_) => {}
                _ if !is_one_of_the_kinds && given_format != format.name() => {
                    return blame(format.name(), given_format);
                }
                _ => {}
            }
        }
        if !is_one_of_the_kinds {
            blame(kind.name(), given);
        }
    }

    fn text(&mut self, rules: &Rules, value: &Value, text: &str, found: &mut Found) {
        found.checks += 1;
        self.budget.spend_text(text);
        // Only then is it worth to count.
        let length = match (rules.length.min, rules.length.max) {
            (None, None) => 0,
            _ => i64::try_from(text.chars().count()).unwrap_or(i64::MAX),
        };
        if let Some(max) = rules.length.max.filter(|max| length > *max) {
            found.causes.add(too_long(&self.field(), max));
        } else if let Some(min) = rules.length.min.filter(|min| length < *min) {
            found.causes.add(self.invalid(value, format_args!("should be at least {min} chars long")));
        } else if let Some(pattern) = &rules.pattern
            && !pattern.matches(text, self.budget)
            && !self.budget.is_spent()
        {
            found.causes.add(self.invalid(value, format_args!("should match '{}'", pattern.text())));
        }
        if let Some(format) = &rules.format
            && self.budget.spend(1 + text.len() as u64)
            && !format.fits(text, self.budget)
        {
            let shown = super::causes::shown(value);
            let detail = self.detail(format_args!("must be of type {}: {shown}", format.name()));
            let message = format!("Invalid value: {shown}: {detail}");
            found.causes.add(Cause { reason: "FieldValueTypeInvalid", message, field: self.field() });
        }
    }

    fn number(
        &self,
        value_type: &Type,
        rules: Option<&Rules>,
        value: &Value,
        number: &serde_json::Number,
        found: &mut Found,
    ) {
        found.checks += 1;
        let nothing = Rules::default();
        for fault in numbers::faults(value_type.kind, rules.unwrap_or(&nothing), number) {
            found.causes.add(match fault {
                numbers::Fault::Type(what) => {
                    Cause::invalid(&self.root(), "", &format!("{what} in {}", self.path.as_str()))
                }
                numbers::Fault::Value(should) => self.invalid(value, should),
                numbers::Fault::Factor(factor) => {
                    let path = self.path.as_str();
                    let why = format!("factor MultipleOf declared for {path} must be positive: {factor}");
                    invalid(self.field(), &factor, &why)
                }
            });
        }
    }

    /// The number of elements of a list.
    fn length(&self, rules: &Rules, length: usize, found: &mut Found) {
        found.checks += 2;
        let count = i64::try_from(length).unwrap_or(i64::MAX);
        if let Some(min) = rules.items.min.filter(|min| count < *min) {
            found.causes.add(self.invalid(&length.into(), format_args!("should have at least {min} items")));
        }
        if let Some(max) = rules.items.max.filter(|max| count > *max) {
            found.causes.add(too_many(&self.field(), length, max));
        }
    }

    /// The number of entries of an object.
    fn size(&self, rules: &Rules, object: &JsonMap, found: &mut Found) {
        let count = i64::try_from(object.len()).unwrap_or(i64::MAX);
        if let Some(min) = rules.properties.min.filter(|min| count < *min) {
            let size = Value::from(object.len());
            found.causes.add(self.invalid(&size, format_args!("should have at least {min} properties")));
        }
        if let Some(max) = rules.properties.max.filter(|max| count > *max) {
            found.causes.add(too_many(&self.field(), object.len(), max));
        }
    }

    fn allowed(&mut self, rules: &Rules, value: &Value, found: &mut Found) {
        let Some(allowed) = &rules.allowed else { return };
        for one in allowed {
            let is_same = match (one, value) {
                (Value::Number(one), Value::Number(value)) => numbers::is_allowed(one, value),
                // A server compares nulls with nothing.
                (one, value) => !value.is_null() && self.budget.are_equal(one, value),
            };
            if is_same || !self.budget.spend(1) {
                return;
            }
        }
        found.causes.add(not_supported(&self.field(), value, allowed));
    }

    fn children(
        &mut self,
        value_type: &'a Type,
        required: &[Box<str>],
        value: &'a Value,
        old: Option<&'a Value>,
        found: &mut Found,
    ) {
        match value {
            Value::Object(object) => self.object(value_type, required, object, old, found),
            Value::Array(list) => {
                let Some(items) = value_type.items.map(|items| self.types.get(items)) else { return };
                let earlier = self.earlier(&value_type.list, old.and_then(Value::as_array));
                for (index, element) in list.iter().enumerate() {
                    if self.is_done(found) {
                        return;
                    }
                    let before = match &value_type.list {
                        ListKind::Map(keys) if !earlier.is_empty() => {
                            element_key(keys, element, self.budget).and_then(|key| earlier.get(&key).copied())
                        }
                        _ => None,
                    };
                    let mark = self.path.index(index);
                    let inner = self.value(items, element, before);
                    self.path.back(&mark);
                    found.append(inner);
                }
            }
            _ => {}
        }
    }

    /// The elements of an earlier list by their keys.
    fn earlier(
        &mut self,
        list: &ListKind,
        old: Option<&'a Vec<Value>>,
    ) -> HashMap<ElementKey<'a>, &'a Value> {
        let mut elements = HashMap::new();
        let (ListKind::Map(keys), Some(old)) = (list, old) else { return elements };
        for element in old {
            let Some(key) = element_key(keys, element, self.budget) else { break };
            elements.entry(key).or_insert(element);
        }
        elements
    }

    fn object(
        &mut self,
        value_type: &'a Type,
        required: &[Box<str>],
        object: &'a JsonMap,
        old: Option<&'a Value>,
        found: &mut Found,
    ) {
        found.checks += 1;
        for (name, value) in object {
            if self.is_done(found) || !self.budget.spend_text(name) {
                return;
            }
            let known = match (value_type.fields.get(name.as_str()), value_type.entries) {
                (Some(field), _) => self.types.get(field.value_type),
                (None, Entries::Of(entry)) => self.types.get(entry),
                (None, Entries::Forbidden) => {
                    let should =
                        format!("{}.{} in body is a forbidden property", self.path.as_str(), clipped(name));
                    found.causes.add(invalid(self.field(), &name.as_str().into(), &should));
                    continue;
                }
                (None, _) => continue,
            };
            let mark = self.path.field(name);
            let inner = self.value(known, value, old.and_then(|old| old.get(name)));
            self.path.back(&mark);
            found.append(inner);
        }
        for name in required {
            if self.is_done(found) || !self.budget.spend_text(name) {
                return;
            }
            if !object.contains_key(&**name) {
                found.causes.add(Cause::required(&self.field_of(name), ""));
            }
        }
    }

    /// `allOf`, `anyOf`, `oneOf`, `not`.
    fn junctors(&mut self, rules: &'a Rules, value: &'a Value, old: Option<&'a Value>, found: &mut Found) {
        found.checks += 1;
        let root = self.root();
        let blame = |causes: &mut Causes, path: &str, must: &str| {
            causes.add(Cause::invalid(&root, "", &format!("{} {must}", Value::from(path))));
        };
        if !rules.any_of.is_empty() {
            let (fitting, best) = self.alternatives(&rules.any_of, true, value, old);
            if fitting == 0 {
                blame(&mut found.causes, self.path.as_str(), "must validate at least one schema (anyOf)");
            }
            found.append(best);
        }
        if !rules.one_of.is_empty() {
            let (fitting, best) = self.alternatives(&rules.one_of, false, value, old);
            if fitting != 1 {
                let which = match fitting {
                    0 => "Found none valid".to_owned(),
                    some => format!("Found {some} valid alternatives"),
                };
                let must = format!("must validate one and only one schema (oneOf). {which}");
                blame(&mut found.causes, self.path.as_str(), &must);
            }
            found.append(best);
        }
        if !rules.all_of.is_empty() {
            let mut fitting = 0;
            for one in &rules.all_of {
                if self.is_done(found) {
                    return;
                }
                let inner = self.value(self.types.get(*one), value, old);
                fitting += usize::from(inner.causes.is_empty());
                found.append(inner);
            }
            if fitting < rules.all_of.len() {
                let which = if fitting == 0 { ". None validated" } else { "" };
                let must = format!("must validate all the schemas (allOf){which}");
                blame(&mut found.causes, self.path.as_str(), &must);
            }
        }
        if let Some(not) = rules.not
            && self.value(self.types.get(not), value, None).causes.is_empty()
        {
            blame(&mut found.causes, self.path.as_str(), "must not validate the schema (not)");
        }
    }

    /// How many alternatives fit, and the one that fits, or else the one that came nearest.
    fn alternatives(
        &mut self,
        alternatives: &[TypeId],
        first_is_enough: bool,
        value: &'a Value,
        old: Option<&'a Value>,
    ) -> (usize, Found) {
        let mut fitting = 0;
        let mut best: Option<Found> = None;
        for one in alternatives {
            if self.budget.is_spent() {
                break;
            }
            let inner = self.value(self.types.get(*one), value, old);
            if inner.causes.is_empty() {
                fitting += 1;
                if fitting == 1 {
                    best = Some(inner);
                }
                if first_is_enough {
                    break;
                }
            } else if fitting == 0 && best.as_ref().is_none_or(|best| inner.checks > best.checks) {
                best = Some(inner);
            }
        }
        (fitting, best.unwrap_or_default())
    }
}
