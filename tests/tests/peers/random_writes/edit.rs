//! [`Edit`]: one change of an object, and the five ways to ask for it: in the whole object, and in the four kinds of patches.

use serde_json::{Map, Value, json};

/// Stands before the name of a member that is to be in the text twice.
const TWICE: &str = "twice:";

/// What becomes of a field.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Change {
    Set(Value),
    Remove,
    /// The member is in the text once more, with this value.
    Twice(Value),
}

/// A change of the field at a pointer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Edit {
    pub(super) pointer: String,
    pub(super) change: Change,
}

/// The parts of a pointer, as names.
fn names(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|name| name.replace("~1", "/").replace("~0", "~")).collect()
}

/// A name as a part of a pointer.
pub(super) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// A name that a duplicate of a member has until the text is written.
fn twice(name: &str) -> String {
    format!("{TWICE}{name}")
}

/// The text of a body: duplicates are in it under their names.
pub(super) fn text(body: &Value) -> String {
    body.to_string().replace(&format!("\"{TWICE}"), "\"")
}

impl Edit {
    pub(super) fn new(pointer: &str, value: &Value) -> Self {
        let change = if value.is_null() { Change::Remove } else { Change::Set(value.clone()) };
        Self { pointer: pointer.to_owned(), change }
    }

    /// Changes an object as far as the pointer leads somewhere.
    pub(super) fn apply(&self, object: &mut Value) {
        let names = names(&self.pointer);
        let Some((last, before)) = names.split_last() else { return };
        let mut at = object;
        for name in before {
            at = match at {
                Value::Array(list) => {
                    match name.parse::<usize>().ok().and_then(|index| list.get_mut(index)) {
                        Some(element) => element,
                        None => return,
                    }
                }
                Value::Object(members) if self.change == Change::Remove && !members.contains_key(name) => {
                    return;
                }
                Value::Object(members) => members.entry(name.as_str()).or_insert_with(|| json!({})),
                _ => return,
            };
            if at.is_null() {
                *at = json!({});
            }
        }
        match (at, &self.change) {
            (Value::Object(members), Change::Set(value)) => _ = members.insert(last.clone(), value.clone()),
            (Value::Object(members), Change::Twice(value)) => {
                _ = members.insert(twice(last), value.clone());
            }
            (Value::Object(members), Change::Remove) => _ = members.remove(last),
            (Value::Array(list), change) => {
                let Some(index) = last.parse::<usize>().ok().filter(|index| *index < list.len()) else {
                    return;
                };
                match change {
                    Change::Set(value) => list[index] = value.clone(),
                    _ => _ = list.remove(index),
                }
            }
            _ => {}
        }
    }

    /// The member that a patch of this edit has for it.
    fn member(&self, name: &str) -> (String, Value) {
        match &self.change {
            Change::Set(value) => (name.to_owned(), value.clone()),
            Change::Remove => (name.to_owned(), Value::Null),
            Change::Twice(value) => (twice(name), value.clone()),
        }
    }

    /// A merge patch: lists are replaced as a whole.
    pub(super) fn merge_patch(&self, current: &Value, patch: &mut Value) {
        let names = names(&self.pointer);
        let (mut from, mut to) = (current, patch);
        let Some(last) = names.len().checked_sub(1) else { return };
        for (number, name) in names.iter().enumerate() {
            let Value::Object(members) = to else { return };
            from = &from[name.as_str()];
            if from.is_array() && number < last {
                // What other edits have made of the list stays.
                let list = members.entry(name.as_str()).or_insert_with(|| without_ports(from.clone()));
                let rest: Vec<String> = names[number + 1..].iter().map(|name| escaped(name)).collect();
                let inner = Edit { pointer: format!("/{}", rest.join("/")), change: self.change.clone() };
                return inner.apply(list);
            }
            if number == last {
                let (name, value) = self.member(name);
                members.insert(name, value);
                return;
            }
            to = members.entry(name.as_str()).or_insert_with(|| json!({}));
        }
    }

    /// A strategic merge patch: an element of a list is named by its key.
    pub(super) fn strategic_patch(&self, current: &Value, patch: &mut Value) {
        let names = names(&self.pointer);
        let (mut from, mut to) = (current, patch);
        let Some(last) = names.len().checked_sub(1) else { return };
        for (number, name) in names.iter().enumerate() {
            let index = name.parse::<usize>().ok().filter(|_| from.is_array());
            from = index.map_or_else(|| &from[name.as_str()], |index| &from[index]);
            match to {
                Value::Array(list) => {
                    if number == last && self.change == Change::Remove {
                        let mut gone = key_of(from);
                        gone["$patch"] = "delete".into();
                        return list.push(gone);
                    }
                    list.push(key_of(from));
                    let Some(element) = list.last_mut() else { return };
                    if number == last {
                        if let Change::Set(value) = &self.change {
                            *element = value.clone();
                        }
                        return;
                    }
                    to = element;
                }
                Value::Object(members) if number == last => {
                    let (name, value) = self.member(name);
                    members.insert(name, value);
                    return;
                }
                Value::Object(members) => {
                    let empty = if from.is_array() { json!([]) } else { json!({}) };
                    to = members.entry(name.as_str()).or_insert(empty);
                }
                _ => return,
            }
        }
    }

    /// The operations of a JSON patch; `odd` asks for one that need not fit.
    pub(super) fn json_patch(&self, current: &Value, odd: bool) -> Value {
        let exists = current.pointer(&self.pointer).is_some();
        match &self.change {
            Change::Set(value) | Change::Twice(value) => {
                let op = if exists != odd { "replace" } else { "add" };
                // A parent that is missing is added with what it is to hold.
                let (mut pointer, mut value) = (self.pointer.as_str(), value.clone());
                while !odd
                    && let Some((outer, name)) = pointer.rsplit_once('/')
                    && !outer.is_empty()
                    && current.pointer(outer).is_none()
                {
                    value = Map::from_iter([(name.replace("~1", "/").replace("~0", "~"), value)]).into();
                    pointer = outer;
                }
                json!({"op": op, "path": pointer, "value": value})
            }
            Change::Remove => json!({"op": "remove", "path": self.pointer}),
        }
    }
}

/// A list without the ports that a server has allocated: another one has others.
fn without_ports(mut list: Value) -> Value {
    for element in list.as_array_mut().into_iter().flatten() {
        if let Value::Object(members) = element {
            members.remove("nodePort");
        }
    }
    list
}

/// The fields by which an element of a list is known.
fn key_of(element: &Value) -> Value {
    let Value::Object(members) = element else { return json!({}) };
    for key in ["name", "type", "containerPort", "port", "mountPath", "ip", "uid", "key", "topologyKey"] {
        if let Some(value) = members.get(key) {
            return Map::from_iter([(key.to_owned(), value.clone())]).into();
        }
    }
    json!({})
}

/// The pointers of all members and elements of a tree.
pub(super) fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    let mut each = |name: &str, inner: &Value| {
        let pointer = format!("{at}/{}", escaped(name));
        all.push(pointer.clone());
        pointers(inner, &pointer, all);
    };
    match value {
        Value::Object(members) => members.iter().for_each(|(name, inner)| each(name, inner)),
        Value::Array(list) => list.iter().enumerate().for_each(|(n, inner)| each(&n.to_string(), inner)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_is_the_same_change_in_every_form() {
        let current = json!({"spec": {"list": [{"name": "a", "n": 1}]}});
        let edit = Edit::new("/spec/list/0/n", &json!(2));
        let mut whole = current.clone();
        edit.apply(&mut whole);
        assert_eq!(whole, json!({"spec": {"list": [{"name": "a", "n": 2}]}}));
        let (mut merge, mut strategic) = (json!({}), json!({}));
        edit.merge_patch(&current, &mut merge);
        edit.strategic_patch(&current, &mut strategic);
        assert_eq!((&merge, &strategic), (&whole, &whole));
        assert_eq!(
            edit.json_patch(&current, false),
            json!({"op": "replace", "path": "/spec/list/0/n", "value": 2})
        );
        let deep = Edit::new("/spec/new/x", &json!(1));
        assert_eq!(
            deep.json_patch(&current, false),
            json!({"op": "add", "path": "/spec/new", "value": {"x": 1}})
        );
    }

    #[test]
    fn a_member_can_be_in_a_text_twice() {
        let mut object = json!({"a": 1});
        Edit { pointer: "/a".to_owned(), change: Change::Twice(json!(2)) }.apply(&mut object);
        assert_eq!(text(&object), r#"{"a":1,"a":2}"#);
    }
}
