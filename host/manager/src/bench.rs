//! [`MappedWatch`]: a mapped watch as a generation makes it, with a queue and without a plugin; for the benchmark of dispatch.

use std::sync::{Arc, OnceLock};

use pilothouse_cache::Listener;
use pilothouse_object::ObjectKey;
use pilothouse_plugin::{Grants, WatchSpec};
use pilothouse_workqueue::Queue;

use crate::Reasons;
use crate::access::Rights;
use crate::dispatch::charged::Charged;
use crate::dispatch::leadership_gate::LeadershipGate;
use crate::dispatch::mapper::{KeyBound, Mapper, Mapping};
use crate::dispatch::mapping::Filter;
use crate::dispatch::selection::Selection;
use crate::observe::host_events::HostEvents;
use crate::observe::metrics::PluginMetrics;
use crate::observe::warnings::Warnings;

/// A listener that turns changes into keys of a queue of its own.
pub struct MappedWatch {
    listener: Arc<dyn Listener>,
    queue: Queue<ObjectKey, Reasons>,
}

impl MappedWatch {
    /// The watch of a plugin with these grants on a leader. The kind has this plural and lives in namespaces.
    #[must_use]
    pub fn new(watch: &WatchSpec, grants: &Grants, plural: &str) -> Self {
        let queue: Queue<ObjectKey, Reasons> = Queue::new();
        let name = Arc::from("plugin");
        let reporter = Arc::new(HostEvents::default().of(Arc::clone(&name)));
        let visible = grants.visibility("watch", &watch.kind.group, plural);
        let mapper = Mapper {
            gate: Arc::new(LeadershipGate::opened(&name, &queue)),
            selection: Selection {
                filter: Filter::new(watch, visible, Rights::default(), Arc::default()),
                predicates: watch.predicates.clone(),
            },
            maps: watch.maps.iter().map(|map| Mapping { map: map.clone(), namespaced_owner: true }).collect(),
            bound: KeyBound {
                most: 1_000,
                subject: format!("watch of {}", watch.kind),
                warnings: Arc::new(Warnings::new(name, reporter, PluginMetrics::of_test())),
            },
            sweeps: OnceLock::new(),
        };
        let listener = Charged { listener: Arc::new(mapper), account: Default::default() };
        Self { listener: Arc::new(listener), queue }
    }

    /// The listener, for an informer of the kind.
    #[must_use]
    pub fn listener(&self) -> Arc<dyn Listener> {
        Arc::clone(&self.listener)
    }

    /// Takes all keys out of the queue. Returns their number.
    #[must_use]
    pub fn drain(&self) -> usize {
        let taken = std::iter::from_fn(|| self.queue.try_get());
        taken.map(|item| self.queue.done(item)).count()
    }
}

impl std::fmt::Debug for MappedWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MappedWatch").field("queued", &self.queue.len()).finish_non_exhaustive()
    }
}
