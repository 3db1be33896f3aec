//! The garbage collector: owners and dependents.
//!
//! The store is the truth, so the collector keeps no graph of objects: only which objects name an owner's UID. Whether an owner
//! is there is looked up when it matters, where its dependent is: by kind, name and the dependent's namespace, and it counts
//! as there only with the UID that the dependent names. What is done is what upstream's collector does:
//!
//! | owners of an object | what becomes of it |
//! |---|---|
//! | one at least is there | references to those that are gone are taken out of it |
//! | none is there, some wait for it | it is deleted, its own dependents first if it has any |
//! | all are gone | it is deleted; with its dependents, unless it is told to leave them |

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use http::StatusCode;
use pilothouse_object::{ObjectKey, OwnerReference};
use serde_json::{Value, json};

use super::queue::{Queue, Reference, Work};
use crate::api::{ApiError, JsonMap, Metadata, Timestamp};
use crate::resources::DEFINITIONS;
use crate::store::{Query, Stored};
use crate::verbs::{Core, DeleteOptions, FOREGROUND, ORPHAN, Propagation, Write};

/// How many dependents are freed before other work gets its turn.
const AT_ONCE: usize = 100;
/// How many searches for owners are remembered; each reads all objects of the owner's kind.
const SEARCHES: usize = 500;
/// How many owners of an object are looked for in other namespaces, which takes a look at all objects of the owner's kind.
pub(super) const MAX_REPORTED: usize = 10;

/// The collector's index.
#[derive(Debug, Default)]
pub(super) struct GarbageCollector {
    /// The objects that name an owner, by the owner's UID.
    dependents: HashMap<Box<str>, BTreeSet<Reference>>,
    /// The UIDs among these of owners that were there and have gone.
    ended: HashSet<Box<str>>,
    /// Objects with an owner of a kind that is not served: looked at again when other kinds are.
    unresolved: BTreeSet<Reference>,
    /// The namespaces of owners that were searched for by UID; `None` of those that were found nowhere.
    searched: HashMap<Box<str>, Option<Box<str>>>,
    #[cfg(test)]
    looks: std::cell::Cell<usize>,
}

/// What is known of an owner.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// There, and not waiting for dependents.
    Solid,
    /// There, being deleted, and gone when its dependents are.
    Waiting,
    Gone,
    /// Of a kind that is not served, or one that cannot own the object: nothing can be said.
    Unknown,
}

impl GarbageCollector {
    pub(super) fn observe(
        &mut self,
        core: &Core,
        table: &Arc<str>,
        now: &Stored,
        before: Option<&Stored>,
        queue: &mut Queue,
    ) {
        let object = &now.object;
        let owners = object.owner_references();
        let earlier = before.map(|before| before.object.owner_references()).unwrap_or_default();
        let reference = || Reference::new(table, now);
        if owners != earlier || before.is_none() && !owners.is_empty() {
            // A set: an object may name thousands of owners.
            let named: HashSet<&str> = owners.iter().map(|owner| owner.uid.as_ref()).collect();
            for gone in earlier.iter().filter(|old| !named.contains(old.uid.as_ref())) {
                self.forget(&gone.uid, &reference());
            }
            for owner in &owners {
                self.dependents.entry(owner.uid.as_ref().into()).or_default().insert(reference());
            }
            // An owner that waits may have waited for this one alone.
            queue_owners(core, object.namespace(), &earlier, queue);
            queue.add(Work::Collect(reference()));
        }
        if object.deletion_timestamp().is_some() {
            if has_finalizer(now, ORPHAN) {
                queue.add(Work::Orphan(reference()));
            } else if has_finalizer(now, FOREGROUND) {
                queue.add(Work::Collect(reference()));
            }
        }
        if &**table == DEFINITIONS {
            for unresolved in std::mem::take(&mut self.unresolved) {
                queue.add(Work::Collect(unresolved));
            }
        }
    }

    pub(super) fn observe_end(&mut self, core: &Core, table: &Arc<str>, last: &Stored, queue: &mut Queue) {
        let reference = Reference::new(table, last);
        self.unresolved.remove(&reference);
        let owners = last.object.owner_references();
        for owner in &owners {
            self.forget(&owner.uid, &reference);
        }
        queue_owners(core, last.object.namespace(), &owners, queue);
        if let Some(dependents) = self.dependents.get(last.object.uid()) {
            self.ended.insert(last.object.uid().into());
            dependents.iter().for_each(|dependent| queue.add(Work::Collect(dependent.clone())));
        }
    }

    /// How many dependents were looked at.
    #[cfg(test)]
    pub(super) fn looks(&self) -> usize {
        self.looks.get()
    }

    fn forget(&mut self, owner: &str, dependent: &Reference) {
        if let Some(dependents) = self.dependents.get_mut(owner) {
            dependents.remove(dependent);
            if dependents.is_empty() {
                self.dependents.remove(owner);
                self.ended.remove(owner);
            }
        }
    }

    /// The dependents of an object that still name it.
    fn dependents<'a>(
        &'a self,
        core: &'a Core,
        owner: &'a str,
    ) -> impl Iterator<Item = (&'a Reference, Arc<Stored>)> {
        self.dependents.get(owner).into_iter().flatten().filter_map(move |reference| {
            #[cfg(test)]
            self.looks.update(|looks| looks + 1);
            let stored = core.store.get(&reference.table, reference.key.as_str())?;
            stored.object.owner_references().iter().any(|r| r.uid == owner).then_some((reference, stored))
        })
    }

    /// Does with an object what the table at the top of this module says.
    pub(super) fn collect(&mut self, core: &Core, reference: &Reference, queue: &mut Queue) {
        let Some(stored) = core.store.get(&reference.table, reference.key.as_str()) else { return };
        let object = &stored.object;
        if object.deletion_timestamp().is_some() {
            if has_finalizer(&stored, FOREGROUND) {
                self.wait_for_dependents(core, &stored, reference, queue);
            }
            return;
        }
        let owners = object.owner_references();
        // The kind of an owner that is known to have gone may have gone with it.
        let state = |owner: &OwnerReference<'_>| match self.ended.contains(owner.uid.as_ref()) {
            true => State::Gone,
            false => state_of(core, object.namespace(), owner),
        };
        let states: Vec<State> = owners.iter().map(state).collect();
        if states.contains(&State::Unknown) {
            self.unresolved.insert(reference.clone());
            return;
        }
        if owners.is_empty() {
            return;
        }
        let Some(write) = core.own_write(&reference.table, object.namespace(), object.name()) else { return };
        if states.contains(&State::Solid) {
            let rest: HashSet<&str> = (owners.iter().zip(&states))
                .filter(|(_, state)| **state != State::Solid)
                .map(|(owner, _)| owner.uid.as_ref())
                .collect();
            if !rest.is_empty() {
                log(&write, core.change(&write, |_, old| without_owners(old, &rest)).map(drop));
            }
            return;
        }
        let policy =
            if states.contains(&State::Waiting) && self.dependents(core, object.uid()).next().is_some() {
                // Two objects that wait for each other would never be deleted.
                let in_circle = self
                    .dependents(core, object.uid())
                    .any(|(_, dependent)| has_finalizer(&dependent, FOREGROUND));
                if in_circle {
                    log(&write, core.change(&write, |_, old| unblocked(old)).map(drop));
                }
                Propagation::Foreground
            } else {
                let gone = owners.iter().zip(&states).filter(|(_, state)| **state == State::Gone);
                self.report_foreign_owners(core, &stored, gone.map(|(owner, _)| owner));
                own_policy(&stored)
            };
        let deleted = core.delete_object(&write, &DeleteOptions::of_version(object, policy)).map(drop);
        if deleted.as_ref().is_err_and(|error| error.code == StatusCode::CONFLICT) {
            // It was changed meanwhile, and may have another owner.
            queue.add(Work::Collect(reference.clone()));
        }
        log(&write, deleted);
    }

    /// Makes the dependents go of an object that waits for them; without any it goes itself.
    fn wait_for_dependents(&self, core: &Core, owner: &Stored, reference: &Reference, queue: &mut Queue) {
        let uid = owner.object.uid();
        let mut blocked = false;
        for (dependent, stored) in self.dependents(core, uid).filter(|(_, stored)| blocks(stored, uid)) {
            blocked = true;
            // One that is being deleted goes by itself; a circle is opened where it is collected.
            if stored.object.deletion_timestamp().is_none() && dependent != reference {
                queue.add(Work::Collect(dependent.clone()));
            }
        }
        if !blocked {
            release(core, owner, reference, FOREGROUND);
        }
    }

    /// Lets an object go that waits for its dependents, when none holds it any more. Called for each dependent that ends, so it
    /// looks for the first that is left only.
    pub(super) fn release_owner(&self, core: &Core, reference: &Reference) {
        let Some(owner) = core.store.get(&reference.table, reference.key.as_str()) else { return };
        let uid = owner.object.uid();
        if owner.object.deletion_timestamp().is_some()
            && has_finalizer(&owner, FOREGROUND)
            && !self.dependents(core, uid).any(|(_, stored)| blocks(&stored, uid))
        {
            release(core, &owner, reference, FOREGROUND);
        }
    }

    /// Frees the dependents of an object that is deleted without them, and lets it go when none is left; how many were freed.
    pub(super) fn orphan(&self, core: &Core, reference: &Reference, queue: &mut Queue) -> usize {
        let Some(owner) = core.store.get(&reference.table, reference.key.as_str()) else { return 1 };
        if owner.object.deletion_timestamp().is_none() || !has_finalizer(&owner, ORPHAN) {
            return 1;
        }
        let uid = owner.object.uid();
        let mut freed = 0;
        for (dependent, stored) in self.dependents(core, uid) {
            if freed == AT_ONCE {
                queue.add(Work::Orphan(reference.clone()));
                return freed;
            }
            let object = &stored.object;
            if let Some(write) = core.own_write(&dependent.table, object.namespace(), object.name()) {
                log(
                    &write,
                    core.change(&write, |_, old| without_owners(old, &HashSet::from([uid]))).map(drop),
                );
                freed += 1;
            }
        }
        release(core, &owner, reference, ORPHAN);
        freed + 1
    }

    /// Says in an Event that an owner is in another namespace than its dependent, where it does not count.
    fn report_foreign_owners<'o>(
        &mut self,
        core: &Core,
        dependent: &Stored,
        gone: impl Iterator<Item = &'o OwnerReference<'o>>,
    ) {
        let Some(namespace) = dependent.object.namespace() else { return };
        let unknown: Vec<_> =
            gone.filter(|owner| !self.ended.contains(owner.uid.as_ref())).take(MAX_REPORTED).collect();
        for owner in unknown {
            if self.search(core, owner).is_some_and(|elsewhere| elsewhere != namespace) {
                report(core, dependent, namespace, owner);
            }
        }
    }

    /// The namespace of the object that has the UID of an owner, if there is one of the owner's kind.
    fn search(&mut self, core: &Core, owner: &OwnerReference<'_>) -> Option<&str> {
        if !self.searched.contains_key(owner.uid.as_ref()) {
            let served = core.registry.now();
            let kind = served.of_kind(&owner.api_version, &owner.kind)?;
            let query = Query {
                table: &kind.storage,
                prefix: "",
                after: None,
                revision: None,
                limit: 1,
                wanted: &|stored| {
                    #[cfg(test)]
                    self.looks.update(|looks| looks + 1);
                    stored.object.uid() == owner.uid
                },
            };
            let found = core.store.list(&query).map(|found| found.objects).unwrap_or_default();
            let namespace = found.first().and_then(|found| found.object.namespace()).map(Box::from);
            if self.searched.len() >= SEARCHES {
                self.searched.clear();
            }
            self.searched.insert(owner.uid.as_ref().into(), namespace);
        }
        self.searched.get(owner.uid.as_ref())?.as_deref()
    }
}

/// Looks at the owners that wait for their dependents.
fn queue_owners(core: &Core, namespace: Option<&str>, owners: &[OwnerReference<'_>], queue: &mut Queue) {
    for owner in owners.iter().filter(|owner| state_of(core, namespace, owner) == State::Waiting) {
        if let Some(reference) = locate(core, namespace, owner) {
            queue.add(Work::Release(reference));
        }
    }
}

/// Whether a dependent holds its owner back.
fn blocks(dependent: &Stored, owner: &str) -> bool {
    let holds = |r: &OwnerReference<'_>| r.uid == owner && r.block_owner_deletion == Some(true);
    dependent.object.owner_references().iter().any(holds)
}

/// Where the owner of an object in a namespace would be; `None` if there is no such kind, or if it cannot own the object.
fn locate(core: &Core, namespace: Option<&str>, owner: &OwnerReference<'_>) -> Option<Reference> {
    let served = core.registry.now();
    let resource = served.of_kind(&owner.api_version, &owner.kind)?;
    let namespace = if resource.namespaced { Some(namespace?) } else { None };
    let key = ObjectKey::new(namespace, &owner.name).ok()?;
    Some(Reference { table: resource.storage.clone(), key })
}

fn state_of(core: &Core, namespace: Option<&str>, owner: &OwnerReference<'_>) -> State {
    // No object has such a name.
    if owner.name.is_empty() || owner.name.contains('/') {
        return State::Gone;
    }
    let Some(reference) = locate(core, namespace, owner) else { return State::Unknown };
    match core.store.get(&reference.table, reference.key.as_str()) {
        Some(found) if found.object.uid() != owner.uid => State::Gone,
        Some(found) if found.object.deletion_timestamp().is_some() && has_finalizer(&found, FOREGROUND) => {
            State::Waiting
        }
        Some(_) => State::Solid,
        None => State::Gone,
    }
}

fn has_finalizer(stored: &Stored, name: &str) -> bool {
    let Some(list) = stored.object.get("/metadata/finalizers") else { return false };
    serde_json::from_str::<Vec<String>>(list).is_ok_and(|list| list.iter().any(|f| f == name))
}

/// How an object without owners is deleted: as its finalizers ask for.
fn own_policy(stored: &Stored) -> Propagation {
    if has_finalizer(stored, ORPHAN) {
        Propagation::Orphan
    } else if has_finalizer(stored, FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    }
}

/// An object without its references to some owners; `None` if it has none of them.
fn without_owners(old: &JsonMap, uids: &HashSet<&str>) -> Result<Option<JsonMap>, ApiError> {
    let mut next = old.clone();
    let Some(Value::Array(owners)) =
        next.get_mut("metadata").and_then(|metadata| metadata.get_mut("ownerReferences"))
    else {
        return Ok(None);
    };
    let before = owners.len();
    owners.retain(|owner| owner["uid"].as_str().is_none_or(|uid| !uids.contains(uid)));
    let (is_empty, is_changed) = (owners.is_empty(), owners.len() < before);
    if is_empty {
        Metadata::of(&mut next)?.remove("ownerReferences");
    }
    Ok(is_changed.then_some(next))
}

/// An object that holds none of its owners.
fn unblocked(old: &JsonMap) -> Result<Option<JsonMap>, ApiError> {
    let mut next = old.clone();
    let owners = next.get_mut("metadata").and_then(|metadata| metadata.get_mut("ownerReferences"));
    let mut changed = false;
    for owner in owners.and_then(Value::as_array_mut).into_iter().flatten() {
        if owner["blockOwnerDeletion"] == true {
            owner["blockOwnerDeletion"] = false.into();
            changed = true;
        }
    }
    Ok(changed.then_some(next))
}

/// Takes a finalizer off an object that is still the same.
fn release(core: &Core, stored: &Stored, reference: &Reference, finalizer: &str) {
    let object = &stored.object;
    let Some(write) = core.own_write(&reference.table, object.namespace(), object.name()) else { return };
    let released = core.change(&write, |current, old| {
        if current.object.uid() != object.uid() {
            return Ok(None);
        }
        let mut next = old.clone();
        Metadata::of(&mut next)?.remove_finalizer(finalizer);
        Ok(Some(next))
    });
    log(&write, released.map(drop));
}

fn report(core: &Core, dependent: &Stored, namespace: &str, owner: &OwnerReference<'_>) {
    let Some(mut write) = core.own_write("/events", Some(namespace), "") else { return };
    let object = &dependent.object;
    let now = Timestamp::now();
    write.name = format!("{}.{:x}", object.name(), now.0.as_nanosecond());
    let message = format!(
        "ownerRef [{}/{}, namespace: {namespace}, name: {}, uid: {}] does not exist in namespace {namespace:?}",
        owner.api_version, owner.kind, owner.name, owner.uid
    );
    let event = json!({
        "metadata": {"name": write.name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": object.api_version(), "kind": object.kind(), "name": object.name(),
            "namespace": namespace, "uid": object.uid(), "resourceVersion": object.resource_version(),
        },
        "reason": "OwnerRefInvalidNamespace", "message": message, "type": "Warning", "count": 1,
        "source": {"component": "garbage-collector-controller"},
        "reportingComponent": "garbage-collector-controller", "reportingInstance": "",
        "firstTimestamp": now.seconds(), "lastTimestamp": now.seconds(),
    });
    if let Value::Object(event) = event {
        log(&write, core.create_object(&write, event).map(drop));
    }
}

/// What was found changed or gone is looked at again when that is observed.
fn log(write: &Write, outcome: Result<(), ApiError>) {
    if let Err(error) = outcome {
        tracing::debug!(name = write.name, "the garbage collector could not write: {}", error.message);
    }
}
