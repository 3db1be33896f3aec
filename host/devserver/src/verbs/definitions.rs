//! Definitions of custom resources, as far as requests have to do with them: what they define is served as soon as their write
//! is answered.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::{Core, JsonMap, Write};
use crate::kinds::Content;
use crate::resources::{DEFINITIONS, Definition, Resource};

/// What a definition waits for whose objects have not gone yet.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

impl Core {
    /// Whether a definition that is to be deleted still has objects.
    pub(super) fn has_content(&self, write: &Write, definition: &JsonMap) -> bool {
        write.resource.strategy.content == Content::Defined
            && Definition::read(&Value::Object(definition.clone()))
                .is_ok_and(|definition| !self.store.is_empty(&definition.storage(), ""))
    }

    /// Whether the definition of a table's resource is being deleted.
    pub(crate) fn is_definition_ending(&self, table: &str) -> bool {
        let found = self.store.get(DEFINITIONS, &definition_name(table));
        found.is_some_and(|definition| definition.object.deletion_timestamp().is_some())
    }

    /// Serves what the definitions say now; watches on what is served no more end.
    pub(super) fn redefine(&self) {
        let mut definitions = self.definitions.lock();
        let objects = self.store.under(DEFINITIONS, "", 0);
        let names: BTreeSet<&str> = objects.iter().map(|stored| stored.object.name()).collect();
        definitions.retain(|name, _| names.contains(name.as_str()));
        for stored in &objects {
            let known = definitions.entry(stored.object.name().to_owned()).or_default();
            // There may be hundreds, of 100 KB each: only those that have changed are read again.
            if known.revision != stored.revision {
                let definition = Definition::read(&Value::Object(stored.value()));
                known.resources = definition.map(|d| d.resources(&known.resources)).unwrap_or_default();
                known.revision = stored.revision;
            }
        }
        let served = || definitions.values().flat_map(|known| &known.resources);
        let tables: BTreeSet<&str> = served().map(|r| &*r.storage).collect();
        let before = self.registry.now();
        self.registry.define(served());
        // Once each, though served in several versions.
        let gone: BTreeSet<&str> = before
            .all()
            .filter(|r| r.is_custom())
            .map(|r| &*r.storage)
            .filter(|t| !tables.contains(t))
            .collect();
        for table in gone {
            self.store.end_feeds(table);
        }
    }
}

/// What a definition defines, at one revision of it.
#[derive(Debug, Default)]
pub(super) struct Defined {
    revision: u64,
    resources: Vec<Arc<Resource>>,
}

/// The name of the definition of a table's resource.
pub(crate) fn definition_name(table: &str) -> String {
    table.split_once('/').map(|(group, plural)| format!("{plural}.{group}")).unwrap_or_default()
}
