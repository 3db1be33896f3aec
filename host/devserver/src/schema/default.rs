//! Defaulting: absent fields get the defaults of the schema.
//!
//! Nothing is made on the way: a default of `spec.size` needs a `spec`, or a default of `spec`. A `null` in a field that is
//! not nullable gives way to the default, and is dropped if there is none. Defaulting twice changes nothing more.
//!
//! A small object can ask for much: a list of a million `{}` whose elements have a large default. A [`DefaultsLimit`]
//! bounds the bytes that are added, and only fields that have a default are looked for.

use serde_json::Value;

use super::types::{Entries, Type, TypeId, Types};
use crate::api::JsonMap;

/// How many bytes the defaults of one object may add: more than twice what a request may bring.
const MAX_ADDED: usize = 8 << 20;
/// How many bytes the defaults of all objects of one answer may add. A definition may gain a default of 6 KiB while there
/// are 10,000 objects; with pages of 500 a client may read more.
const MAX_ADDED_IN_ANSWER: usize = 64 << 20;
/// What a value costs beside its text.
const VALUE_BYTES: usize = 16;

/// The defaults would add more than they may.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooManyDefaults;

/// How many bytes defaults may still add: of one object, or of all objects of one answer.
#[derive(Debug)]
pub(crate) struct DefaultsLimit(usize);

impl Default for DefaultsLimit {
    fn default() -> Self {
        Self(MAX_ADDED)
    }
}

impl DefaultsLimit {
    /// Of all objects of an answer.
    pub(crate) fn of_answer() -> Self {
        Self(MAX_ADDED_IN_ANSWER)
    }

    /// Whether nothing may be added any more.
    pub(crate) fn is_spent(&self) -> bool {
        self.0 == 0
    }

    /// Does something with the limit of one object, which counts towards this one too.
    pub(crate) fn with_object(&mut self, done: impl FnOnce(&mut Self)) {
        let granted = self.0.min(MAX_ADDED);
        let mut own = Self(granted);
        done(&mut own);
        self.0 -= granted - own.0;
    }
}

/// What becomes of a null in a field that is not nullable and has no default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    Dropped,
    /// They stay and are refused later: what an apply has made is not read again, so nobody drops them.
    Kept,
}

/// Puts in the defaults that an object lacks.
pub(super) fn default(
    types: &Types,
    root: TypeId,
    object: &mut JsonMap,
    nulls: Nulls,
    limit: &mut DefaultsLimit,
) -> Result<(), TooManyDefaults> {
    Defaulting { types, nulls, limit }.object(types.get(root), object)
}

/// How many bytes a value takes.
fn weight(value: &Value) -> usize {
    VALUE_BYTES
        + match value {
            Value::Object(object) => object.iter().map(|(name, value)| name.len() + weight(value)).sum(),
            Value::Array(list) => list.iter().map(weight).sum(),
            Value::String(text) => text.len(),
            _ => 0,
        }
}

struct Defaulting<'a> {
    types: &'a Types,
    nulls: Nulls,
    limit: &'a mut DefaultsLimit,
}

impl<'a> Defaulting<'a> {
    /// The default of a field of this name.
    fn copy(&mut self, name: &str, default: &Value) -> Result<Value, TooManyDefaults> {
        // The limit is gone for good: what comes after must not get through because it is smaller.
        let added = name.len() + weight(default);
        let left = self.limit.0.checked_sub(added);
        self.limit.0 = left.unwrap_or(0);
        left.map(|_| default.clone()).ok_or(TooManyDefaults)
    }

    fn value(&mut self, value_type: &'a Type, value: &mut Value) -> Result<(), TooManyDefaults> {
        match value {
            Value::Object(object) => self.object(value_type, object),
            Value::Array(list) => {
                let Some(items) = value_type.items.map(|items| self.types.get(items)) else { return Ok(()) };
                for element in list {
                    if element.is_null()
                        && !items.nullable
                        && let Some(default) = &items.default
                    {
                        *element = self.copy("", default)?;
                    }
                    self.value(items, element)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn object(&mut self, object_type: &'a Type, object: &mut JsonMap) -> Result<(), TooManyDefaults> {
        for name in &object_type.defaulted {
            let Some(field) = object_type.fields.get(name) else { continue };
            let field = self.types.get(field.value_type);
            let Some(default) = &field.default else { continue };
            let lacks = object.get(&**name).is_none_or(|value| value.is_null() && !field.nullable);
            if lacks {
                let value = self.copy(name, default)?;
                object.insert((**name).to_owned(), value);
            }
        }
        let mut dropped = Vec::new();
        for (name, value) in object.iter_mut() {
            let known = match (object_type.fields.get(name.as_str()), object_type.entries) {
                (Some(field), _) => self.types.get(field.value_type),
                (None, Entries::Of(entry)) => self.types.get(entry),
                _ => continue,
            };
            if value.is_null() && !known.nullable {
                match &known.default {
                    Some(default) => *value = self.copy(name, default)?,
                    None => {
                        if self.nulls == Nulls::Dropped {
                            dropped.push(name.clone());
                        }
                        continue;
                    }
                }
            }
            self.value(known, value)?;
        }
        for name in dropped {
            object.remove(&name);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::compiled;
    use super::*;

    fn defaulted(properties: Value, object: Value) -> Value {
        let (types, root) = compiled(&json!({"type": "object", "properties": properties}));
        let Value::Object(mut object) = object else { panic!("an object") };
        default(&types, root, &mut object, Nulls::Dropped, &mut DefaultsLimit::default()).unwrap();
        object.into()
    }

    #[test]
    fn absent_fields_get_their_defaults_where_their_parent_is() {
        let properties = json!({
            "spec": {"type": "object", "properties": {
                "size": {"type": "integer", "default": 1},
                "deep": {"type": "object", "default": {}, "properties": {"mode": {"type": "string", "default": "a"}}},
                "bare": {"type": "object", "properties": {"mode": {"type": "string", "default": "a"}}},
            }},
        });
        assert_eq!(defaulted(properties.clone(), json!({})), json!({}));
        assert_eq!(
            defaulted(properties.clone(), json!({"spec": {}})),
            json!({"spec": {"size": 1, "deep": {"mode": "a"}}})
        );
        let given = json!({"spec": {"size": 2, "deep": {"mode": "b"}, "bare": {"mode": "c"}}});
        assert_eq!(defaulted(properties, given.clone()), given);
    }

    #[test]
    fn elements_and_entries_get_defaults_too() {
        let element = json!({"type": "object", "properties": {"a": {"type": "integer", "default": 1}}});
        let properties = json!({
            "list": {"type": "array", "items": element},
            "map": {"type": "object", "additionalProperties": element},
        });
        let object = json!({"list": [{}, {"a": 2}, 3], "map": {"x": {}}});
        let expected = json!({"list": [{"a": 1}, {"a": 2}, 3], "map": {"x": {"a": 1}}});
        assert_eq!(defaulted(properties, object), expected);
    }

    #[test]
    fn a_null_gives_way_to_the_default_unless_it_is_a_value() {
        let properties = json!({
            "a": {"type": "string", "default": "x"},
            "b": {"type": "string"},
            "c": {"type": "string", "nullable": true, "default": "x"},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "list": {"type": "array", "items": {"type": "string"}},
        });
        let object = json!({"a": null, "b": null, "c": null, "map": {"k": null, "l": "m"}, "list": [null]});
        let expected = json!({"a": "x", "c": null, "map": {"l": "m"}, "list": [null]});
        assert_eq!(defaulted(properties, object), expected);
    }

    #[test]
    fn defaults_of_a_hostile_schema_are_bounded_in_bytes() {
        let of_elements = |property: Value, name: String| {
            let element = json!({"type": "object", "properties": {name: property}});
            let properties = json!({"list": {"type": "array", "items": element}});
            compiled(&json!({"type": "object", "properties": properties}))
        };
        let numbers: Vec<u8> = vec![0; 10_000];
        let list = json!({"type": "array", "items": {"type": "integer"}, "default": numbers});
        let text = json!({"type": "string", "default": "x".repeat(10_000)});
        for (types, root) in [
            of_elements(list, "d".to_owned()),
            of_elements(text, "d".to_owned()),
            of_elements(json!({"type": "integer", "default": 1}), "n".repeat(10_000)),
        ] {
            let Value::Object(mut object) = json!({"list": vec![json!({}); 1000]}) else {
                panic!("an object")
            };
            let mut limit = DefaultsLimit::default();
            assert_eq!(default(&types, root, &mut object, Nulls::Dropped, &mut limit), Err(TooManyDefaults));
            assert!(weight(&object.into()) < MAX_ADDED + (1 << 20));
            assert_eq!(limit.0, 0);
        }
    }

    #[test]
    fn fields_without_a_default_cost_an_object_nothing() {
        let mut properties: JsonMap =
            (0..1000).map(|i| (format!("f{i}"), json!({"type": "string"}))).collect();
        properties.insert("d".to_owned(), json!({"type": "string", "default": "x"}));
        let (types, root) = compiled(&json!({"type": "object", "properties": properties}));
        assert_eq!(types.get(root).defaulted.len(), 1);
    }
}
