//! [`Feeds`]: what brings changed objects to a generation: mappers of mapped watches, rings and pumps of handler watches.
//!
//! A reload moves from the old feeds to the new ones in this order, so that no change is missed and none is delivered by two
//! pumps at once:
//!
//! 1. each watch of the new generation gets its listener;
//! 2. the old mappers and unused rings are removed, and the old pumps are cancelled;
//! 3. each new pump waits for the pump that it replaces, and delivers the events which that one left.

use std::sync::Arc;

use pilothouse_cache::{
    CacheError, FilteringResourceEventHandler, InformerId, InformerLease, Registration, Ring, RingOptions,
};
use pilothouse_plugin::{Delivery, KeyMap, OnReload, WatchSpec};
use tokio_util::sync::CancellationToken;

use crate::dispatch::backfill::{BackfillPart, SeenBefore};
use crate::dispatch::mapper::{KeyBound, Mapper};
use crate::dispatch::mapping::Filter;
use crate::dispatch::pump::{Pump, PumpSpec};
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
    /// Ends pumps.
    cancel: CancellationToken,
}

/// A mapped watch: its listener adds keys to the queue.
struct MapperFeed {
    watch: WatchSpec,
    mapper: Arc<Mapper>,
    /// One for each informer of the kind.
    _registrations: Vec<Registration>,
}

/// A handler watch in one informer: its listener is a ring, which a pump empties.
struct HandlerFeed {
    watch: WatchSpec,
    informer: InformerId,
    ring: Arc<Ring>,
    registration: Registration,
    pump: Arc<Pump>,
}

/// A handler watch that has its listener and no pump yet.
struct Unpumped {
    watch: WatchSpec,
    informer: InformerId,
    ring: Arc<Ring>,
    registration: Registration,
    /// The pump that is replaced.
    predecessor: Option<Arc<Pump>>,
}

impl Feeds {
    /// Feeds a generation in place of the one before, whose feeds are `old`.
    pub(super) fn take_over(
        plugin: &Arc<Plugin>,
        generation: &Arc<Generation>,
        before: Option<&Arc<Generation>>,
        mut old: Self,
    ) -> Self {
        let mut feeds = Self::default();
        let mut unpumped = Vec::new();
        let unfinished = plugin.backfill().replace(Vec::new());
        for watch in &generation.description.watches {
            let Some(view) = generation.imports.kind(&watch.kind) else { continue };
            let listening = if matches!(watch.map, KeyMap::Handler) {
                (0..view.leases.len()).try_for_each(|at| {
                    listen_with_ring(plugin, generation, watch, (view, at), &mut old.handlers)
                        .map(|handler| unpumped.push(handler))
                })
            } else {
                listen_with_mapper(plugin, generation, watch, view).map(|mapper| feeds.mappers.push(mapper))
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
        // After the listeners are there, so each object is in the snapshots or its change is heard. A standby queues nothing.
        if plugin.gate().is_open() {
            let parts = feeds
                .backfill(&generation.imports, |watch| initial_list(watch, generation.on_reload, before));
            let carried = feeds.carry_over(unfinished, &parts);
            plugin.backfill().replace([carried, parts].into_iter().flatten().collect());
        }
        feeds
    }

    /// Ends pumps, and removes the listeners.
    pub(super) fn stop(self) {
        self.cancel.cancel();
    }

    /// The cached objects of the mapped watches, to be reconciled as `list` says for a watch, if at all.
    pub(super) fn backfill(
        &self,
        imports: &PluginImports,
        list: impl Fn(&WatchSpec) -> Option<InitialList>,
    ) -> Vec<BackfillPart> {
        let parts = |feed: &MapperFeed| {
            let Some(view) = imports.kind(&feed.watch.kind) else { return Vec::new() };
            let Some(list) = list(&feed.watch).filter(|list| list.shows_more(view)) else {
                return Vec::new();
            };
            let part = |lease: &InformerLease| BackfillPart {
                reason: list.reason,
                watch: feed.watch.clone(),
                mapper: Arc::clone(&feed.mapper),
                objects: lease.indexer().snapshot().cursor(),
                seen_before: list.seen_before.clone(),
            };
            view.leases.iter().map(part).collect()
        };
        self.mappers.iter().flat_map(parts).filter(|part| part.objects.at_most() > 0).collect()
    }

    /// The parts that the generation before did not finish, for equal watches whose lists this one does not begin anew.
    fn carry_over(&self, unfinished: Vec<BackfillPart>, begun: &[BackfillPart]) -> Vec<BackfillPart> {
        let carried = |part: BackfillPart| {
            if begun.iter().any(|new| new.watch == part.watch && new.seen_before.is_none()) {
                return None;
            }
            let feed = self.mappers.iter().find(|feed| feed.watch == part.watch)?;
            Some(BackfillPart { mapper: Arc::clone(&feed.mapper), ..part })
        };
        unfinished.into_iter().filter_map(carried).collect()
    }

    /// Lets all pumps deliver what waits: the term of the host begins.
    pub(super) fn wake_pumps(&self) {
        self.handlers.iter().for_each(|feed| feed.pump.wake());
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
        let Unpumped { watch, informer, ring, registration, predecessor } = handler;
        let spec = PumpSpec {
            plugin: Arc::clone(plugin),
            generation: Arc::clone(generation),
            kind: watch.kind.clone(),
            predicates: watch.predicates.clone(),
            ring: Arc::clone(&ring),
            cancel: self.cancel.clone(),
        };
        let pump = Pump::start(spec, predecessor.as_deref());
        self.handlers.push(HandlerFeed { watch, informer, ring, registration, pump });
    }
}

fn listen_with_mapper(
    plugin: &Plugin,
    generation: &Generation,
    watch: &WatchSpec,
    view: &KindView,
) -> Result<MapperFeed, CacheError> {
    let mapper = Arc::new(Mapper {
        gate: Arc::clone(plugin.gate()),
        // A key that two informers have is queued once.
        filter: Filter::new(watch, view.watchable(), Arc::default()),
        predicates: watch.predicates.clone(),
        map: watch.map.clone(),
        namespaced_owner: has_namespaced_owner(&watch.map, &generation.imports),
        bound: KeyBound {
            most: generation.data.mapped_keys,
            subject: format!("watch of {}", watch.kind),
            warnings: Arc::clone(&generation.imports.warnings),
        },
    });
    let listen =
        |lease: &InformerLease| lease.add_listener(Arc::clone(&mapper) as _, generation.description.resync);
    let registrations = view.leases.iter().map(listen).collect::<Result<_, _>>()?;
    Ok(MapperFeed { watch: watch.clone(), mapper, _registrations: registrations })
}

/// Which keys of the initial list of a watch are reconciled, and why.
pub(super) struct InitialList {
    pub(super) reason: Reasons,
    /// Objects that the generation before saw are left out.
    pub(super) seen_before: Option<SeenBefore>,
}

impl InitialList {
    /// All keys, for this reason.
    pub(super) fn all(reason: Reasons) -> Self {
        Self { reason, seen_before: None }
    }

    /// Whether a view may show objects that are not left out.
    fn shows_more(&self, view: &KindView) -> bool {
        self.seen_before.as_ref().is_none_or(|before| !before.saw_all_of(view))
    }
}

/// Which keys of the initial list are reconciled. Where the generation before had the same watch, and the manifest says that
/// a reload reconciles nothing again, these are the keys of objects that the generation before was not allowed to see.
fn initial_list(
    watch: &WatchSpec,
    on_reload: OnReload,
    before: Option<&Arc<Generation>>,
) -> Option<InitialList> {
    let Some(before) = before else { return Some(InitialList::all(Reasons::ADDED)) };
    let is_known = before.description.watches.contains(watch);
    if on_reload != OnReload::Keep || !is_known {
        return Some(InitialList::all(Reasons::RELOADED));
    }
    let seen = before.imports.kind(&watch.kind)?;
    Some(InitialList { reason: Reasons::RELOADED, seen_before: Some(SeenBefore::of(seen)) })
}

/// Whether the owner kind of an owner mapping is namespaced. The host knows it of watched kinds; most others are.
fn has_namespaced_owner(map: &KeyMap, imports: &PluginImports) -> bool {
    let KeyMap::Owner { group, kind, .. } = map else { return true };
    let mut views = imports.kinds.get().into_iter().flatten();
    let view = views.find(|(gvk, _)| gvk.group == *group && gvk.kind == *kind);
    view.is_none_or(|(_, view)| view.resource().namespaced)
}

/// The ring of a handler watch in the informer at this place of the view. An equal watch keeps its old ring where the manifest says so; any other gets a new ring, whose
/// listener starts with the objects in the cache.
fn listen_with_ring(
    plugin: &Plugin,
    generation: &Generation,
    watch: &WatchSpec,
    (view, at): (&KindView, usize),
    old: &mut Vec<HandlerFeed>,
) -> Result<Unpumped, CacheError> {
    let informer = view.leases[at].id().clone();
    let is_kept = |feed: &HandlerFeed| {
        let has_informer = view.leases.iter().any(|lease| *lease.id() == feed.informer);
        has_informer && generation.description.watches.contains(&feed.watch)
    };
    let replaced = take_replaced(old, watch, &informer, is_kept);
    if let Some(feed) = replaced {
        if generation.on_reload == OnReload::Keep && feed.watch == *watch && feed.informer == informer {
            let HandlerFeed { watch, informer, ring, registration, pump } = feed;
            return Ok(Unpumped { watch, informer, ring, registration, predecessor: Some(pump) });
        }
        let (ring, registration) = new_ring(plugin, generation, watch, (view, at))?;
        // After the new listener is there, so no change is missed.
        drop(feed.registration);
        if !plugin.election().was_elected() {
            ring.adopt_deletions(&feed.ring);
        }
        let predecessor = Some(feed.pump);
        return Ok(Unpumped { watch: watch.clone(), informer, ring, registration, predecessor });
    }
    let (ring, registration) = new_ring(plugin, generation, watch, (view, at))?;
    Ok(Unpumped { watch: watch.clone(), informer, ring, registration, predecessor: None })
}

/// Takes the old feed that a watch replaces: the one of an equal watch in the same informer, else one of the same kind that is
/// not kept for another watch of the new generation.
fn take_replaced(
    old: &mut Vec<HandlerFeed>,
    watch: &WatchSpec,
    informer: &InformerId,
    is_kept: impl Fn(&HandlerFeed) -> bool,
) -> Option<HandlerFeed> {
    let equal = old.iter().position(|feed| feed.watch == *watch && feed.informer == *informer);
    let of_same_kind = || old.iter().position(|feed| feed.watch.kind == watch.kind && !is_kept(feed));
    let at = equal.or_else(of_same_kind)?;
    Some(old.swap_remove(at))
}

fn new_ring(
    plugin: &Plugin,
    generation: &Generation,
    watch: &WatchSpec,
    (view, at): (&KindView, usize),
) -> Result<(Arc<Ring>, Registration), CacheError> {
    let lease = &view.leases[at];
    let delivery = match watch.delivery {
        Delivery::Latest => pilothouse_cache::Delivery::Latest,
        Delivery::Every => pilothouse_cache::Delivery::Every,
    };
    // A leader before this host may have delivered objects that this ring never held.
    let told_elsewhere = plugin.election().is_enabled();
    let options = RingOptions { delivery, told_elsewhere, ..RingOptions::default() };
    let ring = Ring::new(lease.indexer().clone(), options);
    // An object that two informers have is delivered by the first.
    let filter = Filter::new(watch, view.watchable(), Arc::clone(&view.shown_before[at]));
    // The filter sees each change, before the ring merges any.
    let listener = Arc::new(FilteringResourceEventHandler::new(filter, Arc::clone(&ring)));
    let registration = lease.add_listener(listener, generation.description.resync)?;
    Ok((ring, registration))
}

#[cfg(test)]
mod tests;
