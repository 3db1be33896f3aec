//! Validation of objects against their schema, with the words and the paths of the API.
//!
//! A path in a message begins at the value that is validated; with a prefix the field that is blamed begins before it, as the
//! status is validated on its own. Work is bounded by a [`Budget`], the list of causes by itself, and the recursion is as
//! deep as the object and its schema.

use serde_json::Value;

use super::budget::Budget;
use super::causes::{Causes, Path, duplicate, invalid, not_supported, too_long, too_many, type_invalid};
use super::types::{Bound, Entries, Kind, ListKind, Rules, Type, TypeId, Types};
use crate::api::{Cause, JsonMap};

/// The largest number that JSON in JavaScript holds whole.
const MAX_WHOLE: f64 = 9_007_199_254_740_991.0;

/// What is wrong with a value.
pub(super) fn validate(
    types: &Types,
    root: TypeId,
    prefix: &str,
    value: &Value,
    budget: &mut Budget,
) -> Causes {
    Validation { types, prefix, path: Path::default(), budget }.all(root, value, None)
}

/// What is wrong with a value and was not wrong with the one that it replaces: parts that have not changed are not looked at.
pub(super) fn validate_change(
    types: &Types,
    root: TypeId,
    prefix: &str,
    value: &Value,
    old: &Value,
    budget: &mut Budget,
) -> Causes {
    Validation { types, prefix, path: Path::default(), budget }.all(root, value, Some(old))
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
    fn all(mut self, root: TypeId, value: &'a Value, old: Option<&'a Value>) -> Causes {
        let found = self.value(self.types.get(root), value, old);
        if !self.budget.is_spent() {
            return found.causes;
        }
        let mut causes = Causes::default();
        causes.add(Cause::invalid(
            self.prefix,
            "",
            "the object costs too much to be validated against its schema",
        ));
        causes.append(found.causes);
        causes
    }

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

    fn value(&mut self, value_type: &'a Type, value: &'a Value, old: Option<&'a Value>) -> Found {
        let mut found = Found { causes: Causes::default(), checks: 2 };
        if old == Some(value) || !self.budget.spend(1) {
            return found;
        }
        self.kind_of(value_type, value, &mut found);
        let Some(rules) = value_type.rules.as_deref() else {
            self.children(value_type, &[], value, old, &mut found);
            return found;
        };
        if !value.is_null() {
            self.junctors(rules, value, old, &mut found);
            match value {
                Value::String(text) => self.text(rules, value, text, &mut found),
                Value::Number(number) => self.number(rules, value, number, &mut found),
                Value::Array(list) => self.length(rules, list.len(), &mut found),
                _ => {}
            }
        }
        self.allowed(rules, value, &mut found);
        if let Value::Object(object) = value
            && !self.has_fitting_size(rules, object, &mut found)
        {
            return found;
        }
        self.children(value_type, &rules.required, value, old, &mut found);
        found
    }

    fn kind_of(&self, value_type: &Type, value: &Value, found: &mut Found) {
        let kind = value_type.kind;
        if kind == Kind::Any {
            return;
        }
        found.checks += 1;
        let has_format = value_type.rules.as_ref().is_some_and(|rules| rules.format.is_some());
        let given = match value {
            Value::Null if value_type.nullable => return,
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_i64() => "integer",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let fits = match kind {
            // With a format, a server leaves texts and lists to the check of the format.
            Kind::Integer | Kind::Number | Kind::IntOrString => false,
            _ => has_format && matches!(value, Value::String(_) | Value::Array(_)),
        } || match kind {
            Kind::IntOrString => given == "string" || is_whole(value),
            Kind::Integer => is_whole(value),
            Kind::Number => value.is_number(),
            kind => given == kind.name(),
        };
        if !fits {
            let should = format!("must be of type {}: {:?}", kind.name(), given);
            found.causes.add(type_invalid(&self.field(), given, &self.detail(should)));
            if matches!(kind, Kind::Integer) && value.is_number() {
                // A server checks a number twice, and the second time names no field.
                let why =
                    format!("Checked value must be of type integer (default format) in {}", self.field());
                found.causes.add(Cause::invalid("<nil>", "", &why));
            }
        }
    }

    fn text(&mut self, rules: &Rules, value: &Value, text: &str, found: &mut Found) {
        found.checks += 1;
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
        {
            found.causes.add(self.invalid(value, format_args!("should match '{}'", pattern.text())));
        }
        if let Some(format) = &rules.format
            && !format.fits(text)
        {
            let shown = super::causes::shown(value);
            let detail = self.detail(format_args!("must be of type {}: {shown}", format.name()));
            let message = format!("Invalid value: {shown}: {detail}");
            found.causes.add(Cause { reason: "FieldValueTypeInvalid", message, field: self.field() });
        }
    }

    fn number(&self, rules: &Rules, value: &Value, number: &serde_json::Number, found: &mut Found) {
        found.checks += 1;
        let exact = number.as_f64().unwrap_or(f64::NAN);
        if let Some(factor) = rules.multiple_of
            && !is_multiple(number, factor)
        {
            found.causes.add(self.invalid(value, format_args!("should be a multiple of {factor}")));
        }
        if let Some(Bound { value: max, exclusive }) = rules.maximum
            && (exact > max || exclusive && exact >= max)
        {
            let than = if exclusive { "less than" } else { "less than or equal to" };
            found.causes.add(self.invalid(value, format_args!("should be {than} {max}")));
        }
        if let Some(Bound { value: min, exclusive }) = rules.minimum
            && (exact < min || exclusive && exact <= min)
        {
            let than = if exclusive { "greater than" } else { "greater than or equal to" };
            found.causes.add(self.invalid(value, format_args!("should be {than} {min}")));
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

    /// Whether an object has as many entries as it may have; if not, a server looks no further.
    fn has_fitting_size(&self, rules: &Rules, object: &JsonMap, found: &mut Found) -> bool {
        let count = i64::try_from(object.len()).unwrap_or(i64::MAX);
        if let Some(min) = rules.properties.min.filter(|min| count < *min) {
            let size = Value::from(object.len());
            found.causes.add(self.invalid(&size, format_args!("should have at least {min} properties")));
            return false;
        }
        if let Some(max) = rules.properties.max.filter(|max| count > *max) {
            found.causes.add(too_many(&self.field(), object.len(), max));
            return false;
        }
        true
    }

    fn allowed(&mut self, rules: &Rules, value: &Value, found: &mut Found) {
        let Some(allowed) = &rules.allowed else { return };
        if !self.budget.spend(allowed.len() as u64) {
            return;
        }
        let is_same = |one: &Value| match (one, value) {
            (Value::Number(one), Value::Number(value)) => one.as_f64() == value.as_f64(),
            // A server compares nulls with nothing.
            (one, value) => one == value && !value.is_null(),
        };
        if !allowed.iter().any(is_same) {
            found.causes.add(not_supported(&self.field(), value, allowed));
        }
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
                let old = old.and_then(Value::as_array);
                for (index, element) in list.iter().enumerate() {
                    if found.causes.is_full() || self.budget.is_spent() {
                        return;
                    }
                    let before = old.and_then(|old| self.earlier(&value_type.list, old, element));
                    let mark = self.path.index(index);
                    let inner = self.value(items, element, before);
                    self.path.back(&mark);
                    found.append(inner);
                }
            }
            _ => {}
        }
    }

    /// The element of an earlier list that has the same keys.
    fn earlier(&mut self, list: &ListKind, old: &'a [Value], element: &Value) -> Option<&'a Value> {
        let ListKind::Map(keys) = list else { return None };
        if !self.budget.spend(old.len() as u64) {
            return None;
        }
        old.iter().find(|other| keys.iter().all(|key| other.get(&**key) == element.get(&**key)))
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
            if found.causes.is_full() || self.budget.is_spent() {
                return;
            }
            let known = match (value_type.fields.get(name.as_str()), value_type.entries) {
                (Some(field), _) => self.types.get(field.value_type),
                (None, Entries::Of(entry)) => self.types.get(entry),
                (None, Entries::Forbidden) => {
                    let should = format!("{}.{name} in body is a forbidden property", self.path.as_str());
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
            if !object.contains_key(&**name) {
                found.causes.add(Cause::required(&self.field_of(name), ""));
            }
        }
        self.budget.spend(required.len() as u64);
    }

    /// `allOf`, `anyOf`, `oneOf`, `not`.
    fn junctors(&mut self, rules: &'a Rules, value: &'a Value, old: Option<&'a Value>, found: &mut Found) {
        found.checks += 1;
        let blame = |causes: &mut Causes, path: &str, must: &str| {
            let detail = format!("{} {must}", Value::from(path));
            causes.add(Cause { field: "<nil>".to_owned(), ..Cause::invalid("", "", &detail) });
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

/// Whether a value is a whole number, also one that is written as `1.0`.
fn is_whole(value: &Value) -> bool {
    value.is_i64()
        || value.is_f64() && value.as_f64().is_some_and(|f| f.fract() == 0.0 && f.abs() <= MAX_WHOLE)
}

fn is_multiple(number: &serde_json::Number, factor: f64) -> bool {
    if let Some(whole) = number.as_i64()
        && factor >= 1.0
        && factor.fract() == 0.0
    {
        // A server reads the factor as a whole number here.
        return whole % (factor as i64) == 0;
    }
    let value = number.as_f64().unwrap_or(f64::NAN);
    let times = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
    times.is_finite() && (times - times.round()).abs() < 1e-9 * times.abs().max(1.0)
}

/// Whether elements of sets and of lists with keys are unique, and elements of the latter are objects.
pub(super) fn check_lists(types: &Types, root: TypeId, object: &JsonMap) -> Causes {
    let mut walk = ListWalk { types, path: Path::default(), causes: Causes::default() };
    walk.object(types.get(root), object);
    walk.causes
}

struct ListWalk<'a> {
    types: &'a Types,
    path: Path,
    causes: Causes,
}

impl<'a> ListWalk<'a> {
    fn value(&mut self, value_type: &'a Type, value: &Value) {
        match value {
            _ if self.causes.is_full() => {}
            Value::Object(object) => self.object(value_type, object),
            Value::Array(list) => {
                match &value_type.list {
                    ListKind::Atomic => {}
                    ListKind::Set => self.unique(list.iter().cloned()),
                    ListKind::Map(keys) => self.unique_keys(keys, list),
                }
                let Some(items) = value_type.items.map(|items| self.types.get(items)) else { return };
                for (index, element) in list.iter().enumerate() {
                    let mark = self.path.index(index);
                    self.value(items, element);
                    self.path.back(&mark);
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, object_type: &'a Type, object: &JsonMap) {
        for (name, value) in object {
            let (known, mark) = match (object_type.fields.get(name.as_str()), object_type.entries) {
                (Some(field), _) => (field.value_type, self.path.field(name)),
                (None, Entries::Of(entry)) => (entry, self.path.key(name)),
                _ => continue,
            };
            self.value(self.types.get(known), value);
            self.path.back(&mark);
        }
    }

    /// Blames the second of equal values, and no further ones.
    fn unique(&mut self, values: impl Iterator<Item = Value>) {
        let mut seen = std::collections::HashMap::new();
        for (index, value) in values.enumerate() {
            let times = seen.entry(value.to_string()).or_insert(0);
            *times += 1;
            if *times == 2 {
                let mark = self.path.index(index);
                self.causes.add(duplicate(self.path.as_str(), &value));
                self.path.back(&mark);
            }
        }
    }

    fn unique_keys(&mut self, keys: &[Box<str>], list: &[Value]) {
        if let Some(index) = list.iter().position(|element| !(element.is_object() || element.is_null())) {
            let mark = self.path.index(index);
            let detail = "must be an object for an array of list-type map";
            self.causes.add(invalid(self.path.as_str(), &list[index], detail));
            self.path.back(&mark);
            return;
        }
        let of = |element: &Value| -> Value {
            let present =
                keys.iter().filter_map(|key| Some(((**key).to_owned(), element.get(&**key)?.clone())));
            Value::Object(present.collect())
        };
        self.unique(list.iter().map(of));
    }
}
