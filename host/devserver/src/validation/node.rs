//! [`Node`]: a value of an object with its path, and the causes that a check of it adds.
//!
//! The path is a chain of steps on the stack. Its text is made only when there is something to say, and only while the list
//! of causes has room.

use std::fmt::Write as _;

use serde_json::Value;

use crate::api::syntax::{self, Faults};
use crate::api::{Cause, JsonMap};
use crate::schema::{Causes, shown};

/// How one value is reached from the one above it.
#[derive(Debug, Clone, Copy)]
enum Step<'p> {
    Field(&'p str),
    Index(usize),
    Key(&'p str),
}

/// A value and where it is; `null` if it is not there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<'p, 'v> {
    value: &'v Value,
    above: Option<&'p Node<'p, 'v>>,
    step: Step<'p>,
}

const NOTHING: &Value = &Value::Null;

/// A field of the object itself.
pub(super) fn field<'p, 'v>(object: &'v JsonMap, name: &'p str) -> Node<'p, 'v> {
    Node { value: object.get(name).unwrap_or(NOTHING), above: None, step: Step::Field(name) }
}

impl<'p, 'v> Node<'p, 'v> {
    pub(super) fn field<'s>(&'s self, name: &'s str) -> Node<'s, 'v> {
        let value = self.value.get(name).unwrap_or(NOTHING);
        Node { value, above: Some(self), step: Step::Field(name) }
    }

    /// The same value under the name that messages have for it.
    pub(super) fn named(&self, name: &'p str) -> Node<'p, 'v> {
        Node { step: Step::Field(name), ..*self }
    }

    /// The same value, in the place of another one in causes.
    pub(super) fn placed<'s>(&self, at: &Node<'s, 'v>) -> Node<'s, 'v> {
        Node { value: self.value, ..*at }
    }

    /// Another value, in the place of this one in causes.
    pub(super) fn standing(value: &'v Value, at: &Node<'p, 'v>) -> Self {
        Node { value, ..*at }
    }

    /// Which element of its list it is.
    pub(super) fn position(&self) -> usize {
        match self.step {
            Step::Index(index) => index,
            Step::Field(_) | Step::Key(_) => 0,
        }
    }

    /// Where an element would be.
    pub(super) fn index(&self, index: usize) -> Node<'_, 'v> {
        let value = self.value.get(index).unwrap_or(NOTHING);
        Node { value, above: Some(self), step: Step::Index(index) }
    }

    pub(super) fn key<'s>(&'s self, key: &'s str) -> Node<'s, 'v> {
        let value = self.value.get(key).unwrap_or(NOTHING);
        Node { value, above: Some(self), step: Step::Key(key) }
    }

    pub(super) fn value(&self) -> &'v Value {
        self.value
    }

    /// The text; empty if there is none.
    pub(super) fn text(&self) -> &'v str {
        self.value.as_str().unwrap_or_default()
    }

    pub(super) fn int(&self) -> Option<i64> {
        self.value.as_i64()
    }

    /// The number; 0 if there is none.
    pub(super) fn int_or_zero(&self) -> i64 {
        self.int().unwrap_or_default()
    }

    pub(super) fn flag(&self) -> bool {
        self.value == true
    }

    pub(super) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// How many elements or entries there are.
    pub(super) fn len(&self) -> usize {
        match self.value {
            Value::Array(list) => list.len(),
            Value::Object(object) => object.len(),
            _ => 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements of a list.
    pub(super) fn each(&self) -> impl Iterator<Item = Node<'_, 'v>> {
        let list = self.value.as_array().into_iter().flatten().enumerate();
        list.map(|(index, value)| Node { value, above: Some(self), step: Step::Index(index) })
    }

    /// The entries of a map.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'v str, Node<'_, 'v>)> {
        let map = self.value.as_object().into_iter().flatten();
        map.map(|(key, value)| (key.as_str(), Node { value, above: Some(self), step: Step::Key(key) }))
    }

    /// The texts of a list.
    pub(super) fn texts(&self) -> impl Iterator<Item = &'v str> {
        self.value.as_array().into_iter().flatten().filter_map(Value::as_str)
    }

    fn path(&self) -> String {
        let mut steps = Vec::new();
        let mut at = Some(self);
        while let Some(node) = at {
            steps.push(node.step);
            at = node.above;
        }
        let mut path = String::new();
        for step in steps.into_iter().rev() {
            let _ = match step {
                Step::Field(name) if path.is_empty() => write!(path, "{name}"),
                Step::Field(name) => write!(path, ".{name}"),
                Step::Index(index) => write!(path, "[{index}]"),
                Step::Key(key) => write!(path, "[{}]", crate::schema::clipped(key)),
            };
        }
        path
    }

    fn add(&self, causes: &mut Causes, reason: &'static str, message: impl FnOnce() -> String) {
        if !causes.is_full() {
            causes.add(Cause { reason, message: message(), field: self.path() });
        }
    }

    /// It must be there and is not.
    pub(super) fn required(&self, causes: &mut Causes, detail: &str) {
        self.add(causes, "FieldValueRequired", || with_detail("Required value", detail));
    }

    pub(super) fn forbidden(&self, causes: &mut Causes, detail: &str) {
        self.add(causes, "FieldValueForbidden", || with_detail("Forbidden", detail));
    }

    /// The value is wrong. A text or a list of them that is not there is shown as an empty text.
    pub(super) fn invalid(&self, causes: &mut Causes, detail: &str) {
        self.add(causes, "FieldValueInvalid", || {
            with_detail(&format!("Invalid value: {}", self.own()), detail)
        });
    }

    /// As [`Node::invalid`], with another value shown.
    pub(super) fn invalid_as(&self, causes: &mut Causes, value: &Value, detail: &str) {
        self.add(causes, "FieldValueInvalid", || {
            with_detail(&format!("Invalid value: {}", shown(value)), detail)
        });
    }

    /// As [`Node::invalid`] of a number.
    pub(super) fn invalid_number(&self, causes: &mut Causes, detail: &str) {
        self.invalid_as(causes, &self.int_or_zero().into(), detail);
    }

    /// As [`Node::invalid`], with no value shown.
    pub(super) fn invalid_omitted(&self, causes: &mut Causes, detail: &str) {
        self.add(causes, "FieldValueInvalid", || with_detail("Invalid value", detail));
    }

    pub(super) fn not_supported(&self, causes: &mut Causes, supported: &[&str]) {
        self.not_supported_as(causes, &self.own(), supported);
    }

    pub(super) fn not_supported_as(&self, causes: &mut Causes, value: &str, supported: &[&str]) {
        self.add(causes, "FieldValueNotSupported", || {
            let supported: Vec<String> = supported.iter().map(|one| Value::from(*one).to_string()).collect();
            format!("Unsupported value: {value}: supported values: {}", supported.join(", "))
        });
    }

    pub(super) fn duplicate(&self, causes: &mut Causes) {
        self.duplicate_as(causes, &self.own(), "");
    }

    pub(super) fn duplicate_as(&self, causes: &mut Causes, value: &str, detail: &str) {
        self.add(causes, "FieldValueDuplicate", || with_detail(&format!("Duplicate value: {value}"), detail));
    }

    pub(super) fn not_found(&self, causes: &mut Causes) {
        self.not_found_as(causes, &self.own(), "");
    }

    pub(super) fn not_found_as(&self, causes: &mut Causes, value: &str, detail: &str) {
        self.add(causes, "FieldValueNotFound", || with_detail(&format!("Not found: {value}"), detail));
    }

    pub(super) fn too_long(&self, causes: &mut Causes, max: usize) {
        self.add(causes, "FieldValueTooLong", || format!("Too long: may not be more than {max} bytes"));
    }

    pub(super) fn too_many(&self, causes: &mut Causes, max: usize) {
        let count = self.len();
        self.add(causes, "FieldValueTooMany", || {
            let items = if max == 1 { "item" } else { "items" };
            format!("Too many: {count}: must have at most {max} {items}")
        });
    }

    /// The value as messages show it.
    fn own(&self) -> String {
        match self.value {
            Value::Null => "\"\"".to_owned(),
            value => shown(value),
        }
    }

    /// Each fault of a text is a cause.
    pub(super) fn faults(&self, causes: &mut Causes, faults: Faults) {
        for fault in faults {
            self.invalid(causes, fault);
        }
    }

    /// As [`Node::faults`], of a text that is a part of the value or of another one.
    pub(super) fn faults_of(&self, causes: &mut Causes, text: &str, faults: Faults) {
        for fault in faults {
            self.invalid_as(causes, &text.into(), fault);
        }
    }

    /// Whether there is a text; if not, that is a cause.
    pub(super) fn is_given(&self, causes: &mut Causes) -> bool {
        let is_given = !self.text().is_empty();
        if !is_given {
            self.required(causes, "");
        }
        is_given
    }

    /// A text that must be there and look like something.
    pub(super) fn given_as(&self, causes: &mut Causes, check: fn(&str) -> Faults) {
        if self.is_given(causes) {
            self.faults(causes, check(self.text()));
        }
    }

    /// A text that must look like something if it is not empty.
    pub(super) fn if_given(&self, causes: &mut Causes, check: fn(&str) -> Faults) {
        if !self.text().is_empty() {
            self.faults(causes, check(self.text()));
        }
    }

    /// A text that must look like something if it is there at all.
    pub(super) fn if_set(&self, causes: &mut Causes, check: fn(&str) -> Faults) {
        if self.is_set() {
            self.faults(causes, check(self.text()));
        }
    }

    /// A number of which there are no negative ones.
    pub(super) fn non_negative(&self, causes: &mut Causes) {
        if self.int().is_some_and(|number| number < 0) {
            self.invalid_number(causes, NEGATIVE);
        }
    }

    /// The text is one of a list, if it is there at all.
    pub(super) fn one_of_if_set(&self, causes: &mut Causes, values: &[&str]) {
        if self.is_set() {
            self.one_of(causes, values);
        }
    }

    /// The text is one of a list.
    pub(super) fn one_of(&self, causes: &mut Causes, values: &[&str]) {
        if !values.contains(&self.text()) {
            self.not_supported(causes, values);
        }
    }

    /// The text is there and one of a list.
    pub(super) fn given_one_of(&self, causes: &mut Causes, values: &[&str]) {
        if self.is_given(causes) {
            self.one_of(causes, values);
        }
    }

    pub(super) fn port_number(&self, causes: &mut Causes) {
        for fault in syntax::port_number(self.int_or_zero()) {
            self.invalid_number(causes, fault);
        }
    }

    /// A number of a port, or a name of one.
    pub(super) fn port(&self, causes: &mut Causes) {
        match self.value {
            Value::String(name) => self.faults(causes, syntax::port_name(name)),
            _ => self.port_number(causes),
        }
    }
}

pub(super) const NEGATIVE: &str = "must be greater than or equal to 0";

fn with_detail(text: &str, detail: &str) -> String {
    if detail.is_empty() { text.to_owned() } else { format!("{text}: {detail}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cause_names_its_path_and_its_value() {
        let Value::Object(object) =
            json!({"spec": {"ports": [{"name": "a"}, {"name": "B"}], "map": {"a.b": -1}}})
        else {
            panic!("an object")
        };
        let mut causes = Causes::default();
        let spec = field(&object, "spec");
        for port in spec.field("ports").each() {
            port.field("name").faults(&mut causes, syntax::port_name(port.field("name").text()));
            port.field("protocol").given_one_of(&mut causes, &["TCP"]);
        }
        for (_, entry) in spec.field("map").entries() {
            entry.non_negative(&mut causes);
        }
        let texts: Vec<String> = causes
            .into_vec()
            .into_iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect();
        assert_eq!(
            texts,
            [
                "spec.ports[0].protocol: Required value",
                "spec.ports[1].name: Invalid value: \"B\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                "spec.ports[1].name: Invalid value: \"B\": must contain at least one letter (a-z)",
                "spec.ports[1].protocol: Required value",
                "spec.map[a.b]: Invalid value: -1: must be greater than or equal to 0",
            ]
        );
    }

    #[test]
    fn causes_are_bounded_and_long_keys_are_cut() {
        let long = "a".repeat(100_000);
        let list: Vec<Value> = (0..1000).map(|_| json!({})).collect();
        let Value::Object(object) = json!({"list": list, "map": {long: 1}}) else { panic!("an object") };
        let mut causes = Causes::default();
        field(&object, "map").entries().for_each(|(_, entry)| entry.invalid(&mut causes, "no"));
        field(&object, "list").each().for_each(|one| one.required(&mut causes, ""));
        let causes = causes.into_vec();
        assert!(causes[0].field.len() < 3000);
        assert_eq!(causes.len(), 100);
    }
}
