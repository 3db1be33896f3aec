//! [`SharedInformerFactory`]: the informers of a process, one per resource and scope, for as long as somebody leases them.
//!
//! Invariants: an informer is in the table iff it has leases (so a lease's informer is always the one in the table); every task that was ever started is in the tracker until
//! it has ended. Informers run on the runtime that the factory was made in, so leases may be taken and dropped from
//! any thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pilothouse_client::{ApiResource, Client};
use pilothouse_object::Gvr;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::availability::Availability;
use crate::client_lister_watcher::ClientListerWatcher;
use crate::lease::InformerLease;
use crate::lister_watcher::ListerWatcher;
use crate::metrics::InformerMetrics;
use crate::shared_informer::{InformerOptions, InformerStatus, SharedInformer};

/// Makes the source of an informer: resource and namespace.
pub type SourceFn = Arc<dyn Fn(&ApiResource, Option<&str>) -> Arc<dyn ListerWatcher> + Send + Sync>;

/// What an informer watches, and where.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InformerId {
    /// The resource.
    pub resource: Gvr,
    /// The namespace; `None` for all.
    pub namespace: Option<String>,
}

/// How a factory's informers behave.
#[derive(Clone, Default)]
pub struct FactoryOptions {
    /// Of each informer; its `availability` is what they share.
    pub informer: InformerOptions,
}

/// The informers of a process; a cheap clone.
#[derive(Clone)]
pub struct SharedInformerFactory {
    informers: Arc<Informers>,
}

/// The table of informers, shared with the leases.
pub(crate) struct Informers {
    source: SourceFn,
    options: FactoryOptions,
    runtime: Handle,
    tasks: TaskTracker,
    /// Ends all informers.
    shutdown: CancellationToken,
    table: Mutex<BTreeMap<InformerId, Running>>,
}

struct Running {
    informer: SharedInformer,
    leases: usize,
    cancel: CancellationToken,
}

impl SharedInformerFactory {
    /// A factory whose informers get their objects from what `source` makes. Call it inside the runtime that the
    /// informers are to run on.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn new(source: SourceFn, options: FactoryOptions) -> Self {
        let informers = Informers {
            source,
            options,
            runtime: Handle::current(),
            tasks: TaskTracker::new(),
            shutdown: CancellationToken::new(),
            table: Mutex::default(),
        };
        Self { informers: Arc::new(informers) }
    }

    /// A factory whose informers list and watch through a client.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn for_client(client: Client, options: FactoryOptions) -> Self {
        let source = move |resource: &ApiResource, namespace: Option<&str>| {
            let source = ClientListerWatcher::new(client.clone(), resource.clone(), namespace);
            Arc::new(source) as Arc<dyn ListerWatcher>
        };
        Self::new(Arc::new(source), options)
    }

    /// A share in the informer of a resource, in one namespace or in all; the first one starts it. After
    /// [`shutdown`](Self::shutdown) it is one that has stopped.
    pub fn informer(&self, resource: &ApiResource, namespace: Option<&str>) -> InformerLease {
        let informers = &self.informers;
        // A cluster-scoped kind has one scope, whatever a caller narrows its other kinds to.
        let namespace = namespace.filter(|_| resource.namespaced);
        let id = InformerId { resource: resource.gvr(), namespace: namespace.map(str::to_owned) };
        let mut table = informers.table.lock();
        if let Some(running) = table.get_mut(&id) {
            running.leases += 1;
            return InformerLease::new(running.informer.clone(), id, informers.clone());
        }
        let source = (informers.source)(resource, namespace);
        let informer =
            SharedInformer::new(source, resource.clone(), namespace, informers.options.informer.clone());
        // A child: ended by the last lease or by the shutdown, whichever comes first.
        let cancel = informers.shutdown.child_token();
        let (run, token) = (informer.clone(), cancel.clone());
        informers.tasks.spawn_on(async move { run.run(token).await }, &informers.runtime);
        let running = Running { informer: informer.clone(), leases: 1, cancel };
        table.insert(id.clone(), running);
        drop(table);
        InformerLease::new(informer, id, informers.clone())
    }

    /// The informers that have leases, with how they fare.
    #[must_use]
    pub fn informers(&self) -> Vec<InformerStatus> {
        self.running().iter().map(|(_, informer)| informer.status()).collect()
    }

    /// The figures of the informers that have leases.
    #[must_use]
    pub fn metrics(&self) -> Vec<(InformerId, InformerMetrics)> {
        self.running().into_iter().map(|(id, informer)| (id, informer.metrics())).collect()
    }

    /// Whether the API server is there, as far as the informers know.
    #[must_use]
    pub fn availability(&self) -> &Arc<Availability> {
        &self.informers.options.informer.reflector.availability
    }

    /// Waits until every informer that has leases now is synced or has ended; which of them is synced.
    pub async fn wait_for_cache_sync(&self) -> BTreeMap<InformerId, bool> {
        let mut outcome = BTreeMap::new();
        for (id, informer) in self.running() {
            outcome.insert(id, informer.wait_synced().await);
        }
        outcome
    }

    /// Ends all informers and waits for their tasks. For good.
    pub async fn shutdown(&self) {
        self.informers.shutdown.cancel();
        self.informers.tasks.close();
        self.informers.tasks.wait().await;
    }

    /// Informer tasks that have not ended.
    #[must_use]
    pub fn task_count(&self) -> usize {
        self.informers.tasks.len()
    }

    fn running(&self) -> Vec<(InformerId, SharedInformer)> {
        let table = self.informers.table.lock();
        table.iter().map(|(id, running)| (id.clone(), running.informer.clone())).collect()
    }
}

impl Informers {
    pub(crate) fn share(&self, id: &InformerId) {
        if let Some(running) = self.table.lock().get_mut(id) {
            running.leases += 1;
        }
    }

    pub(crate) fn release(&self, id: &InformerId) {
        let mut table = self.table.lock();
        let Some(running) = table.get_mut(id) else { return };
        running.leases -= 1;
        if running.leases == 0 {
            let ended = table.remove(id);
            drop(table);
            // Its store is freed when the task has let go of it.
            ended.into_iter().for_each(|running| running.cancel.cancel());
        }
    }
}

impl std::fmt::Debug for SharedInformerFactory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedInformerFactory")
            .field("informers", &self.running().len())
            .finish_non_exhaustive()
    }
}
