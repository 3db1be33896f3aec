//! [`Generation`]: one loaded version of a plugin, and what feeds it: listeners, pumps and schedules.
//!
//! Invariants: a generation is started at most once, after it became the plugin's current one; its listeners are registered
//! before those of the generation before are taken out, so no change falls between the two. Whoever runs a call holds the
//! generation, and with it the informers and indexes that the call may read; they are let go with the last such call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_cache::{CacheError, FilteringResourceEventHandler, Registration, Ring, RingOptions};
use pilothouse_engine::Code;
use pilothouse_object::Gvk;
use pilothouse_plugin::{Delivery, Description, KeyMap, Limits, OnReload, WatchSpec};
use pilothouse_workqueue::Priority;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::dispatch::mapper::Mapper;
use crate::dispatch::mapping::Filter;
use crate::dispatch::pump::{Leftover, Pump};
use crate::dispatch::reasons::Reasons;
use crate::dispatch::tombstones::MAX_TOMBSTONES;
use crate::imports::plugin_imports::{KindView, PluginImports};
use crate::lifecycle::plugin::Plugin;

/// One loaded version of a plugin.
pub(crate) struct Generation {
    pub(crate) number: u64,
    pub(crate) code: Code,
    pub(crate) imports: Arc<PluginImports>,
    pub(crate) limits: Limits,
    pub(crate) max_concurrent: u32,
    /// Whether the component reconciles keys.
    pub(crate) reconciles: bool,
    /// Whether it takes many at once.
    pub(crate) batches: bool,
    pub(crate) description: Description,
    /// Events that guests may record in a second.
    pub(crate) event_qps: Option<f64>,
    pub(crate) on_reload: OnReload,
    pub(crate) feeds: Mutex<Feeds>,
    /// ApiCalls instances; the mapped code goes with the last.
    pub(crate) instances: AtomicUsize,
}

/// What feeds a generation while it is the current one.
#[derive(Default)]
pub(crate) struct Feeds {
    mappers: Vec<MapperFeed>,
    handlers: Vec<HandlerFeed>,
    cancel: CancellationToken,
}

/// The way of one watch to the queue.
struct MapperFeed {
    kind: Gvk,
    mapper: Arc<Mapper>,
    _registration: Registration,
}

/// The way of one watch to the guest's handlers.
struct HandlerFeed {
    watch: WatchSpec,
    ring: Arc<Ring>,
    registration: Registration,
    pump: JoinHandle<Leftover>,
}

/// A ring, its place in the informer, and the pump that served the watch before.
type RingPlace = (Arc<Ring>, Registration, Option<JoinHandle<Leftover>>);

impl Generation {
    /// Begins to feed this generation, which is the current one by now, and ends feeding the one before.
    pub(crate) fn start(self: &Arc<Self>, plugin: &Arc<Plugin>, before: Option<&Arc<Self>>, io: &Handle) {
        let mut old = before.map(|g| std::mem::take(&mut *g.feeds.lock())).unwrap_or_default();
        let mut feeds = Feeds::default();
        let mut handlers = Vec::new();
        for watch in &self.description.watches {
            let Some(view) = self.imports.kinds.get().and_then(|kinds| kinds.get(&watch.kind)) else {
                continue;
            };
            let outcome = if matches!(watch.map, KeyMap::Handler) {
                self.ring(plugin, watch, view, &mut old).map(|(ring, place, before)| {
                    handlers.push((watch.clone(), ring, place, before));
                })
            } else {
                let filter = Filter::new(watch, view.watchable());
                let mapper = Arc::new(self.mapper(plugin, watch, filter, before));
                let listener = Arc::clone(&mapper) as _;
                view.lease.add_listener(listener, self.description.resync).map(|place| {
                    feeds.mappers.push(MapperFeed { kind: watch.kind.clone(), mapper, _registration: place });
                })
            };
            if let Err(error) = outcome {
                // Only a host that shuts down stops informers that have leases.
                tracing::warn!(plugin = &*plugin.name, %error, "no listener");
            }
        }
        // From here on nothing more reaches what the generation before listened with.
        old.cancel.cancel();
        drop(old);
        for (watch, ring, registration, before) in handlers {
            let pump = Pump {
                plugin: Arc::clone(plugin),
                generation: Arc::clone(self),
                kind: watch.kind.clone(),
                predicates: watch.predicates.clone(),
                ring: Arc::clone(&ring),
                before,
                cancel: feeds.cancel.clone(),
            };
            let pump = plugin.spawn(pump.run());
            feeds.handlers.push(HandlerFeed { watch, ring, registration, pump });
        }
        for schedule in &self.description.schedules {
            let (queue, key, every) = (plugin.queue.clone(), schedule.key.clone(), schedule.every);
            let cancel = feeds.cancel.clone();
            plugin.tasks.spawn_on(
                async move {
                    let mut ticks = tokio::time::interval(every);
                    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
                    while cancel.run_until_cancelled(ticks.tick()).await.is_some() {
                        queue.add_with(key.clone(), Reasons::SCHEDULED, Priority::NORMAL);
                    }
                },
                io,
            );
        }
        *self.feeds.lock() = feeds;
        if self.reconciles {
            plugin.start_workers();
        }
    }

    /// The ring of a handler's watch, its place in the informer, and the pump before, whose rest is to be delivered first. A
    /// new ring is told of everything that is there; the old one is kept where the manifest asks for it and the watch is
    /// the same.
    fn ring(
        &self,
        plugin: &Plugin,
        watch: &WatchSpec,
        view: &KindView,
        old: &mut Feeds,
    ) -> Result<RingPlace, CacheError> {
        let same = old.handlers.iter().position(|feed| feed.watch == *watch);
        // Else one of the same kind that no watch of this generation equals.
        let free = |feed: &HandlerFeed| !self.description.watches.contains(&feed.watch);
        let same =
            same.or_else(|| old.handlers.iter().position(|feed| feed.watch.kind == watch.kind && free(feed)));
        let before = same.map(|at| old.handlers.swap_remove(at));
        match before {
            Some(feed) if self.on_reload == OnReload::Keep && feed.watch == *watch => {
                Ok((feed.ring, feed.registration, Some(feed.pump)))
            }
            before => {
                let delivery = match watch.delivery {
                    Delivery::Latest => pilothouse_cache::Delivery::Latest,
                    Delivery::Every => pilothouse_cache::Delivery::Every,
                };
                // What this host has not told of, one that led before may have.
                let told_elsewhere = plugin.election.is_enabled();
                let options = RingOptions { delivery, told_elsewhere, ..RingOptions::default() };
                let ring = Ring::new(view.lease.indexer().clone(), options);
                let filter = Filter::new(watch, view.watchable());
                // It sees each single change, before the ring merges any.
                let listener = Arc::new(FilteringResourceEventHandler::new(filter, Arc::clone(&ring)));
                let place = view.lease.add_listener(listener, self.description.resync)?;
                let before = before.map(|HandlerFeed { ring: old, registration, pump, .. }| {
                    // The old place is given up here, after the new one is taken: nothing falls between.
                    drop(registration);
                    if !plugin.election.was_elected() {
                        ring.adopt_deletions(&old);
                    }
                    pump
                });
                Ok((ring, place, before))
            }
        }
    }

    fn mapper(
        &self,
        plugin: &Plugin,
        watch: &WatchSpec,
        filter: Filter,
        before: Option<&Arc<Self>>,
    ) -> Mapper {
        let known = before.is_some_and(|g| g.description.watches.contains(watch));
        let initial = match (before, self.on_reload) {
            (None, _) => Some(Reasons::ADDED),
            (Some(_), OnReload::Keep) if known => None,
            (Some(_), _) => Some(Reasons::RELOADED),
        };
        Mapper {
            gate: Arc::clone(&plugin.gate),
            filter,
            predicates: watch.predicates.clone(),
            map: watch.map.clone(),
            namespaced_owner: self.namespaced_owner(&watch.map),
            initial,
        }
    }

    /// Adds the keys of everything that the mapped watches show; how many there were. The host begins to work, and the gate
    /// of the plugin is open.
    pub(crate) fn add_all(&self) -> usize {
        let feeds = self.feeds.lock();
        let view = |kind: &Gvk| self.imports.kinds.get().and_then(|kinds| kinds.get(kind));
        let added = |feed: &MapperFeed| {
            let all = view(&feed.kind)?.lease.indexer().snapshot().cursor();
            Some(feed.mapper.add_all(all))
        };
        feeds.mappers.iter().filter_map(added).sum()
    }

    /// Makes the handlers' rings forget deletions of before the last turn, if it is `due` or they hold too many. The host
    /// stands by.
    pub(crate) fn turn(&self, due: bool) {
        for feed in &self.feeds.lock().handlers {
            if due || feed.ring.surplus() > MAX_TOMBSTONES {
                feed.ring.forget_old_deletions();
            }
        }
    }

    /// Whether the owners of an owner mapping live in namespaces: known when the plugin watches them too, as it does unless
    /// it never looks at them; otherwise most kinds do.
    fn namespaced_owner(&self, map: &KeyMap) -> bool {
        let KeyMap::Owner { group, kind, .. } = map else { return true };
        let kinds = self.imports.kinds.get();
        let mut views = kinds.into_iter().flatten();
        let view = views.find(|(gvk, _)| gvk.group == *group && gvk.kind == *kind);
        view.is_none_or(|(_, view)| view.lease.resource().namespaced)
    }

    /// An instance lives.
    pub(crate) fn instance_made(&self) {
        self.instances.fetch_add(1, Ordering::AcqRel);
    }

    /// An instance is about to go.
    pub(crate) fn instance_gone(&self) {
        if self.instances.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.code.unload();
        }
    }

    /// Ends feeding: the plugin was removed.
    pub(crate) fn stop(&self) {
        let feeds = std::mem::take(&mut *self.feeds.lock());
        feeds.cancel.cancel();
    }

    /// Waits until all caches of this generation have their first list; tells `waiting` why it takes long.
    pub(crate) async fn wait_for_caches(kinds: &[&KindView], waiting: impl Fn(String)) -> bool {
        for view in kinds {
            loop {
                tokio::select! {
                    synced = view.lease.wait_synced() => {
                        if !synced {
                            return false;
                        }
                        break;
                    }
                    () = tokio::time::sleep(Duration::from_millis(500)) => {
                        let what = view.lease.resource().gvr();
                        let error = view.lease.status().reflector.last_error;
                        let why = error.map_or_else(|| "still listing".to_owned(), |e| e.to_string());
                        waiting(format!("waiting for the first list of {what}: {why}"));
                    }
                }
            }
        }
        true
    }
}
