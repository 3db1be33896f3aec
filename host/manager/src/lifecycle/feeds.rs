//! [`Feeds`]: what brings work to a generation: mappers of mapped watches, rings and pumps of handler watches, schedules.
//!
//! A reload moves from the old feeds to the new ones in this order, so that no change is missed and none is delivered by two
//! pumps at once:
//!
//! 1. each watch of the new generation gets its listener;
//! 2. the old mappers and unused rings are removed, and the old pumps are cancelled;
//! 3. each new pump waits for the pump that it replaces, and delivers the events which that one left.

use std::sync::Arc;

use pilothouse_cache::{CacheError, FilteringResourceEventHandler, Registration, Ring, RingOptions};
use pilothouse_object::{Gvk, ObjectKey};
use pilothouse_plugin::{Delivery, KeyMap, OnReload, Schedule, WatchSpec};
use pilothouse_workqueue::{Priority, Queue};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::dispatch::mapper::Mapper;
use crate::dispatch::mapping::Filter;
use crate::dispatch::pump::{Leftover, Pump};
use crate::dispatch::reasons::Reasons;
use crate::dispatch::tombstones::MAX_TOMBSTONES;
use crate::imports::plugin_imports::{KindView, PluginImports};
use crate::lifecycle::generation::Generation;
use crate::lifecycle::plugin::Plugin;

/// The feeds of one generation while it is the current one.
#[derive(Default)]
pub(crate) struct Feeds {
    mappers: Vec<MapperFeed>,
    handlers: Vec<HandlerFeed>,
    /// Ends pumps and schedules.
    cancel: CancellationToken,
}

/// A mapped watch: its listener adds keys to the queue.
struct MapperFeed {
    kind: Gvk,
    mapper: Arc<Mapper>,
    _registration: Registration,
}

/// A handler watch: its listener is a ring, which a pump empties.
struct HandlerFeed {
    watch: WatchSpec,
    ring: Arc<Ring>,
    registration: Registration,
    pump: JoinHandle<Leftover>,
}

/// A handler watch that has its listener and no pump yet.
struct Unpumped {
    watch: WatchSpec,
    ring: Arc<Ring>,
    registration: Registration,
    /// The pump that is replaced.
    predecessor: Option<JoinHandle<Leftover>>,
}

impl Feeds {
    /// Feeds a generation in place of the one before, whose feeds are `old`.
    pub(super) fn take_over(
        plugin: &Arc<Plugin>,
        generation: &Arc<Generation>,
        before: Option<&Arc<Generation>>,
        mut old: Self,
        io: &Handle,
    ) -> Self {
        let mut feeds = Self::default();
        let mut unpumped = Vec::new();
        for watch in &generation.description.watches {
            let Some(view) = generation.imports.kind(&watch.kind) else { continue };
            let listening = if matches!(watch.map, KeyMap::Handler) {
                listen_with_ring(plugin, generation, watch, view, &mut old.handlers)
                    .map(|handler| unpumped.push(handler))
            } else {
                listen_with_mapper(plugin, generation, watch, view, before)
                    .map(|mapper| feeds.mappers.push(mapper))
            };
            if let Err(error) = listening {
                // Only a host that shuts down stops informers that have leases.
                tracing::warn!(event = "listener_refused", plugin = &**plugin.name(), %error, "no listener");
            }
        }
        // The old listeners go; events that their pumps did not deliver are taken over below.
        old.stop();
        for handler in unpumped {
            feeds.start_pump(plugin, generation, handler);
        }
        for schedule in &generation.description.schedules {
            let ticks = run_schedule(plugin.queue().clone(), schedule.clone(), feeds.cancel.clone());
            plugin.tasks().spawn_on(ticks, io);
        }
        feeds
    }

    /// Ends pumps and schedules, and removes the listeners.
    pub(super) fn stop(self) {
        self.cancel.cancel();
    }

    /// Queues the keys of all cached objects that the mapped watches show, and returns their number.
    pub(super) fn queue_all(&self, imports: &PluginImports) -> usize {
        let queue = |feed: &MapperFeed| {
            let objects = imports.kind(&feed.kind)?.lease.indexer().snapshot().cursor();
            Some(feed.mapper.queue_all(objects))
        };
        self.mappers.iter().filter_map(queue).sum()
    }

    /// Drops old deletions from the rings, if that is `due` or a ring holds too many.
    pub(super) fn rotate_tombstones(&self, due: bool) {
        for feed in &self.handlers {
            if due || feed.ring.surplus() > MAX_TOMBSTONES {
                feed.ring.forget_old_deletions();
            }
        }
    }

    fn start_pump(&mut self, plugin: &Arc<Plugin>, generation: &Arc<Generation>, handler: Unpumped) {
        let Unpumped { watch, ring, registration, predecessor } = handler;
        let pump = Pump {
            plugin: Arc::clone(plugin),
            generation: Arc::clone(generation),
            kind: watch.kind.clone(),
            predicates: watch.predicates.clone(),
            ring: Arc::clone(&ring),
            predecessor,
            cancel: self.cancel.clone(),
        };
        let pump = plugin.spawn(pump.run());
        self.handlers.push(HandlerFeed { watch, ring, registration, pump });
    }
}

fn listen_with_mapper(
    plugin: &Plugin,
    generation: &Generation,
    watch: &WatchSpec,
    view: &KindView,
    before: Option<&Arc<Generation>>,
) -> Result<MapperFeed, CacheError> {
    let mapper = Arc::new(Mapper {
        gate: Arc::clone(plugin.gate()),
        filter: Filter::new(watch, view.watchable()),
        predicates: watch.predicates.clone(),
        map: watch.map.clone(),
        namespaced_owner: has_namespaced_owner(&watch.map, &generation.imports),
        initial: reason_of_initial_list(watch, generation.on_reload, before),
    });
    let listener = Arc::clone(&mapper) as _;
    let registration = view.lease.add_listener(listener, generation.description.resync)?;
    Ok(MapperFeed { kind: watch.kind.clone(), mapper, _registration: registration })
}

/// Why the keys of the initial list are reconciled. None when they are not: the generation before had the same watch, and the
/// manifest says that a reload reconciles nothing again.
fn reason_of_initial_list(
    watch: &WatchSpec,
    on_reload: OnReload,
    before: Option<&Arc<Generation>>,
) -> Option<Reasons> {
    let Some(before) = before else { return Some(Reasons::ADDED) };
    let is_known = before.description.watches.contains(watch);
    (on_reload != OnReload::Keep || !is_known).then_some(Reasons::RELOADED)
}

/// Whether the owner kind of an owner mapping is namespaced. The host knows it of watched kinds; most others are.
fn has_namespaced_owner(map: &KeyMap, imports: &PluginImports) -> bool {
    let KeyMap::Owner { group, kind, .. } = map else { return true };
    let mut views = imports.kinds.get().into_iter().flatten();
    let view = views.find(|(gvk, _)| gvk.group == *group && gvk.kind == *kind);
    view.is_none_or(|(_, view)| view.lease.resource().namespaced)
}

/// The ring of a handler watch. An equal watch keeps its old ring where the manifest says so; any other gets a new ring, whose
/// listener starts with the objects in the cache.
fn listen_with_ring(
    plugin: &Plugin,
    generation: &Generation,
    watch: &WatchSpec,
    view: &KindView,
    old: &mut Vec<HandlerFeed>,
) -> Result<Unpumped, CacheError> {
    let replaced = take_replaced(old, watch, &generation.description.watches);
    if let Some(feed) = replaced {
        if generation.on_reload == OnReload::Keep && feed.watch == *watch {
            let HandlerFeed { watch, ring, registration, pump } = feed;
            return Ok(Unpumped { watch, ring, registration, predecessor: Some(pump) });
        }
        let (ring, registration) = new_ring(plugin, generation, watch, view)?;
        // After the new listener is there, so no change is missed.
        drop(feed.registration);
        if !plugin.election().was_elected() {
            ring.adopt_deletions(&feed.ring);
        }
        return Ok(Unpumped { watch: watch.clone(), ring, registration, predecessor: Some(feed.pump) });
    }
    let (ring, registration) = new_ring(plugin, generation, watch, view)?;
    Ok(Unpumped { watch: watch.clone(), ring, registration, predecessor: None })
}

/// Takes the old feed that a watch replaces: the one of an equal watch, else one of the same kind that equals no watch of the new
/// generation.
fn take_replaced(
    old: &mut Vec<HandlerFeed>,
    watch: &WatchSpec,
    watches: &[WatchSpec],
) -> Option<HandlerFeed> {
    let equal = old.iter().position(|feed| feed.watch == *watch);
    let of_same_kind =
        || old.iter().position(|feed| feed.watch.kind == watch.kind && !watches.contains(&feed.watch));
    let at = equal.or_else(of_same_kind)?;
    Some(old.swap_remove(at))
}

fn new_ring(
    plugin: &Plugin,
    generation: &Generation,
    watch: &WatchSpec,
    view: &KindView,
) -> Result<(Arc<Ring>, Registration), CacheError> {
    let delivery = match watch.delivery {
        Delivery::Latest => pilothouse_cache::Delivery::Latest,
        Delivery::Every => pilothouse_cache::Delivery::Every,
    };
    // A leader before this host may have delivered objects that this ring never held.
    let told_elsewhere = plugin.election().is_enabled();
    let options = RingOptions { delivery, told_elsewhere, ..RingOptions::default() };
    let ring = Ring::new(view.lease.indexer().clone(), options);
    let filter = Filter::new(watch, view.watchable());
    // The filter sees each change, before the ring merges any.
    let listener = Arc::new(FilteringResourceEventHandler::new(filter, Arc::clone(&ring)));
    let registration = view.lease.add_listener(listener, generation.description.resync)?;
    Ok((ring, registration))
}

/// Adds the key of a schedule to the queue at each tick.
async fn run_schedule(queue: Queue<ObjectKey, Reasons>, schedule: Schedule, cancel: CancellationToken) {
    let mut ticks = tokio::time::interval(schedule.every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    while cancel.run_until_cancelled(ticks.tick()).await.is_some() {
        queue.add_with(schedule.key.clone(), Reasons::SCHEDULED, Priority::NORMAL);
    }
}

#[cfg(test)]
mod tests;
