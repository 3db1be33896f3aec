//! A document: the paths of a group version and every schema that they lead to.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::components::{Components, referenced};
use super::{GroupVersion, custom, paths};
use crate::store::Store;

/// From this size on custom resources are in a document without their schemas. Definitions of a group may have some
/// hundred MiB together.
pub(super) const MAX_SIZE: usize = 32 << 20;

/// A document as JSON.
pub(super) struct MadeDocument {
    pub(super) text: String,
    /// The schemas in it are those by which the resources are served.
    pub(super) is_of_these_resources: bool,
}

/// Makes the document of a group version; from `max_size` bytes on without the schemas of custom resources. Schemas become text one by one: at no time are all of them in memory as values.
pub(super) fn make(served: &GroupVersion<'_>, store: &Store, max_size: usize) -> MadeDocument {
    let paths = paths::paths(served);
    let mut pending = BTreeSet::new();
    collect_references(&paths, &mut pending);
    let info = json!({"title": "Kubernetes", "version": paths::VERSION});
    let mut text =
        format!("{{\"openapi\":\"3.0.0\",\"info\":{info},\"paths\":{paths},\"components\":{{\"schemas\":{{");
    let mut done = BTreeSet::new();
    let mut add = |text: &mut String, name: &str, schema: &Value| {
        let comma = if done.is_empty() { "" } else { "," };
        text.push_str(&format!("{comma}{}:{schema}", Value::from(name)));
        done.insert(name.to_owned());
    };

    let mut is_of_these_resources = true;
    for resource in served.version.resources.iter().filter(|r| r.is_custom()) {
        let schema = if text.len() > max_size {
            custom::open_schema(resource)
        } else {
            let made = custom::schema(resource, store);
            is_of_these_resources &= made.is_served;
            made.schema
        };
        for (kind, schema) in [(&resource.kind, schema), (&resource.list_kind, custom::list_schema(resource))]
        {
            collect_references(&schema, &mut pending);
            let name = custom::component(resource, kind);
            pending.remove(&name);
            add(&mut text, &name, &schema);
        }
    }

    let components = Components::get();
    let mut written = BTreeSet::new();
    while let Some(name) = pending.pop_first() {
        let schema = components.schema(&name, served.group, &served.version.name);
        if let Some(schema) = schema
            && written.insert(name.clone())
        {
            let mut found = BTreeSet::new();
            collect_references(&schema, &mut found);
            pending.extend(found.into_iter().filter(|name| !written.contains(name)));
            add(&mut text, &name, &schema);
        }
    }
    let scheme = json!({"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}});
    text.push_str(&format!("}},\"securitySchemes\":{scheme}}}}}"));
    MadeDocument { text, is_of_these_resources }
}

/// Adds the names of all components that a part of a document refers to.
fn collect_references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(text) if name == "$ref" => {
                        found.extend(referenced(text).map(str::to_owned));
                    }
                    member => collect_references(member, found),
                }
            }
        }
        Value::Array(elements) => elements.iter().for_each(|element| collect_references(element, found)),
        _ => {}
    }
}
