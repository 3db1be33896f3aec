//! Resources in the fields of an object: they need an `apiVersion` and a `kind`, and metadata as every object has.

use serde_json::Value;

use super::budget::Budget;
use super::causes::{Causes, Path, invalid};
use super::types::{Entries, Type, TypeId, Types};
use crate::api::{Cause, JsonMap, Metadata, NameRule, syntax};
use crate::validation::{MetadataOf, check_metadata};

/// What is wrong with the resources in an object, by the words of a real server.
pub(super) fn check_embedded(types: &Types, root: TypeId, object: &JsonMap, budget: &mut Budget) -> Causes {
    let mut walk = EmbeddedWalk { types, path: Path::default(), causes: Causes::default(), budget };
    walk.fields(types.get(root), object);
    walk.causes
}

struct EmbeddedWalk<'a> {
    types: &'a Types,
    path: Path,
    causes: Causes,
    budget: &'a mut Budget,
}

impl<'a> EmbeddedWalk<'a> {
    fn value(&mut self, value_type: &'a Type, value: &Value) {
        match value {
            _ if self.causes.is_full() || !self.budget.spend(1) => {}
            Value::Object(object) => {
                if value_type.embedded {
                    self.resource(object);
                }
                self.fields(value_type, object);
            }
            Value::Array(list) => {
                let Some(items) = value_type.items.map(|items| self.types.get(items)) else { return };
                for (index, element) in list.iter().enumerate() {
                    let mark = self.path.index(index);
                    self.value(items, element);
                    self.path.back(&mark);
                }
            }
            _ => {}
        }
    }

    fn fields(&mut self, object_type: &'a Type, object: &JsonMap) {
        for (name, value) in object {
            let (known, mark) = match (object_type.fields.get(name.as_str()), object_type.entries) {
                (Some(field), _) => (field.value_type, self.path.field(name)),
                (None, Entries::Of(entry)) => (entry, self.path.key(name)),
                _ => continue,
            };
            self.value(self.types.get(known), value);
            self.path.back(&mark);
        }
    }

    fn resource(&mut self, object: &JsonMap) {
        for name in ["apiVersion", "kind"] {
            if !object.contains_key(name) {
                self.causes.add(Cause::required(&self.path.of(name), ""));
            }
        }
        if let Some(why) = object.get("apiVersion").and_then(api_version_fault) {
            self.causes.add(invalid(self.path.of("apiVersion"), &object["apiVersion"], &why));
        }
        if let Some(why) = object.get("kind").and_then(kind_fault) {
            self.causes.add(invalid(self.path.of("kind"), &object["kind"], &why));
        }
        if let Some(metadata) = object.get("metadata").filter(|metadata| !metadata.is_null()) {
            self.metadata(metadata);
        }
    }

    fn metadata(&mut self, metadata: &Value) {
        if !self.budget.spend_value(metadata) {
            return;
        }
        let mut resource = JsonMap::from_iter([("metadata".to_owned(), metadata.clone())]);
        let mut checked = match Metadata::of(&mut resource) {
            Ok(checked) => checked,
            Err(error) => {
                self.causes.add(invalid(self.path.of("metadata"), metadata, &error.message));
                return;
            }
        };
        if checked.text("name").is_empty() {
            // A resource in a field needs no name.
            checked.set("name", "fakename");
        }
        for cause in check_metadata(&resource, NameRule::Segment, MetadataOf::Custom) {
            let field = self.path.of(&cause.field);
            self.causes.add(Cause { field, ..cause });
        }
    }
}

fn api_version_fault(given: &Value) -> Option<String> {
    match given.as_str() {
        None => Some("must be a string".to_owned()),
        Some("") => Some("must not be empty".to_owned()),
        Some(text) if text.matches('/').take(2).count() > 1 => {
            Some(format!("unexpected GroupVersion string: {}", super::causes::clipped(text)))
        }
        Some(_) => None,
    }
}

fn kind_fault(given: &Value) -> Option<String> {
    match given.as_str() {
        None => Some("must be a string".to_owned()),
        Some("") => Some("must not be empty".to_owned()),
        Some(text) => {
            let faults = syntax::dns_1035_label(&text.to_lowercase());
            (!faults.is_empty())
                .then(|| format!("may have mixed case, but should otherwise match: {}", faults.join(",")))
        }
    }
}
