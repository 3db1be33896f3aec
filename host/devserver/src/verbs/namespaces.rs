//! What controllers of a real cluster do for namespaces and definitions: the first ones are made, and one that is deleted
//! takes along what is in it and goes when that has gone.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Call, Core, JsonMap};
use crate::api::Metadata;
use crate::resources::Definition;
use crate::store::{Query, Stored};

/// Where namespaces are kept.
pub(super) const TABLE: &str = "/namespaces";
const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";
/// What a definition waits for whose objects have not gone yet.
pub(super) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
/// The namespaces of a new cluster.
const FIRST: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Whether a cluster cannot do without a namespace.
pub(super) fn is_needed(name: &str) -> bool {
    matches!(name, "default" | "kube-system" | "kube-public")
}

impl Core {
    pub(super) fn make_namespaces(self: &Arc<Self>) {
        for name in FIRST {
            let Some(call) = self.own_call(TABLE, name) else { continue };
            let mut object = Map::new();
            object.insert("metadata".to_owned(), json!({"name": name}));
            if let Err(error) = self.create_object(&call, object) {
                tracing::error!(name, "a namespace of a new cluster could not be made: {}", error.message);
            }
        }
    }

    /// Deletes everything in a namespace, and the namespace when it is empty.
    pub(super) fn empty_namespace(self: &Arc<Self>, namespace: &str) {
        let prefix = format!("{namespace}/");
        for table in self.store.tables() {
            for stored in self.under(&table, &prefix) {
                self.delete_stored(&table, &stored);
            }
        }
        self.settle_namespace(namespace);
    }

    /// Lets a namespace go that is being deleted and is empty.
    pub(super) fn settle_namespace(&self, namespace: &str) {
        let Some(found) = self.store.get(TABLE, namespace) else { return };
        let prefix = format!("{namespace}/");
        let empty = || self.store.tables().iter().all(|table| self.is_empty(table, &prefix));
        if found.object.deletion_timestamp().is_none() || !empty() {
            return;
        }
        let Some(call) = self.own_call(TABLE, namespace) else { return };
        // Who else changes it at the same time removes nothing of this.
        let _ = self.change(&call, |current, mut object| {
            // Another one of that name may have come.
            if current.object.deletion_timestamp().is_none() {
                return Ok(None);
            }
            object.remove("spec");
            Ok(Some(object))
        });
    }

    /// Whether a definition that is to be deleted still has objects.
    pub(super) fn has_content(&self, call: &Call, current: &Stored) -> bool {
        call.resource.is("apiextensions.k8s.io", "customresourcedefinitions")
            && Definition::read(&Value::Object(current.value()))
                .is_ok_and(|definition| !self.is_empty(&definition.storage(), ""))
    }

    /// Deletes all objects of a definition, and the definition when there are none.
    pub(super) fn empty_definition(self: &Arc<Self>, definition: &Stored) {
        let Ok(read) = Definition::read(&Value::Object(definition.value())) else { return };
        let table = read.storage();
        for stored in self.under(&table, "") {
            self.delete_stored(&table, &stored);
        }
        self.settle_definition(&table);
    }

    /// Deletes an object with what it is in.
    fn delete_stored(self: &Arc<Self>, table: &str, stored: &Stored) {
        let key = stored.object.key().as_str();
        match self.own_call(table, stored.object.name()) {
            Some(call) => self.delete_silently(&call.on(stored), key),
            // No version of it is served: nobody could take its finalizers off.
            None => drop(self.store.remove(&table.into(), key, stored)),
        }
    }

    /// Whether the definition of a table's resource is being deleted.
    pub(super) fn is_definition_ending(&self, table: &str) -> bool {
        let found = self.store.get(DEFINITIONS, &definition_name(table));
        found.is_some_and(|definition| definition.object.deletion_timestamp().is_some())
    }

    /// Lets a definition go that is being deleted and has no objects.
    pub(super) fn settle_definition(&self, table: &str) {
        if !self.is_definition_ending(table) || !self.is_empty(table, "") {
            return;
        }
        let Some(call) = self.own_call(DEFINITIONS, &definition_name(table)) else { return };
        let _ = self.change(&call, |current, mut object| {
            if current.object.deletion_timestamp().is_none() {
                return Ok(None);
            }
            Metadata::of(&mut object)?.remove_finalizer(CLEANUP);
            Ok(Some(object))
        });
    }

    /// Serves what the definitions say now; watches on what is served no more end.
    pub(super) fn redefine(&self) {
        let _alone = self.redefining.lock();
        let objects = self.under(DEFINITIONS, "");
        let definitions: Vec<Definition> =
            objects.iter().filter_map(|s| Definition::read(&Value::Object(s.value())).ok()).collect();
        // Once each, though served in several versions.
        let gone: BTreeSet<Arc<str>> = self
            .registry
            .now()
            .all()
            .filter(|r| r.is_custom() && !definitions.iter().any(|d| *d.storage() == *r.storage))
            .map(|r| r.storage.clone())
            .collect();
        self.registry.define(&definitions);
        for table in gone {
            self.store.end_feeds(&table);
        }
    }

    fn under(&self, table: &str, prefix: &str) -> Vec<Arc<Stored>> {
        self.first_under(table, prefix, 0)
    }

    fn is_empty(&self, table: &str, prefix: &str) -> bool {
        self.first_under(table, prefix, 1).is_empty()
    }

    fn first_under(&self, table: &str, prefix: &str, limit: usize) -> Vec<Arc<Stored>> {
        let query = Query { table, prefix, after: None, revision: None, limit, wanted: &|_| true };
        // The state of now is always known.
        self.store.list(&query).map(|s| s.objects).unwrap_or_default()
    }

    /// A call of the server itself on an object of a table.
    fn own_call(&self, table: &str, name: &str) -> Option<Call> {
        let resource = self.registry.now().all().find(|r| *r.storage == *table)?.clone();
        Some(Call::plain(resource, None, Some(name.to_owned())))
    }
}

impl Call {
    /// A call of the server itself on another object of the same resource.
    pub(super) fn on(&self, stored: &Stored) -> Self {
        let namespace = stored.object.namespace().map(str::to_owned);
        Self::plain(self.resource.clone(), namespace, Some(stored.object.name().to_owned()))
    }
}

/// The name of the definition of a table's resource.
fn definition_name(table: &str) -> String {
    table.split_once('/').map(|(group, plural)| format!("{plural}.{group}")).unwrap_or_default()
}

/// The finalizers in `spec` of a namespace that a client writes through `finalize`.
pub(super) fn with_finalizers(current: &JsonMap, asked: &JsonMap) -> JsonMap {
    let mut next = current.clone();
    match asked.get("spec") {
        Some(spec) => next.insert("spec".to_owned(), spec.clone()),
        None => next.remove("spec"),
    };
    next
}
