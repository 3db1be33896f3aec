//! Namespaces and definitions: one that is deleted takes along what is in it, and goes when that has gone.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;

use super::ControllerSet;
use super::queue::{Queue, Work};
use crate::api::Metadata;
use crate::resources::{DEFINITIONS, Definition, NAMESPACES};
use crate::store::{Query, Stored};
use crate::verbs::{CLEANUP, Core, DeleteOptions, definition_name};

/// How many objects are deleted before other work gets its turn.
const AT_ONCE: usize = 100;

pub(super) fn observe(set: ControllerSet, table: &Arc<str>, now: &Stored, queue: &mut Queue) {
    if now.object.deletion_timestamp().is_none() {
        return;
    }
    match &**table {
        NAMESPACES if set.namespaces => queue.add(Work::EmptyNamespace(now.object.name().into())),
        DEFINITIONS if set.definitions => queue.add(Work::EmptyDefinition(now.object.name().into())),
        _ => {}
    }
}

/// What has gone may have been the last of something.
pub(super) fn observe_end(
    set: ControllerSet,
    core: &Core,
    table: &Arc<str>,
    last: &Stored,
    queue: &mut Queue,
) {
    let is_ending = |namespace: &&str| {
        let found = core.store.get(NAMESPACES, namespace);
        found.is_some_and(|found| found.object.deletion_timestamp().is_some())
    };
    if set.namespaces
        && let Some(namespace) = last.object.namespace().filter(is_ending)
    {
        queue.add(Work::EmptyNamespace(namespace.into()));
    }
    if set.definitions && core.is_definition_ending(table) {
        queue.add(Work::EmptyDefinition(definition_name(table).into()));
    }
}

pub(super) fn empty_namespace(core: &Core, namespace: &str, queue: &mut Queue) {
    let Some(found) = core.store.get(NAMESPACES, namespace) else { return };
    if found.object.deletion_timestamp().is_none() {
        return;
    }
    let prefix = format!("{namespace}/");
    let mut sweep = Sweep::new();
    for table in core.store.tables() {
        sweep.delete(core, &table, &prefix);
    }
    if sweep.goes_on() {
        queue.add(Work::EmptyNamespace(namespace.into()));
    } else if sweep.is_empty {
        let Some(write) = core.own_write(NAMESPACES, None, namespace) else { return };
        // Who else changes it at the same time takes away nothing of this.
        let _ = core.change(&write, |current, old| {
            // Another one of that name may have come.
            Ok((current.object.deletion_timestamp().is_some()).then(|| {
                let mut next = old.clone();
                next.remove("spec");
                next
            }))
        });
    }
}

pub(super) fn empty_definition(core: &Core, name: &str, queue: &mut Queue) {
    let Some(found) = core.store.get(DEFINITIONS, name) else { return };
    if found.object.deletion_timestamp().is_none() {
        return;
    }
    let Ok(read) = Definition::read(&Value::Object(found.value())) else { return };
    let table: Arc<str> = read.storage().into();
    let mut sweep = Sweep::new();
    sweep.delete(core, &table, "");
    if sweep.goes_on() {
        queue.add(Work::EmptyDefinition(name.into()));
    } else if sweep.is_empty {
        let Some(write) = core.own_write(DEFINITIONS, None, name) else { return };
        let _ = core.change(&write, |current, old| {
            if current.object.deletion_timestamp().is_none() {
                return Ok(None);
            }
            let mut next = old.clone();
            Metadata::of(&mut next)?.remove_finalizer(CLEANUP);
            Ok(Some(next))
        });
    }
}

/// One pass over what is to be deleted.
struct Sweep {
    /// How many objects this pass may still delete.
    left: usize,
    deleted: usize,
    /// Nothing is there any more.
    is_empty: bool,
}

impl Sweep {
    fn new() -> Self {
        Self { left: AT_ONCE, deleted: 0, is_empty: true }
    }

    /// Whether there is more to delete; not if nothing could be deleted.
    fn goes_on(&self) -> bool {
        self.left == 0 && self.deleted > 0
    }

    /// Deletes objects of a table that are not being deleted yet.
    fn delete(&mut self, core: &Core, table: &Arc<str>, prefix: &str) {
        let wanted = |stored: &Stored| stored.object.deletion_timestamp().is_none();
        let query = Query { table, prefix, after: None, revision: None, limit: self.left, wanted: &wanted };
        let objects = match self.left {
            // For a query it would be no limit.
            0 => Vec::new(),
            _ => core.store.list(&query).map(|s| s.objects).unwrap_or_default(),
        };
        self.left -= objects.len().min(self.left);
        for stored in &objects {
            let object = &stored.object;
            let outcome = match core.own_write(table, object.namespace(), object.name()) {
                Some(write) => core.delete_object(&write, &DeleteOptions::default()).map(drop),
                // No version of it is served: nobody could take its finalizers off.
                None => {
                    let _ = core.store.remove(table, object.key().as_str(), stored);
                    Ok(())
                }
            };
            match outcome {
                Ok(()) => self.deleted += 1,
                Err(error) if error.code == StatusCode::NOT_FOUND => self.deleted += 1,
                Err(error) => tracing::warn!(
                    key = object.key().as_str(),
                    "an object could not be deleted with what it is in: {}",
                    error.message
                ),
            }
        }
        self.is_empty &= core.store.is_empty(table, prefix);
    }
}
