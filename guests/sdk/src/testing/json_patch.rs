//! RFC 6902 and RFC 7386 patches.

use serde_json::{Map, Value};

/// Applies a JSON patch. The error has the operation that failed.
pub(super) fn json_patch(object: &Value, operations: &Value) -> Result<Value, String> {
    let operations = operations.as_array().ok_or("a JSON patch is a list of operations")?;
    let mut result = object.clone();
    for operation in operations {
        apply_one(&mut result, operation).map_err(|error| format!("{operation}: {error}"))?;
    }
    Ok(result)
}

fn apply_one(object: &mut Value, operation: &Value) -> Result<(), String> {
    let text = |name: &str| operation[name].as_str().ok_or_else(|| format!("`{name}` is missing"));
    let path = text("path")?;
    let value = || operation.get("value").cloned().ok_or("`value` is missing");
    match text("op")? {
        "add" => add(object, path, value()?),
        "remove" => remove(object, path).map(drop),
        "replace" => {
            remove(object, path)?;
            add(object, path, value()?)
        }
        "move" => {
            let moved = remove(object, text("from")?)?;
            add(object, path, moved)
        }
        "copy" => {
            let copied = object.pointer(text("from")?).cloned().ok_or("there is no value at `from`")?;
            add(object, path, copied)
        }
        "test" if object.pointer(path) == Some(&value()?) => Ok(()),
        "test" => Err("the value is another one".to_owned()),
        other => Err(format!("`{other}` is not an operation")),
    }
}

fn parent<'a>(object: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), String> {
    let (parent, name) = path.rsplit_once('/').ok_or("the path is the whole object")?;
    let name = name.replace("~1", "/").replace("~0", "~");
    Ok((object.pointer_mut(parent).ok_or_else(|| format!("there is no value at {parent}"))?, name))
}

fn add(object: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        *object = value;
        return Ok(());
    }
    match parent(object, path)? {
        (Value::Object(fields), name) => {
            fields.insert(name, value);
            Ok(())
        }
        (Value::Array(elements), name) => {
            let place = if name == "-" { Some(elements.len()) } else { name.parse().ok() };
            match place.filter(|place| *place <= elements.len()) {
                Some(place) => {
                    elements.insert(place, value);
                    Ok(())
                }
                None => Err("the list is shorter".to_owned()),
            }
        }
        _ => Err("the parent is neither an object nor a list".to_owned()),
    }
}

fn remove(object: &mut Value, path: &str) -> Result<Value, String> {
    let removed = match parent(object, path)? {
        (Value::Object(fields), name) => fields.remove(&name),
        (Value::Array(elements), name) => name
            .parse()
            .ok()
            .filter(|place: &usize| *place < elements.len())
            .map(|place| elements.remove(place)),
        _ => None,
    };
    removed.ok_or_else(|| format!("there is no value at {path}"))
}

/// Applies a merge patch.
pub(super) fn json_merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    for (name, value) in patch {
        if value.is_null() {
            if let Value::Object(fields) = object {
                fields.remove(name);
            }
        } else {
            json_merge(&mut object[name], value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_are_those_of_the_rfc() {
        let object = json!({"a": [1, 2], "b": {"c/d": 1}});
        let patch = json!([
            {"op": "test", "path": "/b/c~1d", "value": 1},
            {"op": "add", "path": "/a/1", "value": 9},
            {"op": "add", "path": "/a/-", "value": 3},
            {"op": "remove", "path": "/b/c~1d"},
            {"op": "copy", "from": "/a/0", "path": "/b/e"},
            {"op": "move", "from": "/b/e", "path": "/f"},
            {"op": "replace", "path": "/f", "value": 5},
        ]);
        assert_eq!(json_patch(&object, &patch).unwrap(), json!({"a": [1, 9, 2, 3], "b": {}, "f": 5}));
        for wrong in [
            json!([{"op": "test", "path": "/a/0", "value": 2}]),
            json!([{"op": "remove", "path": "/a/7"}]),
            json!([{"op": "add", "path": "/x/y", "value": 2}]),
            json!([{"op": "replace", "path": "/x", "value": 2}]),
        ] {
            assert!(json_patch(&object, &wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_merge_patch_removes_by_null() {
        let mut object = json!({"a": {"b": 1, "c": 2}, "d": [1]});
        json_merge(&mut object, &json!({"a": {"b": null, "e": {"f": null}}, "d": [2]}));
        assert_eq!(object, json!({"a": {"c": 2, "e": {}}, "d": [2]}));
    }
}
