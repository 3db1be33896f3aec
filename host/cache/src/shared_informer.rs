//! [`SharedInformer`]: one watch and one store of a kind, for all who listen to it.
//!
//! Each piece of work from the queue is handled under one lock: the store is changed, then the listeners are called in
//! turn. Joining replays the store under the same lock, and leaving takes it, so both fall between two batches and
//! neither misses nor repeats an event.
//!
//! Leased from the `SharedInformerFactory`, which runs it; or made and run by hand.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use pilothouse_client::ApiResource;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::aside::aside;
use crate::change::Change;
use crate::delta::Delta;
use crate::delta_fifo::{DeltaFifo, Work, WorkKind};
use crate::error::CacheError;
use crate::indexer::Indexer;
use crate::listener::Listener;
use crate::lister::Lister;
use crate::metrics::InformerMetrics;
use crate::packing::Compression;
use crate::processor::{Audience, Processor};
use crate::reflector::{Reflector, ReflectorOptions, ReflectorStatus, Shared, count, get};
use crate::registration::{Registration, Remove};
use crate::satellites::mutation_detector::{self, MutationDetector};
use crate::source::lister_watcher::ListerWatcher;

/// How an informer behaves.
#[derive(Clone)]
pub struct InformerOptions {
    /// How its reflector behaves.
    pub reflector: ReflectorOptions,
    /// Waiting deltas above which the watch is read no further.
    pub queue_capacity: usize,
    /// Whether objects are kept compressed.
    pub compression: Compression,
}

impl Default for InformerOptions {
    fn default() -> Self {
        Self {
            reflector: ReflectorOptions::default(),
            queue_capacity: DeltaFifo::DEFAULT_CAPACITY,
            compression: Compression::default(),
        }
    }
}

/// One informer, as the admin page shows it.
#[derive(Debug, Clone)]
pub struct InformerStatus {
    /// What it watches.
    pub resource: ApiResource,
    /// In which namespace; `None` for all.
    pub namespace: Option<String>,
    /// Objects in its store.
    pub objects: usize,
    /// Listeners.
    pub listeners: usize,
    /// Deltas that wait.
    pub queued_deltas: usize,
    /// Whether it has ended.
    pub stopped: bool,
    /// How its reflector fares.
    pub reflector: ReflectorStatus,
}

/// One watch and one store of a kind for all who listen; a cheap clone.
#[derive(Clone)]
pub struct SharedInformer {
    inner: Arc<Inner>,
}

struct Inner {
    resource: ApiResource,
    namespace: Option<String>,
    indexer: Arc<Indexer>,
    fifo: Arc<DeltaFifo>,
    /// Taken by the run.
    reflector: Mutex<Option<Reflector>>,
    shared: Arc<Shared>,
    /// Held while work is handled: client-go's `blockDeltas`.
    processor: Mutex<Processor>,
    /// Listeners that left while the processor was locked by the very thread that removes them.
    leaving: Mutex<Vec<u64>>,
    /// Keeps `distribute` from taking the lock above for every call.
    any_leaving: AtomicBool,
    resyncs_changed: Notify,
    resyncs: AtomicU64,
    /// Lists that are in the store; counted before anybody hears of one.
    lists: watch::Sender<u64>,
    stopped: AtomicBool,
    synced: watch::Receiver<bool>,
    ended: watch::Sender<bool>,
}

thread_local! {
    /// The informer whose listeners this thread is calling.
    static CALLING: Cell<*const Inner> = const { Cell::new(std::ptr::null()) };
}

impl SharedInformer {
    /// An informer that has not been run. `source` must be for `resource` in `namespace`.
    #[must_use]
    pub fn new(
        source: Arc<dyn ListerWatcher>,
        resource: ApiResource,
        namespace: Option<&str>,
        options: InformerOptions,
    ) -> Self {
        // Whatever form they come in: a dictionary would hold pieces of them.
        let secrets = resource.gvk.group.is_empty() && resource.plural == "secrets";
        let compression = if secrets { Compression::Off } else { options.compression };
        let indexer = Arc::new(Indexer::with_compression(resource.namespaced, compression));
        let fifo = Arc::new(DeltaFifo::new(options.queue_capacity));
        let reflector =
            Reflector::new(resource.gvr(), source, fifo.clone(), indexer.clone(), options.reflector);
        let inner = Inner {
            resource,
            namespace: namespace.map(str::to_owned),
            indexer,
            synced: fifo.synced(),
            fifo,
            shared: reflector.shared(),
            reflector: Mutex::new(Some(reflector)),
            processor: Mutex::default(),
            leaving: Mutex::default(),
            any_leaving: AtomicBool::new(false),
            resyncs_changed: Notify::new(),
            resyncs: AtomicU64::new(0),
            lists: watch::Sender::new(0),
            stopped: AtomicBool::new(false),
            ended: watch::Sender::new(false),
        };
        Self { inner: Arc::new(inner) }
    }

    /// What it watches.
    #[must_use]
    pub fn resource(&self) -> &ApiResource {
        &self.inner.resource
    }

    /// In which namespace; `None` for all.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.inner.namespace.as_deref()
    }

    /// Its store.
    #[must_use]
    pub fn indexer(&self) -> &Arc<Indexer> {
        &self.inner.indexer
    }

    /// A lister over its store.
    #[must_use]
    pub fn lister(&self) -> Lister {
        Lister::new(self.inner.indexer.clone())
    }

    /// Adds a listener. It is told at once, before this returns, of all that the store holds, as initial adds; then of
    /// every change. `resync`: how often it wants to be told of everything again (at least a second apart).
    ///
    /// # Errors
    /// When the informer has stopped, or from inside a listener's call.
    pub fn add_listener(
        &self,
        listener: Arc<dyn Listener>,
        resync: Option<Duration>,
    ) -> Result<Registration, CacheError> {
        let inner = &self.inner;
        let name = || inner.resource.gvr().to_string();
        if inner.is_calling() {
            return Err(CacheError::Reentrant(name()));
        }
        let mut processor = inner.processor.lock();
        if inner.stopped.load(Ordering::Acquire) {
            return Err(CacheError::Stopped(name()));
        }
        let (id, delivered) = processor.add(listener.clone(), resync);
        let registration = Registration::new(id, inner.clone(), listener, delivered, inner.ended.subscribe());
        inner.call(&mut processor, |processor, removed| {
            processor.replay(id, inner.indexer.snapshot().cursor(), removed);
            processor.end_replay(removed);
        });
        drop(processor);
        inner.resyncs_changed.notify_one();
        Ok(registration)
    }

    /// Runs the informer until it is cancelled; at most once.
    pub async fn run(&self, cancel: CancellationToken) {
        let Some(reflector) = self.inner.reflector.lock().take() else {
            tracing::warn!(resource = %self.inner.resource.gvr(), "the informer has been run before");
            return;
        };
        // Also when the run is dropped instead of cancelled.
        let _ending = Ending(&self.inner);
        let produce = async {
            tokio::select! {
                () = reflector.run(cancel) => {}
                () = self.inner.resync_when_due() => {}
                () = self.inner.detect_mutations() => {}
            }
            self.inner.fifo.close();
        };
        // Each is polled when it was woken itself: an event would else go through all of the reflector a second time.
        let both: [Pin<Box<dyn Future<Output = ()> + Send + '_>>; 2] =
            [Box::pin(produce), Box::pin(self.inner.handle_all())];
        both.into_iter().collect::<FuturesUnordered<_>>().collect::<()>().await;
    }

    /// Whether the first list is in the store and was told to the listeners.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.inner.fifo.has_synced()
    }

    /// Waits until the first list is in the store and was told to the listeners. `false`: it ended before.
    pub async fn wait_synced(&self) -> bool {
        let (mut synced, mut ended) = (self.inner.synced.clone(), self.inner.ended.subscribe());
        tokio::select! {
            biased;
            _ = synced.wait_for(|synced| *synced) => true,
            _ = ended.wait_for(|ended| *ended) => false,
        }
    }

    /// Whether the run has ended or is about to.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.inner.stopped.load(Ordering::Acquire)
    }

    /// Waits until the run has ended.
    pub(crate) async fn wait_ended(&self) {
        let _ = self.inner.ended.subscribe().wait_for(|ended| *ended).await;
    }

    // For those who follow it: the `Tap` and the `InformerSource`.

    /// Changes when a list is in the store, before any listener hears of it.
    pub(crate) fn lists(&self) -> watch::Receiver<u64> {
        self.inner.lists.subscribe()
    }

    /// Whether all lists that the reflector has handed on are in the store.
    pub(crate) fn are_lists_handled(&self) -> bool {
        *self.inner.lists.borrow() >= self.inner.fifo.lists_pushed()
    }

    /// Waits until all lists that the reflector has handed on by now are in the store.
    pub(crate) async fn wait_lists_handled(&self) {
        let pushed = self.inner.fifo.lists_pushed();
        let _ = self.lists().wait_for(|lists| *lists >= pushed).await;
    }

    /// The newest version that the reflector has handed on; nothing in the store is newer.
    pub(crate) fn pushed_version(&self) -> Arc<str> {
        self.inner.fifo.pushed_version()
    }

    /// The version up to which every listener has been told of everything.
    pub(crate) fn told_version(&self) -> Arc<str> {
        let _between_batches = self.inner.processor.lock();
        self.inner.indexer.resource_version()
    }

    /// How it fares.
    #[must_use]
    pub fn status(&self) -> InformerStatus {
        InformerStatus {
            resource: self.inner.resource.clone(),
            namespace: self.inner.namespace.clone(),
            objects: self.inner.indexer.len(),
            listeners: self.inner.processor.lock().len(),
            queued_deltas: self.inner.fifo.len(),
            stopped: self.is_stopped(),
            reflector: self.inner.shared.status(self.has_synced()),
        }
    }

    /// Makes it list again, at once if it is watching, and otherwise as soon as the server lets it. What the list shows
    /// in a version that is held already stays the object held.
    pub fn relist(&self) {
        self.inner.shared.ask_for_list();
    }

    /// Makes a resync due for all who ask for them; the queue.
    #[cfg(test)]
    pub(crate) fn force_resync(&self) -> Arc<DeltaFifo> {
        let far = Instant::now() + Duration::from_secs(1 << 30);
        self.inner.processor.lock().mark_due(far);
        self.inner.fifo.resync();
        self.inner.fifo.clone()
    }

    /// Its figures.
    #[must_use]
    pub fn metrics(&self) -> InformerMetrics {
        let inner = &self.inner;
        let processor = inner.processor.lock();
        InformerMetrics {
            informer_queued_items: inner.fifo.len(),
            informer_store_resource_version: inner.indexer.resource_version(),
            objects: inner.indexer.len(),
            listeners: processor.len(),
            listener_depth: processor.depth(),
            notifications_total: processor.notifications,
            listener_panics_total: processor.panics,
            resyncs_total: get(&inner.resyncs),
            ..inner.shared.metrics()
        }
    }
}

/// A list that is taken over at once; a larger one takes tens of milliseconds, and other tasks go on meanwhile.
const LARGE_LIST: usize = 10_000;

impl Inner {
    async fn handle_all(&self) {
        let mut maintenance: Option<JoinHandle<()>> = None;
        while let Some(work) = self.fifo.pop(DeltaFifo::BATCH).await {
            let initial = work.initial;
            let began = Instant::now();
            self.handle(work).await;
            self.shared.processing_latency.lock().observe(began.elapsed().as_secs_f64());
            self.fifo.done(initial);
            self.indexer.cool();
            if self.indexer.wants_maintenance() && maintenance.as_ref().is_none_or(JoinHandle::is_finished) {
                let indexer = self.indexer.clone();
                maintenance = Some(tokio::task::spawn_blocking(move || indexer.maintain()));
            }
            // A full queue must not keep the reflector, or other tasks, from running. One event must not cost a round of the
            // runtime more.
            if !self.fifo.is_empty() {
                tokio::task::yield_now().await;
            }
        }
        if let Some(maintenance) = maintenance {
            let _ = maintenance.await;
        }
    }

    /// Checks every second that no object was changed, where that is asked for.
    async fn detect_mutations(&self) {
        if !mutation_detector::is_on() {
            return std::future::pending().await;
        }
        let mut detector = MutationDetector::default();
        loop {
            sleep(mutation_detector::PERIOD).await;
            detector.check(&self.indexer);
        }
    }

    async fn handle(&self, work: Work) {
        let Work { kind, seen, initial } = work;
        let seen = seen.as_deref();
        match kind {
            WorkKind::Bookmark => {
                if let Some(version) = seen {
                    self.indexer.bookmark(version);
                }
            }
            WorkKind::Deltas(batch) => {
                let mut processor = self.processor.lock();
                let changes = self.indexer.apply_hot(batch, seen);
                self.tell(&mut processor, &changes, false, Audience::Resyncing);
            }
            WorkKind::Replace(list) => {
                let size = list.len();
                let mut processor = self.processor.lock();
                let unchanged = processor.wants_unchanged();
                let take_over = || {
                    let changes = self.indexer.replace_lazily(list, seen, unchanged);
                    self.lists.send_modify(|lists| *lists += 1);
                    self.call(&mut processor, |processor, removed| {
                        for change in changes {
                            processor.distribute(&change, initial, Audience::Resyncing, removed);
                        }
                        processor.end_initial_list(removed);
                    });
                };
                if size > LARGE_LIST { aside(take_over) } else { take_over() }
            }
            WorkKind::Resync => self.resync().await,
        }
    }

    /// Announces every object again to the listeners that are due, a batch at a time.
    async fn resync(&self) {
        if !self.processor.lock().begin_resync() {
            return;
        }
        count(&self.resyncs);
        for keys in self.indexer.keys().chunks(DeltaFifo::BATCH) {
            {
                let mut processor = self.processor.lock();
                // What is about to change is not announced in its old state.
                let pending = self.fifo.pending_keys();
                let calm = keys.iter().filter(|key| !pending.contains(*key));
                let changes = self.indexer.apply_hot(calm.map(|key| Delta::Sync(key.clone())), None);
                self.tell(&mut processor, &changes, false, Audience::Due);
            }
            tokio::task::yield_now().await;
        }
        self.processor.lock().end_resync();
    }

    /// Asks for resyncs when listeners are due.
    async fn resync_when_due(&self) {
        // Before that there is nothing to announce.
        let _ = self.fifo.synced().wait_for(|synced| *synced).await;
        loop {
            let next = self.processor.lock().next_resync();
            let due = async {
                match next {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.resyncs_changed.notified() => {}
                () = due => {
                    if self.processor.lock().mark_due(Instant::now()) {
                        self.fifo.resync();
                    }
                }
            }
        }
    }

    fn tell(&self, processor: &mut Processor, changes: &[Change], initial: bool, audience: Audience) {
        self.call(processor, |processor, removed| {
            for change in changes {
                processor.distribute(change, initial, audience, removed);
            }
        });
    }

    /// Calls listeners. A listener that removes itself, or another one, meanwhile is not called any more.
    fn call(&self, processor: &mut Processor, calls: impl FnOnce(&mut Processor, &dyn Fn(u64) -> bool)) {
        let outer = CALLING.replace(std::ptr::from_ref(self));
        let removed = |id| self.any_leaving.load(Ordering::Acquire) && self.leaving.lock().contains(&id);
        calls(processor, &removed);
        CALLING.set(outer);
        if self.any_leaving.swap(false, Ordering::AcqRel) {
            self.leaving.lock().drain(..).for_each(|id| processor.remove(id));
        }
    }

    fn is_calling(&self) -> bool {
        std::ptr::eq(CALLING.get(), self)
    }
}

impl Remove for Inner {
    fn remove_listener(&self, id: u64) {
        if self.is_calling() {
            // Our caller holds the processor: leave a note. It is the only thread that can.
            self.leaving.lock().push(id);
            self.any_leaving.store(true, Ordering::Release);
            return;
        }
        self.processor.lock().remove(id);
        self.resyncs_changed.notify_one();
    }
}

/// Marks the informer as ended when its run is over, however that came.
struct Ending<'a>(&'a Inner);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.fifo.close();
        // Under the lock, so that no listener joins an informer that will never call it.
        let processor = self.0.processor.lock();
        self.0.stopped.store(true, Ordering::Release);
        drop(processor);
        self.0.ended.send_replace(true);
    }
}

impl std::fmt::Debug for SharedInformer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedInformer")
            .field("resource", &self.inner.resource.gvr())
            .field("namespace", &self.inner.namespace)
            .field("synced", &self.has_synced())
            .finish_non_exhaustive()
    }
}
