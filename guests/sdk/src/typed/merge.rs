//! Differences of JSON values, as RFC 7396 merge patches.

use serde_json::{Map, Value};

/// The merge patch that makes `new` of `old`; none if they are equal.
pub(crate) fn merge_patch(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return Some(new.clone()) };
    let mut patch = Map::new();
    for (name, value) in new {
        match old.get(name) {
            Some(before) => {
                if let Some(change) = merge_patch(before, value) {
                    patch.insert(name.clone(), change);
                }
            }
            None => {
                patch.insert(name.clone(), value.clone());
            }
        }
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    Some(Value::Object(patch))
}

/// Makes the change from `before` to `after` in `whole`, which may have fields that the two lack: those of a kind that a
/// type does not have. In lists of equal length each element keeps its further fields.
pub(crate) fn transfer(whole: &Value, before: &Value, after: &Value) -> Value {
    if before == after {
        return whole.clone();
    }
    match (whole, before, after) {
        (Value::Object(whole), Value::Object(before), Value::Object(after)) => {
            let mut result = whole.clone();
            result.retain(|name, _| after.contains_key(name) || !before.contains_key(name));
            for (name, value) in after {
                // A default of the type that the object does not have, and that nobody changed.
                if !whole.contains_key(name) && before.get(name) == Some(value) {
                    continue;
                }
                let value = match (whole.get(name), before.get(name)) {
                    (Some(whole), Some(before)) => transfer(whole, before, value),
                    _ => value.clone(),
                };
                result.insert(name.clone(), value);
            }
            Value::Object(result)
        }
        (Value::Array(whole), Value::Array(before), Value::Array(after))
            if whole.len() == before.len() && before.len() == after.len() =>
        {
            let elements = whole.iter().zip(before).zip(after);
            elements.map(|((whole, before), after)| transfer(whole, before, after)).collect()
        }
        _ => after.clone(),
    }
}

/// Whether every field of `part` is in `whole` with an equal value. Lists must have the same length.
pub(super) fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(name, value)| whole.get(name).is_some_and(|whole| contains(whole, value)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(whole, part)| contains(whole, part))
        }
        _ => whole == part,
    }
}

/// Whether a patch replaces a list, which loses elements that others added meanwhile.
pub(super) fn replaces_list(patch: &Value) -> bool {
    match patch {
        Value::Array(_) => true,
        Value::Object(fields) => fields.values().any(replaces_list),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_has_only_what_is_different() {
        let old = json!({"a": 1, "b": {"c": 1, "d": 2}, "e": [1], "f": null});
        assert_eq!(merge_patch(&old, &old.clone()), None);
        let new = json!({"a": 1, "b": {"c": 3}, "e": [1, 2], "g": {"h": 1}});
        assert_eq!(
            merge_patch(&old, &new),
            Some(json!({"b": {"c": 3, "d": null}, "e": [1, 2], "f": null, "g": {"h": 1}}))
        );
        assert!(replaces_list(&json!({"a": {"b": []}})) && !replaces_list(&json!({"a": {"b": 1}})));
    }

    #[test]
    fn a_change_keeps_the_fields_that_a_type_lacks() {
        let whole = json!({"spec": {"x": 1, "foreign": true, "list": [{"name": "a", "foreign": 1}]}});
        let before = json!({"spec": {"x": 1, "list": [{"name": "a"}], "gone": 1}});
        let after = json!({"spec": {"x": 2, "list": [{"name": "b"}], "new": 1}});
        assert_eq!(
            transfer(&whole, &before, &after),
            json!({"spec": {"x": 2, "foreign": true, "list": [{"name": "b", "foreign": 1}], "new": 1}})
        );
        // A field that is absent in the object has its default in the type.
        let (lacking, defaults) = (json!({"replicas": 1}), json!({"replicas": 1, "paused": false}));
        let changed = json!({"replicas": 2, "paused": false});
        assert_eq!(transfer(&lacking, &defaults, &changed), json!({"replicas": 2}));
        let set = json!({"replicas": 1, "paused": true});
        assert_eq!(transfer(&lacking, &defaults, &set), set);
        // Of a list that grows nobody knows which element is which.
        let grown = json!({"spec": {"list": [{"name": "a"}, {"name": "b"}]}});
        assert_eq!(
            transfer(&whole, &json!({"spec": {"list": [{"name": "a"}]}}), &grown)["spec"]["list"],
            grown["spec"]["list"]
        );
    }

    #[test]
    fn a_part_is_contained_with_equal_values() {
        let whole = json!({"a": 1, "b": {"c": [{"d": 1, "e": 2}]}});
        assert!(contains(&whole, &json!({"b": {"c": [{"d": 1}]}})));
        for other in
            [json!({"a": 2}), json!({"x": 1}), json!({"b": {"c": []}}), json!({"b": {"c": [{"d": 2}]}})]
        {
            assert!(!contains(&whole, &other), "{other}");
        }
    }
}
