//! Defaulting: absent fields get the defaults of the schema.
//!
//! Nothing is made on the way: a default of `spec.size` needs a `spec`, or a default of `spec`. A `null` in a field that is
//! not nullable gives way to the default, and is dropped if there is none. Defaulting twice changes nothing more.
//!
//! A small object can ask for much: a list of a million `{}` whose elements have a large default. [`MAX_ADDED`] bounds it.

use serde_json::Value;

use super::types::{Entries, Type, TypeId, Types};
use crate::api::JsonMap;

/// How many values the defaults of one object may add. The largest object that is stored has about as many.
const MAX_ADDED: usize = 500_000;

/// The defaults would add more than [`MAX_ADDED`] values.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooManyDefaults;

/// Puts in the defaults that an object lacks, and drops nulls that no field of theirs may hold.
pub(super) fn default(types: &Types, root: TypeId, object: &mut JsonMap) -> Result<(), TooManyDefaults> {
    let mut defaulting = Defaulting { types, left: MAX_ADDED };
    defaulting.object(types.get(root), object)
}

/// How many values a value holds, itself included.
fn count(value: &Value) -> usize {
    match value {
        Value::Object(object) => 1 + object.values().map(count).sum::<usize>(),
        Value::Array(list) => 1 + list.iter().map(count).sum::<usize>(),
        _ => 1,
    }
}

struct Defaulting<'a> {
    types: &'a Types,
    left: usize,
}

impl<'a> Defaulting<'a> {
    fn copy(&mut self, default: &Value) -> Result<Value, TooManyDefaults> {
        self.left = self.left.checked_sub(count(default)).ok_or(TooManyDefaults)?;
        Ok(default.clone())
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
                        *element = self.copy(default)?;
                    }
                    self.value(items, element)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn object(&mut self, object_type: &'a Type, object: &mut JsonMap) -> Result<(), TooManyDefaults> {
        for (name, field) in &object_type.fields {
            let field = self.types.get(field.value_type);
            let Some(default) = &field.default else { continue };
            let lacks = object.get(&**name).is_none_or(|value| value.is_null() && !field.nullable);
            if lacks {
                let value = self.copy(default)?;
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
                    Some(default) => *value = self.copy(default)?,
                    None => {
                        dropped.push(name.clone());
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
        default(&types, root, &mut object).unwrap();
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
    fn defaults_of_a_hostile_schema_are_bounded() {
        let large: Vec<u8> = vec![0; 10_000];
        let properties = json!({"list": {"type": "array", "items": {"type": "object", "properties": {
            "d": {"type": "array", "items": {"type": "integer"}, "default": large},
        }}}});
        let (types, root) = compiled(&json!({"type": "object", "properties": properties}));
        let Value::Object(mut object) = json!({"list": vec![json!({}); 1000]}) else { panic!("an object") };
        assert_eq!(default(&types, root, &mut object), Err(TooManyDefaults));
    }
}
