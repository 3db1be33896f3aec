//! [`SharedInformer`]: one watch and one store of a kind, for all who listen to it.
//!
//! Each piece of work from the queue is handled under one lock (`work`): the store is changed, then the listeners are called
//! in turn. Joining and leaving take the same lock, so both fall between two pieces of work, or between two slices of the
//! calls for one, and neither misses nor repeats an event.
//!
//! A run consists of *pipelines*: a reflector, its queue, and the handling of its work. Usually there is one. A pipeline
//! that panics is replaced by another one, which lists again; the store and the listeners stay. While an informer follows
//! another one (`follow`) it has no pipeline.
//!
//! Leased from the `SharedInformerFactory`, which runs it; or made and run by hand.

mod follow;
mod portion;
mod work;

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use parking_lot::Mutex;
use pilothouse_client::ApiResource;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::delta_fifo::DeltaFifo;
use crate::error::CacheError;
use crate::followers::Followers;
use crate::indexer::Indexer;
use crate::listener::Listener;
use crate::lister::Lister;
use crate::metrics::{Histogram, InformerMetrics};
use crate::packing::Compression;
use crate::poll_clock::timed;
use crate::processor::{Figures, NewMember, Processor};
use crate::reflector::{Reflector, ReflectorOptions, ReflectorStatus, Shared, count, get};
use crate::registration::Registration;
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
    /// The resync period of listeners that name none; `None` for never.
    pub resync: Option<Duration>,
}

impl Default for InformerOptions {
    fn default() -> Self {
        Self {
            reflector: ReflectorOptions::default(),
            queue_capacity: DeltaFifo::DEFAULT_CAPACITY,
            compression: Compression::default(),
            resync: None,
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
    /// How often a panic ended its work, and it began anew with a list.
    pub restarts: u64,
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
    source: Arc<dyn ListerWatcher>,
    reflector_options: ReflectorOptions,
    queue_capacity: usize,
    default_resync: Option<Duration>,
    indexer: Arc<Indexer>,
    queue: Mutex<Queue>,
    shared: Arc<Shared>,
    /// Held while work is handled: client-go's `blockDeltas`.
    processor: Mutex<Processor>,
    /// The figures of the last read that found the processor unlocked.
    last_figures: Mutex<Figures>,
    /// Informers that this one keeps up to date; locked with `processor` held.
    followers: Mutex<Followers<Inner>>,
    /// The informer that keeps this one up to date.
    followed: Mutex<Option<SharedInformer>>,
    next_listener: AtomicU64,
    deferred: Mutex<Deferred>,
    /// Whether listeners are leaving: it is read for each call, without a lock.
    any_leaving: AtomicBool,
    resyncs_changed: Notify,
    resyncs: AtomicU64,
    /// Wakes the run for listeners that have more initial objects to come than `add_listener` delivers.
    replays: Notify,
    /// Pipelines that panicked.
    restarts: AtomicU64,
    wakeups: AtomicU64,
    long_polls: Mutex<Histogram>,
    /// Lists that are in the store; counted before any listener is called for one.
    lists: watch::Sender<u64>,
    begun: AtomicBool,
    stopped: AtomicBool,
    synced: watch::Sender<bool>,
    ended: watch::Sender<bool>,
}

/// Listeners that join and leave from inside a call of a listener, which must not wait for the processor: the thread that
/// has it locked may wait for one that this thread has locked.
#[derive(Default)]
struct Deferred {
    joining: Vec<NewMember>,
    leaving: Vec<u64>,
}

/// The queue of the present pipeline, or of the last one.
struct Queue {
    fifo: Arc<DeltaFifo>,
    /// Lists that were in the store before the first of this queue.
    lists_before: u64,
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
        let cluster = options.reflector.cluster.clone();
        let inner = Inner {
            shared: Arc::new(Shared::new(cluster.clone())),
            processor: Mutex::new(Processor::new(resource.gvr(), cluster)),
            resource,
            namespace: namespace.map(str::to_owned),
            source,
            reflector_options: options.reflector,
            queue_capacity: options.queue_capacity,
            default_resync: options.resync,
            indexer,
            queue: Mutex::new(Queue {
                fifo: Arc::new(DeltaFifo::new(options.queue_capacity)),
                lists_before: 0,
            }),
            last_figures: Mutex::default(),
            followers: Mutex::default(),
            followed: Mutex::default(),
            next_listener: AtomicU64::new(0),
            deferred: Mutex::default(),
            any_leaving: AtomicBool::new(false),
            resyncs_changed: Notify::new(),
            resyncs: AtomicU64::new(0),
            replays: Notify::new(),
            restarts: AtomicU64::new(0),
            wakeups: AtomicU64::new(0),
            long_polls: Mutex::new(Histogram::new(Histogram::POLL_SECONDS)),
            lists: watch::Sender::new(0),
            begun: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            synced: watch::Sender::new(false),
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

    /// Adds a listener. It gets all objects of the store as initial adds, then every change: the first thousand objects
    /// before this returns, more from the task of the informer. [`Registration::wait_synced`] waits for all. From inside a
    /// call of another informer's listener this does not wait while this informer is busy: the task of the informer then
    /// delivers all objects. `resync`: how often it wants to get everything again (at least a second apart); `None` for the
    /// period of the informer's options, zero for never.
    ///
    /// # Errors
    /// When the informer has stopped, or from inside a call of a listener of this informer.
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
        let locked =
            if work::is_in_call() { inner.processor.try_lock() } else { Some(inner.lock_processor()) };
        if inner.stopped.load(Ordering::Acquire) {
            return Err(CacheError::Stopped(name()));
        }
        let id = inner.next_listener.fetch_add(1, Ordering::Relaxed);
        let (delivered, is_delivered) = watch::channel(false);
        let resync = resync.or(inner.default_resync);
        let new = NewMember { id, listener: listener.clone(), resync, delivered };
        let registration =
            Registration::new(id, inner.clone(), listener, is_delivered, inner.ended.subscribe());
        let more = match locked {
            Some(mut processor) => {
                processor.add(new, &inner.indexer.snapshot());
                inner.call(&mut processor, Processor::replay_to_last)
            }
            None => {
                inner.deferred.lock().joining.push(new);
                true
            }
        };
        if more {
            inner.replays.notify_one();
        }
        inner.resyncs_changed.notify_one();
        Ok(registration)
    }

    /// Runs the informer until it is cancelled; at most once.
    pub async fn run(&self, cancel: CancellationToken) {
        if let Some(_ending) = self.begin() {
            self.run_own(false, cancel).await;
        }
    }

    /// Counts how often a run is polled, and measures long polls.
    pub(crate) async fn counted(&self, run: impl Future<Output = ()>) {
        let mut run = std::pin::pin!(run);
        std::future::poll_fn(|context| {
            count(&self.inner.wakeups);
            let long = |time: Duration| self.inner.long_polls.lock().observe(time.as_secs_f64());
            timed(|| run.as_mut().poll(context), long)
        })
        .await;
    }

    /// Begins the only run; it has ended when the guard is dropped.
    pub(crate) fn begin(&self) -> Option<Ending> {
        if self.inner.begun.swap(true, Ordering::AcqRel) {
            tracing::warn!(event = "informer_run_twice", cluster = self.inner.shared.cluster(), resource = %self.inner.resource.gvr(),
                "the informer has been run before");
            return None;
        }
        Some(Ending(self.inner.clone()))
    }

    /// Lists and watches until cancelled, and handles what was read. `resume`: the store is complete, so the first
    /// pipeline goes on with a watch from its version. A pipeline that panics is replaced by one that lists.
    pub(crate) async fn run_own(&self, mut resume: bool, cancel: CancellationToken) {
        let inner = &self.inner;
        let mut backoff = Backoff::reflector();
        loop {
            let pipeline = AssertUnwindSafe(inner.run_pipeline(resume, cancel.clone()));
            if pipeline.catch_unwind().await.is_ok() {
                return;
            }
            resume = false;
            if cancel.run_until_cancelled(sleep(self.panicked(&mut backoff))).await.is_none() {
                return;
            }
        }
    }

    /// Counts and logs a panic of the informer. Returns the pause before it lists again.
    pub(crate) fn panicked(&self, backoff: &mut Backoff) -> Duration {
        let inner = &self.inner;
        count(&inner.restarts);
        backoff.success();
        let pause = backoff.failure();
        tracing::error!(event = "informer_panicked", cluster = inner.shared.cluster(), resource = %inner.resource.gvr(),
            namespace = inner.namespace, ?pause, "an informer panicked (see above); it lists again after a pause");
        pause
    }

    /// Whether the first list is in the store and was told to the listeners.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        *self.inner.synced.borrow()
    }

    /// Waits until the first list is in the store and was told to the listeners. `false`: it ended before.
    pub async fn wait_synced(&self) -> bool {
        let (mut synced, mut ended) = (self.inner.synced.subscribe(), self.inner.ended.subscribe());
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

    /// Whether all lists that the reflector has passed on are in the store.
    pub(crate) fn are_lists_handled(&self) -> bool {
        *self.inner.lists.borrow() >= self.inner.queue.lock().lists_pushed()
    }

    /// Waits until all lists that the reflector has passed on by now are in the store.
    pub(crate) async fn wait_lists_handled(&self) {
        let pushed = self.inner.queue.lock().lists_pushed();
        let _ = self.inner.lists.subscribe().wait_for(|lists| *lists >= pushed).await;
    }

    /// Whether a list was asked for and none has come since.
    pub(crate) fn is_list_wanted(&self) -> bool {
        self.inner.shared.list_wanted.load(Ordering::Relaxed)
    }

    /// The informer that keeps this one up to date.
    pub(crate) fn followed(&self) -> Option<SharedInformer> {
        self.inner.followed.lock().clone()
    }

    /// The state of the informer. One that follows another one has that one's reflector.
    #[must_use]
    pub fn status(&self) -> InformerStatus {
        let reads = self.followed();
        InformerStatus {
            resource: self.inner.resource.clone(),
            namespace: self.inner.namespace.clone(),
            objects: self.inner.indexer.len(),
            listeners: self.inner.figures().listeners,
            queued_deltas: self.inner.queue.lock().fifo.len(),
            stopped: self.is_stopped(),
            restarts: get(&self.inner.restarts),
            reflector: reads.as_ref().unwrap_or(self).inner.shared.status(self.has_synced()),
        }
    }

    /// Whether all that it was told of is in its store and the listeners were called for it. Of what a server has sent and
    /// it has not read, this knows nothing: look first at what [`Indexer::has_seen`].
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        // In the order in which a change goes; work that was taken from the queue is in the store when the processor is free.
        self.inner.queue.lock().fifo.is_empty() && self.inner.lock_processor().is_at_rest()
    }

    /// Makes it list again, at once if it is watching, and otherwise as soon as the server lets it. What the list shows
    /// in a version that is held already stays the object held.
    pub fn relist(&self) {
        self.inner.shared.ask_for_list();
    }

    /// Makes a resync due for all listeners that have a period; the queue.
    #[cfg(test)]
    pub(crate) fn force_resync(&self) -> Arc<DeltaFifo> {
        let far = tokio::time::Instant::now() + Duration::from_secs(1 << 30);
        self.inner.processor.lock().mark_due(far);
        let fifo = self.inner.queue.lock().fifo.clone();
        fifo.resync();
        fifo
    }

    /// The metrics of the informer. While it handles changes, those of its listeners are the ones from before.
    #[must_use]
    pub fn metrics(&self) -> InformerMetrics {
        let inner = &self.inner;
        let figures = inner.figures();
        InformerMetrics {
            informer_queued_items: inner.queue.lock().fifo.len(),
            informer_store_resource_version: inner.indexer.resource_version(),
            informer_restarts_total: get(&inner.restarts),
            informer_wakeups_total: get(&inner.wakeups),
            informer_long_polls_seconds: inner.long_polls.lock().clone(),
            objects: inner.indexer.len(),
            listeners: figures.listeners,
            listener_depth: figures.depth,
            notifications_total: figures.notifications,
            listener_panics_total: figures.panics,
            resyncs_total: get(&inner.resyncs),
            ..inner.shared.metrics()
        }
    }
}

impl Queue {
    fn lists_pushed(&self) -> u64 {
        self.lists_before + self.fifo.lists_pushed()
    }
}

impl Inner {
    async fn run_pipeline(self: &Arc<Self>, resume: bool, cancel: CancellationToken) {
        let fifo = Arc::new(DeltaFifo::new(self.queue_capacity));
        let lists_before = *self.lists.borrow();
        *self.queue.lock() = Queue { fifo: fifo.clone(), lists_before };
        let version = self.indexer.resource_version();
        let mut options = self.reflector_options.clone();
        if !version.is_empty() {
            options.not_older_than = Some(version.to_string());
        }
        let reflector = Reflector::new(
            self.resource.gvr(),
            self.source.clone(),
            fifo.clone(),
            self.indexer.clone(),
            options,
        )
        .with_shared(self.shared.clone());
        let reflector = if resume { reflector.resume_at(&version) } else { reflector };
        let produce = async {
            tokio::select! {
                () = reflector.run(cancel) => {}
                () = self.run_background() => {}
            }
            fifo.close();
        };
        // Each is polled when it was woken itself: an event would else go through all of the reflector a second time.
        let both: [Pin<Box<dyn Future<Output = ()> + Send + '_>>; 2] =
            [Box::pin(produce), Box::pin(self.handle_all(&fifo))];
        both.into_iter().collect::<FuturesUnordered<_>>().collect::<()>().await;
    }
}

/// Marks the informer as ended when its run is over, also when that is dropped.
pub(crate) struct Ending(Arc<Inner>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.queue.lock().fifo.close();
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
