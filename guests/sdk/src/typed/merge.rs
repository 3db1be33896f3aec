//! Comparisons and differences of JSON values. Differences are RFC 7396 merge patches.

use serde_json::{Map, Value};

/// The merge patch that makes `new` of `old`; none if they are equal.
pub(super) fn merge_patch(old: &Value, new: &Value) -> Option<Value> {
    if is_equal(old, new) {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return Some(new.clone()) };
    let mut patch = Map::new();
    for (name, value) in new {
        let change = match old.get(name) {
            Some(before) => merge_patch(before, value),
            None => Some(value.clone()),
        };
        if let Some(change) = change {
            patch.insert(name.clone(), change);
        }
    }
    for name in old.keys() {
        if !new.contains_key(name) {
            patch.insert(name.clone(), Value::Null);
        }
    }
    Some(Value::Object(patch))
}

/// Makes the change from `before` to `after` in `whole`, which may have fields that the two lack: those of a kind that a
/// type does not have. In lists of equal length each element keeps its further fields.
pub(crate) fn transfer(whole: &mut Value, before: &Value, after: &Value) {
    if is_equal(before, after) {
        return;
    }
    match (whole, before, after) {
        (Value::Object(whole), Value::Object(before), Value::Object(after)) => {
            retain(whole, &|name, _| after.contains_key(name) || !before.contains_key(name));
            for (name, value) in after {
                match (whole.get_mut(name), before.get(name)) {
                    (Some(whole), Some(before)) => transfer(whole, before, value),
                    // A default of the type that the object does not have, and that nobody changed.
                    (None, Some(before)) if is_equal(before, value) => {}
                    _ => drop(whole.insert(name.clone(), value.clone())),
                }
            }
        }
        (Value::Array(whole), Value::Array(before), Value::Array(after))
            if whole.len() == before.len() && before.len() == after.len() =>
        {
            for ((whole, before), after) in whole.iter_mut().zip(before).zip(after) {
                transfer(whole, before, after);
            }
        }
        (whole, _, _) => whole.clone_from(after),
    }
}

/// Removes the fields that are not wanted. `Map::retain` balances the tree of the map, which is 5.8 KB more code in every
/// component that writes.
pub(super) fn retain(fields: &mut Map<String, Value>, is_wanted: &dyn Fn(&str, &Value) -> bool) {
    for (name, value) in std::mem::take(fields) {
        if is_wanted(&name, &value) {
            fields.insert(name, value);
        }
    }
}

/// Whether two values are equal, as [`contains`] compares.
fn is_equal(one: &Value, other: &Value) -> bool {
    contains(one, other) && contains(other, one)
}

/// Whether every field of `part` is in `whole` with an equal value. Lists must have the same length. Numbers are equal in
/// any notation of a fraction: the API server writes `1.0` as `1`.
pub(super) fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(name, value)| whole.get(name).is_some_and(|whole| contains(whole, value)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(whole, part)| contains(whole, part))
        }
        (Value::Number(whole), Value::Number(part)) if whole.is_f64() || part.is_f64() => {
            whole.as_f64() == part.as_f64()
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
    use super::*;

    fn parse(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    fn transferred(whole: &str, before: &str, after: &str) -> Value {
        let mut whole = parse(whole);
        transfer(&mut whole, &parse(before), &parse(after));
        whole
    }

    #[test]
    fn a_patch_has_only_what_is_different() {
        let old = parse(r#"{"a": 1, "b": {"c": 1, "d": 2}, "e": [1], "f": null}"#);
        assert_eq!(merge_patch(&old, &old.clone()), None);
        let new = parse(r#"{"a": 1, "b": {"c": 3}, "e": [1, 2], "g": {"h": 1}}"#);
        let patch = parse(r#"{"b": {"c": 3, "d": null}, "e": [1, 2], "f": null, "g": {"h": 1}}"#);
        assert_eq!(merge_patch(&old, &new), Some(patch));
        let (list, number) = (parse(r#"{"a": {"b": []}}"#), parse(r#"{"a": {"b": 1}}"#));
        assert!(replaces_list(&list) && !replaces_list(&number));
    }

    #[test]
    fn a_change_keeps_the_fields_that_a_type_lacks() {
        let whole = r#"{"spec": {"x": 1, "foreign": true, "list": [{"name": "a", "foreign": 1}]}}"#;
        let before = r#"{"spec": {"x": 1, "list": [{"name": "a"}], "gone": 1}}"#;
        let after = r#"{"spec": {"x": 2, "list": [{"name": "b"}], "new": 1}}"#;
        let changed =
            r#"{"spec": {"x": 2, "foreign": true, "list": [{"name": "b", "foreign": 1}], "new": 1}}"#;
        assert_eq!(transferred(whole, before, after), parse(changed));
        // A field that the type no longer has a value for is removed.
        assert_eq!(transferred(r#"{"x": 1, "gone": 1}"#, r#"{"gone": 1}"#, "{}"), parse(r#"{"x": 1}"#));
        // A field that is absent in the object has its default in the type.
        let (lacking, defaults) = (r#"{"replicas": 1}"#, r#"{"replicas": 1, "paused": false}"#);
        for (after, changed) in [
            (r#"{"replicas": 2, "paused": false}"#, r#"{"replicas": 2}"#),
            (r#"{"replicas": 1, "paused": true}"#, r#"{"replicas": 1, "paused": true}"#),
        ] {
            assert_eq!(transferred(lacking, defaults, after), parse(changed));
        }
        // Of a list that grows nobody knows which element is which.
        let (one, two) = (r#"{"list": [{"name": "a"}]}"#, r#"{"list": [{"name": "a"}, {"name": "b"}]}"#);
        let whole = r#"{"list": [{"name": "a", "foreign": 1}]}"#;
        assert_eq!(transferred(whole, one, two), parse(two));
    }

    #[test]
    fn values_are_equal_with_other_escapes_and_fractions() {
        for (one, other) in [
            (r#""<a>""#, r#""\u003ca\u003e""#),
            (r#"{"a&b":"\n"}"#, r#"{"a\u0026b":"\u000a"}"#),
            ("1.0", "1"),
            ("[-1]", "[-1.0]"),
            ("1e+21", "1e21"),
            (r#"{"a": 1, "b": 2.0}"#, r#"{"b": 2, "a": 1.0}"#),
        ] {
            assert!(is_equal(&parse(one), &parse(other)), "{one} {other}");
            assert_eq!(merge_patch(&parse(one), &parse(other)), None);
        }
        for (one, other) in [
            ("1", "2"),
            ("1.5", "1"),
            // Equal as fractions.
            ("9007199254740993", "9007199254740992"),
            ("1", "\"1\""),
            ("1.5", "\"1.5\""),
            ("true", "false"),
            (r#""\n""#, r#""n""#),
            ("null", "0.0"),
            ("[1]", "[1, 2]"),
            (r#"{"a": 1}"#, r#"{"a": 1, "b": 2}"#),
        ] {
            assert!(!is_equal(&parse(one), &parse(other)), "{one} {other}");
            assert!(!is_equal(&parse(other), &parse(one)), "{one} {other}");
        }
    }

    #[test]
    fn a_part_is_contained_with_equal_values() {
        let whole = parse(r#"{"a": 1, "b": {"c": [{"d": 1, "e": 2}]}}"#);
        assert!(contains(&whole, &parse(r#"{"b": {"c": [{"d": 1}]}}"#)));
        for other in [r#"{"a": 2}"#, r#"{"x": 1}"#, r#"{"b": {"c": []}}"#, r#"{"b": {"c": [{"d": 2}]}}"#] {
            assert!(!contains(&whole, &parse(other)), "{other}");
        }
    }
}
