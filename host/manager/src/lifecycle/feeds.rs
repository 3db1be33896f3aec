//! [`Feeds`]: what brings changed objects to a generation: mappers of mapped watches, rings and pumps of handler watches.
//!
//! A reload moves from the old feeds to the new ones in this order, so that no change is missed and none is delivered by two
//! pumps at once:
//!
//! 1. each watch of the new generation gets its listener, and a mapper also what its informer has not passed on yet;
//! 2. the old mappers and unused rings are removed, and the old pumps are cancelled;
//! 3. each new pump waits for the pump that it replaces, and delivers the events which that one left.
//!
//! What was taken in under the grants of the generation before is shown under those of the new one: events and keys that
//! are no longer granted are dropped at delivery, and a watch that is shown other objects than before is listed anew.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pilothouse_cache::{
    CacheError, FilteringResourceEventHandler, InformerId, InformerLease, Listener, Registration, Ring,
    RingOptions,
};
use pilothouse_plugin::{Delivery, KeyMap, OnReload, WatchSpec};
use tokio_util::sync::CancellationToken;

use crate::dispatch::backfill::{BackfillPart, Sweep};
use crate::dispatch::charged::Charged;
use crate::dispatch::mapper::{KeyBound, Mapper, Mapping, Sweeps};
use crate::dispatch::mapping::Filter;
use crate::dispatch::pump::{FirstList, Pump, PumpSpec, Turn};
use crate::dispatch::reasons::Reasons;
use crate::dispatch::selection::Selection;
use crate::dispatch::tombstones::MAX_TOMBSTONES;
use crate::imports::plugin_imports::{KindView, PluginImports};
use crate::lifecycle::generation::Generation;
use crate::lifecycle::plugin::Plugin;

/// The feeds of one generation while it is the current one.
#[derive(Default)]
pub(crate) struct Feeds {
    mappers: Vec<MapperFeed>,
    handlers: Vec<HandlerFeed>,
    /// Those of the handler watches, with their names.
    turns: Vec<(String, Turn)>,
    /// Ends pumps.
    cancel: CancellationToken,
}

/// A mapped watch: its listener adds keys to the queue.
struct MapperFeed {
    watch: WatchSpec,
    mapper: Arc<Mapper>,
    informers: Vec<InformerId>,
    /// The generation before had the same watch, and was shown the same objects.
    is_known: bool,
    /// One for each informer of the kind.
    _registrations: Vec<Registration>,
}

/// A handler watch in one informer: its listener is a ring, which a pump empties.
struct HandlerFeed {
    watch: WatchSpec,
    filter: Filter,
    informer: InformerId,
    resync: Option<Duration>,
    ring: Arc<Ring>,
    registration: Registration,
    pump: Arc<Pump>,
}

/// A handler watch that has its listener and no pump yet.
struct Unpumped {
    watch: WatchSpec,
    filter: Filter,
    informer: InformerId,
    ring: Arc<Ring>,
    registration: Registration,
    /// The pump that is replaced.
    predecessor: Option<Arc<Pump>>,
    first_list: Arc<FirstList>,
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
            let listening = if watch.is_handled() {
                let first_list = Arc::new(FirstList::new(view.leases.len()));
                let turn = old.take_turn(&watch.name);
                feeds.turns.push((watch.name.clone(), turn.clone()));
                (0..view.leases.len()).try_for_each(|at| {
                    listen_with_ring(plugin, generation, watch, (view, at), &first_list, &mut old.handlers)
                        .map(|handler| unpumped.push((handler, turn.clone())))
                })
            } else {
                listen_with_mapper(plugin, generation, watch, view, &old.mappers)
                    .map(|mapper| feeds.mappers.push(mapper))
            };
            if let Err(error) = listening {
                // Only a host that shuts down stops informers that have leases.
                tracing::warn!(event = "listener_refused", plugin = &**plugin.name(), %error, "no listener");
            }
        }
        let sweeps = feeds.make_sweeps(plugin, &generation.imports);
        // The old listeners go; events that their pumps did not deliver are taken over below.
        old.stop();
        let owed = plugin.backfill().set_sweeps(sweeps.clone());
        for (handler, turn) in unpumped {
            feeds.start_pump(plugin, generation, handler, turn);
        }
        // After the listeners are there, so each object is in the snapshots or its change is heard. A standby queues nothing.
        if plugin.gate().is_open() {
            let keeps = generation.on_reload == OnReload::Keep;
            let reason = |feed: &MapperFeed| match before {
                None => Some(Reasons::ADDED),
                // Nothing is reconciled again.
                Some(_) if keeps && feed.is_known => None,
                Some(_) => Some(Reasons::RELOADED),
            };
            let parts = feeds.parts(&generation.imports, reason);
            let begins = |watch: &WatchSpec| parts.iter().any(|part| part.watch == *watch);
            let is_owed = |sweep: &Sweep| owed.contains(&sweep.watch) || feeds.begin_with(sweep, reason);
            for sweep in sweeps.iter().filter(|sweep| !begins(&sweep.watch) && is_owed(sweep)) {
                plugin.backfill().want(sweep);
            }
            let carried = feeds.carry_over(unfinished, &parts);
            plugin.backfill().replace([carried, parts].into_iter().flatten().collect());
        }
        // They stay as they are. A feed is 300 bytes, and a list that grew has room for four.
        feeds.mappers.shrink_to_fit();
        feeds.handlers.shrink_to_fit();
        feeds.turns.shrink_to_fit();
        feeds
    }

    /// Tells the mappers whose changes map to all keys of a kind where those come from. Returns what may be wanted.
    fn make_sweeps(&self, plugin: &Arc<Plugin>, imports: &PluginImports) -> Vec<Arc<Sweep>> {
        let mut sweeps: Vec<Arc<Sweep>> = Vec::new();
        for feed in &self.mappers {
            let mut wanted = Vec::new();
            for mapping in &feed.mapper.maps {
                let KeyMap::AllKeys(kind) = &mapping.map else { continue };
                let has_keys =
                    |target: &&MapperFeed| target.watch.kind == *kind && target.mapper.maps_itself();
                let Some(target) = self.mappers.iter().find(has_keys) else { continue };
                let leases = imports.kind(kind).map_or(&[][..], |view| &view.leases);
                let known = sweeps.iter().find(|sweep| sweep.watch == target.watch).cloned();
                let sweep = known.unwrap_or_else(|| {
                    let sweep = Arc::new(Sweep {
                        watch: target.watch.clone(),
                        mapper: Arc::downgrade(&target.mapper),
                        indexers: leases.iter().map(|lease| Arc::clone(lease.indexer())).collect(),
                        is_wanted: AtomicBool::new(false),
                    });
                    sweeps.push(Arc::clone(&sweep));
                    sweep
                });
                wanted.push(sweep);
            }
            if !wanted.is_empty() {
                // Each mapper is new.
                let _ = feed.mapper.sweeps.set(Sweeps { plugin: Arc::downgrade(plugin), wanted });
            }
        }
        sweeps
    }

    /// Whether a watch that wants this sweep begins anew.
    fn begin_with(&self, sweep: &Sweep, reason: impl Fn(&MapperFeed) -> Option<Reasons>) -> bool {
        let wants = |feed: &MapperFeed| {
            let wanted = feed.mapper.sweeps.get().map_or(&[][..], |sweeps| &sweeps.wanted);
            wanted.iter().any(|own| own.watch == sweep.watch)
        };
        self.mappers.iter().any(|feed| wants(feed) && reason(feed).is_some())
    }

    /// Ends pumps, and removes the listeners.
    pub(super) fn stop(self) {
        self.cancel.cancel();
    }

    /// Ends pumps, and removes their listeners.
    pub(super) fn stop_handlers(&mut self) {
        self.cancel.cancel();
        self.handlers.clear();
    }

    /// All cached objects of the mapped watches, to be reconciled as if they had just been added.
    pub(super) fn backfill(&self, imports: &PluginImports) -> Vec<BackfillPart> {
        self.parts(imports, |_| Some(Reasons::ADDED))
    }

    /// All cached objects of the mapped watches, to be reconciled for the reason that `reason` gives for a watch, if any.
    fn parts(
        &self,
        imports: &PluginImports,
        reason: impl Fn(&MapperFeed) -> Option<Reasons>,
    ) -> Vec<BackfillPart> {
        let parts = |feed: &MapperFeed| {
            let leases = imports.kind(&feed.watch.kind).map_or(&[][..], |view| &view.leases);
            let reason = reason(feed);
            let part = |lease: &InformerLease| {
                Some(BackfillPart::new(&feed.watch, &feed.mapper, lease.indexer(), reason?))
            };
            leases.iter().filter_map(part).collect::<Vec<_>>()
        };
        self.mappers.iter().flat_map(parts).filter(|part| part.objects.at_most() > 0).collect()
    }

    /// The parts that the generation before did not finish, for equal watches whose lists this one does not begin anew.
    fn carry_over(&self, unfinished: Vec<BackfillPart>, begun: &[BackfillPart]) -> Vec<BackfillPart> {
        let carried = |part: BackfillPart| {
            if begun.iter().any(|new| new.watch == part.watch) {
                return None;
            }
            let feed = self.mappers.iter().find(|feed| feed.watch == part.watch)?;
            Some(BackfillPart { mapper: Arc::clone(&feed.mapper), sweep: None, ..part })
        };
        unfinished.into_iter().filter_map(carried).collect()
    }

    /// Lets all pumps deliver what waits: the term of the host begins.
    pub(super) fn wake_pumps(&self) {
        self.handlers.iter().for_each(|feed| feed.pump.wake());
    }

    /// The pumps whose failed events wait, and whether any event is to be delivered within this time.
    pub(super) fn deliveries(&self, time: Duration) -> (usize, bool) {
        self.handlers.iter().fold((0, false), |(waiting, any), feed| {
            let (waits, is_due) = feed.pump.retries(time);
            (waiting + usize::from(waits), any || is_due || feed.ring.has_next())
        })
    }

    #[cfg(test)]
    pub(super) fn retries_due(&self) -> usize {
        self.handlers.iter().map(|feed| feed.pump.retries_due()).sum()
    }

    /// Drops old deletions from the rings, if that is `due` or a ring holds too many.
    pub(super) fn rotate_tombstones(&self, due: bool) {
        for feed in &self.handlers {
            if due || feed.ring.surplus() > MAX_TOMBSTONES {
                feed.ring.forget_old_deletions();
            }
        }
    }

    /// The turn of a watch of this name, for the next generation; a new one if there is none.
    fn take_turn(&mut self, name: &str) -> Turn {
        let at = self.turns.iter().position(|(own, _)| own == name);
        at.map(|at| self.turns.remove(at).1).unwrap_or_default()
    }

    fn start_pump(
        &mut self,
        plugin: &Arc<Plugin>,
        generation: &Arc<Generation>,
        handler: Unpumped,
        turn: Turn,
    ) {
        let Unpumped { watch, filter, informer, ring, registration, predecessor, first_list } = handler;
        let spec = PumpSpec {
            plugin: Arc::clone(plugin),
            generation: Arc::clone(generation),
            watch: watch.name.clone(),
            first_list,
            turn,
            filter: filter.clone(),
            predicates: watch.predicates.clone(),
            ring: Arc::clone(&ring),
            cancel: self.cancel.clone(),
        };
        let pump = Pump::start(spec, predecessor.as_deref());
        let resync = generation.description.resync;
        self.handlers.push(HandlerFeed { watch, filter, informer, resync, ring, registration, pump });
    }
}

fn listen_with_mapper(
    plugin: &Plugin,
    generation: &Generation,
    watch: &WatchSpec,
    view: &KindView,
    before: &[MapperFeed],
) -> Result<MapperFeed, CacheError> {
    // A key that two informers have is queued once.
    let filter = view.filter(watch, Arc::default());
    let informers: Vec<InformerId> = view.leases.iter().map(|lease| lease.id().clone()).collect();
    let is_same = |feed: &MapperFeed| {
        feed.watch == *watch && feed.mapper.selection.filter == filter && feed.informers == informers
    };
    let is_known = before.iter().any(is_same);
    let mapper = Arc::new(Mapper {
        gate: Arc::clone(plugin.gate()),
        selection: Selection { filter, predicates: watch.predicates.clone() },
        maps: watch.maps.iter().map(|map| mapping(map, &generation.imports)).collect(),
        sweeps: OnceLock::new(),
        bound: KeyBound {
            most: generation.data.mapped_keys,
            subject: format!("watch of {}", watch.kind),
            warnings: Arc::clone(&generation.imports.warnings),
        },
    });
    let listen = |lease: &InformerLease| {
        let listener = charged(plugin, Arc::clone(&mapper) as _);
        lease.add_listener(listener, generation.description.resync)
    };
    let registrations = view.leases.iter().map(listen).collect::<Result<_, _>>()?;
    Ok(MapperFeed { watch: watch.clone(), mapper, informers, is_known, _registrations: registrations })
}

/// Whether the owner kind of an owner mapping is namespaced, the host knows of watched kinds; most others are.
fn mapping(map: &KeyMap, imports: &PluginImports) -> Mapping {
    let is_namespaced = |group: &str, kind: &str| {
        let mut views = imports.kinds.get().into_iter().flatten();
        let view = views.find(|(gvk, _)| gvk.group == *group && gvk.kind == *kind);
        view.is_none_or(|(_, view)| view.resource().namespaced)
    };
    let namespaced_owner = match map {
        KeyMap::Owner { group, kind, .. } => is_namespaced(group, kind),
        _ => true,
    };
    Mapping { map: map.clone(), namespaced_owner }
}

/// The ring of a handler watch in the informer at this place of the view. An equal watch that shows the same objects keeps its
/// old ring where the manifest says so; any other gets a new ring, whose listener starts with the objects in the cache.
fn listen_with_ring(
    plugin: &Plugin,
    generation: &Generation,
    watch: &WatchSpec,
    (view, at): (&KindView, usize),
    first_list: &Arc<FirstList>,
    old: &mut Vec<HandlerFeed>,
) -> Result<Unpumped, CacheError> {
    let unpumped = |watch, filter, informer, (ring, registration), predecessor| Unpumped {
        watch,
        filter,
        informer,
        ring,
        registration,
        predecessor,
        first_list: Arc::clone(first_list),
    };
    let informer = view.leases[at].id().clone();
    // An object that two informers have is delivered by the first.
    let filter = view.filter(watch, Arc::clone(&view.shown_before[at]));
    let is_kept = |feed: &HandlerFeed| {
        let has_informer = view.leases.iter().any(|lease| *lease.id() == feed.informer);
        has_informer && generation.description.watches.contains(&feed.watch)
    };
    let replaced = take_replaced(old, watch, &informer, is_kept);
    if let Some(feed) = replaced {
        let is_same = feed.watch == *watch
            && feed.informer == informer
            && feed.filter == filter
            && feed.resync == generation.description.resync;
        if generation.on_reload == OnReload::Keep && is_same {
            let HandlerFeed { watch, ring, registration, pump, .. } = feed;
            return Ok(unpumped(watch, filter, informer, (ring, registration), Some(pump)));
        }
        let (ring, registration) = new_ring(plugin, generation, watch, &view.leases[at], &filter)?;
        // After the new listener is there, so no change is missed.
        drop(feed.registration);
        if !plugin.election().was_elected() {
            ring.adopt_deletions(&feed.ring, &filter);
        }
        let predecessor = Some(feed.pump);
        return Ok(unpumped(watch.clone(), filter, informer, (ring, registration), predecessor));
    }
    let (ring, registration) = new_ring(plugin, generation, watch, &view.leases[at], &filter)?;
    Ok(unpumped(watch.clone(), filter, informer, (ring, registration), None))
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
    lease: &InformerLease,
    filter: &Filter,
) -> Result<(Arc<Ring>, Registration), CacheError> {
    let delivery = match watch.delivery {
        Delivery::Latest => pilothouse_cache::Delivery::Latest,
        Delivery::Every => pilothouse_cache::Delivery::Every,
    };
    // A leader before this host may have delivered objects that this ring never held.
    let told_elsewhere = plugin.election().is_enabled();
    let options = RingOptions { delivery, told_elsewhere, ..RingOptions::default() };
    let ring = Ring::new(lease.indexer().clone(), options);
    // The filter sees each change, before the ring merges any.
    let listener = Arc::new(FilteringResourceEventHandler::new(filter.clone(), Arc::clone(&ring)));
    let registration = lease.add_listener(charged(plugin, listener), generation.description.resync)?;
    Ok((ring, registration))
}

/// The listener, with its time charged to the plugin.
fn charged(plugin: &Plugin, listener: Arc<dyn Listener>) -> Arc<dyn Listener> {
    Arc::new(Charged { listener, account: plugin.metrics().host_time.clone() })
}

#[cfg(test)]
mod grant_tests;
#[cfg(test)]
mod tests;
