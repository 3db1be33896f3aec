//! [`Object`] in native builds: a JSON value in memory, with the methods of the generated bindings.

use std::rc::Rc;

use serde_json::Value;

use crate::bindings::imports::objects::OwnerReference;
use crate::bindings::imports::types as raw;

use super::Refused;

/// The longest pointer, as in the contract.
const POINTER: usize = 4 << 10;

/// The most pointers of one call, as the host has by default.
const POINTERS: usize = 64;

/// One object, immutable.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    value: Rc<Value>,
    /// The values that are selected by the descriptor's projection, if there is one.
    partial: bool,
    cluster: u32,
}

fn refused<T>(reason: raw::RefusalReason, message: String) -> Refused<T> {
    Err(raw::Refusal { reason, message })
}

impl Object {
    pub(crate) fn new(value: Rc<Value>, partial: bool) -> Self {
        Self { value, partial, cluster: 0 }
    }

    /// The same object of another cluster.
    pub(crate) fn in_cluster(self, cluster: u32) -> Self {
        Self { cluster, ..self }
    }

    pub(crate) fn value(&self) -> &Rc<Value> {
        &self.value
    }

    fn text(&self, pointer: &str) -> String {
        self.opt_text(pointer).unwrap_or_default()
    }

    fn opt_text(&self, pointer: &str) -> Option<String> {
        self.value.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
    }

    pub(crate) fn cluster(&self) -> u32 {
        self.cluster
    }

    pub(crate) fn key(&self) -> raw::ObjectKey {
        raw::ObjectKey { namespace: self.namespace(), name: self.name() }
    }

    pub(crate) fn name(&self) -> String {
        self.text("/metadata/name")
    }

    pub(crate) fn namespace(&self) -> String {
        self.text("/metadata/namespace")
    }

    pub(crate) fn api_version(&self) -> String {
        self.text("/apiVersion")
    }

    pub(crate) fn kind(&self) -> String {
        self.text("/kind")
    }

    pub(crate) fn uid(&self) -> String {
        self.text("/metadata/uid")
    }

    pub(crate) fn resource_version(&self) -> String {
        self.text("/metadata/resourceVersion")
    }

    pub(crate) fn generation(&self) -> Option<i64> {
        self.value.pointer("/metadata/generation").and_then(Value::as_i64)
    }

    pub(crate) fn creation_timestamp(&self) -> Option<String> {
        self.opt_text("/metadata/creationTimestamp")
    }

    pub(crate) fn deletion_timestamp(&self) -> Option<String> {
        self.opt_text("/metadata/deletionTimestamp")
    }

    pub(crate) fn label(&self, name: &str) -> Option<String> {
        self.entry("labels", name)
    }

    pub(crate) fn labels(&self) -> Vec<(String, String)> {
        self.entries("labels")
    }

    pub(crate) fn annotation(&self, name: &str) -> Option<String> {
        self.entry("annotations", name)
    }

    pub(crate) fn annotations(&self) -> Vec<(String, String)> {
        self.entries("annotations")
    }

    fn entry(&self, of: &str, name: &str) -> Option<String> {
        self.value["metadata"][of].get(name).and_then(Value::as_str).map(str::to_owned)
    }

    fn entries(&self, of: &str) -> Vec<(String, String)> {
        let Some(entries) = self.value["metadata"][of].as_object() else { return Vec::new() };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut entries: Vec<_> = entries.iter().map(|(name, value)| (name.clone(), text(value))).collect();
        entries.sort_unstable();
        entries
    }

    pub(crate) fn owner_references(&self) -> Vec<OwnerReference> {
        let Some(owners) = self.value["metadata"]["ownerReferences"].as_array() else { return Vec::new() };
        let text = |owner: &Value, name: &str| owner[name].as_str().unwrap_or_default().to_owned();
        let flag = |owner: &Value, name: &str| owner[name].as_bool().unwrap_or_default();
        owners
            .iter()
            .map(|owner| OwnerReference {
                api_version: text(owner, "apiVersion"),
                kind: text(owner, "kind"),
                name: text(owner, "name"),
                uid: text(owner, "uid"),
                controller: flag(owner, "controller"),
                block_owner_deletion: flag(owner, "blockOwnerDeletion"),
            })
            .collect()
    }

    pub(crate) fn finalizers(&self) -> Vec<String> {
        let Some(finalizers) = self.value["metadata"]["finalizers"].as_array() else { return Vec::new() };
        finalizers.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    pub(crate) fn exists(&self, pointer: &str) -> Refused<bool> {
        Ok(self.find(pointer)?.is_some())
    }

    pub(crate) fn get_string(&self, pointer: &str) -> Refused<Option<String>> {
        self.typed(pointer, "a string", |value| value.as_str().map(str::to_owned))
    }

    pub(crate) fn get_int(&self, pointer: &str) -> Refused<Option<i64>> {
        self.typed(pointer, "an integer of 64 bits", Value::as_i64)
    }

    pub(crate) fn get_bool(&self, pointer: &str) -> Refused<Option<bool>> {
        self.typed(pointer, "a boolean", Value::as_bool)
    }

    pub(crate) fn get(&self, pointer: &str) -> Refused<Option<String>> {
        Ok(self.find(pointer)?.map(|value| value.to_string()))
    }

    pub(crate) fn get_many(&self, pointers: &[String]) -> Refused<Vec<Option<String>>> {
        if pointers.len() > POINTERS {
            let message = format!("{} pointers in one call, more than {POINTERS}", pointers.len());
            return refused(raw::RefusalReason::OverLimit, message);
        }
        if pointers.iter().any(String::is_empty) {
            let message = "the empty pointer is the whole object: use `bytes`".to_owned();
            return refused(raw::RefusalReason::Invalid, message);
        }
        pointers.iter().map(|pointer| self.get(pointer)).collect()
    }

    pub(crate) fn bytes(&self) -> Refused<Vec<u8>> {
        Ok(self.value.to_string().into_bytes())
    }

    pub(crate) fn is_partial(&self) -> bool {
        self.partial
    }

    fn typed<T>(
        &self,
        pointer: &str,
        what: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Refused<Option<T>> {
        match self.find(pointer)? {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match read(&value) {
                Some(value) => Ok(Some(value)),
                None => refused(
                    raw::RefusalReason::Invalid,
                    format!("the value at {pointer} is not {what}: {value}"),
                ),
            },
        }
    }

    fn find(&self, pointer: &str) -> Refused<Option<Value>> {
        if pointer.len() > POINTER || !(pointer.is_empty() || pointer.starts_with('/')) {
            return refused(raw::RefusalReason::Invalid, format!("`{pointer}` is not a JSON pointer"));
        }
        Ok(select(&self.value, pointer))
    }
}

/// The value at a pointer, in which `[*]` selects every element; the value is then a list.
pub(crate) fn select(value: &Value, pointer: &str) -> Option<Value> {
    match pointer.split_once("/[*]") {
        None => value.pointer(pointer).cloned(),
        Some((before, after)) => match value.pointer(before)? {
            Value::Array(elements) => Some(selected(elements.iter(), after)),
            _ => None,
        },
    }
}

fn selected<'a>(values: impl Iterator<Item = &'a Value>, rest: &str) -> Value {
    let nested = rest.contains("/[*]");
    let mut found = Vec::new();
    for value in values.filter_map(|value| select(value, rest)) {
        match value {
            Value::Array(more) if nested => found.extend(more),
            value => found.push(value),
        }
    }
    Value::Array(found)
}
