//! [`Controller`]: client-go's low-level controller, a reflector and the loop that hands its deltas to a function.
//!
//! What `SharedInformer` is for those who want to handle each delta themselves. Invariants: deltas of a key are processed in
//! order and never two at once; a list is told as client-go's `DeltaFIFO` does it, first a deletion for each known object
//! that is not in it, then each of its objects as replaced; deltas whose processing failed are logged and do not come again,
//! and the version of the known objects does not move on with them.
//!
//! For programs that use this crate alone.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_client::ApiResource;
use pilothouse_object::Object;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::change::Change;
use crate::delta::{Delta, Deltas};
use crate::delta_fifo::{DeltaFifo, Work, WorkKind};
use crate::indexer::Indexer;
use crate::listener::Listener;
use crate::reflector::{Reflector, ReflectorOptions, ReflectorStatus, Shared};
use crate::source::lister_watcher::ListerWatcher;

/// What processing failed with.
pub type ProcessFailure = Box<dyn std::error::Error + Send + Sync>;

/// Processes the deltas of one key; the flag says whether they are of the first list.
pub type ProcessFn = Box<dyn FnMut(&Deltas, bool) -> Result<(), ProcessFailure> + Send>;

/// What a controller is made of.
pub struct Config {
    /// What it lists and watches.
    pub resource: ApiResource,
    /// Where it lists and watches.
    pub lister_watcher: Arc<dyn ListerWatcher>,
    /// The objects that `process` holds, which it keeps up to date: lists and resyncs are held against them.
    pub known_objects: Arc<Indexer>,
    /// Handles the deltas of a key. It must not block.
    pub process: ProcessFn,
    /// How often all known objects come again as `Sync` deltas; `None` for never.
    pub resync: Option<Duration>,
    /// How the reflector behaves.
    pub reflector: ReflectorOptions,
    /// Waiting deltas above which the watch is read no further.
    pub queue_capacity: usize,
}

impl Config {
    /// With the usual capacity and reflector, without resyncs.
    pub fn new(
        resource: ApiResource,
        lister_watcher: Arc<dyn ListerWatcher>,
        known_objects: Arc<Indexer>,
        process: impl FnMut(&Deltas, bool) -> Result<(), ProcessFailure> + Send + 'static,
    ) -> Self {
        Self {
            resource,
            lister_watcher,
            known_objects,
            process: Box::new(process),
            resync: None,
            reflector: ReflectorOptions::default(),
            queue_capacity: DeltaFifo::DEFAULT_CAPACITY,
        }
    }
}

/// A reflector and the loop behind it.
pub struct Controller {
    fifo: Arc<DeltaFifo>,
    shared: Arc<Shared>,
    reflector: Reflector,
    handling: Handling,
    resync: Option<Duration>,
}

/// Reads how a controller fares while it runs; a cheap clone.
#[derive(Clone)]
pub struct ControllerHandle {
    fifo: Arc<DeltaFifo>,
    shared: Arc<Shared>,
}

struct Handling {
    known: Arc<Indexer>,
    process: ProcessFn,
}

impl Controller {
    /// A controller that has not been run.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let fifo = Arc::new(DeltaFifo::new(config.queue_capacity));
        let known = config.known_objects;
        let reflector = Reflector::new(
            config.resource.gvr(),
            config.lister_watcher,
            fifo.clone(),
            known.clone(),
            config.reflector,
        );
        let handling = Handling { known, process: config.process };
        Self { shared: reflector.shared(), fifo, reflector, handling, resync: config.resync }
    }

    /// What tells how it fares; take it before the run.
    #[must_use]
    pub fn handle(&self) -> ControllerHandle {
        ControllerHandle { fifo: self.fifo.clone(), shared: self.shared.clone() }
    }

    /// Lists, watches and processes until cancelled; what is in the queue by then is still processed, once.
    pub async fn run(self, cancel: CancellationToken) {
        let Self { fifo, reflector, mut handling, resync, .. } = self;
        let produce = async {
            tokio::select! {
                () = reflector.run(cancel) => {}
                () = resync_every(&fifo, resync) => {}
            }
            fifo.close();
        };
        let consume = async {
            while let Some(work) = fifo.pop(DeltaFifo::BATCH).await {
                let initial = work.initial;
                handling.handle(&fifo, work);
                fifo.done(initial);
                tokio::task::yield_now().await;
            }
        };
        tokio::join!(produce, consume);
    }
}

impl ControllerHandle {
    /// Whether the first list has been processed.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.fifo.has_synced()
    }

    /// Waits for [`has_synced`](Self::has_synced). Bound it: a controller that has ended never is.
    pub async fn wait_synced(&self) {
        let _ = self.fifo.synced().wait_for(|synced| *synced).await;
    }

    /// The version that the next watch or list goes on from; empty before the first list.
    #[must_use]
    pub fn last_sync_resource_version(&self) -> Arc<str> {
        self.shared.version.lock().to_text()
    }

    /// How its reflector fares.
    #[must_use]
    pub fn status(&self) -> ReflectorStatus {
        self.shared.status(self.has_synced())
    }
}

impl Handling {
    fn handle(&mut self, fifo: &DeltaFifo, work: Work) {
        let Work { kind, seen, initial } = work;
        let mut complete = true;
        match kind {
            WorkKind::Bookmark => {}
            WorkKind::Deltas(batch) => {
                for deltas in Deltas::group(batch) {
                    complete &= self.process(deltas, initial);
                }
            }
            WorkKind::Replace(list) => {
                let listed: HashSet<_> = list.iter().map(Object::key).collect();
                let known = self.known.list();
                let gone: Vec<_> = known.into_iter().filter(|known| !listed.contains(known.key())).collect();
                for object in gone {
                    let key = object.key().clone();
                    let deleted = Delta::DeletedFinalStateUnknown { key, object: Some(object) };
                    complete &= self.process(Deltas::new(deleted), initial);
                }
                for object in list {
                    complete &= self.process(Deltas::new(Delta::Replaced(object)), initial);
                }
            }
            WorkKind::Resync => {
                let pending = fifo.pending_keys();
                for key in self.known.keys() {
                    if !pending.contains(&key) {
                        complete &= self.process(Deltas::new(Delta::Sync(key)), initial);
                    }
                }
            }
        }
        if complete && seen.is_some() {
            self.known.announce(seen.as_ref());
        }
    }

    /// Processes deltas of one key; whether that went well.
    fn process(&mut self, deltas: Deltas, initial: bool) -> bool {
        let outcome = (self.process)(&deltas, initial);
        if let Err(error) = &outcome {
            tracing::warn!(event = "process_failed", key = %deltas.key(), %error, "processing failed");
        }
        outcome.is_ok()
    }
}

async fn resync_every(fifo: &DeltaFifo, period: Option<Duration>) {
    let Some(period) = period.filter(|period| !period.is_zero()) else {
        return std::future::pending().await;
    };
    loop {
        sleep(period).await;
        fifo.resync();
    }
}

/// A store that is kept equal to what a source has, the controller that does so, and a handler that is called after each change; client-go's `NewInformer`. For one handler alone: several share a [`SharedInformer`](crate::SharedInformer).
#[must_use]
pub fn new_informer(
    resource: ApiResource,
    lister_watcher: Arc<dyn ListerWatcher>,
    resync: Option<Duration>,
    handler: Arc<dyn Listener>,
) -> (Arc<Indexer>, Controller) {
    let indexer = Arc::new(Indexer::new(resource.namespaced));
    let store = indexer.clone();
    let process = move |deltas: &Deltas, initial: bool| {
        for delta in deltas.iter().cloned() {
            let is_sync = matches!(delta, Delta::Sync(_));
            for change in store.apply([delta], None) {
                match change {
                    Change::Added(object) => handler.on_add(&object, initial),
                    Change::Updated { old, new } => handler.on_update(&old, &new, is_sync),
                    Change::Deleted { key, object, final_state_unknown } => {
                        handler.on_delete(&key, object.as_ref(), final_state_unknown);
                    }
                }
            }
        }
        Ok(())
    };
    let config = Config::new(resource, lister_watcher, indexer.clone(), process);
    (indexer, Controller::new(Config { resync, ..config }))
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controller").field("synced", &self.fifo.has_synced()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ControllerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControllerHandle").field("synced", &self.has_synced()).finish_non_exhaustive()
    }
}
