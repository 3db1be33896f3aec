//! The metadata of an object that is being written, and the types of its parts.

use serde_json::{Map, Value};

use super::ApiError;

/// `metadata` of an object, to be read and changed.
pub(crate) struct Metadata<'a>(&'a mut Map<String, Value>);

impl<'a> Metadata<'a> {
    /// The metadata, made if there is none.
    ///
    /// # Errors
    /// 400 when `metadata` or a part of it that the server reads is of another type than it has in the API.
    pub(crate) fn of(object: &'a mut Map<String, Value>) -> Result<Self, ApiError> {
        let metadata = object.entry("metadata").or_insert_with(|| Map::new().into());
        if metadata.is_null() {
            *metadata = Map::new().into();
        }
        let Value::Object(metadata) = metadata else {
            return Err(wrong_type("metadata", "an object"));
        };
        metadata.retain(|_, value| !value.is_null());
        check_types(metadata)?;
        Ok(Self(metadata))
    }

    pub(crate) fn text(&self, field: &str) -> &str {
        self.0.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn get(&self, field: &str) -> Option<&Value> {
        self.0.get(field)
    }

    pub(crate) fn set(&mut self, field: &str, value: impl Into<Value>) {
        self.0.insert(field.to_owned(), value.into());
    }

    pub(crate) fn remove(&mut self, field: &str) {
        self.0.remove(field);
    }

    /// Takes a field over from another object's metadata, or removes it if it has none.
    pub(crate) fn copy(&mut self, field: &str, from: Option<&Value>) {
        match from {
            Some(value) => self.set(field, value.clone()),
            None => self.remove(field),
        }
    }

    pub(crate) fn generation(&self) -> i64 {
        self.0.get("generation").and_then(Value::as_i64).unwrap_or(0)
    }

    pub(crate) fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.0.get("finalizers").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    pub(crate) fn add_finalizer(&mut self, name: &str) {
        if !self.finalizers().any(|f| f == name) {
            let finalizers = self.0.entry("finalizers").or_insert_with(|| Value::Array(Vec::new()));
            finalizers.as_array_mut().into_iter().for_each(|list| list.push(name.into()));
        }
    }

    pub(crate) fn remove_finalizer(&mut self, name: &str) {
        if let Some(Value::Array(list)) = self.0.get_mut("finalizers") {
            list.retain(|f| f != name);
        }
    }

    /// `deletionGracePeriodSeconds`; `None` when no deletion was asked for.
    pub(crate) fn grace(&self) -> Option<i64> {
        self.0.get("deletionTimestamp")?;
        Some(self.0.get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0))
    }

    pub(crate) fn set_label(&mut self, name: &str, value: &str) {
        self.set_entry("labels", name, value);
    }

    pub(crate) fn set_annotation(&mut self, name: &str, value: &str) {
        self.set_entry("annotations", name, value);
    }

    fn set_entry(&mut self, field: &str, name: &str, value: &str) {
        let map = self.0.entry(field).or_insert_with(|| Map::new().into());
        if let Value::Object(map) = map {
            map.insert(name.to_owned(), value.into());
        }
    }
}

fn wrong_type(field: &str, expected: &str) -> ApiError {
    ApiError::bad_request(format!("{field} cannot be read: it must be {expected}"))
}

fn check_types(metadata: &Map<String, Value>) -> Result<(), ApiError> {
    const TEXTS: [&str; 6] =
        ["name", "generateName", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    for field in TEXTS {
        if metadata.get(field).is_some_and(|v| !v.is_string()) {
            return Err(wrong_type(&format!("metadata.{field}"), "a string"));
        }
    }
    for field in ["labels", "annotations"] {
        let texts = |v: &Value| v.as_object().is_some_and(|map| map.values().all(Value::is_string));
        if metadata.get(field).is_some_and(|v| !texts(v)) {
            return Err(wrong_type(&format!("metadata.{field}"), "a map of strings"));
        }
    }
    let strings = |v: &Value| v.as_array().is_some_and(|list| list.iter().all(Value::is_string));
    if metadata.get("finalizers").is_some_and(|v| !strings(v)) {
        return Err(wrong_type("metadata.finalizers", "a list of strings"));
    }
    let objects = |v: &Value| v.as_array().is_some_and(|list| list.iter().all(Value::is_object));
    if metadata.get("ownerReferences").is_some_and(|v| !objects(v)) {
        return Err(wrong_type("metadata.ownerReferences", "a list of objects"));
    }
    Ok(())
}
