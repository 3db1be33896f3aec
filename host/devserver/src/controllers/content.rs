//! Namespaces and definitions: one that is deleted takes along what is in it, and goes when that has gone.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;

use super::ControllerSet;
use super::queue::{Queue, Work};
use crate::api::{JsonMap, Metadata};
use crate::resources::{DEFINITIONS, Definition, NAMESPACES};
use crate::store::{Query, Stored};
use crate::verbs::{CLEANUP, Core, DeleteOptions, Propagation, definition_name};

/// How many objects are deleted before other work gets its turn.
const AT_ONCE: usize = 100;

/// Queues what follows from a change.
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

/// Queues the namespace and the definition whose last object may have been deleted.
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

/// Deletes some of what is in a namespace, and how much that was; the last step is to take the finalizer off.
pub(super) fn empty_namespace(core: &Core, namespace: &str, queue: &mut Queue) -> usize {
    let Some(found) = core.store.get(NAMESPACES, namespace) else { return 1 };
    if found.object.deletion_timestamp().is_none() {
        return 1;
    }
    let prefix = format!("{namespace}/");
    let mut sweep = Sweep::new();
    for table in core.store.tables() {
        sweep.delete(core, &table, &prefix);
    }
    if sweep.goes_on() {
        queue.add(Work::EmptyNamespace(namespace.into()));
    } else if sweep.is_empty
        && let Some(write) = core.own_write(NAMESPACES, None, namespace)
    {
        // It is tried again when another write comes between, and fails only if the namespace has gone.
        let _ = core.change(&write, |current, old| {
            // Another one of that name may have come.
            let is_ending = current.object.deletion_timestamp().is_some();
            Ok(if is_ending { finalized(old) } else { None })
        });
    }
    sweep.touched()
}

/// A namespace without the finalizer of its content; `None` if it has none. Other finalizers in its spec are for others to remove.
fn finalized(old: &JsonMap) -> Option<JsonMap> {
    let mut next = old.clone();
    let finalizers = next.get_mut("spec")?.get_mut("finalizers")?.as_array_mut()?;
    let before = finalizers.len();
    finalizers.retain(|finalizer| finalizer != "kubernetes");
    let (is_changed, is_empty) = (finalizers.len() < before, finalizers.is_empty());
    if is_empty {
        next.remove("spec");
    }
    is_changed.then_some(next)
}

/// Deletes some of the objects of a definition, and how many that were; the last step is to take the finalizer off.
pub(super) fn empty_definition(core: &Core, name: &str, queue: &mut Queue) -> usize {
    let Some(found) = core.store.get(DEFINITIONS, name) else { return 1 };
    if found.object.deletion_timestamp().is_none() {
        return 1;
    }
    let Ok(read) = Definition::read(&Value::Object(found.value())) else { return 1 };
    let table: Arc<str> = read.storage().into();
    let mut sweep = Sweep::new();
    sweep.delete(core, &table, "");
    if sweep.goes_on() {
        queue.add(Work::EmptyDefinition(name.into()));
    } else if sweep.is_empty
        && let Some(write) = core.own_write(DEFINITIONS, None, name)
    {
        let _ = core.change(&write, |current, old| {
            if current.object.deletion_timestamp().is_none() {
                return Ok(None);
            }
            let mut next = old.clone();
            Metadata::of(&mut next)?.remove_finalizer(CLEANUP);
            Ok(Some(next))
        });
    }
    sweep.touched()
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

    /// How many objects it was about, the namespace or definition itself included.
    fn touched(&self) -> usize {
        AT_ONCE - self.left + 1
    }

    /// Deletes objects of a table that are not being deleted yet; their dependents go later, whatever the default of their kind
    /// is, as they are in the same namespace or are found by the garbage collector.
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
                Some(write) => {
                    let options = DeleteOptions::of_policy(object.uid(), Propagation::Background);
                    core.delete_object(&write, &options).map(drop)
                }
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
