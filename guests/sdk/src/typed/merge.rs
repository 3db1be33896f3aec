//! Differences of JSON values, as RFC 7396 merge patches.

use crate::json::{Fields, Json};

/// The merge patch that makes `new` of `old`; none if they are equal.
pub(super) fn merge_patch<'t>(old: &Json<'t>, new: &Json<'t>) -> Option<Json<'t>> {
    if old == new {
        return None;
    }
    let (Json::Object(old), Json::Object(new)) = (old, new) else { return Some(new.clone()) };
    let mut patch = Fields::default();
    for (name, value) in new.iter() {
        let change = match old.get(name) {
            Some(before) => merge_patch(before, value),
            None => Some(value.clone()),
        };
        if let Some(change) = change {
            patch.set(name.clone(), change);
        }
    }
    for (name, _) in old.iter() {
        if new.get(name).is_none() {
            patch.set(name.clone(), Json::null());
        }
    }
    Some(Json::Object(patch))
}

/// Makes the change from `before` to `after` in `whole`, which may have fields that the two lack: those of a kind that a
/// type does not have. In lists of equal length each element keeps its further fields.
pub(crate) fn transfer<'t>(whole: &Json<'t>, before: &Json<'t>, after: &Json<'t>) -> Json<'t> {
    if before == after {
        return whole.clone();
    }
    match (whole, before, after) {
        (Json::Object(whole), Json::Object(before), Json::Object(after)) => {
            let mut result = whole.clone();
            result.retain(|name| after.get(name).is_some() || before.get(name).is_none());
            for (name, value) in after.iter() {
                let value = match (whole.get(name), before.get(name)) {
                    (Some(whole), Some(before)) => transfer(whole, before, value),
                    // A default of the type that the object does not have, and that nobody changed.
                    (None, Some(before)) if before == value => continue,
                    _ => value.clone(),
                };
                result.set(name.clone(), value);
            }
            Json::Object(result)
        }
        (Json::List(whole), Json::List(before), Json::List(after))
            if whole.len() == before.len() && before.len() == after.len() =>
        {
            let elements = whole.iter().zip(before).zip(after);
            Json::List(elements.map(|((whole, before), after)| transfer(whole, before, after)).collect())
        }
        _ => after.clone(),
    }
}

/// Whether every field of `part` is in `whole` with an equal value. Lists must have the same length.
pub(super) fn contains(whole: &Json<'_>, part: &Json<'_>) -> bool {
    match (whole, part) {
        (Json::Object(whole), Json::Object(part)) => {
            part.iter().all(|(name, value)| whole.get(name).is_some_and(|whole| contains(whole, value)))
        }
        (Json::List(whole), Json::List(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(whole, part)| contains(whole, part))
        }
        _ => whole == part,
    }
}

/// Whether a patch replaces a list, which loses elements that others added meanwhile.
pub(super) fn replaces_list(patch: &Json<'_>) -> bool {
    match patch {
        Json::List(_) => true,
        Json::Object(fields) => fields.iter().any(|(_, value)| replaces_list(value)),
        Json::Scalar(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Json<'_> {
        Json::parse(text).unwrap_or_else(|| panic!("{text}"))
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
        let whole = parse(r#"{"spec": {"x": 1, "foreign": true, "list": [{"name": "a", "foreign": 1}]}}"#);
        let before = parse(r#"{"spec": {"x": 1, "list": [{"name": "a"}], "gone": 1}}"#);
        let after = parse(r#"{"spec": {"x": 2, "list": [{"name": "b"}], "new": 1}}"#);
        let changed =
            r#"{"spec": {"x": 2, "foreign": true, "list": [{"name": "b", "foreign": 1}], "new": 1}}"#;
        assert_eq!(transfer(&whole, &before, &after), parse(changed));
        // A field that is absent in the object has its default in the type.
        let (lacking, defaults) = (r#"{"replicas": 1}"#, r#"{"replicas": 1, "paused": false}"#);
        for (after, changed) in [
            (r#"{"replicas": 2, "paused": false}"#, r#"{"replicas": 2}"#),
            (r#"{"replicas": 1, "paused": true}"#, r#"{"replicas": 1, "paused": true}"#),
        ] {
            assert_eq!(transfer(&parse(lacking), &parse(defaults), &parse(after)), parse(changed));
        }
        // Of a list that grows nobody knows which element is which.
        let (one, two) = (r#"{"list": [{"name": "a"}]}"#, r#"{"list": [{"name": "a"}, {"name": "b"}]}"#);
        let whole = parse(r#"{"list": [{"name": "a", "foreign": 1}]}"#);
        assert_eq!(transfer(&whole, &parse(one), &parse(two)), parse(two));
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
