//! [`SharedInformerFactory`]: the informers of a process, one for each resource and scope, shared by lease.
//!
//! What somebody leases runs as long as somebody leases it; with [`Start::Lazy`] from the next call of
//! [`SharedInformerFactory::start`]. Each user says which fields it needs; the store holds the union of what its users
//! ever asked for, and widening it lists again. While the informer of all namespaces of a resource has what one of a single
//! namespace needs, the latter follows it and has no watch of its own: its store, its listeners and its leases stay the
//! same ones (see `FactoryInformer`).
//!
//! Invariants: an informer is in the table iff it has leases; only an informer that has been started is followed. Tasks run on the runtime that the factory was made in, so leases may be taken
//! and dropped from any thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use parking_lot::Mutex;
use pilothouse_client::{ApiResource, Client};
use pilothouse_object::{Gvr, ObjectKey, Projection};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::availability::Availability;
use crate::factory_informer::FactoryInformer;
use crate::lease::InformerLease;
use crate::metrics::InformerMetrics;
use crate::shared_informer::{InformerOptions, InformerStatus, SharedInformer};
use crate::source::client_lister_watcher::ClientListerWatcher;
use crate::source::lister_watcher::ListerWatcher;
use crate::source::projected_source::ProjectedSource;

/// Makes the source of an informer: resource and namespace.
pub type SourceFn = Arc<dyn Fn(&ApiResource, Option<&str>) -> Arc<dyn ListerWatcher> + Send + Sync>;

/// Changes what the lists and watches of a resource select; client-go's `TweakListOptions`.
pub type TweakListOptions = Arc<dyn Fn(&ApiResource, &mut ListOptions) + Send + Sync>;

/// Changes the options of the informers of a resource: its transform, its resync period, its compression.
pub type TweakInformerOptions = Arc<dyn Fn(&ApiResource, &mut InformerOptions) + Send + Sync>;

/// What the lists and watches of an informer select.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Label selector in the API's text form; empty selects all.
    pub label_selector: String,
    /// Field selector in the API's text form; empty selects all.
    pub field_selector: String,
}

/// What an informer watches, and where.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InformerId {
    /// The resource.
    pub resource: Gvr,
    /// The namespace; `None` for all.
    pub namespace: Option<String>,
    /// The name of the only object, where the informer watches a single name; `None` for all names.
    pub name: Option<String>,
}

impl InformerId {
    /// All names of a resource, in one namespace or in all.
    #[must_use]
    pub fn new(resource: Gvr, namespace: Option<&str>) -> Self {
        Self { resource, namespace: namespace.map(str::to_owned), name: None }
    }

    /// Whether an object may be in both informers of a resource.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let meet = |a: &Option<String>, b: &Option<String>| a.is_none() || b.is_none() || a == b;
        meet(&self.namespace, &other.namespace) && meet(&self.name, &other.name)
    }

    /// Whether the informer may follow that of all namespaces. One of a single name may not: its store would get other names.
    fn may_follow(&self) -> bool {
        self.namespace.is_some() && self.name.is_none()
    }

    /// Whether the informer watches an object of this key.
    #[must_use]
    pub fn covers(&self, key: &ObjectKey) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| key.namespace() == Some(namespace))
            && self.name.as_deref().is_none_or(|name| key.name() == name)
    }
}

/// When an informer begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Start {
    /// With its first lease.
    #[default]
    AtOnce,
    /// With the next [`SharedInformerFactory::start`], as in client-go.
    Lazy,
}

/// How a factory and its informers behave.
#[derive(Clone, Default)]
pub struct FactoryOptions {
    /// Of each informer; its `availability` is what they share.
    pub informer: InformerOptions,
    /// Changes them for single resources; client-go's `WithCustomResyncConfig`, and a transform for each kind.
    pub tweak_informer_options: Option<TweakInformerOptions>,
    /// When informers begin.
    pub start: Start,
    /// The namespace of [`SharedInformerFactory::for_resource`]; `None` for all.
    pub namespace: Option<String>,
    /// What the informers select. Applies to the sources that the factory makes itself, those of
    /// [`SharedInformerFactory::for_client`].
    pub tweak_list_options: Option<TweakListOptions>,
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
    of: FactoryInformer,
    leases: usize,
    started: bool,
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
        let tweak = options.tweak_list_options.clone();
        let source = move |resource: &ApiResource, namespace: Option<&str>| {
            let mut selects = ListOptions::default();
            if let Some(tweak) = &tweak {
                tweak(resource, &mut selects);
            }
            let source = ClientListerWatcher::new(client.clone(), resource.clone(), namespace)
                .label_selector(selects.label_selector)
                .field_selector(selects.field_selector);
            Arc::new(source) as Arc<dyn ListerWatcher>
        };
        Self::new(Arc::new(source), options)
    }

    /// A share in the informer of a resource in the factory's namespace, with whole objects.
    pub fn for_resource(&self, resource: &ApiResource) -> InformerLease {
        self.informer(resource, self.informers.options.namespace.as_deref())
    }

    /// A share in the informer of a resource, in one namespace or in all, with whole objects. After
    /// [`shutdown`](Self::shutdown) it is one that has stopped.
    pub fn informer(&self, resource: &ApiResource, namespace: Option<&str>) -> InformerLease {
        self.projected_informer(resource, namespace, &Projection::full())
    }

    /// As [`informer`](Self::informer), with the metadata of the objects only. While nobody asks for more, nothing else
    /// is asked of the server (`PartialObjectMetadata`). The objects have the kind of the resource, and are partial.
    pub fn metadata_informer(&self, resource: &ApiResource, namespace: Option<&str>) -> InformerLease {
        self.projected_informer(resource, namespace, &Projection::metadata_only())
    }

    /// As [`informer`](Self::informer), with some fields of the objects. Its store has those fields and what other leases
    /// of the same informer ask for. When the informer runs with fewer fields already it lists again:
    /// [`InformerLease::wait_synced`] waits for that, so add listeners after it.
    pub fn projected_informer(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        projection: &Projection,
    ) -> InformerLease {
        self.lease(resource, InformerId::new(resource.gvr(), namespace), projection)
    }

    /// As [`projected_informer`](Self::projected_informer), of a single name: the field selector `metadata.name` goes to the
    /// server, so permission for that name is enough. It has a watch of its own, beside any wider informer.
    pub fn named_informer(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        projection: &Projection,
    ) -> InformerLease {
        let id = InformerId { name: Some(name.to_owned()), ..InformerId::new(resource.gvr(), namespace) };
        self.lease(resource, id, projection)
    }

    fn lease(&self, resource: &ApiResource, mut id: InformerId, projection: &Projection) -> InformerLease {
        let informers = &self.informers;
        // A cluster-scoped kind has one scope, whatever a caller narrows its other kinds to.
        id.namespace = id.namespace.filter(|_| resource.namespaced);
        let mut table = informers.table.lock();
        if let Some(running) = table.get_mut(&id) {
            running.leases += 1;
            let of = running.of.clone();
            if !of.source.projection().covers(projection) && id.may_follow() {
                // Before it is widened: what it follows may have fewer fields than it is to list.
                of.follow(None);
            }
            let (generation, widened) = of.source.widen(projection);
            if widened {
                of.informer.relist();
            }
            informers.route(&table, &id.resource);
            return InformerLease::new(of, generation, id, informers.clone());
        }
        let namespace = id.namespace.as_deref();
        let server = (informers.source)(resource, namespace);
        let source = ProjectedSource::new(server, resource.clone(), id.name.as_deref(), projection.clone());
        let mut options = informers.options.informer.clone();
        if let Some(tweak) = &informers.options.tweak_informer_options {
            tweak(resource, &mut options);
        }
        let informer =
            SharedInformer::new(Arc::new(Arc::clone(&source)), resource.clone(), namespace, options);
        // A child: ended by the last lease or by the shutdown, whichever comes first.
        let cancel = informers.shutdown.child_token();
        let generation = source.generation();
        let of = FactoryInformer::new(informer, source);
        let mut running = Running { of: of.clone(), leases: 1, started: false, cancel };
        // One that can only end does so.
        if informers.options.start == Start::AtOnce || informers.shutdown.is_cancelled() {
            informers.run(&mut running);
        }
        table.insert(id.clone(), running);
        informers.route(&table, &id.resource);
        InformerLease::new(of, generation, id, informers.clone())
    }

    /// Starts the informers that have not been started; those of [`Start::AtOnce`] have been. Idempotent.
    pub fn start(&self) {
        self.informers.start();
    }

    /// The informers that have leases, with how they fare.
    #[must_use]
    pub fn informers(&self) -> Vec<(InformerId, InformerStatus)> {
        self.running(|_| true).into_iter().map(|(id, of)| (id, of.informer.status())).collect()
    }

    /// The figures of the informers that have leases.
    #[must_use]
    pub fn metrics(&self) -> Vec<(InformerId, InformerMetrics)> {
        self.running(|_| true).into_iter().map(|(id, of)| (id, of.informer.metrics())).collect()
    }

    /// Whether the API server is there, as far as the informers know.
    #[must_use]
    pub fn availability(&self) -> &Arc<Availability> {
        &self.informers.options.informer.reflector.availability
    }

    /// Waits until every informer that has leases now, and has been started, is synced or has ended; which of them is
    /// synced.
    pub async fn wait_for_cache_sync(&self) -> BTreeMap<InformerId, bool> {
        let informers = self.running(|running| running.started);
        let waits = informers.into_iter().map(async |(id, of)| (id, of.informer.wait_synced().await));
        join_all(waits).await.into_iter().collect()
    }

    /// Ends all informers and waits for their tasks. For good.
    pub async fn shutdown(&self) {
        self.informers.shutdown.cancel();
        // Those that have not run end like the others, so that nobody waits for them.
        self.informers.start();
        self.informers.tasks.close();
        self.informers.tasks.wait().await;
    }

    /// Informer tasks that have not ended.
    #[must_use]
    pub fn task_count(&self) -> usize {
        self.informers.tasks.len()
    }

    fn running(&self, which: impl Fn(&Running) -> bool) -> Vec<(InformerId, FactoryInformer)> {
        let table = self.informers.table.lock();
        let wanted = table.iter().filter(|(_, running)| which(running));
        wanted.map(|(id, running)| (id.clone(), running.of.clone())).collect()
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
            self.route(&table, &id.resource);
            drop(table);
            // Its store is freed when the task has let go of it.
            ended.into_iter().for_each(|running| running.cancel.cancel());
        }
    }

    fn start(&self) {
        let mut table = self.table.lock();
        let mut started = Vec::new();
        for (id, running) in table.iter_mut().filter(|(_, running)| !running.started) {
            self.run(running);
            started.push(id.resource.clone());
        }
        started.iter().for_each(|resource| self.route(&table, resource));
    }

    fn run(&self, running: &mut Running) {
        running.started = true;
        let (of, token) = (running.of.clone(), running.cancel.clone());
        self.tasks.spawn_on(async move { of.informer.counted(of.run(token)).await }, &self.runtime);
    }

    /// Lets the informers of single namespaces follow the one of all, where there is one.
    fn route(&self, table: &BTreeMap<InformerId, Running>, resource: &Gvr) {
        let all = InformerId::new(resource.clone(), None);
        let wide = table.get(&all).filter(|running| running.started).map(|running| &running.of);
        let of_resource = table.range(&all..).take_while(|(id, _)| id.resource == *resource);
        for (_, narrow) in of_resource.filter(|(id, _)| id.may_follow()) {
            narrow.of.follow(wide);
        }
    }
}

impl std::fmt::Debug for SharedInformerFactory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedInformerFactory")
            .field("informers", &self.running(|_| true).len())
            .finish_non_exhaustive()
    }
}
