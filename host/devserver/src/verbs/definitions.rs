//! Definitions of custom resources, as far as requests have to do with them: what they define is served as soon as their write
//! is answered.

use serde_json::Value;

use super::{Core, JsonMap, Write};
use crate::kinds::Content;
use crate::resources::{DEFINITIONS, Definition};

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

    /// Whether there is a definition of a table's resource.
    pub(super) fn is_defined(&self, table: &str) -> bool {
        self.store.get(DEFINITIONS, &definition_name(table)).is_some()
    }

    /// Serves what the definitions say now. Watches end on what is defined otherwise or no more: as on a real server, they were
    /// those of a storage that is not there any more.
    pub(super) fn redefine(&self) {
        let redefined = self.registry.define(
            || {
                let objects = self.store.under(DEFINITIONS, "", 0).into_iter();
                objects.map(|stored| (stored.object.name().to_owned(), stored.revision, stored)).collect()
            },
            |stored| Definition::read(&Value::Object(stored.value())).ok(),
        );
        for table in redefined {
            self.store.end_feeds(&table);
        }
    }
}

/// The name of the definition of a table's resource.
pub(crate) fn definition_name(table: &str) -> String {
    table.split_once('/').map(|(group, plural)| format!("{plural}.{group}")).unwrap_or_default()
}
