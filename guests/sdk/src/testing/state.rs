//! The state of a [`World`](super::World): the server, what the cache shows of it, and what is queued.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

use super::World;
use super::descriptor::{Described, WatchSpec};
use super::grants::Grants;
use super::maps::MapSpec;
use super::predicates::Judged;
use super::queue::WorkQueue;
use super::records::{Metrics, RecordedEvent, Write};
use super::server::{Change, Group, Objects, Server, group_of};
use crate::bindings::imports::types as raw;
use crate::sys::Line;
use crate::{Key, Kind, Reasons, Verb, http};

/// The priority of keys that many are queued of at once, as on the host.
const LOW: i32 = -100;

/// What a test has prepared for the next call of a kind.
pub(super) enum Prepared {
    /// The call fails.
    Fails(raw::ClientError),
    /// Something happens before the call.
    Happens(Box<dyn FnOnce(&World)>),
}

pub(super) type HttpServer = Rc<dyn Fn(&http::Request) -> Result<http::Response, http::Error>>;

/// An event for the handlers.
pub(super) struct PendingEvent {
    /// The place of the watch in the descriptor.
    pub(super) watch: usize,
    pub(super) key: Key,
    pub(super) old: Option<Rc<Value>>,
    /// None of a deletion.
    pub(super) new: Option<Rc<Value>>,
    /// Updates are merged into an addition.
    pub(super) is_updated: bool,
    pub(super) is_initial: bool,
    pub(super) attempts: u32,
    /// When it is delivered.
    pub(super) due: u64,
}

impl PendingEvent {
    /// Whether the handlers are called for it. One that failed always is: what it was merged with may look as if nothing had
    /// changed.
    pub(super) fn passes(&self, watch: &WatchSpec) -> bool {
        self.attempts > 0
            || watch.passes(match (&self.old, &self.new) {
                (None, Some(new)) => Judged::Add(new, self.is_updated),
                (old, Some(new)) => Judged::Update(old.as_deref(), new),
                (last, None) => Judged::Delete(last.as_deref()),
            })
    }
}

pub(super) struct State {
    pub(super) described: Described,
    pub(super) config: Vec<u8>,
    pub(super) grants: Grants,
    pub(super) server: Server,
    pub(super) cache: BTreeMap<Group, Objects>,
    /// Whether the cache does not follow the server.
    pub(super) is_held: bool,
    /// Whether the plugin has a reconcile: what watches without a map mean.
    pub(super) reconciles: bool,
    /// Whether a call takes several keys.
    pub(super) is_batch: bool,
    pub(super) queue: WorkQueue,
    pub(super) pending: Vec<PendingEvent>,
    pub(super) is_started: bool,
    pub(super) events: Vec<RecordedEvent>,
    pub(super) writes: Vec<Write>,
    pub(super) metrics: Metrics,
    pub(super) prepared: Vec<(Verb, Kind, Prepared)>,
    pub(super) http: Option<HttpServer>,
    pub(super) logs: BTreeMap<Key, Vec<u8>>,
    pub(super) lines: Rc<RefCell<Vec<Line>>>,
    /// By name, in the order of their numbers.
    pub(super) remote_clusters: Vec<(String, World)>,
}

impl State {
    /// Shows the cache what changed, and queues what follows from it.
    pub(super) fn sync(&mut self) {
        if self.is_held {
            return;
        }
        for change in std::mem::take(&mut self.server.changes) {
            let objects = self.cache.entry(group_of(&change.kind)).or_default();
            let key = key_of(change.new.as_deref().or(change.old.as_deref()));
            match &change.new {
                Some(object) => objects.insert(key.clone(), Rc::clone(object)),
                None => objects.remove(&key),
            };
            self.dispatch(&change, &key);
        }
    }

    fn dispatch(&mut self, change: &Change, key: &Key) {
        for (place, watch) in self.described.watches.iter().enumerate() {
            if !watch.is_of_group(&change.kind) {
                continue;
            }
            let old = change.old.as_ref().filter(|object| watch.selects(object));
            let new = change.new.as_ref().filter(|object| watch.selects(object));
            let (event, reason) = match (old, new) {
                (None, None) => continue,
                (None, Some(new)) => (Judged::Add(new, false), Reasons::ADDED),
                (Some(old), None) => (Judged::Delete(Some(old)), Reasons::DELETED),
                (Some(old), Some(new)) => (Judged::Update(Some(old), new), Reasons::UPDATED),
            };
            let passes = watch.passes(event);
            let default = [if self.reconciles { MapSpec::Itself } else { MapSpec::Handler }];
            for map in if watch.maps.is_empty() { &default[..] } else { &watch.maps } {
                match map {
                    // Judged when it is delivered, after others are merged into it.
                    MapSpec::Handler => {
                        let event = PendingEvent {
                            watch: place,
                            key: key.clone(),
                            old: old.cloned(),
                            new: new.cloned(),
                            is_updated: false,
                            is_initial: !self.is_started,
                            attempts: 0,
                            due: 0,
                        };
                        merge(&mut self.pending, event);
                    }
                    _ if !passes => {}
                    MapSpec::Itself => self.queue.add(key, reason, 0),
                    map => {
                        let priority = if map.all_keys_of().is_some() { LOW } else { 0 };
                        for key in self.mapped(map, old, new) {
                            self.queue.add(&key, Reasons::OWNED, priority);
                        }
                    }
                }
            }
        }
    }

    /// The other keys that a change maps to.
    fn mapped(&self, map: &MapSpec, old: Option<&Rc<Value>>, new: Option<&Rc<Value>>) -> Vec<Key> {
        if let Some(kind) = map.all_keys_of() {
            let Some(watch) = self.described.watches.iter().find(|watch| watch.has_keys_of(&kind)) else {
                return Vec::new();
            };
            let cached = self.cache.get(&group_of(&kind)).into_iter().flatten();
            return cached.filter(|(_, object)| watch.selects(object)).map(|(key, _)| key.clone()).collect();
        }
        let is_namespaced = |group: &str, kind: &str| self.server.is_namespaced(group, kind);
        let states = [old, new].into_iter().flatten();
        states.flat_map(|object| map.keys(object, &is_namespaced)).collect()
    }

    /// What a test prepared for a call, the first first.
    pub(super) fn take_prepared(&mut self, verb: Verb, kind: &Kind) -> Option<Prepared> {
        let place =
            self.prepared.iter().position(|(on, of, _)| *on == verb && group_of(of) == group_of(kind))?;
        Some(self.prepared.remove(place).2)
    }
}

fn key_of(object: Option<&Value>) -> Key {
    let text = |name: &str| object.and_then(|object| object["metadata"][name].as_str()).unwrap_or_default();
    Key::namespaced(text("namespace"), text("name"))
}

/// Adds an event, or merges it with one of its key that waits, as the host does.
pub(super) fn merge(pending: &mut Vec<PendingEvent>, event: PendingEvent) {
    let place = pending.iter().rposition(|other| other.watch == event.watch && other.key == event.key);
    let Some(place) = place else { return pending.push(event) };
    let waiting = &mut pending[place];
    // A change that comes while a failed event waits ends its delay.
    waiting.due = event.due;
    match (&waiting.old, &waiting.new, event.new) {
        // Added and deleted before it was delivered.
        (None, Some(_), None) if waiting.attempts == 0 => drop(pending.remove(place)),
        (_, Some(_), None) => (waiting.old, waiting.new) = (event.old, None),
        (_, Some(_), new) => (waiting.new, waiting.is_updated) = (new, true),
        // A new object of the name of a deleted one is never hidden.
        (_, None, new) => pending.push(PendingEvent { new, ..event }),
    }
}
