//! Ownership of fields, for server-side apply.
//!
//! A field is a leaf: a value that is no object, so a list is one field. Each manager has a set of them for its applies,
//! and another for its other writes, as on the API server.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// The path of a field, as names.
type Path = Vec<String>;

/// Who owns the fields of one object.
#[derive(Clone, Default)]
pub(super) struct Owners(BTreeMap<(String, bool), BTreeSet<Path>>);

/// Parts of an object that belong to no manager.
const SYSTEM: [&str; 6] =
    ["resourceVersion", "uid", "generation", "creationTimestamp", "deletionTimestamp", "managedFields"];

fn is_owned(path: &[String]) -> bool {
    match path {
        // An empty object has no fields.
        [] => false,
        [first] => first != "apiVersion" && first != "kind",
        [first, second] if first == "metadata" => {
            !SYSTEM.contains(&second.as_str()) && second != "name" && second != "namespace"
        }
        _ => true,
    }
}

fn leaves(value: &Value, path: &mut Path, found: &mut BTreeMap<Path, Value>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                path.push(name.clone());
                leaves(value, path, found);
                path.pop();
            }
        }
        _ if is_owned(path) => {
            found.insert(path.clone(), value.clone());
        }
        _ => {}
    }
}

fn leaves_of(value: &Value) -> BTreeMap<Path, Value> {
    let mut found = BTreeMap::new();
    leaves(value, &mut Vec::new(), &mut found);
    found
}

impl Owners {
    /// Notes a write that is no apply: what it changed belongs to its manager alone.
    pub(super) fn write(&mut self, manager: &str, old: Option<&Value>, new: &Value) {
        let (old, new) = (old.map(leaves_of).unwrap_or_default(), leaves_of(new));
        let changed: BTreeSet<Path> = new
            .iter()
            .filter(|(path, value)| old.get(*path) != Some(value))
            .map(|(path, _)| path.clone())
            .collect();
        for fields in self.0.values_mut() {
            fields.retain(|path| new.contains_key(path) && !changed.contains(path));
        }
        self.0.entry((manager.to_owned(), false)).or_default().extend(changed);
    }

    /// Merges what a manager applies into an object. The error has the conflicts.
    pub(super) fn apply(
        &mut self,
        manager: &str,
        force: bool,
        object: &mut Value,
        applied: &Value,
    ) -> Result<(), Vec<(String, String)>> {
        let own = (manager.to_owned(), true);
        let (present, wanted) = (leaves_of(object), leaves_of(applied));
        let mut conflicts = Vec::new();
        for (path, value) in &wanted {
            for ((other, is_apply), fields) in &mut self.0 {
                if (other == manager && *is_apply)
                    || !fields.contains(path)
                    || present.get(path) == Some(value)
                {
                    continue;
                }
                if force {
                    fields.remove(path);
                } else {
                    conflicts.push((other.clone(), format!(".{}", path.join("."))));
                }
            }
        }
        if !conflicts.is_empty() {
            return Err(conflicts);
        }
        let before = self.0.remove(&own).unwrap_or_default();
        for path in before {
            if !wanted.contains_key(&path) && !self.0.values().any(|fields| fields.contains(&path)) {
                remove(object, &path);
            }
        }
        for (path, value) in &wanted {
            set(object, path, value.clone());
        }
        self.0.insert(own, wanted.into_keys().collect());
        Ok(())
    }
}

fn set(object: &mut Value, path: &[String], value: Value) {
    let Some((name, rest)) = path.split_first() else {
        *object = value;
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    set(&mut object[name], rest, value);
}

/// Removes a field, and the objects around it that it leaves empty.
fn remove(object: &mut Value, path: &[String]) {
    let (Value::Object(fields), Some((name, rest))) = (object, path.split_first()) else { return };
    if let Some(value) = fields.get_mut(name).filter(|_| !rest.is_empty()) {
        remove(value, rest);
        if value.as_object().is_some_and(Map::is_empty) {
            fields.remove(name);
        }
    } else {
        fields.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_no_longer_applied_is_removed_and_what_others_own_conflicts() {
        let (mut owners, mut object) = (Owners::default(), json!({}));
        owners.apply("a", false, &mut object, &json!({"data": {"k": "1", "l": "1"}})).unwrap();
        // Equal values may be owned by several.
        owners.apply("b", false, &mut object, &json!({"data": {"l": "1"}})).unwrap();
        let conflicts = owners.apply("b", false, &mut object, &json!({"data": {"k": "2"}})).unwrap_err();
        assert_eq!(conflicts, [("a".to_owned(), ".data.k".to_owned())]);
        owners.apply("b", true, &mut object, &json!({"data": {"k": "2"}})).unwrap();
        assert_eq!(object, json!({"data": {"k": "2", "l": "1"}}));
        owners.apply("a", false, &mut object, &json!({})).unwrap();
        assert_eq!(object, json!({"data": {"k": "2"}}));
    }

    #[test]
    fn a_write_takes_what_it_changes() {
        let (mut owners, mut object) = (Owners::default(), json!({}));
        owners.apply("a", false, &mut object, &json!({"spec": {"replicas": 1}})).unwrap();
        let scaled = json!({"spec": {"replicas": 5}});
        owners.write("kubectl", Some(&object), &scaled);
        object = scaled;
        assert!(owners.apply("a", false, &mut object, &json!({"spec": {"replicas": 1}})).is_err());
    }
}
